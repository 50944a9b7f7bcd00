//! The local store against the rules of its contracts, over restarts, and against a model.

mod conformance;
mod directory;
mod model;
mod open;
mod uploads;
