//! The vault on the local disk.
//!
//! A media is a file that has its final name from the first byte on; nothing is renamed. Its name
//! and its length mean nothing: the ledger says which media exist and how much of each counts.
//!
//! All file calls run on tokio's blocking threads, of which there are 512 by default. A disk that
//! has become slow would soon keep all of them waiting in `fdatasync`. So each kind of work has a
//! limited number of them ([`IoPools`]), and further work waits as a future, without a thread.

pub(crate) mod layout;
mod media;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use windlass_digest::Crc32cHasher;
use windlass_store::recorder::StoreRecorder;
use windlass_store::{
    Cause, ExpectedSize, Extent, Failpoint, ListPosition, Listing, MediaId, MediaReader,
    MediaWriter, Part, Space, StoredMedia, StoredName, Vault, VaultError,
};

pub(crate) use media::WritePolicy;

use crate::directory::{DeletionLock, DeletionLocked, DirectoryLock, StoreShared};
use crate::filesystem::SharedDirectory;
use crate::sync_health::FailStop;
use crate::{Durability, filesystem};
use layout::Layout;
use media::{FenceMap, LocalReader, LocalWriter, WriteBack};

/// A [`Vault`] in a directory.
///
/// It is opened by [`LocalStore::open`](crate::LocalStore::open). Its futures need a tokio runtime,
/// because the file calls run on the runtime's blocking threads.
#[derive(Debug)]
pub struct LocalVault {
    shared: Arc<Shared>,
}

/// The state that work on blocking threads shares.
#[derive(Debug)]
struct Shared {
    layout: Layout,
    durability: Durability,
    /// Whether large writes bypass the page cache.
    write_policy: WritePolicy,
    io_pools: IoPools,
    fences: Arc<FenceMap>,
    fail_stop: FailStop,
    syncs: AtomicU64,
    recorder: Arc<dyn StoreRecorder>,
    deletion_lock: DeletionLock,
    /// Whether media that everybody can change is used all the same.
    allow_shared_data: bool,
    /// Released with the last writer: as long as one may write, no other process may open the
    /// directory.
    _lock: Arc<DirectoryLock>,
}

