//! Locks by key, inside one process.
//!
//! [`KeyedMutex`] serialises calls that change the same resource. The ledger refuses a change that
//! is based on an outdated version, and the handler is asked again; where many calls meet on one
//! resource most of them would be refused most of the time, so they queue here instead. Between
//! processes the ledger still decides.
//!
//! [`Leases`] admits one writer per session. The ledger's epoch fences writers of other processes.
//! Inside one process a newer request asks the older one to stop, waits until that has committed
//! what is durable, and continues from there. A request that comes back after its connection died
//! therefore finds every byte that had arrived. docs/adr/0003 records the decision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use windlass_store::SessionId;

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

/// The sessions that are being written to just now.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    entries: Mutex<HashMap<SessionId, LockEntry>>,
}

#[derive(Debug)]
struct LockEntry {
    /// Held by the writer, queued for by those who come after it.
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Asks the newest waiter to give up; replaced by each waiter.
    newest: CancellationToken,
    /// How many hold or wait for the turn.
    waiters: usize,
}

/// The right to write to a session in this process, until dropped.
#[derive(Debug)]
pub(crate) struct SessionGuard {
    superseded: CancellationToken,
    // Dropped before the waiter, so that the entry outlives every guard of it.
    _guard: OwnedMutexGuard<()>,
    _waiter: Waiter,
}

/// Why a turn was not to be had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LockError {
    /// A still newer request came while this one waited.
    Superseded,
    /// The older writer did not stop in time, as on a stuck disk.
    Stuck,
}

impl Leases {
    /// Asks the present writer of the session to stop, waits for it at most `timeout`, and takes
    /// its place.
    pub(crate) async fn take_over(
        self: &Arc<Self>,
        id: SessionId,
        timeout: Duration,
    ) -> Result<SessionGuard, LockError> {
        let (waiter, lock, superseded) = self.enqueue(id);
        let guard = tokio::time::timeout(timeout, lock.lock_owned())
            .await
            .map_err(|_| LockError::Stuck)?;
        if superseded.is_cancelled() {
            return Err(LockError::Superseded);
        }
        Ok(SessionGuard {
            superseded,
            _guard: guard,
            _waiter: waiter,
        })
    }

    /// Waits, at most `timeout`, until nobody writes to the session or wants to: the last of them may
    /// have come while others were waited for. Disturbs nobody.
    pub(crate) async fn wait_for_writers(&self, id: SessionId, timeout: Duration) {
        let until_left_alone = async {
            while let Some(lock) = self.lock_of(id) {
                drop(lock.lock_owned().await);
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(timeout, until_left_alone).await.ok();
    }

    fn lock_of(&self, id: SessionId) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.entries().get(&id).map(|entry| Arc::clone(&entry.lock))
    }

    fn enqueue(
        self: &Arc<Self>,
        id: SessionId,
    ) -> (Waiter, Arc<tokio::sync::Mutex<()>>, CancellationToken) {
        let mut entries = self.entries();
        let entry = entries.entry(id).or_insert_with(|| LockEntry {
            lock: Arc::default(),
            newest: CancellationToken::new(),
            waiters: 0,
        });
        let mine = CancellationToken::new();
        std::mem::replace(&mut entry.newest, mine.clone()).cancel();
        entry.waiters += 1;
        let waiter = Waiter {
            leases: Arc::clone(self),
            id,
        };
        (waiter, Arc::clone(&entry.lock), mine)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, LockEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionGuard {
    /// Resolves when a newer request wants the session.
    pub(crate) async fn superseded(&self) {
        self.superseded.cancelled().await;
    }
}

/// Counts its owner among the waiters of a session.
#[derive(Debug)]
struct Waiter {
    leases: Arc<Leases>,
    id: SessionId,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut entries = self.leases.entries();
        if let Some(entry) = entries.get_mut(&self.id) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                entries.remove(&self.id);
            }
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

    const ID: SessionId = SessionId::from_bytes([7; 32]);

    #[tokio::test]
    async fn a_newer_request_stops_the_older_one_and_waits_until_it_is_gone() {
        let leases = Arc::new(Leases::default());
        let older = leases.take_over(ID, TIMEOUT).await.unwrap();
        let newer = tokio::spawn({
            let leases = Arc::clone(&leases);
            async move { leases.take_over(ID, TIMEOUT).await }
        });
        older.superseded().await;
        assert!(!newer.is_finished());
        drop(older);
        newer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn of_those_who_wait_only_the_newest_gets_the_turn() {
        let leases = Arc::new(Leases::default());
        let first = leases.take_over(ID, TIMEOUT).await.unwrap();
        let mut second = Box::pin(leases.take_over(ID, TIMEOUT));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        let mut third = Box::pin(leases.take_over(ID, TIMEOUT));
        assert!(futures_util::poll!(third.as_mut()).is_pending());
        drop(first);
        assert_eq!(second.await.unwrap_err(), LockError::Superseded);
        third.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_does_not_stop_is_waited_for_with_a_limit() {
        let leases = Arc::new(Leases::default());
        let _stuck = leases.take_over(ID, TIMEOUT).await.unwrap();
        let newer = leases.take_over(ID, TIMEOUT).await;
        assert_eq!(newer.unwrap_err(), LockError::Stuck);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_session_that_nobody_writes_to() {
        let leases = Arc::new(Leases::default());
        drop(leases.take_over(ID, TIMEOUT).await.unwrap());
        assert!(leases.entries().is_empty());
    }
}
