//! The schema of the database, and the settings of the connections to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use windlass_store::Cause;

use super::rows::MAX_CONTEXT_IN_ROW;
use super::usage;
use super::wal::{CHECKPOINT_PAGES, PAGE_LEN, is_full_error};
use crate::directory::Identity;
use crate::{Durability, OpenError, filesystem};

/// Application id in the header of the database file: `Wndl` in ASCII.
const APPLICATION_ID: i32 = 0x576E_646C;

/// Version of the schema below. A database of a newer version is refused.
pub(crate) const VERSION: i32 = 5;

/// The oldest version that is still read. Opening a store upgrades it to [`VERSION`].
const OLDEST: i32 = 1;

/// The tables, except [`TABLES_OF_VERSION_5`].
///
/// `store` has one row. `sessions`, `resources` and `small_media` have rowids on purpose: rows that
/// are written at about the same time then share pages, whatever their ids are, and a commit writes
/// whole pages.
///
/// Most columns have the name of the field of [`Session`](windlass_store::Session),
/// [`Progress`](windlass_store::Progress), [`Resource`](windlass_store::Resource) or
/// [`Media`](windlass_store::Media) that they store. [`super::rows`] defines the numbers in `state`
/// and `place`.
///
/// * `context`, `context_len`: the request that started the session, as the server encodes it. Each
///   commit of an offset writes the row again, so a context of more than [`MAX_CONTEXT_IN_ROW`]
///   bytes is in `contexts`. The row then has an empty context and the length, which is 0
///   otherwise. A cancelled or failed session has no context.
/// * `created`, `expires`, `updated`: milliseconds since the Unix epoch.
/// * `state`: number of the [`SessionState`](windlass_store::SessionState).
/// * `epoch`: epoch of the last lease that was written.
/// * `offset`: number of committed bytes. In `sessions`, `crc32c` is their checksum.
/// * `total`: length of the complete media, `NULL` until a request has declared it.
/// * `slow_digests`: saved state of the hashers of MD5 and SHA-256 after the bytes `0..offset`, as
///   the server encodes it. Empty if neither is computed.
/// * `media`, `place`: id of the media, and number of its
///   [`MediaLocation`](windlass_store::MediaLocation).
/// * `extent_start`, `extent_crc32c`: offset of the first byte that the last commit of an offset
///   has added in the vault, and checksum of all bytes that it has added there. `NULL` without
///   bytes in the vault.
/// * `reply`: final reply of a finished session, as the server encodes it.
/// * `due`, `claimed_by`: see [`super::claims`]. `claimed_by` is the number of an opening.
/// * `owner`: principal that has started the session, or that the resource belongs to.
/// * `dialect`: wire dialect of the session.
///
/// * `expected_digests`: digests that are still to be checked, as the server encodes them.
///
/// `media` has the number of sessions and resources that reference each media
/// ([`super::references`]). No index has the media of their rows.
///
/// `extents` has the extents of media that is not sealed ([`super::extents`]).
///
/// `garbage` has what [`super::garbage`] lists.
///
/// * `handle`: second part of the name of sealed media, or of garbage. Empty in the local vault.
/// * `not_before`: time before which it is not deleted, or 0; `attempt`: number of its deletions.
///
/// [`super::usage`] adds the table of the usage of each owner.
///
/// State 1 is finishing. A finishing session never expires. `sessions_expires` contains it
/// nevertheless: an index with the condition `state <> 1` would be written when a session becomes
/// finishing, and when it leaves that state.
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
    reply         BLOB,
    owner         TEXT,
    dialect       TEXT    NOT NULL DEFAULT 'google',
    context_len   INTEGER NOT NULL DEFAULT 0,
    expected_digests BLOB NOT NULL DEFAULT x''
) STRICT;
CREATE INDEX sessions_finishing ON sessions (id) WHERE state = 1;
CREATE INDEX sessions_expires ON sessions (expires);

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
    owner        TEXT,
    due          INTEGER,
    claimed_by   INTEGER,
    UNIQUE (collection, id)
) STRICT;
CREATE INDEX resources_due ON resources (collection, due) WHERE due IS NOT NULL;
CREATE INDEX resources_claimed ON resources (collection) WHERE claimed_by IS NOT NULL;

