//! The ledger on SQLite.
//!
//! One connection writes ([`writer`]), a few others read ([`ReaderPool`]), and SQLite's WAL lets
//! both work at the same time. Opening a ledger scans no table. The ledger never reads the wall
//! clock: callers pass the time. Waits are measured by the monotonic clock.
//!
//! Terms of these modules:
//!
//! * **Change**: a queued modification of the database ([`Change`]). A *refused* change leaves no
//!   trace in the database, and the ledger goes on.
//! * **Fault**: a failure after which nothing is promised about the database, such as a failed
//!   sync. The first one is recorded ([`FailStop`]). From then on every call fails with
//!   [`LedgerError::Fault`]. Lack of space, a lock that another connection holds, and an unreadable
//!   row are no faults.
//! * **Check of the file systems**: a sync may succeed on a file system that has stopped. So the
//!   writer checks before and after each commit that the file systems of the store have not stopped
//!   ([`SyncVerifier`]). The check after a commit *confirms* it.
//! * **Lease** and **epoch**: a lease is the right to change a session. Each new lease raises the
//!   epoch of the session. A change of a session is made only under its newest epoch. An *unwritten*
//!   epoch is in memory and not yet in the row ([`Leases`]).
//! * **Finishing**: the state of a session whose bytes are all committed, and which is not finished
//!   yet.
//! * **Media**: the bytes of an upload. *Small media* is in the ledger, all other media is in the
//!   vault. A session or a resource *references* media. Media without a reference is *released*:
//!   small media is deleted, and other media goes to the **garbage list** until the vault has
//!   deleted its file.
//! * **Page**: a page of the database, 4096 bytes. A *pending* page is in the WAL and not yet in
//!   the database.
//! * **Full checkpoint**: a checkpoint after which no page is pending. The next commit restarts the
//!   WAL: it writes from the beginning of the file again.
//! * **Reserve**: a file that occupies disk space and is shortened when a change finds none
//!   ([`Reserve`]).

mod changes;
mod committer;
mod maintenance;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
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
    ChangeSet, EndSession, Epoch, Failpoint, Ledger, LedgerError, MediaId, NewSession,
    OffsetCommit, Resource, Session, SessionId, Space, Timestamp,
};

use crate::directory::{DirectoryLock, Identity, StoreShared};
use crate::reserve::Reserve;
use crate::sync_health::{FailStop, SyncVerifier};
use crate::{Durability, OpenError, filesystem};
use changes::{Change, Leases, SHRINK_PAGES};
use committer::{Committer, WriterShared};
use rows::UnreadableRows;
use schema::SchemaError;
use wal::{CheckpointThread, PAGE_LEN, Wal, is_busy_error};
use writer::Writer;

pub(crate) use maintenance::{
    LedgerReader, Repair, ResourceRow, RowBatch, SessionRow, TableScan, copy,
};
pub(crate) use rows::is_unreadable;
pub(crate) use schema::identity_in;

/// Maximum number of concurrent reads. Nearly all are served from memory, so a few are enough.
const READERS: usize = 4;

/// Maximum number of steps by which one call of [`Ledger::space`] shortens the database: 16 MiB in
/// all.
const MAX_SHRINKS: u32 = 8;

/// A [`Ledger`] in an SQLite database.
///
/// It is opened by [`LocalStore::open`](crate::LocalStore::open). Dropping it makes the queued
/// changes and closes the database. This blocks for about the time of a commit and a checkpoint,
/// and before that for up to half a second if reads are still running whose callers have gone away.
#[derive(Debug)]
pub struct LocalLedger {
    // Fields are dropped in this order. The writer's connection must be the last one to close:
    // only it knows whether the WAL may be checkpointed and removed.
    readers: ReaderPool,
    writer: Writer,
    disk: DiskProbe,
    leases: Arc<Leases>,
    fail_stop: FailStop,
    /// Dropped last: no other process may open the directory before the database is closed.
    _lock: Arc<DirectoryLock>,
}

