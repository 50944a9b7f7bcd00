//! The in-memory implementations, the decorators and the sweep.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fault;
mod memory;
mod room;
mod samples;
mod sweep;
