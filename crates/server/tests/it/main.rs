//! The whole server in one process, without a socket: requests in, replies out.

mod batches;
mod concatenations;
mod dialects;
mod embedding;
mod failures;
mod faults;
mod fenced;
mod generic;
mod gzip;
mod interrupted;
mod kinds;
mod lives;
mod masked;
mod metrics;
mod model;
mod outages;
mod outbox;
mod owners;
mod panics;
mod pauses;
mod power;
mod rotten;
mod swept;
mod syncs;
mod warm;
mod world;
