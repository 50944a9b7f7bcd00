//! Write buffers: bytes between the socket and the vault, and the bound on their memory.
//!
//! A disk is fast only with large writes, but a large buffer for each of a thousand slow
//! connections would take a gigabyte. So each upload has a small [`WriteBuffer`]. Its memory is
//! *unpooled*: it belongs to the upload alone, and is at most [`UNPOOLED_LARGE`] bytes, or
//! [`UNPOOLED_MAYBE_SMALL`] while the media may be small. When this is full, the buffer may move to
//! *pooled* memory, which comes from the server's [`BufferPool`] and holds up to a MiB. It is cut
//! into *segments* of 256 KiB.
//!
//! docs/adr/0001 compares this with buffers of other sizes and with huge pages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes, BytesMut};
use windlass_store::WRITE_UNIT;

use crate::pool::{LimitedResource, Usage};

/// Number of bytes that a write buffer may hold without pooled memory while its media may still be
/// small.
// Equal to `MAX_SMALL_MEDIA`: media of up to this length may still
// go to the ledger.
pub(crate) const UNPOOLED_MAYBE_SMALL: usize = 64 * 1024;

/// Number of bytes that a write buffer may hold without pooled memory once its media is known to be
/// large.
// A thousand slow uploads thus hold 16 MiB, a quarter of the default pool.
pub(crate) const UNPOOLED_LARGE: usize = 16 * 1024;

/// Length below which data is copied into a *run*: memory that several tiny inputs share.
// Keeping a `Bytes` costs an allocation and bookkeeping, which for tiny inputs exceeds a copy.
const COPIED_BELOW: usize = 4 * 1024;

/// Minimum capacity of a run. A run is longer only if the data for which it is allocated is longer.
// Runs do not grow: a growing one would take up to twice the memory of its bytes.
const RUN_LEN: usize = 1024;

/// Collects bytes for one write.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    /// Unpooled bytes: large inputs as they came from the connection, and ended runs. A run ends
    /// when it is full or a large input follows.
    slices: Vec<Bytes>,
    /// The run to which tiny inputs are copied.
    run: BytesMut,
    /// Number of bytes in the buffer.
    len: usize,
    /// Pooled memory. If there is any, it holds all bytes of the buffer.
    pooled: Option<PooledMemory>,
}

impl WriteBuffer {
    /// Number of bytes in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the bytes are in pooled memory.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    /// Whether the buffer can hold more bytes only with pooled memory. Without pooled memory it may
    /// hold `unpooled` bytes.
    pub(crate) fn needs_pooled_memory(&self, unpooled: usize) -> bool {
        self.pooled.is_none() && self.len >= unpooled
    }

    /// Moves the bytes to pooled memory, which must have room for them.
    pub(crate) fn move_to(&mut self, mut pooled: PooledMemory) {
        self.end_run();
        for slice in std::mem::take(&mut self.slices) {
            pooled.push(&slice);
        }
        self.pooled = Some(pooled);
    }

    /// Number of bytes that fit before the buffer must be written; zero if it is full. `start` is
    /// the offset of the buffer's first byte in the media. Without pooled memory the buffer may
    /// hold `unpooled` bytes.
    pub(crate) fn room(&self, unpooled: usize, start: u64) -> usize {
        // The last `misalignment` bytes of pooled memory stay unused, so that a full buffer ends at
        // a multiple of the vault's write unit in the media. The next buffer then begins at one,
        // and if it becomes full, the vault can write all of it with O_DIRECT.
        let misalignment = usize::try_from(start % WRITE_UNIT as u64).expect("less than a unit");
        let most = match &self.pooled {
            Some(pooled) => pooled.capacity() - misalignment,
            None => unpooled,
        };
        most.saturating_sub(self.len)
    }

    /// Adds bytes. They must fit; see [`WriteBuffer::room`].
    pub(crate) fn push(&mut self, data: Bytes) {
        self.len += data.len();
        if let Some(pooled) = &mut self.pooled {
            // Copied for the alignment, and so that the connection can reuse the memory of `data`.
            pooled.push(&data);
        } else if data.len() < COPIED_BELOW {
            self.copy(&data);
        } else {
            self.end_run();
            self.slices.push(data);
        }
    }

