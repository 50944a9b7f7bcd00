//! Rows to records and back.
//!
//! SQLite has signed integers. Counts are stored bit for bit; `expires`, which is compared in SQL,
//! stops at the largest signed one.
//!
//! Rows that hold what no version of the store has written.
//!
//! SQLite has read them without an error, so the database is as good as ever; what is in them makes no sense. A request
//! that needs such a row fails. Everything else goes on.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension, Row, params};
use windlass_proto::digest::{Crc32c, Digests, Md5, Sha256};
use windlass_store::{
    Epoch, Extent, Media, MediaId, MediaLocation, MediaRef, Progress, Resource, Session, SessionId,
    SessionState, Timestamp,
};

/// One session.
pub(super) fn session(connection: &Connection, id: SessionId) -> rusqlite::Result<Option<Session>> {
    let mut statement = connection.prepare_cached(
        "SELECT context, created, expires, state, epoch, offset, total, crc32c, slow_digests,
                media, place, extent_start, extent_crc32c, reply
         FROM sessions WHERE id = ?1",
    )?;
    statement
        .query_row([id.as_bytes()], |row| read_session(id, row))
        .optional()
}

fn read_session(id: SessionId, row: &Row<'_>) -> rusqlite::Result<Session> {
    let progress = Progress {
        offset: count(row, "offset")?,
        total: total(row)?,
        crc32c: Crc32c(row.get("crc32c")?),
        slow_digests: row.get("slow_digests")?,
        media: media_ref(row)?,
        extent: extent(row)?,
    };
    Ok(Session {
        id,
        context: row.get("context")?,
        created: Timestamp::from_millis(count(row, "created")?),
        expires: Timestamp::from_millis(count(row, "expires")?),
        state: state(row)?,
        epoch: Epoch(count(row, "epoch")?),
        progress,
        reply: row.get("reply")?,
    })
}

/// One resource.
pub(super) fn resource(
    connection: &Connection,
    collection: &str,
    id: &str,
) -> rusqlite::Result<Option<Resource>> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM resources WHERE collection = ?1 AND id = ?2")?;
    statement
        .query_row([collection, id], read_resource)
        .optional()
}

/// Up to `limit` resources of a collection behind `after`.
pub(super) fn resources(
    connection: &Connection,
    collection: &str,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Resource>> {
    // Every string but the empty one is greater than the empty one; "not before" lets that in too.
    let comparison = if after.is_some() { ">" } else { ">=" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT * FROM resources WHERE collection = ?1 AND id {comparison} ?2 ORDER BY id LIMIT ?3"
    ))?;
    let bounds = params![collection, after.unwrap_or_default(), sql_limit(limit)];
    statement.query_map(bounds, read_resource)?.collect()
}

fn read_resource(row: &Row<'_>) -> rusqlite::Result<Resource> {
    let media = match media_ref(row)? {
        None => None,
        Some(at) => Some(Media {
            at,
            length: count(row, "length")?,
            content_type: row.get("content_type")?,
            digests: digests(row)?,
        }),
    };
    Ok(Resource {
        collection: row.get("collection")?,
        id: row.get("id")?,
        version: count(row, "version")?,
        body: row.get::<_, Vec<u8>>("body")?.into(),
        media,
        created: Timestamp::from_millis(count(row, "created")?),
        updated: Timestamp::from_millis(count(row, "updated")?),
    })
}

/// Those of `ids` that no row names. One statement sees one state: media that moves from a session
/// to its resource meanwhile is never seen between the two.
pub(super) fn unknown_media(
    connection: &Connection,
    ids: Vec<MediaId>,
) -> rusqlite::Result<Vec<MediaId>> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM sessions WHERE media = ?1)
             OR EXISTS (SELECT 1 FROM resources WHERE media = ?1)
             OR EXISTS (SELECT 1 FROM garbage WHERE media = ?1)",
    )?;
    let mut unknown = Vec::new();
    for id in ids {
        if !statement.query_row([id.as_bytes()], |row| row.get(0))? {
            unknown.push(id);
        }
    }
    Ok(unknown)
}