impl LocalVault {
    pub(crate) fn new(root: PathBuf, write_policy: WritePolicy, shared_state: StoreShared) -> Self {
        let shared = Shared {
            deletion_lock: DeletionLock::of(root.parent().expect("it is in the data directory")),
            layout: Layout::new(root),
            durability: shared_state.durability,
            write_policy,
            io_pools: IoPools::new(),
            fences: Arc::default(),
            fail_stop: FailStop::default(),
            syncs: AtomicU64::new(0),
            recorder: shared_state.recorder,
            allow_shared_data: shared_state.allow_shared_data,
            _lock: shared_state.lock,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the number of syncs of media since the start.
    pub fn syncs(&self) -> u64 {
        // A statistic. Nothing is ordered by it.
        self.shared.syncs.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Vault for LocalVault {
    async fn create(
        &self,
        id: MediaId,
        _: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        let shared = Arc::clone(&self.shared);
        // In the pool of syncs, which take most of its time.
        let created = self
            .shared
            .io_pools
            .sync
            .run(move || shared.create(id))
            .await;
        Ok(Box::new(created.map_err(VaultError::Fault)??))
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        let shared = Arc::clone(&self.shared);
        let (id, committed, verify) = (stored.id, stored.length, stored.verify);
        let work = move || shared.resume(id, committed, verify);
        let resumed = self.shared.io_pools.write.run(work).await;
        Ok(Box::new(resumed.map_err(VaultError::Fault)??))
    }

    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let id = media.media;
        let shared = Arc::clone(&self.shared);
        let opened = self
            .shared
            .io_pools
            .read
            .run(move || shared.read(id, range))
            .await;
        Ok(Box::new(opened.map_err(|cause| unavailable(id, cause))??))
    }

    async fn concat(
        &self,
        id: MediaId,
        parts: Vec<Part>,
        copied: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Bytes, VaultError> {
        let shared = Arc::clone(&self.shared);
        let created = self.shared.io_pools.sync.run(move || shared.create(id));
        let writer = created.await.map_err(VaultError::Fault)??;
        writer.fill(parts, copied).await?;
        Ok(Bytes::new())
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        let id = stored.media;
        let shared = Arc::clone(&self.shared);
        let removed = self
            .shared
            .io_pools
            .write
            .run(move || shared.remove(id))
            .await;
        removed.map_err(|cause| unavailable(id, cause))?
    }

    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError> {
        let after = from.map(|from| from.media()).transpose()?;
        let shared = Arc::clone(&self.shared);
        let listed = self
            .shared
            .io_pools
            .read
            .run(move || {
                // Media with a writer may be about to be referenced, however old it is.
                let is_open = |id| shared.fences.is_open(id);
                shared.layout.list(after, limit, is_open)
            })
            .await;
        let unavailable = |cause| VaultError::Unavailable { id: None, cause };
        listed
            .map_err(unavailable)?
            .map_err(|error| unavailable(Arc::new(error)))
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        let shared = Arc::clone(&self.shared);
        let work = move || filesystem::space(shared.layout.root());
        let space = self.shared.io_pools.read.run(work).await;
        space
            .map_err(VaultError::Fault)?
            .map(Some)
            .map_err(|error: io::Error| VaultError::Fault(Arc::new(error)))
    }
}

/// The methods that run on blocking threads.
impl Shared {
    /// Creates a media and makes it durable.
    fn create(self: Arc<Self>, id: MediaId) -> Result<LocalWriter, VaultError> {
        let path = self.layout.path(id);
        let made = self.make(&path).or_else(|error| match error.kind() {
            // An operator may have removed empty directories that are remembered as durable.
            io::ErrorKind::NotFound => {
                self.layout.forget_directories(&path);
                self.make(&path)
            }
            _ => Err(error),
        });
        let (directories, file) = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => damaged(id, "its name is taken"),
            _ if filesystem::is_out_of_space(&error) => VaultError::NoSpace { written: 0 },
            _ => out_of_reach(id, error),
        })?;
        Failpoint::MediaCreated.reach();
        // Before the sync, which may take long: listings leave out media with a writer.
        let fence = self.fences.take_over(id);
        let synced = self.durably(|| {
            // The file before its name, so that a name which a crash leaves behind has an inode.
            file.sync_all()?;
            Failpoint::MediaSynced.reach();
            self.layout.sync_names(&path, &directories)
        });
        if let Err(error) = synced {
            // No caller knows the media. If it cannot be removed, it is an orphan for the sweep.
            filesystem::remove(&path).ok();
            return Err(error);
        }
        Failpoint::MediaNamed.reach();
        Ok(LocalWriter::new(id, file, fence, self))
    }

    /// Creates the file of a media, not durable yet. Returns the directories to sync as well.
    fn make(&self, path: &Path) -> io::Result<(Vec<File>, File)> {
        self.layout.make_directories(path)?;
        self.check_directory(path)?;
        let directories = match self.durability {
            // Opened before the sync: an open that fails there, for lack of a descriptor, would
            // look like a failed disk.
            Durability::Disk => self.layout.open_directories(path)?,
            Durability::Os => Vec::new(),
        };
        // Last, so that everything else that can fail fails before the file exists.
        Ok((directories, filesystem::create(path)?))
    }

    /// Opens a media for writing at `committed`.
    fn resume(
        self: Arc<Self>,
        id: MediaId,
        committed: u64,
        verify: Option<Extent>,
    ) -> Result<LocalWriter, VaultError> {
        // Before the length is read: an older writer that is still writing could change it.
        let fence = self.fences.take_over(id);
        let path = self.layout.path(id);
        let file = filesystem::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => damaged(id, "it is gone"),
            _ => out_of_reach(id, error),
        })?;
        let len = self.checked_len(&path, &file);
        let len = len.map_err(|error| out_of_reach(id, error))?;
        if len < committed {
            return Err(shorter(id));
        }
        if let Some(extent) = verify {
            check_extent(id, &file, extent, committed)?;
        }
        if len > committed {
            // Under the fence, because a newer writer may have taken over since.
            let cut = fence.with(|| file.set_len(committed));
            let cut = cut.ok_or_else(|| VaultError::superseded(id))?;
            // Not synced: bytes behind the committed offset mean nothing. If a crash brings them
            // back, the next reopening cuts them off again.
            cut.map_err(|error| self.fail(error))?;
            Failpoint::TailCut.reach();
        }
        Ok(LocalWriter::new(id, file, fence, self))
    }

