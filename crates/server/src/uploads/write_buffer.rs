//! Bytes between the socket and the vault, and the bound on their memory.
//!
//! Large writes make a disk fast, but a large buffer for each of a thousand slow connections would
//! take a gigabyte. A [`WriteBuffer`] therefore grows beyond [`SMALL_BUFFER`] or [`MODEST_BUFFER`]
//! only with memory from the server's [`BufferPool`], and only when the bytes are there.
//! docs/adr/0001 compares this with buffers of other sizes and with huge pages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes, BytesMut};
use windlass_store::WRITE_UNIT;

/// What every batch may hold without a block while its media may still turn out to be small.
pub(crate) const SMALL_BUFFER: usize = 64 * 1024;

/// What a batch of larger media may hold without a block: a thousand slow uploads together no more than a few
/// large batches.
pub(crate) const MODEST_BUFFER: usize = 16 * 1024;

/// Pieces smaller than this are copied together: a piece costs more than its bytes.
const COPIED_BELOW: usize = 4 * 1024;

/// Tiny pieces are copied into runs of this size at the least. Growing one run instead would hold up to
/// twice the bytes.
const RUN_LEN: usize = 1024;

/// Bytes collected for one write.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    pieces: Vec<Bytes>,
    tail: BytesMut,
    len: usize,
    /// Where everything is as soon as the batch is a large one.
    pooled: Option<PooledBuffer>,
}

impl WriteBuffer {
    /// How many bytes it holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    /// Whether it can hold more only with a block, when it may hold `unpooled` bytes without one.
    pub(crate) fn needs_pooled(&self, unpooled: usize) -> bool {
        self.pooled.is_none() && self.len >= unpooled
    }

    /// Moves into a block, in which there is room for more.
    pub(crate) fn move_to(&mut self, mut pooled: PooledBuffer) {
        self.seal_tail();
        for piece in std::mem::take(&mut self.pieces) {
            pooled.push(&piece);
        }
        self.pooled = Some(pooled);
    }

    /// How many more bytes it takes before it wants to be written, when it begins at `start` of its media
    /// and may hold `unpooled` of them without a block. Zero when it is full.
    ///
    /// A large batch ends where a vault likes it to end.
    pub(crate) fn room(&self, unpooled: usize, start: u64) -> usize {
        let misalignment = usize::try_from(start % WRITE_UNIT as u64).expect("less than a unit");
        let most = match &self.pooled {
            Some(pooled) => pooled.limit() - misalignment,
            None => unpooled,
        };
        most.saturating_sub(self.len)
    }

    /// Adds bytes, at most as many as there is room for. The memory of a few is kept; of a large batch they
    /// are copied, so that anyone who reads from the socket can use it again.
    pub(crate) fn push(&mut self, data: Bytes) {
        self.len += data.len();
        if let Some(pooled) = &mut self.pooled {
            pooled.push(&data);
        } else if data.len() < COPIED_BELOW {
            self.copy(&data);
        } else {
            self.seal_tail();
            self.pieces.push(data);
        }
    }

    /// Takes everything out. Memory of the budget is given back when nobody has the bytes any more.
    pub(crate) fn seal(&mut self) -> Vec<Bytes> {
        self.len = 0;
        if let Some(pooled) = self.pooled.take() {
            return pooled.freeze();
        }
        self.seal_tail();
        std::mem::take(&mut self.pieces)
    }

    /// Takes everything out as one run of bytes, which has no part in the budget.
    pub(crate) fn concat(&mut self) -> Bytes {
        let is_in_block = self.pooled.is_some();
        let mut pieces = self.seal();
        if pieces.len() == 1 && !is_in_block {
            return pieces.remove(0);
        }
        let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
        for piece in &pieces {
            all.extend_from_slice(piece);
        }
        all.freeze()
    }

    fn copy(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.tail.capacity() == self.tail.len() {
                self.seal_tail();
                self.tail = BytesMut::with_capacity(RUN_LEN.max(data.len()));
            }
            let room = self.tail.capacity() - self.tail.len();
            let (fits, rest) = data.split_at(room.min(data.len()));
            self.tail.extend_from_slice(fits);
            data = rest;
        }
    }

    fn seal_tail(&mut self) {
        if self.tail.has_remaining() {
            self.pieces.push(std::mem::take(&mut self.tail).freeze());
        }
    }
}

