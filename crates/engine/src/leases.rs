//! The leases of the sessions on which requests of this process work, for a ledger that several
//! processes can have open.
//!
//! While a request works on a session, its lease is renewed now and then. So no other process takes
//! a long request for one that hangs. A request that ends without a commit releases its lease. If
//! another process asks for a session, the request that works on it commits what has arrived, and
//! the other process continues from there.
//!
//! A ledger that only one process can open needs none of this, and nothing is kept for it here.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_store::{Lease, Leased, Ledger, LedgerError, SessionId, Takeover};

use crate::completion::Completion;
use crate::engine::{Engine, WeakEngine};
use crate::error::Error;
use crate::lifecycle::Lifecycle;

/// How long another process is asked for a session, before its lease is taken if that process does
/// not answer.
const MAX_ASKING: Duration = Duration::from_millis(1500);

/// Pause between two questions for a session.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Time between two renewals of all leases.
const RENEW_INTERVAL: Duration = Duration::from_secs(15);

/// Time between two renewals of a lease for which another process asks.
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);

/// How long a session that another process finishes is left to it, since that process has last
/// changed it or renewed its lease.
pub const FINISH_IDLE: Duration = Duration::from_secs(60);

/// The leases of running requests.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    has_ended: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// The leases of requests that work on their sessions.
    held: HashMap<SessionId, Lease>,
    /// The leases of requests that have ended without a commit.
    ended: Vec<(SessionId, Lease)>,
}

/// The lease of one request, until dropped.
#[derive(Debug)]
pub(crate) struct HeldLease {
    id: SessionId,
    lease: Lease,
    /// Where the lease is kept. `None` if the ledger knows that the request works no longer on the
    /// session, or need not know it.
    kept: Option<Arc<Leases>>,
}

impl HeldLease {
    pub(crate) fn new(leases: Option<&Arc<Leases>>, id: SessionId, lease: Lease) -> Self {
        if let Some(leases) = leases {
            leases.table().held.insert(id, lease);
        }
        Self {
            id,
            lease,
            kept: leases.cloned(),
        }
    }

    /// Returns the lease.
    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }

    /// Records that the ledger knows that the request works no longer on the session.
    pub(crate) fn set_released(&mut self) {
        if let Some(leases) = self.kept.take() {
            leases.table().forget(self.id, self.lease);
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(leases) = self.kept.take() {
            let mut table = leases.table();
            table.forget(self.id, self.lease);
            table.ended.push((self.id, self.lease));
            drop(table);
            leases.has_ended.notify_one();
        }
    }
}

impl Table {
    fn forget(&mut self, id: SessionId, lease: Lease) {
        if self.held.get(&id) == Some(&lease) {
            self.held.remove(&id);
        }
    }
}