    /// Removes and returns all bytes, as slices in their order. Pooled memory returns to the pool
    /// with the last reference to them.
    pub(crate) fn drain(&mut self) -> Vec<Bytes> {
        self.len = 0;
        if let Some(pooled) = self.pooled.take() {
            return pooled.freeze();
        }
        self.end_run();
        std::mem::take(&mut self.slices)
    }

    /// Removes and returns all bytes, as one slice in unpooled memory.
    pub(crate) fn drain_to_one(&mut self) -> Bytes {
        // Pooled bytes are copied: the ledger's queue and the handler keep small media for some
        // time, and the pool should get its memory back before.
        let is_pooled = self.pooled.is_some();
        let mut slices = self.drain();
        if slices.len() == 1 && !is_pooled {
            return slices.remove(0);
        }
        let mut all = BytesMut::with_capacity(slices.iter().map(Bytes::len).sum());
        for slice in &slices {
            all.extend_from_slice(slice);
        }
        all.freeze()
    }

    /// Copies bytes to runs.
    fn copy(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.run.capacity() == self.run.len() {
                self.end_run();
                self.run = BytesMut::with_capacity(RUN_LEN.max(data.len()));
            }
            let room = self.run.capacity() - self.run.len();
            let (fits, rest) = data.split_at(room.min(data.len()));
            self.run.extend_from_slice(fits);
            data = rest;
        }
    }

    /// Moves the run to the slices.
    fn end_run(&mut self) {
        if self.run.has_remaining() {
            self.slices.push(std::mem::take(&mut self.run).freeze());
        }
    }
}

/// Length of a segment in bytes.
// All segments have the same size, so that any upload can reuse any free one (docs/adr/0001).
const SEGMENT_LEN: usize = 256 * 1024;

/// Maximum number of segments in the [`PooledMemory`] of one write buffer.
// More segments made single uploads no faster.
const MAX_SEGMENTS: usize = 4;

/// Number of segments that are allocated together.
// The segments and the room for their alignment are more than 32 MiB, the maximum of glibc's mmap
// threshold. glibc maps such an allocation separately, so its zeroed memory costs nothing until it
// is used, and it is unmapped when it is freed.
const SEGMENTS_PER_ALLOCATION: usize = 32 * 1024 * 1024 / SEGMENT_LEN;

/// Number of consecutive calls of [`BufferPool::free_if_unused`] without an
/// [`acquire`](BufferPool::acquire) in between, after which the memory of the pool is freed if none
/// is in use.
// `free_if_unused` is called once a second, so this is ten seconds.
const UNUSED_CALLS: u32 = 10;

/// Maximum length of pooled memory in bytes.
#[cfg(test)]
pub(crate) const MAX_POOLED_LEN: usize = MAX_SEGMENTS * SEGMENT_LEN;

/// The memory of large writes: a bounded number of segments for all uploads of a server.
///
/// Direct writes need memory that is aligned to [`WRITE_UNIT`]. It should also be reused, because a
/// page fault on new memory costs more than copying into memory that was used before. So all
/// segments are cut from a few large allocations. A segment that was never used takes no physical
/// memory, and the allocations are freed when no upload has needed a segment for a while.
#[derive(Debug, Clone)]
pub struct BufferPool(Arc<Segments>);

/// Which uploads get the last free segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The upload has no running write. Without pooled memory it can only make a small one.
    High,
    /// The upload has a running write, for which it can wait.
    Low,
}

/// All segments of a [`BufferPool`].
#[derive(Debug)]
struct Segments {
    /// Maximum number of segments.
    max: usize,
    state: Mutex<SegmentsState>,
}

#[derive(Debug, Default)]
struct SegmentsState {
    /// Allocated segments that are not in use. A stack, because the segment that was used last is
    /// most likely still in the CPU cache.
    free: Vec<BytesMut>,
    /// Number of segments in use.
    in_use: usize,
    /// Number of times that there was none for an upload.
    refused: u64,
    /// Number of calls of [`BufferPool::free_if_unused`] since a segment was last acquired.
    unused_calls: u32,
}

