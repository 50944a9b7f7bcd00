//! The ledger on SQLite.
//!
//! One connection makes all changes ([`committer`]), one copies the WAL into the database file
//! ([`wal`]), and a few others read ([`ReaderPool`]). SQLite's WAL lets all of them work at the
//! same time. Opening a ledger scans no table, unless it is upgraded. Callers pass the time. The
//! ledger reads the wall clock only to keep released media for a time ([`garbage`]). Waits are
//! measured by the monotonic clock.
//!
//! Terms of these modules:
//!
//! * **Session**: one upload, from its start until its row is deleted after its expiry. It is
//!   *open* while it is *active* (bytes are accepted) or *finishing* (all bytes are committed, and
//!   the resource is not created yet). A change set *finishes* it: one transaction creates the
//!   resource and makes the state *finished*. [`Change::End`] *ends* it without a resource: the
//!   state becomes *cancelled* or *failed*. A finished session is not called ended.
//! * **Resource**: a JSON document, which may describe media. It is in a **collection**: a group of
//!   resources with a name, such as `farm/v1/animals`. Its id is unique in the collection.
//! * **Media**: the bytes of an upload. *Small media* is in the ledger, all other media is in the
//!   vault. A session or a resource *references* media. Media that loses its last reference is
//!   *released*: small media is deleted, and other media goes to the **garbage list** until the
//!   vault has deleted its file. The references to each media are counted ([`references`]). The id of media is *unknown* if nothing references it and it is
//!   not on the list. A file in the vault whose id is unknown is an *orphan*.
//! * **Writer**: the thread that makes all changes ([`writer`]). Its [`committer`] owns the
//!   connection.
//! * **Change**: a queued modification of the database ([`Change`]). A *refused* change leaves no
//!   trace in the database, and the ledger continues to work. A **change set** ([`ChangeSet`]) is
//!   one change that may modify several resources and finish a session.
//! * **Commit**: the SQL statement COMMIT, which makes the changes of one transaction durable. To
//!   *commit an offset* is one kind of change ([`Change::OffsetCommit`]).
//! * **Durability**: with [`Durability::Disk`] every commit is synced, so that it survives a power
//!   cut. With [`Durability::Os`] nothing is ever synced, and file systems are not checked. A
//!   commit then survives the end of the process only.
//! * **Fault**: a failure after which nothing is promised about the database, such as a failed
//!   sync. The first fault is recorded ([`FailStop`]). From then on every call fails with
//!   [`LedgerError::Fault`]. Lack of space, a lock that another connection holds, and an unreadable
//!   row are no faults. A file system that [`Ledger::space`] cannot measure is not recorded as a
//!   fault, although that call returns [`LedgerError::Fault`]. An exhausted quota is a fault:
//!   SQLite does not tell it from other I/O errors.
//! * **Stopped file system**: a file system that could not write its own journal and has shut down.
//!   From then on it refuses all changes, but a sync may still succeed, although the bytes are
//!   lost. So the writer asks the file systems of ledger and vault whether they have stopped,
//!   before and after each commit ([`SyncVerifier`]). The check after a commit *confirms* it. A
//!   read that may have seen an *unconfirmed* commit makes the check itself.
//! * **Lease** and **epoch**: a lease is the right to commit offsets of a session, and to finish or
//!   end it. Each new lease raises the epoch of the session, and these changes are made only under
//!   the newest epoch. Expiry needs no lease. An *unwritten* epoch is in memory and not yet in the
//!   row ([`UnwrittenEpochs`]). The id of a lease names the opening as well, so that a lease of an
//!   earlier opening is refused although its epoch may have been given out again.
//! * **Identity**: 128 random bits that the ledger and the vault of one store have in common
//!   ([`Identity`]). Code that opens a store compares them first ([`identity_in`]). It refuses a
//!   vault that belongs to another store, or that is missing, for example because its disk is not
//!   mounted. This module writes the identity into a new database and compares nothing.
//! * **Database**: the content that a transaction sees. Its pages of 4096 bytes are in the
//!   **database file**, `ledger.sqlite`, and in the WAL. A *pending* page is in the WAL and not yet
//!   in the database file. Whenever a page is written, it is appended to the WAL. Counts of pages
//!   in the WAL include all of these copies: a page that was written twice counts twice.
//! * **Complete checkpoint**: a checkpoint after which no page is pending. The next commit then
//!   *restarts* the WAL: the commit writes from the beginning of the WAL file again. If a reader
//!   still uses the WAL, a later commit does so. All checkpoints run in SQLite's mode `PASSIVE`,
//!   which waits for no other connection.
//! * **Replay**: at opening, SQLite reads the WAL that an earlier process has left and builds its
//!   index, so that its commits are part of the database. Its pages stay pending.
//! * **Reserve**: a file that only occupies disk space. When changes find no space, the file is
//!   shortened, step by step, and the changes are repeated ([`Reserve`]). Finishes, and commits of
//!   offsets that bring no small media, may use one half of it. Changes that free space may use
//!   three quarters ([`Purpose`](crate::reserve::Purpose)). The rest is for the next opening of the
//!   database. All other changes may use none of it.
//! * **Failpoint**: `Failpoint::X.reach()` marks a moment at which tests kill the process. In a
//!   build without the feature `failpoints` it does nothing.

