//! The in-memory implementations, the decorators and the sweep.

mod fault;
mod memory;
mod samples;
mod sweep;
