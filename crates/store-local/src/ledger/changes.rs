//! What can be changed in the database, change by change.
//!
//! A change runs inside the writer's transaction and says no by an error; the writer then takes back
//! whatever it had done.
//!
//! The changes, statement by statement.
//!
//! Everything here runs inside the writer's transaction, which takes a change back that is refused: a
//! method may leave its work half-done then.
//!
//! The epochs that are in force and not yet in the database.
//!
//! A lease need not survive a crash, so it costs no commit: its epoch waits here until the session's
//! next change carries it into the row. It waits outside of the database's transactions, because a
//! transaction that is rolled back (the disk is full) would take it back, and the next lease would
//! get the same epoch once more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_store::{
    ChangeSet, EndSession, Epoch, FinishSession, LedgerError, Media, MediaId, MediaLocation,
    MediaRef, NewSession, OffsetCommit, Progress, Resource, ResourceChange, SessionId,
    SessionState, Timestamp,
};

use super::rows;
use crate::reserve::Purpose;

/// A change that waits for its turn.
pub(super) enum Change {
    Start(NewSession),
    OffsetCommit {
        id: SessionId,
        epoch: Epoch,
        advance: OffsetCommit,
    },
    End {
        id: SessionId,
        epoch: Epoch,
        end: EndSession,
    },
    Apply(ChangeSet),
    Expire {
        now: Timestamp,
        limit: usize,
    },
    ForgetGarbage(Vec<MediaId>),
    /// Makes the database shorter by some of the pages that hold nothing.
    Shrink,
    /// Anything a test wants to happen inside the transaction.
    #[cfg(test)]
    Any(super::tests::AnyChange),
}

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum ChangeError {
    /// The contract says no.
    Refused(Refusal),
    /// The database did not do it.
    Sqlite(rusqlite::Error),
}

/// An answer that is no fault: the ledger goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Fenced,
    Conflict,
    NoSpace,
    Busy,
    Unreadable,
}

impl From<Refusal> for LedgerError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fenced => Self::Fenced,
            Refusal::Conflict => Self::Conflict,
            Refusal::NoSpace => Self::NoSpace,
            Refusal::Busy => Self::Busy,
            Refusal::Unreadable => Self::Unreadable,
        }
    }
}

impl From<Refusal> for ChangeError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<rusqlite::Error> for ChangeError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Change {
    /// Makes the change. Returns the sessions that are forgotten with it, which only expiry does.
    pub(super) fn run(&self, to: &Tables<'_>) -> Result<Vec<SessionId>, ChangeError> {
        match self {
            Self::Start(session) => to.start(session)?,
            Self::OffsetCommit { id, epoch, advance } => to.commit_offset(*id, *epoch, advance)?,
            Self::End { id, epoch, end } => to.end(*id, *epoch, *end)?,
            Self::Apply(changes) => to.apply(changes)?,
            Self::Expire { now, limit } => return to.expire(*now, *limit),
            Self::ForgetGarbage(ids) => to.forget_garbage(ids)?,
            Self::Shrink => to.shrink()?,
            #[cfg(test)]
            Self::Any(change) => (change.work)(to.connection)?,
        }
        Ok(Vec::new())
    }

    /// What the reserve may be used for, if this change may use it: never to take more room.
    pub(super) fn purpose(&self) -> Option<Purpose> {
        match self {
            Self::End { .. } | Self::Expire { .. } | Self::ForgetGarbage(_) => {
                Some(Purpose::MakeRoom)
            }
            Self::Apply(changes) if changes.makes_room() => Some(Purpose::MakeRoom),
            Self::Apply(changes) if changes.finish.is_some() => Some(Purpose::Finish),
            Self::OffsetCommit { advance, .. } if advance.small_media.is_none() => {
                Some(Purpose::Finish)
            }
            // The disk has the room only after a checkpoint: until then a shorter database takes more.
            Self::Start(_) | Self::OffsetCommit { .. } | Self::Apply(_) | Self::Shrink => None,
            #[cfg(test)]
            Self::Any(change) => change.purpose,
        }
    }

    /// Whether the database has fewer pages afterwards.
    pub(super) fn shrinks(&self) -> bool {
        matches!(self, Self::Shrink)
    }

