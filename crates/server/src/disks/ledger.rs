//! The ledger, with every change held against the free space of its disk.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use windlass_store::{
    ChangeSet, EndSession, Epoch, Ledger, LedgerError, MediaId, NewSession, OffsetCommit, Resource,
    Session, SessionId, Space, Timestamp,
};

use super::{Disks, Purpose, Reservation};

/// Payload is written to the log, and from there to the tables.
const COPIES: u64 = 2;

/// What a row takes in addition to its payload: pages of the table and of its indexes. Changes that come together share pages.
const ROW: u64 = 4096;

/// A [`Ledger`] that refuses, with [`LedgerError::NoSpace`], what the disk has no room for.
pub(crate) struct CheckedLedger {
    inner: Arc<dyn Ledger>,
    disks: Arc<Disks>,
}

impl CheckedLedger {
    pub(crate) fn new(inner: Arc<dyn Ledger>, disks: Arc<Disks>) -> Self {
        Self { inner, disks }
    }

    fn reserve(
        &self,
        purpose: Purpose,
        rows: usize,
        payload: usize,
    ) -> Result<Reservation<'_>, LedgerError> {
        let bytes = payload as u64 * COPIES + rows as u64 * ROW;
        self.disks
            .reserve(purpose, bytes)
            .ok_or(LedgerError::NoSpace)
    }
}

fn purpose_of(changes: &ChangeSet) -> Purpose {
    if changes.makes_room() {
        Purpose::Always
    } else if changes.finish.is_some() {
        Purpose::Finish
    } else {
        Purpose::Change
    }
}

#[async_trait]
impl Ledger for CheckedLedger {
    async fn start(&self, session: NewSession) -> Result<(), LedgerError> {
        let _reservation = self.reserve(Purpose::Start, 1, session.context.len())?;
        self.inner.start(session).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.inner.session(id).await
    }

    async fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.inner.lease(id).await
    }

    /// Not refused: it commits what is written already, and requests that write are admitted.
    async fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        advance: OffsetCommit,
    ) -> Result<(), LedgerError> {
        let payload = advance.small_media.as_ref().map_or(0, Bytes::len);
        let _reservation = self.reserve(Purpose::Always, 1, payload)?;
        self.inner.commit_offset(id, epoch, advance).await
    }

    async fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> Result<(), LedgerError> {
        let _reservation = self.reserve(Purpose::Always, 1, 0)?;
        self.inner.end(id, epoch, end).await
    }

    async fn apply(&self, changes: ChangeSet) -> Result<(), LedgerError> {
        let _reservation = self.reserve(purpose_of(&changes), changes.rows(), changes.payload())?;
        self.inner.apply(changes).await
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        self.inner.resource(collection, id).await
    }

    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        self.inner.resources(collection, after, limit).await
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
