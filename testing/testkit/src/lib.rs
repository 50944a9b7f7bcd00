//! Test helpers that the tests of more than one crate need.
//!
//! A peer here uses no HTTP library. It writes the bytes of a test and shows the received bytes, so
//! that a test states the bytes on the wire and not a library's view of them. Without a wire, in
//! [`in_process`], requests and replies have the types of the crate `http`. No crate of the product
//! is a dependency.

pub mod acme;
pub mod alone;
pub mod checker;
pub mod cleanup;
pub mod directory;
pub mod encodings;
pub mod error_object;
pub mod exposition;
pub mod farm;
pub mod fault_proxy;
pub mod http2;
pub mod images;
pub mod in_process;
pub mod media;
pub mod oracle;
pub mod process;
pub mod raw;
pub mod rng;
pub mod session;
pub mod skip;
pub mod strace;
pub mod test_scale;
pub mod tls;
pub mod wait;
pub mod zip;
