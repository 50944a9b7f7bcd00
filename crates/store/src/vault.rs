//! The contract of the storage of media bytes.

use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Cause;
use crate::records::{ExtentChanges, MediaId, StoredMedia, StoredName, Timestamp};

/// Unit in bytes of efficient writes. Writes are fastest if their offset, length and address in
/// memory are multiples of this unit.
pub const WRITE_UNIT: usize = 4096;

/// Number of bytes that are worth reading at once from a local disk.
pub const READ_LEN: usize = 256 * 1024;

/// What a vault asks of those who use it. None of it is needed for what it promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoHints {
    /// How long the bytes of a slow upload should be collected before they are made durable, if
    /// they do not end at a [boundary](MediaWriter::boundary). Default: no time.
    pub commit_interval: Duration,
    /// Number of bytes that are worth reading at once. Default: [`READ_LEN`].
    pub read_len: usize,
}

impl Default for IoHints {
    fn default() -> Self {
        Self {
            commit_interval: Duration::ZERO,
            read_len: READ_LEN,
        }
    }
}

/// What is known of the length of media that is about to be created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpectedSize {
    /// Number of bytes of the whole media.
    pub total: Option<u64>,
    /// Number of bytes that the first request brings.
    pub first_request: Option<u64>,
}

/// The storage of media bytes.
///
/// A vault keeps bytes under ids. Only the ledger knows the meaning of a media and how many of its
/// bytes are valid.
///
/// Media is *written* by one writer after another, each of which appends. It is *sealed* when all
/// its bytes are committed, and can be read from then on. A vault that keeps the bytes of a media
/// under one name of its own needs nothing but the id of the media. Another one may keep them in
/// several places, under names that it chooses: the writer then says which
/// [extents](StoredMedia::extents) the ledger has to remember, and sealed media has a *handle*.
///
/// # Concurrency
///
/// All methods may be called concurrently, also for the same media.
///
/// # Cancel safety
///
/// Dropping a future does not stop work that has begun: the media may still be created, cut or
/// deleted, or bytes be written, after the drop. Such a write never changes the bytes of a later
/// writer ([`Vault::resume`]).
///
/// # Errors
///
/// Each method names its errors. [`VaultError::Missing`] and [`VaultError::Damaged`] concern one
/// media. Like these, [`VaultError::Unavailable`] and [`VaultError::NoSpace`] do not affect any
/// other call. [`VaultError::Fault`] means that syncs cannot be relied on any more.
#[async_trait]
pub trait Vault: Send + Sync + 'static {
    /// Returns what the vault asks of those who use it.
    fn hints(&self) -> IoHints {
        IoHints::default()
    }

    /// Creates an empty media and returns its writer. If the vault names it by its id, the media
    /// and its name are durable when the method returns.
    ///
    /// If the future is dropped, or on an error, the media may exist all the same. As nothing
    /// references it, the sweep deletes it.
    ///
    /// # Errors
    /// * [`VaultError::Damaged`] if there is media with that id. A vault with names of its own need
    ///   not notice that.
    /// * [`VaultError::NoSpace`] if the disk is full.
    /// * [`VaultError::Unavailable`] if the media could not be created for another reason, such as a
    ///   lack of file descriptors.
    /// * [`VaultError::Fault`] if a sync has failed.
    async fn create(
        &self,
        id: MediaId,
        expected: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError>;

    /// Opens media that is not sealed, to be continued at its committed length, and returns its
    /// writer. The caller has a new lease of the session.
    ///
    /// Bytes behind the committed length are cut off, or are no part of the media. The cut need not
    /// be durable. If there is something to [verify](StoredMedia::verify), the bytes from its start
    /// to the committed length are read back and compared with its checksum.
    ///
    /// Whatever earlier writers of the media still do does not change the bytes of the new writer,
    /// or those that are committed. A vault whose writers write to the same place waits for the
    /// writes in progress, and refuses later writes with [`Superseded`]; a vault that several
    /// processes share must do this across processes, too.
    ///
    /// # Errors
    /// * [`VaultError::Damaged`] if the media does not exist, is shorter than its committed length,
    ///   or differs from the checksum.
    /// * [`VaultError::Unavailable`] if it could not be opened or read, or if a newer writer has
    ///   taken over during the call.
    /// * [`VaultError::Fault`] if the cut has failed.
    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError>;

    /// Makes media with all its bytes committed readable. The caller has the lease of its session
    /// and commits no more bytes. May be called again, by anybody, also after a crash. If there is
    /// something to [verify](StoredMedia::verify), it is compared as by [`Vault::resume`].
    ///
    /// # Errors
    /// * [`VaultError::Damaged`] if the media does not exist, is shorter than its committed length,
    ///   or differs from the checksum. A vault that has nothing to do or to verify need not look.
    /// * [`VaultError::NoSpace`], [`VaultError::Unavailable`] if it could not be sealed now.
    /// * [`VaultError::Fault`] if a write or a sync has failed.
    ///
    /// The default is for a vault that names media by their ids: it resumes the media, if there is
    /// something to verify.
    ///
    /// # Cancel safety
    /// If the future is dropped, the next call continues or begins again.
    async fn seal(&self, stored: &StoredMedia) -> Result<Sealed, VaultError> {
        if stored.verify.is_some() {
            self.resume(stored).await?;
        }
        Ok(Sealed::BY_ID)
    }

    /// Opens the bytes `range` of sealed media for reading. The reader continues to work if the
    /// media is deleted meanwhile, or fails with [`VaultError::Missing`].
    ///
    /// # Errors
    /// * [`VaultError::Missing`] if there is no such media.
    /// * [`VaultError::Damaged`] if it is shorter than `range.end`.
    /// * [`VaultError::Unavailable`] if it could not be opened.
    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError>;

    /// Creates sealed media of `parts`, one after another, and returns its handle. The media, its
    /// name and all its bytes are durable when the method returns. Its sources are not changed.
    ///
    /// A vault whose storage can copy does it there, so that the bytes do not pass through the
    /// memory of the process. The default reads, appends and seals.
    ///
    /// After each step `copied` is called with the number of bytes that the step has added. The sum
    /// of these numbers is the length of the parts. The caller therefore knows how much of its
    /// reserved space is in use.
    ///
    /// Until the method returns, the new media counts as media with a writer in [`Vault::list`]. It
    /// must not be read before.
    ///
    /// A source may be deleted during the call. The media is then complete nevertheless, or the
    /// call fails with [`VaultError::Missing`].
    ///
    /// # Cancel safety
    /// If the future is dropped, or on an error, the media may exist nevertheless, with any of its
    /// bytes. No further step begins. The sweep deletes the media, because nothing references it. A
    /// caller may delete it earlier to save space.
    ///
    /// # Errors
    /// * [`VaultError::Missing`] with a source that does not exist.
    /// * [`VaultError::Damaged`] with a source that is shorter than its part, or with `id` if media
    ///   with that id already exists. The existing media is not changed.
    /// * [`VaultError::NoSpace`] if the disk is full.
    /// * [`VaultError::Unavailable`] with a source that could not be read, or with `id` if the media
    ///   could not be created.
    /// * [`VaultError::Fault`] if a write or a sync has failed.
    async fn concat(
        &self,
        id: MediaId,
        parts: Vec<Part>,
        copied: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Bytes, VaultError> {
        let expected = ExpectedSize {
            total: Some(parts.iter().map(Part::len).sum()),
            first_request: None,
        };
        let writer = self.create(id, expected).await?;
        let mut offset = 0;
        for part in parts {
            let (mut reader, mut rest) = match part {
                Part::Bytes(bytes) => (None, bytes),
                Part::Media { media, length } => {
                    (Some(self.read(&media, 0..length).await?), Bytes::new())
                }
            };
            loop {
                if let Some(reader) = &mut reader {
                    rest = reader.next(self.hints().read_len).await?;
                }
                let len = rest.len() as u64;
                if len == 0 {
                    break;
                }
                writer
                    .append(offset, vec![std::mem::take(&mut rest)])
                    .await?;
                offset += len;
                copied(len);
            }
        }
        writer.sync(SyncTarget::end(offset)).await?;
        let mut stored = StoredMedia::new(id, offset);
        stored.change(&writer.take_changes());
        loop {
            match self.seal(&stored).await? {
                Sealed::Media { handle, .. } => return Ok(handle),
                Sealed::Composed(changes) => stored.change(&changes),
            }
        }
    }

    /// Deletes what is stored under a name: media, or an extent of it. Succeeds if it does not
    /// exist. The deletion need not be durable: if a crash or a late write brings it back, the sweep
    /// deletes it again.
    ///
    /// # Errors
    /// [`VaultError::Unavailable`] if it could not be deleted now. The sweep tries again.
    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError>;

    /// Lists what is stored, in an order of the vault's own, from the position that an earlier listing has
    /// returned; `None` begins at the first media. A walk over all listings returns each media that
    /// exists during the whole walk.
    ///
    /// `limit` is about the number of entries to look at, including directories. A listing may
    /// therefore hold fewer media than `limit`, even none, without being the last listing; see
    /// [`Listing::next`]. Media that has a writer may be left out: it may be about to be
    /// referenced, however old it looks.
    ///
    /// It is meant for the sweep, and too slow for the path of a request.
    ///
    /// # Errors
    /// [`VaultError::Unavailable`], also for a position that no listing of this vault has returned.
    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError>;

    /// Returns the space for media, or `None` if the vault knows no limit, such as an object store.
    ///
    /// # Errors
    /// [`VaultError::Fault`] if it cannot be determined.
    async fn space(&self) -> Result<Option<Space>, VaultError>;
}

/// Which bytes a sync makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncTarget {
    /// All bytes before this offset, at which an append that has returned has ended.
    pub up_to: u64,
    /// Whether the media probably ends there. It may be continued all the same.
    pub is_end: bool,
}

