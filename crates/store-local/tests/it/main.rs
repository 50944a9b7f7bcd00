//! Tests of the local store: against its contracts, across restarts, and against a model.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backup;
mod conformance;
mod directory;
mod model;
mod open;
mod recorder;
mod sample;
mod upgrade;
mod uploads;
mod verify;
