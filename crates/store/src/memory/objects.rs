//! A vault in memory that behaves like an object store.

use std::collections::BTreeMap;
use std::mem;
use std::num::NonZeroU64;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_digest::Crc32cHasher;

use crate::records::{ExtentChanges, MediaId, StoredExtent, StoredMedia, StoredName, Timestamp};
use crate::vault::{
    ExpectedSize, IoHints, ListPosition, Listed, Listing, MediaReader, MediaWriter, Sealed, Space,
    SyncTarget, Vault, VaultError,
};

/// A [`Vault`] in memory that behaves like an object store.
///
/// An object is written once, as a whole, under a name that is never used again. The bytes of an
/// upload are in *cells* of a fixed length and in a *piece* with the bytes after the last cell. A
/// sync that does not end at the boundary of a cell writes a new piece. Sealing puts the objects
/// together in one. A write may be reported as failed and happen later, or twice.
///
/// Whatever was written is durable. A crash loses what is in the memory of a writer.
#[derive(Debug, Clone)]
pub struct ObjectVault {
    store: Arc<Store>,
}

impl ObjectVault {
    /// Returns an empty vault with cells of this length.
    pub fn new(cell: NonZeroU64) -> Self {
        let store = Store {
            cell,
            state: Mutex::default(),
        };
        Self {
            store: Arc::new(store),
        }
    }

    /// Sets the modification time of objects that are written from now on.
    pub fn set_time(&self, now: Timestamp) {
        self.store.state().now = now;
    }

    /// Lets the next writes fail with [`VaultError::Unavailable`], and happen at [`Self::land`].
    pub fn delay_writes(&self, count: usize) {
        self.store.state().to_delay = count;
    }

    /// Lets all writes happen that were delayed, again if they have happened already.
    pub fn land(&self) {
        let mut state = self.store.state();
        let late = state.late.clone();
        state.objects.extend(late);
    }

    /// Refuses writes that would make the vault longer than this many bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.store.state().capacity = Some(bytes);
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> usize {
        self.store.state().objects.len()
    }
}

#[async_trait]
impl Vault for ObjectVault {
    fn hints(&self) -> IoHints {
        IoHints {
            read_len: 32 * 1024,
            ..IoHints::default()
        }
    }

    async fn create(
        &self,
        id: MediaId,
        _: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        self.resume(&StoredMedia::new(id, 0)).await
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        let (id, cell) = (stored.id, self.store.cell.get());
        let bytes = self.store.bytes(stored)?;
        let start = stored.length / cell * cell;
        let in_tail = stored.extents.iter().filter(|extent| extent.end() > start);
        let tail = Tail {
            start,
            bytes: bytes[index(start)..].to_vec(),
            stored: in_tail.map(|extent| extent.number).collect(),
            stored_to: stored.length,
            next_number: next_number(stored),
            changes: ExtentChanges::default(),
        };
        Ok(Box::new(ObjectWriter {
            store: Arc::clone(&self.store),
            id,
            tail: Mutex::new(tail),
        }))
    }

    async fn seal(&self, stored: &StoredMedia) -> Result<Sealed, VaultError> {
        let whole = self.store.bytes(stored)?;
        if let [only] = &stored.extents[..]
            && only.len == stored.length
        {
            return Ok(Sealed::Media {
                handle: only.name.clone(),
                left: Vec::new(),
            });
        }
        let name = self.store.put(stored.id, whole.into())?;
        let composed = StoredExtent {
            number: next_number(stored),
            start: 0,
            len: stored.length,
            name,
        };
        let parts = stored.extents.iter();
        Ok(Sealed::Composed(ExtentChanges {
            added: vec![composed],
            dropped: parts.map(|extent| extent.number).collect(),
        }))
    }

    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let (store, name) = (Arc::clone(&self.store), media.clone());
        let object = store.get(&name)?;
        if (object.len() as u64) < range.end {
            return Err(VaultError::Damaged {
                id: media.media,
                reason: "it is shorter than the range to be read",
            });
        }
        Ok(Box::new(ObjectReader {
            store,
            name,
            rest: range,
        }))
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        self.store.state().objects.remove(stored);
        Ok(())
    }

    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError> {
        let after = from.map(|from| name_at(&from)).transpose()?;
        let state = self.store.state();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = state.objects.range((from, Bound::Unbounded)).take(limit);
        let stored: Vec<_> = rest
            .map(|(name, object)| Listed {
                name: name.clone(),
                modified: object.modified,
            })
            .collect();
        let next = stored.last().map(|last| position_behind(&last.name));
        Ok(Listing { stored, next })
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        Ok(None)
    }
}