/// One or more segments, which are filled in order.
#[derive(Debug)]
pub(crate) struct PooledMemory {
    segments: Vec<Segment>,
}

/// One segment in use. Dropping it returns the memory to the pool.
#[derive(Debug)]
struct Segment {
    memory: BytesMut,
    /// Number of bytes that are filled.
    len: usize,
    pool: Arc<Segments>,
}

impl BufferPool {
    /// Creates a pool of `bytes`, but of at least `MAX_SEGMENTS` segments. Allocates nothing yet.
    pub fn new(bytes: u64) -> Self {
        let max = usize::try_from(bytes / SEGMENT_LEN as u64).unwrap_or(usize::MAX);
        Self(Arc::new(Segments {
            max: max.max(MAX_SEGMENTS),
            state: Mutex::default(),
        }))
    }

    /// Returns empty memory of one to four segments, fewer if few are free. `None`
    /// if none is free. For [`Priority::Low`] also `None` if less than a quarter of all segments is
    /// free.
    pub(crate) fn acquire(&self, priority: Priority) -> Option<PooledMemory> {
        let Self(pool) = self;
        let mut state = pool.state();
        let available = pool.max - state.in_use;
        // The last quarter is for uploads that would otherwise have to write 16 KiB at a time.
        // Other uploads lose less: they wait for their running write.
        if available == 0 || (priority == Priority::Low && available < pool.max / 4) {
            state.refused += u64::from(available == 0);
            return None;
        }
        // Four segments while at least 64 are free. Then fewer, so that many uploads share the
        // rest.
        let count = (available / (4 * MAX_SEGMENTS)).clamp(1, MAX_SEGMENTS);
        let segment = |memory| Segment {
            memory,
            len: 0,
            pool: Arc::clone(pool),
        };
        let segments = (0..count).map(|_| segment(state.acquire())).collect();
        Some(PooledMemory { segments })
    }

    /// Returns how much of it is in use.
    pub fn usage(&self) -> Usage {
        let Self(pool) = self;
        let state = pool.state();
        let bytes = |segments: usize| segments as u64 * SEGMENT_LEN as u64;
        Usage {
            resource: LimitedResource::Media,
            used: bytes(state.in_use),
            limit: bytes(pool.max),
            refused: state.refused,
        }
    }

    /// Frees all memory if no segment is in use and none was acquired during the last
    /// `UNUSED_CALLS` calls. Must be called once a second.
    pub fn free_if_unused(&self) {
        let mut state = self.0.state();
        state.unused_calls = state.unused_calls.saturating_add(1);
        // All or none: segments share their allocations, so freeing some of them frees no memory.
        if state.in_use == 0 && state.unused_calls >= UNUSED_CALLS {
            state.free = Vec::new();
        }
    }
}

impl Segments {
    fn state(&self) -> MutexGuard<'_, SegmentsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SegmentsState {
    /// Returns a free segment. The caller has checked the maximum.
    fn acquire(&mut self) -> BytesMut {
        if self.free.is_empty() {
            self.free = allocate();
        }
        self.in_use += 1;
        self.unused_calls = 0;
        self.free.pop().expect("some were allocated")
    }
}

/// Allocates [`SEGMENTS_PER_ALLOCATION`] aligned segments.
fn allocate() -> Vec<BytesMut> {
    let mut all = BytesMut::zeroed(SEGMENTS_PER_ALLOCATION * SEGMENT_LEN + WRITE_UNIT);
    let misalignment = all.as_ptr().align_offset(WRITE_UNIT);
    drop(all.split_to(misalignment));
    let segment = |_| all.split_to(SEGMENT_LEN);
    (0..SEGMENTS_PER_ALLOCATION).map(segment).collect()
}

