//! The media upload protocol as a server speaks it, without I/O.
//!
//! A request head becomes a [`Command`](command::Command); a command on a session and what is known
//! of that session become a [`Step`](session::Step); a step that takes bytes hands out an
//! [`BodyFilter`](session::BodyFilter), which says of every byte whether it is stored, skipped or refused.
//! What is answered in the protocol's own terms is made in [`reply`]; everything that can be wrong
//! with a request is a [`ProtocolError`](error::ProtocolError).
//!
//! Nothing here waits, reads a clock, draws a random number or opens anything, and no function
//! panics on what a client sends. Statuses of errors are chosen by the server, in one table.
//!
//! ```
//! use windlass_proto::command::{BodyLength, SessionRequest};
//! use windlass_proto::content_range::ContentRange;
//! use windlass_proto::session::{Rules, Snapshot, State, Step, step};
//!
//! let session = Snapshot { state: State::Active, offset: 262_144, total: Some(300_000) };
//! let request = SessionRequest {
//!     content_range: ContentRange::parse(b"bytes */300000").map(Some),
//!     body: BodyLength::Exact(0),
//! };
//! assert!(matches!(step(&session, &Rules::default(), &request), Ok(Step::Report)));
//! ```

pub mod backoff;
pub mod command;
pub mod content_range;
pub mod digest;
pub mod error;
pub mod header;
pub mod metadata;
pub mod parameters;
pub mod related;
pub mod reply;
pub mod session;
pub mod transfer;
pub mod upload_type;
