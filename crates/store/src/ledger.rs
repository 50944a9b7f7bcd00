//! The contract of the database.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Cause;
use crate::change_set::{ChangeSet, MAX_ADDED_MEDIA};
use crate::records::{
    ExtentChanges, Garbage, GarbageId, Lease, Leased, MAX_KEY_LEN, MediaId, NewSession,
    OwnerQuotas, Progress, Quota, Resource, Retention, Session, SessionId, SessionState,
    StoredName, Timestamp, Usage,
};
use crate::session_list::{SessionPage, SessionQuery};
use crate::vault::Space;

/// The database: sessions, resources, small media, and the list of media to be deleted.
///
/// # Sessions
///
/// A session is *open* while it is active or finishing. A change set *finishes* it, together with
/// the resource that it yields ([`Ledger::apply`]). [`Ledger::end`] *ends* it without a resource:
/// it is cancelled or failed then. A session that is not open is never changed again, and is
/// deleted some time after its expiry.
///
/// # Durability
///
/// A method that makes a change returns only when the change is durable. Leases are the one
/// exception ([`Ledger::lease_by`]). A change is applied completely or not at all.
///
/// # Processes
///
/// Several processes may have one ledger open, if it says so ([`Ledger::opening`]). The ledger then
/// knows which process *works on* a session: the one that has last taken or renewed its lease, or
/// committed an offset, until it says that it is done ([`OffsetCommit::releases`],
/// [`Ledger::release`]). A process that has ended works on nothing. It is for politeness alone: what
/// a process may change is up to the lease that it holds.
///
/// # Concurrency
///
/// All methods may be called concurrently. Changes take effect one after another: checking the
/// conditions of a change and making it are one step, between which no other change happens. A call
/// that begins after a change has returned sees that change. Each reading call sees one state of
/// the ledger; two calls may see different ones.
///
/// # Cancel safety
///
/// Dropping the future of a change leaves open whether the change happens. It is never applied
/// halfway, and a later read shows the outcome. The futures of reads can be dropped at any time.
///
/// # Errors
///
/// Each method names the errors of its own conditions. In addition:
///
/// * Every change may return [`LedgerError::NoSpace`].
/// * Every method may return [`LedgerError::Unavailable`], reads and leases included.
/// * Every change, and [`Ledger::lease`], may return [`LedgerError::Unknown`].
/// * Every method that needs a damaged row returns [`LedgerError::Unreadable`].
/// * Every method may return [`LedgerError::Fault`].
///
/// After [`LedgerError::Unknown`] and [`LedgerError::Fault`] it is unknown whether the change has
/// happened ([`LedgerError::leaves_outcome_unknown`]). After any other error nothing has changed.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Returns the time after this duration by the ledger's clock, for [`ChangeSet::not_after`]. Does
    /// not wait. `None` from a ledger that only one process can open, which checks no such time: its
    /// sweep knows what that process is writing.
    fn deadline(&self, after: Duration) -> Option<Timestamp> {
        let _ = after;
        None
    }

    /// Inserts a session: active, with offset 0 and epoch 0. Returns its first lease. No process
    /// works on it yet. No earlier session may have had its id, not even a deleted one.
    ///
    /// # Errors
    /// [`LedgerError::Conflict`] if a session with this id exists.
    async fn start(&self, session: NewSession) -> Result<Lease, LedgerError> {
        self.start_within(session, Quota::default()).await
    }

    /// As [`Ledger::start`], if the session's owner then occupies no more than the quota.
    ///
    /// # Errors
    /// In addition [`LedgerError::OverQuota`].
    async fn start_within(&self, session: NewSession, quota: Quota) -> Result<Lease, LedgerError>;

    /// Returns the usage of a principal. An expired session counts until it is deleted.
    async fn usage(&self, owner: &str) -> Result<Usage, LedgerError>;

    /// Returns a session, whatever its state, or `None` if the ledger does not have it.
    ///
    /// An expired session is returned until [`Ledger::expire`] deletes it. The returned epoch is
    /// the epoch of the newest lease.
    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError>;

    /// Returns one page of the list of sessions, without the sessions' requests and replies.
    ///
    /// The list has the sessions that the query selects, whatever their state, in the order of
    /// their ids. An expired session is listed until [`Ledger::expire`] deletes it. A session with
    /// a damaged row is left out.
    ///
    /// The ledger may read at most
    /// [`MAX_SESSIONS_READ_PER_PAGE`](crate::session_list::MAX_SESSIONS_READ_PER_PAGE) sessions for
    /// a page. A page with a next position may therefore be short, or have no session at all.
    ///
    /// Each page sees one state of the ledger. A walk over all pages returns no session twice, and
    /// it returns each session that exists and is selected during the whole walk.
    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, LedgerError>;

    /// As [`Ledger::lease_by`], at once, whoever works on the session.
    async fn lease(&self, id: SessionId) -> Result<Option<Leased>, LedgerError> {
        self.lease_by(id, Takeover::IfIdle(Duration::ZERO)).await
    }

    /// Gives out a new lease of a session, which is the right to commit offsets of it, and to
    /// finish or end it. The calling process works on the session from then on.
    ///
    /// It raises the epoch of the session and returns the session as it is then, or `None` if there
    /// is no such session. A session that is not open is returned unchanged.
    ///
    /// The new lease is in force when the method returns: changes under an earlier lease are refused
    /// with [`LedgerError::Fenced`]. The id of a lease is never given out again.
    ///
    /// A crash of the ledger may undo a lease, so that an earlier one is in force again, in two
    /// cases: if the crash also ends every process that has the ledger open, or if the vault never
    /// cuts off bytes that an earlier lease may still commit. In any other case a lease is durable
    /// when the method returns.
    ///
    /// A ledger may end a lease under which nothing was changed or renewed for
    /// [`LEASE_LIFETIME`], by the ledger's clock. A ledger that only one process can open need not.
    ///
    /// # Errors
    /// [`LedgerError::Held`] if another process works on the session, as `takeover` says.
    async fn lease_by(
        &self,
        id: SessionId,
        takeover: Takeover,
    ) -> Result<Option<Leased>, LedgerError>;

    /// Says that this process still works on the sessions of these leases. Leases that are not the
    /// newest ones of their sessions are left out. A ledger that only one process can open does
    /// nothing.
    async fn renew(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        let _ = leases;
        Ok(())
    }

    /// Says that this process works no longer on the sessions of these leases. The leases stay in
    /// force until others are taken. Leases that are not the newest ones of their sessions are left
    /// out. A ledger that only one process can open does nothing.
    async fn release(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        let _ = leases;
        Ok(())
    }

    /// Waits until another process asks for sessions on which this process works
    /// ([`Takeover::Ask`]), and returns them. A session is returned once, and again when it is asked
    /// for again. With a ledger that only one process can open, it waits for ever.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    async fn takeover_requests(&self) -> Vec<SessionId> {
        std::future::pending().await
    }

    /// Commits the progress of a session, under a lease. The caller may acknowledge the bytes when
    /// the method returns. It must have made those in the vault durable before the call.
    ///
    /// Media that the session referenced before and does not reference any more is released: small
    /// media is deleted, media in the vault goes to the garbage list.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if the session does not exist or is not open, `lease` is not its
    /// newest lease, its offset is not `commit.from`, or the new offset is less than that.
    async fn commit_offset(
        &self,
        id: SessionId,
        lease: Lease,
        commit: OffsetCommit,
    ) -> Result<(), LedgerError> {
        self.commit_offset_within(id, lease, commit, Quota::default())
            .await
    }

    /// As [`Ledger::commit_offset`], if the session's owner then occupies no more bytes than the
    /// quota, or no more than before. A session grows if it has no declared length.
    ///
    /// # Errors
    /// In addition [`LedgerError::OverQuota`].
    async fn commit_offset_within(
        &self,
        id: SessionId,
        lease: Lease,
        commit: OffsetCommit,
        quota: Quota,
    ) -> Result<(), LedgerError>;

    /// Ends a session without a resource, under a lease.
    ///
    /// Its media is released in the same transaction: small media is deleted, media in the vault
    /// goes to the garbage list. Its context, which may be large, is deleted. The row stays until
    /// the session expires.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if the session does not exist or is not open, or `lease` is not its
    /// newest lease.
    async fn end(&self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError>;

    /// Applies a change set in one transaction.
    ///
    /// 1. The rows of [`ChangeSet::expect`] are compared.
    /// 2. The changes of resources are made in order. Each sees those before it.
    /// 3. The collections of [`ChangeSet::expect_empty`] are checked.
    /// 4. The session of [`ChangeSet::finish`] is finished. It references no media any more: its
    ///    media belongs to the resource.
    /// 5. Media without a reference is released: small media is deleted, media in the vault goes to
    ///    the garbage list. That concerns media of replaced and deleted resources, media of the
    ///    finished session, and media that comes with the change set and that no resource
    ///    references now.
    ///
    /// No other change happens in between. So a caller may decide on rows that it only reads, if it
    /// names them in the change set.
    ///
    /// # Errors
    /// * [`LedgerError::TooMuchMedia`] if it brings more than
    ///   [`MAX_ADDED_MEDIA`] in [`ChangeSet::added_media`].
    /// * [`LedgerError::KeyTooLong`] if it inserts a resource whose collection and id have more than
    ///   [`MAX_KEY_LEN`] bytes together. An existing resource with a longer key, which an earlier
    ///   release has stored, can be read, replaced and deleted.
    /// * [`LedgerError::Fenced`] if the session to be finished does not exist or is not open, the
    ///   lease of the change set is not its newest one, or its committed offset is greater than the
    ///   offset in [`FinishSession::progress`](crate::FinishSession::progress); or if the time of
    ///   [`ChangeSet::not_after`] has passed.
    /// * [`LedgerError::Conflict`] if a resource to be inserted exists; if a resource to be
    ///   replaced or deleted does not exist or has another version; if a row of
    ///   [`ChangeSet::expect`] is not as expected, or a collection of [`ChangeSet::expect_empty`]
    ///   is not empty; or if a resource would reference media that neither comes with the change
    ///   set nor is referenced by a row, since such media may be deleted already.
    async fn apply(&self, changes: ChangeSet) -> Result<(), LedgerError> {
        self.apply_within(changes, OwnerQuotas::default()).await
    }

    /// As [`Ledger::apply`], if each owner of a resource that is inserted or replaced then occupies
    /// no more bytes than its quota in `quotas`, or no more than before.
    ///
    /// # Errors
    /// In addition [`LedgerError::OverQuota`].
    async fn apply_within(
        &self,
        changes: ChangeSet,
        quotas: OwnerQuotas,
    ) -> Result<(), LedgerError>;

    /// Returns a resource, or `None` if it does not exist.
    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError>;

    /// Returns up to `limit` resources of a collection with ids greater than `after`, in the
    /// bytewise order of their ids.
    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError>;

    /// Returns the resources with these collections and ids, in the order of `keys`, and `None` for
    /// each that does not exist. All are of one state of the ledger.
    async fn fetch(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<Resource>>, LedgerError>;

    /// Claims up to `limit` rows of a collection: those that are due at `now`, the earliest first,
    /// and those that a process has claimed which has ended since. No two processes get one row.
    ///
    /// Returns the rows as they are then. Each is due at `until`, has the next version, and is
    /// claimed by this process ([`Resource::claimed_by`]). The caller replaces or deletes a claimed
    /// row, which fails if another process has claimed it meanwhile. With a later time in
    /// [`Resource::due`] it renews its claim. A row that cannot be read is left out.
    async fn claim(
        &self,
        collection: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError>;

    /// Returns the time from which the first row of a collection is due, claimed rows included.
    /// `None` if no row is ever due. It reads one row, however many there are.
    async fn next_due(&self, collection: &str) -> Result<Option<Timestamp>, LedgerError>;

    /// Returns the number of rows of a collection that are due at any time, claimed rows included.
    async fn count_due(&self, collection: &str) -> Result<u64, LedgerError>;

    /// Returns the bytes of small media, or `None` if the ledger does not have it.
    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError>;

    /// Returns up to `limit` sessions in the state [`SessionState::Finishing`] with ids greater
    /// than `after`, in the order of their ids, except those on which another process has worked
    /// within the time `idle`. The recovery after a crash finishes them.
    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
        idle: Duration,
    ) -> Result<Vec<SessionId>, LedgerError>;

    /// Deletes up to `limit` sessions that expire before `now`, in any state but
    /// [`SessionState::Finishing`], and releases their media. Returns the number of deleted
    /// sessions.
    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError>;

    /// Returns how long released media in the vault is kept, and whether it is deleted twice. The
    /// ledger is opened with it. The default is neither.
    fn retention(&self) -> Retention {
        Retention::default()
    }

    /// Returns up to `limit` entries of the garbage list: what the vault stores and the ledger has
    /// released. They are in an order of the ledger's choice, which stays the same. With `after`,
    /// only entries behind that entry are returned, which may be gone.
    ///
    /// Entries are left out until they are due by the clock of the ledger: for
    /// [`Retention::keep`] after their release, and after the first deletion for as long as
    /// [`Ledger::deleted`] says.
    async fn garbage(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
    ) -> Result<Vec<Garbage>, LedgerError>;

    /// Says that the vault has deleted what these entries of the garbage list name. With
    /// `again_after`, an entry that was deleted for the first time stays on the list, is due again
    /// after this time, and gets another id. All other entries are forgotten. Ids that are not on
    /// the list are ignored.
    ///
    /// The caller passes [`Retention::again_after`] of [`Ledger::retention`].
    async fn deleted(
        &self,
        entries: &[GarbageId],
        again_after: Option<Duration>,
    ) -> Result<(), LedgerError>;

    /// Returns the members of `names` that no session, resource or garbage entry names, whether the
    /// entry is due or not. All are looked up in one state of the ledger: media that moves from a
    /// session to its resource during the call counts as named.
    async fn unknown_names(&self, names: &[StoredName]) -> Result<Vec<StoredName>, LedgerError>;

    /// Whether this process may do the work of a task of which one process at a time does the work.
    /// If so, no other process may until the time `term` has passed by the clock of the ledger, or
    /// this process has ended. A process that goes on with the work asks again within this time.
    ///
    /// It saves work: two processes that do it all the same must do no harm. A ledger that only one
    /// process can open always says `true`.
    async fn acquire_task(&self, name: &str, term: Duration) -> Result<bool, LedgerError> {
        let _ = (name, term);
        Ok(true)
    }

    /// Returns the space for further changes, or `None` if the ledger does not know it, such as a
    /// ledger on another machine. Space that committed changes are yet to occupy does
    /// not count as available. For example, rows may be in a write-ahead log, and need space again
    /// when they are copied into the database.
    async fn space(&self) -> Result<Option<Space>, LedgerError>;

    /// Returns a number that differs between openings of the ledger, if only one process can have
    /// the ledger open at a time. Returns `None` if several processes can. An entry that was noted
    /// under another number is from a process that has ended.
    fn opening(&self) -> Option<u64> {
        None
    }

    /// Fails if the ledger cannot promise anything any more. It is cheap, and used by the readiness
    /// check.
    ///
    /// # Errors
    /// [`LedgerError::Fault`], or [`LedgerError::Unavailable`] while it cannot be asked.
    async fn check(&self) -> Result<(), LedgerError>;
}

/// A new committed offset of a session, and the changes that are committed with it.
#[derive(Debug, Clone)]
pub struct OffsetCommit {
    /// Committed offset before.
    pub from: u64,
    /// Progress from now on. `progress.offset` is at least `from`.
    pub progress: Progress,
    /// All bytes of the media up to `progress.offset`, if the media is in the ledger and has
    /// changed. `None` if the media is in the vault, or has not changed.
    pub small_media: Option<Bytes>,
    /// How the extents of the media change. The names of those that go become garbage in the same
    /// transaction, unless another extent of the session has the name.
    pub extents: ExtentChanges,
    /// [`SessionState::Active`], or [`SessionState::Finishing`] if these were the last bytes.
    pub state: SessionState,
    /// New time of expiry; `None` leaves it unchanged.
    pub expires: Option<Timestamp>,
    /// Whether the process works no longer on the session, because these are the last bytes of a
    /// request. The lease stays in force until another one is taken. Otherwise the process works on
    /// the session from now on.
    pub releases: bool,
}

/// For how long a lease is in force after it was given out, used for a change, or renewed, where a
/// ledger limits that: 6 h. A process that runs renews its leases more often. Media that nothing
/// references is kept for longer, so that a process which was stopped cannot commit media that the
/// sweep has deleted.
pub const LEASE_LIFETIME: Duration = Duration::from_secs(6 * 60 * 60);

/// How long it may take from the beginning of media that no session names to the change set that
/// brings it, where a ledger limits that: 12 h. As [`LEASE_LIFETIME`], it is less than the time for
/// which media that nothing references is kept.
pub const NEW_MEDIA_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// How a lease is taken of a session on which another process works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// The other process is asked to commit what has arrived and to release the session
    /// ([`Ledger::takeover_requests`]). The call fails with [`LedgerError::Held`] meanwhile, and is
    /// repeated.
    Ask,
    /// The lease is taken if the other process has not changed the session or renewed its lease for
    /// this long. Otherwise the call fails with [`LedgerError::Held`].
    IfIdle(Duration),
}