impl LocalLedger {
    /// Opens the ledger at `path`, or creates it, for the store with this identity.
    pub(crate) fn open(
        path: &Path,
        identity: Identity,
        shared: StoreShared,
    ) -> Result<Self, OpenError> {
        let StoreShared {
            durability,
            reserve,
            lock,
            journals,
            metrics,
        } = shared;
        let database = prepare_files(path, durability);
        let database = database.map_err(|source| OpenError::io(path, source))?;
        Failpoint::WalRewritten.reach();
        let refused = |source: SchemaError| source.at(path);
        let mut connection = schema::open_writer(path, identity, durability).map_err(refused)?;
        let readers = (0..READERS).map(|_| schema::open_reader(path));
        let readers = readers
            .collect::<Result<_, _>>()
            .map_err(|error| refused(error.into()))?;
        let checkpointing =
            schema::open_checkpointing(path, durability).map_err(|error| refused(error.into()))?;
        if durability == Durability::Disk {
            // After all connections are open, so that the WAL exists: the directory must durably
            // contain the WAL as well as the database.
            let directory = path.parent().expect("the data directory");
            filesystem::sync_directory(directory).map_err(|source| OpenError::io(path, source))?;
        }
        Failpoint::WalReplayed.reach();

        let io = |source| OpenError::io(path, source);
        let disk_len = filesystem::space(path).map_err(io)?.total;
        let wal_len = filesystem::len(&filesystem::with_suffix(path, "-wal")).map_err(io)?;
        let wal = Wal::watch(&mut connection, disk_len, wal_len)
            .map_err(|error| refused(error.into()))?;
        let (leases, fail_stop) = (Arc::<Leases>::default(), FailStop::default());
        let checkpoint_thread = CheckpointThread {
            connection: checkpointing,
            wal,
            database: database.map(Arc::new),
            fail_stop: fail_stop.clone(),
        };
        let sync_verifier = Arc::new(SyncVerifier::new(journals, fail_stop.clone()));
        // The WAL of an earlier process has been written and synced again, and replayed. That sync
        // must be confirmed before anything of the WAL is served.
        sync_verifier
            .check_file_systems()
            .map_err(|source| OpenError::Ledger {
                path: path.to_owned(),
                source,
            })?;
        let disk = DiskProbe::of(path, Arc::clone(&reserve));
        let shared = WriterShared {
            leases: Arc::clone(&leases),
            reserve,
            sync_verifier: Arc::clone(&sync_verifier),
        };
        let writer = Committer::new(connection, checkpoint_thread, shared)
            .and_then(|committer| Writer::start(committer, fail_stop.clone(), metrics))
            .map_err(|source| OpenError::io(path, source))?;
        let readers = ReaderPool::new(readers, sync_verifier, fail_stop.clone());
        Ok(Self {
            readers,
            writer,
            disk,
            leases,
            fail_stop,
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

    /// Removes free pages from the database file if the disk is short of space, so that media can
    /// use it.
    async fn shrink(&self, mut report: SpaceReport) -> Result<(), LedgerError> {
        // In steps, because other changes wait while a step is made. Their number is bounded,
        // because the caller of `space` waits for all of them.
        for _ in 0..MAX_SHRINKS {
            if !report.is_worth_shrinking() {
                break;
            }
            match self.change(Change::Shrink).await {
                Ok(()) => {}
                // Shrinking needs space in the WAL, which a full disk may not have. The next call
                // of `space` tries again.
                Err(LedgerError::NoSpace | LedgerError::Busy) => break,
                Err(error) => return Err(error),
            }
            report.free = report.free.saturating_sub(SHRINK_PAGES * PAGE_LEN);
        }
        Ok(())
    }
}

/// Creates the database file if it does not exist, and makes durable what an earlier process has
/// left in the WAL. Returns the file if checkpoints must sync it: with [`Durability::Disk`].
///
/// The WAL may end in a transaction that was written and never synced. SQLite would take it as
/// committed, and a later power cut would undo it.
fn prepare_files(path: &Path, durability: Durability) -> std::io::Result<Option<File>> {
    let file = filesystem::open_or_create(path)?;
    if durability == Durability::Os {
        return Ok(None);
    }
    filesystem::rewrite_durably(&filesystem::with_suffix(path, "-wal"))?;
    // The earlier process may have died in a checkpoint, before the database was synced.
    file.sync_all()?;
    Ok(Some(file))
}

#[async_trait]
impl Ledger for LocalLedger {
    async fn start(&self, session: NewSession) -> Result<(), LedgerError> {
        self.change(Change::Start(session)).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        // Before the row: an epoch that is written in between is then found in the row.
        let leased = self.leases.unwritten(id);
        let found = self
            .readers
            .read(move |connection| rows::session(connection, id))
            .await?;
        Ok(found.map(|session| Session {
            epoch: leased.map_or(session.epoch, |epoch| epoch.max(session.epoch)),
            ..session
        }))
    }

    async fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.writer.lease(id).await
    }

    async fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        commit: OffsetCommit,
    ) -> Result<(), LedgerError> {
        self.change(Change::OffsetCommit { id, epoch, commit })
            .await
    }

    async fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> Result<(), LedgerError> {
        self.change(Change::End { id, epoch, end }).await
    }

    async fn apply(&self, changes: ChangeSet) -> Result<(), LedgerError> {
        self.change(Change::Apply(changes)).await
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

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        let query = move |connection: &_| rows::small_media(connection, id);
        Ok(self.readers.read(query).await?.map(Bytes::from))
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>, LedgerError> {
        // Every id is greater than the empty blob.
        let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
        // State 1 is finishing. It is a literal, because SQLite does not use the partial index for
        // a parameter. An id of another length is skipped, so that one damaged row does not keep
        // the others from being found.
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
        self.writer.change(Change::Expire { now, limit }).await
    }

    async fn garbage(
        &self,
        after: Option<MediaId>,
        limit: usize,
    ) -> Result<Vec<MediaId>, LedgerError> {
        let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
        let query = move |connection: &Connection| {
            connection
                .prepare_cached(
                    "SELECT media FROM garbage WHERE media > ?1 AND length(media) = 16 ORDER BY media LIMIT ?2",
                )?
                .query_map(params![after, rows::sql_limit(limit)], |row| row.get(0))?
                .map(|id| id.map(MediaId::from_bytes))
                .collect()
        };
        self.readers.read(query).await
    }

    async fn forget_garbage(&self, ids: &[MediaId]) -> Result<(), LedgerError> {
        self.change(Change::ForgetGarbage(ids.to_vec())).await
    }

    async fn unknown_media(&self, ids: &[MediaId]) -> Result<Vec<MediaId>, LedgerError> {
        let ids = ids.to_vec();
        self.readers
            .read(move |connection| rows::unknown_media(connection, ids))
            .await
    }

    async fn space(&self) -> Result<Space, LedgerError> {
        let disk = self.disk.clone();
        let probed = self
            .readers
            .read(move |connection| {
                let database = DatabaseLen::of(connection)?;
                Ok(disk.probe(database))
            })
            .await?;
        // Fails this call only, and does not stop the ledger: a failed measurement loses no data.
        let report = probed.map_err(|error| LedgerError::Fault(Arc::new(error)))?;
        self.shrink(report).await?;
        // Measured before the shrinking: the file becomes shorter only with the next checkpoint.
        Ok(report.space)
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.fail_stop.fail_if_tripped().map_err(LedgerError::Fault)
    }
}

/// How long closing a ledger waits for reads whose callers have gone away.
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
    /// One permit for each idle connection.
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

    /// Runs a query and confirms the commit that it has seen.
    ///
    /// # Errors
    /// [`LedgerError::Unreadable`] if a value of a row cannot be converted, and
    /// [`LedgerError::Busy`] if another connection holds a lock: the ledger goes on after both.
    /// Every other error is a fault, since nothing is promised about a database that cannot be
    /// read.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.fail_stop
            .fail_if_tripped()
            .map_err(LedgerError::Fault)?;
        // The permit is taken before the thread, so that a read which waits for a connection
        // occupies no thread.
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (idle, sync_verifier) = (Arc::clone(&self.idle), Arc::clone(&self.sync_verifier));
        let task = tokio::task::spawn_blocking(move || {
            let lock = || idle.lock().expect("nothing panics while it is held");
            let connection = lock().pop().expect("there are as many as permits");
            let result = query(&connection);
            // After the query, because the last commit that it has seen may not be confirmed yet.
            let result = result.map(|found| sync_verifier.confirm_read().map(|()| found));
            lock().push(connection);
            // After the connection is back in the pool: a permit means that one is idle.
            drop(permit);
            result
        });
        match task.await {
            Ok(Ok(found)) => found.map_err(LedgerError::Fault),
            Ok(Err(error)) if is_busy_error(&error) => Err(LedgerError::Busy),
            Ok(Err(error)) if self.unreadable_rows.log(&error) => Err(LedgerError::Unreadable),
            Ok(Err(error)) => Err(LedgerError::Fault(self.fail_stop.trip(error))),
            // A panic is a fault, too: it has dropped the connection and freed the permit, so there
            // are more permits than connections now.
            Err(panic) => Err(LedgerError::Fault(self.fail_stop.trip(panic))),
        }
    }
}