impl SyncTarget {
    /// Returns the target of a media that is to be continued.
    pub const fn at(up_to: u64) -> Self {
        Self {
            up_to,
            is_end: false,
        }
    }

    /// Returns the target of a media that probably ends there.
    pub const fn end(up_to: u64) -> Self {
        Self {
            up_to,
            is_end: true,
        }
    }
}

/// The result of [`Vault::seal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sealed {
    /// The media can be read.
    Media {
        /// The second part of its [name](StoredName). Empty if its id is enough.
        handle: Bytes,
        /// Numbers of the extents that are no part of it, and have to be deleted.
        left: Vec<u32>,
    },
    /// The bytes were put together under another name. The caller has to commit these changes of the
    /// extents, and to call [`Vault::seal`] again.
    Composed(ExtentChanges),
}

impl Sealed {
    /// The media can be read by its id, as always in a vault that names media by their ids.
    pub const BY_ID: Self = Self::Media {
        handle: Bytes::new(),
        left: Vec::new(),
    };
}

/// The writer of a media. The lease of the session ensures that there is one at a time.
#[async_trait]
pub trait MediaWriter: Send + Sync + std::fmt::Debug {
    /// Returns a number of bytes: at offsets that are multiples of it, bytes become durable
    /// cheaply. `None` if that is so at any offset.
    fn boundary(&self) -> Option<NonZeroU64> {
        None
    }

