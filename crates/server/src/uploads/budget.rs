//! The memory of large batches, of which all uploads together have so much and no more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use memmap2::MmapMut;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the budget is divided into.
const SHARE_LEN: usize = 256 * 1024;

/// The most shares that a block has. More made single uploads no faster.
const SHARES: usize = 4;

/// New memory of which less than this was used is not kept for others. Slow uploads use no more, a thousand of them,
/// and it would lie there untouched.
const WORTH_KEEPING: usize = 64 * 1024;

/// As much is kept when hardly anybody needs memory.
const KEPT_AT_REST: usize = 8 * 1024 * 1024;

/// The longest block.
#[cfg(test)]
pub(crate) const BLOCK_LEN: usize = SHARES * SHARE_LEN;

/// Memory for large batches, shared by all uploads of a server.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget(Arc<Pool>);

/// Who asks for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// An upload that has none.
    First,
    /// One that has a block on its way to the vault.
    Second,
}

/// What all blocks come from.
#[derive(Debug)]
struct Pool {
    /// What is left of the budget, and what there is in all.
    shares: Arc<Semaphore>,
    total: usize,
    /// Memory that nobody needs now, and that has been used before: the kernel need not find it again. What came first
    /// is in front.
    kept: Mutex<VecDeque<MmapMut>>,
}

/// A part of the budget, and the memory that it stands for. It lies as a vault likes it, and as nothing but pages
/// does: it is mapped by itself, outside of the heap, which would not give so large a piece back as a rule.
#[derive(Debug)]
pub(crate) struct Block {
    /// `None` only while it is given back.
    memory: Option<MmapMut>,
    /// Whether it was kept for others before.
    was_kept: bool,
    len: usize,
    pool: Arc<Pool>,
    _shares: OwnedSemaphorePermit,
}

impl MemoryBudget {
    /// A budget of `bytes`, at least one block.
    pub(crate) fn new(bytes: u64) -> Self {
        let shares = usize::try_from(bytes / SHARE_LEN as u64).unwrap_or(usize::MAX);
        let total = shares.clamp(SHARES, Semaphore::MAX_PERMITS);
        Self(Arc::new(Pool {
            shares: Arc::new(Semaphore::new(total)),
            total,
            kept: Mutex::default(),
        }))
    }

    /// An empty block: a large one while there is plenty of memory, a smaller one when others have most of
    /// it. `None` when they have all, or so much that who has a block already had better wait for that one.
    pub(crate) fn block(&self, claim: Claim) -> Option<Block> {
        let Self(pool) = self;
        let available = pool.shares.available_permits();
        // The last quarter is for those who have none.
        if claim == Claim::Second && available < pool.total / 4 {
            return None;
        }
        let shares = (available / (4 * SHARES)).clamp(1, SHARES);
        let count = u32::try_from(shares).expect("a few");
        let taken = Arc::clone(&pool.shares)
            .try_acquire_many_owned(count)
            .ok()?;
        let len = shares * SHARE_LEN;
        let kept = pool.take(len);
        let was_kept = kept.is_some();
        Some(Block {
            memory: Some(kept.or_else(|| MmapMut::map_anon(len).ok())?),
            was_kept,
            len: 0,
            pool: Arc::clone(pool),
            _shares: taken,
        })
    }
}

impl Block {
    /// How many bytes it holds at the most.
    pub(crate) fn limit(&self) -> usize {
        self.memory().len()
    }

    /// Adds bytes; all together are at most [`Block::limit`].
    pub(crate) fn push(&mut self, data: &[u8]) {
        let memory = self.memory.as_mut().expect("it is not given back");
        memory[self.len..][..data.len()].copy_from_slice(data);
        self.len += data.len();
    }

    /// The bytes. Memory and shares are given back with the last of them.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    fn memory(&self) -> &MmapMut {
        self.memory.as_ref().expect("it is not given back")
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.memory()[..self.len]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let is_worth_it = self.was_kept || self.len >= WORTH_KEEPING;
        let memory = self.memory.take();
        self.pool.put(memory.filter(|_| is_worth_it));
    }
}

impl Pool {
    /// Memory of this length, if there is any.
    fn take(&self, len: usize) -> Option<MmapMut> {
        let mut kept = self.kept();
        let fits = kept.iter().rposition(|memory| memory.len() == len);
        fits.and_then(|at| kept.remove(at))
    }

    /// A block has come to its end whose shares are not given back yet. Keeps its memory, if it is worth that; what was
    /// kept longest goes for it.
    fn put(&self, memory: Option<MmapMut>) {
        let mut gone = Vec::new(); // It is unmapped when others may look again.
        let mut kept = self.kept();
        kept.extend(memory);
        while kept.iter().map(|memory| memory.len()).sum::<usize>() > self.most() {
            gone.extend(kept.pop_front());
        }
    }

