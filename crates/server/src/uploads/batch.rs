//! Bytes on their way from the socket to the vault, and how many of them may wait at once.
//!
//! Large writes are what makes a disk fast, but a large buffer for every slow connection would be
//! a gigabyte. So a batch grows past [`SMALL_BATCH`] only with a share of a common budget, and only
//! when the bytes are really there.

use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What every batch may hold without a share of the budget while its media may still turn out to be
/// small.
pub(crate) const SMALL_BATCH: usize = 64 * 1024;

/// What a batch of larger media may hold without a share of the budget: a thousand slow uploads
/// together no more than a few large batches.
pub(crate) const MODEST_BATCH: usize = 16 * 1024;

/// What a batch may hold with a share of the budget. Twice as much was slower: one batch is taken while
/// another is written, and both should still be in the processor's cache.
pub(crate) const LARGE_BATCH: usize = 512 * 1024;

/// Pieces smaller than this are copied together: a piece costs more than its bytes.
const TINY: usize = 4 * 1024;

/// Tiny pieces are copied into blocks of this size. Growing one block instead would hold up to twice
/// the bytes.
const BLOCK: usize = 4 * 1024;

/// Memory for batches, shared by all uploads of a server.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    large_batches: Arc<Semaphore>,
}

impl MemoryBudget {
    /// A budget of `bytes`, at least one large batch.
    pub(crate) fn new(bytes: u64) -> Self {
        let batches = usize::try_from(bytes / LARGE_BATCH as u64).unwrap_or(usize::MAX);
        let batches = batches.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            large_batches: Arc::new(Semaphore::new(batches)),
        }
    }

    fn share(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.large_batches).try_acquire_owned().ok()
    }
}

/// Bytes collected for one write.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pieces: Vec<Bytes>,
    tail: BytesMut,
    len: usize,
    share: Option<OwnedSemaphorePermit>,
}

/// A batch that is complete: its pieces, and its share of the budget to be held until nobody needs
/// them any more.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) share: Option<OwnedSemaphorePermit>,
}

impl Batch {
    /// How many bytes it holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many more bytes it takes before it wants to be written, when it may hold `unshared` of
    /// them without a share of the budget. Zero when it is full.
    pub(crate) fn room(&mut self, budget: &MemoryBudget, unshared: usize) -> usize {
        if self.len < unshared {
            return unshared - self.len;
        }
        if self.share.is_none() {
            self.share = budget.share();
        }
        if self.share.is_some() {
            LARGE_BATCH.saturating_sub(self.len)
        } else {
            0
        }
    }

    /// Adds bytes. Their memory is kept, not copied, unless they are few.
    pub(crate) fn push(&mut self, data: Bytes) {
        self.len += data.len();
        if data.len() < TINY {
            self.copy(&data);
        } else {
            self.seal_tail();
            self.pieces.push(data);
        }
    }

    /// Takes everything out.
    pub(crate) fn seal(&mut self) -> Sealed {
        self.seal_tail();
        self.len = 0;
        Sealed {
            pieces: std::mem::take(&mut self.pieces),
            share: self.share.take(),
        }
    }

    /// Takes everything out as one run of bytes.
    pub(crate) fn concat(&mut self) -> Bytes {
        let mut sealed = self.seal();
        if sealed.pieces.len() == 1 {
            return sealed.pieces.remove(0);
        }
        let mut all = BytesMut::with_capacity(sealed.pieces.iter().map(Bytes::len).sum());
        for piece in &sealed.pieces {
            all.extend_from_slice(piece);
        }
        all.freeze()
    }

    fn copy(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.tail.capacity() == self.tail.len() {
                self.seal_tail();
                self.tail = BytesMut::with_capacity(BLOCK);
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
    use super::*;

    #[test]
    fn a_batch_gives_back_its_bytes_in_order_whatever_their_sizes() {
        let mut batch = Batch::default();
        let mut expected = Vec::new();
        for (n, size) in [1, 5000, 3, 4, 4096, 4095, 1].into_iter().enumerate() {
            let data = vec![u8::try_from(n).unwrap(); size];
            expected.extend_from_slice(&data);
            batch.push(data.into());
        }
        assert_eq!(batch.len(), expected.len());
        assert_eq!(batch.concat(), expected);
        assert_eq!(batch.len(), 0);
    }

    #[test]
    fn tiny_pieces_are_copied_together() {
        let mut batch = Batch::default();
        for _ in 0..1000 {
            batch.push(Bytes::from_static(b"x"));
        }
        assert_eq!(batch.seal().pieces.len(), 1);
    }

    #[test]
    fn a_batch_grows_large_only_with_a_share_of_the_budget() {
        let budget = MemoryBudget::new(LARGE_BATCH as u64);
        let mut lucky = filled();
        let mut unlucky = filled();
        assert_eq!(lucky.room(&budget, SMALL_BATCH), LARGE_BATCH - SMALL_BATCH);
        assert_eq!(unlucky.room(&budget, SMALL_BATCH), 0);
        drop(lucky.seal());
        assert_eq!(
            unlucky.room(&budget, SMALL_BATCH),
            LARGE_BATCH - SMALL_BATCH
        );
    }

    fn filled() -> Batch {
        let mut batch = Batch::default();
        batch.push(vec![0; SMALL_BATCH].into());
        batch
    }
}
