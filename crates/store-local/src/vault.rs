//! The vault on the local disk.
//!
//! A media is a file that has its final name from birth; there is no rename. The name and the
//! length mean nothing: the ledger says which media there are and how much of each counts.
//!
//! Blocking work, in pools that cannot take each other's threads.
//!
//! All of it runs on tokio's blocking threads, of which there are 512. A disk that has become slow
//! would soon have them all waiting in fdatasync; so each kind of work has its own number of them,
//! and what is beyond waits as a future, without a thread.

mod direct;
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

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use windlass_proto::digest::Crc32cHasher;
use windlass_store::{
    Cause, Extent, Failpoint, Listing, MediaId, MediaReader, MediaWriter, Space, Vault, VaultError,
};

pub(crate) use direct::Writes;

use crate::directory::{DeletionLock, DeletionLocked, DirectoryLock, StoreShared};
use crate::sync_health::FailStop;
use crate::{Durability, filesystem};
use layout::Layout;
use media::{FenceMap, LocalReader, LocalWriter, WriteBack};

/// A [`Vault`] in a directory.
///
/// Made by [`LocalStore::open`](crate::LocalStore::open). Its futures need a tokio runtime, on whose
/// blocking threads file calls run.
#[derive(Debug)]
pub struct LocalVault {
    shared: Arc<Shared>,
}

/// What work on blocking threads needs of the vault.
#[derive(Debug)]
struct Shared {
    layout: Layout,
    durability: Durability,
    /// How media is written.
    writes: Writes,
    io_pools: IoPools,
    fences: Arc<FenceMap>,
    fail_stop: FailStop,
    syncs: AtomicU64,
    deletion_lock: DeletionLock,
    /// Held as long as anything may still be written.
    _lock: Arc<DirectoryLock>,
}