CREATE TABLE small_media (
    id    BLOB NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;
";

/// The tables that version 5 has added or replaced: the rest of [`TABLES`].
const TABLES_OF_VERSION_5: &str = "
CREATE TABLE contexts (
    session BLOB NOT NULL UNIQUE,
    bytes   BLOB NOT NULL
) STRICT;

CREATE TABLE media (
    id     BLOB    NOT NULL,
    place  INTEGER NOT NULL,
    refs   INTEGER NOT NULL,
    handle BLOB    NOT NULL DEFAULT x'',
    PRIMARY KEY (id, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE extents (
    media  BLOB    NOT NULL,
    number INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    len    INTEGER NOT NULL,
    name   BLOB    NOT NULL,
    PRIMARY KEY (media, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE garbage (
    media      BLOB    NOT NULL,
    handle     BLOB    NOT NULL,
    not_before INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    PRIMARY KEY (media, handle)
) STRICT, WITHOUT ROWID;
";

/// The statements that upgrade a database of version 1 to version 2. All of its sessions were
/// started by the only dialect of that version.
const FROM_VERSION_1: &str = "
ALTER TABLE sessions ADD COLUMN owner TEXT;
ALTER TABLE sessions ADD COLUMN dialect TEXT NOT NULL DEFAULT 'google';
ALTER TABLE resources ADD COLUMN owner TEXT;
";

/// Returns the statements that upgrade a database of version 2, 3 or 4 to version 5.
///
/// The rows of events had their time and their claim in their body. A claim is void after the
/// upgrade, so the event is due at once. So is a row that cannot be read: whoever claims it says so.
fn from_version_4() -> String {
    const EVENTS: &str = "collection >= '.outbox/' AND collection < '.outbox0'";
    // SQLite would take a blob for its own binary form of JSON.
    const JSON: &str = "CAST(body AS TEXT)";
    format!(
        "
ALTER TABLE garbage RENAME TO old_garbage;
{TABLES_OF_VERSION_5}
ALTER TABLE sessions ADD COLUMN context_len INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN expected_digests BLOB NOT NULL DEFAULT x'';
INSERT INTO contexts SELECT id, context FROM sessions WHERE length(context) > {MAX_CONTEXT_IN_ROW};
UPDATE sessions SET context_len = length(context), context = x''
WHERE length(context) > {MAX_CONTEXT_IN_ROW};

INSERT INTO media (id, place, refs)
SELECT media, place, count(*) FROM (
    SELECT media, place FROM sessions UNION ALL SELECT media, place FROM resources
) WHERE length(media) = 16 AND place IN (0, 1) GROUP BY media, place;
DROP INDEX sessions_media;
DROP INDEX resources_media;

INSERT INTO garbage SELECT media, x'', 0, 0 FROM old_garbage;
DROP TABLE old_garbage;

ALTER TABLE resources ADD COLUMN due INTEGER;
ALTER TABLE resources ADD COLUMN claimed_by INTEGER;
UPDATE resources SET due = 0 WHERE {EVENTS};
UPDATE resources SET
    due = iif(json_type({JSON}, '$.claimedBy') IS NULL, json_extract({JSON}, '$.due'), 0),
    body = CAST(json_remove({JSON}, '$.due', '$.claimedBy') AS BLOB)
WHERE {EVENTS} AND CASE WHEN json_valid({JSON}) THEN
    json_type({JSON}, '$.due') = 'integer' AND typeof(json_extract({JSON}, '$.due')) = 'integer'
END;
CREATE INDEX resources_due ON resources (collection, due) WHERE due IS NOT NULL;
CREATE INDEX resources_claimed ON resources (collection) WHERE claimed_by IS NOT NULL;
"
    )
}

/// Why a database was not opened or copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "its schema has version {found}, and this build supports versions {OLDEST} to {VERSION}"
    )]
    UnsupportedVersion { found: i32 },
    #[error("it is empty")]
    Empty,
    #[error("it is the database of another application")]
    Foreign,
    #[error("{name}: {source}")]
    Special {
        name: String,
        source: std::io::Error,
    },
}

impl SchemaError {
    /// Returns whether the cause is a lack of disk space.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_full_error(error))
    }

    /// Converts it to the error of a store with its ledger at `path`.
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

/// Opens the connection that makes changes. In an empty database it creates the tables, with this
/// identity.
/// The identity of existing tables is not compared. Tables of an earlier version are upgraded.
pub(super) fn open_writer(
    path: &Path,
    identity: Identity,
    durability: Durability,
) -> Result<Connection, SchemaError> {
    refuse_special(path)?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Lets the database become shorter without being rewritten as a whole. It costs one more page
    // in commits that take or free pages. Only an empty database accepts it, so it is set first.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    // Readers see a snapshot and never block the writer. A commit is one sync, of the WAL.
    connection.pragma_update(None, "journal_mode", "wal")?;
    set_durability(&connection, durability)?;
    // An automatic checkpoint would run inside COMMIT, before callers are answered. The writer
    // starts checkpoints itself (super::wal).
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // When the WAL restarts, its file is truncated to 64 MiB, twice the length at which a
    // checkpoint is due on large disks. Otherwise the file would keep its greatest length forever.
    let limit = 2 * CHECKPOINT_PAGES * PAGE_LEN;
    connection.pragma_update(None, "journal_size_limit", limit.cast_signed())?;
    // After a fault, closing the connection must not checkpoint. So checkpoints on close are
    // forbidden here, and `Committer::close` allows them if there was no fault.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    make_tables(&mut connection, identity)?;
    Ok(connection)
}

/// Opens the connection of the checkpoint thread.
pub(super) fn open_checkpointing(
    path: &Path,
    durability: Durability,
) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_durability(&connection, durability)?;
    open_wal(&connection)?;
    Ok(connection)
}

/// Opens a connection that only reads. Closing it never checkpoints the WAL, even if it is the last
/// connection: that would not be safe after a fault, and only the writer knows whether there was
/// one.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    // Not opened read-only: a reader writes its read mark into the WAL's index, and the first
    // reader after a crash rebuilds the index. `query_only` refuses changes of the database.
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    open_wal(&connection)?;
    Ok(connection)
}

