//! Locks by key, inside one process.
//!
//! [`KeyedMutex`] serialises calls that change the same resource. The ledger refuses a change that
//! is based on an outdated version, and the handler is asked again. If many calls change one
//! resource, most of them would be refused most of the time, so they queue here instead. Between
//! processes the ledger still decides.
//!
//! [`SessionGuards`] admits one writer per session. The leases of the ledger fence writers of other
//! processes. Inside one process, a newer request asks the older request to stop, waits until the
//! older request has committed its durable bytes, and continues from there. A request that comes
//! back after its connection died therefore finds every byte that had arrived. docs/adr/0003
//! records the decision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use windlass_store::SessionId;

type Queue = Arc<tokio::sync::Mutex<()>>;

/// One mutex for each key. Unused ones are removed.
#[derive(Debug, Default)]
pub struct KeyedMutex {
    queues: Mutex<HashMap<String, Queue>>,
}

/// The lock of a key, until dropped.
#[derive(Debug)]
pub struct KeyedGuard {
    // Fields drop in this order: the guard's reference to the queue must be gone when the slot
    // counts the references.
    _guard: OwnedMutexGuard<()>,
    _slot: QueueSlot,
}

/// The lock was not free within the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl KeyedMutex {
    /// Waits for the lock of `name`, at most `timeout`. Waiters are served in order.
    ///
    /// # Errors
    /// [`Elapsed`] after `timeout`.
    ///
    /// # Cancel safety
    /// This method is cancel safe. A dropped call loses only its turn.
    pub async fn take(
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

/// A holder or waiter of a key's mutex.
#[derive(Debug)]
struct QueueSlot {
    mutex: Arc<KeyedMutex>,
    queue: Queue,
    name: String,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut queues = self.mutex.queues();
        // One reference is in the map and one is here. New references are made under the same lock.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.name);
        }
    }
}

/// The guards of sessions, both held and awaited.
#[derive(Debug, Default)]
pub struct SessionGuards {
    entries: Mutex<HashMap<SessionId, LockEntry>>,
}

#[derive(Debug)]
struct LockEntry {
    /// Held by the writer. Newer requests wait for it.
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Token of the newest request. The next request cancels and replaces it.
    newest: CancellationToken,
    /// Number of requests that hold the lock or wait for it.
    waiters: usize,
}

/// The lock of a session in this process, until dropped.
#[derive(Debug)]
pub struct SessionGuard {
    superseded: CancellationToken,
    // Fields drop in this order: the entry must outlive the guard of its lock, or the next request
    // would make a second lock for the session.
    _guard: OwnedMutexGuard<()>,
    _waiter: Waiter,
}

/// Why a session could not be locked.
#[derive(Debug, PartialEq, Eq)]
pub enum LockError {
    /// A newer request came while this one waited.
    Superseded,
    /// The older writer did not stop in time, for example on a stuck disk.
    Stuck,
}

impl SessionGuards {
    /// Asks the session's writer to stop, waits for it at most `timeout`, and locks the session.
    ///
    /// # Errors
    /// [`LockError::Stuck`] after `timeout`, [`LockError::Superseded`] if a newer call has come
    /// meanwhile.
    ///
    /// # Cancel safety
    /// If the future is dropped, the writer has been asked to stop all the same.
    pub async fn take_over(
        self: &Arc<Self>,
        id: SessionId,
        timeout: Duration,
    ) -> Result<SessionGuard, LockError> {
        let (waiter, lock, superseded) = self.enqueue(id);
        let guard = tokio::time::timeout(timeout, lock.lock_owned())
            .await
            .map_err(|_| LockError::Stuck)?;
        // Only the newest waiter may continue: an older waiter would be stopped at once.
        if superseded.is_cancelled() {
            return Err(LockError::Superseded);
        }
        Ok(SessionGuard {
            superseded,
            _guard: guard,
            _waiter: waiter,
        })
    }

    /// Whether a request writes to the session or waits for it.
    pub fn has_writer(&self, id: SessionId) -> bool {
        self.lock_of(id).is_some()
    }

    /// Waits until no request writes to the session or waits for it. Stops no writer. Returns after
    /// `timeout` at the latest, and does not say which of both has happened.
    pub async fn wait_for_writers(&self, id: SessionId, timeout: Duration) {
        let until_left_alone = async {
            while let Some(lock) = self.lock_of(id) {
                drop(lock.lock_owned().await);
                // A writer releases the lock before its entry. Lets it remove the entry, instead of
                // taking the free lock again and again.
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
        // Under the lock of all entries, so that two requests agree about which of them is newer.
        let mine = CancellationToken::new();
        std::mem::replace(&mut entry.newest, mine.clone()).cancel();
        entry.waiters += 1;
        let waiter = Waiter {
            guards: Arc::clone(self),
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
    pub async fn superseded(&self) {
        self.superseded.cancelled().await;
    }
}

/// Counts its owner in [`LockEntry::waiters`].
#[derive(Debug)]
struct Waiter {
    guards: Arc<SessionGuards>,
    id: SessionId,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut entries = self.guards.entries();
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
    async fn lock_of_a_key_is_exclusive_and_independent_of_other_keys() {
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
    async fn newer_request_stops_the_older_one_and_waits_for_its_guard() {
        let guards = Arc::new(SessionGuards::default());
        let older = guards.take_over(ID, TIMEOUT).await.unwrap();
        let newer = tokio::spawn({
            let guards = Arc::clone(&guards);
            async move { guards.take_over(ID, TIMEOUT).await }
        });
        older.superseded().await;
        assert!(!newer.is_finished());
        drop(older);
        newer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn only_the_newest_waiter_gets_the_session() {
        let guards = Arc::new(SessionGuards::default());
        let first = guards.take_over(ID, TIMEOUT).await.unwrap();
        let mut second = Box::pin(guards.take_over(ID, TIMEOUT));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        let mut third = Box::pin(guards.take_over(ID, TIMEOUT));
        assert!(futures_util::poll!(third.as_mut()).is_pending());
        drop(first);
        assert_eq!(second.await.unwrap_err(), LockError::Superseded);
        third.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_stuck_writer_ends_after_the_timeout() {
        let guards = Arc::new(SessionGuards::default());
        let _stuck = guards.take_over(ID, TIMEOUT).await.unwrap();
        let newer = guards.take_over(ID, TIMEOUT).await;
        assert_eq!(newer.unwrap_err(), LockError::Stuck);
    }

    #[tokio::test]
    async fn unused_session_has_no_entry() {
        let guards = Arc::new(SessionGuards::default());
        drop(guards.take_over(ID, TIMEOUT).await.unwrap());
        assert!(guards.entries().is_empty());
    }
}
