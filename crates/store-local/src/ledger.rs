//! The ledger on SQLite.
//!
//! One connection writes ([`writer`]), a few others read ([`readers`]), and SQLite's WAL keeps
//! them apart. Nothing here reads a clock, and nothing walks a table at the start.

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
use rows::Unreadable;
use schema::SchemaError;
use wal::{CheckpointThread, PAGE_LEN, Wal, is_busy};
use writer::Writer;

pub(crate) use maintenance::{
    LedgerSnapshot, Page, Repair, ResourceRow, SessionRow, TableScan, copy,
};
pub(crate) use rows::is_unreadable;
pub(crate) use schema::identity_in;

/// Reads that run at once. They come from the page cache almost always, so few are enough.
const READERS: usize = 4;

/// Steps in which unused pages are given back after one look at the disk: 16 MiB in all.
const SHRINK_STEPS: u32 = 8;

/// A [`Ledger`] in an SQLite database.
///
/// Made by [`LocalStore::open`](crate::LocalStore::open). Dropping it finishes what was queued and
/// closes the database; that may take the time of a commit and of a checkpoint.
#[derive(Debug)]
pub struct LocalLedger {
    // Dropped in this order: the last connection that closes is the writer's, which checkpoints.
    readers: Readers,
    writer: Writer,
    room: Room,
    leases: Arc<Leases>,
    fail_stop: FailStop,
    _lock: Arc<DirectoryLock>,
}

impl LocalLedger {
    /// Opens the ledger in `path`, made now if it does not exist, of the store of this identity.
    pub(crate) fn open(
        path: &Path,
        identity: Identity,
        keep: StoreShared,
    ) -> Result<Self, OpenError> {
        let StoreShared {
            durability,
            reserve,
            lock,
            journals,
        } = keep;
        let database = prepare_files(path, durability);
        let database = database.map_err(|source| OpenError::io(path, source))?;
        Failpoint::WalRewritten.reach();
        let refused = |source: SchemaError| source.at(path);
        let mut connection = schema::open_writer(path, identity, durability).map_err(refused)?;
        let readers = (0..READERS).map(|_| schema::open_reader(path));
        let readers = readers
            .collect::<Result<_, _>>()
            .map_err(|error| refused(error.into()))?;
        let copier =
            schema::open_copier(path, durability).map_err(|error| refused(error.into()))?;
        if durability == Durability::Disk {
            // The names of the database and of the WAL, which are there now at the latest.
            let directory = path.parent().expect("the data directory");
            filesystem::sync_directory(directory).map_err(|source| OpenError::io(path, source))?;
        }
        Failpoint::WalReplayed.reach();

        let io = |source| OpenError::io(path, source);
        let disk = filesystem::space(path).map_err(io)?.total;
        let log = filesystem::len(&filesystem::beside(path, "-wal")).map_err(io)?;
        let wal = Wal::watch(&mut connection, disk, log).map_err(|error| refused(error.into()))?;
        let (leases, fail_stop) = (Arc::<Leases>::default(), FailStop::default());
        let copier = CheckpointThread {
            connection: copier,
            wal,
            database: database.map(Arc::new),
            fail_stop: fail_stop.clone(),
        };
        let sync_verifier = Arc::new(SyncVerifier::new(journals, fail_stop.clone()));
        // The syncs of what the process before has left.
        sync_verifier.check().map_err(|source| OpenError::Ledger {
            path: path.to_owned(),
            source,
        })?;
        let room = Room::of(path, Arc::clone(&reserve));
        let helpers = WriterShared {
            leases: Arc::clone(&leases),
            reserve,
            sync_verifier: Arc::clone(&sync_verifier),
        };
        let writer = Committer::new(connection, copier, helpers)
            .and_then(|committer| Writer::start(committer, fail_stop.clone()))
            .map_err(|source| OpenError::io(path, source))?;
        let readers = Readers::new(readers, sync_verifier, fail_stop.clone());
        Ok(Self {
            readers,
            writer,
            room,
            leases,
            fail_stop,
            _lock: lock,
        })
    }

    /// How many transactions were committed since the start. Many changes share one.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    async fn change(&self, change: Change) -> Result<(), LedgerError> {
        self.writer.change(change).await.map(drop)
    }

    /// Gives a disk that is short of room what deleted rows have taken, since media may need it. It goes step by step
    /// because other changes wait during each, and ends after [`SHRINK_STEPS`] because the caller waits for all. A disk
    /// without any room may have none for this either.
    async fn shrink(&self, mut look: Look) -> Result<(), LedgerError> {
        for _ in 0..SHRINK_STEPS {
            if !look.is_short() {
                break;
            }
            match self.change(Change::Shrink).await {
                Ok(()) => {}
                Err(LedgerError::NoSpace | LedgerError::Busy) => break,
                Err(error) => return Err(error),
            }
            look.idle = look.idle.saturating_sub(SHRINK_PAGES * PAGE_LEN);
        }
        Ok(())
    }
}