mod changes;
mod claims;
mod committer;
mod extents;
mod garbage;
mod maintenance;
mod references;
mod release;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod usage;
mod wal;
mod writer;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, params};
use tokio::sync::Semaphore;
use windlass_store::{
    ChangeSet, EndSession, Epoch, Failpoint, Garbage, GarbageId, Lease, LeaseId, Leased, Ledger,
    LedgerError, MediaId, NewSession, OffsetCommit, OwnerQuotas, Quota, Resource, Retention,
    Session, SessionId, SessionPage, SessionQuery, Space, StoredName, Takeover, Timestamp, Usage,
};

use crate::directory::{DirectoryLock, Identity, StoreShared};
use crate::reserve::Reserve;
use crate::sync_health::{FailStop, SyncVerifier};
use crate::{Durability, OpenError, filesystem};
use changes::{Change, Made, SHRINK_PAGES, locked};
use committer::{Committer, WriterShared};
use rows::{UnreadableRows, UnwrittenEpochs};
use schema::SchemaError;
use wal::{CheckpointThread, PAGE_LEN, Wal, is_busy_error};
use writer::Writer;

pub(crate) use maintenance::{
    LedgerReader, Miscount, Repair, ResourceRow, RowBatch, SessionRow, StoredResource, TableScan,
    copy,
};
pub(crate) use rows::is_conversion_error;
pub(crate) use schema::identity_in;

/// Maximum number of concurrent reads. Nearly all are served from memory, so a few are enough.
const READERS: usize = 4;

/// Maximum number of [`Change::Shrink`] that one call of [`Ledger::space`] makes. Together they
/// shorten the database by up to 16 MiB.
const MAX_SHRINKS: u32 = 8;

/// The epoch of a session that was just started.
const FIRST_EPOCH: Epoch = Epoch(0);

/// A [`Ledger`] in an SQLite database.
///
/// It is opened by [`LocalStore::open`](crate::LocalStore::open). Dropping it waits
/// up to half a second for reads whose futures were dropped. Then it makes the queued changes and
/// closes the database, which blocks for about the time of a commit and a checkpoint.
#[derive(Debug)]
pub struct LocalLedger {
    // Fields are dropped in this order, because the writer's connection must be the last one to
    // close. The writer closes the checkpoint thread's connection before its own. SQLite
    // checkpoints the WAL and removes it when the last connection closes, if that connection allows
    // it. The writer's connection allows it unless there was a fault. The readers' connections
    // never allow it.
    readers: ReaderPool,
    writer: Writer,
    space_probe: SpaceProbe,
    unwritten_epochs: Arc<UnwrittenEpochs>,
    fail_stop: FailStop,
    retention: Retention,
    /// A random number, see [`Ledger::opening`].
    opening: u64,
    /// Dropped last: no other process may open the directory before the database is closed.
    _lock: Arc<DirectoryLock>,
}

