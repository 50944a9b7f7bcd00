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
            total,
            patience,
        }
    }

    /// A share of `bytes`. What needs more than there is gets all there is, alone; what is small goes
    /// without.
    pub(crate) async fn reserve(&self, bytes: u64) -> Result<Option<Share>, NoMemory> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let share = Arc::clone(&self.units).acquire_many_owned(units(bytes).min(self.total));
        let share = tokio::time::timeout(self.patience, share).await;
        Ok(Some(share.map_err(|_| NoMemory)?.map_err(|_| NoMemory)?))
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
}
