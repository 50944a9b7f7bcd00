//! Tests of the vault over an object store in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
mod failures;
mod flaky;