/// Whether a session or a resource names a media.
pub(super) fn is_named(connection: &Connection, media: MediaRef) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM sessions WHERE media = ?1 AND place = ?2)
                 OR EXISTS (SELECT 1 FROM resources WHERE media = ?1 AND place = ?2)",
        )?
        .query_row(
            params![media.id.as_bytes(), sql_location(media.location)],
            |row| row.get(0),
        )
}

/// The bytes of a small media.
pub(super) fn small_media(
    connection: &Connection,
    id: MediaId,
) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT bytes FROM small_media WHERE id = ?1")?
        .query_row([id.as_bytes()], |row| row.get(0))
        .optional()
}

/// The column `total` of a session.
pub(super) fn total(row: &Row<'_>) -> rusqlite::Result<Option<u64>> {
    let total: Option<i64> = row.get("total")?;
    Ok(total.map(i64::cast_unsigned))
}

/// The columns of a session that tell of its last stretch.
pub(super) fn extent(row: &Row<'_>) -> rusqlite::Result<Option<Extent>> {
    let start: Option<i64> = row.get("extent_start")?;
    let crc32c: Option<u32> = row.get("extent_crc32c")?;
    Ok(start.zip(crc32c).map(|(start, crc32c)| Extent {
        start: start.cast_unsigned(),
        crc32c: Crc32c(crc32c),
    }))
}

/// The columns of a resource that tell what its media comes to.
pub(super) fn digests(row: &Row<'_>) -> rusqlite::Result<Digests> {
    Ok(Digests {
        crc32c: Crc32c(row.get("crc32c")?),
        md5: row.get::<_, Option<[u8; 16]>>("md5")?.map(Md5),
        sha256: row.get::<_, Option<[u8; 32]>>("sha256")?.map(Sha256),
    })
}

/// The columns `media` and `place`.
pub(super) fn media_ref(row: &Row<'_>) -> rusqlite::Result<Option<MediaRef>> {
    let Some(id) = row.get::<_, Option<[u8; 16]>>("media")? else {
        return Ok(None);
    };
    let id = MediaId::from_bytes(id);
    let location = match row.get("place")? {
        0 => MediaLocation::Ledger,
        1 => MediaLocation::Vault,
        other => return Err(unknown_number("place", other)),
    };
    Ok(Some(MediaRef { id, location }))
}

/// The column `place`.
pub(super) fn sql_location(location: MediaLocation) -> i64 {
    match location {
        MediaLocation::Ledger => 0,
        MediaLocation::Vault => 1,
    }
}

/// The column `state`.
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

/// The column `state`; two indexes of the schema know the 1 by number.
pub(super) fn sql_state(state: SessionState) -> i64 {
    match state {
        SessionState::Active => 0,
        SessionState::Finishing => 1,
        SessionState::Finished => 2,
        SessionState::Cancelled => 3,
        SessionState::Failed => 4,
    }
}

/// A column that holds a count.
pub(super) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

/// A moment in a column that is compared.
pub(super) fn sql_moment(moment: Timestamp) -> i64 {
    i64::try_from(moment.as_millis()).unwrap_or(i64::MAX)
}

/// A `LIMIT`.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn unknown_number(column: &str, number: i64) -> rusqlite::Error {
    let reason = format!("{number} is no {column}");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Integer, reason.into())
}

/// Most different errors that go to the log.
const MOST_TOLD: usize = 100;

/// Tells of such rows, of each kind of error once.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    told: Mutex<HashSet<String>>,
}

impl Unreadable {
    /// Whether an error is that of a row that makes no sense. Then the log tells, if it has not yet.
    pub(super) fn note(&self, error: &Error) -> bool {
        if !is_unreadable(error) {
            return false;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD && told.insert(error.to_string()) {
            tracing::error!(%error, "a row of the ledger cannot be read; `windlass verify` says which");
        }
        true
    }
}

/// Whether a value of a row could not be converted.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}
