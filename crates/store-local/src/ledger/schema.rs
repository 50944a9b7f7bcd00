//! The database file: its schema, and how a connection to it is set up.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use windlass_store::Cause;

use super::wal::is_full;
use crate::directory::Identity;
use crate::{Durability, OpenError, filesystem};

/// "Wndl": says in the file's header whose it is.
const APPLICATION_ID: i32 = 0x576E_646C;

/// The schema below. A file of a newer one is refused.
pub(crate) const VERSION: i32 = 1;

/// The tables.
///
/// The first has one row. The others have rowids on purpose: ids are random, and rows that are written
/// at about the same time then share pages, of which a commit writes whole ones.
///
/// States are numbered in [`super::rows`]; 1 is finishing. A finishing session never expires, but is in
/// `sessions_expires` all the same: an index that names the state is written when a session ends.
const TABLES: &str = "
CREATE TABLE store (
    identity BLOB NOT NULL
) STRICT;

CREATE TABLE sessions (
    id            BLOB    NOT NULL UNIQUE,
    context       BLOB    NOT NULL,
    created       INTEGER NOT NULL,
    expires       INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    offset        INTEGER NOT NULL,
    total         INTEGER,
    crc32c        INTEGER NOT NULL,
    slow_digests  BLOB    NOT NULL,
    media         BLOB,
    place         INTEGER,
    extent_start  INTEGER,
    extent_crc32c INTEGER,
    reply         BLOB
) STRICT;
CREATE INDEX sessions_finishing ON sessions (id) WHERE state = 1;
CREATE INDEX sessions_expires ON sessions (expires);
CREATE INDEX sessions_media ON sessions (media) WHERE media IS NOT NULL;

CREATE TABLE resources (
    collection   TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    body         BLOB    NOT NULL,
    media        BLOB,
    place        INTEGER,
    length       INTEGER,
    content_type TEXT,
    crc32c       INTEGER,
    md5          BLOB,
    sha256       BLOB,
    created      INTEGER NOT NULL,
    updated      INTEGER NOT NULL,
    UNIQUE (collection, id)
) STRICT;
CREATE INDEX resources_media ON resources (media) WHERE media IS NOT NULL;

CREATE TABLE small_media (
    id    BLOB NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE garbage (
    media BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
";

/// Why a database file was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("it has schema version {found}; this build knows versions up to {VERSION}")]
    Newer { found: i32 },
    #[error("it is empty")]
    Empty,
    #[error("it is the database of another application")]
    Foreign,
}

impl SchemaError {
    /// Whether only the room for it is lacking.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_full(error))
    }

    /// Why the store whose ledger is in `path` was not opened.
    pub(super) fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        let is_full = self.is_full();
        let source: Cause = Arc::new(self);
        if is_full {
            OpenError::NoSpace { path, source }
        } else {
            OpenError::Ledger { path, source }
        }
    }
}

/// Opens the connection that writes, and makes the tables when the file is new: those of the store of
/// this identity.
pub(super) fn open_writer(
    path: &Path,
    identity: Identity,
    durability: Durability,
) -> Result<Connection, SchemaError> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Only a database that is empty takes it. It costs a page more in commits that take or leave pages, and lets the
    // database become shorter without being written as a whole.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    set_durability(&connection, durability)?;
    // The writer has its own way of checkpointing, after it has answered.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // Nor does it when it is closed, unless it is known that it may.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    make_tables(&mut connection, identity)?;
    Ok(connection)
}

/// Opens a connection that brings the WAL into the database.
pub(super) fn open_copier(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_durability(&connection, durability)?;
    open_wal(&connection)?;
    Ok(connection)
}

/// Opens a connection that only reads, and sees only what is committed. Closing it, though it be the last,
/// brings nothing into the database: that is for the writer, who knows whether it may.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    open_wal(&connection)?;
    Ok(connection)
}

/// Opens a connection that only reads in a database that somebody else may be writing, or that a
/// crash has left. It leaves the WAL to them.
pub(super) fn open_onlooker(path: &Path) -> Result<Connection, SchemaError> {
    let connection = open_reader(path)?;
    match marks(&connection)? {
        (APPLICATION_ID, VERSION) => Ok(connection),
        (0, 0) => Err(SchemaError::Empty),
        (APPLICATION_ID, found) => Err(SchemaError::Newer { found }),
        _ => Err(SchemaError::Foreign),
    }
}

/// The identity of the store whose ledger is in `path`; `None` when there is no file, or nothing in it.
/// Changes nothing.
pub(crate) fn identity_in(path: &Path) -> Result<Option<Identity>, OpenError> {
    if !filesystem::exists(path).map_err(|source| OpenError::io(path, source))? {
        return Ok(None);
    }
    let found = match open_onlooker(path) {
        Err(SchemaError::Empty) => return Ok(None),
        opened => opened.and_then(|connection| Ok(identity(&connection)?)),
    };
    found.map(Some).map_err(|error| error.at(path))
}

/// The identity of the store whose ledger this is.
pub(super) fn identity(connection: &Connection) -> rusqlite::Result<Identity> {
    let identity = connection.query_row("SELECT identity FROM store", [], |row| row.get(0));
    identity.map(Identity::from_bytes)
}

/// A connection is used by one thread at a time, so SQLite need not lock it.
fn connect(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Nobody else writes; this is for an operator who looks into the file meanwhile.
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(64);
    // A long transaction or a sort would spill into a temporary file. When that cannot be opened,
    // for want of a descriptor or of room in /tmp, it would look like a ledger that failed.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

/// The first read opens the WAL, with a call that waits on a file system that stands still.
fn open_wal(connection: &Connection) -> rusqlite::Result<()> {
    let version = |row: &rusqlite::Row<'_>| row.get::<_, i32>(0);
    connection
        .pragma_query_value(None, "user_version", version)
        .map(drop)
}

fn set_durability(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", synchronous(durability))?;
    // Where fsync does not reach the platter by itself (macOS), these make it.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)
}

/// WAL with FULL loses nothing that was committed; with NORMAL a power cut takes the last commits.
fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Disk => "full",
        Durability::Os => "off",
    }
}

fn make_tables(connection: &mut Connection, identity: Identity) -> Result<(), SchemaError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match marks(&transaction)? {
        (0, 0) => {
            transaction.execute_batch(TABLES)?;
            transaction.execute("INSERT INTO store VALUES (?1)", [identity.as_bytes()])?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        (APPLICATION_ID, VERSION) => {}
        (APPLICATION_ID, found) => return Err(SchemaError::Newer { found }),
        _ => return Err(SchemaError::Foreign),
    }
    Ok(transaction.commit()?)
}

/// Whose database it is, and of which version.
fn marks(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let read = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    Ok((read("application_id")?, read("user_version")?))
}
