//! The kinds of changes, and their SQL statements.
//!
//! A change runs inside the writer's transaction ([`super::committer`]). The methods of [`Tables`]
//! make it, or refuse it by [`ChangeError::Refused`]. When a change is refused, some of its rows
//! may be written already. The committer rolls them back.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use windlass_store::{
    ChangeSet, EndSession, Epoch, Expected, ExtentChanges, FinishSession, GarbageId, LedgerError,
    Media, MediaId, MediaRef, NewSession, OffsetCommit, OwnerQuotas, Progress, Quota, Resource,
    ResourceChange, Retention, SessionId, SessionState, Timestamp,
};

use super::references::{self, References};
use super::rows::{self, MAX_CONTEXT_IN_ROW, UnwrittenEpochs};
use crate::reserve::Purpose;

/// A queued change: the arguments of a method of [`Ledger`](windlass_store::Ledger), or
/// [`Change::Shrink`].
pub(super) enum Change {
    Start(NewSession, Quota),
    OffsetCommit {
        id: SessionId,
        epoch: Epoch,
        commit: OffsetCommit,
        quota: Quota,
    },
    End {
        id: SessionId,
        epoch: Epoch,
        end: EndSession,
    },
    Apply {
        changes: Box<ChangeSet>,
        quotas: OwnerQuotas,
    },
    Expire {
        now: Timestamp,
        limit: usize,
    },
    /// Claims rows that are due, for the process with this opening.
    Claim {
        collection: String,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
        opening: u64,
    },
    Deleted {
        entries: Vec<GarbageId>,
        again_after: Option<Duration>,
    },
    /// Removes up to [`SHRINK_PAGES`] free pages from the database.
    Shrink,
    /// Runs any statements of a test inside the transaction.
    #[cfg(test)]
    Any(super::tests::AnyChange),
}

/// What a change has made that its caller does not know.
#[derive(Debug, Clone)]
pub(super) enum Made {
    Nothing,
    /// The expired sessions that it has deleted.
    Expired(Vec<SessionId>),
    /// The rows that it has claimed.
    Claimed(Vec<Resource>),
}

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum ChangeError {
    /// It was refused, and the ledger continues to work.
    Refused(Refusal),
    /// SQLite returned an error. The committer decides whether it is a refusal or a fault.
    Sqlite(rusqlite::Error),
}

/// Why a change was refused. Unlike after a fault, the ledger continues to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The session does not exist or is not open, or it has a newer lease, or its offset differs
    /// from the offset that the caller expects.
    Fenced,
    /// An id exists already, a resource has another version, a collection is not empty, or media
    /// may have been deleted.
    Conflict,
    /// A change set brings too much media.
    TooMuchMedia,
    /// The key of a resource is too long.
    KeyTooLong,
    /// A principal would occupy more than its quota.
    OverQuota,
    /// The disk is full.
    NoSpace,
    /// Another connection, usually of another program, holds the write lock of the database.
    Busy,
    /// A row that the change needs has a value that cannot be converted.
    Unreadable,
}

impl From<Refusal> for LedgerError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fenced => Self::Fenced,
            Refusal::Conflict => Self::Conflict,
            Refusal::TooMuchMedia => Self::TooMuchMedia,
            Refusal::KeyTooLong => Self::KeyTooLong,
            Refusal::OverQuota => Self::OverQuota,
            Refusal::NoSpace => Self::NoSpace,
            Refusal::Busy => locked(),
            Refusal::Unreadable => Self::Unreadable,
        }
    }
}

/// Another connection, usually of another program, holds a lock of the database.
#[derive(Debug, thiserror::Error)]
#[error("another program holds a lock of the ledger")]
struct Locked;

