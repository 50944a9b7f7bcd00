//! The memory of large batches, of which all uploads together have so much and no more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use memmap2::MmapMut;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_pages::{HugePage, PIECE_LEN, Run};

/// What the budget is divided into.
const SHARE_LEN: usize = PIECE_LEN;

/// The most shares that a block has. More made single uploads no faster.
const SHARES: usize = 4;

/// A block that held less asks for no huge page: a thousand slow or short uploads would have whole pages, and use little
/// of them. The chunks of Google's clients have this length at the least.
const WORTH_A_PAGE: usize = SHARE_LEN;

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
    /// Huge pages for those who have much to write; where they have room, everybody gets his memory there.
    pages: Mutex<Vec<HugePage>>,
}

/// A part of the budget, and the memory that it stands for. It lies as a vault likes it, and as nothing but pages
/// does: it is mapped outside of the heap, which would not give so large a piece back as a rule.
#[derive(Debug)]
pub(crate) struct Block {
    /// `None` only while it is given back.
    part: Option<Part>,
    len: usize,
    pool: Arc<Pool>,
}

/// Memory, and the shares that it takes. They are dropped in this order, so that both together are within the budget.
#[derive(Debug)]
struct Part {
    memory: Memory,
    _shares: OwnedSemaphorePermit,
}

/// Some shares.
#[derive(Debug)]
enum Memory {
    /// In a huge page, beside others.
    Run(Run),
    /// By itself, in small pages.
    Alone(MmapMut),
}

impl MemoryBudget {
    /// A budget of `bytes`, at least one block.
    pub(crate) fn new(bytes: u64) -> Self {
        let shares = usize::try_from(bytes / SHARE_LEN as u64).unwrap_or(usize::MAX);
        let total = shares.clamp(SHARES, Semaphore::MAX_PERMITS);
        Self(Arc::new(Pool {
            shares: Arc::new(Semaphore::new(total)),
            total,
            pages: Mutex::default(),
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
        let wanted = (available / (4 * SHARES)).clamp(1, SHARES);
        let count = u32::try_from(wanted).expect("a few");
        let taken = Arc::clone(&pool.shares).try_acquire_many_owned(count);
        let (mut shares, memory) = (taken.ok()?, pool.take(wanted)?);
        // Of huge pages there may be less left.
        drop(shares.split(wanted - memory.bytes().len() / SHARE_LEN));
        Some(Block {
            part: Some(Part {
                memory,
                _shares: shares,
            }),
            len: 0,
            pool: Arc::clone(pool),
        })
    }
}

impl Block {
    /// How many bytes it holds at the most.
    pub(crate) fn limit(&self) -> usize {
        self.memory().bytes().len()
    }

    /// Adds bytes; all together are at most [`Block::limit`].
    pub(crate) fn push(&mut self, data: &[u8]) {
        let part = self.part.as_mut().expect("it is not given back");
        part.memory.bytes_mut()[self.len..][..data.len()].copy_from_slice(data);
        self.len += data.len();
    }

    /// The bytes. Memory and shares are given back with the last of them.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    fn memory(&self) -> &Memory {
        let part = self.part.as_ref();
        &part.expect("it is not given back").memory
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.memory().bytes()[..self.len]
    }
}

/// All is given back before anybody looks how much is in use: of blocks that end at the same moment the last one finds
/// none.
impl Drop for Block {
    fn drop(&mut self) {
        let was_alone = matches!(self.memory(), Memory::Alone(_));
        let deserves_page = was_alone && self.len >= WORTH_A_PAGE;
        drop(self.part.take());
        if deserves_page {
            self.pool.make_page();
        }
        self.pool.trim();
    }
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Run(run) => run.as_ref(),
            Self::Alone(map) => map,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Run(run) => run.as_mut(),
            Self::Alone(map) => map,
        }
    }
}

impl Pool {
    /// So many shares, or what the huge pages have at the most side by side. Only when they have nothing, memory by
    /// itself: else what lies around in them would come on top of the budget.
    fn take(&self, shares: usize) -> Option<Memory> {
        let pages = self.pages();
        let run = (1..=shares)
            .rev()
            .find_map(|shares| pages.iter().find_map(|page| page.take(shares)));
        drop(pages);
        run.map(Memory::Run)
            .or_else(|| Some(Memory::Alone(MmapMut::map_anon(shares * SHARE_LEN).ok()?)))
    }

    /// A block that lay by itself was well used and has come to its end. There will be more of them: makes a huge page,
    /// unless there is room for a block.
    fn make_page(&self) {
        let is_wanted = |pages: &[HugePage]| {
            let free = free_in(pages);
            free < SHARES * SHARE_LEN && free + HugePage::LEN <= self.most_free()
        };
        if !is_wanted(&self.pages()) {
            return;
        }
        // Without one there is what there was before.
        let Ok(page) = HugePage::map() else { return };
        let mut pages = self.pages();
        if is_wanted(&pages) {
            pages.push(page);
        }
    }

    /// Gives back huge pages in which nothing is, when too much is free.
    fn trim(&self) {
        let mut gone = Vec::new(); // They are unmapped when others may look again.
        let mut pages = self.pages();
        while free_in(&pages) > self.most_free()
            && let Some(empty) = pages.iter().rposition(|page| page.taken() == 0)
        {
            gone.push(pages.swap_remove(empty));
        }
    }

