//! Decorators that make the calls of a store fail on schedule, or stop when a test says so.
//!
//! One [`Faults`] counts the calls of a ledger and a vault together. So a test can run a workload
//! once to count its calls, and then once for each call with that call failing:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use windlass_store::fault::{FaultyLedger, Faults, InjectedFault, Trigger};
//! use windlass_store::memory::MemoryLedger;
//! use windlass_store::{Ledger, LedgerError, SessionId};
//!
//! let faults = Arc::new(Faults::new(Trigger::Once(2), InjectedFault::Fault));
//! let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&faults));
//! let id = SessionId::from_bytes([7; 32]);
//! assert!(ledger.session(id).await.is_ok());
//! assert!(matches!(ledger.session(id).await, Err(LedgerError::Fault(_))));
//! assert!(ledger.session(id).await.is_ok());
//! assert_eq!(faults.calls(), 3);
//! # });
//! ```

mod paced;

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Cause;
use crate::change_set::ChangeSet;
use crate::ledger::{EndSession, Ledger, LedgerError, OffsetCommit, Takeover};
use crate::records::{
    ExtentChanges, Garbage, GarbageId, Lease, Leased, MediaId, NewSession, OwnerQuotas, Quota,
    Resource, Retention, Session, SessionId, StoredMedia, StoredName, Timestamp, Usage,
};
use crate::session_list::{SessionPage, SessionQuery};
use crate::vault::{
    ExpectedSize, IoHints, ListPosition, Listing, MediaReader, MediaWriter, Part, Sealed, Space,
    SyncTarget, Vault, VaultError,
};

pub use paced::{PacedLedger, Stopped};

/// Which calls are affected. The first call has the number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// No call. Calls are only counted.
    Never,
    /// The nth call.
    Once(u64),
    /// The nth call and all later ones.
    From(u64),
    /// All calls of the contracts' methods with this name.
    CallsOf(&'static str),
}

/// The fault that is injected into an affected call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// It does nothing and fails, whether it is a change, a write or a read.
    Fault,
    /// It is carried out and fails all the same, so its caller does not know the outcome. A change
    /// of a ledger reports [`LedgerError::Unknown`].
    Lost,
    /// It is carried out and fails like [`InjectedFault::Fault`]: a change is made, and the check
    /// after it fails.
    LateFault,
    /// A write stores half of its bytes and fails. Other calls do as with [`InjectedFault::Fault`].
    Torn,
    /// The disk is full: a write stores half of its bytes and reports how many, and a change does
    /// nothing. Calls that need no space succeed.
    NoSpace,
    /// It does nothing and reports [`LedgerError::Unavailable`] or [`VaultError::Unavailable`].
    Unavailable,
    /// It is carried out after this delay.
    Slow(Duration),
    /// It does nothing and panics.
    Panic,
}

impl Trigger {
    fn is_due(self, call: u64, name: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Once(nth) => call == nth,
            Self::From(nth) => call >= nth,
            Self::CallsOf(method) => name == method,
        }
    }
}

/// A schedule of faults, and the log of calls.
#[derive(Debug)]
pub struct Faults {
    schedule: Vec<(Trigger, InjectedFault)>,
    calls: Mutex<Vec<&'static str>>,
}

impl Faults {
    /// Returns a schedule with one entry. Decorators that share it count their calls together.
    pub fn new(trigger: Trigger, fault: InjectedFault) -> Self {
        Self {
            schedule: vec![(trigger, fault)],
            calls: Mutex::default(),
        }
    }

    /// Returns the schedule of a power cut before the nth call: neither it nor any later one is
    /// carried out.
    pub fn outage_before(nth: u64) -> Self {
        Self::new(Trigger::From(nth), InjectedFault::Fault)
    }

    /// Returns the schedule of a power cut after the nth call: it is carried out and seems to fail,
    /// and no later one is carried out.
    pub fn outage_after(nth: u64) -> Self {
        let mut faults = Self::new(Trigger::Once(nth), InjectedFault::LateFault);
        faults
            .schedule
            .push((Trigger::From(nth.saturating_add(1)), InjectedFault::Fault));
        faults
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.log().len() as u64
    }

