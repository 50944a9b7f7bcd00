//! Conversion of rows to records and back, and the epochs that are not in their rows yet.
//!
//! SQLite has signed integers. An unsigned number is stored as the signed integer with the same
//! bits. `expires`, which is compared in SQL, saturates at the largest signed integer.
//!
//! A row is *unreadable* if it holds a value that no version of the store writes. SQLite reads it
//! without an error, so the database itself is sound. A request that needs such a row fails; all
//! further requests work.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension, Row, params};
use windlass_digest::{Crc32c, Digests, Md5, Sha256};
use windlass_store::session_list::MAX_SESSIONS_READ_PER_PAGE;
use windlass_store::{
    Epoch, Extent, Media, MediaId, MediaLocation, MediaRef, Progress, Resource, Session, SessionId,
    SessionOrder, SessionPage, SessionQuery, SessionState, SessionSummary, Timestamp,
};

/// Maximum number of bytes of a context that is in the row of its session. A row of this length
/// occupies a part of one page, and a commit writes that page anyway, so a context in the row costs
/// nothing. A context in the table `contexts` costs two pages at the start and none later.
pub(super) const MAX_CONTEXT_IN_ROW: usize = 1024;

/// Returns one session.
pub(super) fn session(connection: &Connection, id: SessionId) -> rusqlite::Result<Option<Session>> {
    let mut statement = connection.prepare_cached(
        "SELECT iif(context_len = 0, context, (SELECT bytes FROM contexts WHERE session = sessions.id))
                    AS context,
                created, expires, state, epoch, offset, total, crc32c, slow_digests,
                media, place, extent_start, extent_crc32c, expected_digests, reply, owner, dialect
         FROM sessions WHERE id = ?1",
    )?;
    statement
        .query_row([id.as_bytes()], |row| read_session(id, row))
        .optional()
}

fn read_session(id: SessionId, row: &Row<'_>) -> rusqlite::Result<Session> {
    let progress = Progress {
        offset: unsigned(row, "offset")?,
        total: total(row)?,
        crc32c: Crc32c(row.get("crc32c")?),
        slow_digests: row.get("slow_digests")?,
        media: media_ref(row)?,
        extent: extent(row)?,
        expected_digests: row.get("expected_digests")?,
    };
    Ok(Session {
        id,
        context: row.get("context")?,
        created: Timestamp::from_millis(unsigned(row, "created")?),
        expires: Timestamp::from_millis(unsigned(row, "expires")?),
        state: state(row)?,
        epoch: Epoch(unsigned(row, "epoch")?),
        progress,
        reply: row.get("reply")?,
        owner: row.get("owner")?,
        dialect: row.get("dialect")?,
    })
}

/// Returns one page of the list of sessions.
///
/// No index has the owners, and only the index of finishing sessions has a state. So the page is
/// found in the index of all ids, or of the ids of finishing sessions. Each row that it reads costs
/// about the same, whether it is selected or not.
pub(super) fn sessions(
    connection: &Connection,
    query: &SessionQuery,
) -> rusqlite::Result<SessionPage> {
    let mut statement = connection.prepare_cached(&session_list_sql(query))?;
    let after = match (query.after, query.order) {
        (Some(id), _) => id.as_bytes().to_vec(),
        // Every id is greater than the empty blob, and less than the longer blob.
        (None, SessionOrder::OldestFirst) => Vec::new(),
        (None, SessionOrder::NewestFirst) => vec![u8::MAX; 33],
    };
    let mut found = statement.query(params![after, sql_limit(MAX_SESSIONS_READ_PER_PAGE)])?;
    let mut page = SessionPage::default();
    let mut read = 0;
    while let Some(row) = found.next()? {
        read += 1;
        let id = SessionId::from_bytes(row.get("id")?);
        match read_summary(id, row) {
            Ok(session) if query.selects(&session) => page.sessions.push(session),
            Ok(_) => {}
            // The row is left out, so that it does not hide all further rows.
            Err(error) if is_conversion_error(&error) => {}
            Err(error) => return Err(error),
        }
        if page.sessions.len() == query.page_len() || read == MAX_SESSIONS_READ_PER_PAGE {
            page.next = Some(id);
            break;
        }
    }
    Ok(page)
}

/// Returns the statement of [`sessions`]. Its parameters are the position after which it begins,
/// and the maximum number of rows.
pub(super) fn session_list_sql(query: &SessionQuery) -> String {
    // As in `finishing`, the literal lets SQLite use the partial index.
    let of_index = match query.state {
        Some(SessionState::Finishing) => "state = 1 AND",
        _ => "",
    };
    let (comparison, direction) = match query.order {
        SessionOrder::OldestFirst => (">", "ASC"),
        SessionOrder::NewestFirst => ("<", "DESC"),
    };
    format!(
        "SELECT id, owner, state, created, expires, offset, total, dialect FROM sessions
         WHERE {of_index} id {comparison} ?1 AND length(id) = 32 ORDER BY id {direction} LIMIT ?2"
    )
}