    /// Appends the pieces of `data` one after another, beginning at `at`, and takes them over. The
    /// bytes are not durable when it returns.
    ///
    /// `at` is the offset at which the append before has ended, or the writer has begun. After
    /// [`VaultError::NoSpace`] it is the end of the bytes that were written, and after
    /// [`VaultError::Unavailable`] the offset of the failed append.
    ///
    /// There is one append at a time.
    ///
    /// # Errors
    /// * [`VaultError::NoSpace`] with the number of bytes written before the disk was full.
    /// * [`VaultError::Unavailable`] if the bytes cannot be written now, or with [`Superseded`] if a
    ///   newer writer has taken over.
    /// * [`VaultError::Fault`] if the write has failed. It is unknown which bytes were written.
    ///
    /// # Cancel safety
    /// After its future was dropped the write may still happen, completely or in part. The writer
    /// must not be used any more.
    async fn append(&self, at: u64, data: Vec<Bytes>) -> Result<(), VaultError>;

    /// Makes bytes durable that were appended by calls that have returned. May run concurrently with
    /// an append, whose bytes may or may not be durable, and with another sync.
    ///
    /// # Errors
    /// * [`VaultError::Fault`] if a sync has failed, this one or an earlier one. It must not be
    ///   retried, and nothing that this writer has written since its last successful sync may be
    ///   acknowledged.
    /// * [`VaultError::NoSpace`], [`VaultError::Unavailable`] if the bytes cannot be made durable
    ///   now.
    /// * [`VaultError::Damaged`] if the media was deleted meanwhile. A vault need not notice that.
    ///
    /// # Cancel safety
    /// If the future is dropped, the sync may still happen.
    async fn sync(&self, target: SyncTarget) -> Result<(), VaultError>;

    /// Returns how the extents have changed since the last call. The durable bytes are in the
    /// extents after these changes, which may also hold bytes behind them. So it is called after a
    /// sync, and the commit that makes the bytes count has to name the changes. If the commit has
    /// failed, the next commit has to name them.
    fn take_changes(&self) -> ExtentChanges {
        ExtentChanges::default()
    }

