//! Writes the counts of references ([`super::references`]), and releases media when a count becomes
//! 0.

use rusqlite::params;
use windlass_store::{MediaLocation, MediaRef};

use super::changes::{ChangeResult, Tables};
use super::references::{self, Counted, References};
use super::rows;

impl Tables<'_> {
    /// Writes the counts that have changed, and releases media without a reference: deletes small
    /// media, and puts other media on the garbage list.
    pub(super) fn settle(&self, references: References) -> ChangeResult {
        for Counted { media, net, least } in references.counted() {
            match net {
                // A row from before the change had a reference, and another row has it now.
                0 if least < 0 => {}
                0 => self.release_if_unreferenced(media)?,
                1.. => self.add_references(media, net)?,
                _ => self.remove_references(media, -net)?,
            }
        }
        Ok(())
    }

    /// Releases media if no session or resource references it.
    pub(super) fn release_if_unreferenced(&self, media: MediaRef) -> ChangeResult {
        if references::is_referenced(self.connection, media)? {
            Ok(())
        } else {
            self.release(media)
        }
    }

    /// Sets the number of references to a media, as a verification has counted it.
    pub(super) fn set_references(&self, media: MediaRef, refs: u64) -> ChangeResult {
        let id = media.id.as_bytes();
        let place = rows::sql_location(media.location);
        if refs == 0 {
            let deletion = "DELETE FROM media WHERE id = ?1 AND place = ?2";
            self.execute(deletion, params![id, place])?;
            return self.release(media);
        }
        self.execute(
            "INSERT INTO media (id, place, refs) VALUES (?1, ?2, ?3)
             ON CONFLICT (id, place) DO UPDATE SET refs = excluded.refs",
            params![id, place, refs.cast_signed()],
        )?;
        Ok(())
    }

    fn add_references(&self, media: MediaRef, number: i64) -> ChangeResult {
        self.execute(
            "INSERT INTO media (id, place, refs) VALUES (?1, ?2, ?3)
             ON CONFLICT (id, place) DO UPDATE SET refs = refs + excluded.refs",
            params![
                media.id.as_bytes(),
                rows::sql_location(media.location),
                number
            ],
        )?;
        Ok(())
    }

    fn remove_references(&self, media: MediaRef, number: i64) -> ChangeResult {
        let (id, place) = (media.id.as_bytes(), rows::sql_location(media.location));
        // Nearly always these are the last references, which takes one statement.
        let last = "DELETE FROM media WHERE id = ?1 AND place = ?2 AND refs <= ?3";
        if self.execute(last, params![id, place, number])? > 0 {
            return self.release(media);
        }
        // Without a row the counts are damaged. The media is kept then, and a verification finds it.
        let rest = "UPDATE media SET refs = refs - ?3 WHERE id = ?1 AND place = ?2";
        self.execute(rest, params![id, place, number])?;
        Ok(())
    }

    fn release(&self, media: MediaRef) -> ChangeResult {
        match media.location {
            MediaLocation::Ledger => {
                let deletion = "DELETE FROM small_media WHERE id = ?1";
                self.execute(deletion, [media.id.as_bytes()])?;
            }
            MediaLocation::Vault => self.put_garbage(media.id)?,
        }
        Ok(())
    }
}