fn read_summary(id: SessionId, row: &Row<'_>) -> rusqlite::Result<SessionSummary> {
    Ok(SessionSummary {
        id,
        owner: row.get("owner")?,
        state: state(row)?,
        created: Timestamp::from_millis(unsigned(row, "created")?),
        expires: Timestamp::from_millis(unsigned(row, "expires")?),
        offset: unsigned(row, "offset")?,
        total: total(row)?,
        dialect: row.get("dialect")?,
    })
}

/// The columns of `resources`, and the handle of the media, as [`read_resource`] reads them.
pub(super) const RESOURCE_COLUMNS: &str = "resources.rowid, resources.*,
    (SELECT handle FROM media WHERE media.id = resources.media AND media.place = resources.place)
        AS handle";

/// Returns one resource.
pub(super) fn resource(
    connection: &Connection,
    collection: &str,
    id: &str,
) -> rusqlite::Result<Option<Resource>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RESOURCE_COLUMNS} FROM resources WHERE collection = ?1 AND id = ?2"
    ))?;
    statement
        .query_row([collection, id], read_resource)
        .optional()
}

/// Returns the resources with these collections and ids.
pub(super) fn fetch(
    connection: &Connection,
    keys: &[(String, String)],
) -> rusqlite::Result<Vec<Option<Resource>>> {
    // One snapshot for all keys, because each call sees one state of the ledger.
    let snapshot = connection.unchecked_transaction()?;
    let found = keys
        .iter()
        .map(|(collection, id)| resource(&snapshot, collection, id));
    found.collect()
}

/// Returns up to `limit` resources of a collection with ids greater than `after`.
pub(super) fn resources(
    connection: &Connection,
    collection: &str,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Resource>> {
    // An id may be empty, so without `after` the comparison with the empty string includes it.
    let comparison = if after.is_some() { ">" } else { ">=" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RESOURCE_COLUMNS} FROM resources
         WHERE collection = ?1 AND id {comparison} ?2 ORDER BY id LIMIT ?3"
    ))?;
    let bounds = params![collection, after.unwrap_or_default(), sql_limit(limit)];
    statement.query_map(bounds, read_resource)?.collect()
}

pub(super) fn read_resource(row: &Row<'_>) -> rusqlite::Result<Resource> {
    let media = match media_ref(row)? {
        None => None,
        Some(at) => Some(Media {
            at,
            handle: row
                .get::<_, Option<Vec<u8>>>("handle")?
                .unwrap_or_default()
                .into(),
            length: unsigned(row, "length")?,
            content_type: row.get("content_type")?,
            digests: digests(row)?,
        }),
    };
    Ok(Resource {
        collection: row.get("collection")?,
        id: row.get("id")?,
        version: unsigned(row, "version")?,
        body: row.get::<_, Vec<u8>>("body")?.into(),
        media,
        created: Timestamp::from_millis(unsigned(row, "created")?),
        updated: Timestamp::from_millis(unsigned(row, "updated")?),
        owner: row.get("owner")?,
        due: moment(row, "due")?,
        claimed_by: row
            .get::<_, Option<i64>>("claimed_by")?
            .map(i64::cast_unsigned),
    })
}

/// Reads a column that holds a point in time or `NULL`.
fn moment(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    let millis: Option<i64> = row.get(column)?;
    Ok(millis.map(|millis| Timestamp::from_millis(millis.cast_unsigned())))
}

/// Returns the bytes of a small media.
pub(super) fn small_media(
    connection: &Connection,
    id: MediaId,
) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT bytes FROM small_media WHERE id = ?1")?
        .query_row([id.as_bytes()], |row| row.get(0))
        .optional()
}

/// Reads the column `total` of a session.
pub(super) fn total(row: &Row<'_>) -> rusqlite::Result<Option<u64>> {
    let total: Option<i64> = row.get("total")?;
    Ok(total.map(i64::cast_unsigned))
}

/// Reads the columns of a session that describe its last extent.
pub(super) fn extent(row: &Row<'_>) -> rusqlite::Result<Option<Extent>> {
    let start: Option<i64> = row.get("extent_start")?;
    let crc32c: Option<u32> = row.get("extent_crc32c")?;
    Ok(start.zip(crc32c).map(|(start, crc32c)| Extent {
        start: start.cast_unsigned(),
        crc32c: Crc32c(crc32c),
    }))
}

/// Reads the columns of a resource that hold the digests of its media.
pub(super) fn digests(row: &Row<'_>) -> rusqlite::Result<Digests> {
    Ok(Digests {
        crc32c: Crc32c(row.get("crc32c")?),
        md5: row.get::<_, Option<[u8; 16]>>("md5")?.map(Md5),
        sha256: row.get::<_, Option<[u8; 32]>>("sha256")?.map(Sha256),
    })
}

/// Reads the columns `media`, which holds the id, and `place`, which holds the location as a
/// number.
pub(super) fn media_ref(row: &Row<'_>) -> rusqlite::Result<Option<MediaRef>> {
    let Some(id) = row.get::<_, Option<[u8; 16]>>("media")? else {
        return Ok(None);
    };
    let id = MediaId::from_bytes(id);
    let location = location(row)?;
    Ok(Some(MediaRef { id, location }))
}

