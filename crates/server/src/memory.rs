//! A bound on memory that many requests share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is handed out at once.
const UNIT: u64 = 1024;

/// Less than this is not counted.
const SMALL: u64 = 64 * 1024;

/// Memory that is handed out in shares.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    units: Arc<Semaphore>,
    /// The right to wait for more while holding some.
    turn: Arc<Semaphore>,
    /// How many units there are in all.
    total: u32,
    patience: Duration,
}

/// A share of it, until dropped.
pub(crate) type Share = OwnedSemaphorePermit;

/// A share was not to be had in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl Memory {
    /// So many bytes, for which a request waits at most `patience`.
    pub(crate) fn new(bytes: u64, patience: Duration) -> Self {
        let total = units(bytes).max(1);
        Self {
            units: Arc::new(Semaphore::new(total as usize)),
            turn: Arc::new(Semaphore::new(1)),
            total,
            patience,
        }
    }

    /// A share of `bytes`. What needs more than there is gets all there is, alone; what is small goes
    /// without.
    pub(crate) async fn reserve(&self, bytes: u64) -> Result<Option<Share>, NoMemory> {
        let mut share = self.growing();
        share.cover(bytes).await?;
        Ok(share.held)
    }

    /// A share that is nothing yet and grows with what is to be held.
    pub(crate) fn growing(&self) -> Growing {
        Growing {
            memory: self.clone(),
            held: None,
        }
    }
}

/// A share for something whose size shows only as it comes.
///
/// Whoever holds a part and waits for more keeps others from theirs. So only one at a time may: the next
/// that would have to wait is refused at once, and what it held is free. That one comes to its end
/// then, whatever the others do, and no two wait for each other.
#[derive(Debug)]
pub(crate) struct Growing {
    memory: Memory,
    held: Option<Share>,
}

impl Growing {
    /// Grows until it is as large as a share of `bytes`. It never shrinks.
    pub(crate) async fn cover(&mut self, bytes: u64) -> Result<(), NoMemory> {
        let more = self.missing(bytes);
        if more == 0 {
            return Ok(());
        }
        let units = Arc::clone(&self.memory.units);
        let share = match units.try_acquire_many_owned(more) {
            Ok(share) => share,
            Err(_) => self.wait(more).await?,
        };
        match &mut self.held {
            Some(held) => held.merge(share),
            held => *held = Some(share),
        }
        Ok(())
    }

    fn missing(&self, bytes: u64) -> u32 {
        if bytes <= SMALL {
            return 0;
        }
        let held = self.held.as_ref().map_or(0, Share::num_permits);
        let wanted = units(bytes).min(self.memory.total);
        wanted.saturating_sub(u32::try_from(held).unwrap_or(u32::MAX))
    }

    async fn wait(&self, more: u32) -> Result<Share, NoMemory> {
        let memory = &self.memory;
        let _turn = match self.held {
            Some(_) => Some(memory.turn.try_acquire().map_err(|_| NoMemory)?),
            None => None,
        };
        let share = Arc::clone(&memory.units).acquire_many_owned(more);
        let share = tokio::time::timeout(memory.patience, share).await;
        share.map_err(|_| NoMemory)?.map_err(|_| NoMemory)
    }
}

fn units(bytes: u64) -> u32 {
    let most = u64::from(u32::MAX).min(Semaphore::MAX_PERMITS as u64);
    u32::try_from(bytes.div_ceil(UNIT).min(most)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn shares_beyond_the_whole_wait_and_are_refused_in_the_end() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let first = memory.reserve(700 * 1024).await.unwrap();
        assert_eq!(memory.reserve(700 * 1024).await.unwrap_err(), NoMemory);
        drop(first);
        memory.reserve(700 * 1024).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_needs_more_than_there_is_gets_all_of_it() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let all = memory.reserve(u64::MAX).await.unwrap();
        assert_eq!(memory.reserve(SMALL + 1).await.unwrap_err(), NoMemory);
        assert!(memory.reserve(SMALL).await.unwrap().is_none());
        drop(all);
        memory.reserve(SMALL + 1).await.unwrap();
    }
    #[tokio::test(start_paused = true)]
    async fn a_share_that_grows_beyond_all_there_is_has_all_of_it() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let mut growing = memory.growing();
        for bytes in [SMALL, 100 * 1024, 100 * 1024, 1000 * 1024, u64::MAX, 1] {
            growing.cover(bytes).await.unwrap();
        }
        assert_eq!(memory.units.available_permits(), 0);
        drop(growing);
        memory.reserve(1024 * 1024).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_grows_by_what_it_lacks() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let mut growing = memory.growing();
        growing.cover(SMALL).await.unwrap();
        assert_eq!(memory.units.available_permits(), 1024);
        for kib in [100, 600, 300] {
            growing.cover(kib * 1024).await.unwrap();
        }
        assert_eq!(memory.units.available_permits(), 1024 - 600);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_grow_into_each_other_one_is_refused_at_once() {
        let memory = Memory::new(1024 * 1024, Duration::MAX);
        let (mut first, mut second) = (memory.growing(), memory.growing());
        first.cover(600 * 1024).await.unwrap();
        second.cover(400 * 1024).await.unwrap();
        let first = async {
            first.cover(u64::MAX).await.unwrap();
            first
        };
        let second = async move { second.cover(u64::MAX).await.unwrap_err() };
        // Nobody's patience ever ends here.
        let (first, refused) = tokio::join!(first, second);
        assert_eq!(refused, NoMemory);
        drop(first);
        memory.reserve(u64::MAX).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_gave_up_waiting_leaves_the_turn_to_others() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let _rest = memory.reserve(800 * 1024).await.unwrap();
        let mut growing = memory.growing();
        growing.cover(100 * 1024).await.unwrap();
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            assert_eq!(growing.cover(u64::MAX).await, Err(NoMemory));
            assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
        }
    }
}