impl LocalLedger {
    /// Opens the ledger at `path`, or creates it with this identity. The caller has compared the
    /// identity of an existing ledger.
    pub(crate) fn open(
        path: &Path,
        identity: Identity,
        store: StoreShared,
    ) -> Result<Self, OpenError> {
        let StoreShared {
            durability,
            reserve,
            lock,
            stop_probes,
            recorder,
            retention,
            // The files were checked before.
            allow_shared_data: _,
        } = store;
        let io_error = |source| OpenError::io(path, source);
        let schema_error = |source: SchemaError| source.at(path);
        let database_file = prepare_files(path, durability).map_err(io_error)?;
        // Also reached if there was no WAL to rewrite, and with `Durability::Os`.
        Failpoint::WalRewritten.reach();
        let mut connection =
            schema::open_writer(path, identity, durability).map_err(schema_error)?;
        let readers = (0..READERS).map(|_| schema::open_reader(path));
        let readers = readers
            .collect::<Result<_, _>>()
            .map_err(|error| schema_error(error.into()))?;
        let checkpointing = schema::open_checkpointing(path, durability)
            .map_err(|error| schema_error(error.into()))?;
        if durability == Durability::Disk {
            // After all connections are open, so that the WAL exists: the directory must durably
            // contain the names of the WAL and of the database file.
            let directory = path.parent().expect("the data directory");
            filesystem::sync_directory(directory).map_err(io_error)?;
        }
        Failpoint::WalReplayed.reach();

        let disk_len = filesystem::space(path).map_err(io_error)?.total;
        let wal_len = filesystem::len(&filesystem::with_suffix(path, "-wal")).map_err(io_error)?;
        let wal = Wal::watch(&mut connection, disk_len, wal_len)
            .map_err(|error| schema_error(error.into()))?;
        let unwritten_epochs = Arc::<UnwrittenEpochs>::default();
        let fail_stop = FailStop::default();
        let checkpoint_thread = CheckpointThread {
            connection: checkpointing,
            wal,
            database_file: database_file.map(Arc::new),
            fail_stop: fail_stop.clone(),
        };
        let sync_verifier = Arc::new(SyncVerifier::new(stop_probes, fail_stop.clone()));
        // `prepare_files` has synced the WAL that an earlier process left, and the connections have
        // replayed it. The check tells whether that sync can be relied on, so no content of the WAL
        // is served before it. With `Durability::Os` there was no sync, and nothing is checked.
        sync_verifier
            .check_file_systems()
            .map_err(|source| OpenError::Ledger {
                path: path.to_owned(),
                source,
            })?;
        let space_probe = SpaceProbe::of(path, Arc::clone(&reserve));
        let shared = WriterShared {
            unwritten_epochs: Arc::clone(&unwritten_epochs),
            reserve,
            sync_verifier: Arc::clone(&sync_verifier),
            retention,
        };
        let writer = Committer::new(connection, checkpoint_thread, shared)
            .and_then(|committer| Writer::start(committer, fail_stop.clone(), recorder))
            .map_err(io_error)?;
        let readers = ReaderPool::new(readers, sync_verifier, fail_stop.clone());
        Ok(Self {
            readers,
            writer,
            space_probe,
            unwritten_epochs,
            fail_stop,
            retention,
            opening: getrandom::u64().expect("the system has random numbers"),
            _lock: lock,
        })
    }

