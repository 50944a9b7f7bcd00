//! Access to the ledger for backups, verifications and repairs.
//!
//! These run outside of the server's process. Backups and verifications mostly run while the server
//! has the store open. A repair holds the lock of the directory, so that no server can open it.
//!
//! Rows are read in batches, and each batch is a separate read transaction. A scan of millions of
//! rows therefore holds no snapshot, which would keep the WAL from restarting. A [`TableScan`]
//! returns an error in place of a row that cannot be read, and continues. [`LedgerReader::garbage`]
//! fails instead.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, Row, params};
use windlass_digest::{Crc32c, Digests};
use windlass_store::{
    EndSession, Epoch, Extent, MediaId, MediaLocation, MediaRef, Retention, SessionId, SessionState,
};

use super::changes::{ChangeError, Tables};
use super::prepare_files;
use super::references;
use super::rows::{self, UnwrittenEpochs};
use super::schema::{self, SchemaError};
use super::wal::Wal;
use crate::directory::Identity;
use crate::{Durability, OpenError, filesystem};

/// Maximum number of rows in a batch.
const ROW_BATCH_LEN: i64 = 256;

/// Number of media that [`LedgerReader::miscounted_media`] counts in one pass, which keeps them in
/// memory.
const COUNTED_PER_PASS: i64 = 500_000;

/// The first version of the schema with the table `media`.
const FIRST_WITH_COUNTS: i32 = 5;

/// Maximum number of lines of `PRAGMA integrity_check`. A few suffice to show that the file is
/// damaged.
const INTEGRITY_LINES: u32 = 20;

/// A connection that only reads, while another process may write. Each call is a separate read
/// transaction, so two calls may see different states.
#[derive(Debug)]
pub(crate) struct LedgerReader {
    connection: Connection,
    /// Whether the schema has counts of references. Earlier versions find references by indexes.
    has_counts: bool,
}

/// Consecutive rows of a table, each with its rowid, in ascending order of rowids. Empty at the end
/// of the table.
pub(crate) type RowBatch<T> = Vec<(i64, Result<T, rusqlite::Error>)>;

/// A scan of the rows that a table has when the scan begins, batch by batch. Rows that are deleted
/// before their batch is read are left out. Newer rows may be returned, too: in the last batch, and
/// because SQLite may give them the rowids of deleted ones.
pub(crate) struct TableScan<T> {
    read_batch: fn(&LedgerReader, i64) -> rusqlite::Result<RowBatch<T>>,
    /// Rowid of the last row that was returned, at first 0.
    at: i64,
    /// Largest rowid when the scan began.
    last: i64,
}

impl<T> TableScan<T> {
    /// Begins a scan of `table`. `read_batch` returns the batch after a rowid.
    pub(crate) fn begin(
        ledger: &LedgerReader,
        table: &'static str,
        read_batch: fn(&LedgerReader, i64) -> rusqlite::Result<RowBatch<T>>,
    ) -> rusqlite::Result<Self> {
        // The end is fixed now: on a busy server new rows could keep the scan from ending.
        let last = ledger.last_row(table)?;
        Ok(Self {
            read_batch,
            at: 0,
            last,
        })
    }

    /// Returns the next batch, or `None` at the end.
    pub(crate) fn next(&mut self, ledger: &LedgerReader) -> rusqlite::Result<Option<RowBatch<T>>> {
        if self.at >= self.last {
            return Ok(None);
        }
        let rows = (self.read_batch)(ledger, self.at)?;
        Ok(rows.last().map(|(end, _)| *end).map(|end| {
            self.at = end;
            rows
        }))
    }
}

/// The columns of a session that describe its bytes.
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
    /// Whether its context is not there, or has another length than the row says.
    pub(crate) lacks_context: bool,
}

/// The columns of a resource that describe its media.
#[derive(Debug, Clone)]
pub(crate) struct ResourceRow {
    pub(crate) collection: String,
    pub(crate) id: String,
    /// The media with its length and digests.
    pub(crate) media: Option<(MediaRef, u64, Digests)>,
}

/// Media whose number of references is not the one that the ledger has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Miscount {
    pub(crate) media: MediaRef,
    /// Number of rows that reference it.
    pub(crate) counted: u64,
    /// The stored number. 0 if the ledger has none.
    pub(crate) stored: u64,
}

