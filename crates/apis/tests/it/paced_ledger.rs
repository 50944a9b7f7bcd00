//! A ledger whose lookups tests delay, so that calls meet at a chosen point.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;
use windlass_store::{
    ChangeSet, EndSession, Epoch, Ledger, LedgerError, MediaId, NewSession, OffsetCommit, Resource,
    Session, SessionId, Space, Timestamp,
};
use windlass_testkit::wait::PATIENCE;

/// A [`Ledger`] that lets other calls go on after each lookup, and stops one lookup when it is
/// asked to.
pub(crate) struct PacedLedger {
    inner: Arc<dyn Ledger>,
    stop: Mutex<Option<Stop>>,
}

/// The lookup to be stopped.
struct Stop {
    id: String,
    /// Number of lookups before it.
    earlier: usize,
    stopped: Arc<Stopped>,
}

/// A lookup that was stopped, or will be.
#[derive(Default)]
pub(crate) struct Stopped {
    reached: Notify,
    released: Notify,
}

impl Stopped {
    /// Waits until the lookup is reached.
    pub(crate) async fn reached(&self) {
        let reached = tokio::time::timeout(PATIENCE, self.reached.notified());
        reached.await.expect("the lookup is made");
    }

    /// Lets the lookup go on.
    pub(crate) fn release(&self) {
        self.released.notify_one();
    }
}

impl PacedLedger {
    pub(crate) fn new(inner: Arc<dyn Ledger>) -> Self {
        Self {
            inner,
            stop: Mutex::default(),
        }
    }

    /// Stops the next lookup of a resource of this id before it begins, or the next list of a
    /// collection of this name when it has been read.
    pub(crate) fn stop_at(&self, id: &str) -> Arc<Stopped> {
        self.stop_after(0, id)
    }

    /// As [`PacedLedger::stop_at`], after this number of earlier lookups.
    pub(crate) fn stop_after(&self, earlier: usize, id: &str) -> Arc<Stopped> {
        let stopped = Arc::new(Stopped::default());
        *self.stop.lock().expect("no test panics with it") = Some(Stop {
            id: id.to_owned(),
            earlier,
            stopped: Arc::clone(&stopped),
        });
        stopped
    }

    /// Waits until a lookup that is to be stopped may go on.
    async fn pause(&self, id: &str) {
        if let Some(stopped) = self.stopped(id) {
            stopped.reached.notify_one();
            stopped.released.notified().await;
        }
    }

    fn stopped(&self, id: &str) -> Option<Arc<Stopped>> {
        let mut stop = self.stop.lock().expect("no test panics with it");
        let next = stop.as_mut().filter(|stop| stop.id == id)?;
        if next.earlier > 0 {
            next.earlier -= 1;
            return None;
        }
        stop.take().map(|stop| stop.stopped)
    }
}

#[async_trait]
impl Ledger for PacedLedger {
    async fn start(&self, session: NewSession) -> Result<(), LedgerError> {
        self.inner.start(session).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.inner.session(id).await
    }

    async fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.inner.lease(id).await
    }

    async fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        advance: OffsetCommit,
    ) -> Result<(), LedgerError> {
        self.inner.commit_offset(id, epoch, advance).await
    }

    async fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> Result<(), LedgerError> {
        self.inner.end(id, epoch, end).await
    }

    async fn apply(&self, changes: ChangeSet) -> Result<(), LedgerError> {
        self.inner.apply(changes).await
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        self.pause(id).await;
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
        self.pause(collection).await;
        resources
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        self.inner.small_media(id).await
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>, LedgerError> {
        self.inner.finishing(after, limit).await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        self.inner.expire(now, limit).await
    }

    async fn garbage(
        &self,
        after: Option<MediaId>,
        limit: usize,
    ) -> Result<Vec<MediaId>, LedgerError> {
        self.inner.garbage(after, limit).await
    }

    async fn forget_garbage(&self, ids: &[MediaId]) -> Result<(), LedgerError> {
        self.inner.forget_garbage(ids).await
    }

    async fn unknown_media(&self, ids: &[MediaId]) -> Result<Vec<MediaId>, LedgerError> {
        self.inner.unknown_media(ids).await
    }

    async fn space(&self) -> Result<Space, LedgerError> {
        self.inner.space().await
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.inner.check().await
    }
}