    /// Returns the number of transactions committed since the start. One transaction may carry many
    /// changes.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    async fn change(&self, change: Change) -> Result<(), LedgerError> {
        self.writer.change(change).await.map(drop)
    }

    /// Returns the lease with this epoch. Its id is the number of this opening, which is random,
    /// followed by the epoch: no other lease of the session has it, in this opening or another one.
    fn lease_of(&self, epoch: Epoch) -> Lease {
        let [opening, number] = [self.opening, epoch.0].map(u128::from);
        Lease {
            id: LeaseId::from_bytes((opening << 64 | number).to_be_bytes()),
            epoch,
        }
    }

    /// Returns the epoch of a lease. Refuses a lease of an earlier opening.
    fn epoch_of(&self, lease: Lease) -> Result<Epoch, LedgerError> {
        if lease == self.lease_of(lease.epoch) {
            Ok(lease.epoch)
        } else {
            Err(LedgerError::Fenced)
        }
    }

    /// Removes free pages from the database if the disk is short of space, so that media can use
    /// it.
    async fn shrink(&self, mut report: SpaceReport) -> Result<(), LedgerError> {
        // In several changes, because all other changes wait while one of them is made. The number
        // of these changes is bounded, because the caller of `space` waits for all of them.
        for _ in 0..MAX_SHRINKS {
            if !report.is_worth_shrinking() {
                break;
            }
            match self.change(Change::Shrink).await {
                Ok(()) => {}
                // Shrinking needs space in the WAL, which a full disk may not have. The next call
                // of `space` tries again.
                Err(LedgerError::NoSpace | LedgerError::Unavailable(_)) => break,
                Err(error) => return Err(error),
            }
            report.reclaimable = report.reclaimable.saturating_sub(SHRINK_PAGES * PAGE_LEN);
        }
        Ok(())
    }
}

/// Creates the database file if it does not exist. With [`Durability::Disk`], makes the WAL durable
/// that an earlier process may have left, and returns the database file for checkpoints to sync.
/// With [`Durability::Os`] returns `None`.
///
/// The WAL of a process that was killed may end in a transaction that was written and never synced.
/// SQLite takes it as committed, so it must not be undone by a later power cut. A sync alone does
/// not ensure that. If the earlier process could not write the pages of the file to the disk, Linux
/// has marked them as clean all the same, and a sync skips clean pages. So the whole WAL is written
/// over itself, which marks its pages as dirty, and is then synced.
fn prepare_files(path: &Path, durability: Durability) -> std::io::Result<Option<File>> {
    let file = filesystem::open_or_create(path)?;
    if durability == Durability::Os {
        return Ok(None);
    }
    filesystem::rewrite_durably(&filesystem::with_suffix(path, "-wal"))?;
    // A precaution. The earlier process may have died in a checkpoint, before it synced the
    // database file, but the WAL still has those pages.
    file.sync_all()?;
    Ok(Some(file))
}

#[async_trait]
impl Ledger for LocalLedger {
    fn opening(&self) -> Option<u64> {
        Some(self.opening)
    }

    async fn start_within(&self, session: NewSession, quota: Quota) -> Result<Lease, LedgerError> {
        self.change(Change::Start(session, quota)).await?;
        Ok(self.lease_of(FIRST_EPOCH))
    }

