//! Both contracts in memory, with simulated power cuts.
//!
//! There are two vaults: [`MemoryVault`] names media by their ids, as a disk does, and
//! [`ObjectVault`] keeps them in objects with names of their own, as an object store does.
//!
//! The implementations are complete and have real durability rules. [`MemoryVault::crash`] loses
//! the bytes that were written and not synced. [`MemoryLedger::crash`] loses the leases. Writers
//! from before a crash are refused. Such a crash is the worst that a disk may do;
//! [`MemoryVault::crash_keeping`] simulates all milder outcomes.
//!
//! Absent: a limit on memory, and any disk.

// The ledger is below.
mod garbage;
mod leases;
mod objects;
mod vault;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::poll_fn;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::change_set::{ChangeSet, Expected, FinishSession, ResourceChange};
use crate::ledger::{EndSession, Ledger, LedgerError, OffsetCommit, Takeover};
use crate::records::{
    ExtentChanges, Garbage, GarbageId, Lease, Leased, MediaId, MediaLocation, MediaRef, NewSession,
    OwnerQuotas, Progress, Quota, Resource, Retention, Session, SessionId, SessionState,
    StoredExtent, StoredName, Timestamp, Usage, change_extents, counted,
};
use crate::session_list::{
    MAX_SESSIONS_READ_PER_PAGE, SessionOrder, SessionPage, SessionQuery, SessionSummary,
};
use crate::vault::Space;

use garbage::GarbageList;
use leases::Leases;
pub use objects::ObjectVault;
pub use vault::{MemoryVault, UnsyncedWrite};

/// Space that both report as shared.
const SPACE: Space = Space {
    available: 1 << 40,
    total: 1 << 40,
    disk: 0,
};

/// A [`Ledger`] in memory, as one process sees it. Changes are durable as soon as they are applied;
/// leases are not.
#[derive(Debug)]
pub struct MemoryLedger {
    tables: Arc<Mutex<Tables>>,
    /// Number of the process that has it open.
    process: u64,
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::opened(Arc::default())
    }
}

impl MemoryLedger {
    /// Returns an empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the ledger with another treatment of released media.
    #[must_use]
    pub fn with_retention(self, retention: Retention) -> Self {
        self.tables().garbage.retention = retention;
        self
    }

    /// Returns the same ledger as another process sees it. The process ends when it is dropped.
    #[must_use]
    pub fn of_another_process(&self) -> Self {
        Self::opened(Arc::clone(&self.tables))
    }

    fn opened(tables: Arc<Mutex<Tables>>) -> Self {
        let process = tables
            .lock()
            .expect("changes check first and then cannot fail")
            .leases
            .add_process();
        Self { tables, process }
    }

    /// Ends the process that has the ledger open, like a crash: it works on nothing any more.
    pub fn end_process(&self) {
        self.tables().leases.remove_process(self.process);
    }

    /// Lets the ledger's clock go on. It stands still otherwise.
    pub fn advance_clock(&self, by: Duration) {
        self.tables().leases.advance(by);
    }

    /// Simulates a power cut of the machine on which the ledger and all its processes run: leases
    /// that no change has made durable are lost.
    pub fn crash(&self) {
        self.tables().leases.crash();
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables
            .lock()
            .expect("changes check first and then cannot fail")
    }
}