#[derive(Debug)]
struct Store {
    /// Length of a cell.
    cell: NonZeroU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<StoredName, Object>,
    /// Writes that were reported as failed.
    late: Vec<(StoredName, Object)>,
    /// Number of writes to be delayed.
    to_delay: usize,
    /// Number of names that were given out.
    named: u64,
    capacity: Option<u64>,
    now: Timestamp,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    modified: Timestamp,
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn get(&self, name: &StoredName) -> Result<Bytes, VaultError> {
        let state = self.state();
        let object = state.objects.get(name);
        object
            .map(|object| object.bytes.clone())
            .ok_or(VaultError::Missing(name.media))
    }

    /// Writes an object under a new name, and returns the name.
    fn put(&self, media: MediaId, bytes: Bytes) -> Result<Bytes, VaultError> {
        let mut state = self.state();
        if !state.has_room(bytes.len() as u64) {
            return Err(VaultError::NoSpace { written: 0 });
        }
        state.named += 1;
        // In no order, as random names are.
        let name = state.named.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let handle = Bytes::copy_from_slice(&name.to_be_bytes());
        let object = Object {
            bytes,
            modified: state.now,
        };
        let name = StoredName {
            media,
            handle: handle.clone(),
        };
        if state.to_delay > 0 {
            state.to_delay -= 1;
            state.late.push((name, object));
            return Err(VaultError::Unavailable {
                id: Some(media),
                cause: Arc::new(NoAnswer),
            });
        }
        state.objects.insert(name, object);
        Ok(handle)
    }

    /// Returns the committed bytes of media.
    fn bytes(&self, stored: &StoredMedia) -> Result<Vec<u8>, VaultError> {
        let media = stored.id;
        let damaged = |reason| VaultError::Damaged { id: media, reason };
        let mut bytes = Vec::new();
        for extent in &stored.extents {
            let handle = extent.name.clone();
            let object = self.get(&StoredName { media, handle });
            let object = object.map_err(|_| damaged("an extent is gone"))?;
            if bytes.len() as u64 != extent.start || object.len() as u64 != extent.len {
                return Err(damaged("an extent does not fit to the others"));
            }
            bytes.extend_from_slice(&object);
        }
        if (bytes.len() as u64) < stored.length {
            return Err(damaged("it is shorter than its committed length"));
        }
        bytes.truncate(index(stored.length));
        if let Some(extent) = stored.verify {
            let mut hasher = Crc32cHasher::default();
            hasher.update(&bytes[index(extent.start)..]);
            if hasher.value() != extent.crc32c {
                return Err(damaged("its last extent differs from its checksum"));
            }
        }
        Ok(bytes)
    }
}

impl State {
    /// Whether an object of this length may be added.
    fn has_room(&self, len: u64) -> bool {
        let used = || -> u64 {
            let objects = self.objects.values();
            objects.map(|object| object.bytes.len() as u64).sum()
        };
        self.capacity
            .is_none_or(|capacity| used() + len <= capacity)
    }
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
#[error("the object store has not answered")]
struct NoAnswer;

#[derive(Debug)]
struct ObjectWriter {
    store: Arc<Store>,
    id: MediaId,
    tail: Mutex<Tail>,
}

impl ObjectWriter {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().expect("nobody panics while holding it")
    }
}

