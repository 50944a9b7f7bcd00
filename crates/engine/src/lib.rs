//! The engine of an upload server: what is below every front. It uses neither HTTP nor JSON.
//!
//! An [`Engine`] takes the bytes of uploads, acknowledges what is durable, and lets interrupted
//! uploads continue. What an upload means is the business of a [`Completion`]: who may continue it,
//! under which terms, and what its media becomes. How requests arrive is the business of a front,
//! such as [windlass-server](https://docs.rs/windlass-server).
//!
//! | call | effect |
//! |---|---|
//! | [`Engine::start`] | begins a session |
//! | [`Engine::continue_session`] | appends a stream, asks for the committed offset, finishes |
//! | [`Engine::cancel`] | ends a session, and releases its media |
//! | [`Engine::upload`] | takes media of one request, without a session |
//! | [`Engine::concatenate`] | makes media of existing media |
//! | [`Engine::concatenate_partials`] | makes media of partial uploads |
//! | [`Engine::finish_interrupted`] | completes what a crash has interrupted |
//!
//! The modules:
//!
//! | module | duty |
//! |---|---|
//! | `engine`, `completion`, `media_stream` | an engine and its parts; the contracts with what is built on it |
//! | `requests`, `sessions`, `session_cache` | requests to sessions; rows, guards and leases; sessions between two requests |
//! | `leases`, `sharing` | the sessions of this process and of others over one ledger: renewal, release, handing over |
//! | `durable_append`, `offset_committer` | the one way of a request's bytes to durable media and to commits |
//! | `append` | a request to a session, from its stream to its reply |
//! | `single_request`, `concat`, `concatenation` | media of one request; media made of existing media |
//! | `partials`, `first_uses` | media made of partial uploads |
//! | `seal` | from committed extents to media that can be read |
//! | `finish` | from complete media to the commit of what it becomes |
//! | `retries` | the pauses between attempts at a change that conflicts |
//! | `error` | why work is refused or has failed |
//! | [`identifiers`] | time, randomness, and the identifiers that are made of them |
//! | [`locks`] | locks of sessions and of keys within the process |
//! | [`lifecycle`] | fail-stop, drain, and work that outlives its request |
//! | `pool`, `importance` | limited resources, and who gets the last units |
//! | `shares` | limits for each caller |
//! | [`disks`] | free space on the disks, and admission of writes |
//! | [`quotas`], [`copies`] | limits on stored and on copied bytes |
//! | `sink`, `write_buffer`, `checksums` | from bytes to durable media, with its digests |
//!
//! # Words
//!
//! - The *ledger* is the database of sessions, resources and small media. The *vault* stores larger
//!   media. Both are traits of [`windlass_store`]. *Small media* is media of at most
//!   [`EngineParts::small_media`] bytes.
//! - The *context* of an upload is what the completion remembers of it, from its start to its end.
//! - A session's *row* is its record in the ledger. It holds the context as bytes that the ledger
//!   does not read.
//! - A *lease* is the right to write to a session, which one request holds at a time. A lease has
//!   an id that the ledger compares, and a number for order and for logs, its *epoch*. It ends when
//!   the next lease is taken, in this process or in another. Consecutive requests may use the same
//!   lease (`session_cache`).
//! - A process *works on* a session while one of its requests holds the lease. If another process
//!   asks for the session, it is *handed over*: that request commits what has arrived and releases
//!   the session.
//! - A *guard* ([`SessionGuard`](locks::SessionGuard)) is the lock of a session within this process.
//!   A request takes the guard first and the lease second. While it holds the guard, no other
//!   request of this process can take a lease. A request that holds both is the *writer* of the
//!   session. A `MediaWriter` is not a writer in this sense: it writes the bytes of one media to the
//!   vault.
//! - The newest request that needs the lease wins. It *takes over* the session: it asks the writer
//!   to stop and waits for the guard. A query needs no lease, except in a dialect in which a query
//!   finishes an upload that is committed completely. The older request is *superseded*: it commits
//!   the bytes that it has received, except those of a stream that is verified at its end, and
//!   releases the guard. An older request that still waits for the guard gives up.
//! - A request is *fenced* if the ledger refuses its change of a session, because its lease is not
//!   the newest, or because the session has ended or has another offset than the request assumes.
//!   Nothing changes then.
//! - A *checkpoint* is a sync of media and a commit of its offset while the stream is still being
//!   read.
//! - An *extent* is the part of the media that one commit adds to the vault, with its checksum.
//!   When the media is reopened, the vault reads the last committed extent and verifies it.
//! - The *progress* of a session is the state that a commit writes into its row: the committed
//!   offset, the media and its last extent, the CRC32C so far, and the state of the hashers of MD5
//!   and SHA-256.
//! - To *flush* media is to write and sync all bytes that the engine has received of it, at the end
//!   of a request. Small media is handed out instead, for the ledger.
//! - *Garbage* is media that the ledger has released and lists for deletion. The *sweep*
//!   ([`windlass_store::sweep`]) deletes expired sessions, garbage, and media in the vault that the
//!   ledger does not name, a day after its last write.
//! - A server *drains* when it stops. It refuses new work from then on
//!   ([`Lifecycle::is_draining`](lifecycle::Lifecycle::is_draining)). After half of the drain time
//!   it also tells running uploads to commit their bytes and end
//!   ([`Lifecycle::drain_now`](lifecycle::Lifecycle::drain_now)).
//! - A *dialect* is a wire form of the upload protocol, such as Google's. A session is changed only
//!   in the dialect in which it was started.

mod append;
mod checksums;
mod completion;
mod concat;
mod concatenation;
pub mod copies;
pub mod disks;
mod durable_append;
mod engine;
mod error;
mod finish;
mod first_uses;
pub mod identifiers;
mod importance;
mod leases;
pub mod lifecycle;
pub mod locks;
mod media_stream;
mod offset_committer;
mod partials;
mod pool;
pub mod quotas;
mod requests;
mod retries;
mod seal;
mod session_cache;
mod sessions;
mod shares;
mod sharing;
mod single_request;
mod sink;
mod write_buffer;

pub use checksums::RunningChecksum;
pub use completion::{Completed, Completion, FinishedMedia, Terms, UploadContext, UploadEvent};
pub use concatenation::Concatenation;
pub use engine::{Engine, EngineParts};
pub use error::{Error, FromStore, Refusal, StoreError};
pub use identifiers::{Clock, SystemClock};
pub use importance::Importance;
pub use media_stream::MediaStream;
pub use offset_committer::{Checkpoints, SessionLifetime};
pub use partials::Partial;
pub use pool::{Full, LimitedResource, Permit, Pool, Usage};
pub use requests::{SessionHead, StartedSession};
pub use retries::Retries;
pub use session_cache::CACHED_SESSIONS;
pub use sessions::{Committed, SessionReply};
pub use shares::{Caller, MAX_CALLERS, SharePermit, Shares};
pub use sharing::FINISH_IDLE;
pub use single_request::{MediaLength, WholeMedia};
pub use sink::MAX_SMALL_MEDIA;
pub use write_buffer::BufferPool;
