//! Open media: the writer with its fence and its write-back, and the reader.
//!
//! A write that has begun runs to its end, even if the request behind it has been dropped. The next
//! writer of the media must not begin before that, or old bytes would overwrite new ones. A
//! [`WriteFence`] ensures it (`docs/adr/0005`).
//!
//! The kernel would keep written bytes in the page cache for many seconds, and the sync at the end
//! of a request would have to write all of them. [`WriteBack`] syncs now and then during the
//! writes, so that little is left to the last sync.
//!
//! Large writes bypass the page cache. Media is synced before it is acknowledged, so the page cache
//! saves nobody a wait. But its pages have to be found, filled and written back, which takes more
//! processor time than everything else in a large upload. A direct write hands its bytes to the
//! disk and is done (`docs/adr/0006`). The kernel requires memory, offset and length of a direct
//! write to be multiples of a few KiB at most. Other bytes are written through the page cache.
//! Either way bytes are durable only after a sync.

mod copy;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_store::{
    Cause, Failpoint, MediaId, MediaReader, MediaWriter, SyncTarget, VaultError, WRITE_UNIT,
};

use super::{BlockingPool, Shared, shorter, unavailable};
use crate::Durability;
use crate::filesystem::{self, Stopped};

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
            // A fault, although only a write has failed: after an I/O error the state of the disk
            // is unknown, even for earlier bytes.
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
    async fn append(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
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

    async fn sync(&self, _: SyncTarget) -> Result<(), VaultError> {
        let synced = self.shared.io_pools.sync.run(self.syncing()).await;
        synced.unwrap_or_else(fault)
    }

    /// Runs both on one thread, one after the other. Two hand-overs to a thread cost chunks of 256
    /// KiB a tenth more processor time.
    async fn append_and_sync(
        &self,
        offset: u64,
        data: Vec<Bytes>,
        _: SyncTarget,
    ) -> Result<(), VaultError> {
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

/// The reader of a media. It keeps its descriptor, so it continues to work when the media is
/// deleted.
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
            .map_err(|cause| unavailable(self.id, cause))?;
        let read = read.map_err(|error| unavailable(self.id, Arc::new(error)))?;
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
        // The next write then learns that a sync is due.
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

/// Shorter writes go through the page cache: most of their cost does not depend on their length.
const MIN_DIRECT_LEN: usize = 64 * 1024;

/// A media's file, open for writing.
#[derive(Debug)]
pub(super) struct MediaFile {
    file: File,
    /// Direct writes are wanted, and none has been refused. Relaxed, because a stale value only
    /// costs a direct write that is refused once more.
    takes_direct: AtomicBool,
    /// The mode of the descriptor. Locked during a write, because `O_DIRECT` is a flag of the
    /// descriptor and would change under a parallel write.
    mode: Mutex<IoMode>,
}

/// Whether large writes bypass the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritePolicy {
    /// They do, as long as the file system does not refuse it.
    Direct,
    /// They do not.
    Cached,
}

/// How the writes of a descriptor reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoMode {
    Cached,
    Direct,
}

impl MediaFile {
    pub(super) fn new(file: File, write_policy: WritePolicy) -> Self {
        Self {
            file,
            takes_direct: AtomicBool::new(write_policy == WritePolicy::Direct),
            mode: Mutex::new(IoMode::Cached),
        }
    }

    /// Returns the file, to be synced.
    pub(super) fn as_file(&self) -> &File {
        &self.file
    }

    /// Returns whether a write, or its first part, will bypass the page cache unless it is refused.
    pub(super) fn is_direct(&self, pieces: &[Bytes], offset: u64) -> bool {
        self.direct_len(pieces, offset) > 0
    }

    /// Returns the number of leading bytes that will bypass the page cache.
    fn direct_len(&self, pieces: &[Bytes], offset: u64) -> usize {
        let len = whole_units(pieces, offset);
        let is_long_enough = len >= MIN_DIRECT_LEN && self.takes_direct.load(Ordering::Relaxed);
        if is_long_enough { len } else { 0 }
    }

    /// Writes all pieces one after another at `offset`. Nothing is durable yet. Returns the number
    /// of bytes that went into the page cache.
    pub(super) fn write_all_at(&self, pieces: &[Bytes], offset: u64) -> Result<u64, Stopped> {
        let mut write = Write::begin(self, offset);
        let (units, rest) = split(pieces, self.direct_len(pieces, offset));
        let done = write.direct(&units).and_then(|()| write.cached(&rest));
        match done {
            Ok(()) => Ok(write.cached),
            Err(error) => Err(Stopped {
                written: write.written,
                error,
            }),
        }
    }
}

