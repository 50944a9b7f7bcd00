//! The ledger on SQLite.
//!
//! One connection writes ([`writer`]), a few others read ([`readers`]), and SQLite's WAL keeps
//! them apart. Nothing here reads a clock, and nothing walks a table at the start.

mod change;
mod checkpointer;
mod committer;
mod copy;
mod group_commit;
mod leases;
mod readers;
mod repair;
mod room;
mod rows;
mod schema;
mod snapshot;
mod sync_verifier;
mod tables;
#[cfg(test)]
mod tests;
mod unreadable;
mod wal;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::params;
use windlass_store::{
    ChangeSet, EndSession, Epoch, Failpoint, Ledger, LedgerError, MediaId, NewSession,
    OffsetCommit, Resource, Session, SessionId, Space, Timestamp,
};

use crate::directory::{DirectoryLock, Identity, StoreShared};
use crate::fail_stop::FailStop;
use crate::{Durability, OpenError, filesystem};
use change::Change;
use checkpointer::CheckpointThread;
use committer::{Committer, WriterShared};
use leases::Leases;
use readers::Readers;
use room::{Look, Room, Used};
use schema::SchemaError;
use sync_verifier::SyncVerifier;
use tables::SHRINK_PAGES;
use wal::{PAGE_LEN, Wal};
use writer::Writer;

pub(crate) use copy::copy;
pub(crate) use repair::Repair;
pub(crate) use schema::identity_in;
pub(crate) use snapshot::{LedgerSnapshot, Page, ResourceRow, SessionRow, TableScan};
pub(crate) use unreadable::is_unreadable;

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
