//! The whole server, tested over real sockets by peers that send exact bytes.
//!
//! The name of a test states its rule. The modules follow the life of an upload: start, append, finish;
//! then the use of the result; then hostile and unlucky clients. In `client`, the binary is client and
//! server.

mod animals;
mod append;
mod architecture;
mod audit;
mod authentication;
mod bad_line;
mod batch;
mod cancel;
mod checksums;
mod chunk_size;
mod client;
mod compose;
mod content_range;
mod contract;
mod cors;
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
mod metrics;
mod multipart;
mod nonsense;
mod patience;
mod photos_library;
mod preconditions;
mod query;
mod restart;
mod routes;
mod secrets;
mod server;
mod simple;
mod size_limit;
mod slow;
mod standard_parameters;
mod start;
mod stored_gzip;
mod takeover;
mod tls;
mod tokens;
mod upkeep;
mod x_goog_clients;
mod x_goog_upload;