/// Length of a buffer.
const SEGMENT_LEN: usize = 256 * 1024;

/// The most buffers in a block. More made single uploads no faster.
const MAX_SEGMENTS: usize = 4;

/// Buffers that are allocated together. With the room for their alignment they are more than 32 MiB, which glibc maps by
/// themselves: it does not fill them with zeros first, and gives them back to the system when they are freed.
const SEGMENTS_PER_ALLOCATION: usize = 32 * 1024 * 1024 / SEGMENT_LEN;

/// Calls of [`BufferPool::free_if_unused`] without a block in use after which everything is freed.
const UNUSED_CALLS: u32 = 10;

/// The longest block.
#[cfg(test)]
pub(crate) const MAX_BUFFER_LEN: usize = MAX_SEGMENTS * SEGMENT_LEN;

/// Memory for large batches, shared by all uploads of a server.
#[derive(Debug, Clone)]
pub(crate) struct BufferPool(Arc<Pool>);

/// Who asks for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// An upload that has none.
    First,
    /// One that has a block on its way to the vault.
    Second,
}

/// What all blocks come from.
#[derive(Debug)]
struct Pool {
    /// How many buffers there may be.
    total: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Allocated, and in no block. The one that was used last is taken first.
    free: Vec<BytesMut>,
    /// How many are in blocks.
    taken: usize,
    /// Calls of [`BufferPool::free_if_unused`] since a buffer was taken.
    unused_calls: u32,
}

/// Some buffers, which are filled one after the other.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    buffers: Vec<Segment>,
}

/// A buffer until it is dropped, which gives it back.
#[derive(Debug)]
struct Segment {
    memory: BytesMut,
    /// How much of it is filled.
    len: usize,
    pool: Arc<Pool>,
}

impl BufferPool {
    /// A budget of `bytes`, at least one block.
    pub(crate) fn new(bytes: u64) -> Self {
        let total = usize::try_from(bytes / SEGMENT_LEN as u64).unwrap_or(usize::MAX);
        Self(Arc::new(Pool {
            total: total.max(MAX_SEGMENTS),
            state: Mutex::default(),
        }))
    }

    /// An empty block: a large one while there is plenty of memory, a smaller one when others have most of
    /// it. `None` when they have all, or when an upload that has a block already should rather wait for that one.
    pub(crate) fn pooled(&self, priority: Priority) -> Option<PooledBuffer> {
        let Self(pool) = self;
        let mut state = pool.state();
        let available = pool.total - state.taken;
        // The last quarter is for uploads that have none.
        if available == 0 || (priority == Priority::Second && available < pool.total / 4) {
            return None;
        }
        let count = (available / (4 * MAX_SEGMENTS)).clamp(1, MAX_SEGMENTS);
        let buffer = |memory| Segment {
            memory,
            len: 0,
            pool: Arc::clone(pool),
        };
        let buffers = (0..count).map(|_| buffer(state.take())).collect();
        Some(PooledBuffer { buffers })
    }

    /// Frees all memory when no block has been in use for [`UNUSED_CALLS`] calls. For a caller with a clock.
    pub(crate) fn free_if_unused(&self) {
        let mut state = self.0.state();
        state.unused_calls = state.unused_calls.saturating_add(1);
        if state.taken == 0 && state.unused_calls >= UNUSED_CALLS {
            state.free = Vec::new();
        }
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self) -> BytesMut {
        if self.free.is_empty() {
            self.free = allocate();
        }
        self.taken += 1;
        self.unused_calls = 0;
        self.free.pop().expect("some were allocated")
    }
}

/// New buffers. The kernel backs a page of them when it is first written to.
fn allocate() -> Vec<BytesMut> {
    let mut all = BytesMut::zeroed(SEGMENTS_PER_ALLOCATION * SEGMENT_LEN + WRITE_UNIT);
    let misalignment = all.as_ptr().align_offset(WRITE_UNIT);
    drop(all.split_to(misalignment));
    let segment = |_| all.split_to(SEGMENT_LEN);
    (0..SEGMENTS_PER_ALLOCATION).map(segment).collect()
}

impl PooledBuffer {
    /// How many bytes it can hold.
    pub(crate) fn limit(&self) -> usize {
        self.buffers.len() * SEGMENT_LEN
    }