impl Drop for MemoryLedger {
    fn drop(&mut self) {
        // After a panic the tables are not looked at any more.
        if let Ok(mut tables) = self.tables.lock() {
            tables.leases.remove_process(self.process);
        }
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    fn deadline(&self, after: Duration) -> Option<Timestamp> {
        Some(self.tables().leases.time_after(after))
    }

    async fn start_within(&self, session: NewSession, quota: Quota) -> Result<Lease, LedgerError> {
        self.tables().start(session, quota)
    }

    async fn usage(&self, owner: &str) -> Result<Usage, LedgerError> {
        Ok(self.tables().usage(owner))
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        Ok(self.tables().session(id))
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, LedgerError> {
        Ok(self.tables().session_page(query))
    }

    async fn lease_by(
        &self,
        id: SessionId,
        takeover: Takeover,
    ) -> Result<Option<Leased>, LedgerError> {
        self.tables().lease(id, self.process, takeover)
    }

    async fn renew(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        let table = &mut self.tables().leases;
        for (id, lease) in leases {
            table.renew(*id, *lease, self.process);
        }
        Ok(())
    }

    async fn release(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        let table = &mut self.tables().leases;
        for (id, lease) in leases {
            table.release(*id, *lease, self.process);
        }
        Ok(())
    }

    async fn takeover_requests(&self) -> Vec<SessionId> {
        poll_fn(|context| {
            let leases = &mut self.tables().leases;
            leases.poll_asked_for(self.process, context)
        })
        .await
    }

    async fn commit_offset_within(
        &self,
        id: SessionId,
        lease: Lease,
        commit: OffsetCommit,
        quota: Quota,
    ) -> Result<(), LedgerError> {
        let holder = (!commit.releases).then_some(self.process);
        self.tables()
            .commit_offset(id, lease, commit, quota, holder)
    }

    async fn end(&self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError> {
        self.tables().end(id, lease, end)
    }

    async fn apply_within(
        &self,
        changes: ChangeSet,
        quotas: OwnerQuotas,
    ) -> Result<(), LedgerError> {
        let mut tables = self.tables();
        if quotas.is_unlimited() {
            return tables.apply(changes);
        }
        let owners = changes.resources.iter().filter_map(ResourceChange::owner);
        let owners: Vec<_> = owners.map(str::to_owned).collect();
        // The change set is first made on a copy, because its usage is known only after it is made.
        let mut after = tables.clone();
        after.apply(changes)?;
        let fits = |owner: &String| {
            quotas
                .of(owner)
                .admits(tables.usage(owner), after.usage(owner))
        };
        if !owners.iter().all(fits) {
            return Err(LedgerError::OverQuota);
        }
        *tables = after;
        Ok(())
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        let key = (collection.to_owned(), id.to_owned());
        Ok(self.tables().resources.get(&key).cloned())
    }

    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        let from = match after {
            Some(id) => Bound::Excluded((collection.to_owned(), id.to_owned())),
            None => Bound::Included((collection.to_owned(), String::new())),
        };
        let tables = self.tables();
        let rest = tables.resources.range((from, Bound::Unbounded));
        let of_collection = rest.take_while(|((add_reference, _), _)| add_reference == collection);
        Ok(of_collection.take(limit).map(|(_, r)| r.clone()).collect())
    }

    async fn fetch(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<Resource>>, LedgerError> {
        let tables = self.tables();
        let found = keys.iter().map(|(collection, id)| {
            let key = ((*collection).to_owned(), (*id).to_owned());
            tables.resources.get(&key).cloned()
        });
        Ok(found.collect())
    }

    async fn claim(
        &self,
        collection: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        let mut tables = self.tables();
        let claimable = tables.of_collection(collection).filter_map(|row| {
            let due = row.due?;
            let is_abandoned = row.claimed_by.is_some_and(|by| !tables.leases.is_alive(by));
            (due <= now || is_abandoned).then(|| (due, row.id.clone()))
        });
        let mut claimable: Vec<_> = claimable.collect();
        claimable.sort();
        let mut claimed = Vec::new();
        for (_, id) in claimable.into_iter().take(limit) {
            let key = (collection.to_owned(), id);
            let row = tables.resources.get_mut(&key).expect("it was found above");
            row.due = Some(until);
            row.claimed_by = Some(self.process);
            row.version += 1;
            claimed.push(row.clone());
        }
        Ok(claimed)
    }

    async fn next_due(&self, collection: &str) -> Result<Option<Timestamp>, LedgerError> {
        let tables = self.tables();
        Ok(tables
            .of_collection(collection)
            .filter_map(|row| row.due)
            .min())
    }

    async fn count_due(&self, collection: &str) -> Result<u64, LedgerError> {
        let tables = self.tables();
        let due = tables
            .of_collection(collection)
            .filter(|row| row.due.is_some());
        Ok(due.count() as u64)
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        Ok(self.tables().small_media.get(&id).cloned())
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
        idle: Duration,
    ) -> Result<Vec<SessionId>, LedgerError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let tables = self.tables();
        let finishing = tables
            .sessions
            .range((from, Bound::Unbounded))
            .filter(|(_, session)| session.state == SessionState::Finishing)
            .filter(|(id, _)| tables.leases.is_idle(**id, self.process, idle));
        Ok(finishing.take(limit).map(|(id, _)| *id).collect())
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        Ok(self.tables().expire(now, limit))
    }

    fn retention(&self) -> Retention {
        self.tables().garbage.retention
    }

    async fn garbage(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
    ) -> Result<Vec<Garbage>, LedgerError> {
        let tables = self.tables();
        Ok(tables.garbage.due(after, limit, tables.leases.now()))
    }

    async fn deleted(
        &self,
        entries: &[GarbageId],
        again_after: Option<Duration>,
    ) -> Result<(), LedgerError> {
        let mut tables = self.tables();
        let again = again_after.map(|pause| tables.leases.now() + pause);
        for id in entries {
            tables.garbage.deleted(id, again);
        }
        Ok(())
    }

    async fn unknown_names(&self, names: &[StoredName]) -> Result<Vec<StoredName>, LedgerError> {
        let tables = self.tables();
        let unknown = names.iter().filter(|name| !tables.knows(name));
        Ok(unknown.cloned().collect())
    }

    async fn acquire_task(&self, name: &str, term: Duration) -> Result<bool, LedgerError> {
        let mut tables = self.tables();
        let now = tables.leases.now();
        let is_held = |&(holder, until): &(u64, Duration)| {
            holder != self.process && tables.leases.is_alive(holder) && until > now
        };
        // A process that was declared dead does nothing any more.
        let is_free =
            tables.leases.is_alive(self.process) && !tables.tasks.get(name).is_some_and(is_held);
        if is_free {
            let held = (self.process, now + term);
            tables.tasks.insert(name.to_owned(), held);
        }
        Ok(is_free)
    }

    async fn space(&self) -> Result<Option<Space>, LedgerError> {
        Ok(Some(SPACE))
    }

    async fn check(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// The rows. Each change checks all conditions before it changes a row.
#[derive(Debug, Clone, Default)]
struct Tables {
    sessions: BTreeMap<SessionId, Session>,
    resources: BTreeMap<(String, String), Resource>,
    small_media: BTreeMap<MediaId, Bytes>,
    garbage: GarbageList,
    /// The extents of media that is not sealed.
    extents: HashMap<MediaId, Vec<StoredExtent>>,
    /// The handles of sealed media.
    handles: HashMap<MediaId, Bytes>,
    leases: Leases,
    /// Of each task: the process that does it, and until when.
    tasks: HashMap<String, (u64, Duration)>,
    /// Number of sessions and resources that reference a media.
    references: HashMap<MediaRef, usize>,
}

impl Tables {
    fn start(&mut self, new: NewSession, quota: Quota) -> Result<Lease, LedgerError> {
        if self.sessions.contains_key(&new.id) {
            return Err(LedgerError::Conflict);
        }
        let session = Session::from(new);
        if let Some(owner) = &session.owner {
            let before = self.usage(owner);
            let after = Usage {
                sessions: before.sessions + 1,
                bytes: before.bytes + bytes_of(&session),
            };
            if !quota.admits(before, after) {
                return Err(LedgerError::OverQuota);
            }
        }
        let lease = self.leases.start(session.id);
        self.sessions.insert(session.id, session);
        Ok(lease)
    }

    fn usage(&self, owner: &str) -> Usage {
        let is_own = |of: &Option<String>| of.as_deref() == Some(owner);
        let sessions = self.sessions.values();
        let sessions = sessions.filter(|session| is_own(&session.owner));
        let resources = self.resources.values();
        let resources = resources.filter(|resource| is_own(&resource.owner));
        let of_resources: u64 = resources
            .map(|resource| {
                let media = resource.media.as_ref().map_or(0, |media| media.length);
                counted(media, resource.body.len())
            })
            .sum();
        Usage {
            sessions: sessions.clone().filter(|it| is_open(it.state)).count() as u64,
            bytes: of_resources + sessions.map(bytes_of).sum::<u64>(),
        }
    }

    fn session(&self, id: SessionId) -> Option<Session> {
        let mut session = self.sessions.get(&id)?.clone();
        session.epoch = self.leases.epoch(id);
        Some(session)
    }

    fn session_page(&self, query: &SessionQuery) -> SessionPage {
        let after = query.after.map_or(Bound::Unbounded, Bound::Excluded);
        let sessions: Box<dyn Iterator<Item = _>> = match query.order {
            SessionOrder::OldestFirst => Box::new(self.sessions.range((after, Bound::Unbounded))),
            SessionOrder::NewestFirst => {
                Box::new(self.sessions.range((Bound::Unbounded, after)).rev())
            }
        };
        let mut page = SessionPage::default();
        for (read, (id, session)) in (1..).zip(sessions) {
            let summary = SessionSummary::from(session);
            if query.selects(&summary) {
                page.sessions.push(summary);
            }
            if page.sessions.len() == query.page_len() || read == MAX_SESSIONS_READ_PER_PAGE {
                page.next = Some(*id);
                break;
            }
        }
        page
    }

    fn lease(
        &mut self,
        id: SessionId,
        process: u64,
        takeover: Takeover,
    ) -> Result<Option<Leased>, LedgerError> {
        let Some(mut session) = self.session(id) else {
            return Ok(None);
        };
        if !is_open(session.state) {
            let lease = self.leases.none(session.epoch);
            return Ok(Some(Leased {
                session,
                lease,
                extents: Vec::new(),
            }));
        }
        let lease = self.leases.take(id, process, takeover)?;
        session.epoch = lease.epoch;
        let media = session.progress.media;
        let extents = media.and_then(|media| self.extents.get(&media.id));
        Ok(Some(Leased {
            extents: extents.cloned().unwrap_or_default(),
            session,
            lease,
        }))
    }

    fn of_collection<'a>(&'a self, collection: &'a str) -> impl Iterator<Item = &'a Resource> {
        let from = Bound::Included((collection.to_owned(), String::new()));
        let rest = self.resources.range((from, Bound::Unbounded));
        rest.take_while(move |((of, _), _)| of == collection)
            .map(|(_, resource)| resource)
    }

    /// Returns the session if it is open and `lease` is its newest lease.
    fn leased(&self, id: SessionId, lease: Lease) -> Result<Session, LedgerError> {
        self.leases.check(id, lease)?;
        self.session(id)
            .filter(|session| is_open(session.state))
            .ok_or(LedgerError::Fenced)
    }

    fn leased_to_finish(&self, finish: &FinishSession) -> Result<Session, LedgerError> {
        let session = self.leased(finish.id, finish.lease)?;
        if finish.progress.offset < session.progress.offset {
            return Err(LedgerError::Fenced);
        }
        Ok(session)
    }

    fn commit_offset(
        &mut self,
        id: SessionId,
        lease: Lease,
        commit: OffsetCommit,
        quota: Quota,
        holder: Option<u64>,
    ) -> Result<(), LedgerError> {
        let mut session = self.leased(id, lease)?;
        if session.progress.offset != commit.from || commit.progress.offset < commit.from {
            return Err(LedgerError::Fenced);
        }
        let before = session.progress.media;
        let bytes_before = bytes_of(&session);
        session.progress = commit.progress;
        if let Some(owner) = &session.owner {
            let usage = self.usage(owner);
            let bytes = usage.bytes - bytes_before + bytes_of(&session);
            if !quota.admits(usage, Usage { bytes, ..usage }) {
                return Err(LedgerError::OverQuota);
            }
        }
        if let (Some(media), Some(bytes)) = (session.progress.media, commit.small_media) {
            self.small_media.insert(media.id, bytes);
        }
        session.state = commit.state;
        session.expires = commit.expires.unwrap_or(session.expires);
        if let Some(media) = session.progress.media {
            self.change_extents(media.id, &commit.extents);
        }
        self.put_session(session, holder);
        self.release(before);
        Ok(())
    }

    fn end(&mut self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError> {
        let mut session = self.leased(id, lease)?;
        let media = session.progress.media.take();
        session.progress.extent = None;
        session.progress.expected_digests = Vec::new();
        session.context = Vec::new();
        session.state = match end {
            EndSession::Cancelled => SessionState::Cancelled,
            EndSession::Failed => SessionState::Failed,
        };
        self.put_session(session, None);
        self.release(media);
        Ok(())
    }

    fn apply(&mut self, changes: ChangeSet) -> Result<(), LedgerError> {
        if changes.has_too_much_media() {
            return Err(LedgerError::TooMuchMedia);
        }
        if changes.has_too_long_key() {
            return Err(LedgerError::KeyTooLong);
        }
        let now = self.leases.time_after(Duration::ZERO);
        if changes.not_after.is_some_and(|last| last < now) {
            return Err(LedgerError::Fenced);
        }
        let leased = match &changes.finish {
            Some(finish) => Some(self.leased_to_finish(finish)?),
            None => None,
        };
        self.check_expected(&changes.expect)?;
        let versions_after = self.check_versions(&changes.resources)?;
        self.check_empty(&changes.expect_empty, &versions_after)?;
        self.check_media(&changes)?;

        let mut loose: Vec<_> = changes.incoming_media().map(Some).collect();
        self.note_handles(&changes);
        for (id, bytes) in changes.incoming_small_media() {
            self.small_media.insert(id, bytes.clone());
        }
        for change in changes.resources {
            loose.push(self.change_resource(change));
        }
        if let (Some(session), Some(finish)) = (leased, changes.finish) {
            if let Some(media) = session.progress.media {
                self.seal(media.id, &finish);
            }
            loose.push(session.progress.media);
            self.put_session(finished(session, finish), None);
        }
        // Each once: a second release would not find the handle any more.
        let loose: HashSet<_> = loose.into_iter().collect();
        for media in loose {
            self.release(media);
        }
        Ok(())
    }

    /// Checks the rows that the caller has only read.
    fn check_expected(&self, expected: &[Expected]) -> Result<(), LedgerError> {
        let is_as_expected = |expected: &Expected| {
            let key = (expected.collection.clone(), expected.id.clone());
            let resource = self.resources.get(&key);
            resource.map(|resource| resource.version) == expected.version
        };
        if expected.iter().all(is_as_expected) {
            Ok(())
        } else {
            Err(LedgerError::Conflict)
        }
    }

    /// Checks that collections are empty after the changes. `changed` has the versions that the
    /// changed resources have then.
    fn check_empty(
        &self,
        collections: &[String],
        changed: &HashMap<(&str, &str), Option<u64>>,
    ) -> Result<(), LedgerError> {
        for collection in collections {
            let from = Bound::Included((collection.clone(), String::new()));
            let before = self
                .resources
                .range((from, Bound::Unbounded))
                .map(|(key, _)| key);
            let mut unchanged = before
                .take_while(|(of, _)| of == collection)
                .filter(|(of, id)| !changed.contains_key(&(of.as_str(), id.as_str())));
            let mut written = changed.iter().filter(|(_, version)| version.is_some());
            if unchanged.next().is_some() || written.any(|((of, _), _)| of == collection) {
                return Err(LedgerError::Conflict);
            }
        }
        Ok(())
    }

    /// Checks the versions that the changes expect, in order, without changing a row. Returns the
    /// versions that the changed resources have afterwards.
    fn check_versions<'a>(
        &self,
        changes: &'a [ResourceChange],
    ) -> Result<HashMap<(&'a str, &'a str), Option<u64>>, LedgerError> {
        let mut after: HashMap<(&str, &str), Option<u64>> = HashMap::new();
        for change in changes {
            let (collection, id, expected, next) = match change {
                ResourceChange::Insert(new) => (&new.collection, &new.id, None, Some(new.version)),
                ResourceChange::Replace { resource, expected } => {
                    let Resource {
                        collection,
                        id,
                        version,
                        ..
                    } = resource;
                    (collection, id, Some(*expected), Some(*version))
                }
                ResourceChange::Delete {
                    collection,
                    id,
                    expected,
                } => (collection, id, Some(*expected), None),
            };
            let version = after.entry((collection, id)).or_insert_with(|| {
                let key = (collection.clone(), id.clone());
                self.resources.get(&key).map(|resource| resource.version)
            });
            if *version != expected {
                return Err(LedgerError::Conflict);
            }
            *version = next;
        }
        Ok(after)
    }

    /// Refuses media that no row references, since it may be deleted at any moment.
    fn check_media(&self, changes: &ChangeSet) -> Result<(), LedgerError> {
        let mut references = changes.resources.iter().filter_map(ResourceChange::media);
        let is_there = |media: MediaRef| {
            self.references.contains_key(&media) || changes.incoming_media().any(|new| new == media)
        };
        if references.all(is_there) {
            Ok(())
        } else {
            Err(LedgerError::Conflict)
        }
    }

    /// Makes a change that has been checked. Returns the media that the resource referenced before.
    fn change_resource(&mut self, change: ResourceChange) -> Option<MediaRef> {
        let (key, new) = match change {
            ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. } => {
                let key = (resource.collection.clone(), resource.id.clone());
                (key, Some(resource))
            }
            ResourceChange::Delete { collection, id, .. } => ((collection, id), None),
        };
        self.add_reference(new.as_ref().and_then(media_of));
        let old = match new {
            Some(resource) => self.resources.insert(key, resource),
            None => self.resources.remove(&key),
        };
        let media = old.as_ref().and_then(media_of);
        self.remove_reference(media);
        media
    }

    fn expire(&mut self, now: Timestamp, limit: usize) -> usize {
        let dead: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.expires < now && session.state != SessionState::Finishing)
            .take(limit)
            .map(|session| session.id)
            .collect();
        for id in &dead {
            let session = self.sessions.remove(id).expect("it was found above");
            self.leases.remove(*id);
            self.remove_reference(session.progress.media);
            self.release(session.progress.media);
        }
        dead.len()
    }

    /// Writes the row of a session, which makes its newest lease durable, too.
    fn put_session(&mut self, session: Session, holder: Option<u64>) {
        self.leases.touch(session.id, holder);
        self.add_reference(session.progress.media);
        if let Some(old) = self.sessions.insert(session.id, session) {
            self.remove_reference(old.progress.media);
        }
    }

    fn add_reference(&mut self, media: Option<MediaRef>) {
        if let Some(media) = media {
            *self.references.entry(media).or_default() += 1;
        }
    }

    fn remove_reference(&mut self, media: Option<MediaRef>) {
        let Some(media) = media else { return };
        let is_referenced = self
            .references
            .get_mut(&media)
            .expect("it was named before");
        *is_referenced -= 1;
        if *is_referenced == 0 {
            self.references.remove(&media);
        }
    }

    /// Whether a row or the garbage list names what the vault has stored under a name.
    fn knows(&self, name: &StoredName) -> bool {
        let StoredName { media: id, handle } = name;
        let is_referenced = [MediaLocation::Ledger, MediaLocation::Vault]
            .iter()
            .any(|&location| {
                self.references
                    .contains_key(&MediaRef { id: *id, location })
            });
        let is_sealed = self.handles.get(id).map_or(&[][..], |handle| handle) == handle;
        let extents = self.extents.get(id).map_or(&[][..], Vec::as_slice);
        (is_referenced && is_sealed)
            || extents.iter().any(|extent| extent.name == handle)
            || self.garbage.has(name)
    }

    /// Changes the extents of media that is not sealed. Names that no extent has any more become
    /// garbage.
    fn change_extents(&mut self, media: MediaId, changes: &ExtentChanges) {
        if changes.is_empty() {
            return;
        }
        let extents = self.extents.entry(media).or_default();
        let names_of = |extents: &[StoredExtent]| -> HashSet<Bytes> {
            extents.iter().map(|extent| extent.name.clone()).collect()
        };
        let mut gone = names_of(extents);
        gone.extend(names_of(&changes.added));
        change_extents(extents, changes);
        for name in names_of(extents) {
            gone.remove(&name);
        }
        let now = self.leases.now();
        for handle in gone {
            self.garbage.insert(StoredName { media, handle }, now);
        }
    }

    /// Forgets the extents of media that is sealed now, and notes its handle.
    fn seal(&mut self, media: MediaId, finish: &FinishSession) {
        let left = ExtentChanges {
            added: Vec::new(),
            dropped: finish.left.clone(),
        };
        self.change_extents(media, &left);
        self.extents.remove(&media);
    }

    /// Notes the handles of media that comes with a change set.
    fn note_handles(&mut self, changes: &ChangeSet) {
        for name in changes.names() {
            self.handles.insert(name.media, name.handle);
        }
    }

    /// Deletes media, or puts it on the garbage list, if nothing references it any more.
    fn release(&mut self, media: Option<MediaRef>) {
        let Some(media) = media else { return };
        if self.references.contains_key(&media) {
            return;
        }
        match media.location {
            MediaLocation::Ledger => drop(self.small_media.remove(&media.id)),
            MediaLocation::Vault => {
                let handle = self.handles.remove(&media.id);
                let extents = self.extents.remove(&media.id).unwrap_or_default();
                let of_extents = extents.into_iter().map(|extent| extent.name);
                let mut handles: Vec<_> = handle.into_iter().chain(of_extents).collect();
                if handles.is_empty() {
                    handles.push(Bytes::new());
                }
                let media = media.id;
                let now = self.leases.now();
                for handle in handles {
                    self.garbage.insert(StoredName { media, handle }, now);
                }
            }
        }
    }
}

/// Returns a session in its finished state. Its media belongs to the resource.
fn finished(session: Session, finish: FinishSession) -> Session {
    Session {
        state: SessionState::Finished,
        progress: Progress {
            media: None,
            extent: None,
            expected_digests: Vec::new(),
            ..finish.progress
        },
        reply: Some(finish.reply),
        ..session
    }
}

fn is_open(state: SessionState) -> bool {
    matches!(state, SessionState::Active | SessionState::Finishing)
}

/// Returns a session's part of [`Usage::bytes`].
fn bytes_of(session: &Session) -> u64 {
    let Progress { offset, total, .. } = session.progress;
    let media = if is_open(session.state) {
        offset.max(total.unwrap_or_default())
    } else {
        0
    };
    let reply = session.reply.as_ref().map_or(0, Vec::len);
    counted(media, session.context.len() + reply)
}

fn media_of(resource: &Resource) -> Option<MediaRef> {
    resource.media.as_ref().map(|media| media.at)
}