    /// The lease that the change is made under; its epoch is in the row afterwards.
    pub(super) fn lease(&self) -> Option<(SessionId, Epoch)> {
        match self {
            Self::OffsetCommit { id, epoch, .. } | Self::End { id, epoch, .. } => {
                Some((*id, *epoch))
            }
            Self::Apply(ChangeSet {
                finish: Some(finish),
                ..
            }) => Some((finish.id, finish.epoch)),
            _ => None,
        }
    }
}

/// Pages by which the database is made shorter at once: 2 MiB.
pub(super) const SHRINK_PAGES: u64 = 512;

/// The tables, inside a transaction.
pub(super) struct Tables<'a> {
    pub(super) connection: &'a Connection,
    pub(super) leases: &'a Leases,
}

type Changed = Result<(), ChangeError>;

/// An open session that is held under the caller's epoch.
struct Held {
    rowid: i64,
    state: SessionState,
    offset: u64,
    media: Option<MediaRef>,
}

impl Tables<'_> {
    pub(super) fn start(&self, new: &NewSession) -> Changed {
        let inserted = self.execute(
            "INSERT INTO sessions
                 (id, context, created, expires, state, epoch, offset, total, crc32c, slow_digests)
             VALUES (?1, ?2, ?3, ?4, 0, 0, 0, ?5, 0, x'')
             ON CONFLICT (id) DO NOTHING",
            params![
                new.id.as_bytes(),
                new.context,
                new.created.as_millis().cast_signed(),
                rows::sql_moment(new.expires),
                new.total.map(u64::cast_signed),
            ],
        )?;
        one_or(inserted, Refusal::Conflict)
    }

    pub(super) fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        advance: &OffsetCommit,
    ) -> Changed {
        let held = self.held(id, epoch)?;
        if held.offset != advance.from || advance.progress.offset < advance.from {
            return Err(Refusal::Fenced.into());
        }
        if let (Some(media), Some(bytes)) = (advance.progress.media, &advance.small_media) {
            self.put_small_media(media.id, bytes)?;
        }
        self.write_progress(&held, epoch, &advance.progress)?;
        self.write_state(&held, advance.state)?;
        if let Some(expires) = advance.expires {
            self.write_expires(&held, expires)?;
        }
        self.move_media(&held, advance.progress.media)
    }

    pub(super) fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> Changed {
        let held = self.held(id, epoch)?;
        let state = match end {
            EndSession::Cancelled => SessionState::Cancelled,
            EndSession::Failed => SessionState::Failed,
        };
        self.execute(
            "UPDATE sessions SET epoch = ?2, context = x'', extent_start = NULL, extent_crc32c = NULL
             WHERE rowid = ?1",
            params![held.rowid, epoch.0.cast_signed()],
        )?;
        self.write_state(&held, state)?;
        self.move_media(&held, None)
    }

    pub(super) fn apply(&self, changes: &ChangeSet) -> Changed {
        let held = match &changes.finish {
            Some(finish) => Some(self.held_to_finish(finish)?),
            None => None,
        };
        // What loses a name is let go of at the end, when all new names are there.
        let mut loose: Vec<_> = changes.new_media().collect();
        if let Some((id, bytes)) = &changes.small_media {
            self.put_small_media(*id, bytes)?;
        }
        for change in &changes.resources {
            if let Some(media) = change.media() {
                self.expect_media(media, &loose)?;
            }
            loose.extend(self.change_resource(change)?);
        }
        if let (Some(held), Some(finish)) = (held, &changes.finish) {
            self.finish(&held, finish)?;
            loose.extend(held.media);
        }
        // Mostly there is one change, and its resource has the media.
        if let [change] = &changes.resources[..] {
            loose.retain(|media| !change.names(*media));
        }
        loose.into_iter().try_for_each(|media| self.let_go(media))
    }

    /// The media is the resource's from now on.
    fn finish(&self, held: &Held, finish: &FinishSession) -> Changed {
        let progress = &finish.progress;
        self.execute(
            "UPDATE sessions SET epoch = ?2, offset = ?3, total = ?4, crc32c = ?5,
                 slow_digests = ?6, extent_start = NULL, extent_crc32c = NULL, state = ?7,
                 reply = ?8
             WHERE rowid = ?1",
            params![
                held.rowid,
                finish.epoch.0.cast_signed(),
                progress.offset.cast_signed(),
                progress.total.map(u64::cast_signed),
                progress.crc32c.0,
                progress.slow_digests,
                rows::sql_state(SessionState::Finished),
                finish.reply,
            ],
        )?;
        self.write_media(held, None)
    }

    /// Rows that cannot be read stay, and keep no others from expiring.
    pub(super) fn expire(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionId>, ChangeError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid, id, media, place FROM sessions
             WHERE expires < ?1 AND state <> 1 AND length(id) = 32
                 AND (media IS NULL OR length(media) = 16 AND place IN (0, 1))
             ORDER BY expires LIMIT ?2",
        )?;
        let bounds = params![rows::sql_moment(now), rows::sql_limit(limit)];
        let dead = statement.query_map(bounds, |row| {
            Ok((row.get("rowid")?, row.get("id")?, rows::media_ref(row)?))
        })?;
        let dead: Vec<(i64, [u8; 32], Option<MediaRef>)> = dead.collect::<Result<_, _>>()?;
        for (rowid, _, media) in &dead {
            self.execute("DELETE FROM sessions WHERE rowid = ?1", [rowid])?;
            if let Some(media) = media {
                self.let_go(*media)?;
            }
        }
        Ok(dead
            .into_iter()
            .map(|(_, id, _)| SessionId::from_bytes(id))
            .collect())
    }

    pub(super) fn forget_garbage(&self, ids: &[MediaId]) -> Changed {
        for id in ids {
            self.execute("DELETE FROM garbage WHERE media = ?1", [id.as_bytes()])?;
        }
        Ok(())
    }

    /// Makes the database shorter by a step. One that was not made for it (`auto_vacuum`) stays as it is.
    pub(super) fn shrink(&self) -> Changed {
        let sql = format!("PRAGMA incremental_vacuum({SHRINK_PAGES})");
        let mut statement = self.connection.prepare_cached(&sql)?;
        // Each page is a row, without columns.
        let mut pages = statement.query([])?;
        while pages.next()?.is_some() {}
        Ok(())
    }

    /// Puts the epochs of leases into their rows. Rows that have moved on stay as they are.
    pub(super) fn write_epochs(&self, epochs: &[(SessionId, Epoch)]) -> rusqlite::Result<()> {
        for (id, epoch) in epochs {
            self.execute(
                "UPDATE sessions SET epoch = ?2 WHERE id = ?1 AND epoch < ?2",
                params![id.as_bytes(), epoch.0.cast_signed()],
            )?;
        }
        Ok(())
    }

    fn held_to_finish(&self, finish: &FinishSession) -> Result<Held, ChangeError> {
        let held = self.held(finish.id, finish.epoch)?;
        if finish.progress.offset < held.offset {
            return Err(Refusal::Fenced.into());
        }
        Ok(held)
    }

    /// The session, if it is held under `epoch` and still open.
    fn held(&self, id: SessionId, epoch: Epoch) -> Result<Held, ChangeError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid, state, epoch, offset, media, place FROM sessions WHERE id = ?1",
        )?;
        let found = statement.query_row([id.as_bytes()], |row| {
            let held = Held {
                rowid: row.get("rowid")?,
                state: rows::state(row)?,
                offset: rows::count(row, "offset")?,
                media: rows::media_ref(row)?,
            };
            Ok((held, Epoch(rows::count(row, "epoch")?)))
        });
        let Some((held, row_epoch)) = found.optional()? else {
            return Err(Refusal::Fenced.into());
        };
        let is_open = matches!(held.state, SessionState::Active | SessionState::Finishing);
        if !is_open || self.leases.newest(id, row_epoch) != epoch {
            return Err(Refusal::Fenced.into());
        }
        Ok(held)
    }

    /// Writes what changes at every step. State, expiry and media are indexed and mostly stay as
    /// they are: naming them here would make each step write pages of their indexes too.
    fn write_progress(&self, held: &Held, epoch: Epoch, progress: &Progress) -> Changed {
        self.execute(
            "UPDATE sessions SET epoch = ?2, offset = ?3, total = ?4, crc32c = ?5,
                 slow_digests = ?6, extent_start = ?7, extent_crc32c = ?8
             WHERE rowid = ?1",
            params![
                held.rowid,
                epoch.0.cast_signed(),
                progress.offset.cast_signed(),
                progress.total.map(u64::cast_signed),
                progress.crc32c.0,
                progress.slow_digests,
                progress.extent.map(|extent| extent.start.cast_signed()),
                progress.extent.map(|extent| extent.crc32c.0),
            ],
        )?;
        Ok(())
    }

    fn write_state(&self, held: &Held, state: SessionState) -> Changed {
        if state != held.state {
            self.execute(
                "UPDATE sessions SET state = ?2 WHERE rowid = ?1",
                params![held.rowid, rows::sql_state(state)],
            )?;
        }
        Ok(())
    }

    fn write_expires(&self, held: &Held, expires: Timestamp) -> Changed {
        self.execute(
            "UPDATE sessions SET expires = ?2 WHERE rowid = ?1",
            params![held.rowid, rows::sql_moment(expires)],
        )?;
        Ok(())
    }

    /// Makes the session name `media`, and lets go of what it named before.
    fn move_media(&self, held: &Held, media: Option<MediaRef>) -> Changed {
        self.write_media(held, media)?;
        match held.media {
            Some(before) if media != Some(before) => self.let_go(before),
            _ => Ok(()),
        }
    }

    fn write_media(&self, held: &Held, media: Option<MediaRef>) -> Changed {
        if media != held.media {
            self.execute(
                "UPDATE sessions SET media = ?2, place = ?3 WHERE rowid = ?1",
                params![
                    held.rowid,
                    media.as_ref().map(|media| media.id.as_bytes()),
                    media.map(|media| rows::sql_location(media.location)),
                ],
            )?;
        }
        Ok(())
    }

    /// Media that no row names may be deleted at any moment. `known` is what the change set brings or has taken
    /// from a resource.
    fn expect_media(&self, media: MediaRef, known: &[MediaRef]) -> Changed {
        if known.contains(&media) || rows::is_named(self.connection, media)? {
            Ok(())
        } else {
            Err(Refusal::Conflict.into())
        }
    }

    /// Makes one change. Returns the media that the resource had before.
    fn change_resource(&self, change: &ResourceChange) -> Result<Option<MediaRef>, ChangeError> {
        match change {
            ResourceChange::Insert(resource) => self.insert(resource).map(|()| None),
            ResourceChange::Replace { resource, expected } => self.replace(resource, *expected),
            ResourceChange::Delete {
                collection,
                id,
                expected,
            } => self.delete(collection, id, *expected),
        }
    }

    fn insert(&self, resource: &Resource) -> Changed {
        let inserted = self.write_resource(
            "INSERT INTO resources
                 (collection, id, version, body, media, place, length, content_type, crc32c, md5,
                  sha256, created, updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT (collection, id) DO NOTHING",
            resource,
        )?;
        one_or(inserted, Refusal::Conflict)
    }

    fn replace(&self, resource: &Resource, expected: u64) -> Result<Option<MediaRef>, ChangeError> {
        let before = self.expect_version(&resource.collection, &resource.id, expected)?;
        self.write_resource(
            "UPDATE resources SET version = ?3, body = ?4, media = ?5, place = ?6, length = ?7,
                 content_type = ?8, crc32c = ?9, md5 = ?10, sha256 = ?11, created = ?12,
                 updated = ?13
             WHERE collection = ?1 AND id = ?2",
            resource,
        )?;
        Ok(before)
    }

    fn delete(
        &self,
        collection: &str,
        id: &str,
        expected: u64,
    ) -> Result<Option<MediaRef>, ChangeError> {
        let before = self.expect_version(collection, id, expected)?;
        self.execute(
            "DELETE FROM resources WHERE collection = ?1 AND id = ?2",
            [collection, id],
        )?;
        Ok(before)
    }

    /// The media of a resource, if it has the version that the caller expects.
    fn expect_version(
        &self,
        collection: &str,
        id: &str,
        expected: u64,
    ) -> Result<Option<MediaRef>, ChangeError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT version, media, place FROM resources WHERE collection = ?1 AND id = ?2",
        )?;
        let found = statement.query_row([collection, id], |row| {
            Ok((rows::count(row, "version")?, rows::media_ref(row)?))
        });
        match found.optional()? {
            Some((version, media)) if version == expected => Ok(media),
            _ => Err(Refusal::Conflict.into()),
        }
    }

    fn write_resource(&self, sql: &str, resource: &Resource) -> rusqlite::Result<usize> {
        let media = resource.media.as_ref();
        let digest = |of: fn(&Media) -> Option<&[u8]>| media.and_then(of);
        self.execute(
            sql,
            params![
                resource.collection,
                resource.id,
                resource.version.cast_signed(),
                &resource.body[..],
                media.map(|media| media.at.id.as_bytes()),
                media.map(|media| rows::sql_location(media.at.location)),
                media.map(|media| media.length.cast_signed()),
                media.map(|media| &media.content_type),
                media.map(|media| media.digests.crc32c.0),
                digest(|media| media.digests.md5.as_ref().map(|md5| &md5.0[..])),
                digest(|media| media.digests.sha256.as_ref().map(|sha256| &sha256.0[..])),
                resource.created.as_millis().cast_signed(),
                resource.updated.as_millis().cast_signed(),
            ],
        )
    }

    fn put_small_media(&self, id: MediaId, bytes: &[u8]) -> Changed {
        self.execute(
            "INSERT INTO small_media (id, bytes) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes",
            params![id.as_bytes(), bytes],
        )?;
        Ok(())
    }

    /// A row that named `media` has gone or names another: drops the media when it was the last.
    pub(super) fn let_go(&self, media: MediaRef) -> Changed {
        if rows::is_named(self.connection, media)? {
            return Ok(());
        }
        let drop = match media.location {
            MediaLocation::Ledger => "DELETE FROM small_media WHERE id = ?1",
            MediaLocation::Vault => {
                "INSERT INTO garbage (media) VALUES (?1) ON CONFLICT DO NOTHING"
            }
        };
        self.execute(drop, [media.id.as_bytes()])?;
        Ok(())
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(params)
    }
}