/// Returns the error of a call that found the database locked.
pub(super) fn locked() -> LedgerError {
    LedgerError::Unavailable(Arc::new(Locked))
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
    /// Makes the change.
    pub(super) fn run(&self, tables: &Tables<'_>) -> Result<Made, ChangeError> {
        match self {
            Self::Start(session, quota) => {
                let owners = session.owner.as_deref();
                tables.within(owners, &(*quota).into(), || tables.start(session))?;
            }
            Self::OffsetCommit {
                id,
                epoch,
                commit,
                quota,
            } => {
                let owner = tables.owner_to_limit(*id, *quota)?;
                let change = || tables.commit_offset(*id, *epoch, commit);
                tables.within(owner.as_deref(), &(*quota).into(), change)?;
            }
            Self::End { id, epoch, end } => tables.end(*id, *epoch, *end)?,
            Self::Apply { changes, quotas } => {
                let owners = changes.resources.iter().filter_map(ResourceChange::owner);
                tables.within(owners, quotas, || tables.apply(changes))?;
            }
            Self::Expire { now, limit } => {
                return tables.expire(*now, *limit).map(Made::Expired);
            }
            Self::Claim {
                collection,
                now,
                until,
                limit,
                opening,
            } => {
                let claimed = tables.claim(collection, [*now, *until], *limit, *opening)?;
                return Ok(Made::Claimed(claimed));
            }
            Self::Deleted {
                entries,
                again_after,
            } => tables.deleted(entries, *again_after)?,
            Self::Shrink => tables.shrink()?,
            #[cfg(test)]
            Self::Any(change) => (change.work)(tables.connection)?,
        }
        Ok(Made::Nothing)
    }

    /// Returns whether the change may use space that the reserve gives up for `purpose`.
    ///
    /// A change with the purpose `MakeSpace` may also use the space that is given up for `Uploads`,
    /// but not the other way round.
    pub(super) fn may_use_reserve(&self, purpose: Purpose) -> bool {
        // Purposes are ordered: `Uploads` is less than `MakeSpace`.
        self.purpose().is_some_and(|own| own >= purpose)
    }

    /// Returns the purpose for which the change may use the reserve, or `None` if it must not.
    ///
    /// The reserve is for changes that free space, for commits of offsets that bring no small
    /// media, and for finishes, whatever they write: all bytes are there, and only this one change
    /// is missing. All other changes would only use it up.
    pub(super) fn purpose(&self) -> Option<Purpose> {
        match self {
            Self::End { .. } | Self::Expire { .. } | Self::Deleted { .. } => {
                Some(Purpose::MakeSpace)
            }
            Self::Apply { changes, .. } if changes.makes_space() => Some(Purpose::MakeSpace),
            Self::Apply { changes, .. } if changes.finish.is_some() => Some(Purpose::Uploads),
            // It brings no media into the database.
            Self::OffsetCommit { commit, .. } if commit.small_media.is_none() => {
                Some(Purpose::Uploads)
            }
            // Shrinking takes space in the WAL now, and frees space on the disk only with the next
            // complete checkpoint.
            Self::Start(..)
            | Self::OffsetCommit { .. }
            | Self::Apply { .. }
            | Self::Claim { .. }
            | Self::Shrink => None,
            #[cfg(test)]
            Self::Any(change) => change.purpose,
        }
    }

    /// Returns whether the change removes pages from the database.
    pub(super) fn shrinks(&self) -> bool {
        matches!(self, Self::Shrink)
    }

    /// Returns the session of the lease that the change needs. The change writes the epoch of the
    /// lease into the row. `None` for a change that needs no lease.
    pub(super) fn leased_session(&self) -> Option<SessionId> {
        match self {
            Self::OffsetCommit { id, .. } | Self::End { id, .. } => Some(*id),
            Self::Apply { changes, .. } => changes.finish.as_ref().map(|finish| finish.id),
            _ => None,
        }
    }
}

/// Maximum number of pages, 2 MiB, by which one change shortens the database. It bounds how long
/// all further changes of its transaction wait for it.
pub(super) const SHRINK_PAGES: u64 = 512;

/// The tables, inside a transaction. It has a method for each kind of change.
pub(super) struct Tables<'a> {
    pub(super) connection: &'a Connection,
    pub(super) unwritten_epochs: &'a UnwrittenEpochs,
    pub(super) retention: Retention,
}

pub(super) type ChangeResult = Result<(), ChangeError>;