/// Makes the database's file, and makes durable whatever a process that died left in the WAL. Returns the
/// file where it has to be synced.
///
/// The WAL may end in a transaction that was written and never synced. SQLite would take it as
/// committed; a power cut later would take it back.
fn prepare_files(path: &Path, durability: Durability) -> std::io::Result<Option<File>> {
    let file = filesystem::open_or_create(path)?;
    if durability == Durability::Os {
        return Ok(None);
    }
    filesystem::rewrite_durably(&filesystem::beside(path, "-wal"))?;
    file.sync_all()?;
    Ok(Some(file))
}

#[async_trait]
impl Ledger for LocalLedger {
    async fn start(&self, session: NewSession) -> Result<(), LedgerError> {
        self.change(Change::Start(session)).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        let leased = self.leases.waiting(id);
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
        advance: OffsetCommit,
    ) -> Result<(), LedgerError> {
        self.change(Change::OffsetCommit { id, epoch, advance })
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
        let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
        let query = move |connection: &rusqlite::Connection| {
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
        let query = move |connection: &rusqlite::Connection| {
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
        let room = self.room.clone();
        let looked = self
            .readers
            .read(move |connection| {
                let used = Used::of(connection)?;
                Ok(room.look(used))
            })
            .await?;
        let look = looked.map_err(|error| LedgerError::Fault(Arc::new(error)))?;
        self.shrink(look).await?;
        Ok(look.space)
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)
    }
}

/// They are not waited for longer when the ledger closes.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often it is looked whether they are over.
const GLANCE: Duration = Duration::from_millis(1);

/// Reads run on tokio's blocking threads, on one of these connections. Each sees the last commit,
/// and neither waits for the writer nor holds it up.
#[derive(Debug)]
struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    sync_verifier: Arc<SyncVerifier>,
    fail_stop: FailStop,
    unreadable: Unreadable,
    /// How long reads are waited for that nobody waits for any more.
    patience: Duration,
}

impl Readers {
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
            unreadable: Unreadable::default(),
            patience: PATIENCE,
        }
    }

    /// Runs a query. A failure is a fault like any other: a database that cannot be read promises
    /// nothing. But a single row that makes no sense fails this query alone.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (idle, sync_verifier) = (Arc::clone(&self.idle), Arc::clone(&self.sync_verifier));
        let task = tokio::task::spawn_blocking(move || {
            let lock = || idle.lock().expect("nothing panics while it is held");
            let connection = lock().pop().expect("there are as many as permits");
            let result = query(&connection);
            let result = result.map(|found| sync_verifier.confirm_read().map(|()| found));
            lock().push(connection);
            drop(permit);
            result
        });
        match task.await {
            Ok(Ok(found)) => found.map_err(LedgerError::Fault),
            Ok(Err(error)) if is_busy(&error) => Err(LedgerError::Busy),
            Ok(Err(error)) if self.unreadable.note(&error) => Err(LedgerError::Unreadable),
            Ok(Err(error)) => Err(LedgerError::Fault(self.fail_stop.trip(error))),
            Err(panic) => Err(LedgerError::Fault(self.fail_stop.trip(panic))),
        }
    }
}

/// Waits for reads that nobody waits for any more, but not long: while one has its connection, the writer's
/// is not the last that closes, and leaves the WAL to the next start.
impl Drop for Readers {
    fn drop(&mut self) {
        let begun = Instant::now();
        while Arc::strong_count(&self.idle) > 1 && begun.elapsed() < self.patience {
            std::thread::sleep(GLANCE);
        }
    }
}

/// Less than this may stay idle, however full the disk is.
const FEW: u64 = 256 << 10;

/// What stays idle is less than the free space of the disk divided by this.
const SHARE: u64 = 16;

/// The disk of the database, and what is kept of it.
#[derive(Debug, Clone)]
struct Room {
    database: PathBuf,
    reserve: Arc<Reserve>,
}

impl Room {
    fn of(database: &Path, reserve: Arc<Reserve>) -> Self {
        Self {
            database: database.to_owned(),
            reserve,
        }
    }

    /// Looks at the disk, and takes the reserve if there is plenty. What the database's file lacks of all that is
    /// committed is still to be written by a checkpoint, which needs the room.
    fn look(&self, used: Used) -> io::Result<Look> {
        let space = filesystem::space(&self.database)?;
        let len = self.database.metadata()?.len();
        let available = space.available.saturating_sub(used.len.saturating_sub(len));
        self.reserve.take(available);
        Ok(Look {
            space: Space { available, ..space },
            idle: used.unused + len.saturating_sub(used.len),
        })
    }
}

/// What a look at the disk has found.
#[derive(Debug, Clone, Copy)]
struct Look {
    space: Space,
    /// Bytes of the database's file that hold nothing.
    idle: u64,
}

impl Look {
    /// Whether what is idle would make a difference to the disk.
    fn is_short(self) -> bool {
        self.idle >= FEW && self.idle >= self.space.available / SHARE
    }
}

/// What the database takes up, with what only the log has of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Used {
    /// Bytes, all of it.
    len: u64,
    /// Bytes of these that deleted rows have left, to be used again.
    unused: u64,
}

impl Used {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let bytes = |pragma| {
            let pages = connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            pages.map(|pages| pages.unsigned_abs() * PAGE_LEN)
        };
        Ok(Self {
            len: bytes("page_count")?,
            unused: bytes("freelist_count")?,
        })
    }
}
