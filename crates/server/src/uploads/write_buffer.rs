//! Bytes on their way from the socket to the vault, and how many of them may wait at once.
//!
//! Large writes are what makes a disk fast, but a large buffer for every slow connection would be
//! a gigabyte. So a batch grows past [`SMALL_BUFFER`], or [`MODEST_BUFFER`], only with a block from a common
//! budget, and only when the bytes are really there.

use bytes::{Buf as _, Bytes, BytesMut};
use windlass_store::WRITE_UNIT;

use super::buffer_pool::PooledBuffer;

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

#[cfg(test)]
mod tests {
    use super::super::buffer_pool::{BufferPool, MAX_BUFFER_LEN, Priority};
    use super::*;

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
}