/// The row of an open session. The change is made under the newest lease of that session.
struct LeasedRow {
    rowid: i64,
    state: SessionState,
    offset: u64,
    media: Option<MediaRef>,
    /// Whether its context is in the table `contexts`.
    has_long_context: bool,
}

/// The row of a session that is deleted after its expiry.
struct ExpiredRow {
    rowid: i64,
    id: [u8; 32],
    media: Option<MediaRef>,
    has_long_context: bool,
}

impl Tables<'_> {
    pub(super) fn start(&self, new: &NewSession) -> ChangeResult {
        let is_long = new.context.len() > MAX_CONTEXT_IN_ROW;
        let (in_row, context_len) = match i64::try_from(new.context.len()) {
            Ok(len) if is_long => (&[][..], len),
            _ => (&new.context[..], 0),
        };
        let inserted = self.execute(
            "INSERT INTO sessions
                 (id, context, created, expires, state, epoch, offset, total, crc32c, slow_digests,
                  owner, dialect, context_len)
             VALUES (?1, ?2, ?3, ?4, 0, 0, 0, ?5, 0, x'', ?6, ?7, ?8)
             ON CONFLICT (id) DO NOTHING",
            params![
                new.id.as_bytes(),
                in_row,
                new.created.as_millis().cast_signed(),
                rows::sql_moment(new.expires),
                new.total.map(u64::cast_signed),
                new.owner,
                new.dialect,
                context_len,
            ],
        )?;
        one_row_or(inserted, Refusal::Conflict)?;
        if is_long {
            self.execute(
                "INSERT INTO contexts (session, bytes) VALUES (?1, ?2)",
                params![new.id.as_bytes(), new.context],
            )?;
        }
        Ok(())
    }

    pub(super) fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        commit: &OffsetCommit,
    ) -> ChangeResult {
        let session = self.leased_row(id, epoch)?;
        // The epoch is right even if the holder of the lease repeats a call, or makes two in the
        // wrong order. So the offset is compared, too.
        if session.offset != commit.from || commit.progress.offset < commit.from {
            return Err(Refusal::Fenced.into());
        }
        if let (Some(media), Some(bytes)) = (commit.progress.media, &commit.small_media) {
            self.put_small_media(media.id, bytes)?;
        }
        if let Some(media) = commit.progress.media {
            self.change_extents(media.id, &commit.extents)?;
        }
        self.write_progress(&session, epoch, &commit.progress)?;
        self.write_state(&session, commit.state)?;
        if let Some(expires) = commit.expires {
            self.write_expires(&session, expires)?;
        }
        self.replace_media(&session, commit.progress.media)
    }

    pub(super) fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> ChangeResult {
        let session = self.leased_row(id, epoch)?;
        let state = match end {
            EndSession::Cancelled => SessionState::Cancelled,
            EndSession::Failed => SessionState::Failed,
        };
        // The context, which may be large, is not needed any more. `finish` keeps it: the server
        // compares later requests for the session with it before it repeats the reply.
        self.execute(
            "UPDATE sessions SET epoch = ?2, context = x'', context_len = 0, extent_start = NULL,
                 extent_crc32c = NULL, expected_digests = x''
             WHERE rowid = ?1",
            params![session.rowid, epoch.0.cast_signed()],
        )?;
        if session.has_long_context {
            self.delete_context(id.as_bytes())?;
        }
        self.write_state(&session, state)?;
        self.replace_media(&session, None)
    }

    pub(super) fn apply(&self, changes: &ChangeSet) -> ChangeResult {
        if changes.has_too_much_media() {
            return Err(Refusal::TooMuchMedia.into());
        }
        if changes.has_too_long_key() {
            return Err(Refusal::KeyTooLong.into());
        }
        let session = match &changes.finish {
            Some(finish) => Some(self.leased_row_to_finish(finish)?),
            None => None,
        };
        for expected in &changes.expect {
            self.expect(expected)?;
        }
        // They are written at the end, because media that moves from one resource to another within
        // the set must survive.
        let mut references = References::default();
        if let Some(session) = &session {
            references.removed(session.media);
        }
        changes
            .incoming_media()
            .for_each(|media| references.arrives(media));
        changes.names().for_each(|name| references.named(&name));
        for (id, bytes) in changes.incoming_small_media() {
            self.put_small_media(id, bytes)?;
        }
        for change in &changes.resources {
            if let Some(media) = change.media() {
                self.expect_media(media, changes)?;
            }
            references.added(change.media());
            references.removed(self.change_resource(change)?);
        }
        for collection in &changes.expect_empty {
            self.expect_empty(collection)?;
        }
        if let (Some(session), Some(finish)) = (session, &changes.finish) {
            self.finish(&session, finish)?;
        }
        self.settle(references)
    }

    /// Makes the state of the session finished, and removes its media. The caller counts the
    /// reference.
    fn finish(&self, session: &LeasedRow, finish: &FinishSession) -> ChangeResult {
        let progress = &finish.progress;
        self.execute(
            "UPDATE sessions SET epoch = ?2, offset = ?3, total = ?4, crc32c = ?5,
                 slow_digests = ?6, extent_start = NULL, extent_crc32c = NULL,
                 expected_digests = x'', state = ?7, reply = ?8
             WHERE rowid = ?1",
            params![
                session.rowid,
                finish.lease.epoch.0.cast_signed(),
                progress.offset.cast_signed(),
                progress.total.map(u64::cast_signed),
                progress.crc32c.0,
                progress.slow_digests,
                rows::sql_state(SessionState::Finished),
                finish.reply,
            ],
        )?;
        if let Some(media) = session.media
            && !finish.handle.is_empty()
        {
            let left = ExtentChanges {
                added: Vec::new(),
                dropped: finish.left.clone(),
            };
            self.change_extents(media.id, &left)?;
            self.forget_extents(media.id)?;
        }
        self.write_media(session, None)
    }

    /// Deletes expired sessions and returns their ids. Rows with an unreadable id or media are
    /// skipped. Other damage does not matter to a deletion.
    pub(super) fn expire(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionId>, ChangeError> {
        // A finishing session (state 1) is not deleted however old it is: its bytes are
        // acknowledged as complete, so it must be finished first. The conditions on the lengths of
        // ids and on `place` skip rows that would otherwise make the whole change fail.
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid, id, media, place, context_len > 0 AS has_long_context FROM sessions
             WHERE expires < ?1 AND state <> 1 AND length(id) = 32
                 AND (media IS NULL OR length(media) = 16 AND place IN (0, 1))
             ORDER BY expires LIMIT ?2",
        )?;
        let bounds = params![rows::sql_moment(now), rows::sql_limit(limit)];
        let expired = statement.query_map(bounds, |row| {
            Ok(ExpiredRow {
                rowid: row.get("rowid")?,
                id: row.get("id")?,
                media: rows::media_ref(row)?,
                has_long_context: row.get("has_long_context")?,
            })
        })?;
        // Collected before the first DELETE, which would change the index that the query scans.
        let expired: Vec<ExpiredRow> = expired.collect::<Result<_, _>>()?;
        for session in &expired {
            self.execute("DELETE FROM sessions WHERE rowid = ?1", [session.rowid])?;
            if session.has_long_context {
                self.delete_context(&session.id)?;
            }
            let mut references = References::default();
            references.removed(session.media);
            self.settle(references)?;
        }
        let ids = expired.into_iter().map(|session| session.id);
        Ok(ids.map(SessionId::from_bytes).collect())
    }

    fn delete_context(&self, session: &[u8; 32]) -> rusqlite::Result<()> {
        let deletion = "DELETE FROM contexts WHERE session = ?1";
        self.execute(deletion, [session]).map(drop)
    }

    /// Removes up to [`SHRINK_PAGES`] free pages. A database that was created without `auto_vacuum`
    /// stays as it is.
    pub(super) fn shrink(&self) -> ChangeResult {
        let sql = format!("PRAGMA incremental_vacuum({SHRINK_PAGES})");
        let mut statement = self.connection.prepare_cached(&sql)?;
        // The pragma removes one page for each step of the statement, so it is stepped to its end.
        let mut pages = statement.query([])?;
        while pages.next()?.is_some() {}
        Ok(())
    }

    /// Writes epochs into the rows of the sessions.
    pub(super) fn write_epochs(&self, epochs: &[(SessionId, Epoch)]) -> rusqlite::Result<()> {
        for (id, epoch) in epochs {
            // A change of the same transaction may have written the epoch already.
            self.execute(
                "UPDATE sessions SET epoch = ?2 WHERE id = ?1 AND epoch < ?2",
                params![id.as_bytes(), epoch.0.cast_signed()],
            )?;
        }
        Ok(())
    }

    /// Returns the row of a session that is to be finished. Refuses a session with a committed
    /// offset beyond the final offset.
    fn leased_row_to_finish(&self, finish: &FinishSession) -> Result<LeasedRow, ChangeError> {
        let session = self.leased_row(finish.id, finish.lease.epoch)?;
        if finish.progress.offset < session.offset {
            return Err(Refusal::Fenced.into());
        }
        Ok(session)
    }

    /// Returns the row of a session. Refuses a session that is not open, or with a newest epoch
    /// other than `epoch`.
    fn leased_row(&self, id: SessionId, epoch: Epoch) -> Result<LeasedRow, ChangeError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid, state, epoch, offset, media, place, context_len > 0 AS has_long_context
             FROM sessions WHERE id = ?1",
        )?;
        let found = statement.query_row([id.as_bytes()], |row| {
            let found = LeasedRow {
                rowid: row.get("rowid")?,
                state: rows::state(row)?,
                offset: rows::unsigned(row, "offset")?,
                media: rows::media_ref(row)?,
                has_long_context: row.get("has_long_context")?,
            };
            Ok((found, Epoch(rows::unsigned(row, "epoch")?)))
        });
        let Some((session, row_epoch)) = found.optional()? else {
            return Err(Refusal::Fenced.into());
        };
        let is_open = matches!(
            session.state,
            SessionState::Active | SessionState::Finishing
        );
        if !is_open || self.unwritten_epochs.newest(id, row_epoch) != epoch {
            return Err(Refusal::Fenced.into());
        }
        Ok(session)
    }

    /// Writes the columns that change with every commit of an offset.
    fn write_progress(
        &self,
        session: &LeasedRow,
        epoch: Epoch,
        progress: &Progress,
    ) -> ChangeResult {
        // The columns of state, expiry and media are indexed, and their values usually stay the
        // same. If this statement set them, SQLite would write pages of their indexes with every
        // commit. Separate statements therefore set them.
        self.execute(
            "UPDATE sessions SET epoch = ?2, offset = ?3, total = ?4, crc32c = ?5,
                 slow_digests = ?6, extent_start = ?7, extent_crc32c = ?8, expected_digests = ?9
             WHERE rowid = ?1",
            params![
                session.rowid,
                epoch.0.cast_signed(),
                progress.offset.cast_signed(),
                progress.total.map(u64::cast_signed),
                progress.crc32c.0,
                progress.slow_digests,
                progress.extent.map(|extent| extent.start.cast_signed()),
                progress.extent.map(|extent| extent.crc32c.0),
                progress.expected_digests,
            ],
        )?;
        Ok(())
    }

    fn write_state(&self, session: &LeasedRow, state: SessionState) -> ChangeResult {
        if state != session.state {
            self.execute(
                "UPDATE sessions SET state = ?2 WHERE rowid = ?1",
                params![session.rowid, rows::sql_state(state)],
            )?;
        }
        Ok(())
    }

    fn write_expires(&self, session: &LeasedRow, expires: Timestamp) -> ChangeResult {
        self.execute(
            "UPDATE sessions SET expires = ?2 WHERE rowid = ?1",
            params![session.rowid, rows::sql_moment(expires)],
        )?;
        Ok(())
    }

    /// Makes the session reference `media`, and releases the media that it referenced before.
    fn replace_media(&self, session: &LeasedRow, media: Option<MediaRef>) -> ChangeResult {
        if media == session.media {
            return Ok(());
        }
        self.write_media(session, media)?;
        let mut references = References::default();
        references.removed(session.media);
        references.added(media);
        self.settle(references)
    }

    fn write_media(&self, session: &LeasedRow, media: Option<MediaRef>) -> ChangeResult {
        if media != session.media {
            self.execute(
                "UPDATE sessions SET media = ?2, place = ?3 WHERE rowid = ?1",
                params![
                    session.rowid,
                    media.as_ref().map(|media| media.id.as_bytes()),
                    media.map(|media| rows::sql_location(media.location)),
                ],
            )?;
        }
        Ok(())
    }

    /// Refuses media that neither comes with the change set nor was referenced by a row before it,
    /// since such media may be deleted already.
    fn expect_media(&self, media: MediaRef, changes: &ChangeSet) -> ChangeResult {
        // The counts are written when all changes are made, so they are those of before.
        let mut incoming = changes.incoming_media();
        if incoming.any(|new| new == media) || references::is_referenced(self.connection, media)? {
            Ok(())
        } else {
            Err(Refusal::Conflict.into())
        }
    }

    /// Refuses a change set if a resource that its caller has read does not have the version that
    /// the caller has seen, or exists although the caller has found none.
    fn expect(&self, expected: &Expected) -> ChangeResult {
        let mut statement = self
            .connection
            .prepare_cached("SELECT version FROM resources WHERE collection = ?1 AND id = ?2")?;
        let key = [&expected.collection, &expected.id];
        let found = statement.query_row(key, |row| rows::unsigned(row, "version"));
        if found.optional()? == expected.version {
            Ok(())
        } else {
            Err(Refusal::Conflict.into())
        }
    }

    /// Refuses a change set if a collection has resources.
    fn expect_empty(&self, collection: &str) -> ChangeResult {
        let mut statement = self
            .connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM resources WHERE collection = ?1)")?;
        let has_resources: bool = statement.query_row([collection], |row| row.get(0))?;
        if has_resources {
            Err(Refusal::Conflict.into())
        } else {
            Ok(())
        }
    }

    /// Changes one resource. Returns the media that the resource referenced before the change. The
    /// resource may still reference it afterwards.
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

    fn insert(&self, resource: &Resource) -> ChangeResult {
        let inserted = self.write_resource(
            "INSERT INTO resources
                 (collection, id, version, body, media, place, length, content_type, crc32c, md5,
                  sha256, created, updated, owner, due, claimed_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
             ON CONFLICT (collection, id) DO NOTHING",
            resource,
        )?;
        one_row_or(inserted, Refusal::Conflict)
    }

    fn replace(&self, resource: &Resource, expected: u64) -> Result<Option<MediaRef>, ChangeError> {
        let before = self.expect_version(&resource.collection, &resource.id, expected)?;
        self.write_resource(
            "UPDATE resources SET version = ?3, body = ?4, media = ?5, place = ?6, length = ?7,
                 content_type = ?8, crc32c = ?9, md5 = ?10, sha256 = ?11, created = ?12,
                 updated = ?13, owner = ?14, due = ?15, claimed_by = ?16
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

    /// Returns the media of a resource, if the resource has the version that the caller expects.
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
            Ok((rows::unsigned(row, "version")?, rows::media_ref(row)?))
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
                resource.owner,
                resource.due.map(rows::sql_moment),
                resource.claimed_by.map(u64::cast_signed),
            ],
        )
    }

    fn put_small_media(&self, id: MediaId, bytes: &[u8]) -> ChangeResult {
        self.execute(
            "INSERT INTO small_media (id, bytes) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes",
            params![id.as_bytes(), bytes],
        )?;
        Ok(())
    }

    pub(super) fn execute(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(params)
    }
}

/// Refuses a change unless its statement has changed exactly one row.
fn one_row_or(changed: usize, refusal: Refusal) -> ChangeResult {
    if changed == 1 {
        Ok(())
    } else {
        Err(refusal.into())
    }
}
