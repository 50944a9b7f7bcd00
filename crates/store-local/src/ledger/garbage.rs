//! The garbage list: what the vault stores and the ledger has released.
//!
//! The id of an entry is its media, the number of its deletions so far, and its handle. So an id is
//! void after the first deletion of an entry that is deleted twice.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Row, params};
use windlass_store::{Garbage, GarbageId, MediaId, StoredName};

use super::changes::{ChangeResult, Tables};
use super::rows;

/// Returns entries that are due, behind the entry `after`.
pub(super) fn due(
    connection: &Connection,
    after: Option<&GarbageId>,
    limit: usize,
) -> rusqlite::Result<Vec<Garbage>> {
    // Each media is greater than the empty blob.
    let after = after.and_then(parts);
    let (media, handle) = after
        .as_ref()
        .map_or((&[][..], &[][..]), |entry| (&entry.media[..], entry.handle));
    let mut statement = connection.prepare_cached(
        "SELECT media, handle, attempt FROM garbage
         WHERE (media, handle) > (?1, ?2) AND length(media) = 16 AND not_before <= ?3
         ORDER BY media, handle LIMIT ?4",
    )?;
    // Entries of a ledger without a retention have the time 0.
    let bounds = params![media, handle, now(), rows::sql_limit(limit)];
    statement.query_map(bounds, read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Garbage> {
    let media: [u8; 16] = row.get("media")?;
    let handle: Vec<u8> = row.get("handle")?;
    let attempt = row.get("attempt")?;
    let id = [&media[..], &[attempt], &handle].concat();
    Ok(Garbage {
        id: GarbageId::from_bytes(id.into()),
        name: StoredName {
            media: MediaId::from_bytes(media),
            handle: handle.into(),
        },
        attempt,
    })
}

/// The parts of an id.
struct Parts<'a> {
    media: [u8; 16],
    attempt: u8,
    handle: &'a [u8],
}

/// Returns the parts of an id, or `None` if no entry has such an id.
fn parts(id: &GarbageId) -> Option<Parts<'_>> {
    let (media, rest) = id.as_bytes().split_first_chunk()?;
    let (attempt, handle) = rest.split_first()?;
    Some(Parts {
        media: *media,
        attempt: *attempt,
        handle,
    })
}

impl Tables<'_> {
    /// Puts what was released on the list.
    pub(super) fn put_garbage(&self, media: MediaId, handle: &[u8]) -> rusqlite::Result<()> {
        let not_before = match self.retention.keep {
            Duration::ZERO => 0,
            keep => after(keep),
        };
        self.execute(
            "INSERT INTO garbage (media, handle, not_before, attempt) VALUES (?1, ?2, ?3, 0)
             ON CONFLICT DO NOTHING",
            params![media.as_bytes(), handle, not_before],
        )?;
        Ok(())
    }

    /// Forgets entries that the vault has deleted. With `again_after`, an entry that was deleted for
    /// the first time stays on the list.
    pub(super) fn deleted(
        &self,
        entries: &[GarbageId],
        again_after: Option<Duration>,
    ) -> ChangeResult {
        for entry in entries.iter().filter_map(parts) {
            let Parts {
                media,
                attempt,
                handle,
            } = entry;
            match again_after {
                Some(pause) if attempt == 0 => self.execute(
                    "UPDATE garbage SET attempt = 1, not_before = ?3
                     WHERE media = ?1 AND handle = ?2 AND attempt = 0",
                    params![media, handle, after(pause)],
                )?,
                _ => self.execute(
                    "DELETE FROM garbage WHERE media = ?1 AND handle = ?2 AND attempt = ?3",
                    params![media, handle, attempt],
                )?,
            };
        }
        Ok(())
    }

    /// Removes media from the list, whatever is known of its deletion.
    pub(super) fn forget_garbage(&self, media: MediaId) -> ChangeResult {
        let deletion = "DELETE FROM garbage WHERE media = ?1";
        self.execute(deletion, [media.as_bytes()])?;
        Ok(())
    }
}

/// Returns the time by the wall clock, in milliseconds since the Unix epoch.
fn now() -> i64 {
    let elapsed = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the time after a pause, by the wall clock.
fn after(pause: Duration) -> i64 {
    now().saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX))
}
