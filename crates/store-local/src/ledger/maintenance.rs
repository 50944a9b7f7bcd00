//! The ledger as backups, verification and repairs use it, from outside of the server.
//!
//! The rows as somebody sees them who checks or copies the ledger from outside of its writer.
//!
//! Rows come in pages, each of them a read of its own: anyone who looks through millions of rows holds
//! no snapshot meanwhile, which would keep the WAL from being brought into the database. A row that
//! cannot be read is handed on as such and keeps nobody from the others.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, Row, params};
use windlass_proto::digest::{Crc32c, Digests};
use windlass_store::{
    EndSession, Epoch, Extent, MediaId, MediaLocation, MediaRef, SessionId, SessionState,
};

use super::changes::{ChangeError, Leases, Tables};
use super::schema::{self, SchemaError};
use super::{prepare_files, rows};
use crate::directory::Identity;
use crate::{Durability, OpenError, filesystem};

/// Rows that are read at once.
const PAGE_LEN: i64 = 256;

/// Lines of `PRAGMA integrity_check` that are worth having.
const INTEGRITY_LINES: u32 = 20;

/// A connection that only reads while others write.
#[derive(Debug)]
pub(crate) struct LedgerSnapshot {
    connection: Connection,
}

/// Some rows of a table with their rowids, in order. Empty at the end.
pub(crate) type Page<T> = Vec<(i64, Result<T, rusqlite::Error>)>;

/// A walk over all rows that a table has at its beginning, page by page.
pub(crate) struct TableScan<T> {
    page: fn(&LedgerSnapshot, i64) -> rusqlite::Result<Page<T>>,
    at: i64,
    last: i64,
}

impl<T> TableScan<T> {
    pub(crate) fn begin(
        snapshot: &LedgerSnapshot,
        table: &'static str,
        page: fn(&LedgerSnapshot, i64) -> rusqlite::Result<Page<T>>,
    ) -> rusqlite::Result<Self> {
        let last = snapshot.last_row(table)?;
        Ok(Self { page, at: 0, last })
    }

    /// The next page; `None` at the end.
    pub(crate) fn next(&mut self, snapshot: &LedgerSnapshot) -> rusqlite::Result<Option<Page<T>>> {
        if self.at >= self.last {
            return Ok(None);
        }
        let rows = (self.page)(snapshot, self.at)?;
        Ok(rows.last().map(|(end, _)| *end).map(|end| {
            self.at = end;
            rows
        }))
    }
}

/// What a session's row says of its bytes.
#[derive(Debug, Clone)]
pub(crate) struct SessionRow {
    pub(crate) id: SessionId,
    pub(crate) state: SessionState,
    pub(crate) epoch: Epoch,
    pub(crate) offset: u64,
    pub(crate) total: Option<u64>,
    pub(crate) crc32c: Crc32c,
    pub(crate) media: Option<MediaRef>,
    pub(crate) extent: Option<Extent>,
    pub(crate) has_reply: bool,
}

/// What a resource's row says of its media.
#[derive(Debug, Clone)]
pub(crate) struct ResourceRow {
    pub(crate) collection: String,
    pub(crate) id: String,
    /// The media with its length and digests.
    pub(crate) media: Option<(MediaRef, u64, Digests)>,
}