/// Waits for reads whose callers have gone away, for half a second at most.
///
/// While such a read has its connection, the writer's connection is not the last one to close.
/// SQLite then does not remove the WAL, and the next start replays it.
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

/// Minimum number of free bytes in the database file for which it is shrunk, however full the disk
/// is.
const MIN_SHRINK: u64 = 256 << 10;

/// The database is shrunk only if its free bytes are at least this fraction of the space that is
/// available on the disk: a 16th.
const FREE_FRACTION: u64 = 16;

/// Measures the free space on the disk and in the database.
#[derive(Debug, Clone)]
struct DiskProbe {
    database: PathBuf,
    reserve: Arc<Reserve>,
}

impl DiskProbe {
    fn of(database: &Path, reserve: Arc<Reserve>) -> Self {
        Self {
            database: database.to_owned(),
            reserve,
        }
    }

    /// Measures the free space, and refills the reserve if the disk has plenty. `database` is the
    /// length of the database as of the last commit.
    fn probe(&self, database: DatabaseLen) -> io::Result<SpaceReport> {
        let space = filesystem::space(&self.database)?;
        let file_len = self.database.metadata()?.len();
        // A checkpoint will make the file longer by the pages at its end that only the WAL has.
        // Their space is not available for anything else.
        let available = space
            .available
            .saturating_sub(database.total.saturating_sub(file_len));
        self.reserve.refill(available);
        Ok(SpaceReport {
            space: Space { available, ..space },
            free: database.free + file_len.saturating_sub(database.total),
        })
    }
}

/// Space on the disk and in the database.
#[derive(Debug, Clone, Copy)]
struct SpaceReport {
    space: Space,
    /// Number of bytes of the database file that hold no data: free pages, and pages that the
    /// database does not have any more.
    free: u64,
}

impl SpaceReport {
    /// Returns whether the disk would gain noticeable space if the database were shrunk.
    fn is_worth_shrinking(self) -> bool {
        self.free >= MIN_SHRINK && self.free >= self.space.available / FREE_FRACTION
    }
}

/// Length of the database in bytes, including pages that only the WAL has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DatabaseLen {
    total: u64,
    /// Number of bytes in free pages: deleted rows have left them, and SQLite uses them for new
    /// ones.
    free: u64,
}

impl DatabaseLen {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let bytes = |pragma| {
            let pages = connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            pages.map(|pages| pages.unsigned_abs() * PAGE_LEN)
        };
        Ok(Self {
            total: bytes("page_count")?,
            free: bytes("freelist_count")?,
        })
    }
}