/// A write in progress.
struct Write<'a> {
    media: &'a MediaFile,
    mode: MutexGuard<'a, IoMode>,
    /// Offset of the first byte in the file.
    offset: u64,
    /// Number of bytes written.
    written: u64,
    /// Number of those bytes that went into the page cache.
    cached: u64,
}

impl<'a> Write<'a> {
    fn begin(media: &'a MediaFile, offset: u64) -> Self {
        Self {
            media,
            // A panic while it was held leaves the mode of the descriptor known: it is stored only
            // after the descriptor has been switched.
            mode: media.mode.lock().unwrap_or_else(PoisonError::into_inner),
            offset,
            written: 0,
            cached: 0,
        }
    }

    /// Writes whole units past the page cache. Falls back to the page cache if the file system
    /// refuses that.
    fn direct(&mut self, units: &[&[u8]]) -> io::Result<()> {
        if units.is_empty() {
            return Ok(());
        }
        let before = self.written;
        match self
            .set_mode(IoMode::Direct)
            .and_then(|()| self.write_pieces(units))
        {
            // The file system has no direct writes, or not in units of this size. Refused bytes are
            // not written. Every other error is one of the disk, and is not retried.
            Err(error) if filesystem::is_refused(&error) => {
                tracing::debug!(
                    "the file system refuses direct writes; this media goes through the page cache"
                );
                self.media.takes_direct.store(false, Ordering::Relaxed);
                let begun = usize::try_from(self.written - before).expect("it is in memory");
                self.cached(&split(units, begun).1)
            }
            done => done,
        }
    }

    fn cached(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        self.set_mode(IoMode::Cached)?;
        let before = self.written;
        let done = self.write_pieces(pieces);
        self.cached += self.written - before;
        done
    }

    fn set_mode(&mut self, mode: IoMode) -> io::Result<()> {
        if *self.mode != mode {
            filesystem::write_directly(&self.media.file, mode == IoMode::Direct)?;
            *self.mode = mode;
        }
        Ok(())
    }

    fn write_pieces(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        match filesystem::write_all_at(&self.media.file, pieces, self.offset + self.written) {
            Ok(()) => {
                let len = pieces.iter().map(|piece| piece.len() as u64);
                self.written += len.sum::<u64>();
                Ok(())
            }
            Err(stopped) => {
                self.written += stopped.written;
                Err(stopped.error)
            }
        }
    }
}

/// Returns the number of leading bytes in whole units that are aligned in memory and in the file.
fn whole_units(pieces: &[Bytes], offset: u64) -> usize {
    if !offset.is_multiple_of(WRITE_UNIT as u64) {
        return 0;
    }
    let mut len = 0;
    for piece in pieces {
        if !piece.as_ptr().addr().is_multiple_of(WRITE_UNIT) {
            break;
        }
        // After a piece of an odd length the file offset of the next one is not aligned.
        let remainder = piece.len() % WRITE_UNIT;
        len += piece.len() - remainder;
        if remainder > 0 {
            break;
        }
    }
    len
}

