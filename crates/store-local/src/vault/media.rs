//! Open media: the writing and the reading end.
//!
//! One writer at a time.
//!
//! A write that was begun runs to its end, also when the request behind it is gone. The next writer
//! of the media must not begin before that, or the old bytes would land on top of the new ones.
//!
//! Bytes in the page cache go to the disk before anybody waits for it.
//!
//! The kernel would keep them for many seconds, so that the sync at the end of a request
//! would have all of it before it. A sync now and then, beside the writes, leaves little to the last one.

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

/// The writing end.
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
            file: Arc::new(MediaFile::new(file, shared.writes)),
            fence,
            shared,
            write_back: Arc::default(),
        }
    }

    /// The write, for a thread that may block. Tells how much of it is in the page cache.
    fn writing(
        &self,
        offset: u64,
        data: Vec<Bytes>,
    ) -> impl FnOnce() -> Result<u64, VaultError> + Send + 'static {
        let (id, file, fence) = (self.id, Arc::clone(&self.file), Arc::clone(&self.fence));
        let shared = Arc::clone(&self.shared);
        move || match fence.pass(|| file.write_all_at(&data, offset)) {
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
            // What the disk did to the bytes before, nobody knows.
            Some(Err(stopped)) => Err(shared.fail(stopped.error)),
        }
    }

    /// The sync, for a thread that may block.
    fn syncing(&self) -> impl FnOnce() -> Result<(), VaultError> + Send + 'static {
        let (id, file) = (self.id, Arc::clone(&self.file));
        let (shared, write_back) = (Arc::clone(&self.shared), Arc::clone(&self.write_back));
        move || {
            write_back.reset();
            shared.sync_data(id, file.as_file(), &write_back)
        }
    }

    /// Sends what the page cache has to the disk when there is enough of it. A sync that fails is the end of all
    /// syncs, so anyone who wants to acknowledge these bytes will learn of it.
    fn write_back(&self, cached: u64) {
        if self.shared.durability == Durability::Os || !self.write_back.is_due(cached) {
            return;
        }
        let (file, shared) = (Arc::clone(&self.file), Arc::clone(&self.shared));
        let write_back = Arc::clone(&self.write_back);
        let begun = self.shared.io_pools.write_back.begin(move || {
            write_back.run(move || {
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
        let lane = if self.file.goes_direct(&data, offset) {
            &io_pools.direct
        } else {
            &io_pools.write
        };
        let written = lane.run(self.writing(offset, data)).await;
        let cached = written.unwrap_or_else(fault)?;
        self.write_back(cached);
        Ok(())
    }

    async fn sync(&self) -> Result<(), VaultError> {
        let synced = self.shared.io_pools.sync.run(self.syncing()).await;
        synced.unwrap_or_else(fault)
    }

    /// Both in one stay on a thread.
    async fn write_and_sync(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let (write, sync) = (self.writing(offset, data), self.syncing());
        let work = || write().and_then(|_| sync());
        let synced = self.shared.io_pools.sync.run(work).await;
        synced.unwrap_or_else(fault)
    }
}

fn fault<T>(cause: Cause) -> Result<T, VaultError> {
    Err(VaultError::Fault(cause))
}

/// The reading end. It keeps its descriptor, so it outlives the media's name.
#[derive(Debug)]
pub(super) struct LocalReader {
    pub(super) id: MediaId,
    pub(super) file: Arc<File>,
    pub(super) rest: Range<u64>,
    pub(super) lane: BlockingPool,
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
            .lane
            .run(work)
            .await
            .map_err(|cause| unreadable(self.id, cause))?;
        let read = read.map_err(|error| unreadable(self.id, Arc::new(error)))?;
        if read.len() < len {
            return Err(shorter(self.id));
        }
        self.rest.start += read.len() as u64;
        Ok(read.into())
    }
}

/// The newest fence of every media that is open for writing.
#[derive(Debug, Default)]
pub(super) struct FenceMap(Mutex<HashMap<MediaId, Weak<WriteFence>>>);

/// What a writer passes through to write.
#[derive(Debug)]
pub(super) struct WriteFence {
    id: MediaId,
    closed: RwLock<bool>,
    fences: Arc<FenceMap>,
}

impl FenceMap {
    /// A fence for a new writer. Blocks until no writer before it is writing; none will again.
    pub(super) fn take_over(self: &Arc<Self>, id: MediaId) -> Arc<WriteFence> {
        let fence = WriteFence {
            id,
            closed: RwLock::new(false),
            fences: Arc::clone(self),
        };
        let fence = Arc::new(fence);
        let before = self.map().insert(id, Arc::downgrade(&fence));
        if let Some(before) = before.and_then(|before| before.upgrade()) {
            *before.closed.write().expect("no write panics") = true;
        }
        fence
    }

    /// Whether a writer has the media open.
    pub(super) fn is_open(&self, id: MediaId) -> bool {
        // Counted, not upgraded: the last owner drops its fence, which takes the map's lock.
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
    /// Does `work` under the fence; `None` when a newer writer has closed it.
    pub(super) fn pass<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let closed = self.closed.read().expect("no write panics");
        (!*closed).then(work)
    }
}

impl Drop for WriteFence {
    fn drop(&mut self) {
        let mut map = self.fences.map();
        if map
            .get(&self.id)
            .is_some_and(|newest| newest.strong_count() == 0)
        {
            map.remove(&self.id);
        }
    }
}

/// How much is written before it is sent to the disk.
const FLUSH_BYTES: u64 = 2 * 1024 * 1024;

/// Tells one writer when to send what it wrote to the disk. There is at most one such sync at a time: a
/// disk that is slow gets longer stretches, not more syncs.
#[derive(Debug, Default)]
pub(super) struct WriteBack {
    waiting: AtomicU64,
    running: AtomicBool,
    /// Held during the sync, until what came of it is known to all.
    syncing: Mutex<()>,
}

impl WriteBack {
    /// Takes note of bytes that were written to the page cache. When the answer is yes, the caller [runs](WriteBack::run) a
    /// sync, or [puts it off](WriteBack::put_off).
    pub(super) fn is_due(&self, cached: u64) -> bool {
        let waiting = self.waiting.fetch_add(cached, Ordering::Relaxed) + cached;
        let due = waiting >= FLUSH_BYTES && !self.running.swap(true, Ordering::Relaxed);
        if due {
            self.waiting.store(0, Ordering::Relaxed);
        }
        due
    }

    /// Runs the sync that was due.
    pub(super) fn run(&self, sync: impl FnOnce()) {
        let syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        sync();
        drop(syncing);
        self.running.store(false, Ordering::Relaxed);
    }

    /// The sync that was due cannot be run now; the next write asks again.
    pub(super) fn postpone(&self) {
        self.waiting.fetch_add(FLUSH_BYTES, Ordering::Relaxed);
        self.running.store(false, Ordering::Relaxed);
    }

    /// Waits for the sync that is running. Linux tells of a failed write-back only once for each open file: a
    /// sync that succeeded beside another one means something only when that one has not failed.
    pub(super) fn wait(&self) {
        drop(self.syncing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All that was written is being synced in any case.
    pub(super) fn reset(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_due_when_the_one_before_has_ended() {
        let write_back = WriteBack::default();
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
        assert!(write_back.is_due(1));
        assert!(!write_back.is_due(FLUSH_BYTES), "one is under way");
        write_back.run(|| {});
        assert!(write_back.is_due(1), "what came meanwhile counts");
        write_back.postpone();
        assert!(write_back.is_due(1));
        write_back.run(|| {});
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
        write_back.reset();
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
    }

    #[test]
    fn whoever_waits_learns_of_the_sync_that_runs() {
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
