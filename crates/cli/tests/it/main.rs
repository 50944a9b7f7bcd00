//! The whole server, driven over real sockets by peers that send exact bytes.
//!
//! Each test's name states the rule that it proves. The rooms follow the life of an upload: how it
//! starts, how bytes are appended, how it ends; then what a client may do with the result; then what
//! a hostile or unlucky client may do. In `client` the binary is on both sides.

mod animals;
mod append;
mod architecture;
mod bad_line;
mod cancel;
mod checksums;
mod chunk_size;
mod client;
mod content_range;
mod contract;
mod cut;
mod discovery;
mod download;
mod error_object;
mod expiry;
mod finished;
mod framing;
mod full_disk;
mod gzip;
mod held;
mod hosts;
mod http2;
mod kill;
mod memory;
mod multipart;
mod nonsense;
mod patience;
mod preconditions;
mod query;
mod restart;
mod routes;
mod server;
mod simple;
mod size_limit;
mod slow;
mod standard_parameters;
mod start;
mod takeover;
mod tls;
mod upkeep;