/// The bytes after the last cell.
#[derive(Debug, Clone)]
struct Tail {
    /// Offset of the first byte, a multiple of the length of a cell.
    start: u64,
    bytes: Vec<u8>,
    /// Numbers of the extents that hold the first bytes of the tail.
    stored: Vec<u32>,
    /// Offset at which those extents end.
    stored_to: u64,
    next_number: u32,
    /// The changes that nobody has taken.
    changes: ExtentChanges,
}

impl Tail {
    /// Writes bytes as an object that begins at the start of the tail, in the place of the extents
    /// that held them.
    fn put(&mut self, writer: &ObjectWriter, bytes: &[u8]) -> Result<(), VaultError> {
        let len = bytes.len() as u64;
        let name = writer.store.put(writer.id, Bytes::copy_from_slice(bytes))?;
        self.changes.added.push(StoredExtent {
            number: self.next_number,
            start: self.start,
            len,
            name,
        });
        self.changes.dropped.append(&mut self.stored);
        self.stored = vec![self.next_number];
        self.stored_to = self.start + len;
        self.next_number += 1;
        Ok(())
    }
}

#[async_trait]
impl MediaWriter for ObjectWriter {
    fn boundary(&self) -> Option<NonZeroU64> {
        Some(self.store.cell)
    }

    async fn append(&self, at: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let mut current = self.tail();
        let mut tail = current.clone();
        tail.bytes.truncate(index(at - tail.start));
        for data in data {
            tail.bytes.extend_from_slice(&data);
        }
        let cell = self.store.cell.get();
        let bytes = mem::take(&mut tail.bytes);
        let mut cells = bytes.chunks_exact(index(cell));
        for whole in &mut cells {
            tail.put(self, whole)?;
            tail.start += cell;
            tail.stored.clear();
        }
        tail.bytes = cells.remainder().to_vec();
        *current = tail;
        Ok(())
    }

    async fn sync(&self, target: SyncTarget) -> Result<(), VaultError> {
        let mut tail = self.tail();
        if target.up_to > tail.start.max(tail.stored_to) {
            let piece = tail.bytes[..index(target.up_to - tail.start)].to_vec();
            tail.put(self, &piece)?;
        }
        Ok(())
    }

    fn take_changes(&self) -> ExtentChanges {
        mem::take(&mut self.tail().changes)
    }
}

#[derive(Debug)]
struct ObjectReader {
    store: Arc<Store>,
    name: StoredName,
    rest: Range<u64>,
}

#[async_trait]
impl MediaReader for ObjectReader {
    async fn next(&mut self, max_len: usize) -> Result<Bytes, VaultError> {
        let len = (self.rest.end.saturating_sub(self.rest.start)).min(max_len as u64);
        if len == 0 {
            return Ok(Bytes::new());
        }
        let object = self.store.get(&self.name)?;
        let from = self.rest.start;
        self.rest.start += len;
        Ok(object.slice(index(from)..index(from + len)))
    }
}

/// Returns a number that no extent of the media has had.
fn next_number(stored: &StoredMedia) -> u32 {
    let numbers = stored.extents.iter().map(|extent| extent.number + 1);
    numbers.max().unwrap_or(0)
}

fn position_behind(name: &StoredName) -> ListPosition {
    ListPosition::new([name.media.as_bytes(), &name.handle[..]].concat())
}

/// Returns the name that [`position_behind`] was called with.
fn name_at(position: &ListPosition) -> Result<StoredName, VaultError> {
    let bytes = position.as_bytes();
    let (media, handle) = bytes.split_at(bytes.len().min(16));
    Ok(StoredName {
        media: ListPosition::new(media.to_vec()).media()?,
        handle: Bytes::copy_from_slice(handle),
    })
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("media in memory is smaller than the address space")
}
