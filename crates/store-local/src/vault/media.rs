//! Open media: the writer with its fence and its write-back, and the reader.
//!
//! A write that has begun runs to its end, even if the request behind it has been dropped. The next
//! writer of the media must not begin before that, or old bytes would overwrite new ones. A
//! [`WriteFence`] ensures it (`docs/adr/0005`).
//!
//! The kernel would keep written bytes in the page cache for many seconds, and the sync at the end
//! of a request would have to write all of them. [`WriteBack`] syncs now and then during the
//! writes, so that little is left to the last sync.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_store::{Cause, Failpoint, MediaId, MediaReader, MediaWriter, VaultError};

use super::direct::MediaFile;
use super::{BlockingPool, Shared, shorter, unreadable};
use crate::{Durability, filesystem};

/// The writer of a media.
#[derive(Debug)]
pub(super) struct LocalWriter {
    id: MediaId,
    file: Arc<MediaFile>,
    fence: Arc<WriteFence>,
    shared: Arc<Shared>,
    write_back: Arc<WriteBack>,
}

impl LocalWriter {
    pub(super) fn new(
        id: MediaId,
        file: File,
        fence: Arc<WriteFence>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            id,
            file: Arc::new(MediaFile::new(file, shared.write_policy)),
            fence,
            shared,
            write_back: Arc::default(),
        }
    }

    /// Returns the write as a closure for a thread that may block. It returns the number of bytes
    /// that went into the page cache.
    fn writing(
        &self,
        offset: u64,
        data: Vec<Bytes>,
    ) -> impl FnOnce() -> Result<u64, VaultError> + Send + 'static {
        let (id, file, fence) = (self.id, Arc::clone(&self.file), Arc::clone(&self.fence));
        let shared = Arc::clone(&self.shared);
        move || match fence.with(|| file.write_all_at(&data, offset)) {
            None => Err(VaultError::superseded(id)),
            Some(Ok(cached)) => {
                Failpoint::DataWritten.reach();
                Ok(cached)
            }
            Some(Err(stopped)) if filesystem::is_out_of_space(&stopped.error) => {
                Err(VaultError::NoSpace {
                    written: stopped.written,
                })
            }
            // A fault, although only a write has failed: after an I/O error it is unknown what the
            // disk holds, also of earlier bytes.
            Some(Err(stopped)) => Err(shared.fail(stopped.error)),
        }
    }

    /// Returns the sync as a closure for a thread that may block.
    fn syncing(&self) -> impl FnOnce() -> Result<(), VaultError> + Send + 'static {
        let (id, file) = (self.id, Arc::clone(&self.file));
        let (shared, write_back) = (Arc::clone(&self.shared), Arc::clone(&self.write_back));
        move || {
            // Before the sync: bytes that are written during it count for the next write-back.
            write_back.reset();
            shared.sync_data(id, file.as_file(), &write_back)
        }
    }

    /// Starts a sync in the background when enough bytes are in the page cache.
    fn write_back(&self, cached: u64) {
        if self.shared.durability == Durability::Os || !self.write_back.is_due(cached) {
            return;
        }
        let (file, shared) = (Arc::clone(&self.file), Arc::clone(&self.shared));
        let write_back = Arc::clone(&self.write_back);
        let begun = self.shared.io_pools.write_back.begin(move || {
            write_back.run(move || {
                // The error is not lost: no later sync succeeds, so these bytes are never
                // acknowledged.
                shared
                    .durably(|| filesystem::sync_data(file.as_file()))
                    .ok();
            });
        });
        if !begun {
            self.write_back.postpone();
        }
    }
}

#[async_trait]
impl MediaWriter for LocalWriter {
    async fn write(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let io_pools = &self.shared.io_pools;
        // Direct writes wait for the disk, and would keep the quick writes into the page cache
        // waiting.
        let pool = if self.file.is_direct(&data, offset) {
            &io_pools.direct
        } else {
            &io_pools.write
        };
        let written = pool.run(self.writing(offset, data)).await;
        let cached = written.unwrap_or_else(fault)?;
        self.write_back(cached);
        Ok(())
    }

    async fn sync(&self) -> Result<(), VaultError> {
        let synced = self.shared.io_pools.sync.run(self.syncing()).await;
        synced.unwrap_or_else(fault)
    }

    /// Runs both on one thread, one after the other. Two hand-overs to a thread cost chunks of 256
    /// KiB a tenth more processor time.
    async fn write_and_sync(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let (write, sync) = (self.writing(offset, data), self.syncing());
        // Only after a complete write: a sync after NoSpace is for the caller to decide.
        let work = || write().and_then(|_| sync());
        let synced = self.shared.io_pools.sync.run(work).await;
        synced.unwrap_or_else(fault)
    }
}

fn fault<T>(cause: Cause) -> Result<T, VaultError> {
    Err(VaultError::Fault(cause))
}

/// The reader of a media. It keeps its descriptor, so it goes on when the media is deleted.
#[derive(Debug)]
pub(super) struct LocalReader {
    pub(super) id: MediaId,
    pub(super) file: Arc<File>,
    pub(super) rest: Range<u64>,
    pub(super) pool: BlockingPool,
}

#[async_trait]
impl MediaReader for LocalReader {
    async fn next(&mut self, most: usize) -> Result<Bytes, VaultError> {
        let (file, offset) = (Arc::clone(&self.file), self.rest.start);
        let len = self.rest.end.saturating_sub(offset).min(most as u64);
        if len == 0 {
            return Ok(Bytes::new());
        }
        let len = usize::try_from(len).expect("it is at most `most`");
        let work = move || filesystem::read_at(&file, offset, len);
        let read = self
            .pool
            .run(work)
            .await
            .map_err(|cause| unreadable(self.id, cause))?;
        let read = read.map_err(|error| unreadable(self.id, Arc::new(error)))?;
        // The length was checked when the reader was opened, so the file has been cut since.
        if read.len() < len {
            return Err(shorter(self.id));
        }
        self.rest.start += read.len() as u64;
        Ok(read.into())
    }
}