impl Leases {
    fn held(&self) -> Vec<(SessionId, Lease)> {
        let table = self.table();
        table.held.iter().map(|(id, lease)| (*id, *lease)).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Completion> Engine<C> {
    /// Shares the sessions with other processes that have the ledger open. Renews the leases of
    /// running requests, releases those of requests that have failed, and hands sessions over for
    /// which another process asks. The future ends at once if only this process can have the ledger
    /// open, and never otherwise. It keeps the ledger open, and not the vault.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost. Other processes then wait longer for sessions.
    pub fn share_sessions(&self) -> impl Future<Output = ()> + Send + use<C> {
        let parts = self.parts();
        let sharing = self.leases().map(|leases| Sharing {
            ledger: Arc::clone(&parts.stores.ledger),
            lifecycle: Arc::clone(&parts.lifecycle),
            leases: Arc::clone(leases),
            engine: self.downgrade(),
        });
        async move {
            if let Some(sharing) = sharing {
                tokio::join!(
                    sharing.renew_all(),
                    sharing.release_ended(),
                    sharing.hand_over_all()
                );
            }
        }
    }

    /// Takes a lease of a session. If another process works on it, asks that process to commit what
    /// has arrived there. If it does not answer for [`MAX_ASKING`], takes the lease all the same.
    ///
    /// # Errors
    /// [`Error::Busy`] if the other process works on the session and does not stop in time.
    pub(crate) async fn take_lease(&self, id: SessionId) -> Result<Option<Leased>, Error> {
        let parts = self.parts();
        let start = Instant::now();
        loop {
            let asked_for = start.elapsed();
            let takeover = if asked_for < MAX_ASKING {
                Takeover::Ask
            } else {
                Takeover::IfIdle(MAX_ASKING)
            };
            match parts.stores.ledger.lease_by(id, takeover).await {
                Err(LedgerError::Held) => {}
                leased => return Ok(leased?),
            }
            if asked_for >= parts.takeover_timeout {
                return Err(Error::Busy);
            }
            tokio::time::sleep(ASK_INTERVAL).await;
        }
    }

    /// Waits until the request that works on a session has committed what has arrived, and keeps
    /// other requests of this process away until another process has ended the session.
    async fn give_up(&self, id: SessionId) {
        let timeout = self.parts().takeover_timeout;
        let has_writer = self.guards().has_writer(id);
        let Ok(guard) = self.guards().take_over(id, timeout).await else {
            // A newer request of this process has the session, or the writer is stuck.
            return;
        };
        drop(self.cache().take(id));
        if has_writer {
            // The older request waits for this guard, and then looks for the final reply.
            tokio::select! {
                () = guard.superseded() => {}
                () = self.parts().lifecycle.drain_now.cancelled() => {}
                _ = tokio::time::timeout(timeout, self.until_ended(id)) => {}
            }
        }
    }
}

/// What it takes to share sessions with other processes.
struct Sharing<C: Completion> {
    ledger: Arc<dyn Ledger>,
    lifecycle: Arc<Lifecycle>,
    leases: Arc<Leases>,
    engine: WeakEngine<C>,
}

impl<C: Completion> Sharing<C> {
    async fn renew_all(&self) {
        loop {
            tokio::time::sleep(RENEW_INTERVAL).await;
            self.renew(&self.leases.held()).await;
        }
    }

    async fn renew(&self, leases: &[(SessionId, Lease)]) {
        if !leases.is_empty()
            && let Err(error) = self.ledger.renew(leases).await
        {
            self.lifecycle.examine_ledger(&error);
            tracing::warn!(%error, "leases of running uploads were not renewed");
        }
    }

    async fn release_ended(&self) {
        loop {
            self.leases.has_ended.notified().await;
            let ended = mem::take(&mut self.leases.table().ended);
            // If this fails, another process gets the session after `MAX_ASKING`.
            if let Err(error) = self.ledger.release(&ended).await {
                self.lifecycle.examine_ledger(&error);
                tracing::warn!(%error, "leases of uploads that have ended were not released");
            }
        }
    }

    async fn hand_over_all(&self) {
        let mut running: FuturesUnordered<BoxFuture<'_, SessionId>> = FuturesUnordered::new();
        let mut ids = HashSet::new();
        loop {
            tokio::select! {
                wanted = self.ledger.takeover_requests() => for id in wanted {
                    if ids.insert(id) {
                        let work = AssertUnwindSafe(self.hand_over(id)).catch_unwind();
                        running.push(work.map(move |_| id).boxed());
                    }
                },
                Some(id) = running.next() => {
                    ids.remove(&id);
                }
            }
        }
    }

    /// Lets another process continue a session: the request that works on it here commits what has
    /// arrived, and releases it. Meanwhile tells the other process again and again that a request
    /// works on it.
    async fn hand_over(&self, id: SessionId) {
        let Some(engine) = self.engine.upgrade() else {
            return;
        };
        let mut giving_up = pin!(engine.give_up(id));
        loop {
            tokio::select! {
                biased;
                () = &mut giving_up => return,
                () = tokio::time::sleep(ANSWER_INTERVAL) => {
                    let held = self.leases.table().held.get(&id).copied();
                    if let Some(lease) = held {
                        self.renew(&[(id, lease)]).await;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{Epoch, LeaseId};

    use super::*;

    const ID: SessionId = SessionId::from_bytes([1; 32]);

    fn lease(n: u8) -> Lease {
        Lease {
            id: LeaseId::from_bytes([n; 16]),
            epoch: Epoch(n.into()),
        }
    }

    #[test]
    fn dropped_lease_is_to_be_released_unless_it_is() {
        let leases = Arc::new(Leases::default());
        let mut held = HeldLease::new(Some(&leases), ID, lease(1));
        assert_eq!(leases.held(), [(ID, lease(1))]);
        held.set_released();
        drop(held);
        assert!(leases.held().is_empty() && leases.table().ended.is_empty());
        drop(HeldLease::new(Some(&leases), ID, lease(2)));
        assert!(leases.held().is_empty());
        assert_eq!(leases.table().ended, [(ID, lease(2))]);
    }

    #[test]
    fn lease_of_a_newer_request_stays_held() {
        let leases = Arc::new(Leases::default());
        let older = HeldLease::new(Some(&leases), ID, lease(1));
        let newer = HeldLease::new(Some(&leases), ID, lease(2));
        drop(older);
        assert_eq!(leases.held(), [(ID, lease(2))]);
        drop(newer);
        assert!(leases.held().is_empty());
    }

    #[test]
    fn nothing_is_kept_for_a_ledger_of_one_process() {
        let mut held = HeldLease::new(None, ID, lease(1));
        held.set_released();
        assert_eq!(held.lease(), lease(1));
    }
}
