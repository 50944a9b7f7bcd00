//! A real transfer against a model server that consists of the server side of the protocol, in one
//! thread, with simulated time and a schedule of faults.
//!
//! Half of the schedules run in Google's dialect. In the second half, the transfer's requests are
//! written and the replies are read as the clients of `X-Goog-Upload` do it
//! (`client::x_goog_upload`). That half tests the server's side of that dialect.
//!
//! A failing schedule is printed after shrinking; added to `examples`, it runs by itself.
//! `PROPTEST_RNG_SEED=1` makes the cases of a run reproducible.

mod client;
mod examples;
mod fault;
mod media;
mod oracle;
mod properties;
mod schedule;
mod server;
mod simulation;
