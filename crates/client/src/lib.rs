//! Uploads media by Google's media upload protocol, whatever happens on the way.
//!
//! An [`Upload`] says where to and how, a [`Source`] where the media comes from; a [`Client`] does it:
//! in one request where the media is small, else in a resumable session that survives broken
//! connections, overload, lost replies and lost sessions, and with a [`Journal`] the end of the process
//! too. What the server then says of the media is compared with what was sent.
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
//!     .on_progress(|progress| println!("{} bytes are safe", progress.committed));
//! let uploaded = client.upload(upload, Source::path("cow.jpg")).await?;
//! println!("{:?}", uploaded.resource);
//! # Ok(())
//! # }
//! ```
//!
//! What it does on the way is decided in [`windlass_proto::transfer`], where there is no I/O. The rules
//! are those of Google's documents (docs/protocol.md, 5).

mod checksum;
mod client;
mod download;
mod error;
mod journal;
mod progress;
mod rate_limit;
mod session_uri;
mod source;
mod system;
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
pub use progress::{Progress, State};
pub use rate_limit::RateLimit;
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
