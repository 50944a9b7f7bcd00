//! Uploads files by Google's media upload protocol, by tus or by the IETF's draft, and continues
//! uploads that were interrupted.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use windlass_client::{Client, Journal, Source, Upload};
//!
//! let client = Client::builder().build()?;
//! let upload = Upload::new("http://127.0.0.1:8080/upload/farm/v1/animals".parse()?)?
//!     .content_type("image/jpeg")?
//!     .metadata(&json!({"name": "Llama"}))?
//!     .journal(Journal::open("uploads")?)
//!     .on_progress(|now| println!("{} bytes sent, {} committed", now.sent, now.committed));
//! let uploaded = client.upload(upload, Source::path("cow.jpg")).await?;
//! println!("{:?}", uploaded.resource);
//! # Ok(())
//! # }
//! ```
//!
//! An [`Upload`] holds the URL, the metadata and the options of an upload. A [`Source`] provides
//! the media. A [`Client`] performs the upload.
//!
//! By default, media of up to 5 MiB is sent in a single request. Larger media is sent to a
//! *session* on the server, in one request or in several. Such a *resumable* upload survives broken
//! connections, overload and lost replies. It also survives lost sessions if its source can be read
//! again from the first byte. If the source is a regular file and the upload has a [`Journal`], it
//! also survives the end of the process. When an upload is finished, the size and the digests that
//! the server states are compared with the sent media.
//!
//! *Committed* bytes are bytes that the server has stored durably and has reported as stored. They
//! are not sent again, unless the server loses them. When all bytes are committed, the server
//! replies with a *resource*: a JSON object that describes the stored media.
//!
//! A [`Download`] writes media to a file. It can continue an interrupted download.
//!
//! This crate sends requests, reads files and waits. Which request is sent next, and after which
//! wait, is decided by [`windlass_proto::transfer`], which does no I/O. The rules are in section 5
//! of `docs/protocol.md` in the repository.

use std::time::SystemTime;

mod checksum;
mod client;
mod download;
mod error;
mod identity;
mod journal;
mod origin;
mod progress;
mod regular_file;
mod session_uri;
mod source;
mod token;
pub mod transport;
mod upload;
mod upload_loop;

pub use checksum::{Mismatch, Verified};
pub use client::{Client, ClientBuilder, InvalidSetting, MAX_SINGLE_REQUEST, Status};
pub use download::{Download, DownloadError, DownloadProgress, Downloaded};
pub use error::{Error, Kind};
pub use identity::{ClientIdentity, InvalidIdentity};
pub use journal::{
    Damage, Entry, FinishedUpload, FinishedUploads, InvalidRecordId, Journal, JournalError,
    LockedRecord, NewRecord, Record, RecordId, RunId, UploadKey,
};
pub use progress::{Progress, RateLimit, State};
pub use session_uri::{InvalidSessionUri, SessionUri};
pub use source::{Change, Source, SourceError, SourceIdentity};
pub use token::{InvalidTokenSource, TokenError, TokenSource};
pub use transport::Timeouts;
pub use upload::{HttpMethod, Upload, Uploaded};
pub use windlass_digest::Crc32c;
pub use windlass_proto::backoff::Schedule;
pub use windlass_proto::transfer::{
    Cause, ChunkSize, Chunking, ErrorReply, Failure, Protocol, RetryPolicy, Wait, retry_after,
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
