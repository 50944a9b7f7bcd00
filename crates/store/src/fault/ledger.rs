//! A ledger in trouble.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Faults, InjectedFault, scheduled};
use crate::ledger::{ChangeSet, EndSession, Ledger, LedgerError, OffsetCommit};
use crate::records::{Epoch, MediaId, NewSession, Resource, Session, SessionId, Timestamp};
use crate::vault::Space;

/// A [`Ledger`] whose calls fail on schedule.
pub struct FaultyLedger {
    inner: Arc<dyn Ledger>,
    faults: Arc<Faults>,
}

impl FaultyLedger {
    /// Puts a schedule in front of a ledger.
    pub fn new(inner: Arc<dyn Ledger>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }

    async fn change<T>(
        &self,
        name: &'static str,
        change: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        match self.faults.next(name).await {
            None | Some(InjectedFault::Slow(_)) => change.await,
            Some(InjectedFault::Fault | InjectedFault::Torn | InjectedFault::Panic) => {
                Err(LedgerError::Fault(scheduled()))
            }
            Some(InjectedFault::NoSpace) => Err(LedgerError::NoSpace),
            Some(InjectedFault::Lost) => {
                change.await?;
                Err(LedgerError::Fault(scheduled()))
            }
        }
    }

    async fn read<T>(
        &self,
        name: &'static str,
        read: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        match self.faults.next(name).await {
            None | Some(InjectedFault::NoSpace | InjectedFault::Slow(_)) => read.await,
            Some(InjectedFault::Fault | InjectedFault::Torn | InjectedFault::Panic) => {
                Err(LedgerError::Fault(scheduled()))
            }
            Some(InjectedFault::Lost) => {
                read.await?;
                Err(LedgerError::Fault(scheduled()))
            }
        }
    }
}

impl fmt::Debug for FaultyLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyLedger")
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Ledger for FaultyLedger {
    async fn start(&self, session: NewSession) -> Result<(), LedgerError> {
        self.change("start", self.inner.start(session)).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.read("session", self.inner.session(id)).await
    }

    async fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.read("lease", self.inner.lease(id)).await
    }

    async fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        advance: OffsetCommit,
    ) -> Result<(), LedgerError> {
        self.change("advance", self.inner.commit_offset(id, epoch, advance))
            .await
    }

    async fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> Result<(), LedgerError> {
        self.change("end", self.inner.end(id, epoch, end)).await
    }

    async fn apply(&self, changes: ChangeSet) -> Result<(), LedgerError> {
        self.change("apply", self.inner.apply(changes)).await
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        self.read("resource", self.inner.resource(collection, id))
            .await
    }

    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        self.read("resources", self.inner.resources(collection, after, limit))
            .await
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        self.read("small_media", self.inner.small_media(id)).await
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>, LedgerError> {
        self.read("finishing", self.inner.finishing(after, limit))
            .await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        self.change("expire", self.inner.expire(now, limit)).await
    }

    async fn garbage(
        &self,
        after: Option<MediaId>,
        limit: usize,
    ) -> Result<Vec<MediaId>, LedgerError> {
        self.read("garbage", self.inner.garbage(after, limit)).await
    }

    async fn forget_garbage(&self, ids: &[MediaId]) -> Result<(), LedgerError> {
        self.change("forget_garbage", self.inner.forget_garbage(ids))
            .await
    }

    async fn unknown_media(&self, ids: &[MediaId]) -> Result<Vec<MediaId>, LedgerError> {
        self.read("unknown_media", self.inner.unknown_media(ids))
            .await
    }

    async fn space(&self) -> Result<Space, LedgerError> {
        self.read("space", self.inner.space()).await
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.read("check", self.inner.check()).await
    }
}