impl PooledMemory {
    /// Number of bytes that the memory can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.segments.len() * SEGMENT_LEN
    }

    /// Adds bytes.
    ///
    /// # Panics
    /// If there are more than fit; see [`PooledMemory::capacity`].
    pub(crate) fn push(&mut self, mut data: &[u8]) {
        for segment in &mut self.segments {
            let room = &mut segment.memory[segment.len..];
            let (now, later) = data.split_at(room.len().min(data.len()));
            room[..now.len()].copy_from_slice(now);
            segment.len += now.len();
            data = later;
        }
        assert!(data.is_empty(), "the pooled memory is full");
    }

    /// Returns the bytes, one slice for each segment. A segment returns to the pool with the last
    /// reference to its slice.
    pub(crate) fn freeze(self) -> Vec<Bytes> {
        let filled = self.segments.into_iter().filter(|segment| segment.len > 0);
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
        state.in_use -= 1;
        state.free.push(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_all_sizes_keep_their_order() {
        let mut write_buffer = WriteBuffer::default();
        let mut expected = Vec::new();
        for (n, size) in [1, 5000, 3, 4, 4096, 4095, 1].into_iter().enumerate() {
            let data = vec![u8::try_from(n).unwrap(); size];
            expected.extend_from_slice(&data);
            write_buffer.push(data.into());
        }
        assert_eq!(write_buffer.len(), expected.len());
        assert_eq!(write_buffer.drain_to_one(), expected);
        assert_eq!(write_buffer.len(), 0);
    }

    #[test]
    fn move_to_pooled_memory_keeps_the_bytes() {
        let mut write_buffer = filled();
        write_buffer.push(Bytes::from_static(b"tiny"));
        write_buffer.move_to(large_memory());
        let more = vec![8; UNPOOLED_MAYBE_SMALL];
        write_buffer.push(more.clone().into());
        let expected = [vec![7; UNPOOLED_MAYBE_SMALL], b"tiny".into(), more].concat();
        assert!(write_buffer.drain_to_one() == expected);
    }

    #[test]
    fn tiny_inputs_share_one_run() {
        let mut write_buffer = WriteBuffer::default();
        for _ in 0..RUN_LEN {
            write_buffer.push(Bytes::from_static(b"x"));
        }
        assert_eq!(write_buffer.drain().len(), 1);
        write_buffer.push(vec![1; COPIED_BELOW - 1].into());
        assert_eq!(write_buffer.drain().len(), 1);
    }

    #[test]
    fn buffer_grows_beyond_its_limit_only_with_pooled_memory() {
        let mut write_buffer = WriteBuffer::default();
        assert!(!write_buffer.needs_pooled_memory(UNPOOLED_MAYBE_SMALL));
        write_buffer = filled();
        assert!(write_buffer.needs_pooled_memory(UNPOOLED_MAYBE_SMALL));
        assert_eq!(write_buffer.room(UNPOOLED_MAYBE_SMALL, 0), 0);
        write_buffer.move_to(large_memory());
        assert!(!write_buffer.needs_pooled_memory(UNPOOLED_MAYBE_SMALL));
        assert_eq!(
            write_buffer.room(UNPOOLED_MAYBE_SMALL, 0),
            MAX_POOLED_LEN - UNPOOLED_MAYBE_SMALL
        );
    }

    #[test]
    fn full_pooled_memory_ends_at_a_write_unit_wherever_it_begins() {
        let mut write_buffer = filled();
        write_buffer.move_to(large_memory());
        for start in [0, 1, 4095, 4096, 70_001] {
            let len = UNPOOLED_MAYBE_SMALL + write_buffer.room(UNPOOLED_MAYBE_SMALL, start);
            let end = start + len as u64;
            assert!(end.is_multiple_of(WRITE_UNIT as u64), "from {start}");
            assert!(len > MAX_POOLED_LEN - WRITE_UNIT);
        }
    }

    fn large_memory() -> PooledMemory {
        let buffer_pool = BufferPool::new(u64::MAX);
        buffer_pool.acquire(Priority::High).unwrap()
    }

    fn filled() -> WriteBuffer {
        let mut write_buffer = WriteBuffer::default();
        write_buffer.push(vec![7; UNPOOLED_MAYBE_SMALL].into());
        write_buffer
    }

    fn acquire_all(buffer_pool: &BufferPool, priority: Priority) -> Vec<PooledMemory> {
        std::iter::from_fn(|| buffer_pool.acquire(priority)).collect()
    }

    /// Number of segments that are allocated and not in use.
    fn free(buffer_pool: &BufferPool) -> usize {
        buffer_pool.0.state().free.len()
    }

    #[test]
    fn pooled_memory_is_aligned_and_keeps_the_order_of_its_bytes() {
        let buffer_pool = BufferPool::new(32 << 20);
        for len in [0, 7, SEGMENT_LEN, SEGMENT_LEN + 1, MAX_POOLED_LEN] {
            let sent: Vec<u8> = (0..=250).cycle().take(len).collect();
            let mut pooled = buffer_pool
                .acquire(Priority::High)
                .expect("the pool is large");
            for data in sent.chunks(100_000) {
                pooled.push(data);
            }
            let slices = pooled.freeze();
            assert_eq!(slices.len(), len.div_ceil(SEGMENT_LEN));
            assert!(slices.concat() == sent, "{len} bytes");
            for slice in slices {
                assert!(slice.as_ptr().addr().is_multiple_of(WRITE_UNIT));
            }
        }
    }

    #[test]
    #[should_panic(expected = "the pooled memory is full")]
    fn push_beyond_the_limit_panics() {
        let mut pooled = BufferPool::new(0)
            .acquire(Priority::High)
            .expect("it is new");
        pooled.push(&vec![0; pooled.capacity() + 1]);
    }

    #[test]
    fn segment_returns_to_the_pool_with_the_last_reference_to_its_bytes() {
        let buffer_pool = BufferPool::new(0);
        let mut acquired = acquire_all(&buffer_pool, Priority::High);
        let mut last = acquired.pop().expect("there is one at least");
        last.push(b"windlass");
        let slices = last.freeze();
        let copy = slices[0].clone();
        drop(slices);
        assert!(buffer_pool.acquire(Priority::High).is_none());
        drop(copy);
        assert!(buffer_pool.acquire(Priority::High).is_some());
    }

    #[test]
    fn acquired_memory_becomes_smaller_and_stays_within_the_limit() {
        let buffer_pool = BufferPool::new(32 << 20);
        let acquired = acquire_all(&buffer_pool, Priority::High);
        let capacities: Vec<_> = acquired.iter().map(PooledMemory::capacity).collect();
        assert!(capacities.is_sorted_by(|a, b| a >= b));
        assert_eq!(
            (capacities[0], capacities.last()),
            (MAX_POOLED_LEN, Some(&SEGMENT_LEN))
        );
        assert_eq!(capacities.iter().sum::<usize>(), 32 << 20);
        let usage = buffer_pool.usage();
        assert_eq!((usage.used, usage.limit), (32 << 20, 32 << 20));
        // The call that found no segment left.
        assert_eq!(usage.refused, 1);
    }

    #[test]
    fn last_quarter_is_for_uploads_without_a_running_write() {
        let buffer_pool = BufferPool::new(32 << 20);
        let acquired = acquire_all(&buffer_pool, Priority::Low);
        let len: usize = acquired.iter().map(PooledMemory::capacity).sum();
        assert!(len < 25 << 20);
        assert!(buffer_pool.acquire(Priority::High).is_some());
    }

    #[test]
    fn pool_larger_than_one_allocation_can_be_used_up() {
        let buffer_pool = BufferPool::new(80 << 20);
        let acquired = acquire_all(&buffer_pool, Priority::High);
        let len: usize = acquired.iter().map(PooledMemory::capacity).sum();
        assert_eq!(len, 80 << 20);
    }

    #[test]
    fn memory_is_reused_and_freed_after_it_was_unused() {
        let buffer_pool = BufferPool::new(32 << 20);
        assert_eq!(
            free(&buffer_pool),
            0,
            "nothing is allocated before it is needed"
        );
        let pooled = buffer_pool.acquire(Priority::High);
        for _ in 0..2 * UNUSED_CALLS {
            buffer_pool.free_if_unused();
        }
        drop(pooled);
        assert_eq!(free(&buffer_pool), SEGMENTS_PER_ALLOCATION, "it was in use");

        drop(buffer_pool.acquire(Priority::High));
        for _ in 1..UNUSED_CALLS {
            buffer_pool.free_if_unused();
        }
        assert_eq!(free(&buffer_pool), SEGMENTS_PER_ALLOCATION);
        buffer_pool.free_if_unused();
        assert_eq!(free(&buffer_pool), 0);
    }
}