fn read_miscount(row: &Row<'_>) -> rusqlite::Result<Miscount> {
    let number = |column| row.get(column).map(i64::cast_unsigned);
    Ok(Miscount {
        media: MediaRef {
            id: MediaId::from_bytes(row.get("id")?),
            location: rows::location(row)?,
        },
        counted: number(2)?,
        stored: number(3)?,
    })
}

/// A resource without its media.
#[derive(Debug, Clone)]
pub(crate) struct StoredResource {
    pub(crate) collection: String,
    pub(crate) id: String,
    pub(crate) body: Vec<u8>,
}

impl LedgerReader {
    /// Opens the ledger at `path`, which must exist. Neither opening nor closing it changes the
    /// database file or the pages in the WAL. But the files are opened read-write, so SQLite may
    /// create an empty WAL and the WAL's index, `-shm`.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = schema::open_external_reader(path);
        let connection = connection.map_err(|source| source.at(path))?;
        let version = schema::version(&connection);
        let version = version.map_err(|error| SchemaError::from(error).at(path))?;
        let has_counts = version >= FIRST_WITH_COUNTS;
        Ok(Self {
            connection,
            has_counts,
        })
    }

    /// Returns the identity of the store.
    pub(crate) fn identity(&self) -> rusqlite::Result<Identity> {
        schema::identity(&self.connection)
    }

    /// Checks the database by `PRAGMA quick_check`, or `integrity_check` if `thorough`. That one
    /// also compares indexes with their tables and takes longer. Returns the errors that SQLite has
    /// found, one a line. The check is one read transaction.
    pub(crate) fn integrity(&self, thorough: bool) -> rusqlite::Result<Vec<String>> {
        let check = if thorough { "integrity" } else { "quick" };
        let pragma = format!("PRAGMA {check}_check({INTEGRITY_LINES})");
        let mut statement = self.connection.prepare(&pragma)?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        let lines: Vec<_> = lines.collect::<Result<_, _>>()?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }

    /// Returns the largest rowid of a table.
    fn last_row(&self, table: &'static str) -> rusqlite::Result<i64> {
        let newest = format!("SELECT coalesce(max(rowid), 0) FROM {table}");
        self.connection.query_row(&newest, [], |row| row.get(0))
    }

    /// Returns the number of rows of a table.
    pub(crate) fn count_rows(&self, table: &'static str) -> rusqlite::Result<u64> {
        let count = format!("SELECT count(*) FROM {table}");
        let rows: i64 = self.connection.query_row(&count, [], |row| row.get(0))?;
        Ok(rows.cast_unsigned())
    }

    /// Returns the number of resources without internal rows of the server. The names of their
    /// collections begin with a dot.
    pub(crate) fn count_resources(&self) -> rusqlite::Result<u64> {
        let count = "SELECT count(*) FROM resources WHERE substr(collection, 1, 1) <> '.'";
        let rows: i64 = self.connection.query_row(count, [], |row| row.get(0))?;
        Ok(rows.cast_unsigned())
    }

    /// Returns the batch of sessions after a rowid.
    pub(crate) fn sessions(&self, after: i64) -> rusqlite::Result<RowBatch<SessionRow>> {
        let sql = "SELECT rowid, id, state, epoch, offset, total, crc32c, media, place,
                       extent_start, extent_crc32c, reply IS NOT NULL AS has_reply,
                       LACKS_CONTEXT AS lacks_context
                   FROM sessions WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        let lacks_context = if self.has_counts {
            "context_len <> coalesce(
                 (SELECT length(bytes) FROM contexts WHERE session = sessions.id), 0)"
        } else {
            "FALSE"
        };
        let sql = sql.replace("LACKS_CONTEXT", lacks_context);
        self.read_batch(&sql, after, |row| {
            Ok(SessionRow {
                id: SessionId::from_bytes(row.get("id")?),
                state: rows::state(row)?,
                epoch: Epoch(rows::unsigned(row, "epoch")?),
                offset: rows::unsigned(row, "offset")?,
                total: rows::total(row)?,
                crc32c: Crc32c(row.get("crc32c")?),
                media: rows::media_ref(row)?,
                extent: rows::extent(row)?,
                has_reply: row.get("has_reply")?,
                lacks_context: row.get("lacks_context")?,
            })
        })
    }

    /// Returns the batch of resources after a rowid.
    pub(crate) fn resources(&self, after: i64) -> rusqlite::Result<RowBatch<ResourceRow>> {
        let sql = "SELECT rowid, collection, id, media, place, length, content_type, crc32c, md5,
                       sha256
                   FROM resources WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        self.read_batch(sql, after, |row| {
            let media = match rows::media_ref(row)? {
                None => None,
                Some(at) => {
                    // Not part of the result. A server needs this value, so a row in which it
                    // cannot be converted must be reported as unreadable.
                    row.get::<_, String>("content_type")?;
                    Some((at, rows::unsigned(row, "length")?, rows::digests(row)?))
                }
            };
            Ok(ResourceRow {
                collection: row.get("collection")?,
                id: row.get("id")?,
                media,
            })
        })
    }

    /// Returns the batch of resources after a rowid, without their media.
    pub(crate) fn resource_bodies(&self, after: i64) -> rusqlite::Result<RowBatch<StoredResource>> {
        let sql = "SELECT rowid, collection, id, body FROM resources WHERE rowid > ?1
                   ORDER BY rowid LIMIT ?2";
        self.read_batch(sql, after, |row| {
            Ok(StoredResource {
                collection: row.get("collection")?,
                id: row.get("id")?,
                body: row.get("body")?,
            })
        })
    }

    /// Returns the batch of small media after a rowid: each id, and whether a row references it.
    pub(crate) fn small_media_ids(
        &self,
        after: i64,
    ) -> rusqlite::Result<RowBatch<(MediaId, bool)>> {
        let sql = format!(
            "SELECT rowid, id, {} FROM small_media WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
            self.is_referenced_sql("small_media.id", "0")
        );
        self.read_batch(&sql, after, |row| {
            Ok((MediaId::from_bytes(row.get(1)?), row.get(2)?))
        })
    }

    /// Returns the batch of the media on the garbage list after `after`: each id, and whether a session or a
    /// resource references the media nevertheless. That would be damage, since the sweep is going
    /// to delete it. Fails if an entry cannot be read.
    pub(crate) fn garbage(&self, after: Option<MediaId>) -> rusqlite::Result<Vec<(MediaId, bool)>> {
        let sql = format!(
            "SELECT DISTINCT media, {} FROM garbage WHERE media > ?1 ORDER BY media LIMIT ?2",
            self.is_referenced_sql("garbage.media", "1")
        );
        let after = after.map_or(Vec::new(), |id| id.as_bytes().to_vec());
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement.query_map(params![after, ROW_BATCH_LEN], |row| {
            Ok((MediaId::from_bytes(row.get(0)?), row.get(1)?))
        })?;
        found.collect()
    }

    /// Returns the bytes of a small media.
    pub(crate) fn small_media(&self, id: MediaId) -> rusqlite::Result<Option<Vec<u8>>> {
        rows::small_media(&self.connection, id)
    }

    /// Returns whether a session or a resource references a media.
    pub(crate) fn is_referenced(&self, media: MediaRef) -> rusqlite::Result<bool> {
        let sql = format!("SELECT {}", self.is_referenced_sql("?1", "?2"));
        let place = rows::sql_location(media.location);
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement.query_row(params![media.id.as_bytes(), place], |row| row.get(0))
    }

    /// Returns the unknown media among `ids`: no session or resource references it, and it is not
    /// on the garbage list.
    pub(crate) fn unknown_media(&self, ids: Vec<MediaId>) -> rusqlite::Result<Vec<MediaId>> {
        let is_known = format!(
            "SELECT {} OR {} OR EXISTS (SELECT 1 FROM garbage WHERE media = ?1)",
            self.is_referenced_sql("?1", "0"),
            self.is_referenced_sql("?1", "1")
        );
        references::unknown_media(&self.connection, &is_known, ids)
    }

    /// Returns an SQL expression: whether a session or a resource references the media with this
    /// id in this place.
    fn is_referenced_sql(&self, id: &str, place: &str) -> String {
        let exists = |table: &str, column: &str| {
            format!(
                "EXISTS (SELECT 1 FROM {table} WHERE {table}.{column} = {id} AND place = {place})"
            )
        };
        if self.has_counts {
            exists("media", "id")
        } else {
            let [of_sessions, of_resources] =
                ["sessions", "resources"].map(|it| exists(it, "media"));
            format!("({of_sessions} OR {of_resources})")
        }
    }

    /// Counts the references to all media, and returns the media whose stored count differs. It is
    /// one read transaction. The earlier versions of the schema have no counts.
    pub(crate) fn miscounted_media(&self) -> rusqlite::Result<Vec<Miscount>> {
        const SQL: &str = "SELECT id, place, sum(counted), sum(stored) FROM (
                SELECT media AS id, place, 1 AS counted, 0 AS stored FROM sessions
                UNION ALL SELECT media, place, 1, 0 FROM resources
                UNION ALL SELECT id, place, 0, refs FROM media
            ) WHERE length(id) = 16 AND place IN (0, 1) AND substr(id, 16) BETWEEN ?1 AND ?2
            GROUP BY id, place HAVING sum(counted) <> sum(stored) OR sum(counted) = 0";
        if !self.has_counts {
            return Ok(Vec::new());
        }
        let snapshot = self.connection.unchecked_transaction()?;
        let media: i64 = snapshot.query_row("SELECT count(*) FROM media", [], |row| row.get(0))?;
        // Each pass counts the media whose last byte, which is random, is in a range.
        let passes = usize::try_from(media / COUNTED_PER_PASS).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let range = bytes.len().div_ceil(passes.saturating_add(1));
        let mut statement = snapshot.prepare(SQL)?;
        let mut found = Vec::new();
        for range in bytes.chunks(range) {
            let ends = [&range[..1], &range[range.len() - 1..]];
            for miscount in statement.query_map(ends, read_miscount)? {
                found.push(miscount?);
            }
        }
        Ok(found)
    }

    fn read_batch<T>(
        &self,
        sql: &str,
        after: i64,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<RowBatch<T>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![after, ROW_BATCH_LEN])?;
        let mut batch = Vec::new();
        while let Some(row) = found.next()? {
            batch.push((row.get(0)?, read(row)));
        }
        Ok(batch)
    }
}

