//! The contract of the place where media bytes live.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Cause;
use crate::records::{Extent, MediaId, Timestamp};

/// Writes that begin and end at multiples of so many bytes, in their media and in memory, are those that a vault is
/// quickest with.
pub const WRITE_UNIT: usize = 4096;

/// As many bytes are worth reading at once.
pub const READ_LEN: usize = 256 * 1024;

/// Where media bytes live.
///
/// The vault keeps bytes under names; what they mean, and how many of them count, only the ledger
/// knows.
#[async_trait]
pub trait Vault: Send + Sync + 'static {
    /// Makes a new, empty media, its name durable when the future resolves.
    ///
    /// # Errors
    /// [`VaultError::Damaged`] when there is a media of that name already.
    async fn create(&self, id: MediaId) -> Result<Box<dyn MediaWriter>, VaultError>;

    /// Opens a media to go on at `committed`: whatever lies behind it is cut off, and the last
    /// committed extent is read back and checked when `verify` is given.
    ///
    /// It ends every earlier writer of the media, in whatever process: writes of theirs that are
    /// under way are waited for, and those to come are refused. So a write whose future was dropped
    /// cannot land on top of what the next writer wrote.
    ///
    /// # Errors
    /// [`VaultError::Damaged`] when the media is gone, shorter than `committed` or differs from its
    /// checksum.
    async fn reopen(
        &self,
        id: MediaId,
        committed: u64,
        verify: Option<Extent>,
    ) -> Result<Box<dyn MediaWriter>, VaultError>;

    /// Opens the bytes `range` of a media for reading. The reader goes on working when the media is
    /// deleted meanwhile.
    async fn read(
        &self,
        id: MediaId,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError>;

    /// Deletes a media. One that does not exist is a success.
    async fn delete(&self, id: MediaId) -> Result<(), VaultError>;

    /// Looks at up to about `limit` places behind `after` and lists the media there, in the order of
    /// ids. That can be none, in a vault whose directories are mostly empty. For the sweep; never on
    /// the path of a request. Media that has a writer may be left out: its bytes are about to be
    /// named, however old the clock makes them look.
    ///
    /// # Errors
    /// [`VaultError::Unreadable`] of the media to go on from.
    async fn list(&self, after: Option<MediaId>, limit: usize) -> Result<Listing, VaultError>;

    /// How much room there is for media.
    async fn space(&self) -> Result<Space, VaultError>;
}

/// The writing end of a media. One writer at a time; the lease sees to it.
#[async_trait]
pub trait MediaWriter: Send + Sync + std::fmt::Debug {
    /// Writes `data`, piece after piece, at `offset`. The bytes are not durable yet.
    ///
    /// # Errors
    /// [`VaultError::NoSpace`] says how many of the bytes were written before the disk was full.
    ///
    /// # Cancel safety
    /// A dropped future may still write, but only inside `offset..offset + data.len()`.
    async fn write(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError>;

    /// Makes every byte durable whose `write` had returned before the call. May run beside writes.
    ///
    /// # Errors
    /// [`VaultError::Fault`]. A failed sync is never retried: nothing this writer wrote may be
    /// acknowledged. [`VaultError::Damaged`] may answer when the media was deleted meanwhile.
    async fn sync(&self) -> Result<(), VaultError>;

    /// [`write`](MediaWriter::write), then [`sync`](MediaWriter::sync), which a vault may do in one go.
    ///
    /// # Errors
    /// Those of both. After [`VaultError::NoSpace`] nothing was synced.
    ///
    /// # Cancel safety
    /// As that of `write`; it may still be synced.
    async fn write_and_sync(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        self.write(offset, data).await?;
        self.sync().await
    }
}

/// The reading end of a media.
#[async_trait]
pub trait MediaReader: Send + std::fmt::Debug {
    /// The next bytes of the range, at most `most`, which is above zero; empty at its end.
    async fn next(&mut self, most: usize) -> Result<Bytes, VaultError>;
}

/// A part of what is in a vault.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Media, in the order of ids.
    pub media: Vec<StoredMedia>,
    /// What to go on after; `None` at the end of the vault.
    pub next: Option<MediaId>,
}

/// A media as a listing shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredMedia {
    /// Its name.
    pub id: MediaId,
    /// When it was last written.
    pub modified: Timestamp,
}

/// Room on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub available: u64,
    /// Bytes in all.
    pub total: u64,
    /// The number of the disk. Where the ledger and the vault report the same one, they share its room.
    pub disk: u64,
}

/// Why the vault did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// There is no such media.
    #[error("media {0} does not exist")]
    Missing(MediaId),
    /// The media is not what the ledger says it must be.
    #[error("media {id} is damaged: {reason}")]
    Damaged {
        /// Which one.
        id: MediaId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The disk is full (or a quota or a limit of the file size is reached).
    #[error("no space is left for media")]
    NoSpace {
        /// How many bytes of the write were written before.
        written: u64,
    },
    /// A write or a sync failed. Nothing that is not yet committed may be acknowledged, and after
    /// a failed sync nothing at all, in this process.
    #[error("the vault failed")]
    Fault(#[source] Cause),
    /// The media could not be got at: reading or deleting it failed, or a newer writer has taken it
    /// over. Nothing is lost by it, and it may be tried again later.
    #[error("media {id} is out of reach")]
    Unreadable {
        /// Which one.
        id: MediaId,
        /// Why not.
        #[source]
        cause: Cause,
    },
}

impl VaultError {
    /// The error of a writer whose media was reopened by a newer one.
    pub fn superseded(id: MediaId) -> Self {
        Self::Unreadable {
            id,
            cause: std::sync::Arc::new(Superseded),
        }
    }
}

/// The media was reopened; only the newest writer may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a newer writer has taken the media over")]
pub struct Superseded;
