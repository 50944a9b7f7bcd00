//! Free space on the disks of the ledger and of the vault, and what may still be written there.
//!
//! The disks are looked at once a second, and a lot can be written in between. So whatever is written is subtracted
//! from the last look, from the moment it is admitted to the first look that began after it was written.
//!
//! | free space | what is admitted |
//! |---|---|
//! | `soft` or more, on both disks | everything |
//! | less | what is begun already, and calls that change resources |
//! | less than `hard` | on either disk: no media. On the ledger's: no change of resources, and finishes down to a half of `hard`, then some more |
//! | nothing | cancels, deletes and expiry: the store has a reserve for them |
//!
//! The ledger asks here for every change ([`CheckedLedger`]), so nothing that writes can pass by.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::timeout;
use windlass_store::{
    ChangeSet, EndSession, Epoch, Ledger, LedgerError, MediaId, NewSession, OffsetCommit, Resource,
    Session, SessionId, Space, Timestamp, Vault, VaultError,
};

use crate::config::FreeSpace;

/// How long a disk may take to say how full it is.
const SPACE_TIMEOUT: Duration = Duration::from_secs(5);

/// How much free space there is, against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum DiskSpace {
    /// Enough.
    Plenty,
    /// Uploads that run may go on; no new ones.
    Low,
    /// No media is taken.
    Full,
}

/// What a change of the ledger needs the room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To begin an upload.
    Start,
    /// To make or change resources.
    Change,
    /// To bring an upload to its end.
    Finish,
    /// To make room, to end sessions, or to commit what is written already.
    Always,
}

/// The disks of a server's stores.
#[derive(Debug)]
pub(crate) struct Disks {
    limits: FreeSpace,
    ledger: Disk,
    vault: Disk,
    /// Whether they are one disk. Assumed until both have said.
    is_shared: AtomicBool,
    /// Bytes of finishes that were admitted with less than half of the hard limit left.
    late_finishes: AtomicU64,
    /// The room at the last look, for the log.
    logged: AtomicU8,
}

/// What may still be written to one disk.
#[derive(Debug)]
struct Disk {
    /// Bytes that were ever admitted.
    admitted: AtomicU64,
    /// Of these, bytes whose write has come to its end.
    written: AtomicU64,
    /// How much may be admitted in all: what was free at the last look, and what had been written before it.
    ceiling: AtomicU64,
}

/// Room for one change of the ledger, until it is made.
#[derive(Debug)]
#[must_use]
pub(super) struct Reservation<'a> {
    disks: &'a Disks,
    bytes: u64,
    is_shared: bool,
}

impl Disks {
    pub(crate) fn new(limits: FreeSpace) -> Self {
        Self {
            limits,
            ledger: Disk::new(),
            vault: Disk::new(),
            is_shared: AtomicBool::new(true),
            late_finishes: AtomicU64::new(0),
            logged: AtomicU8::new(DiskSpace::Plenty as u8),
        }
    }

    /// Looks at both disks.
    pub(crate) async fn refresh(&self, ledger: &dyn Ledger, vault: &dyn Vault) {
        let before = (self.ledger.written(), self.vault.written());
        let (ledger, vault) = tokio::join!(
            timeout(SPACE_TIMEOUT, ledger.space()),
            timeout(SPACE_TIMEOUT, vault.space()),
        );
        let ledger = ledger.map(|space| space.map_err(|error: LedgerError| error.to_string()));
        let vault = vault.map(|space| space.map_err(|error: VaultError| error.to_string()));
        let ledger = self.ledger.update("ledger", ledger, before.0);
        let vault = self.vault.update("vault", vault, before.1);
        if let (Some(ledger), Some(vault)) = (ledger, vault) {
            self.is_shared
                .store(ledger.disk == vault.disk, Ordering::Relaxed);
        }
        if self.ledger.available() >= self.limits.hard / 2 {
            self.late_finishes.store(0, Ordering::Relaxed);
        }
        self.log_change();
    }

    /// How much room there is, by the fuller of the two.
    pub(crate) fn space(&self) -> DiskSpace {
        self.space_of(self.ledger.available().min(self.vault.available()))
    }