    /// How much is kept at the most: a quarter of the budget, beside it, and of that no more than is in use, so that
    /// little lies around when many uploads have come to their end.
    fn most(&self) -> usize {
        let quarter = (self.total / 4).saturating_mul(SHARE_LEN);
        let used = (self.total - self.shares.available_permits()).saturating_mul(SHARE_LEN);
        quarter.min(used.max(KEPT_AT_REST))
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<MmapMut>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::WRITE_UNIT;

    use super::*;

    #[test]
    fn a_block_lies_right_and_gives_its_bytes_back_in_order() {
        let budget = MemoryBudget::new(0);
        for _ in 0..2 {
            let mut block = budget.block(Claim::First).unwrap();
            block.push(b"wind");
            block.push(b"lass");
            let bytes = block.freeze();
            assert_eq!(bytes, "windlass");
            assert!(bytes.as_ptr().addr().is_multiple_of(WRITE_UNIT));
        }
    }

    #[test]
    fn a_share_lasts_as_long_as_its_bytes() {
        let budget = MemoryBudget::new(0);
        let mut blocks: Vec<_> = std::iter::from_fn(|| budget.block(Claim::First)).collect();
        let bytes = blocks.pop().unwrap().freeze();
        let copy = bytes.clone();
        drop(bytes);
        assert!(budget.block(Claim::First).is_none());
        drop(copy);
        assert!(budget.block(Claim::First).is_some());
    }

    #[test]
    fn blocks_are_smaller_when_there_are_many_and_the_budget_is_not_exceeded() {
        let budget = MemoryBudget::new(32 << 20);
        let blocks: Vec<_> = std::iter::from_fn(|| budget.block(Claim::First)).collect();
        let limits: Vec<_> = blocks.iter().map(Block::limit).collect();
        assert!(limits.is_sorted_by(|a, b| a >= b));
        assert_eq!((limits[0], limits.last()), (BLOCK_LEN, Some(&SHARE_LEN)));
        assert_eq!(limits.iter().sum::<usize>(), 32 << 20);
    }

    #[test]
    fn the_last_blocks_are_for_those_who_have_none() {
        let budget = MemoryBudget::new(32 << 20);
        let seconds: Vec<_> = std::iter::from_fn(|| budget.block(Claim::Second)).collect();
        let taken: usize = seconds.iter().map(Block::limit).sum();
        assert!(taken < 25 << 20);
        assert!(budget.block(Claim::First).is_some());
    }

    /// Blocks that are filled, so many at the most.
    fn filled(budget: &MemoryBudget, most: usize) -> Vec<Block> {
        let taken = std::iter::from_fn(|| budget.block(Claim::First)).take(most);
        let mut blocks: Vec<_> = taken.collect();
        for block in &mut blocks {
            block.push(&vec![7; block.limit()]);
        }
        blocks
    }

    fn kept(budget: &MemoryBudget) -> Vec<usize> {
        let kept = budget.0.kept();
        kept.iter().map(|memory| memory.len()).collect()
    }

    #[test]
    fn a_quarter_is_kept_and_of_that_what_came_last() {
        let budget = MemoryBudget::new(32 << 20);
        let large = filled(&budget, 10);
        let small = filled(&budget, usize::MAX);
        drop(small);
        drop(large);
        let lens = kept(&budget);
        assert_eq!(lens.iter().sum::<usize>(), 8 << 20);
        assert!(lens.iter().all(|len| *len == BLOCK_LEN), "{lens:?}");
        let again = budget.block(Claim::First).unwrap();
        assert_eq!((again.limit(), kept(&budget).len()), (BLOCK_LEN, 7));
    }

    #[test]
    fn little_is_kept_when_all_are_done() {
        let budget = MemoryBudget::new(256 << 20);
        let (first, second) = (filled(&budget, 50), filled(&budget, 50));
        drop(first);
        assert_eq!(kept(&budget).iter().sum::<usize>(), 50 << 20);
        let mut last = budget.block(Claim::First).unwrap();
        last.push(b"little");
        drop(second);
        drop(last);
        assert_eq!(kept(&budget).iter().sum::<usize>(), KEPT_AT_REST);
    }

    #[test]
    fn memory_that_was_hardly_used_is_not_kept() {
        let budget = MemoryBudget::new(0);
        let mut block = budget.block(Claim::First).unwrap();
        block.push(&vec![7; WORTH_KEEPING - 1]);
        drop(block);
        assert!(kept(&budget).is_empty());
        // Before it was well used, and it still is.
        drop(filled(&budget, 1));
        let mut again = budget.block(Claim::First).unwrap();
        again.push(b"little");
        drop(again);
        assert_eq!(kept(&budget).len(), 1);
    }
}