impl LedgerSnapshot {
    /// Opens the ledger in `path`, which must exist. Changes nothing in it, not even the place of
    /// its last commits.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = schema::open_onlooker(path);
        let connection = connection.map_err(|source| source.at(path))?;
        Ok(Self { connection })
    }

    /// The identity of the store.
    pub(crate) fn identity(&self) -> rusqlite::Result<Identity> {
        schema::identity(&self.connection)
    }

    /// What SQLite finds wrong with the file; nothing when it is sound. `thorough` compares indexes
    /// with their tables too, which takes longer. It is one long read.
    pub(crate) fn integrity(&self, thorough: bool) -> rusqlite::Result<Vec<String>> {
        let check = if thorough { "integrity" } else { "quick" };
        let pragma = format!("PRAGMA {check}_check({INTEGRITY_LINES})");
        let mut statement = self.connection.prepare(&pragma)?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        let lines: Vec<_> = lines.collect::<Result<_, _>>()?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }

    /// The largest rowid of a table.
    fn last_row(&self, table: &'static str) -> rusqlite::Result<i64> {
        let newest = format!("SELECT coalesce(max(rowid), 0) FROM {table}");
        self.connection.query_row(&newest, [], |row| row.get(0))
    }

    /// How many rows a table has.
    pub(crate) fn count(&self, table: &'static str) -> rusqlite::Result<u64> {
        let count = format!("SELECT count(*) FROM {table}");
        let rows: i64 = self.connection.query_row(&count, [], |row| row.get(0))?;
        Ok(rows.cast_unsigned())
    }

    /// Sessions behind a rowid.
    pub(crate) fn sessions(&self, after: i64) -> rusqlite::Result<Page<SessionRow>> {
        let sql = "SELECT rowid, id, state, epoch, offset, total, crc32c, media, place,
                       extent_start, extent_crc32c, reply IS NOT NULL AS has_reply
                   FROM sessions WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        self.page(sql, after, |row| {
            Ok(SessionRow {
                id: SessionId::from_bytes(row.get("id")?),
                state: rows::state(row)?,
                epoch: Epoch(rows::count(row, "epoch")?),
                offset: rows::count(row, "offset")?,
                total: rows::total(row)?,
                crc32c: Crc32c(row.get("crc32c")?),
                media: rows::media_ref(row)?,
                extent: rows::extent(row)?,
                has_reply: row.get("has_reply")?,
            })
        })
    }

    /// Resources behind a rowid.
    pub(crate) fn resources(&self, after: i64) -> rusqlite::Result<Page<ResourceRow>> {
        let sql = "SELECT rowid, collection, id, media, place, length, content_type, crc32c, md5,
                       sha256
                   FROM resources WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        self.page(sql, after, |row| {
            let media = match rows::media_ref(row)? {
                None => None,
                Some(at) => {
                    row.get::<_, String>("content_type")?;
                    Some((at, rows::count(row, "length")?, rows::digests(row)?))
                }
            };
            Ok(ResourceRow {
                collection: row.get("collection")?,
                id: row.get("id")?,
                media,
            })
        })
    }

    /// Small media behind a rowid, each with whether a row names it.
    pub(crate) fn small_media_names(&self, after: i64) -> rusqlite::Result<Page<(MediaId, bool)>> {
        let sql = "SELECT rowid, id,
                       EXISTS (SELECT 1 FROM sessions WHERE media = small_media.id AND place = 0)
                       OR EXISTS (SELECT 1 FROM resources WHERE media = small_media.id AND place = 0)
                   FROM small_media WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        self.page(sql, after, |row| {
            Ok((MediaId::from_bytes(row.get(1)?), row.get(2)?))
        })
    }

    /// Garbage behind `after`, each with whether a row names it, which none should.
    pub(crate) fn garbage(&self, after: Option<MediaId>) -> rusqlite::Result<Vec<(MediaId, bool)>> {
        let sql = "SELECT media,
                       EXISTS (SELECT 1 FROM sessions
                               WHERE sessions.media = garbage.media AND place = 1)
                       OR EXISTS (SELECT 1 FROM resources
                                  WHERE resources.media = garbage.media AND place = 1)
                   FROM garbage WHERE media > ?1 ORDER BY media LIMIT ?2";
        let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_map(params![after, PAGE_LEN], |row| {
            Ok((MediaId::from_bytes(row.get(0)?), row.get(1)?))
        })?;
        found.collect()
    }

    /// The bytes of a small media.
    pub(crate) fn small_media(&self, id: MediaId) -> rusqlite::Result<Option<Vec<u8>>> {
        rows::small_media(&self.connection, id)
    }

    /// Whether a session or a resource names a media.
    pub(crate) fn is_named(&self, media: MediaRef) -> rusqlite::Result<bool> {
        rows::is_named(&self.connection, media)
    }

    /// Those of `ids` that neither a session, nor a resource, nor the list of garbage names.
    pub(crate) fn unknown_media(&self, ids: Vec<MediaId>) -> rusqlite::Result<Vec<MediaId>> {
        rows::unknown_media(&self.connection, ids)
    }

    fn page<T>(
        &self,
        sql: &str,
        after: i64,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Page<T>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![after, PAGE_LEN])?;
        let mut page = Vec::new();
        while let Some(row) = found.next()? {
            page.push((row.get(0)?, read(row)));
        }
        Ok(page)
    }
}