/// Reads the column `place`.
pub(super) fn location(row: &Row<'_>) -> rusqlite::Result<MediaLocation> {
    match row.get("place")? {
        0 => Ok(MediaLocation::Ledger),
        1 => Ok(MediaLocation::Vault),
        other => Err(unknown_number("place", other)),
    }
}

/// Returns the value of the column `place` for a location.
pub(super) fn sql_location(location: MediaLocation) -> i64 {
    match location {
        MediaLocation::Ledger => 0,
        MediaLocation::Vault => 1,
    }
}

/// Reads the column `state`, which holds the state as a number.
pub(super) fn state(row: &Row<'_>) -> rusqlite::Result<SessionState> {
    Ok(match row.get("state")? {
        0 => SessionState::Active,
        1 => SessionState::Finishing,
        2 => SessionState::Finished,
        3 => SessionState::Cancelled,
        4 => SessionState::Failed,
        other => return Err(unknown_number("state", other)),
    })
}

/// Returns the value of the column `state`. An index of the schema and several statements contain
/// the number of a finishing session as a literal, 1.
pub(super) fn sql_state(state: SessionState) -> i64 {
    match state {
        SessionState::Active => 0,
        SessionState::Finishing => 1,
        SessionState::Finished => 2,
        SessionState::Cancelled => 3,
        SessionState::Failed => 4,
    }
}

/// Reads a column that holds an unsigned number.
pub(super) fn unsigned(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

/// Returns the value of a column that is compared with a point in time.
pub(super) fn sql_moment(moment: Timestamp) -> i64 {
    // Stored with the same bits, a time beyond the signed range would be negative, so SQL would
    // take it for a time in the past.
    i64::try_from(moment.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the value of a `LIMIT`.
pub(super) fn sql_limit(limit: usize) -> i64 {
    // SQLite takes a negative limit for no limit.
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn unknown_number(column: &str, number: i64) -> rusqlite::Error {
    let reason = format!("{number} is not a value of the column {column}");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Integer, reason.into())
}

/// The unwritten epochs: they are in force and not yet in the database.
///
/// This ledger is locked by one process, so all holders of leases run in it and end with it. So a
/// lease need not survive a crash, and costs no commit: its epoch is kept in memory until the next
/// change of the session writes it into the row.
///
/// Only the writer thread raises and removes epochs. Readers look them up.
#[derive(Debug, Default)]
pub(super) struct UnwrittenEpochs(Mutex<HashMap<SessionId, Epoch>>);

impl UnwrittenEpochs {
    /// Returns the newest epoch of a session. `row_epoch` is the epoch in its row.
    pub(super) fn newest(&self, id: SessionId, row_epoch: Epoch) -> Epoch {
        self.get(id).map_or(row_epoch, |epoch| epoch.max(row_epoch))
    }

    /// Returns the unwritten epoch of a session. A reader must call this before it reads the row.
    /// Otherwise a commit in between may move the epoch from memory into the row, and the reader
    /// finds it in neither.
    pub(super) fn get(&self, id: SessionId) -> Option<Epoch> {
        self.map().get(&id).copied()
    }

    /// Raises the epoch of a session and returns the new epoch. `row_epoch` is the epoch in its
    /// row.
    pub(super) fn raise(&self, id: SessionId, row_epoch: Epoch) -> Epoch {
        // The map is locked twice, which is no race: only the writer thread changes it.
        let next = Epoch(self.newest(id, row_epoch).0 + 1);
        self.map().insert(id, next);
        next
    }

    /// Removes the unwritten epoch of a session. Called after the commit that has written it into
    /// the row, or that has deleted the row.
    pub(super) fn remove(&self, id: SessionId) {
        self.map().remove(&id);
    }

    /// Returns up to `most` unwritten epochs if more than `limit` exist, otherwise nothing. Unused
    /// leases make their number grow.
    pub(super) fn overflow(&self, limit: usize, most: usize) -> Vec<(SessionId, Epoch)> {
        let map = self.map();
        if map.len() <= limit {
            return Vec::new();
        }
        let epochs = map.iter().map(|(id, epoch)| (*id, *epoch));
        epochs.take(most).collect()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, Epoch>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// Maximum number of distinct errors that are logged, so that neither the log nor the memory grows
/// with the number of damaged rows.
const MAX_LOGGED: usize = 100;

/// Logs the errors of unreadable rows, each distinct message once.
#[derive(Debug, Default)]
pub(super) struct UnreadableRows {
    logged: Mutex<HashSet<String>>,
}

impl UnreadableRows {
    /// Returns whether an error means that a row cannot be read, and logs it if it is new.
    pub(super) fn log(&self, error: &Error) -> bool {
        if !is_conversion_error(error) {
            return false;
        }
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < MAX_LOGGED && logged.insert(error.to_string()) {
            tracing::error!(%error, "a row of the ledger cannot be read; `windlass verify` finds it");
        }
        true
    }
}

/// Returns whether an error means that a value of a row could not be converted, so that the row is
/// unreadable.
pub(crate) fn is_conversion_error(error: &Error) -> bool {
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}
