//! Free space on the disks of the ledger and of the vault, and admission of writes.
//!
//! Free space is measured once a second, and a lot can be written in between. The bytes of a write
//! are therefore subtracted from the last measurement, until a measurement that began after the
//! write ended.
//!
//! | free space | what is admitted |
//! |---|---|
//! | `soft` or more, on both disks | everything |
//! | less than `soft` on a disk | uploads that have begun, and calls that change resources |
//! | less than `hard` on a disk | no media |
//! | less than `hard` on the ledger's disk | no change of resources; finishes while half of `hard` is free, and a few below that |
//! | nothing | cancels, deletes and expiry, for which the store has a reserve |
//!
//! If the length of media is known before its bytes, space is [set aside](MediaSpace) until the
//! bytes are written.
//!
//! `CheckedLedger` checks every change of the ledger that needs space. Leases, expiry and the
//! removal of garbage pass without a check, because they add nothing or free space.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::timeout;
use windlass_store::{
    ChangeSet, EndSession, Garbage, GarbageId, Lease, Leased, Ledger, LedgerError, MediaId,
    NewSession, OffsetCommit, OwnerQuotas, Quota, Resource, Retention, Session, SessionId,
    SessionPage, SessionQuery, Space, StoredName, Takeover, Timestamp, Usage, Vault, VaultError,
};

use crate::error::Error;
use crate::shares::Caller;

mod set_aside;

use set_aside::SetAside;
pub use set_aside::{Leaving, MediaSpace};

/// The ledger and the vault of a server, with the free space on their disks.
///
/// The ledger checks the space itself. Before a write to the vault, the caller checks it with
/// [`MediaSpace::admit_write`].
#[derive(Clone)]
pub struct CheckedStores {
    /// The ledger, in a wrapper that refuses changes when its disk is full.
    pub ledger: Arc<dyn Ledger>,
    /// The vault.
    pub vault: Arc<dyn Vault>,
    /// The free space on the disks of both.
    pub disks: Arc<Disks>,
}

impl fmt::Debug for CheckedStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedStores")
            .field("disks", &self.disks)
            .finish_non_exhaustive()
    }
}

impl CheckedStores {
    /// Wraps the stores. Until [`Disks::refresh`] has measured the disks, all space is free.
    pub fn new(ledger: Arc<dyn Ledger>, vault: Arc<dyn Vault>, limits: FreeSpace) -> Self {
        let disks = Arc::new(Disks::new(limits));
        Self {
            ledger: Arc::new(CheckedLedger::new(ledger, Arc::clone(&disks))),
            vault,
            disks,
        }
    }

    /// Refuses media when the disk is below the hard limit.
    pub fn admit_media(&self) -> Result<(), Error> {
        match self.disks.space() {
            // A running upload may continue below the soft limit, so that it can finish.
            DiskSpace::Plenty | DiskSpace::Low => Ok(()),
            DiskSpace::Full => Err(Error::NoSpace),
        }
    }

    /// Returns the space for media of this caller, of which nothing is set aside yet.
    pub fn media_space(&self, caller: Option<Caller>) -> MediaSpace {
        MediaSpace::new(Arc::clone(&self.disks), caller)
    }
}

/// Minimum free space in bytes on the disks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FreeSpace {
    /// Below this, no upload is started. Default: 256 MiB.
    pub soft: u64,
    /// Below this on either disk, no media is accepted. Below this on the ledger's disk, no
    /// resource is created or changed either. Queries, downloads, cancels and deletes continue.
    /// Finishes continue down to half of it, and use at most another quarter of it below that.
    /// Default: 64 MiB.
    pub hard: u64,
}

impl Default for FreeSpace {
    fn default() -> Self {
        Self {
            soft: 256 * 1024 * 1024,
            hard: 64 * 1024 * 1024,
        }
    }
}

/// Timeout of one measurement.
const SPACE_TIMEOUT: Duration = Duration::from_secs(5);

/// Free space, compared with the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DiskSpace {
    /// Enough.
    Plenty,
    /// Running uploads continue; no new ones start.
    Low,
    /// No media is accepted.
    Full,
}

/// The purpose for which a change of the ledger needs space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Starting an upload.
    Start,
    /// Creating or changing resources.
    Change,
    /// Finishing an upload.
    Finish,
    /// Freeing space, ending sessions, or committing media that has been written.
    Always,
}