    /// Returns all calls, by the names of the contracts' methods.
    pub fn names(&self) -> Vec<&'static str> {
        self.log().clone()
    }

    /// Returns the number of calls of the contracts' method with this name.
    pub fn calls_of(&self, name: &str) -> usize {
        self.log().iter().filter(|call| **call == name).count()
    }

    /// Counts a call. Waits if it is to be slow and panics if it is to panic. Any other fault is
    /// returned for the caller to carry out.
    async fn next(&self, name: &'static str) -> Option<InjectedFault> {
        let call = {
            let mut log = self.log();
            log.push(name);
            log.len() as u64
        };
        let mut due = self
            .schedule
            .iter()
            .filter(|(trigger, _)| trigger.is_due(call, name));
        match due.next()?.1 {
            InjectedFault::Slow(delay) => {
                tokio::time::sleep(delay).await;
                None
            }
            InjectedFault::Panic => panic!("scheduled panic"),
            fault => Some(fault),
        }
    }

    fn log(&self) -> MutexGuard<'_, Vec<&'static str>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cause of a scheduled fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("scheduled fault")]
pub struct ScheduledFault;

fn scheduled() -> Cause {
    Arc::new(ScheduledFault)
}

/// A [`Ledger`] with calls that fail on schedule.
pub struct FaultyLedger {
    inner: Arc<dyn Ledger>,
    faults: Arc<Faults>,
}

impl FaultyLedger {
    /// Wraps a ledger.
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
            Some(InjectedFault::Unavailable) => Err(LedgerError::Unavailable(scheduled())),
            Some(InjectedFault::Lost) => {
                change.await?;
                Err(LedgerError::Unknown(scheduled()))
            }
            Some(InjectedFault::LateFault) => {
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
        self.read_or(name, LedgerError::Unavailable, read).await
    }