    /// Returns the length of a media. Refuses media that everybody can change.
    fn checked_len(&self, path: &Path, file: &File) -> io::Result<u64> {
        let metadata = file.metadata()?;
        match SharedDirectory::judged(&metadata).filter(|why| why.is_open_to_all()) {
            Some(why) if !self.allow_shared_data => Err(io::Error::other(OpenToAll {
                path: path.to_owned(),
                why,
            })),
            _ => {
                self.check_directory(path)?;
                Ok(metadata.len())
            }
        }
    }

    /// Refuses a directory of media that every user can change. Warns of a directory that only some
    /// other users can change.
    fn check_directory(&self, path: &Path) -> io::Result<()> {
        let Some(why) = self.layout.check_directory(path, self.allow_shared_data)? else {
            return Ok(());
        };
        let path = path.parent().expect("a media is in a directory").to_owned();
        if why.is_open_to_all() && !self.allow_shared_data {
            return Err(io::Error::other(OpenToAll { path, why }));
        }
        tracing::warn!(path = %path.display(), "other users can change what is stored: {why}");
        Ok(())
    }

    fn remove(&self, id: MediaId) -> Result<(), VaultError> {
        // After the ledger has released the media, and before the unlink: see DeletionLock.
        match self.deletion_lock.is_locked() {
            Ok(false) => {}
            Ok(true) => return Err(unavailable(id, Arc::new(DeletionLocked))),
            Err(error) => return Err(out_of_reach(id, error)),
        }
        // The removal is not synced: if a crash brings the file back, the sweep deletes it again.
        filesystem::remove(&self.layout.path(id)).map_err(|error| out_of_reach(id, error))?;
        Failpoint::MediaUnlinked.reach();
        Ok(())
    }

    fn read(&self, id: MediaId, range: Range<u64>) -> Result<LocalReader, VaultError> {
        let path = self.layout.path(id);
        let file = filesystem::open_for_reading(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => VaultError::Missing(id),
            _ => out_of_reach(id, error),
        })?;
        let len = self.checked_len(&path, &file);
        let len = len.map_err(|error| out_of_reach(id, error))?;
        if len < range.end {
            return Err(shorter(id));
        }
        let pool = self.io_pools.read.clone();
        Ok(LocalReader {
            id,
            file: Arc::new(file),
            rest: range,
            pool,
        })
    }

    /// Syncs the bytes of a media, and checks that it has not been deleted meanwhile.
    fn sync_data(
        &self,
        id: MediaId,
        file: &File,
        write_back: &WriteBack,
    ) -> Result<(), VaultError> {
        self.durably(|| {
            let synced = filesystem::sync_data(file);
            // After the sync, whether it has failed or not: Linux reports a failed write-back once
            // for each open file, and it may have been reported to the write-back's sync.
            write_back.wait();
            synced
        })?;
        // The bytes of an unlinked file are gone with its last descriptor, so its sync means
        // nothing. That is the end of this media only: the disk has not failed.
        match filesystem::has_name(file) {
            Ok(true) => {
                Failpoint::DataSynced.reach();
                Ok(())
            }
            Ok(false) => Err(damaged(id, "it was deleted while it was written")),
            Err(error) => Err(out_of_reach(id, error)),
        }
    }

    /// Runs a sync of files that are open already, so that any failure is one of the disk. No sync
    /// succeeds after a failed one, or in parallel with it.
    fn durably(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<(), VaultError> {
        if self.durability == Durability::Os {
            return Ok(());
        }
        self.fail_stop
            .fail_if_tripped()
            .map_err(VaultError::Fault)?;
        let begun = Instant::now();
        sync().map_err(|error| self.fail(error))?;
        self.recorder.media_synced(begun.elapsed());
        self.syncs.fetch_add(1, Ordering::Relaxed);
        // Again, because a parallel sync may have failed meanwhile: it may have taken the report of
        // an error that concerns these bytes.
        self.fail_stop.fail_if_tripped().map_err(VaultError::Fault)
    }

    /// Records that a write or a sync has failed. No sync succeeds from then on.
    fn fail(&self, error: io::Error) -> VaultError {
        VaultError::Fault(self.fail_stop.trip(error))
    }
}