/// The disks of a server's stores.
#[derive(Debug)]
pub struct Disks {
    limits: FreeSpace,
    ledger: Disk,
    vault: Disk,
    /// Whether both are the same disk. Assumed until both have been measured.
    is_shared: AtomicBool,
    /// Bytes of finishes that were admitted with less than half of the hard limit left.
    late_finishes: AtomicU64,
    /// Media that is announced and not written yet.
    set_aside: SetAside,
    /// The state at the last measurement, to log changes only.
    logged: AtomicU8,
}

/// The bytes that may still be written to one disk.
// Relaxed everywhere: the counters guard no other data.
#[derive(Debug)]
struct Disk {
    /// Total of admitted bytes.
    admitted: AtomicU64,
    /// Admitted bytes of writes that have ended.
    written: AtomicU64,
    /// Upper bound of `admitted`: the free bytes at the last measurement plus the bytes written
    /// before it.
    ceiling: AtomicU64,
}

/// A write that counts against the measured free space. Dropped when the write has ended: the next
/// measurement then shows its bytes.
#[derive(Debug)]
#[must_use]
pub struct CountedWrite<D: Deref<Target = Disks> = Arc<Disks>> {
    disks: D,
    bytes: u64,
    /// Whether it counts on the ledger's disk, and whether on the vault's.
    on: [bool; 2],
}

/// A store that a write goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Ledger,
    Vault,
}

impl<D: Deref<Target = Disks>> CountedWrite<D> {
    fn new(disks: D, written: Written, bytes: u64) -> Self {
        let is_shared = disks.is_shared.load(Ordering::Relaxed);
        let on = [Written::Ledger, Written::Vault].map(|store| is_shared || store == written);
        let counted = Self { disks, bytes, on };
        counted.disks().for_each(|disk| disk.admit(bytes));
        counted
    }

    fn disks(&self) -> impl Iterator<Item = &Disk> {
        let all = [&self.disks.ledger, &self.disks.vault].into_iter();
        all.zip(self.on)
            .filter_map(|(disk, is_on)| is_on.then_some(disk))
    }
}

impl<D: Deref<Target = Disks>> Drop for CountedWrite<D> {
    fn drop(&mut self) {
        self.disks()
            .for_each(|disk| disk.complete_write(self.bytes));
    }
}

impl Disks {
    fn new(limits: FreeSpace) -> Self {
        Self {
            limits,
            ledger: Disk::new(),
            vault: Disk::new(),
            is_shared: AtomicBool::new(true),
            late_finishes: AtomicU64::new(0),
            set_aside: SetAside::default(),
            logged: AtomicU8::new(DiskSpace::Plenty as u8),
        }
    }

    /// Measures both disks.
    pub async fn refresh(&self, ledger: &dyn Ledger, vault: &dyn Vault) {
        let before = (self.ledger.written(), self.vault.written());
        let (ledger, vault) = tokio::join!(
            timeout(SPACE_TIMEOUT, ledger.space()),
            timeout(SPACE_TIMEOUT, vault.space()),
        );
        let ledger = ledger.map(|space| space.map_err(|error: LedgerError| error.to_string()));
        let vault = vault.map(|space| space.map_err(|error: VaultError| error.to_string()));
        let ledger = self.ledger.update("ledger", ledger, before.0);
        let vault = self.vault.update("vault", vault, before.1);
        if let (Ok(ledger), Ok(vault)) = (ledger, vault) {
            let is_shared = ledger.zip(vault).is_some_and(|(a, b)| a.disk == b.disk);
            self.is_shared.store(is_shared, Ordering::Relaxed);
        }
        if self.ledger.available() >= self.limits.hard / 2 {
            self.late_finishes.store(0, Ordering::Relaxed);
        }
        self.log_change();
    }

    /// Returns the state of the fuller disk.
    pub fn space(&self) -> DiskSpace {
        self.space_of(self.ledger.available().min(self.vault.available()))
    }

    /// Returns the free bytes of each store's disk, once they have been measured.
    pub fn free(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let disks = [("ledger", &self.ledger), ("vault", &self.vault)];
        let measured = disks
            .into_iter()
            .filter(|(_, disk)| disk.ceiling.load(Ordering::Relaxed) < u64::MAX);
        measured.map(|(store, disk)| (store, disk.available()))
    }

    /// Returns the bytes that are set aside for media which is not written yet.
    pub fn set_aside(&self) -> u64 {
        self.set_aside.total()
    }