    /// As [`FaultyLedger::read`]. `lost` is the error of a call whose answer is lost.
    async fn read_or<T>(
        &self,
        name: &'static str,
        lost: fn(Cause) -> LedgerError,
        read: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        match self.faults.next(name).await {
            None | Some(InjectedFault::NoSpace | InjectedFault::Slow(_)) => read.await,
            Some(InjectedFault::Unavailable) => Err(LedgerError::Unavailable(scheduled())),
            Some(InjectedFault::Fault | InjectedFault::Torn | InjectedFault::Panic) => {
                Err(LedgerError::Fault(scheduled()))
            }
            Some(InjectedFault::Lost) => {
                read.await?;
                Err(lost(scheduled()))
            }
            Some(InjectedFault::LateFault) => {
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
    fn opening(&self) -> Option<u64> {
        self.inner.opening()
    }

    fn deadline(&self, after: Duration) -> Option<Timestamp> {
        self.inner.deadline(after)
    }

    async fn start_within(&self, session: NewSession, quota: Quota) -> Result<Lease, LedgerError> {
        self.change("start", self.inner.start_within(session, quota))
            .await
    }

    async fn usage(&self, owner: &str) -> Result<Usage, LedgerError> {
        self.read("usage", self.inner.usage(owner)).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.read("session", self.inner.session(id)).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, LedgerError> {
        self.read("sessions", self.inner.sessions(query)).await
    }

    async fn lease_by(
        &self,
        id: SessionId,
        takeover: Takeover,
    ) -> Result<Option<Leased>, LedgerError> {
        let lease = self.inner.lease_by(id, takeover);
        self.read_or("lease", LedgerError::Unknown, lease).await
    }

    async fn renew(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        self.change("renew", self.inner.renew(leases)).await
    }

    async fn release(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        self.change("release", self.inner.release(leases)).await
    }

    async fn takeover_requests(&self) -> Vec<SessionId> {
        self.inner.takeover_requests().await
    }

    async fn commit_offset_within(
        &self,
        id: SessionId,
        lease: Lease,
        commit: OffsetCommit,
        quota: Quota,
    ) -> Result<(), LedgerError> {
        self.change(
            "commit_offset",
            self.inner.commit_offset_within(id, lease, commit, quota),
        )
        .await
    }

    async fn end(&self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError> {
        self.change("end", self.inner.end(id, lease, end)).await
    }

    async fn apply_within(
        &self,
        changes: ChangeSet,
        quotas: OwnerQuotas,
    ) -> Result<(), LedgerError> {
        self.change("apply", self.inner.apply_within(changes, quotas))
            .await
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

    async fn fetch(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<Resource>>, LedgerError> {
        self.read("fetch", self.inner.fetch(keys)).await
    }

    async fn claim(
        &self,
        collection: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        self.change("claim", self.inner.claim(collection, now, until, limit))
            .await
    }

    async fn next_due(&self, collection: &str) -> Result<Option<Timestamp>, LedgerError> {
        self.read("next_due", self.inner.next_due(collection)).await
    }

    async fn count_due(&self, collection: &str) -> Result<u64, LedgerError> {
        self.read("count_due", self.inner.count_due(collection))
            .await
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        self.read("small_media", self.inner.small_media(id)).await
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
        idle: Duration,
    ) -> Result<Vec<SessionId>, LedgerError> {
        self.read("finishing", self.inner.finishing(after, limit, idle))
            .await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        self.change("expire", self.inner.expire(now, limit)).await
    }

    fn retention(&self) -> Retention {
        self.inner.retention()
    }

    async fn garbage(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
    ) -> Result<Vec<Garbage>, LedgerError> {
        self.read("garbage", self.inner.garbage(after, limit)).await
    }

    async fn deleted(
        &self,
        entries: &[GarbageId],
        again_after: Option<Duration>,
    ) -> Result<(), LedgerError> {
        self.change("deleted", self.inner.deleted(entries, again_after))
            .await
    }

    async fn unknown_names(&self, names: &[StoredName]) -> Result<Vec<StoredName>, LedgerError> {
        self.read("unknown_names", self.inner.unknown_names(names))
            .await
    }

    async fn acquire_task(&self, name: &str, term: Duration) -> Result<bool, LedgerError> {
        self.change("acquire_task", self.inner.acquire_task(name, term))
            .await
    }

    async fn space(&self) -> Result<Option<Space>, LedgerError> {
        self.read("space", self.inner.space()).await
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.read("check", self.inner.check()).await
    }
}

/// A [`Vault`] with calls that fail on schedule, including the calls of its writers and readers.
pub struct FaultyVault {
    inner: Arc<dyn Vault>,
    faults: Arc<Faults>,
}

impl FaultyVault {
    /// Wraps a vault.
    pub fn new(inner: Arc<dyn Vault>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }

    fn writer(&self, id: MediaId, inner: Box<dyn MediaWriter>) -> Box<dyn MediaWriter> {
        let faults = Arc::clone(&self.faults);
        Box::new(FaultyWriter { inner, id, faults })
    }
}

impl fmt::Debug for FaultyVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyVault")
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Vault for FaultyVault {
    fn hints(&self) -> IoHints {
        self.inner.hints()
    }

    async fn create(
        &self,
        id: MediaId,
        expected: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        let full = || VaultError::NoSpace { written: 0 };
        let create = self.inner.create(id, expected);
        let created = change(&self.faults, "create", Some(id), create, Some(full)).await?;
        Ok(self.writer(id, created))
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        let (id, resume) = (stored.id, self.inner.resume(stored));
        let resumed = read(&self.faults, "resume", Some(id), resume).await?;
        Ok(self.writer(id, resumed))
    }

    async fn seal(&self, stored: &StoredMedia) -> Result<Sealed, VaultError> {
        let (id, seal) = (stored.id, self.inner.seal(stored));
        change(&self.faults, "seal", Some(id), seal, NEEDS_NO_ROOM).await
    }

    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let (id, opened) = (media.media, self.inner.read(media, range));
        let inner = read(&self.faults, "read", Some(id), opened).await?;
        let faults = Arc::clone(&self.faults);
        Ok(Box::new(FaultyReader { inner, id, faults }))
    }

    /// A torn call fails before it begins. A partly made media would differ in nothing from the
    /// media of a call that fails at its end.
    async fn concat(
        &self,
        id: MediaId,
        parts: Vec<Part>,
        copied: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Bytes, VaultError> {
        let full = || VaultError::NoSpace { written: 0 };
        let concat = self.inner.concat(id, parts, copied);
        change(&self.faults, "concat", Some(id), concat, Some(full)).await
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        let (id, delete) = (stored.media, self.inner.delete(stored));
        read(&self.faults, "delete", Some(id), delete).await
    }

    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError> {
        read(&self.faults, "list", None, self.inner.list(from, limit)).await
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        let space = self.inner.space();
        change(&self.faults, "space", None, space, NEEDS_NO_ROOM).await
    }
}

#[derive(Debug)]
struct FaultyWriter {
    inner: Box<dyn MediaWriter>,
    id: MediaId,
    faults: Arc<Faults>,
}

impl FaultyWriter {
    /// Appends the first half of the bytes and returns its length.
    async fn append_half(&self, at: u64, data: &[Bytes]) -> Result<u64, VaultError> {
        let len: usize = data.iter().map(Bytes::len).sum();
        let mut rest = len / 2;
        let mut half = Vec::new();
        for piece in data {
            let take = piece.len().min(rest);
            half.push(piece.slice(..take));
            rest -= take;
        }
        self.inner.append(at, half).await?;
        Ok(len as u64 / 2)
    }
}

#[async_trait]
impl MediaWriter for FaultyWriter {
    fn boundary(&self) -> Option<NonZeroU64> {
        self.inner.boundary()
    }

    async fn append(&self, at: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let fault = || Err(VaultError::Fault(scheduled()));
        match self.faults.next("append").await {
            None | Some(InjectedFault::Slow(_)) => self.inner.append(at, data).await,
            Some(InjectedFault::Fault | InjectedFault::Panic) => fault(),
            Some(InjectedFault::Unavailable) => Err(unavailable(Some(self.id))),
            Some(InjectedFault::Torn) => {
                self.append_half(at, &data).await?;
                fault()
            }
            Some(InjectedFault::Lost | InjectedFault::LateFault) => {
                self.inner.append(at, data).await?;
                fault()
            }
            Some(InjectedFault::NoSpace) => {
                let written = self.append_half(at, &data).await?;
                Err(VaultError::NoSpace { written })
            }
        }
    }

    fn take_changes(&self) -> ExtentChanges {
        self.inner.take_changes()
    }

    async fn sync(&self, target: SyncTarget) -> Result<(), VaultError> {
        let sync = self.inner.sync(target);
        change(&self.faults, "sync", Some(self.id), sync, NEEDS_NO_ROOM).await
    }
}

#[derive(Debug)]
struct FaultyReader {
    inner: Box<dyn MediaReader>,
    id: MediaId,
    faults: Arc<Faults>,
}

#[async_trait]
impl MediaReader for FaultyReader {
    async fn next(&mut self, max_len: usize) -> Result<Bytes, VaultError> {
        read(
            &self.faults,
            "next",
            Some(self.id),
            self.inner.next(max_len),
        )
        .await
    }
}

/// A call that needs no space succeeds on a full disk.
const NEEDS_NO_ROOM: Option<fn() -> VaultError> = None;

/// Runs a call that fails with [`VaultError::Fault`].
async fn change<T>(
    faults: &Faults,
    name: &'static str,
    id: Option<MediaId>,
    change: impl Future<Output = Result<T, VaultError>>,
    full: Option<fn() -> VaultError>,
) -> Result<T, VaultError> {
    match (faults.next(name).await, full) {
        (Some(InjectedFault::NoSpace), Some(full)) => Err(full()),
        (None | Some(InjectedFault::Slow(_) | InjectedFault::NoSpace), _) => change.await,
        (Some(InjectedFault::Unavailable), _) => Err(unavailable(id)),
        (Some(InjectedFault::Fault | InjectedFault::Torn | InjectedFault::Panic), _) => {
            Err(VaultError::Fault(scheduled()))
        }
        (Some(InjectedFault::Lost | InjectedFault::LateFault), _) => {
            change.await?;
            Err(VaultError::Fault(scheduled()))
        }
    }
}

fn unavailable(id: Option<MediaId>) -> VaultError {
    VaultError::Unavailable {
        id,
        cause: scheduled(),
    }
}

/// Runs a call that fails with [`VaultError::Unavailable`], which concerns only its media.
async fn read<T>(
    faults: &Faults,
    name: &'static str,
    id: Option<MediaId>,
    read: impl Future<Output = Result<T, VaultError>>,
) -> Result<T, VaultError> {
    match faults.next(name).await {
        None | Some(InjectedFault::NoSpace | InjectedFault::Slow(_)) => read.await,
        Some(
            InjectedFault::Fault
            | InjectedFault::Torn
            | InjectedFault::Unavailable
            | InjectedFault::Panic,
        ) => Err(unavailable(id)),
        Some(InjectedFault::Lost | InjectedFault::LateFault) => {
            read.await?;
            Err(unavailable(id))
        }
    }
}