/// Opens a connection that only reads, for use without a [`LocalLedger`](super::LocalLedger): by
/// other processes, next to a server or after its crash, and by a server that is about to open the
/// ledger. The schema may have an earlier version.
///
/// The database file and the pages in the WAL stay as they are. The files are opened read-write, so
/// SQLite may create an empty WAL and the WAL's index, `-shm`.
pub(super) fn open_external_reader(path: &Path) -> Result<Connection, SchemaError> {
    refuse_special(path)?;
    let connection = open_reader(path)?;
    match read_header(&connection)? {
        (APPLICATION_ID, OLDEST..=VERSION) => Ok(connection),
        (0, 0) if is_empty(&connection)? => Err(SchemaError::Empty),
        (APPLICATION_ID, found) => Err(SchemaError::UnsupportedVersion { found }),
        _ => Err(SchemaError::Foreign),
    }
}

/// Returns the identity in the ledger at `path`, or `None` if the file does not exist or is empty.
/// It is compared with the identity in the vault before the ledger is opened. Like
/// [`open_external_reader`], this changes no data.
pub(crate) fn identity_in(path: &Path) -> Result<Option<Identity>, OpenError> {
    if !filesystem::exists(path).map_err(|source| OpenError::io(path, source))? {
        return Ok(None);
    }
    let found = match open_external_reader(path) {
        Err(SchemaError::Empty) => return Ok(None),
        opened => opened.and_then(|connection| Ok(identity(&connection)?)),
    };
    found.map(Some).map_err(|error| error.at(path))
}

