//! The embedded store of Windlass: a [`Ledger`](windlass_store::Ledger) on SQLite and a
//! [`Vault`](windlass_store::Vault) on the local disk, in one data directory.
//!
//! ```
//! use windlass_store::Ledger;
//! use windlass_store_local::{LocalStore, Options};
//!
//! let root = tempfile::tempdir()?;
//! // A temporary directory may be in memory, where a store is refused without this option.
//! let options = Options::default().allow_unsafe_filesystem(true);
//! let dir = root.path().join("windlass-data");
//! let LocalStore { ledger, vault } = LocalStore::open(&dir, options)?;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! ledger.check().await?;
//! # Ok::<(), windlass_store::LedgerError>(())
//! # })?;
//!
//! // Dropping both closes the database and unlocks the directory.
//! drop((ledger, vault));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The data directory
//!
//! ```text
//! windlass-data/
//! ├── lock                    locked while the store is open
//! ├── ledger.sqlite           the ledger: its rows alone decide what exists
//! ├── ledger.sqlite-wal       its last commits; never delete it
//! ├── hold                    locked by backups while no media may be deleted
//! ├── reserve                 space for the ledger on a full disk; may be deleted
//! └── vault/
//!     ├── identity            the identity of the store; the ledger holds the same
//!     └── ab/cd/
//!         └── abcd…           a media; its name of 32 digits never changes and means nothing
//! ```
//!
//! ```text
//!             sessions                       resources
//!   id ─────► context, created, expires,     collection, id ─► version, body,
//!             state, epoch, offset, total,                     created, updated,
//!             crc32c, slow_digests,                            length, content_type, digests,
//!             extent, reply,                                   media ┐
//!             media ┐                                                │
//!                   └───────────────┬────────────────────────────────┘
//!                        place = 0  │  place = 1
//!                     ┌─────────────┴─────────────┐
//!             small_media                  the vault's file
//!             id ─► bytes                         ▲
//!                                          garbage: media without a reference
//! ```
//!
//! Media belongs to the rows that reference it: first to the session, and from its finish on to the
//! resource, without being moved. When the last reference is removed, small media is deleted in the
//! same transaction. A file's id goes on the garbage list until the sweep has unlinked the file.
//!
//! # The order of durable steps
//!
//! ```text
//! new store    the vault's identity, synced ──► ledger transaction: tables, identity
//! first byte   open O_EXCL ── fsync file ── fsync its directory (and new ones above it)
//! append       pwritev at the offset; large writes bypass the page cache
//! ack point    fdatasync file ──► ledger transaction: offset, epoch, extent ──► reply
//! finish       last ack point ──► one transaction: resource, reply, state, media's new owner
//! delete       ledger transaction: row away, media on the garbage list ──► unlink ──► off the list
//! ```
//!
//! So the bytes below a committed offset are on the disk at every moment. After a crash a file may
//! be longer than its offset, never shorter. When it is reopened, it is cut and its last extent is
//! checked. A file that no row references is an orphan, which the sweep deletes. Opening a store
//! scans neither tables nor directories.
//!
//! # Syncs and their failures
//!
//! | synced data | by |
//! |---|---|
//! | the ledger's WAL | one writer thread, one sync for all changes that queued up during the last one |
//! | media | blocking threads, up to 32 at a time |
//! | names of media | the same, once for each media |
//!
//! A commit or sync that fails is never retried, and no later one succeeds: every call fails from
//! then on, until the process is restarted.
//!
//! # Maintenance
//!
//! [`verify`] compares all rows and files with each other, and repairs what is safe. [`backup`]
//! makes a copy. Both may run in another process while a server has the store open.
//!
//! # Absent
//!
//! A clock (callers pass the time), scans at the start, and any use of a file's name, length or
//! time as a statement about an upload.

pub mod backup;
mod directory;
mod file_lock;
mod filesystem;
mod ledger;
mod open;
mod reserve;
mod resources;
mod sync_health;
mod vault;
pub mod verify;

pub use directory::{Durability, IdentityMismatch, OpenError, Options};
pub use filesystem::SharedDirectory;
pub use ledger::LocalLedger;
pub use open::LocalStore;
pub use resources::for_each_resource;
pub use vault::LocalVault;
#[cfg(feature = "failpoints")]
pub use windlass_store::failpoint;
pub use windlass_store::recorder::{NoRecorder, StoreRecorder};

#[cfg(test)]
mod test_util {
    //! Helpers of the unit tests.

    use windlass_testkit::wait::PATIENCE;

    /// Asks again and again until `ask` returns a value.
    ///
    /// # Panics
    /// If it has returned none within [`PATIENCE`].
    pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let poll = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, poll)
            .await
            .expect("the condition holds in time")
    }
}