    /// Describes for the operator which disk has too little space for new uploads, and how much is
    /// left.
    pub fn shortage(&self) -> Option<String> {
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

    /// Reserves space on the ledger's disk; `None` if there is not enough for this purpose.
    pub(super) fn reserve(&self, purpose: Purpose, bytes: u64) -> Option<CountedWrite<&Disks>> {
        let left = self.ledger.available().saturating_sub(bytes);
        let FreeSpace { soft, hard } = self.limits;
        let is_enough = match purpose {
            Purpose::Start => left >= soft,
            Purpose::Change => left >= hard,
            Purpose::Finish => left >= hard / 2 || self.admits_late_finish(bytes),
            Purpose::Always => true,
        };
        is_enough.then(|| CountedWrite::new(self, Written::Ledger, bytes))
    }

    /// The last space is for cancels, deletes and a few finishes, which are counted until space is
    /// free again.
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

    /// Logs a change of the state.
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

    /// Records a measurement that began when this many bytes had been written. If the store does not
    /// know its space, everything is admitted.
    fn update<T>(
        &self,
        name: &str,
        space: Result<Result<Option<Space>, String>, T>,
        written: u64,
    ) -> Result<Option<Space>, NotMeasured> {
        match space {
            Ok(Ok(space)) => {
                let ceiling =
                    space.map_or(u64::MAX, |space| space.available.saturating_add(written));
                self.ceiling.store(ceiling, Ordering::Relaxed);
                return Ok(space);
            }
            Ok(Err(error)) => {
                tracing::warn!(error, "the disk of the {name} does not say how full it is");
            }
            Err(_) => tracing::warn!("the disk of the {name} does not answer"),
        }
        Err(NotMeasured)
    }
}

/// A store has not said how much space it has.
struct NotMeasured;

/// A payload is written twice: to the write-ahead log, then to the tables.
const COPIES: u64 = 2;

/// Bytes that a row takes in addition to its payload: pages of its table and indexes. Changes that
/// are committed together share pages.
const ROW: u64 = 4096;

/// A [`Ledger`] that refuses changes for which the disk has no space, with
/// [`LedgerError::NoSpace`].
struct CheckedLedger {
    inner: Arc<dyn Ledger>,
    disks: Arc<Disks>,
}

impl CheckedLedger {
    fn new(inner: Arc<dyn Ledger>, disks: Arc<Disks>) -> Self {
        Self { inner, disks }
    }

    fn reserve(
        &self,
        purpose: Purpose,
        rows: usize,
        payload: usize,
    ) -> Result<CountedWrite<&Disks>, LedgerError> {
        let bytes = payload as u64 * COPIES + rows as u64 * ROW;
        self.disks
            .reserve(purpose, bytes)
            .ok_or(LedgerError::NoSpace)
    }
}

fn purpose_of(changes: &ChangeSet) -> Purpose {
    if changes.makes_space() {
        Purpose::Always
    } else if changes.finish.is_some() {
        Purpose::Finish
    } else {
        Purpose::Change
    }
}

#[async_trait]
impl Ledger for CheckedLedger {
    fn opening(&self) -> Option<u64> {
        self.inner.opening()
    }

    fn deadline(&self, after: Duration) -> Option<Timestamp> {
        self.inner.deadline(after)
    }

    async fn start_within(&self, session: NewSession, quota: Quota) -> Result<Lease, LedgerError> {
        let _reservation = self.reserve(Purpose::Start, 1, session.context.len())?;
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
        self.inner.lease_by(id, takeover).await
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

    /// Never refused: it commits media that has been written, and the requests that write it are
    /// admitted elsewhere.
    async fn commit_offset_within(
        &self,
        id: SessionId,
        lease: Lease,
        advance: OffsetCommit,
        quota: Quota,
    ) -> Result<(), LedgerError> {
        let payload = advance.small_media.as_ref().map_or(0, Bytes::len);
        let _reservation = self.reserve(Purpose::Always, 1, payload)?;
        self.inner
            .commit_offset_within(id, lease, advance, quota)
            .await
    }

    async fn end(&self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError> {
        let _reservation = self.reserve(Purpose::Always, 1, 0)?;
        self.inner.end(id, lease, end).await
    }

    async fn apply_within(
        &self,
        changes: ChangeSet,
        quotas: OwnerQuotas,
    ) -> Result<(), LedgerError> {
        let _reservation = self.reserve(purpose_of(&changes), changes.rows(), changes.payload())?;
        self.inner.apply_within(changes, quotas).await
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

    async fn fetch(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<Resource>>, LedgerError> {
        self.inner.fetch(keys).await
    }

    async fn claim(
        &self,
        collection: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        let _reservation = self.reserve(Purpose::Change, limit, 0)?;
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

#[cfg(test)]
mod tests;