/// The connection that a repair writes on. Every change is a transaction of its own, durable when
/// the call returns.
#[derive(Debug)]
pub(crate) struct Repair {
    connection: Connection,
    /// None is ever given out: the caller holds the directory.
    leases: Leases,
}

impl Repair {
    /// Opens the ledger in `path`, which must exist, as a server does. It is that of the store of this
    /// identity. The caller holds the lock of the directory.
    pub(crate) fn open(path: &Path, identity: Identity) -> Result<Self, OpenError> {
        prepare_files(path, Durability::Disk).map_err(|source| OpenError::io(path, source))?;
        let connection = schema::open_writer(path, identity, Durability::Disk);
        Ok(Self {
            connection: connection.map_err(|source| source.at(path))?,
            leases: Leases::default(),
        })
    }

    /// Marks a session as failed, and lets go of its media. False when it is no longer open under
    /// `epoch`.
    pub(crate) fn fail_session(&self, id: SessionId, epoch: Epoch) -> rusqlite::Result<bool> {
        self.change(|tables| tables.end(id, epoch, EndSession::Failed))
    }

    /// Takes media off the list of garbage.
    pub(crate) fn forget_garbage(&self, id: MediaId) -> rusqlite::Result<bool> {
        self.change(|tables| tables.forget_garbage(&[id]))
    }

    /// Drops a small media, unless a row names it.
    pub(crate) fn drop_small_media(&self, id: MediaId) -> rusqlite::Result<bool> {
        let location = MediaLocation::Ledger;
        self.change(|tables| tables.let_go(MediaRef { id, location }))
    }

    fn change(
        &self,
        change: impl FnOnce(&Tables<'_>) -> Result<(), ChangeError>,
    ) -> rusqlite::Result<bool> {
        let transaction = self.connection.unchecked_transaction()?;
        let tables = Tables {
            connection: &self.connection,
            leases: &self.leases,
        };
        match change(&tables) {
            Ok(()) => transaction.commit().map(|()| true),
            Err(ChangeError::Refused(_)) => Ok(false),
            Err(ChangeError::Sqlite(error)) => Err(error),
        }
    }
}

/// Pages that are copied between two reports.
const STEP_PAGES: i32 = 256;

/// Copies the ledger in `source`, as it is at one moment, into a new file of its own: without a WAL
/// and without garbage. The file is durable afterwards, its name is not.
///
/// The moment is held by a read transaction as long as pages are copied. Anyone who writes meanwhile is
/// not held up; but the WAL cannot start again until it is over.
pub(crate) fn copy(
    source: &Path,
    target: &Path,
    copied: &mut dyn FnMut(),
) -> Result<(), OpenError> {
    let io = |error| OpenError::io(target, error);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        filesystem::remove(&filesystem::beside(target, suffix)).map_err(io)?;
    }
    let file = filesystem::create(target).map_err(io)?;
    copy_pages(source, target, copied).map_err(|error| {
        // It is the copy that grows.
        let of = if error.is_full() { target } else { source };
        error.at(of)
    })?;
    settle(target).map_err(|error| error.at(target))?;
    file.sync_all().map_err(io)
}

fn copy_pages(source: &Path, target: &Path, copied: &mut dyn FnMut()) -> Result<(), SchemaError> {
    let source = schema::open_onlooker(source)?;
    // Without it every commit of the server would make the copy start again.
    let moment = source.unchecked_transaction()?;
    moment.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let mut target = connect(target)?;
    let backup = Backup::new(&moment, &mut target)?;
    while backup.step(STEP_PAGES)? != StepResult::Done {
        copied();
    }
    Ok(())
}

/// Makes one file of the copy, and forgets garbage: the media of that is not copied.
fn settle(target: &Path) -> Result<(), SchemaError> {
    let target = connect(target)?;
    target.pragma_update(None, "journal_mode", "delete")?;
    target.execute("DELETE FROM garbage", [])?;
    Ok(())
}

/// Nothing is synced on the way: the copy is synced as a whole, or never used.
fn connect(target: &Path) -> rusqlite::Result<Connection> {
    let access = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(target, access)?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}
