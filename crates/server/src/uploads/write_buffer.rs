//! Bytes between the socket and the vault, and the bound on their memory.
//!
//! A disk is fast only with large writes, but a large buffer for each of a thousand slow
//! connections would take a gigabyte. A [`WriteBuffer`] therefore grows beyond [`UNPOOLED_LARGE`]
//! bytes ([`UNPOOLED_MAYBE_SMALL`] while its media may be small) only with memory from the server's
//! [`BufferPool`], and only when it is full. docs/adr/0001 compares this with buffers of other
//! sizes and with huge pages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes, BytesMut};
use windlass_store::WRITE_UNIT;

/// Number of bytes that a buffer may hold without pooled memory while its media may still be small.
// Equal to the default and maximum of `Limits::small_media`: media of up to this length may still
// go to the ledger.
pub(crate) const UNPOOLED_MAYBE_SMALL: usize = 64 * 1024;

/// Number of bytes that a buffer may hold without pooled memory once its media is known to be
/// large.
// A thousand slow uploads thus hold 16 MiB, half the size of the default pool.
pub(crate) const UNPOOLED_LARGE: usize = 16 * 1024;

/// Length below which pieces are copied into a *run*: memory that several tiny pieces share.
// Keeping a `Bytes` costs an allocation and bookkeeping, which for tiny pieces exceeds a copy.
const COPIED_BELOW: usize = 4 * 1024;

/// Minimum capacity of a run. A run is longer only if the piece for which it is allocated is
/// longer.
// Full runs do not grow: a single growing run would take up to twice the memory of its bytes.
const RUN_LEN: usize = 1024;

/// Collects bytes for one write.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    /// Unpooled bytes: large pieces as they came from the connection, and full runs of tiny ones.
    pieces: Vec<Bytes>,
    /// The run to which tiny pieces are copied.
    run: BytesMut,
    /// Number of bytes in the buffer.
    len: usize,
    /// Pooled memory. If there is any, it holds all bytes of the buffer.
    pooled: Option<PooledBuffer>,
}

impl WriteBuffer {
    /// Number of bytes in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    /// Whether the buffer can hold more bytes only with pooled memory. Without pooled memory it may
    /// hold `unpooled` bytes.
    pub(crate) fn needs_pooled(&self, unpooled: usize) -> bool {
        self.pooled.is_none() && self.len >= unpooled
    }

    /// Moves the bytes to pooled memory, which must have room for them.
    pub(crate) fn move_to(&mut self, mut pooled: PooledBuffer) {
        self.end_run();
        for piece in std::mem::take(&mut self.pieces) {
            pooled.push(&piece);
        }
        self.pooled = Some(pooled);
    }

    /// Number of bytes that fit before the buffer must be written; zero if it is full. `start` is
    /// the offset of the buffer's first byte in the media. Without pooled memory the buffer may
    /// hold `unpooled` bytes.
    pub(crate) fn room(&self, unpooled: usize, start: u64) -> usize {
        // A pooled batch ends at a multiple of the vault's write unit, wherever it begins. The next
        // batch begins there, so all batches but the first can be written as a whole with O_DIRECT.
        let misalignment = usize::try_from(start % WRITE_UNIT as u64).expect("less than a unit");
        let most = match &self.pooled {
            Some(pooled) => pooled.limit() - misalignment,
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
            self.pieces.push(data);
        }
    }

    /// Takes all bytes out. Pooled memory returns to the pool with the last reference to them.
    pub(crate) fn take_all(&mut self) -> Vec<Bytes> {
        self.len = 0;
        if let Some(pooled) = self.pooled.take() {
            return pooled.freeze();
        }
        self.end_run();
        std::mem::take(&mut self.pieces)
    }

