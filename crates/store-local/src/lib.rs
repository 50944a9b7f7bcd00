//! Windlass's own store: a [`Ledger`](windlass_store::Ledger) on SQLite and a
//! [`Vault`](windlass_store::Vault) on the local disk, in one data directory.
//!
//! ```no_run
//! use windlass_store_local::{LocalStore, Options};
//!
//! let LocalStore { ledger, vault } = LocalStore::open("windlass-data".as_ref(), Options::default())?;
//! # Ok::<(), windlass_store_local::OpenError>(())
//! ```
//!
//! # What lies where
//!
//! ```text
//! windlass-data/
//! ├── lock                    held exclusively as long as the store is in use
//! ├── ledger.sqlite           the only truth
//! ├── ledger.sqlite-wal       its last commits; never delete it
//! ├── hold                    held by backups while no media may be deleted
//! ├── reserve                 room for the ledger on a full disk; may be deleted
//! └── vault/
//!     ├── identity            whose vault it is; the ledger holds the same
//!     └── ab/cd/
//!         └── abcd…           a media: 32 digits, its name from birth. Means nothing by itself
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
//!                                          garbage: media that lost its last name
//! ```
//!
//! A media is owned by the rows that name it: first by the session, from the finish on by the
//! resource, without having been moved. When the last name goes, small media goes in the same
//! transaction, and a file's name goes on the garbage list until the sweep has unlinked it.
//!
//! # In what order things become durable
//!
//! ```text
//! new store    vault's identity, synced ──► ledger transaction: tables, identity
//! first byte   open O_EXCL ── fsync file ── fsync its directory (and new ones above it)
//! append       pwritev at the offset, past the page cache if there is much
//! ack point    fdatasync file ──► ledger transaction: offset, epoch, extent ──► answer
//! finish       last ack point ──► one transaction: resource, reply, state, media's new owner
//! delete       ledger transaction: row away, media on the garbage list ──► unlink ──► off the list
//! ```
//!
//! So at every moment the bytes below a committed offset are on the disk. After a crash a file may
//! be longer than its offset, never shorter; it is cut, and its last extent checked, when it is
//! reopened. A file that no row names is an orphan, which the sweep finds. Opening walks nothing.
//!
//! # Who syncs, and what if it fails
//!
//! | what | by whom |
//! |---|---|
//! | the ledger's WAL | one writer thread, one sync for all changes that queued while the last one ran |
//! | media | blocking threads, up to 32 side by side |
//! | names of media | the same, once for each media |
//!
//! A commit or sync that fails is never tried again, and no later one succeeds either: everything
//! answers with a fault from then on, until the process is started again.
//!
//! # Upkeep
//!
//! [`verify`] compares everything with everything, and repairs; [`backup`] makes a copy. Both
//! work from outside, beside the process that has the store open.
//!
//! Absent: a clock (time comes in), walks at the start, and any use of a file's name, length or time
//! as a statement about an upload.

pub mod backup;
mod directory;
mod error;
mod filesystem;
mod ledger;
mod open;
mod options;
mod reserve;
mod sync_health;
mod vault;
pub mod verify;

pub use error::{IdentityMismatch, OpenError};
pub use ledger::LocalLedger;
pub use open::LocalStore;
pub use options::{Durability, Options};
pub use vault::LocalVault;
#[cfg(feature = "failpoints")]
pub use windlass_store::failpoint;

#[cfg(test)]
mod test_util {
    //! Helpers of the unit tests.

    use std::fs::File;
    use std::path::Path;

    use windlass_testkit::wait::{self, PATIENCE};

    use crate::filesystem;

    /// Asks again and again until `ask` returns a value.
    ///
    /// # Panics
    /// When it has returned none within [`PATIENCE`].
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

    /// Takes a lock that this test has released.
    ///
    /// A process that another test has forked shares the lock until it executes its program, so the
    /// lock may be free only a moment later.
    pub(crate) fn free_lock(path: &Path) -> File {
        let mut lock = None;
        wait::until("the lock is free", || {
            lock = filesystem::lock(path).expect("the lock file can be opened");
            lock.is_some()
        });
        lock.expect("the wait ends when it is free")
    }
}