/// Returns the identity in the ledger.
pub(super) fn identity(connection: &Connection) -> rusqlite::Result<Identity> {
    let identity = connection.query_row("SELECT identity FROM store", [], |row| row.get(0));
    identity.map(Identity::from_bytes)
}

/// Refuses anything but a regular file in the place of the database or its companions. SQLite would
/// open it.
fn refuse_special(path: &Path) -> Result<(), SchemaError> {
    for suffix in ["", "-wal", "-shm"] {
        let path = filesystem::with_suffix(path, suffix);
        filesystem::refuse_special(&path).map_err(|source| SchemaError::Special {
            name: path.display().to_string(),
            source,
        })?;
    }
    Ok(())
}

fn connect(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    // One thread at a time uses a connection, so SQLite need not lock it.
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // The ledger has one connection that writes. The timeout is for locks of other programs, such
    // as an operator's shell.
    connection.busy_timeout(Duration::from_secs(5))?;
    // More than there are statements, so that each is compiled once. The default is 16.
    connection.set_prepared_statement_cache_capacity(96);
    // A long transaction or a sort would spill into a temporary file. A failure to open that, for
    // lack of a descriptor or of space in /tmp, would be taken for a fault of the database.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

/// Makes SQLite open the WAL now, by a first read. If a later read had to open it while the file
/// system is frozen (`fsfreeze`), that read would hang until the thaw.
fn open_wal(connection: &Connection) -> rusqlite::Result<()> {
    let version = |row: &rusqlite::Row<'_>| row.get::<_, i32>(0);
    connection
        .pragma_query_value(None, "user_version", version)
        .map(drop)
}

fn set_durability(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", synchronous(durability))?;
    // On macOS fsync does not reach the medium; these use F_FULLFSYNC there, and do nothing
    // elsewhere.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)
}

fn synchronous(durability: Durability) -> &'static str {
    // In WAL mode only FULL syncs the WAL with each commit. With NORMAL a power cut may undo the
    // last commits (sqlite.org/pragma.html#pragma_synchronous).
    match durability {
        Durability::Disk => "full",
        Durability::Os => "off",
    }
}

fn make_tables(connection: &mut Connection, identity: Identity) -> Result<(), SchemaError> {
    // One transaction, so that a crash leaves either an empty database or a complete one, and
    // either the earlier version of the tables or the new one.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = read_header(&transaction)?;
    match found {
        (0, 0) if is_empty(&transaction)? => {
            transaction.execute_batch(TABLES)?;
            transaction.execute_batch(TABLES_OF_VERSION_5)?;
            transaction.execute_batch(&usage::tables())?;
            transaction.execute("INSERT INTO store VALUES (?1)", [identity.as_bytes()])?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        (APPLICATION_ID, VERSION) => {}
        (APPLICATION_ID, from @ OLDEST..VERSION) => {
            if from == OLDEST {
                transaction.execute_batch(FROM_VERSION_1)?;
            }
            transaction.execute_batch(usage::REMOVE)?;
            transaction.execute_batch(&from_version_4())?;
            transaction.execute_batch(&usage::tables())?;
            transaction.execute_batch(&usage::count_all())?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        (APPLICATION_ID, found) => return Err(SchemaError::UnsupportedVersion { found }),
        _ => return Err(SchemaError::Foreign),
    }
    transaction.commit()?;
    if let (APPLICATION_ID, from @ OLDEST..VERSION) = found {
        tracing::info!(
            from,
            to = VERSION,
            "the schema of the ledger was upgraded; earlier releases refuse it from now on"
        );
    }
    Ok(())
}

/// Whether the database has no tables. Databases of other applications often have neither an id nor
/// a version.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM sqlite_schema";
    connection.query_row(count, [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

/// Returns the version of the schema.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    Ok(read_header(connection)?.1)
}

/// Reads the application id and the version of the schema from the header of the database.
fn read_header(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let read = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    Ok((read("application_id")?, read("user_version")?))
}