    /// Takes all bytes out as one `Bytes` outside of the pool.
    pub(crate) fn concat(&mut self) -> Bytes {
        // Pooled bytes are copied: the ledger's queue and the handler keep small media for some
        // time, and the pool should get its memory back before.
        let is_pooled = self.pooled.is_some();
        let mut pieces = self.take_all();
        if pieces.len() == 1 && !is_pooled {
            return pieces.remove(0);
        }
        let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
        for piece in &pieces {
            all.extend_from_slice(piece);
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

    /// Moves the run to the pieces.
    fn end_run(&mut self) {
        if self.run.has_remaining() {
            self.pieces.push(std::mem::take(&mut self.run).freeze());
        }
    }
}

/// Length of a segment in bytes.
// All segments have the same size, so that any upload can reuse any free one (docs/adr/0001).
const SEGMENT_LEN: usize = 256 * 1024;

/// Maximum number of segments in a [`PooledBuffer`].
// More segments made single uploads no faster.
const MAX_SEGMENTS: usize = 4;

/// Number of segments that are allocated together.
// The segments and the room for their alignment are more than 32 MiB, the maximum of glibc's mmap
// threshold. glibc maps such an allocation separately, so its zeroed memory costs nothing until it
// is used, and it is unmapped when it is freed.
const SEGMENTS_PER_ALLOCATION: usize = 32 * 1024 * 1024 / SEGMENT_LEN;

/// Number of consecutive calls of [`BufferPool::free_if_unused`] after which the pool's memory is
/// freed, if no buffer is taken between them and none is in use at the last one.
// `free_if_unused` is called once a second, so this is ten seconds.
const UNUSED_CALLS: u32 = 10;

/// Length of the longest pooled buffer.
#[cfg(test)]
pub(crate) const MAX_BUFFER_LEN: usize = MAX_SEGMENTS * SEGMENT_LEN;

/// The memory of large batches: a fixed number of segments for all uploads of a server.
///
/// Direct writes need memory that is aligned to [`WRITE_UNIT`]. It should also be reused, because a
/// page fault on new memory costs more than copying into memory that was used before. So all
/// segments are cut from a few large allocations. An unused segment takes no physical memory, and
/// the allocations are freed when no upload has needed a segment for a while.
#[derive(Debug, Clone)]
pub(crate) struct BufferPool(Arc<Pool>);

/// Priority of a request for a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The upload has no buffer.
    First,
    /// The upload has a buffer, which is being written.
    Second,
}

/// The shared part of a [`BufferPool`].
#[derive(Debug)]
struct Pool {
    /// Maximum number of segments.
    total: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Allocated segments that are in no buffer. A stack, because the segment that was used last is
    /// most likely still in the CPU cache.
    free: Vec<BytesMut>,
    /// Number of segments in buffers.
    taken: usize,
    /// Number of calls of [`BufferPool::free_if_unused`] since a segment was taken.
    unused_calls: u32,
}

/// A buffer of one or more segments, which are filled one after the other.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    segments: Vec<Segment>,
}

/// One segment. Dropping it returns the memory to the pool.
#[derive(Debug)]
struct Segment {
    memory: BytesMut,
    /// Number of bytes that are filled.
    len: usize,
    pool: Arc<Pool>,
}

impl BufferPool {
    /// Creates a pool of `bytes`, but of at least one buffer of maximum length. Allocates nothing
    /// yet.
    pub(crate) fn new(bytes: u64) -> Self {
        let total = usize::try_from(bytes / SEGMENT_LEN as u64).unwrap_or(usize::MAX);
        Self(Arc::new(Pool {
            total: total.max(MAX_SEGMENTS),
            state: Mutex::default(),
        }))
    }

    /// Takes an empty buffer: a large one while most of the pool is free, and a smaller one
    /// otherwise. `None` if no segment is free. Also `None` for [`Priority::Second`] if less than a
    /// quarter is free: the upload should then wait for its first buffer.
    pub(crate) fn acquire(&self, priority: Priority) -> Option<PooledBuffer> {
        let Self(pool) = self;
        let mut state = pool.state();
        let available = pool.total - state.taken;
        // The last quarter is for uploads without a buffer, which would have to write 16 KiB at a
        // time. The others lose less: they only wait for their own buffer.
        if available == 0 || (priority == Priority::Second && available < pool.total / 4) {
            return None;
        }
        // Fewer segments for each buffer once there are not enough for 16 large buffers, so that
        // many uploads share the rest.
        let count = (available / (4 * MAX_SEGMENTS)).clamp(1, MAX_SEGMENTS);
        let segment = |memory| Segment {
            memory,
            len: 0,
            pool: Arc::clone(pool),
        };
        let segments = (0..count).map(|_| segment(state.take())).collect();
        Some(PooledBuffer { segments })
    }

