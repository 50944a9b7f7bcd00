//! Counts of references to media: the table `media`, and what is done when a count becomes 0.
//!
//! A row of `media` has the number of sessions and resources that reference the media. Media
//! without a row is referenced by nothing. A change collects its references first and writes the
//! difference: an upload whose media passes from its session to its resource writes no count.

use rusqlite::{Connection, params};
use windlass_store::{MediaId, MediaLocation, MediaRef};

use super::changes::{ChangeResult, Tables};
use super::rows;

/// The references that a change adds and removes, and the media that comes with it.
#[derive(Debug, Default)]
pub(super) struct References(Vec<Counted>);

/// The references to one media.
#[derive(Debug)]
struct Counted {
    media: MediaRef,
    /// Number of added references, less the removed ones.
    net: i64,
    /// The least value that `net` has had. Negative if a row from before the change has referenced
    /// the media.
    least: i64,
}

impl References {
    /// Media comes with the change. It is released at the end if nothing references it.
    pub(super) fn arrives(&mut self, media: MediaRef) {
        self.add(media, 0);
    }

    pub(super) fn added(&mut self, media: Option<MediaRef>) {
        if let Some(media) = media {
            self.add(media, 1);
        }
    }

    pub(super) fn removed(&mut self, media: Option<MediaRef>) {
        if let Some(media) = media {
            self.add(media, -1);
        }
    }

    fn add(&mut self, media: MediaRef, number: i64) {
        // Changes nearly always concern one or two media, so a search from the end is quick.
        let known = self.0.iter_mut().rev().find(|it| it.media == media);
        let (net, least) = known.as_ref().map_or((0, 0), |it| (it.net, it.least));
        let net = net + number;
        let counted = Counted {
            media,
            net,
            least: least.min(net),
        };
        match known {
            Some(known) => *known = counted,
            None => self.0.push(counted),
        }
    }
}

/// Returns whether a session or a resource references a media.
pub(super) fn is_referenced(connection: &Connection, media: MediaRef) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM media WHERE id = ?1 AND place = ?2)")?
        .query_row(
            params![media.id.as_bytes(), rows::sql_location(media.location)],
            |row| row.get(0),
        )
}

/// The statement of [`unknown_media`]: whether the media with the id `?1` is known.
pub(super) const IS_KNOWN: &str = "SELECT EXISTS (SELECT 1 FROM media WHERE id = ?1)
    OR EXISTS (SELECT 1 FROM garbage WHERE media = ?1)";

/// Returns the unknown media among `ids` (orphans, if the vault has them): no session or resource
/// references it, and it is not on the garbage list.
pub(super) fn unknown_media(
    connection: &Connection,
    is_known: &str,
    ids: impl IntoIterator<Item = MediaId>,
) -> rusqlite::Result<Vec<MediaId>> {
    // One snapshot for all ids, because each call sees one state of the ledger.
    let snapshot = connection.unchecked_transaction()?;
    let mut statement = snapshot.prepare_cached(is_known)?;
    let mut unknown = Vec::new();
    for id in ids {
        if !statement.query_row([id.as_bytes()], |row| row.get(0))? {
            unknown.push(id);
        }
    }
    Ok(unknown)
}

impl Tables<'_> {
    /// Writes the counts that have changed, and releases media without a reference: deletes small
    /// media, and puts other media on the garbage list.
    pub(super) fn settle(&self, references: References) -> ChangeResult {
        for Counted { media, net, least } in references.0 {
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
        if is_referenced(self.connection, media)? {
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