/// Reads the last committed extent back and compares it with its checksum.
fn check_extent(
    id: MediaId,
    file: &File,
    extent: Extent,
    committed: u64,
) -> Result<(), VaultError> {
    // An extent may have the length of a whole request. It is read in pieces to bound the memory.
    const STEP: u64 = 1 << 20;
    let mut hasher = Crc32cHasher::default();
    let mut offset = extent.start;
    while offset < committed {
        let len = usize::try_from((committed - offset).min(STEP)).expect("at most STEP");
        let piece = filesystem::read_at(file, offset, len).map_err(|e| out_of_reach(id, e))?;
        if piece.is_empty() {
            return Err(shorter(id));
        }
        hasher.update(&piece);
        offset += piece.len() as u64;
    }
    if hasher.value() != extent.crc32c {
        return Err(damaged(id, "its last extent differs from its checksum"));
    }
    Ok(())
}

fn damaged(id: MediaId, reason: &'static str) -> VaultError {
    VaultError::Damaged { id, reason }
}

fn shorter(id: MediaId) -> VaultError {
    damaged(id, "it is shorter than its committed length")
}

fn unavailable(id: MediaId, cause: Cause) -> VaultError {
    VaultError::Unavailable {
        id: Some(id),
        cause,
    }
}

fn out_of_reach(id: MediaId, error: io::Error) -> VaultError {
    unavailable(id, Arc::new(error))
}

/// Media, or its directory, that everybody can change.
#[derive(Debug, thiserror::Error)]
#[error("other users can change what is in {}: {why}", path.display())]
struct OpenToAll {
    path: PathBuf,
    why: SharedDirectory,
}

/// Blocking threads for each kind of work. No kind can occupy the threads of another.
#[derive(Debug)]
struct IoPools {
    /// Syncs, with the writes directly before them, and creations.
    sync: BlockingPool,
    /// Syncs of [`WriteBack`], for which no request waits.
    write_back: BlockingPool,
    /// Writes that bypass the page cache.
    direct: BlockingPool,
    /// Writes into the page cache, reopenings and deletions.
    write: BlockingPool,
    /// Copies of media into other media.
    copy: BlockingPool,
    read: BlockingPool,
}

impl IoPools {
    fn new() -> Self {
        Self {
            // Parallel syncs profit from each other, because the file system puts them into one
            // commit of its journal. 32 at a time were three times as fast as one, and more gained
            // nothing.
            sync: BlockingPool::new(32),
            // Fewer, so that the syncs for which requests wait have the disk mostly to themselves.
            write_back: BlockingPool::new(8),
            // Sixteen direct writes keep a disk busy.
            direct: BlockingPool::new(16),
            // Other writes and reads mostly end in the page cache. They need a thread for each
            // processor, and some more threads that wait for the disk.
            write: BlockingPool::new(32),
            // A copy reads and writes as fast as the disk can. A few of them leave most of it to
            // uploads and downloads.
            copy: BlockingPool::new(4),
            read: BlockingPool::new(32),
        }
    }
}

/// A limited number of blocking threads.
#[derive(Debug, Clone)]
struct BlockingPool(Arc<Semaphore>);

impl BlockingPool {
    fn new(width: usize) -> Self {
        Self(Arc::new(Semaphore::new(width)))
    }

    /// Runs `work`. Once begun, it runs to its end even if the future is dropped.
    ///
    /// # Errors
    /// When the work has panicked or the runtime shuts down.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cause> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let task = spawn(permit, work);
        task.await.map_err(|error| Arc::new(error) as Cause)
    }

    /// Begins `work` without waiting for it, if a thread is free. Returns whether it has begun.
    fn begin(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let permit = Arc::clone(&self.0).try_acquire_owned();
        permit.map(|permit| spawn(permit, work)).is_ok()
    }
}

fn spawn<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        let done = work();
        // With the work, not with the future: a dropped future does not stop the work.
        drop(permit);
        done
    })
}
