//! The local store against the rules of its contracts, over restarts, and against a model.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backup;
mod conformance;
mod directory;
mod model;
mod open;
mod sample;
mod uploads;
mod verify;
