//! Sessions that several processes share over one ledger: who works on a session, and how another
//! process gets it.
//!
//! While a request works on a session, its lease is renewed now and then. So no other process takes
//! a long request for one that hangs. A request that ends without a commit releases its lease. If
//! another process asks for a session, the request that works on it commits what has arrived, and
//! the other process continues from there.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::Instant;
use windlass_store::{Lease, Leased, Ledger, LedgerError, SessionId, Takeover};

use crate::completion::Completion;
use crate::engine::{Engine, WeakEngine};
use crate::error::Error;
use crate::leases::Leases;
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
            let ended = self.leases.ended().await;
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
                    if let Some(lease) = self.leases.of(id) {
                        self.renew(&[(id, lease)]).await;
                    }
                }
            }
        }
    }
}
