//! Extents: durable bytes of media that is not sealed, in a vault that chooses their names.

use rusqlite::{Connection, params};
use windlass_store::{ExtentChanges, MediaId, StoredExtent};

use super::changes::{ChangeResult, Tables};

/// Returns the extents of media, in the order of their offsets.
pub(super) fn of_media(
    connection: &Connection,
    media: MediaId,
) -> rusqlite::Result<Vec<StoredExtent>> {
    let mut statement = connection.prepare_cached(
        "SELECT number, start, len, name FROM extents WHERE media = ?1 ORDER BY start",
    )?;
    let found = statement.query_map([media.as_bytes()], |row| {
        Ok(StoredExtent {
            number: row.get("number")?,
            start: row.get("start").map(i64::cast_unsigned)?,
            len: row.get("len").map(i64::cast_unsigned)?,
            name: row.get::<_, Vec<u8>>("name")?.into(),
        })
    })?;
    found.collect()
}

impl Tables<'_> {
    /// Changes the extents of media. Names that no extent of it has any more become garbage.
    pub(super) fn change_extents(&self, media: MediaId, changes: &ExtentChanges) -> ChangeResult {
        for extent in &changes.added {
            self.execute(
                "INSERT INTO extents (media, number, start, len, name)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    media.as_bytes(),
                    extent.number,
                    extent.start.cast_signed(),
                    extent.len.cast_signed(),
                    &extent.name[..],
                ],
            )?;
        }
        let mut gone = Vec::new();
        for number in &changes.dropped {
            let mut statement = self.connection.prepare_cached(
                "DELETE FROM extents WHERE media = ?1 AND number = ?2 RETURNING name",
            )?;
            let names = statement.query_map(params![media.as_bytes(), number], read_name)?;
            for name in names {
                gone.push(name?);
            }
        }
        for name in gone {
            if !is_named(self.connection, media, &name)? {
                self.put_garbage(media, &name)?;
            }
        }
        Ok(())
    }

    /// Forgets the extents of media. Returns their names.
    pub(super) fn forget_extents(&self, media: MediaId) -> rusqlite::Result<Vec<Vec<u8>>> {
        let mut statement = self
            .connection
            .prepare_cached("DELETE FROM extents WHERE media = ?1 RETURNING name")?;
        let names = statement.query_map([media.as_bytes()], read_name)?;
        names.collect()
    }
}

/// Whether an extent of media has a name.
fn is_named(connection: &Connection, media: MediaId, name: &[u8]) -> rusqlite::Result<bool> {
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM extents WHERE media = ?1 AND name = ?2)")?;
    statement.query_row(params![media.as_bytes(), name], |row| row.get(0))
}

fn read_name(row: &rusqlite::Row<'_>) -> rusqlite::Result<Vec<u8>> {
    row.get(0)
}