    async fn usage(&self, owner: &str) -> Result<Usage, LedgerError> {
        let owner = owner.to_owned();
        let query = move |connection: &Connection| usage::of_owner(connection, &owner);
        self.readers.read(query).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        // Memory is looked at before the row, because a commit moves an epoch from memory into the
        // row. If that happens in between, the row has the epoch as well. In the reverse order, the
        // epoch would be found in neither.
        let unwritten = self.unwritten_epochs.get(id);
        let found = self
            .readers
            .read(move |connection| rows::session(connection, id))
            .await?;
        Ok(found.map(|session| Session {
            epoch: unwritten.map_or(session.epoch, |epoch| epoch.max(session.epoch)),
            ..session
        }))
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, LedgerError> {
        let query = query.clone();
        self.readers
            .read(move |connection| rows::sessions(connection, &query))
            .await
    }

    /// No other process can work on a session, so there is nobody to ask.
    async fn lease_by(&self, id: SessionId, _: Takeover) -> Result<Option<Leased>, LedgerError> {
        let found = self.writer.lease(id).await?;
        Ok(found.map(|(session, extents)| Leased {
            lease: self.lease_of(session.epoch),
            session,
            extents,
        }))
    }

    async fn commit_offset_within(
        &self,
        id: SessionId,
        lease: Lease,
        commit: OffsetCommit,
        quota: Quota,
    ) -> Result<(), LedgerError> {
        let epoch = self.epoch_of(lease)?;
        let change = Change::OffsetCommit {
            id,
            epoch,
            commit,
            quota,
        };
        self.change(change).await
    }

    async fn end(&self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError> {
        let epoch = self.epoch_of(lease)?;
        self.change(Change::End { id, epoch, end }).await
    }

    async fn apply_within(
        &self,
        changes: ChangeSet,
        quotas: OwnerQuotas,
    ) -> Result<(), LedgerError> {
        if let Some(finish) = &changes.finish {
            self.epoch_of(finish.lease)?;
        }
        let changes = Box::new(changes);
        self.change(Change::Apply { changes, quotas }).await
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        let (collection, id) = (collection.to_owned(), id.to_owned());
        self.readers
            .read(move |connection| rows::resource(connection, &collection, &id))
            .await
    }

    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        let (collection, after) = (collection.to_owned(), after.map(str::to_owned));
        let query =
            move |connection: &_| rows::resources(connection, &collection, after.as_deref(), limit);
        self.readers.read(query).await
    }

    async fn fetch(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<Resource>>, LedgerError> {
        let owned = |(collection, id): &(&str, &str)| ((*collection).to_owned(), (*id).to_owned());
        let keys: Vec<_> = keys.iter().map(owned).collect();
        self.readers
            .read(move |connection| rows::fetch(connection, &keys))
            .await
    }

    async fn claim(
        &self,
        collection: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        let (collection, opening) = (collection.to_owned(), self.opening);
        // Nearly always no row is due, and a change would wake the writer.
        let of = collection.clone();
        let is_any = move |connection: &_| claims::is_any_claimable(connection, &of, now, opening);
        if !self.readers.read(is_any).await? {
            return Ok(Vec::new());
        }
        let change = Change::Claim {
            collection,
            now,
            until,
            limit,
            opening,
        };
        match self.writer.change(change).await? {
            Made::Claimed(claimed) => Ok(claimed),
            Made::Nothing | Made::Expired(_) => Ok(Vec::new()),
        }
    }

    async fn next_due(&self, collection: &str) -> Result<Option<Timestamp>, LedgerError> {
        let collection = collection.to_owned();
        self.readers
            .read(move |connection| claims::next_due(connection, &collection))
            .await
    }

    async fn count_due(&self, collection: &str) -> Result<u64, LedgerError> {
        let collection = collection.to_owned();
        self.readers
            .read(move |connection| claims::count_due(connection, &collection))
            .await
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        let query = move |connection: &_| rows::small_media(connection, id);
        Ok(self.readers.read(query).await?.map(Bytes::from))
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
        _: Duration,
    ) -> Result<Vec<SessionId>, LedgerError> {
        // Every id is greater than the empty blob.
        let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
        // State 1 is finishing. It is a literal, so that SQLite can use the partial index
        // `sessions_finishing`. With a parameter it could do so only by preparing the statement
        // again for each value. An id of another length is skipped, so that one damaged row does
        // not hide all further rows.
        let query = move |connection: &Connection| {
            connection
                .prepare_cached(
                    "SELECT id FROM sessions WHERE state = 1 AND id > ?1 AND length(id) = 32 ORDER BY id LIMIT ?2",
                )?
                .query_map(params![after, rows::sql_limit(limit)], |row| row.get(0))?
                .map(|id| id.map(SessionId::from_bytes))
                .collect()
        };
        self.readers.read(query).await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        match self.writer.change(Change::Expire { now, limit }).await? {
            Made::Expired(sessions) => Ok(sessions.len()),
            Made::Nothing | Made::Claimed(_) => Ok(0),
        }
    }

    fn retention(&self) -> Retention {
        self.retention
    }

    async fn garbage(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
    ) -> Result<Vec<Garbage>, LedgerError> {
        let after = after.cloned();
        self.readers
            .read(move |connection| garbage::due(connection, after.as_ref(), limit))
            .await
    }

    async fn deleted(
        &self,
        entries: &[GarbageId],
        again_after: Option<Duration>,
    ) -> Result<(), LedgerError> {
        let entries = entries.to_vec();
        let change = Change::Deleted {
            entries,
            again_after,
        };
        self.change(change).await
    }

    async fn unknown_names(&self, names: &[StoredName]) -> Result<Vec<StoredName>, LedgerError> {
        let names = names.to_vec();
        self.readers
            .read(move |connection| references::unknown_names(connection, names))
            .await
    }

    async fn space(&self) -> Result<Option<Space>, LedgerError> {
        let space_probe = self.space_probe.clone();
        let probed = self
            .readers
            .read(move |connection| {
                let size = DatabaseSize::of(connection)?;
                Ok(space_probe.probe(size))
            })
            .await?;
        // Not recorded in `fail_stop`, so only this call fails: a file system that cannot be
        // measured loses no data.
        let report = probed.map_err(|error| LedgerError::Fault(Arc::new(error)))?;
        self.shrink(report).await?;
        // Measured before the shrinking, which shortens the file only at a later checkpoint.
        Ok(Some(report.space))
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.fail_stop.fail_if_tripped().map_err(LedgerError::Fault)
    }
}

/// Maximum wait of a closing ledger for reads with dropped futures.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// How often closing a ledger checks whether those reads have ended.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The connections that only read.
///
/// Reads run on tokio's blocking threads. Each sees the last commit. A read does not wait for the
/// writer and does not delay it.
#[derive(Debug)]
struct ReaderPool {
    /// Connections that no read uses. Every running read has a clone of this `Arc`.
    idle: Arc<Mutex<Vec<Connection>>>,
    /// One permit for each idle connection. After a panic of a read, which is a fault, there is one
    /// permit too many.
    permits: Arc<Semaphore>,
    sync_verifier: Arc<SyncVerifier>,
    fail_stop: FailStop,
    unreadable_rows: UnreadableRows,
    close_timeout: Duration,
}

impl ReaderPool {
    fn new(
        connections: Vec<Connection>,
        sync_verifier: Arc<SyncVerifier>,
        fail_stop: FailStop,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self {
            idle: Arc::new(Mutex::new(connections)),
            permits,
            sync_verifier,
            fail_stop,
            unreadable_rows: UnreadableRows::default(),
            close_timeout: CLOSE_TIMEOUT,
        }
    }

    /// Runs a query. If the last commit is unconfirmed, checks the file systems before the result
    /// is returned.
    ///
    /// # Errors
    /// [`LedgerError::Unreadable`] if a value of a row cannot be converted, and
    /// [`LedgerError::Unavailable`] if another connection holds a lock. The ledger continues to work
    /// after both. Every further error is a fault, since nothing is promised about a database that
    /// cannot be read.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.fail_stop
            .fail_if_tripped()
            .map_err(LedgerError::Fault)?;
        // Acquired before the blocking thread, so that a read which waits for a connection occupies
        // no thread.
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (idle, sync_verifier) = (Arc::clone(&self.idle), Arc::clone(&self.sync_verifier));
        let task = tokio::task::spawn_blocking(move || {
            let lock = || idle.lock().expect("nothing panics while it is held");
            let connection = lock().pop();
            // Panics only after another read has panicked and dropped its connection. That was a
            // fault, so this read fails as well.
            let connection = connection.expect("there is one for each permit");
            let result = query(&connection);
            // After the query, because the last commit that it has seen may be unconfirmed.
            let result = result.map(|found| sync_verifier.confirm_read().map(|()| found));
            // Before the permit is dropped: one means that a connection is idle.
            lock().push(connection);
            (result, permit)
        });
        // The permit is dropped here, after the caller has been resumed. Otherwise, unprocessed
        // rows would pile up where reading is faster than their processing.
        let result = task.await.map(|(result, _permit)| result);
        match result {
            Ok(Ok(found)) => found.map_err(LedgerError::Fault),
            Ok(Err(error)) if is_busy_error(&error) => Err(locked()),
            Ok(Err(error)) if self.unreadable_rows.log(&error) => Err(LedgerError::Unreadable),
            Ok(Err(error)) => Err(LedgerError::Fault(self.fail_stop.trip(error))),
            // A panic is a fault, too. It has dropped the connection and returned the permit.
            Err(panic) => Err(LedgerError::Fault(self.fail_stop.trip(panic))),
        }
    }
}

/// Waits for reads with dropped futures, for at most half a second.
///
/// Such a read runs to its end on a blocking thread and keeps its connection open until then. The
/// writer's connection, which closes next, should be the last one. If it is not, SQLite does not
/// remove the WAL, and the next start replays it.
impl Drop for ReaderPool {
    fn drop(&mut self) {
        let started = Instant::now();
        // Each running read has a clone of `idle`. The count is polled, because a drop cannot await
        // a task.
        while Arc::strong_count(&self.idle) > 1 && started.elapsed() < self.close_timeout {
            std::thread::sleep(CLOSE_POLL_INTERVAL);
        }
    }
}

/// The database is shrunk only if that frees at least this number of bytes, however full the disk
/// is.
const MIN_SHRINK: u64 = 256 << 10;

/// The database is shrunk only if that frees at least this fraction of the space that is available
/// on the disk: a 16th.
const SHRINK_FRACTION: u64 = 16;

/// Measures the available space on the disk, and the space that shrinking the database would add.
#[derive(Debug, Clone)]
struct SpaceProbe {
    /// Path of the database file.
    path: PathBuf,
    reserve: Arc<Reserve>,
}

impl SpaceProbe {
    fn of(path: &Path, reserve: Arc<Reserve>) -> Self {
        Self {
            path: path.to_owned(),
            reserve,
        }
    }

