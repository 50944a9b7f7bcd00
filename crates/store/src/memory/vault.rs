//! The vault in memory.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_digest::{Crc32c, Crc32cHasher};

use super::SPACE;
use crate::records::{MediaId, StoredMedia, StoredName, Timestamp};
use crate::vault::{
    ExpectedSize, ListPosition, Listed, Listing, MediaReader, MediaWriter, Space, SyncTarget,
    Vault, VaultError,
};

/// A [`Vault`] in memory that distinguishes durable bytes from written ones.
#[derive(Debug, Clone, Default)]
pub struct MemoryVault {
    disk: Arc<Disk>,
}

/// A write that no sync has made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsyncedWrite {
    /// Media that was written.
    pub id: MediaId,
    /// Offset in the media.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl MemoryVault {
    /// Returns an empty vault.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the modification time of media that is written from now on.
    pub fn set_time(&self, now: Timestamp) {
        self.disk.now.store(now.as_millis(), Ordering::Relaxed);
    }

    /// Makes the vault like an object store, which does not know its space.
    pub fn hide_space(&self) {
        self.disk.hides_space.store(true, Ordering::Relaxed);
    }

    /// Simulates a power cut: all writes that were not synced are lost, and existing writers are
    /// refused.
    pub fn crash(&self) {
        self.crash_keeping(|_| false);
    }

    /// Simulates a power cut like [`MemoryVault::crash`], but keeps the writes for which `survives`
    /// returns true. It is called for all writes of one media after another, in their order.
    pub fn crash_keeping(&self, mut survives: impl FnMut(UnsyncedWrite) -> bool) {
        let mut media = self.disk.media();
        for (&id, contents) in media.iter_mut() {
            for write in std::mem::take(&mut contents.unsynced) {
                let (offset, len) = (write.offset, write.data.len() as u64);
                if survives(UnsyncedWrite { id, offset, len }) {
                    contents.make_durable(&write);
                }
            }
            contents.writer += 1;
        }
    }

    fn writer(&self, id: MediaId, number: u64) -> Box<dyn MediaWriter> {
        let disk = Arc::clone(&self.disk);
        Box::new(MemoryWriter { disk, id, number })
    }
}

#[async_trait]
impl Vault for MemoryVault {
    async fn create(
        &self,
        id: MediaId,
        _: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        let mut media = self.disk.media();
        if media.contains_key(&id) {
            let reason = "its name is taken";
            return Err(VaultError::Damaged { id, reason });
        }
        media.insert(id, self.disk.empty());
        Ok(self.writer(id, 0))
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        let mut media = self.disk.media();
        let (id, committed) = (stored.id, stored.length);
        let damaged = |reason| VaultError::Damaged { id, reason };
        let contents = media.get_mut(&id).ok_or(damaged("it is gone"))?;
        if contents.len() < committed {
            return Err(damaged("it is shorter than its committed offset"));
        }
        contents.writer += 1;
        contents.truncate(committed);
        if let Some(extent) = stored.verify
            && extent.crc32c != crc32c(&contents.view(extent.start..committed))
        {
            return Err(damaged("its last extent differs from its checksum"));
        }
        Ok(self.writer(id, contents.writer))
    }

    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let id = media.media;
        let media = self.disk.media();
        let contents = media.get(&id).ok_or(VaultError::Missing(id))?;
        if contents.len() < range.end {
            let reason = "it is shorter than the range to be read";
            return Err(VaultError::Damaged { id, reason });
        }
        let rest = Bytes::from(contents.view(range));
        Ok(Box::new(MemoryReader { rest }))
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        self.disk.media().remove(&stored.media);
        Ok(())
    }

    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError> {
        let after = from.map(|from| from.media()).transpose()?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let media = self.disk.media();
        let rest = media.range((from, Bound::Unbounded)).take(limit);
        let stored: Vec<_> = rest
            .map(|(&id, contents)| Listed {
                name: StoredName::of(id),
                modified: contents.modified,
            })
            .collect();
        let last = stored.last();
        let next = last.map(|last| ListPosition::behind(last.name.media));
        Ok(Listing { stored, next })
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        if self.disk.hides_space.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let used: u64 = self.disk.media().values().map(Contents::len).sum();
        Ok(Some(Space {
            available: SPACE.total.saturating_sub(used),
            ..SPACE
        }))
    }
}