    /// Adds bytes. All together must not be more than [`PooledBuffer::limit`].
    pub(crate) fn push(&mut self, mut data: &[u8]) {
        for buffer in &mut self.buffers {
            let room = &mut buffer.memory[buffer.len..];
            let (now, later) = data.split_at(room.len().min(data.len()));
            room[..now.len()].copy_from_slice(now);
            buffer.len += now.len();
            data = later;
        }
        assert!(data.is_empty(), "the block is full");
    }

    /// The bytes, a piece for each buffer. A buffer is given back with the last reference to its piece.
    pub(crate) fn freeze(self) -> Vec<Bytes> {
        let filled = self.buffers.into_iter().filter(|buffer| buffer.len > 0);
        filled.map(Bytes::from_owner).collect()
    }
}

impl AsRef<[u8]> for Segment {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.taken -= 1;
        state.free.push(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uploads::write_buffer::{BufferPool, MAX_BUFFER_LEN, Priority};

    #[test]
    fn a_batch_gives_back_its_bytes_in_order_whatever_their_sizes() {
        let mut write_buffer = WriteBuffer::default();
        let mut expected = Vec::new();
        for (n, size) in [1, 5000, 3, 4, 4096, 4095, 1].into_iter().enumerate() {
            let data = vec![u8::try_from(n).unwrap(); size];
            expected.extend_from_slice(&data);
            write_buffer.push(data.into());
        }
        assert_eq!(write_buffer.len(), expected.len());
        assert_eq!(write_buffer.concat(), expected);
        assert_eq!(write_buffer.len(), 0);
    }

    #[test]
    fn a_batch_that_becomes_large_keeps_its_bytes() {
        let mut write_buffer = filled();
        write_buffer.push(Bytes::from_static(b"tiny"));
        write_buffer.move_to(pooled());
        let more = vec![8; SMALL_BUFFER];
        write_buffer.push(more.clone().into());
        let expected = [vec![7; SMALL_BUFFER], b"tiny".into(), more].concat();
        assert!(write_buffer.concat() == expected);
    }

    #[test]
    fn tiny_pieces_are_copied_together() {
        let mut write_buffer = WriteBuffer::default();
        for _ in 0..RUN_LEN {
            write_buffer.push(Bytes::from_static(b"x"));
        }
        assert_eq!(write_buffer.seal().len(), 1);
        write_buffer.push(vec![1; COPIED_BELOW - 1].into());
        assert_eq!(write_buffer.seal().len(), 1);
    }

    #[test]
    fn a_batch_grows_large_only_with_a_block() {
        let mut write_buffer = WriteBuffer::default();
        assert!(!write_buffer.needs_pooled(SMALL_BUFFER));
        write_buffer = filled();
        assert!(write_buffer.needs_pooled(SMALL_BUFFER));
        assert_eq!(write_buffer.room(SMALL_BUFFER, 0), 0);
        write_buffer.move_to(pooled());
        assert!(!write_buffer.needs_pooled(SMALL_BUFFER));
        assert_eq!(
            write_buffer.room(SMALL_BUFFER, 0),
            MAX_BUFFER_LEN - SMALL_BUFFER
        );
    }

    #[test]
    fn a_large_batch_ends_at_a_unit_wherever_it_begins() {
        let mut write_buffer = filled();
        write_buffer.move_to(pooled());
        for start in [0, 1, 4095, 4096, 70_001] {
            let len = SMALL_BUFFER + write_buffer.room(SMALL_BUFFER, start);
            let end = start + len as u64;
            assert!(end.is_multiple_of(WRITE_UNIT as u64), "from {start}");
            assert!(len > MAX_BUFFER_LEN - WRITE_UNIT);
        }
    }

    fn pooled() -> PooledBuffer {
        let buffer_pool = BufferPool::new(u64::MAX);
        buffer_pool.pooled(Priority::First).unwrap()
    }

    fn filled() -> WriteBuffer {
        let mut write_buffer = WriteBuffer::default();
        write_buffer.push(vec![7; SMALL_BUFFER].into());
        write_buffer
    }

    fn all_blocks(buffer_pool: &BufferPool, priority: Priority) -> Vec<PooledBuffer> {
        std::iter::from_fn(|| buffer_pool.pooled(priority)).collect()
    }

    /// Buffers that are allocated and in no block.
    fn free(buffer_pool: &BufferPool) -> usize {
        buffer_pool.0.state().free.len()
    }

    #[test]
    fn a_block_is_aligned_and_gives_its_bytes_back_in_order() {
        let buffer_pool = BufferPool::new(32 << 20);
        for len in [0, 7, SEGMENT_LEN, SEGMENT_LEN + 1, MAX_BUFFER_LEN] {
            let sent: Vec<u8> = (0..=250).cycle().take(len).collect();
            let mut pooled = buffer_pool
                .pooled(Priority::First)
                .expect("the budget is large");
            for data in sent.chunks(100_000) {
                pooled.push(data);
            }
            let pieces = pooled.freeze();
            assert_eq!(pieces.len(), len.div_ceil(SEGMENT_LEN));
            assert!(pieces.concat() == sent, "{len} bytes");
            for piece in pieces {
                assert!(piece.as_ptr().addr().is_multiple_of(WRITE_UNIT));
            }
        }
    }

    #[test]
    #[should_panic(expected = "the block is full")]
    fn a_block_takes_no_more_than_its_limit() {
        let mut pooled = BufferPool::new(0)
            .pooled(Priority::First)
            .expect("it is new");
        pooled.push(&vec![0; pooled.limit() + 1]);
    }

    #[test]
    fn a_buffer_is_in_use_until_the_last_reference_to_its_bytes_is_dropped() {
        let buffer_pool = BufferPool::new(0);
        let mut blocks = all_blocks(&buffer_pool, Priority::First);
        let mut last = blocks.pop().expect("there is one at least");
        last.push(b"windlass");
        let pieces = last.freeze();
        let copy = pieces[0].clone();
        drop(pieces);
        assert!(buffer_pool.pooled(Priority::First).is_none());
        drop(copy);
        assert!(buffer_pool.pooled(Priority::First).is_some());
    }

    #[test]
    fn blocks_become_smaller_and_stay_within_the_budget() {
        let buffer_pool = BufferPool::new(32 << 20);
        let blocks = all_blocks(&buffer_pool, Priority::First);
        let limits: Vec<_> = blocks.iter().map(PooledBuffer::limit).collect();
        assert!(limits.is_sorted_by(|a, b| a >= b));
        assert_eq!(
            (limits[0], limits.last()),
            (MAX_BUFFER_LEN, Some(&SEGMENT_LEN))
        );
        assert_eq!(limits.iter().sum::<usize>(), 32 << 20);
    }

    #[test]
    fn the_last_quarter_is_for_uploads_that_have_no_block() {
        let buffer_pool = BufferPool::new(32 << 20);
        let seconds = all_blocks(&buffer_pool, Priority::Second);
        let taken: usize = seconds.iter().map(PooledBuffer::limit).sum();
        assert!(taken < 25 << 20);
        assert!(buffer_pool.pooled(Priority::First).is_some());
    }

    #[test]
    fn a_budget_that_is_larger_than_one_allocation_can_be_used_up() {
        let buffer_pool = BufferPool::new(80 << 20);
        let blocks = all_blocks(&buffer_pool, Priority::First);
        let taken: usize = blocks.iter().map(PooledBuffer::limit).sum();
        assert_eq!(taken, 80 << 20);
    }

    #[test]
    fn memory_is_used_again_and_freed_when_nobody_has_used_it_for_a_while() {
        let buffer_pool = BufferPool::new(32 << 20);
        assert_eq!(
            free(&buffer_pool),
            0,
            "nothing is allocated before it is needed"
        );
        let pooled = buffer_pool.pooled(Priority::First);
        for _ in 0..2 * UNUSED_CALLS {
            buffer_pool.free_if_unused();
        }
        drop(pooled);
        assert_eq!(free(&buffer_pool), SEGMENTS_PER_ALLOCATION, "it was in use");

        drop(buffer_pool.pooled(Priority::First));
        for _ in 1..UNUSED_CALLS {
            buffer_pool.free_if_unused();
        }
        assert_eq!(free(&buffer_pool), SEGMENTS_PER_ALLOCATION);
        buffer_pool.free_if_unused();
        assert_eq!(free(&buffer_pool), 0);
    }
}