/// How [`Ledger::end`] ends a session: without a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndSession {
    /// The client has cancelled it.
    Cancelled,
    /// It has met an error that no retry can repair.
    Failed,
}

/// Why a call of a ledger has failed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The caller does not hold the newest lease of the session, or the session has another offset
    /// or is not open, or a change set is later than [`ChangeSet::not_after`]. Nothing has changed. The caller must read the session again before it
    /// continues.
    #[error("the session has a newer lease or another offset, or is not open")]
    Fenced,
    /// Another process works on the session. Nothing has changed.
    #[error("another process works on the session")]
    Held,
    /// An id exists already, a version is not the expected one, a collection is not empty, or media
    /// may have been deleted. Nothing has changed.
    #[error("the session or resource exists already, or was changed by another request")]
    Conflict,
    /// A change set brings more media than [`MAX_ADDED_MEDIA`]. Nothing has changed. Its caller has
    /// to bring less.
    #[error("the changes bring more than {MAX_ADDED_MEDIA} additional media")]
    TooMuchMedia,
    /// The collection and the id of a resource to be inserted have more than [`MAX_KEY_LEN`] bytes.
    /// Nothing has changed.
    #[error(
        "a name in the call is too long: with its collection it has more than {MAX_KEY_LEN} bytes"
    )]
    KeyTooLong,
    /// The owner would occupy more than its quota. Nothing has changed.
    #[error("the principal would occupy more than its quota")]
    OverQuota,
    /// The disk is full. Nothing has changed, and the ledger continues to work.
    #[error("the disk of the ledger is full")]
    NoSpace,
    /// The ledger cannot be used now: another program holds a lock that the call needs, or a
    /// connection was lost before the change was sent. Nothing has changed, and the same call may
    /// succeed later. Reads may fail like this, too.
    #[error("the ledger is not available now")]
    Unavailable(#[source] Cause),
    /// The change may have happened or not, for example if a connection was lost after the change
    /// was sent. The ledger continues to work. The caller must acknowledge nothing, must delete no
    /// media that the change names, and must read the state again before it decides anything.
    #[error("it is unknown whether the ledger has made the change")]
    Unknown(#[source] Cause),
    /// A row holds values that no version of the store has written. Nothing has changed, and the
    /// ledger continues to work with all further rows.
    #[error("a row of the ledger cannot be read")]
    Unreadable,
    /// The ledger could not make a change durable, or could not read. It is unknown whether the
    /// change has happened. The caller must not retry, and must stop acknowledging in this process.
    #[error("the ledger failed")]
    Fault(#[source] Cause),
}

impl LedgerError {
    /// Whether the change may have happened all the same. Media that it names must then be kept.
    pub fn leaves_outcome_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Fault(_))
    }
}
