//! The records that Windlass stores, and the two contracts for storing them.
//!
//! ```
//! use bytes::Bytes;
//! use windlass_digest::Crc32cHasher;
//! use windlass_store::memory::{MemoryLedger, MemoryVault};
//! use windlass_store::{
//!     ExpectedSize, Leased, Ledger, MediaId, MediaLocation, MediaRef, NewSession, OffsetCommit,
//!     Progress, SessionId, SessionState, SyncTarget, Timestamp, Vault,
//! };
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
//!
//! // Start an upload of five bytes.
//! let id = SessionId::from_bytes([1; 32]);
//! ledger
//!     .start(NewSession {
//!         id,
//!         context: Vec::new(),
//!         created: Timestamp::from_millis(0),
//!         expires: Timestamp::from_millis(60_000),
//!         total: Some(5),
//!         owner: None,
//!         dialect: "google".to_owned(),
//!     })
//!     .await?;
//!
//! // Take the lease. Every earlier holder is fenced from here on.
//! let Leased { session, lease, .. } = ledger.lease(id).await?.expect("it was started above");
//!
//! // First the bytes: append them and make them durable.
//! let media = MediaId::from_bytes([2; 16]);
//! let writer = vault.create(media, ExpectedSize::default()).await?;
//! let bytes = vec![Bytes::from("hello")];
//! writer.append_and_sync(0, bytes, SyncTarget::at(5)).await?;
//!
//! // Then the ledger: commit the new offset.
//! let mut crc32c = Crc32cHasher::default();
//! crc32c.update(b"hello");
//! let progress = Progress {
//!     offset: 5,
//!     crc32c: crc32c.value(),
//!     media: Some(MediaRef { id: media, location: MediaLocation::Vault }),
//!     ..session.progress
//! };
//! let commit = OffsetCommit {
//!     from: 0,
//!     progress,
//!     small_media: None,
//!     // Where the vault keeps the bytes, if it chooses names for them.
//!     extents: writer.take_changes(),
//!     state: SessionState::Active,
//!     expires: None,
//!     releases: true,
//! };
//! ledger.commit_offset(id, lease, commit).await?;
//!
//! // The five bytes may be acknowledged now.
//! let committed = ledger.session(id).await?.expect("it is still there");
//! assert_eq!(committed.progress.offset, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * The [`Ledger`] is the database: sessions, resources and small media. Its rows alone decide
//!   what exists.
//! * The [`Vault`] holds the bytes of media. A file in it means nothing until a row of the ledger
//!   references it.
//!
//! No transaction spans both. The order of steps therefore keeps the two consistent. Media is made
//! durable in the vault *before* the ledger references it. It is deleted from the vault only
//! *after* the ledger has released it. [`Sweep`] deletes released media and media that a crash
//! leaves unreferenced.
//!
//! [`memory`] implements both contracts in memory, the vault twice: like a disk, and like an object
//! store. Two modules behind features help with further
//! implementations: `conformance` is a suite of tests that checks every rule of the contracts, and
//! `fault` makes the calls of any store fail on schedule.
//!
//! Absent: HTTP, and any knowledge of an API. The stores keep the server's data about a request as
//! opaque bytes ([`NewSession::context`], [`FinishSession::reply`]). There is no clock either:
//! callers pass the time.

pub mod change_set;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "failpoints")]
pub mod failpoint;
#[cfg(not(feature = "failpoints"))]
mod failpoint;
#[cfg(feature = "fault")]
pub mod fault;
pub mod ledger;
pub mod memory;
pub mod recorder;
pub mod records;
pub mod session_list;
pub mod sweep;
pub mod vault;

pub use change_set::{
    AddedMedia, ChangeSet, Expected, FinishSession, MAX_ADDED_MEDIA, ResourceChange,
};
/// Not a part of the contracts. Without the feature `failpoints` it compiles to nothing.
#[doc(hidden)]
pub use failpoint::Failpoint;
pub use ledger::{
    EndSession, LEASE_LIFETIME, Ledger, LedgerError, NEW_MEDIA_LIFETIME, OffsetCommit, Takeover,
};
pub use records::{
    Epoch, Extent, ExtentChanges, Garbage, GarbageId, Lease, LeaseId, Leased, MAX_KEY_LEN,
    MAX_NAME_LEN, Media, MediaId, MediaLocation, MediaRef, NewSession, OwnerQuotas, Progress,
    Quota, Resource, Retention, Session, SessionId, SessionState, StoredExtent, StoredMedia,
    StoredName, Timestamp, Usage, change_extents,
};
pub use session_list::{SessionOrder, SessionPage, SessionQuery, SessionSummary};
pub use sweep::{Sweep, SweepError, SweepOptions, Swept};
pub use vault::{
    ExpectedSize, IoHints, ListPosition, Listed, Listing, MediaReader, MediaWriter, Part, READ_LEN,
    Sealed, Space, Superseded, SyncTarget, Vault, VaultError, WRITE_UNIT,
};

/// The cause of a fault, shared by all callers that waited for the same commit or sync.
pub type Cause = std::sync::Arc<dyn std::error::Error + Send + Sync>;
