//! The engine of an upload server: what is below every front. It uses neither HTTP nor JSON.
//!
//! | module | duty |
//! |---|---|
//! | `error` | why work is refused or has failed |
//! | [`identifiers`] | time, randomness, and the identifiers that are made of them |
//! | [`locks`] | locks of sessions and of keys within the process |
//! | [`lifecycle`] | fail-stop, drain, and work that outlives its request |
//! | `pool`, `importance` | limited resources, and who gets the last units |
//! | `shares`, `byte_shares` | limits for each caller |
//! | [`disks`] | free space on the disks, and admission of writes |
//! | [`quotas`], [`copies`] | limits on stored and on copied bytes |
//! | `offset_committer` | the commits of one appending request |
//! | [`sink`], `write_buffer`, `checksums` | from bytes to durable media, with its digests |
//!
//! The engine is used through a front, such as
//! [windlass-server](https://docs.rs/windlass-server).

mod append;
mod byte_shares;
mod checksums;
mod completion;
mod concat;
mod concatenation;
pub mod copies;
pub mod disks;
mod engine;
mod error;
mod finish;
pub mod identifiers;
mod importance;
pub mod lifecycle;
pub mod locks;
mod media_stream;
mod offset_committer;
mod pool;
pub mod quotas;
mod requests;
mod session_cache;
mod sessions;
mod shares;
mod single_request;
pub mod sink;
mod write_buffer;

pub use byte_shares::{ByteShare, ByteShares};
pub use checksums::RunningChecksum;
pub use completion::{Completed, Completion, FinishedMedia, Terms, UploadContext, UploadEvent};
pub use concatenation::Concatenation;
pub use engine::{Engine, EngineParts};
pub use error::{Error, FromStore, Refusal, StoreError};
pub use finish::MAX_ATTEMPTS;
pub use identifiers::{Clock, SystemClock};
pub use importance::Importance;
pub use media_stream::MediaStream;
pub use offset_committer::{Checkpoints, CommitRules, OffsetCommitter, SessionLifetime};
pub use pool::{Full, LimitedResource, Permit, Pool, Usage};
pub use requests::SessionHead;
pub use session_cache::CACHED_SESSIONS;
pub use sessions::SessionReply;
pub use shares::{Caller, MAX_CALLERS, SharePermit, Shares};
pub use single_request::{MediaLength, WholeMedia};
pub use write_buffer::BufferPool;
