//! Taking turns: calls that would change the same come one after the other.
//!
//! The ledger refuses a change that rests on an outdated version, and the handler is asked again. Where
//! many calls meet on one resource, most of them would be refused most of the time. Inside a process
//! they queue here instead. Between processes, the ledger still decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

type Queue = Arc<tokio::sync::Mutex<()>>;

/// The names that are being changed just now.
#[derive(Debug, Default)]
pub(crate) struct KeyedMutex {
    queues: Mutex<HashMap<String, Queue>>,
}

/// The turn of a name, until dropped.
#[derive(Debug)]
pub(crate) struct KeyedGuard {
    // Dropped before the place, so that the last one finds the queue empty.
    _guard: OwnedMutexGuard<()>,
    _slot: QueueSlot,
}

/// The turn did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

impl KeyedMutex {
    /// Waits for the turn of a name, at most `timeout`.
    pub(crate) async fn take(
        self: &Arc<Self>,
        name: String,
        timeout: Duration,
    ) -> Result<KeyedGuard, Elapsed> {
        let slot = QueueSlot {
            mutex: Arc::clone(self),
            queue: Arc::clone(self.queues().entry(name.clone()).or_default()),
            name,
        };
        let guard = Arc::clone(&slot.queue).lock_owned();
        let guard = tokio::time::timeout(timeout, guard).await;
        Ok(KeyedGuard {
            _guard: guard.map_err(|_| Elapsed)?,
            _slot: slot,
        })
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who has or waits for a turn.
#[derive(Debug)]
struct QueueSlot {
    mutex: Arc<KeyedMutex>,
    queue: Queue,
    name: String,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut queues = self.mutex.queues();
        // One is in the map and one here: nobody else is left.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_name_has_one_turn_at_a_time_and_others_are_not_in_its_way() {
        let mutex = Arc::new(KeyedMutex::default());
        let first = mutex.take("a".to_owned(), TIMEOUT).await.unwrap();
        let other = mutex.take("b".to_owned(), TIMEOUT).await.unwrap();
        let refused = mutex.take("a".to_owned(), TIMEOUT).await;
        assert_eq!(refused.unwrap_err(), Elapsed);
        drop(first);
        let second = mutex.take("a".to_owned(), TIMEOUT).await.unwrap();
        drop((second, other));
        assert!(mutex.queues().is_empty(), "nothing is left behind");
    }
}
