//! Taking turns: calls that would change the same come one after the other.
//!
//! The ledger refuses a change that rests on an outdated version, and the kind is asked again. Where
//! many calls meet on one resource, most of them would be refused most of the time. Inside a process
//! they queue here instead. Between processes, the ledger still decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

type Queue = Arc<tokio::sync::Mutex<()>>;

/// The names that are being changed just now.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queues: Mutex<HashMap<String, Queue>>,
}

/// The turn of a name, until dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    // Dropped before the place, so that the last one finds the queue empty.
    _guard: OwnedMutexGuard<()>,
    _place: Place,
}

/// The turn did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoTurn;

impl Turns {
    /// Waits for the turn of a name, at most `patience`.
    pub(crate) async fn take(
        self: &Arc<Self>,
        name: String,
        patience: Duration,
    ) -> Result<Turn, NoTurn> {
        let place = Place {
            turns: Arc::clone(self),
            queue: Arc::clone(self.queues().entry(name.clone()).or_default()),
            name,
        };
        let guard = Arc::clone(&place.queue).lock_owned();
        let guard = tokio::time::timeout(patience, guard).await;
        Ok(Turn {
            _guard: guard.map_err(|_| NoTurn)?,
            _place: place,
        })
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who has or waits for a turn.
#[derive(Debug)]
struct Place {
    turns: Arc<Turns>,
    queue: Queue,
    name: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        // One is in the map and one here: nobody else is left.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_name_has_one_turn_at_a_time_and_others_are_not_in_its_way() {
        let turns = Arc::new(Turns::default());
        let first = turns.take("a".to_owned(), PATIENCE).await.unwrap();
        let other = turns.take("b".to_owned(), PATIENCE).await.unwrap();
        let refused = turns.take("a".to_owned(), PATIENCE).await;
        assert_eq!(refused.unwrap_err(), NoTurn);
        drop(first);
        let second = turns.take("a".to_owned(), PATIENCE).await.unwrap();
        drop((second, other));
        assert!(turns.queues().is_empty(), "nothing is left behind");
    }
}