    /// Measures, and refills the reserve if the disk has plenty of space. `size` is the size of the
    /// database as of the last commit.
    fn probe(&self, size: DatabaseSize) -> io::Result<SpaceReport> {
        let space = filesystem::space(&self.path)?;
        let file_len = self.path.metadata()?.len();
        // If the database is longer than its file, the pages at its end are only in the WAL. The
        // next checkpoint needs this space to lengthen the file, so it is not available.
        let available = space
            .available
            .saturating_sub(size.all_bytes.saturating_sub(file_len));
        self.reserve.refill(available);
        Ok(SpaceReport {
            space: Space { available, ..space },
            reclaimable: size.free_bytes + file_len.saturating_sub(size.all_bytes),
        })
    }
}

/// The result of [`SpaceProbe::probe`].
#[derive(Debug, Clone, Copy)]
struct SpaceReport {
    space: Space,
    /// Number of bytes by which the database file would become shorter if the database were shrunk
    /// as far as possible: the free pages of the database, plus the part of the file behind the end
    /// of the database. The next complete checkpoint cuts that part off anyway.
    reclaimable: u64,
}

impl SpaceReport {
    /// Returns whether the disk would gain noticeable space if the database were shrunk.
    fn is_worth_shrinking(self) -> bool {
        self.reclaimable >= MIN_SHRINK && self.reclaimable >= self.space.available / SHRINK_FRACTION
    }
}

/// Size of the database, including pages that are only in the WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DatabaseSize {
    /// Number of bytes in all pages, which is the length of the database.
    all_bytes: u64,
    /// Number of bytes in free pages. Deleted rows have left them, and SQLite reuses them for new
    /// rows.
    free_bytes: u64,
}

impl DatabaseSize {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        // One snapshot, so that the two numbers belong together.
        let snapshot = connection.unchecked_transaction()?;
        let bytes = |pragma| {
            let pages = snapshot.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            pages.map(|pages| pages.unsigned_abs() * PAGE_LEN)
        };
        Ok(Self {
            all_bytes: bytes("page_count")?,
            free_bytes: bytes("freelist_count")?,
        })
    }
}