    /// With how much free in huge pages none is made, and empty ones are given back: a quarter of the budget, or one page,
    /// and of that no more than is in use, so that little lies around when many uploads have come to their end.
    fn most_free(&self) -> usize {
        let quarter = (self.total / 4).saturating_mul(SHARE_LEN);
        let used = (self.total - self.shares.available_permits()).saturating_mul(SHARE_LEN);
        quarter.max(HugePage::LEN).min(used.max(KEPT_AT_REST))
    }

    fn pages(&self) -> MutexGuard<'_, Vec<HugePage>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many bytes of huge pages nobody has.
fn free_in(pages: &[HugePage]) -> usize {
    pages.iter().map(|page| HugePage::LEN - page.taken()).sum()
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

    /// How much there is in huge pages.
    fn in_pages(budget: &MemoryBudget) -> usize {
        budget.0.pages().len() * HugePage::LEN
    }

    fn is_in_page(block: &Block) -> bool {
        matches!(block.memory(), Memory::Run(_))
    }

    #[test]
    fn who_writes_much_gets_huge_pages_from_then_on() {
        let budget = MemoryBudget::new(32 << 20);
        let mut block = budget.block(Claim::First).unwrap();
        assert!(!is_in_page(&block));
        block.push(&vec![7; WORTH_A_PAGE]);
        drop(block);
        let (first, second) = (budget.block(Claim::First), budget.block(Claim::Second));
        for block in [first.unwrap(), second.unwrap()] {
            assert!(is_in_page(&block));
            assert_eq!(block.limit(), BLOCK_LEN);
        }
        assert_eq!(in_pages(&budget), HugePage::LEN);
    }

    #[test]
    fn the_smallest_budget_has_a_huge_page_too() {
        for bytes in [1 << 20, 8 << 20] {
            let budget = MemoryBudget::new(bytes);
            for _ in 0..3 {
                drop(filled(&budget, 1));
                assert_eq!(in_pages(&budget), HugePage::LEN, "of {bytes}");
            }
        }
    }

    #[test]
    fn memory_that_was_hardly_used_asks_for_no_huge_page() {
        let budget = MemoryBudget::new(32 << 20);
        let mut block = budget.block(Claim::First).unwrap();
        block.push(&vec![7; WORTH_A_PAGE - 1]);
        drop(block);
        assert_eq!(in_pages(&budget), 0);
    }

    /// Takes new blocks for old ones, as uploads do that go on.
    fn renew(budget: &MemoryBudget, blocks: &mut [Block]) {
        for block in blocks {
            if let Some(new) = filled(budget, 1).pop() {
                *block = new;
            }
        }
    }

    #[test]
    fn pages_and_all_else_are_a_quarter_more_than_the_budget_at_the_most() {
        for total in [4 << 20, 8 << 20, 32 << 20] {
            let bound = total + HugePage::LEN.max(total / 4);
            let budget = MemoryBudget::new(total as u64);
            let mut blocks = Vec::new();
            for kept_of_seven in [5, 2, 6, 1, 3] {
                blocks.extend(filled(&budget, usize::MAX));
                let held = held(&budget, &blocks);
                assert!(held <= bound, "{held} before {kept_of_seven} of 7");
                let mut n = 0;
                blocks.retain(|_| {
                    n += 1;
                    n % 7 < kept_of_seven
                });
                renew(&budget, &mut blocks);
            }
            assert!(blocks.iter().any(is_in_page));
        }
    }

    /// All memory: huge pages, and blocks that lie by themselves.
    fn held(budget: &MemoryBudget, blocks: &[Block]) -> usize {
        let alone = blocks.iter().filter(|block| !is_in_page(block));
        in_pages(budget) + alone.map(Block::limit).sum::<usize>()
    }

    #[test]
    fn uploads_side_by_side_stay_within_the_bound_and_leave_little() {
        let budget = MemoryBudget::new(64 << 20);
        for _ in 0..4 {
            let uploads = || {
                let mut blocks = filled(&budget, 12);
                renew(&budget, &mut blocks);
                blocks
            };
            let blocks: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(uploads)).collect();
                let blocks = threads.into_iter().map(|thread| thread.join().unwrap());
                blocks.flatten().collect()
            });
            assert!(held(&budget, &blocks) <= 80 << 20);
            std::thread::scope(|scope| {
                for block in blocks {
                    scope.spawn(move || drop(block));
                }
            });
            assert_eq!(budget.0.shares.available_permits(), 256);
            assert!(in_pages(&budget) <= KEPT_AT_REST);
        }
    }

    #[test]
    fn little_is_kept_when_all_are_done() {
        let budget = MemoryBudget::new(256 << 20);
        let mut blocks = filled(&budget, 40);
        renew(&budget, &mut blocks);
        assert!(in_pages(&budget) > 4 * KEPT_AT_REST);
        // Those that come last lie by themselves.
        let last = filled(&budget, 40);
        assert!(!last.iter().all(is_in_page));
        drop(blocks);
        drop(last);
        assert_eq!(in_pages(&budget), KEPT_AT_REST);
    }

    #[test]
    fn what_huge_pages_have_no_room_for_is_shorter_and_costs_less() {
        let budget = MemoryBudget::new(32 << 20);
        drop(filled(&budget, 1));
        let page = budget.0.pages()[0].take(6).unwrap();
        let short = budget.block(Claim::First).unwrap();
        assert_eq!(short.limit(), 2 * SHARE_LEN);
        assert_eq!(budget.0.shares.available_permits(), 128 - 2);
        let alone = budget.block(Claim::First).unwrap();
        assert_eq!((alone.limit(), is_in_page(&alone)), (BLOCK_LEN, false));
        drop((page, short));
    }
}