    /// Appends like [`append`](MediaWriter::append), then syncs like [`sync`](MediaWriter::sync). A
    /// vault may do both in one operation.
    ///
    /// # Errors
    /// The errors of both methods. After [`VaultError::NoSpace`] nothing was synced.
    ///
    /// # Cancel safety
    /// As for both methods.
    async fn append_and_sync(
        &self,
        at: u64,
        data: Vec<Bytes>,
        target: SyncTarget,
    ) -> Result<(), VaultError> {
        self.append(at, data).await?;
        self.sync(target).await
    }
}

/// The reader of a range of a media.
#[async_trait]
pub trait MediaReader: Send + std::fmt::Debug {
    /// Returns the next bytes of the range, at most `max_len`, which is above zero. Returns no
    /// bytes at the end of the range only.
    ///
    /// # Errors
    /// * [`VaultError::Damaged`] if the media has become shorter than the range.
    /// * [`VaultError::Unavailable`] if it could not be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, the next call returns the same bytes.
    async fn next(&mut self, max_len: usize) -> Result<Bytes, VaultError>;
}

/// A part of the media that [`Vault::concat`] makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The first bytes of sealed media of the vault.
    Media {
        /// The media.
        media: StoredName,
        /// Number of bytes: all of the media that count.
        length: u64,
    },
    /// Bytes that are not in the vault, such as small media.
    Bytes(Bytes),
}

impl Part {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Media { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A part of the content of a vault.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Listing {
    /// What is stored, in the order of the vault.
    pub stored: Vec<Listed>,
    /// Where the next listing begins; `None` at the end of the vault.
    pub next: Option<ListPosition>,
}

/// A position in the listing of a vault. Its bytes mean something to that vault alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition(Bytes);

impl ListPosition {
    /// Returns the position with these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Returns the position behind a media, for a vault that lists media in the order of their ids.
    pub fn behind(id: MediaId) -> Self {
        Self(Bytes::copy_from_slice(id.as_bytes()))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the media that [`ListPosition::behind`] was called with.
    ///
    /// # Errors
    /// [`VaultError::Unavailable`] if the position is of another kind.
    pub fn media(&self) -> Result<MediaId, VaultError> {
        let id = <[u8; 16]>::try_from(self.as_bytes());
        id.map(MediaId::from_bytes)
            .map_err(|_| VaultError::Unavailable {
                id: None,
                cause: std::sync::Arc::new(ForeignPosition),
            })
    }
}

/// A position that no listing of the vault has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the position is of the listing of another vault")]
struct ForeignPosition;

/// A media or an extent in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: StoredName,
    /// Time of the last write.
    pub modified: Timestamp,
}

/// Space on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Number of bytes that can still be written.
    pub available: u64,
    /// Size of the disk in bytes.
    pub total: u64,
    /// Number that identifies the disk. If the ledger and the vault report the same one, they share
    /// its space.
    pub disk: u64,
}

/// Why a call of a vault has failed.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// There is no such media.
    #[error("media {0} does not exist")]
    Missing(MediaId),
    /// The media contradicts the ledger.
    #[error("media {id} is damaged: {reason}")]
    Damaged {
        /// Id of the media.
        id: MediaId,
        /// The problem with the media.
        reason: &'static str,
    },
    /// The disk is full, or a quota or the maximum size of a file is reached.
    #[error("the disk of the vault is full")]
    NoSpace {
        /// Number of bytes of the failed write that were written.
        written: u64,
    },
    /// A write or a sync has failed. It is unknown which bytes are durable. The caller must not
    /// retry, and must stop acknowledging in this process.
    #[error("the vault failed")]
    Fault(#[source] Cause),
    /// The media could not be read, opened, written, synced or deleted now, or a newer writer has
    /// taken it over. Nothing that was durable is lost, and the call may be repeated later.
    ///
    /// After a failed write none of its bytes count as written. After a failed sync the bytes of
    /// earlier writes are as durable as before, and a later sync may succeed.
    #[error("{} is not available now", Subject(*.id))]
    Unavailable {
        /// Id of the media; `None` if the call concerns no single media.
        id: Option<MediaId>,
        /// Why it failed.
        #[source]
        cause: Cause,
    },
}

impl VaultError {
    /// Returns the error of a writer after a newer writer has reopened its media.
    pub fn superseded(id: MediaId) -> Self {
        Self::Unavailable {
            id: Some(id),
            cause: std::sync::Arc::new(Superseded),
        }
    }
}

/// What is not available: a media, or the vault.
struct Subject(Option<MediaId>);

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(id) => write!(f, "media {id}"),
            None => f.write_str("the vault"),
        }
    }
}

/// The media was reopened. Only its newest writer may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a newer writer has taken over the media")]
pub struct Superseded;