    /// Which disk has too little room for new uploads, and how much it has, in words for the operator.
    pub(crate) fn shortage(&self) -> Option<String> {
        let disks = [("ledger's ", &self.ledger), ("vault's ", &self.vault)];
        let (whose, disk) = disks.into_iter().min_by_key(|(_, disk)| disk.available())?;
        let available = disk.available();
        let whose = if self.is_shared.load(Ordering::Relaxed) {
            ""
        } else {
            whose
        };
        let (limit, bytes) = match self.space_of(available) {
            DiskSpace::Plenty => return None,
            DiskSpace::Low => ("soft", self.limits.soft),
            DiskSpace::Full => ("hard", self.limits.hard),
        };
        Some(format!(
            "the {whose}disk has {} MB free, less than free_space.{limit}, which is {} MB",
            available >> 20,
            bytes >> 20
        ))
    }

    /// Counts media that is about to be written.
    pub(crate) fn count_media(&self, bytes: u64) {
        self.vault.count_write(bytes);
        if self.is_shared.load(Ordering::Relaxed) {
            self.ledger.count_write(bytes);
        }
    }

    /// Room on the ledger's disk; `None` when there is not enough for this need.
    pub(super) fn reserve(&self, purpose: Purpose, bytes: u64) -> Option<Reservation<'_>> {
        let left = self.ledger.available().saturating_sub(bytes);
        let FreeSpace { soft, hard } = self.limits;
        let is_enough = match purpose {
            Purpose::Start => left >= soft,
            Purpose::Change => left >= hard,
            Purpose::Finish => left >= hard / 2 || self.admits_late_finish(bytes),
            Purpose::Always => true,
        };
        is_enough.then(|| self.admit(bytes))
    }

    fn admit(&self, bytes: u64) -> Reservation<'_> {
        let reservation = Reservation {
            disks: self,
            bytes,
            is_shared: self.is_shared.load(Ordering::Relaxed),
        };
        reservation.disks().for_each(|disk| disk.admit(bytes));
        reservation
    }

    /// The last of the room is for cancels and deletes, but for a few finishes. They are counted until there is more.
    fn admits_late_finish(&self, bytes: u64) -> bool {
        let most = self.limits.hard / 4;
        let add = |late: u64| late.checked_add(bytes).filter(|late| *late <= most);
        let order = Ordering::Relaxed;
        self.late_finishes.fetch_update(order, order, add).is_ok()
    }

    fn space_of(&self, available: u64) -> DiskSpace {
        if available < self.limits.hard {
            DiskSpace::Full
        } else if available < self.limits.soft {
            DiskSpace::Low
        } else {
            DiskSpace::Plenty
        }
    }

    /// Tells the log when the room has changed.
    fn log_change(&self) {
        let space = self.space();
        if self.logged.swap(space as u8, Ordering::Relaxed) == space as u8 {
            return;
        }
        match self.shortage() {
            None => tracing::warn!("there is room for uploads again"),
            Some(shortage) if space == DiskSpace::Full => tracing::warn!(
                "nothing new is taken: {shortage}; delete resources, cancel uploads, or give the disk more room"
            ),
            Some(shortage) => tracing::warn!("no upload is started: {shortage}"),
        }
    }
}

impl Disk {
    fn new() -> Self {
        Self {
            admitted: AtomicU64::new(0),
            written: AtomicU64::new(0),
            ceiling: AtomicU64::new(u64::MAX),
        }
    }

    fn available(&self) -> u64 {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        ceiling.saturating_sub(self.admitted.load(Ordering::Relaxed))
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn admit(&self, bytes: u64) {
        self.admitted.fetch_add(bytes, Ordering::Relaxed);
    }

    fn complete_write(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What is written at once.
    fn count_write(&self, bytes: u64) {
        self.admit(bytes);
        self.complete_write(bytes);
    }

    /// Notes what a look has found that began when so much was written.
    fn update<T>(
        &self,
        name: &str,
        space: Result<Result<Space, String>, T>,
        written: u64,
    ) -> Option<Space> {
        match space {
            Ok(Ok(space)) => {
                let ceiling = space.available.saturating_add(written);
                self.ceiling.store(ceiling, Ordering::Relaxed);
                return Some(space);
            }
            Ok(Err(error)) => {
                tracing::warn!(error, "the disk of the {name} does not say how full it is");
            }
            Err(_) => tracing::warn!("the disk of the {name} does not answer"),
        }
        None
    }
}

impl Reservation<'_> {
    fn disks(&self) -> impl Iterator<Item = &Disk> {
        let vault = self.is_shared.then_some(&self.disks.vault);
        [&self.disks.ledger].into_iter().chain(vault)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.disks()
            .for_each(|disk| disk.complete_write(self.bytes));
    }
}

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

#[cfg(test)]
mod tests;