impl LocalVault {
    pub(crate) fn new(root: PathBuf, writes: Writes, keep: StoreShared) -> Self {
        let shared = Shared {
            deletion_lock: DeletionLock::of(root.parent().expect("it is in the data directory")),
            layout: Layout::new(root),
            durability: keep.durability,
            writes,
            io_pools: IoPools::new(),
            fences: Arc::default(),
            fail_stop: FailStop::default(),
            syncs: AtomicU64::new(0),
            _lock: keep.lock,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// How often media was synced since the start.
    pub fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Vault for LocalVault {
    async fn create(&self, id: MediaId) -> Result<Box<dyn MediaWriter>, VaultError> {
        let shared = Arc::clone(&self.shared);
        let created = self
            .shared
            .io_pools
            .sync
            .run(move || shared.create(id))
            .await;
        Ok(Box::new(created.map_err(VaultError::Fault)??))
    }

    async fn reopen(
        &self,
        id: MediaId,
        committed: u64,
        verify: Option<Extent>,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        let shared = Arc::clone(&self.shared);
        let work = move || shared.reopen(id, committed, verify);
        let reopened = self.shared.io_pools.write.run(work).await;
        Ok(Box::new(reopened.map_err(VaultError::Fault)??))
    }

    async fn read(
        &self,
        id: MediaId,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let shared = Arc::clone(&self.shared);
        let opened = self
            .shared
            .io_pools
            .read
            .run(move || shared.read(id, range))
            .await;
        Ok(Box::new(opened.map_err(|cause| unreadable(id, cause))??))
    }

    async fn delete(&self, id: MediaId) -> Result<(), VaultError> {
        let shared = Arc::clone(&self.shared);
        let removed = self
            .shared
            .io_pools
            .write
            .run(move || shared.remove(id))
            .await;
        removed.map_err(|cause| unreadable(id, cause))?
    }

    async fn list(&self, after: Option<MediaId>, limit: usize) -> Result<Listing, VaultError> {
        let shared = Arc::clone(&self.shared);
        let listed = self
            .shared
            .io_pools
            .read
            .run(move || {
                let is_open = |id| shared.fences.is_open(id);
                shared.layout.list(after, limit, is_open)
            })
            .await;
        let from = after.unwrap_or(MediaId::from_bytes([0; 16]));
        listed
            .map_err(|cause| unreadable(from, cause))?
            .map_err(|error| out_of_reach(from, error))
    }

    async fn space(&self) -> Result<Space, VaultError> {
        let shared = Arc::clone(&self.shared);
        let work = move || filesystem::space(shared.layout.root());
        let space = self.shared.io_pools.read.run(work).await;
        space
            .map_err(VaultError::Fault)?
            .map_err(|error: io::Error| VaultError::Fault(Arc::new(error)))
    }
}

/// The blocking side.
impl Shared {
    /// The file first, its name second: a name that a crash leaves behind then has an inode.
    fn create(self: Arc<Self>, id: MediaId) -> Result<LocalWriter, VaultError> {
        let path = self.layout.path(id);
        let made = self.make(&path).or_else(|error| match error.kind() {
            // Empty directories may have been removed from outside.
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
        let fence = self.fences.take_over(id);
        let synced = self.durably(|| {
            file.sync_all()?;
            Failpoint::MediaSynced.reach();
            self.layout.sync_names(&path, &directories)
        });
        if let Err(error) = synced {
            // Nobody has learnt of it. What cannot be removed is an orphan, for the sweep.
            filesystem::remove(&path).ok();
            return Err(error);
        }
        Failpoint::MediaNamed.reach();
        Ok(LocalWriter::new(id, file, fence, self))
    }

    /// Makes a file, last of all: whatever can fail without a sync fails before it exists.
    ///
    /// In the same way its directories are open before the sync, in which an open that fails for
    /// want of a descriptor would look like a disk that failed.
    fn make(&self, path: &Path) -> io::Result<(Vec<File>, File)> {
        self.layout.make_directories(path)?;
        let directories = match self.durability {
            Durability::Disk => self.layout.open_directories(path)?,
            Durability::Os => Vec::new(),
        };
        Ok((directories, filesystem::create(path)?))
    }

    /// The cut is not synced: bytes behind the committed offset mean nothing, so it does not matter
    /// when a crash brings them back. The next reopening cuts them off again.
    fn reopen(
        self: Arc<Self>,
        id: MediaId,
        committed: u64,
        verify: Option<Extent>,
    ) -> Result<LocalWriter, VaultError> {
        let fence = self.fences.take_over(id);
        let file = filesystem::open(&self.layout.path(id)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => damaged(id, "it is gone"),
            _ => out_of_reach(id, error),
        })?;
        let len = file
            .metadata()
            .map_err(|error| out_of_reach(id, error))?
            .len();
        if len < committed {
            return Err(shorter(id));
        }
        if let Some(extent) = verify {
            check_extent(id, &file, extent, committed)?;
        }
        if len > committed {
            let cut = fence.pass(|| file.set_len(committed));
            let cut = cut.ok_or_else(|| VaultError::superseded(id))?;
            cut.map_err(|error| self.fail(error))?;
            Failpoint::TailCut.reach();
        }
        Ok(LocalWriter::new(id, file, fence, self))
    }

    fn remove(&self, id: MediaId) -> Result<(), VaultError> {
        match self.deletion_lock.is_taken() {
            Ok(false) => {}
            Ok(true) => return Err(unreadable(id, Arc::new(DeletionLocked))),
            Err(error) => return Err(out_of_reach(id, error)),
        }
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
        let len = file
            .metadata()
            .map_err(|error| out_of_reach(id, error))?
            .len();
        if len < range.end {
            return Err(shorter(id));
        }
        let lane = self.io_pools.read.clone();
        Ok(LocalReader {
            id,
            file: Arc::new(file),
            rest: range,
            lane,
        })
    }

    /// Bytes without a name are gone with the last descriptor, so their sync is none. The disk has
    /// done nothing wrong then: it is the end of this media only.
    fn sync_data(
        &self,
        id: MediaId,
        file: &File,
        write_back: &WriteBack,
    ) -> Result<(), VaultError> {
        self.durably(|| {
            let synced = filesystem::sync_data(file);
            write_back.wait();
            synced
        })?;
        match filesystem::has_name(file) {
            Ok(true) => {
                Failpoint::DataSynced.reach();
                Ok(())
            }
            Ok(false) => Err(damaged(id, "it was deleted while it was written")),
            Err(error) => Err(out_of_reach(id, error)),
        }
    }

    /// Syncs what is open already: whatever fails here is a disk that failed. Nothing is ever synced
    /// successfully after, or beside, a sync that failed.
    fn durably(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<(), VaultError> {
        if self.durability == Durability::Os {
            return Ok(());
        }
        self.fail_stop.check().map_err(VaultError::Fault)?;
        sync().map_err(|error| self.fail(error))?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.fail_stop.check().map_err(VaultError::Fault)
    }

    /// A write or a sync failed: the end of all syncs.
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
    damaged(id, "it is shorter than the ledger says")
}

fn unreadable(id: MediaId, cause: Cause) -> VaultError {
    VaultError::Unreadable { id, cause }
}

fn out_of_reach(id: MediaId, error: io::Error) -> VaultError {
    unreadable(id, Arc::new(error))
}

/// The pools of the vault.
///
/// Syncs profit from going together, as the file system puts their journal commits into one: 32
/// at once were three times as fast as one after another, and more than that gave nothing.
/// Direct writes wait for the disk, which is busy with sixteen of them. Other writes and reads mostly end in the
/// page cache; they need a thread for each processor and some for those that wait.
#[derive(Debug)]
struct IoPools {
    /// Syncs, and the last write before one.
    sync: BlockingPool,
    /// Syncs that nobody waits for, and that shall not be waited for.
    write_back: BlockingPool,
    /// Writes past the page cache.
    direct: BlockingPool,
    /// Other writes, and what is as quick: reopening, deleting.
    write: BlockingPool,
    read: BlockingPool,
}

impl IoPools {
    fn new() -> Self {
        Self {
            sync: BlockingPool::new(32),
            write_back: BlockingPool::new(8),
            direct: BlockingPool::new(16),
            write: BlockingPool::new(32),
            read: BlockingPool::new(32),
        }
    }
}

/// A bounded number of blocking threads.
#[derive(Debug, Clone)]
struct BlockingPool(Arc<Semaphore>);

impl BlockingPool {
    fn new(width: usize) -> Self {
        Self(Arc::new(Semaphore::new(width)))
    }

    /// Runs `work`. Once begun it runs to its end, also when the future is dropped.
    ///
    /// # Errors
    /// When the work panicked, or the runtime is going down.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cause> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let task = spawn(permit, work);
        task.await.map_err(|error| Arc::new(error) as Cause)
    }

    /// Begins `work`, for whose end nobody waits, if a thread is free. Whether it has begun.
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
        drop(permit);
        done
    })
}
