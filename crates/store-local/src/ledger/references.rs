//! Counts of references to media: the table `media`.
//!
//! A row of `media` has the number of sessions and resources that reference the media. Media
//! without a row is referenced by nothing. A change collects its references first and writes the
//! difference ([`super::release`]): an upload whose media passes from its session to its resource
//! writes no count.

use bytes::Bytes;
use rusqlite::{Connection, params};
use windlass_store::{MediaId, MediaLocation, MediaRef, StoredName};

use super::rows;

/// The references that a change adds and removes, and the media that comes with it.
#[derive(Debug, Default)]
pub(super) struct References(Vec<Counted>);

/// The references to one media.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) media: MediaRef,
    /// The handle of sealed media. Empty if its id is enough.
    pub(super) handle: Bytes,
    /// Number of added references, less the removed ones.
    pub(super) net: i64,
    /// The least value that `net` has had. Negative if a row from before the change has referenced
    /// the media.
    pub(super) least: i64,
}

impl References {
    /// Media comes with the change. It is released at the end if nothing references it.
    pub(super) fn arrives(&mut self, media: MediaRef) {
        self.add(media, 0);
    }

    /// The change says what names media in the vault.
    pub(super) fn named(&mut self, name: &StoredName) {
        let media = MediaRef {
            id: name.media,
            location: MediaLocation::Vault,
        };
        self.add(media, 0).handle = name.handle.clone();
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

    /// Returns the references to each media.
    pub(super) fn counted(self) -> impl Iterator<Item = Counted> {
        self.0.into_iter()
    }

    fn add(&mut self, media: MediaRef, number: i64) -> &mut Counted {
        // Changes nearly always concern one or two media, so a search from the end is quick.
        let known = self.0.iter().rposition(|it| it.media == media);
        let at = known.unwrap_or_else(|| {
            self.0.push(Counted {
                media,
                handle: Bytes::new(),
                net: 0,
                least: 0,
            });
            self.0.len() - 1
        });
        let counted = &mut self.0[at];
        counted.net += number;
        counted.least = counted.least.min(counted.net);
        counted
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

/// Returns the unknown names among `names` (orphans, if the vault has them): no session, resource or
/// garbage entry has it.
pub(super) fn unknown_names(
    connection: &Connection,
    names: impl IntoIterator<Item = StoredName>,
) -> rusqlite::Result<Vec<StoredName>> {
    // One snapshot for all names, because each call sees one state of the ledger.
    let snapshot = connection.unchecked_transaction()?;
    let mut statement = snapshot.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM media WHERE id = ?1 AND handle = ?2)
             OR EXISTS (SELECT 1 FROM extents WHERE media = ?1 AND name = ?2)
             OR EXISTS (SELECT 1 FROM garbage WHERE media = ?1 AND handle = ?2)",
    )?;
    let mut unknown = Vec::new();
    for name in names {
        let parameters = params![name.media.as_bytes(), &name.handle[..]];
        if !statement.query_row(parameters, |row| row.get(0))? {
            unknown.push(name);
        }
    }
    Ok(unknown)
}

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
