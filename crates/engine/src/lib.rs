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

mod byte_shares;
mod checksums;
pub mod copies;
pub mod disks;
mod error;
pub mod identifiers;
mod importance;
pub mod lifecycle;
pub mod locks;
mod offset_committer;
mod pool;
pub mod quotas;
mod shares;
pub mod sink;
mod write_buffer;

pub use byte_shares::{ByteShare, ByteShares};
pub use checksums::RunningChecksum;
pub use error::{Error, FromStore, StoreError};
pub use identifiers::{Clock, SystemClock};
pub use importance::Importance;
pub use offset_committer::{Checkpoints, CommitRules, OffsetCommitter, SessionLifetime};
pub use pool::{Full, LimitedResource, Permit, Pool, Usage};
pub use shares::{Caller, MAX_CALLERS, SharePermit, Shares};
pub use write_buffer::BufferPool;
