//! Uploads files by Google's media upload protocol, and continues uploads that were interrupted.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use windlass_client::{Client, Journal, Settings, Source, Upload};
//!
//! let client = Client::new(Settings::default())?;
//! let upload = Upload::new("http://127.0.0.1:8080/upload/farm/v1/animals".parse()?)?
//!     .content_type("image/jpeg")?
//!     .metadata(&json!({"name": "Llama"}))?
//!     .journal(Journal::open("uploads")?)
//!     .on_progress(|progress| println!("{} bytes are committed", progress.committed));
//! let uploaded = client.upload(upload, Source::path("cow.jpg")).await?;
//! println!("{:?}", uploaded.resource);
//! # Ok(())
//! # }
//! ```
//!
//! An [`Upload`] describes the target and the options, a [`Source`] provides the media, and a
//! [`Client`] performs the upload. Small media is sent in one request. Larger media is sent in a
//! resumable session, which survives broken connections, overload, lost replies and lost sessions.
//! With a [`Journal`], an upload also survives the end of the process. At the end the size and
//! checksums that the server states are compared with those of the sent media. [`Download`]
//! downloads media into a file, and continues an interrupted download as well.
//!
//! *Committed* bytes are those that the server has stored durably and has reported as such. They
//! are never sent again, unless the server loses them. When all bytes are committed, the server
//! replies with a *resource*: a JSON object that describes the stored media.
//!
//! [`windlass_proto::transfer`] decides which request is sent next, without I/O. It follows the
//! rules of Google's documents (docs/protocol.md, 5).

use std::time::SystemTime;

mod checksum;
mod client;
mod download;
mod error;
mod journal;
mod progress;
mod session_uri;
mod source;
mod token;
pub mod transport;
mod upload;
mod upload_loop;

pub use checksum::{Mismatch, Verified};
pub use client::{Client, Settings, Status};
pub use download::{Download, DownloadError, DownloadProgress, Downloaded};
pub use error::{Error, Kind};
pub use journal::{
    Damage, Entry, InvalidRecordId, Journal, JournalError, LockedRecord, NewRecord, Record,
    RecordId, UploadKey,
};
pub use progress::{Progress, RateLimit, State};
pub use session_uri::{InvalidSessionUri, SessionUri};
pub use source::{Change, Source, SourceError, SourceIdentity};
pub use token::{InvalidTokenSource, TokenError, TokenSource};
pub use transport::Timeouts;
pub use upload::{HttpMethod, Upload, Uploaded};
pub use windlass_proto::backoff::Schedule;
pub use windlass_proto::digest::Crc32c;
pub use windlass_proto::transfer::{
    Cause, ChunkSize, Chunking, Failure, Refusal, RetryPolicy, Wait,
};
pub use windlass_proto::upload_type::UploadType;

/// Returns the time of day. Waits use tokio's clock instead, which tests control.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns 32 random bits.
fn random() -> u32 {
    getrandom::u32().expect("the system has random numbers")
}