/// The connection on which a repair writes. Every change is a separate transaction, durable when
/// the call returns. After an error the connection must not be used: a sync may have failed, and a
/// failed sync must not be retried.
#[derive(Debug)]
pub(crate) struct Repair {
    connection: Connection,
    wal: Wal,
    /// Always empty: no server runs, so no lease is in force.
    unwritten_epochs: UnwrittenEpochs,
}

impl Repair {
    /// Opens the ledger at `path` as a server does. The file must exist. The caller has read
    /// `identity` from the ledger and compared it with the vault. The caller holds the lock of the
    /// directory.
    pub(crate) fn open(path: &Path, identity: Identity) -> Result<Self, OpenError> {
        let space = filesystem::space(path).map_err(|source| OpenError::io(path, source))?;
        Self::open_on(path, identity, space.total)
    }

    /// As [`Repair::open`], on a disk of `disk_len` bytes.
    pub(super) fn open_on(
        path: &Path,
        identity: Identity,
        disk_len: u64,
    ) -> Result<Self, OpenError> {
        let io = |source| OpenError::io(path, source);
        prepare_files(path, Durability::Disk).map_err(io)?;
        let connection = schema::open_writer(path, identity, Durability::Disk);
        let mut connection = connection.map_err(|source| source.at(path))?;
        let wal_len = filesystem::len(&filesystem::with_suffix(path, "-wal")).map_err(io)?;
        let wal = Wal::watch(&mut connection, disk_len, wal_len)
            .map_err(|source| SchemaError::from(source).at(path))?;
        Ok(Self {
            connection,
            wal,
            unwritten_epochs: UnwrittenEpochs::default(),
        })
    }

