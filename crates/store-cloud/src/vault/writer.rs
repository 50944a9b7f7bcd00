//! Writes media that is not sealed: cells, and pieces of the last one.

use std::collections::VecDeque;
use std::mem;
use std::num::NonZeroU64;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::PutPayload;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use windlass_digest::Crc32cHasher;
use windlass_store::{
    ExtentChanges, MediaId, MediaWriter, StoredExtent, StoredMedia, StoredName, SyncTarget,
    VaultError,
};

use super::objects::{self, Objects};
use super::sources::{Source, index, sources};

/// Number of cells that may be on their way to the store. An append waits for the oldest one then.
const MAX_ON_THEIR_WAY: usize = 4;

/// The bytes after the last cell.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Offset of the first byte.
    start: u64,
    bytes: Vec<u8>,
    /// Offset at which the pieces end that need not be written again.
    stored_to: u64,
    /// Numbers of these pieces.
    pieces: Vec<u32>,
    /// Numbers of extents with bytes that are no part of the media. They go with the next change.
    stale: Vec<u32>,
    next_number: u32,
}

impl Tail {
    /// Reads the tail of media, and compares its checksum.
    pub(super) async fn read(
        objects: &Objects,
        stored: &StoredMedia,
        cell: NonZeroU64,
    ) -> Result<Self, VaultError> {
        let length = stored.length;
        let extents = &stored.extents;
        let mut start = length - length % cell;
        // A cell of another length may reach into the tail.
        if let Some(across) = extents
            .iter()
            .find(|extent| extent.start < start && extent.end() > start)
        {
            start = across.start;
        }
        let (stale, kept): (Vec<_>, Vec<_>) = extents
            .iter()
            .filter(|extent| extent.end() > start || extent.start >= length)
            .partition(|extent| extent.end() > length);
        let stored_to = stale.iter().map(|extent| extent.start);
        let mut tail = Self {
            start,
            bytes: Vec::new(),
            stored_to: stored_to.min().unwrap_or(length).min(length),
            pieces: kept.iter().map(|extent| extent.number).collect(),
            stale: stale.iter().map(|extent| extent.number).collect(),
            next_number: next_number(stored),
        };
        let from = match stored.verify {
            Some(extent) => extent.start.min(start),
            None => start,
        };
        let mut hasher = Crc32cHasher::default();
        let mut at = from;
        for source in sources(stored, from..length)? {
            let Source::Object { name, range } = source else {
                unreachable!("extents are objects");
            };
            let bytes = objects.get(&name, range).await;
            let bytes = bytes.map_err(|error| objects::gone(stored.id, error))?;
            if let Some(verify) = stored.verify {
                hasher.update(behind(&bytes, at, verify.start));
            }
            tail.bytes.extend_from_slice(behind(&bytes, at, start));
            at += bytes.len() as u64;
        }
        if stored
            .verify
            .is_some_and(|verify| hasher.value() != verify.crc32c)
        {
            let reason = "its last extent differs from its checksum";
            return Err(objects::damaged(stored.id, reason));
        }
        if from == length {
            look_at_last(objects, stored).await?;
        }
        Ok(tail)
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Returns an extent with the bytes from an offset on, and the changes with which it comes.
    fn extent(&mut self, start: u64, end: u64) -> StoredExtent {
        let number = self.next_number;
        self.next_number += 1;
        StoredExtent {
            number,
            start,
            len: end - start,
            name: objects::new_handle(),
        }
    }

    fn slice(&self, start: u64, end: u64) -> &[u8] {
        &self.bytes[index(start - self.start)..index(end - self.start)]
    }
}

/// Returns the bytes behind an offset, of bytes that begin at `at`.
fn behind(bytes: &[u8], at: u64, offset: u64) -> &[u8] {
    let skipped = offset.saturating_sub(at).min(bytes.len() as u64);
    &bytes[index(skipped)..]
}

/// Checks that the last extent is there, if none was read.
async fn look_at_last(objects: &Objects, stored: &StoredMedia) -> Result<(), VaultError> {
    let last = stored
        .extents
        .iter()
        .rfind(|extent| extent.end() == stored.length && extent.len > 0);
    match last {
        Some(last) => {
            let name = StoredName {
                media: stored.id,
                handle: last.name.clone(),
            };
            let size = objects.size(&name).await;
            let size = size.map_err(|error| objects::gone(stored.id, error))?;
            if size < last.len {
                return Err(objects::damaged(stored.id, "an extent is too short"));
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns a number that no extent of the media has had.
pub(super) fn next_number(stored: &StoredMedia) -> u32 {
    let numbers = stored.extents.iter().map(|extent| extent.number + 1);
    numbers.max().unwrap_or(0)
}

/// The writer of a media.
#[derive(Debug)]
pub(super) struct Writer {
    objects: Arc<Objects>,
    media: MediaId,
    cell: NonZeroU64,
    state: Mutex<State>,
    /// The changes that nobody has taken.
    changes: std::sync::Mutex<ExtentChanges>,
}

#[derive(Debug)]
struct State {
    tail: Tail,
    /// Cells that are written, in the order of their offsets.
    cells: VecDeque<Cell>,
}

/// A cell on its way to the store.
#[derive(Debug)]
struct Cell {
    extent: StoredExtent,
    /// Kept to be written again if that fails.
    bytes: Bytes,
    /// Numbers of the extents in whose place it comes.
    replaces: Vec<u32>,
    /// The task that writes it. It is aborted if the writer is dropped.
    task: JoinSet<Result<(), VaultError>>,
}

impl Writer {
    pub(super) fn new(objects: Arc<Objects>, media: MediaId, cell: NonZeroU64, tail: Tail) -> Self {
        let cells = VecDeque::new();
        Self {
            objects,
            media,
            cell,
            state: Mutex::new(State { tail, cells }),
            changes: std::sync::Mutex::default(),
        }
    }

    fn change(&self, added: StoredExtent, dropped: Vec<u32>) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.added.push(added);
        changes.dropped.extend(dropped);
    }

    /// Begins to write a cell.
    fn begin(&self, extent: StoredExtent, bytes: Bytes, replaces: Vec<u32>) -> Cell {
        let mut cell = Cell {
            extent,
            bytes,
            replaces,
            task: JoinSet::new(),
        };
        self.write(&mut cell);
        cell
    }

    fn write(&self, cell: &mut Cell) {
        let (objects, media) = (Arc::clone(&self.objects), self.media);
        let (name, bytes) = (cell.extent.name.clone(), cell.bytes.clone());
        cell.task
            .spawn(async move { objects.put(media, &name, PutPayload::from(bytes)).await });
    }

    /// Waits for the first cell. If it could not be written, it is written once more, under the same
    /// name: whichever of the two requests comes last writes the same bytes.
    async fn settle_first(&self, state: &mut State) -> Result<(), VaultError> {
        let Some(cell) = state.cells.front_mut() else {
            return Ok(());
        };
        for is_last in [false, true] {
            if cell.task.is_empty() {
                self.write(cell);
            }
            match cell.task.join_next().await {
                Some(Ok(Ok(()))) => break,
                Some(Ok(Err(error))) if is_last => return Err(error),
                Some(Err(error)) if is_last => {
                    return Err(VaultError::Unavailable {
                        id: Some(self.media),
                        cause: Arc::new(error),
                    });
                }
                _ => {}
            }
        }
        let cell = state.cells.pop_front().expect("it was the first");
        self.change(cell.extent, cell.replaces);
        Ok(())
    }

    /// Takes full cells off the tail and begins to write them.
    fn cut_cells(&self, state: &mut State) {
        let State { tail, cells } = state;
        let mut next = self.end_of_cell(tail.start);
        if tail.end() < next {
            return;
        }
        let end = tail.end();
        let mut bytes = Bytes::from(mem::take(&mut tail.bytes));
        while next <= end {
            let start = mem::replace(&mut tail.start, next);
            let extent = tail.extent(start, next);
            let mut replaces = mem::take(&mut tail.pieces);
            replaces.append(&mut tail.stale);
            tail.stored_to = tail.stored_to.max(next);
            cells.push_back(self.begin(extent, bytes.split_to(index(next - start)), replaces));
            next = self.end_of_cell(next);
        }
        tail.bytes = bytes.to_vec();
    }

    fn end_of_cell(&self, start: u64) -> u64 {
        (start / self.cell + 1) * self.cell.get()
    }
}

#[async_trait]
impl MediaWriter for Writer {
    fn boundary(&self) -> Option<NonZeroU64> {
        Some(self.cell)
    }

    async fn append(&self, at: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let mut state = self.state.lock().await;
        // Before any bytes are taken over: after an error none of them count.
        while state.cells.len() >= MAX_ON_THEIR_WAY {
            self.settle_first(&mut state).await?;
        }
        if at != state.tail.end() {
            // Whoever has the lease appends in order, so another writer has taken over.
            return Err(VaultError::superseded(self.media));
        }
        for bytes in data {
            state.tail.bytes.extend_from_slice(&bytes);
        }
        self.cut_cells(&mut state);
        Ok(())
    }

    async fn sync(&self, target: SyncTarget) -> Result<(), VaultError> {
        let mut state = self.state.lock().await;
        while state
            .cells
            .front()
            .is_some_and(|cell| cell.extent.start < target.up_to)
        {
            self.settle_first(&mut state).await?;
        }
        let tail = &mut state.tail;
        let start = tail.stored_to.max(tail.start);
        if target.up_to > start {
            let piece = tail.extent(start, target.up_to);
            let bytes = Bytes::copy_from_slice(tail.slice(start, target.up_to));
            self.objects
                .put(self.media, &piece.name, PutPayload::from(bytes))
                .await?;
            tail.pieces.push(piece.number);
            tail.stored_to = target.up_to;
            self.change(piece, mem::take(&mut tail.stale));
        }
        Ok(())
    }

    fn take_changes(&self) -> ExtentChanges {
        mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