/// The newest fence of every media that is open for writing.
///
/// The references are weak, so that an entry does not keep the fence of a dropped writer.
#[derive(Debug, Default)]
pub(super) struct FenceMap(Mutex<HashMap<MediaId, Weak<WriteFence>>>);

/// Separates the writers of a media: a write runs under its writer's fence, and a newer writer
/// closes the fence of the one before.
#[derive(Debug)]
pub(super) struct WriteFence {
    id: MediaId,
    /// Read-locked during each write, so that closing it waits for writes in progress.
    closed: RwLock<bool>,
    fences: Arc<FenceMap>,
}

impl FenceMap {
    /// Returns the fence of a new writer. Blocks until earlier writers have ended their writes in
    /// progress; further ones are refused.
    pub(super) fn take_over(self: &Arc<Self>, id: MediaId) -> Arc<WriteFence> {
        let fence = WriteFence {
            id,
            closed: RwLock::new(false),
            fences: Arc::clone(self),
        };
        let fence = Arc::new(fence);
        // The map's lock is released at the end of this line. Waiting for a write while holding it
        // would stop the writers of all media.
        let before = self.map().insert(id, Arc::downgrade(&fence));
        if let Some(before) = before.and_then(|before| before.upgrade()) {
            *before.closed.write().expect("no write panics") = true;
        }
        fence
    }

    /// Returns whether a writer has the media open.
    pub(super) fn is_open(&self, id: MediaId) -> bool {
        // Counted, not upgraded: dropping an upgraded reference could be the last drop of the
        // fence, which takes the map's lock again.
        let map = self.map();
        map.get(&id).is_some_and(|fence| fence.strong_count() > 0)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.map().len()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<MediaId, Weak<WriteFence>>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl WriteFence {
    /// Runs `work` under the fence. Returns `None` if a newer writer has closed it.
    pub(super) fn with<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let closed = self.closed.read().expect("no write panics");
        (!*closed).then(work)
    }
}

impl Drop for WriteFence {
    fn drop(&mut self) {
        let mut map = self.fences.map();
        // The entry may be the fence of a newer writer already, which must stay.
        if map
            .get(&self.id)
            .is_some_and(|newest| newest.strong_count() == 0)
        {
            map.remove(&self.id);
        }
    }
}

/// Number of bytes in the page cache at which a write-back is due. With syncs of this size chunks
/// of 8 MiB were stored nearly twice as fast as with one sync at their end.
const FLUSH_BYTES: u64 = 2 * 1024 * 1024;

/// Decides when a writer starts a sync in the background. At most one runs at a time, so a slow
/// disk gets larger syncs, not more of them.
///
/// The atomics are relaxed: they only decide when a sync starts. Its outcome is published by
/// `syncing`.
#[derive(Debug, Default)]
pub(super) struct WriteBack {
    waiting: AtomicU64,
    running: AtomicBool,
    /// Locked during the sync, until its outcome is recorded.
    syncing: Mutex<()>,
}

impl WriteBack {
    /// Counts bytes that went into the page cache, and returns whether a sync is due. The caller
    /// then [runs](WriteBack::run) or [postpones](WriteBack::postpone) it.
    pub(super) fn is_due(&self, cached: u64) -> bool {
        let waiting = self.waiting.fetch_add(cached, Ordering::Relaxed) + cached;
        // `swap` lets only one of several concurrent writes start the sync.
        let due = waiting >= FLUSH_BYTES && !self.running.swap(true, Ordering::Relaxed);
        if due {
            self.waiting.store(0, Ordering::Relaxed);
        }
        due
    }

    /// Runs the sync that is due.
    pub(super) fn run(&self, sync: impl FnOnce()) {
        let syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        sync();
        // Before `running` is cleared, so that the next sync does not wait for this lock.
        drop(syncing);
        self.running.store(false, Ordering::Relaxed);
    }

    /// Postpones the sync that is due, because no thread is free.
    pub(super) fn postpone(&self) {
        // So that the next write is told that a sync is due.
        self.waiting.fetch_add(FLUSH_BYTES, Ordering::Relaxed);
        self.running.store(false, Ordering::Relaxed);
    }

    /// Waits until the running sync, if any, has recorded its outcome.
    ///
    /// Linux reports a failed write-back only once for each open file. So the success of a sync in
    /// parallel with this one counts only if this one has not failed.
    pub(super) fn wait(&self) {
        drop(self.syncing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Forgets the bytes counted so far, because a requested sync is about to write them.
    pub(super) fn reset(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_back_is_due_only_after_the_one_before_has_ended() {
        let write_back = WriteBack::default();
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
        assert!(write_back.is_due(1));
        assert!(!write_back.is_due(FLUSH_BYTES), "one is under way");
        write_back.run(|| {});
        assert!(write_back.is_due(1), "bytes that came meanwhile count");
        write_back.postpone();
        assert!(write_back.is_due(1));
        write_back.run(|| {});
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
        write_back.reset();
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
    }

    #[test]
    fn wait_returns_after_the_outcome_of_the_running_sync() {
        let write_back = WriteBack::default();
        let failed = AtomicBool::new(false);
        let (begun, begins) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                write_back.run(|| {
                    begun.send(()).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    failed.store(true, Ordering::Relaxed);
                });
            });
            begins.recv().unwrap();
            write_back.wait();
            assert!(failed.load(Ordering::Relaxed));
        });
    }
}