    /// Marks a session as failed and releases its media. Returns `false` if it is no longer open
    /// under `epoch`.
    pub(crate) fn fail_session(&self, id: SessionId, epoch: Epoch) -> rusqlite::Result<bool> {
        self.change(|tables| tables.end(id, epoch, EndSession::Failed))
    }

    /// Removes media from the garbage list. Always returns `true`.
    pub(crate) fn forget_garbage(&self, id: MediaId) -> rusqlite::Result<bool> {
        self.change(|tables| tables.forget_garbage(id))
    }

    /// Sets the number of references to a media, and releases media without a reference. Always
    /// returns `true`.
    pub(crate) fn set_references(&self, media: MediaRef, refs: u64) -> rusqlite::Result<bool> {
        self.change(|tables| tables.set_references(media, refs))
    }

    /// Deletes a small media, unless a row references it. Always returns `true`.
    pub(crate) fn drop_small_media(&self, id: MediaId) -> rusqlite::Result<bool> {
        let location = MediaLocation::Ledger;
        self.change(|tables| tables.release_if_unreferenced(MediaRef { id, location }, &[]))
    }

    fn change(
        &self,
        change: impl FnOnce(&Tables<'_>) -> Result<(), ChangeError>,
    ) -> rusqlite::Result<bool> {
        let transaction = self.connection.unchecked_transaction()?;
        let tables = Tables {
            connection: &self.connection,
            unwritten_epochs: &self.unwritten_epochs,
            retention: Retention::default(),
        };
        match change(&tables) {
            Ok(()) => transaction.commit()?,
            Err(ChangeError::Refused(_)) => return Ok(false),
            Err(ChangeError::Sqlite(error)) => return Err(error),
        }
        // A repair may make hundreds of thousands of commits. Without checkpoints the WAL would
        // hold the pages of all of them. Unless another process verifies the ledger at the same
        // time, no other connection has a read transaction, so the checkpoint is complete and the
        // next commit restarts the WAL.
        if self.wal.is_checkpoint_due() {
            self.wal.checkpoint(&self.connection)?;
        }
        Ok(true)
    }
}

/// Number of pages copied between two calls of the progress callback: 1 MiB.
const STEP_PAGES: i32 = 256;

/// Copies one snapshot of the database at `source` to the file `target`. The copy has no WAL and an
/// empty garbage list. `copied` is called after each 1 MiB, but not after the last piece.
///
/// An earlier file at `target` is deleted first, with its WAL. The content of the copy is durable
/// when this returns. Its directory entry is not: the caller must sync the directory.
///
/// A read transaction holds the snapshot while pages are copied. Commits continue, but the WAL
/// cannot restart until the transaction has ended.
pub(crate) fn copy(
    source: &Path,
    target: &Path,
    copied: &mut dyn FnMut(),
) -> Result<(), OpenError> {
    let io = |error| OpenError::io(target, error);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        filesystem::remove(&filesystem::with_suffix(target, suffix)).map_err(io)?;
    }
    let file = filesystem::create(target).map_err(io)?;
    copy_pages(source, target, copied).map_err(|error| {
        // Only the copy grows, so lack of space nearly always concerns its disk. The source needs
        // space only if SQLite has to create its `-shm`.
        let failed = if error.is_full() { target } else { source };
        error.at(failed)
    })?;
    finish_copy(target).map_err(|error| error.at(target))?;
    file.sync_all().map_err(io)
}

fn copy_pages(source: &Path, target: &Path, copied: &mut dyn FnMut()) -> Result<(), SchemaError> {
    let source = schema::open_external_reader(source)?;
    // Without the transaction each commit of the server would make the copy start again
    // (sqlite.org/c3ref/backup_finish.html).
    let snapshot = source.unchecked_transaction()?;
    // A deferred transaction takes its snapshot with the first read.
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let mut target = connect(target)?;
    let backup = Backup::new(&snapshot, &mut target)?;
    while backup.step(STEP_PAGES)? != StepResult::Done {
        copied();
    }
    Ok(())
}

/// Turns the copy into a single file. Empties its garbage list, because released media is not
/// copied.
fn finish_copy(target: &Path) -> Result<(), SchemaError> {
    let target = connect(target)?;
    target.pragma_update(None, "journal_mode", "delete")?;
    target.execute("DELETE FROM garbage", [])?;
    Ok(())
}

fn connect(target: &Path) -> rusqlite::Result<Connection> {
    let access = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(target, access)?;
    // The copy is synced once at its end, or never used.
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}
