//! The memory of large batches: a fixed number of buffers for all uploads together.
//!
//! Direct writes want memory that begins at a multiple of [`WRITE_UNIT`] and is used again: the first touch of new memory
//! costs more than copying into old. So all buffers are cut from a few large allocations, which cost memory only where
//! a buffer was used, and which are freed when no upload has needed a buffer for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use windlass_store::WRITE_UNIT;

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
