use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

use crate::change_set::ChangeSet;
use crate::ledger::{EndSession, Ledger, LedgerError, OffsetCommit, Takeover};
use crate::records::{
    Garbage, GarbageId, Lease, Leased, MediaId, NewSession, OwnerQuotas, Quota, Resource,
    Retention, Session, SessionId, StoredName, Timestamp, Usage,
};
use crate::session_list::{SessionPage, SessionQuery};
use crate::vault::Space;

/// How long a test waits for a call before it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A [`Ledger`] that yields to other calls after each lookup of a resource, and stops one call on
/// request. Concurrent calls therefore meet at a chosen point.
pub struct PacedLedger {
    inner: Arc<dyn Ledger>,
    stop: Mutex<Option<Stop>>,
}

/// The call to be stopped.
struct Stop {
    call: Call,
    /// Number of such calls before it.
    earlier: usize,
    stopped: Arc<Stopped>,
}

/// Calls that can be stopped.
#[derive(PartialEq)]
enum Call {
    /// Of a resource with this id, or of a collection with this name.
    Lookup(String),
    Lease,
}

/// A call that was stopped, or will be.
#[derive(Debug, Default)]
pub struct Stopped {
    reached: Notify,
    released: Notify,
}

impl Stopped {
    /// Runs `calls`, which include the call to be stopped. Runs `meanwhile` while that call is
    /// stopped, and then releases the call. Returns the outputs of both.
    ///
    /// # Panics
    /// If the call is not made within two minutes.
    pub async fn during<T, M>(
        &self,
        calls: impl Future<Output = T>,
        meanwhile: impl Future<Output = M>,
    ) -> (T, M) {
        let meanwhile = async {
            let reached = tokio::time::timeout(PATIENCE, self.reached.notified());
            reached.await.expect("the call is made");
            let done = meanwhile.await;
            self.released.notify_one();
            done
        };
        tokio::join!(calls, meanwhile)
    }
}

impl PacedLedger {
    /// Wraps a ledger.
    pub fn new(inner: Arc<dyn Ledger>) -> Self {
        Self {
            inner,
            stop: Mutex::default(),
        }
    }

    /// Stops the next lookup of a resource of this id before it begins, or the next list of a
    /// collection of this name when it has been read. It replaces a stop that was not reached.
    pub fn stop_at(&self, id: &str) -> Arc<Stopped> {
        self.stop_after(0, id)
    }

    /// As [`PacedLedger::stop_at`], after this number of earlier lookups.
    pub fn stop_after(&self, earlier: usize, id: &str) -> Arc<Stopped> {
        self.stop(Call::Lookup(id.to_owned()), earlier)
    }

    /// Stops the next lease when it has been taken: its number is given out, and the caller does
    /// not know it yet. It replaces a stop that was not reached.
    pub fn stop_at_lease(&self) -> Arc<Stopped> {
        self.stop(Call::Lease, 0)
    }

    fn stop(&self, call: Call, earlier: usize) -> Arc<Stopped> {
        let stopped = Arc::new(Stopped::default());
        *self.next_stop() = Some(Stop {
            call,
            earlier,
            stopped: Arc::clone(&stopped),
        });
        stopped
    }

    /// If this call is to be stopped, waits until it is released.
    async fn pause(&self, call: Call) {
        if let Some(stopped) = self.stopped(&call) {
            stopped.reached.notify_one();
            stopped.released.notified().await;
        }
    }

    fn stopped(&self, call: &Call) -> Option<Arc<Stopped>> {
        let mut stop = self.next_stop();
        let next = stop.as_mut().filter(|stop| stop.call == *call)?;
        if next.earlier > 0 {
            next.earlier -= 1;
            return None;
        }
        stop.take().map(|stop| stop.stopped)
    }

    fn next_stop(&self) -> MutexGuard<'_, Option<Stop>> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PacedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacedLedger")
    }
}

#[async_trait]
impl Ledger for PacedLedger {
    fn opening(&self) -> Option<u64> {
        self.inner.opening()
    }

    fn deadline(&self, after: Duration) -> Option<Timestamp> {
        self.inner.deadline(after)
    }

    async fn start_within(&self, session: NewSession, quota: Quota) -> Result<Lease, LedgerError> {
        self.inner.start_within(session, quota).await
    }

    async fn usage(&self, owner: &str) -> Result<Usage, LedgerError> {
        self.inner.usage(owner).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.inner.session(id).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, LedgerError> {
        self.inner.sessions(query).await
    }

    async fn lease_by(
        &self,
        id: SessionId,
        takeover: Takeover,
    ) -> Result<Option<Leased>, LedgerError> {
        let leased = self.inner.lease_by(id, takeover).await;
        self.pause(Call::Lease).await;
        leased
    }

    async fn renew(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        self.inner.renew(leases).await
    }

    async fn release(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        self.inner.release(leases).await
    }

    async fn takeover_requests(&self) -> Vec<SessionId> {
        self.inner.takeover_requests().await
    }

    async fn commit_offset_within(
        &self,
        id: SessionId,
        lease: Lease,
        advance: OffsetCommit,
        quota: Quota,
    ) -> Result<(), LedgerError> {
        self.inner
            .commit_offset_within(id, lease, advance, quota)
            .await
    }

    async fn end(&self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError> {
        self.inner.end(id, lease, end).await
    }

    async fn apply_within(
        &self,
        changes: ChangeSet,
        quotas: OwnerQuotas,
    ) -> Result<(), LedgerError> {
        self.inner.apply_within(changes, quotas).await
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        self.pause(Call::Lookup(id.to_owned())).await;
        let resource = self.inner.resource(collection, id).await;
        tokio::task::yield_now().await;
        resource
    }

    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        let resources = self.inner.resources(collection, after, limit).await;
        self.pause(Call::Lookup(collection.to_owned())).await;
        resources
    }

    async fn fetch(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<Resource>>, LedgerError> {
        for (_, id) in keys {
            self.pause(Call::Lookup((*id).to_owned())).await;
        }
        let found = self.inner.fetch(keys).await;
        tokio::task::yield_now().await;
        found
    }

    async fn claim(
        &self,
        collection: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        self.inner.claim(collection, now, until, limit).await
    }

    async fn next_due(&self, collection: &str) -> Result<Option<Timestamp>, LedgerError> {
        self.inner.next_due(collection).await
    }

    async fn count_due(&self, collection: &str) -> Result<u64, LedgerError> {
        self.inner.count_due(collection).await
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        self.inner.small_media(id).await
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
        idle: Duration,
    ) -> Result<Vec<SessionId>, LedgerError> {
        self.inner.finishing(after, limit, idle).await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        self.inner.expire(now, limit).await
    }

    fn retention(&self) -> Retention {
        self.inner.retention()
    }

    async fn garbage(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
    ) -> Result<Vec<Garbage>, LedgerError> {
        self.inner.garbage(after, limit).await
    }

    async fn deleted(
        &self,
        entries: &[GarbageId],
        again_after: Option<Duration>,
    ) -> Result<(), LedgerError> {
        self.inner.deleted(entries, again_after).await
    }

    async fn unknown_names(&self, names: &[StoredName]) -> Result<Vec<StoredName>, LedgerError> {
        self.inner.unknown_names(names).await
    }

    async fn acquire_task(&self, name: &str, term: Duration) -> Result<bool, LedgerError> {
        self.inner.acquire_task(name, term).await
    }

    async fn space(&self) -> Result<Option<Space>, LedgerError> {
        self.inner.space().await
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.inner.check().await
    }
}