    /// Frees all memory if no buffer is in use and none was taken during the last [`UNUSED_CALLS`]
    /// calls. Must be called once a second.
    pub(crate) fn free_if_unused(&self) {
        let mut state = self.0.state();
        state.unused_calls = state.unused_calls.saturating_add(1);
        // All or none: segments share their allocations, so freeing some of them frees no memory.
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

/// Allocates [`SEGMENTS_PER_ALLOCATION`] aligned segments.
fn allocate() -> Vec<BytesMut> {
    let mut all = BytesMut::zeroed(SEGMENTS_PER_ALLOCATION * SEGMENT_LEN + WRITE_UNIT);
    let misalignment = all.as_ptr().align_offset(WRITE_UNIT);
    drop(all.split_to(misalignment));
    let segment = |_| all.split_to(SEGMENT_LEN);
    (0..SEGMENTS_PER_ALLOCATION).map(segment).collect()
}

impl PooledBuffer {
    /// Number of bytes that the buffer can hold.
    pub(crate) fn limit(&self) -> usize {
        self.segments.len() * SEGMENT_LEN
    }

    /// Adds bytes.
    ///
    /// # Panics
    /// If the buffer would hold more than [`PooledBuffer::limit`] bytes.
    pub(crate) fn push(&mut self, mut data: &[u8]) {
        for segment in &mut self.segments {
            let room = &mut segment.memory[segment.len..];
            let (now, later) = data.split_at(room.len().min(data.len()));
            room[..now.len()].copy_from_slice(now);
            segment.len += now.len();
            data = later;
        }
        assert!(data.is_empty(), "the pooled buffer is full");
    }

    /// Returns the bytes, one piece for each segment. A segment returns to the pool with the last
    /// reference to its piece.
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
        state.taken -= 1;
        state.free.push(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uploads::write_buffer::{BufferPool, MAX_BUFFER_LEN, Priority};

    #[test]
    fn pieces_of_all_sizes_keep_their_order() {
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
    fn move_to_a_pooled_buffer_keeps_the_bytes() {
        let mut write_buffer = filled();
        write_buffer.push(Bytes::from_static(b"tiny"));
        write_buffer.move_to(large_buffer());
        let more = vec![8; UNPOOLED_MAYBE_SMALL];
        write_buffer.push(more.clone().into());
        let expected = [vec![7; UNPOOLED_MAYBE_SMALL], b"tiny".into(), more].concat();
        assert!(write_buffer.concat() == expected);
    }

    #[test]
    fn tiny_pieces_share_one_run() {
        let mut write_buffer = WriteBuffer::default();
        for _ in 0..RUN_LEN {
            write_buffer.push(Bytes::from_static(b"x"));
        }
        assert_eq!(write_buffer.take_all().len(), 1);
        write_buffer.push(vec![1; COPIED_BELOW - 1].into());
        assert_eq!(write_buffer.take_all().len(), 1);
    }

    #[test]
    fn buffer_grows_beyond_its_limit_only_with_pooled_memory() {
        let mut write_buffer = WriteBuffer::default();
        assert!(!write_buffer.needs_pooled(UNPOOLED_MAYBE_SMALL));
        write_buffer = filled();
        assert!(write_buffer.needs_pooled(UNPOOLED_MAYBE_SMALL));
        assert_eq!(write_buffer.room(UNPOOLED_MAYBE_SMALL, 0), 0);
        write_buffer.move_to(large_buffer());
        assert!(!write_buffer.needs_pooled(UNPOOLED_MAYBE_SMALL));
        assert_eq!(
            write_buffer.room(UNPOOLED_MAYBE_SMALL, 0),
            MAX_BUFFER_LEN - UNPOOLED_MAYBE_SMALL
        );
    }

    #[test]
    fn large_batch_ends_at_a_write_unit_wherever_it_begins() {
        let mut write_buffer = filled();
        write_buffer.move_to(large_buffer());
        for start in [0, 1, 4095, 4096, 70_001] {
            let len = UNPOOLED_MAYBE_SMALL + write_buffer.room(UNPOOLED_MAYBE_SMALL, start);
            let end = start + len as u64;
            assert!(end.is_multiple_of(WRITE_UNIT as u64), "from {start}");
            assert!(len > MAX_BUFFER_LEN - WRITE_UNIT);
        }
    }

    fn large_buffer() -> PooledBuffer {
        let buffer_pool = BufferPool::new(u64::MAX);
        buffer_pool.acquire(Priority::First).unwrap()
    }

    fn filled() -> WriteBuffer {
        let mut write_buffer = WriteBuffer::default();
        write_buffer.push(vec![7; UNPOOLED_MAYBE_SMALL].into());
        write_buffer
    }

    fn all_buffers(buffer_pool: &BufferPool, priority: Priority) -> Vec<PooledBuffer> {
        std::iter::from_fn(|| buffer_pool.acquire(priority)).collect()
    }

    /// Number of segments that are allocated and in no buffer.
    fn free(buffer_pool: &BufferPool) -> usize {
        buffer_pool.0.state().free.len()
    }

    #[test]
    fn pooled_buffer_is_aligned_and_keeps_the_order_of_its_bytes() {
        let buffer_pool = BufferPool::new(32 << 20);
        for len in [0, 7, SEGMENT_LEN, SEGMENT_LEN + 1, MAX_BUFFER_LEN] {
            let sent: Vec<u8> = (0..=250).cycle().take(len).collect();
            let mut pooled = buffer_pool
                .acquire(Priority::First)
                .expect("the pool is large");
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
    #[should_panic(expected = "the pooled buffer is full")]
    fn push_beyond_the_limit_panics() {
        let mut pooled = BufferPool::new(0)
            .acquire(Priority::First)
            .expect("it is new");
        pooled.push(&vec![0; pooled.limit() + 1]);
    }

    #[test]
    fn segment_returns_to_the_pool_with_the_last_reference_to_its_bytes() {
        let buffer_pool = BufferPool::new(0);
        let mut buffers = all_buffers(&buffer_pool, Priority::First);
        let mut last = buffers.pop().expect("there is one at least");
        last.push(b"windlass");
        let pieces = last.freeze();
        let copy = pieces[0].clone();
        drop(pieces);
        assert!(buffer_pool.acquire(Priority::First).is_none());
        drop(copy);
        assert!(buffer_pool.acquire(Priority::First).is_some());
    }

    #[test]
    fn buffers_become_smaller_and_stay_within_the_limit() {
        let buffer_pool = BufferPool::new(32 << 20);
        let buffers = all_buffers(&buffer_pool, Priority::First);
        let limits: Vec<_> = buffers.iter().map(PooledBuffer::limit).collect();
        assert!(limits.is_sorted_by(|a, b| a >= b));
        assert_eq!(
            (limits[0], limits.last()),
            (MAX_BUFFER_LEN, Some(&SEGMENT_LEN))
        );
        assert_eq!(limits.iter().sum::<usize>(), 32 << 20);
    }

    #[test]
    fn last_quarter_is_for_uploads_without_a_buffer() {
        let buffer_pool = BufferPool::new(32 << 20);
        let seconds = all_buffers(&buffer_pool, Priority::Second);
        let taken: usize = seconds.iter().map(PooledBuffer::limit).sum();
        assert!(taken < 25 << 20);
        assert!(buffer_pool.acquire(Priority::First).is_some());
    }

    #[test]
    fn pool_larger_than_one_allocation_can_be_used_up() {
        let buffer_pool = BufferPool::new(80 << 20);
        let buffers = all_buffers(&buffer_pool, Priority::First);
        let taken: usize = buffers.iter().map(PooledBuffer::limit).sum();
        assert_eq!(taken, 80 << 20);
    }

    #[test]
    fn memory_is_reused_and_freed_after_it_was_unused() {
        let buffer_pool = BufferPool::new(32 << 20);
        assert_eq!(
            free(&buffer_pool),
            0,
            "nothing is allocated before it is needed"
        );
        let pooled = buffer_pool.acquire(Priority::First);
        for _ in 0..2 * UNUSED_CALLS {
            buffer_pool.free_if_unused();
        }
        drop(pooled);
        assert_eq!(free(&buffer_pool), SEGMENTS_PER_ALLOCATION, "it was in use");

        drop(buffer_pool.acquire(Priority::First));
        for _ in 1..UNUSED_CALLS {
            buffer_pool.free_if_unused();
        }
        assert_eq!(free(&buffer_pool), SEGMENTS_PER_ALLOCATION);
        buffer_pool.free_if_unused();
        assert_eq!(free(&buffer_pool), 0);
    }
}
