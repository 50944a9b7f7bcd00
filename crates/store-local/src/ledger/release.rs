//! Writes the counts of references ([`super::references`]), and releases media when a count becomes
//! 0.

use rusqlite::{OptionalExtension, params};
use windlass_store::{MediaLocation, MediaRef};

use super::changes::{ChangeResult, Tables};
use super::references::{self, Counted, References};
use super::rows;

impl Tables<'_> {
    /// Writes the counts that have changed, and releases media without a reference: deletes small
    /// media, and puts other media on the garbage list.
    pub(super) fn settle(&self, references: References) -> ChangeResult {
        for counted in references.counted() {
            let Counted {
                media,
                handle,
                net,
                least,
            } = counted;
            match net {
                // A row from before the change had a reference, and another row has it now.
                0 if least < 0 => self.set_handle(media, &handle)?,
                0 => self.release_if_unreferenced(media, &handle)?,
                1.. => self.add_references(media, net, &handle)?,
                _ => self.remove_references(media, -net, &handle)?,
            }
        }
        Ok(())
    }

    /// Releases media if no session or resource references it.
    pub(super) fn release_if_unreferenced(&self, media: MediaRef, handle: &[u8]) -> ChangeResult {
        if references::is_referenced(self.connection, media)? {
            Ok(())
        } else {
            self.release(media, handle)
        }
    }

    /// Writes what names sealed media in the vault.
    fn set_handle(&self, media: MediaRef, handle: &[u8]) -> ChangeResult {
        if !handle.is_empty() {
            let place = rows::sql_location(media.location);
            let update = "UPDATE media SET handle = ?3 WHERE id = ?1 AND place = ?2";
            self.execute(update, params![media.id.as_bytes(), place, handle])?;
        }
        Ok(())
    }

    /// Sets the number of references to a media, as a verification has counted it.
    pub(super) fn set_references(&self, media: MediaRef, refs: u64) -> ChangeResult {
        let id = media.id.as_bytes();
        let place = rows::sql_location(media.location);
        if refs == 0 {
            let handle = self.delete_count(media, i64::MAX)?;
            return self.release(media, &handle.unwrap_or_default());
        }
        self.execute(
            "INSERT INTO media (id, place, refs) VALUES (?1, ?2, ?3)
             ON CONFLICT (id, place) DO UPDATE SET refs = excluded.refs",
            params![id, place, refs.cast_signed()],
        )?;
        Ok(())
    }

    fn add_references(&self, media: MediaRef, number: i64, handle: &[u8]) -> ChangeResult {
        self.execute(
            "INSERT INTO media (id, place, refs, handle) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id, place) DO UPDATE SET refs = refs + excluded.refs",
            params![
                media.id.as_bytes(),
                rows::sql_location(media.location),
                number,
                handle
            ],
        )?;
        Ok(())
    }

    /// Deletes the count of media if it has at most this many references. Returns its handle.
    fn delete_count(&self, media: MediaRef, refs: i64) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut statement = self.connection.prepare_cached(
            "DELETE FROM media WHERE id = ?1 AND place = ?2 AND refs <= ?3 RETURNING handle",
        )?;
        let place = rows::sql_location(media.location);
        let deleted =
            statement.query_row(params![media.id.as_bytes(), place, refs], |row| row.get(0));
        deleted.optional()
    }

    fn remove_references(&self, media: MediaRef, number: i64, handle: &[u8]) -> ChangeResult {
        let (id, place) = (media.id.as_bytes(), rows::sql_location(media.location));
        // Nearly always these are the last references, which takes one statement.
        if let Some(written) = self.delete_count(media, number)? {
            let handle = if handle.is_empty() { &written } else { handle };
            return self.release(media, handle);
        }
        // Without a row the counts are damaged. The media is kept then, and a verification finds it.
        let rest = "UPDATE media SET refs = refs - ?3 WHERE id = ?1 AND place = ?2";
        self.execute(rest, params![id, place, number])?;
        Ok(())
    }

    /// Releases media: deletes small media, and puts other media on the garbage list, by its handle
    /// if it is sealed, or else by its extents.
    fn release(&self, media: MediaRef, handle: &[u8]) -> ChangeResult {
        match media.location {
            MediaLocation::Ledger => {
                let deletion = "DELETE FROM small_media WHERE id = ?1";
                self.execute(deletion, [media.id.as_bytes()])?;
            }
            MediaLocation::Vault if handle.is_empty() => {
                let extents = self.forget_extents(media.id)?;
                if extents.is_empty() {
                    self.put_garbage(media.id, &[])?;
                }
                for name in extents {
                    self.put_garbage(media.id, &name)?;
                }
            }
            MediaLocation::Vault => self.put_garbage(media.id, handle)?,
        }
        Ok(())
    }
}