/// Splits pieces into the first `len` bytes and the rest.
fn split(pieces: &[impl AsRef<[u8]>], len: usize) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    let mut left = len;
    for piece in pieces {
        let piece = piece.as_ref();
        let (now, later) = piece.split_at(left.min(piece.len()));
        left -= now.len();
        first.extend((!now.is_empty()).then_some(now));
        rest.extend((!later.is_empty()).then_some(later));
    }
    (first, rest)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use rustix::process::Resource;

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

    const MIB: usize = 1 << 20;

    /// Bytes that are aligned to units of memory, or off by one.
    fn pattern(len: usize, is_misaligned: bool) -> Bytes {
        let memory: Vec<u8> = (0..=250).cycle().take(len + 2 * WRITE_UNIT).collect();
        let start = memory.as_ptr().align_offset(WRITE_UNIT) + usize::from(is_misaligned);
        Bytes::from(memory).slice(start..start + len)
    }

    fn media_file(file: &File, write_policy: WritePolicy) -> MediaFile {
        MediaFile::new(file.try_clone().unwrap(), write_policy)
    }

    #[test]
    fn mixed_writes_in_either_mode_store_all_bytes_in_place() {
        for write_policy in [WritePolicy::Direct, WritePolicy::Cached] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("media");
            let media = media_file(&filesystem::create(&path).unwrap(), write_policy);
            let mut expected = Vec::new();
            for pieces in [
                vec![pattern(MIB, false)],
                vec![
                    pattern(MIB, false),
                    pattern(WRITE_UNIT, false),
                    pattern(5, false),
                ],
                vec![pattern(MIB, false)],
                vec![pattern(WRITE_UNIT - 5, false)],
                vec![pattern(MIB, true)],
                vec![pattern(MIB, false), pattern(MIB, true), pattern(MIB, false)],
                vec![Bytes::new(), pattern(MIB, false)],
                vec![pattern(WRITE_UNIT, false)],
            ] {
                media.write_all_at(&pieces, expected.len() as u64).unwrap();
                expected.extend(pieces.concat());
            }
            assert!(
                std::fs::read(&path).unwrap() == expected,
                "{write_policy:?}"
            );
        }
    }

    #[test]
    fn only_large_and_aligned_writes_are_direct() {
        let file = tempfile::tempfile().unwrap();
        let media = media_file(&file, WritePolicy::Direct);
        let direct = |pieces: &[Bytes], offset| media.direct_len(pieces, offset);
        assert_eq!(direct(&[pattern(MIB, false)], 0), MIB);
        assert_eq!(direct(&[pattern(MIB + 5, false)], 0), MIB);
        assert_eq!(direct(&[pattern(MIB, false), pattern(MIB, true)], 0), MIB);
        assert_eq!(direct(&[pattern(MIB, false)], 5), 0);
        assert_eq!(direct(&[pattern(MIB, true)], 0), 0);
        assert_eq!(direct(&[pattern(WRITE_UNIT, false)], 0), 0);
        let cached_only = media_file(&file, WritePolicy::Cached);
        assert_eq!(cached_only.direct_len(&[pattern(MIB, false)], 0), 0);
    }

    /// If the file system refuses direct writes, the page cache gets all bytes.
    #[test]
    fn bytes_in_the_page_cache_are_counted() {
        let file = tempfile::tempfile().unwrap();
        let media = media_file(&file, WritePolicy::Direct);
        let pieces = [pattern(MIB + 5, false)];
        let cached = media.write_all_at(&pieces, 0).unwrap();
        let expected = if media.is_direct(&pieces, 0) {
            5
        } else {
            MIB + 5
        };
        assert_eq!(cached, expected as u64);
    }

    #[test]
    fn refused_direct_write_falls_back_to_the_page_cache() {
        let device = |path| OpenOptions::new().write(true).open(path).unwrap();
        let sink = media_file(&device("/dev/null"), WritePolicy::Direct);
        let cached = sink.write_all_at(&[pattern(MIB, false)], 0).unwrap();
        assert_eq!(cached, MIB as u64);
        assert!(!sink.is_direct(&[pattern(MIB, false)], 0));
        let full = media_file(&device("/dev/full"), WritePolicy::Direct);
        let stopped = full.write_all_at(&[pattern(MIB, false)], 0).unwrap_err();
        assert_eq!(stopped.written, 0);
        assert!(filesystem::is_out_of_space(&stopped.error));
    }

    /// Runs in a separate process, in which no file may grow beyond some odd length. The kernel
    /// cuts a direct write off there, and refuses the rest because it is not a whole unit.
    #[test]
    fn full_disk_reports_the_exact_number_of_written_bytes() {
        const LIMITED: &str = "WINDLASS_TEST_LIMITED";
        if std::env::var_os(LIMITED).is_some() {
            return write_beyond_a_limit();
        }
        let name = "vault::media::tests::full_disk_reports_the_exact_number_of_written_bytes";
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap());
        windlass_testkit::alone::run_by(shell, name, LIMITED);
    }

    fn write_beyond_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        // The kernel takes 1024 pieces at once: these are 4 MiB, and there is a second call.
        let sent = pattern(5 * MIB, false);
        let pieces: Vec<_> = (0..sent.len())
            .step_by(WRITE_UNIT)
            .map(|at| sent.slice(at..at + WRITE_UNIT))
            .collect();
        for limit in [700, 4 << 20, (4 << 20) + 512, (4 << 20) + 700] {
            let mut limits = rustix::process::getrlimit(Resource::Fsize);
            limits.current = Some(limit);
            rustix::process::setrlimit(Resource::Fsize, limits).unwrap();
            let path = dir.path().join(limit.to_string());
            let media = media_file(&filesystem::create(&path).unwrap(), WritePolicy::Direct);
            let stopped = media.write_all_at(&pieces, 0).unwrap_err();
            assert!(filesystem::is_out_of_space(&stopped.error), "{stopped:?}");
            assert_eq!(stopped.written, limit);
            let stored = std::fs::read(&path).unwrap();
            assert!(stored == sent[..stored.len()] && stored.len() as u64 == limit);
        }
    }
}