#[derive(Debug, Default)]
struct Disk {
    media: Mutex<BTreeMap<MediaId, Contents>>,
    /// Milliseconds since the Unix epoch, set by [`MemoryVault::set_time`].
    now: AtomicU64,
    /// Set by [`MemoryVault::hide_space`].
    hides_space: AtomicBool,
}

impl Disk {
    fn media(&self) -> MutexGuard<'_, BTreeMap<MediaId, Contents>> {
        self.media.lock().expect("nobody panics while holding it")
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::Relaxed))
    }

    fn empty(&self) -> Contents {
        let modified = self.now();
        Contents {
            durable: Vec::new(),
            unsynced: Vec::new(),
            modified,
            writer: 0,
        }
    }
}

/// One media: its durable bytes, and the writes that no sync has made durable.
#[derive(Debug)]
struct Contents {
    durable: Vec<u8>,
    unsynced: Vec<Write>,
    modified: Timestamp,
    /// Number of the writer that may write.
    writer: u64,
}

#[derive(Debug)]
struct Write {
    offset: u64,
    data: Bytes,
}

impl Write {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

impl Contents {
    fn len(&self) -> u64 {
        let written = self.unsynced.iter().map(Write::end).max().unwrap_or(0);
        written.max(self.durable.len() as u64)
    }

    /// Returns the bytes that a reader sees: the durable ones, overwritten by all writes. Gaps are
    /// zeros.
    fn view(&self, range: Range<u64>) -> Vec<u8> {
        let mut seen = vec![0; index(range.end.saturating_sub(range.start))];
        copy_overlap(&self.durable, 0, &mut seen, range.start);
        for write in &self.unsynced {
            copy_overlap(&write.data, write.offset, &mut seen, range.start);
        }
        seen
    }

    fn truncate(&mut self, len: u64) {
        self.durable.truncate(index(len));
        self.unsynced.retain(|write| write.offset < len);
        for write in &mut self.unsynced {
            write.data.truncate(index(len - write.offset));
        }
    }

    fn sync(&mut self) {
        for write in std::mem::take(&mut self.unsynced) {
            self.make_durable(&write);
        }
    }

    /// Makes one write durable.
    fn make_durable(&mut self, write: &Write) {
        let end = index(write.end());
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[index(write.offset)..end].copy_from_slice(&write.data);
    }
}

/// Copies the bytes that two ranges share: `from` begins at `from_start`, `to` at `to_start`.
fn copy_overlap(from: &[u8], from_start: u64, to: &mut [u8], to_start: u64) {
    let start = from_start.max(to_start);
    let end = (from_start + from.len() as u64).min(to_start + to.len() as u64);
    if start < end {
        let source = &from[index(start - from_start)..index(end - from_start)];
        to[index(start - to_start)..index(end - to_start)].copy_from_slice(source);
    }
}

fn crc32c(data: &[u8]) -> Crc32c {
    let mut hasher = Crc32cHasher::default();
    hasher.update(data);
    hasher.value()
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("media in memory is smaller than the address space")
}

#[derive(Debug)]
struct MemoryWriter {
    disk: Arc<Disk>,
    id: MediaId,
    number: u64,
}

impl MemoryWriter {
    /// Runs `work` on the contents if this is their newest writer. Media that was deleted meanwhile
    /// accepts bytes and loses them, as an unlinked file does.
    fn on_contents(&self, work: impl FnOnce(&mut Contents)) -> Result<(), VaultError> {
        let mut media = self.disk.media();
        let Some(contents) = media.get_mut(&self.id) else {
            return Ok(());
        };
        if contents.writer != self.number {
            return Err(VaultError::superseded(self.id));
        }
        work(contents);
        Ok(())
    }
}

#[async_trait]
impl MediaWriter for MemoryWriter {
    async fn append(&self, at: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let modified = self.disk.now();
        self.on_contents(|contents| {
            contents.modified = modified;
            let mut offset = at;
            for data in data.into_iter().filter(|data| !data.is_empty()) {
                let end = offset + data.len() as u64;
                contents.unsynced.push(Write { offset, data });
                offset = end;
            }
        })
    }

    async fn sync(&self, _: SyncTarget) -> Result<(), VaultError> {
        self.on_contents(Contents::sync)
    }
}

#[derive(Debug)]
struct MemoryReader {
    rest: Bytes,
}

#[async_trait]
impl MediaReader for MemoryReader {
    async fn next(&mut self, max_len: usize) -> Result<Bytes, VaultError> {
        Ok(self.rest.split_to(self.rest.len().min(max_len)))
    }
}
