//! The operating system of the simulation.
//!
//! The product is not built differently for the simulation, and knows nothing of it. The program
//! around it defines some functions of the C library itself, and the linker prefers these
//! definitions. Rust, SQLite and rustix reach files, threads, time and randomness by them. A real
//! system still runs underneath. The seed decides only about facts that a real system never lets a
//! program decide:
//!
//! | module | decided by the seed |
//! |---|---|
//! | [`threads`] | the running thread; exactly one runs |
//! | [`files`] | the content of the disk after a crash, and the sync that fails |
//! | [`clock`] | the time |
//! | [`entropy`] | random numbers |
//!
//! [`trace`] records the events. Before [`begin`], and in threads that were started before it,
//! calls go to the C library.

#![allow(
    unsafe_code,
    reason = "the C library's functions are defined and called here"
)]

pub(crate) mod clock;
pub(crate) mod entropy;
pub(crate) mod files;
mod real;
pub(crate) mod threads;
pub(crate) mod trace;

/// Takes the calling thread, and all that it starts from now on, into the simulation.
pub(crate) fn begin(seed: u64) {
    entropy::begin(seed);
    clock::begin();
    threads::begin(seed);
}
