//! A real transfer against a model server that is made of the server side of the protocol alone: both
//! ends in one thread, with made-up time and a schedule of faults.
//!
//! A schedule that fails is printed as small as it could be made; put into `examples` it is run for
//! itself. `PROPTEST_RNG_SEED=1` makes the cases of a run the same every time.

mod client;
mod examples;
mod fault;
mod media;
mod pair;
mod schedule;
mod server;
mod trouble;
mod witness;
