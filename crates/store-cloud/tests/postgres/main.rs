//! Tests of the ledger on a real server, which `tests/postgres/run` starts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod broken;
mod conformance;
mod database;
mod deadlines;
mod open;
mod proxy;
mod replicas;
mod sample;
mod statements;