fn one_or(changed: usize, refusal: Refusal) -> Changed {
    if changed == 1 {
        Ok(())
    } else {
        Err(refusal.into())
    }
}

/// The epochs in force. Raised and settled by the writer only, so that they change in the order of
/// its work; readers look.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<HashMap<SessionId, Epoch>>);

impl Leases {
    /// The newest epoch of a session whose row says `row`.
    pub(super) fn newest(&self, id: SessionId, row: Epoch) -> Epoch {
        self.waiting(id).map_or(row, |epoch| epoch.max(row))
    }

    /// The epoch that waits for a session. Looked at before the row is read: a lease that is
    /// settled in between is then in the row.
    pub(super) fn waiting(&self, id: SessionId) -> Option<Epoch> {
        self.map().get(&id).copied()
    }

    /// Grants a new lease of a session whose row says `row`.
    pub(super) fn raise(&self, id: SessionId, row: Epoch) -> Epoch {
        let next = Epoch(self.newest(id, row).0 + 1);
        self.map().insert(id, next);
        next
    }

    /// The row of a session has `epoch` now, durably.
    pub(super) fn settle(&self, id: SessionId, epoch: Epoch) {
        let mut map = self.map();
        if map.get(&id) == Some(&epoch) {
            map.remove(&id);
        }
    }

    /// The session is gone, durably.
    pub(super) fn forget(&self, id: SessionId) {
        self.map().remove(&id);
    }

    /// All that wait, when they have become more than `limit`: sessions that were leased and then
    /// never moved.
    pub(super) fn overflow(&self, limit: usize) -> Vec<(SessionId, Epoch)> {
        let map = self.map();
        if map.len() <= limit {
            return Vec::new();
        }
        map.iter().map(|(id, epoch)| (*id, *epoch)).collect()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, Epoch>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}
