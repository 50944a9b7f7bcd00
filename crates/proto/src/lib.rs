//! Google's media upload protocol as pure state machines: parsing and decisions, no I/O.
//!
//! The crate serves both sides of the protocol. A server decides with it how a session handles a
//! request:
//!
//! ```
//! use windlass_proto::command::{BodyLength, SessionAction, SessionRequest};
//! use windlass_proto::content_range::ContentRange;
//! use windlass_proto::session::{Rules, Snapshot, State, Step, step};
//!
//! // 256 KiB of 300,000 bytes are committed when a query arrives.
//! let session = Snapshot { state: State::Active, offset: 262_144, total: Some(300_000) };
//! let request = SessionRequest {
//!     action: SessionAction::Ranged(ContentRange::parse(b"bytes */300000").map(Some)),
//!     body: BodyLength::Exact(0),
//! };
//! let Ok(Step::Report) = step(&session, &Rules::default(), &request) else { panic!() };
//! ```
//!
//! On the server's side, a request head becomes a [`Command`](command::Command). A command on a
//! session and the stored [`Snapshot`](session::Snapshot) of the session become a
//! [`Step`](session::Step). For a request with data the step holds a
//! [`BodyFilter`](session::BodyFilter), which decides for every byte of the body whether it is
//! stored, skipped or refused. Invalid requests are [`ProtocolError`](error::ProtocolError)s. A
//! [`Dialect`](dialect::Dialect) reads the heads of requests and writes the heads of replies,
//! errors included.
//!
//! On the client's side, a [`Transfer`](transfer::Transfer) decides which request follows which
//! reply, including retries.
//!
//! No function waits, reads a clock, draws a random number or opens a file, and none panics
//! because of received data.

pub mod backoff;
pub mod batch;
pub mod body_digests;
pub mod command;
pub mod concat;
pub mod content_range;
pub mod dialect;
pub mod digest_fields;
pub mod error;
pub mod expected_digests;
pub mod header;
pub mod metadata;
pub mod parameters;
pub mod related;
pub mod reply;
pub mod transfer;
pub mod upload_command;
pub mod upload_type;

/// The state machine of an upload session.
pub use windlass_session as session;
