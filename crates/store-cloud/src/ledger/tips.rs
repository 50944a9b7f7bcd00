//! The rows of sessions that are to be changed.

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windlass_store::{Lease, MediaRef, Progress, SessionId, SessionState, Timestamp};

use crate::failure::Refusal;
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::transaction::Statement;

/// A locked session.
#[derive(Debug, Clone)]
pub(super) struct Tip {
    pub(super) id: SessionId,
    pub(super) state: SessionState,
    lease: Bytes,
    pub(super) offset: u64,
    pub(super) total: Option<u64>,
    pub(super) media: Option<MediaRef>,
    /// Length of its request and its reply.
    pub(super) remembered: u64,
    pub(super) owner: Option<String>,
}

impl Tip {
    pub(super) fn read(row: Columns<'_>) -> Result<Self, Unreadable> {
        let total: Option<i64> = row.value("total")?;
        Ok(Self {
            id: row.session_id("id")?,
            state: row.state()?,
            lease: row.bytes("lease")?,
            offset: row.unsigned("offset")?,
            total: total.map(i64::cast_unsigned),
            media: row.media()?,
            remembered: row.unsigned("remembered")?,
            owner: row.optional_text("owner")?,
        })
    }

    /// Returns the only row. Refuses a session that does not exist or is not open, or that has
    /// another lease.
    pub(super) fn leased(rows: &[Row], lease: Lease) -> Result<Self, RefusedOrUnreadable> {
        let tip = rows.first().ok_or(Refusal::Fenced)?;
        let tip = Self::read(Columns(tip))?;
        tip.check(lease)?;
        Ok(tip)
    }

    /// Refuses a session that is not open or has another lease.
    pub(super) fn check(&self, lease: Lease) -> Result<(), Refusal> {
        if rows::is_open(self.state) && self.lease == lease.id.as_bytes()[..] {
            Ok(())
        } else {
            Err(Refusal::Fenced)
        }
    }

    /// Returns the session's part of the usage of its owner.
    pub(super) fn kib(&self) -> i64 {
        rows::session_kib(self.state, self.offset, self.total, self.remembered)
    }
}

/// Why a locked row is not used.
#[derive(Debug, Clone, Copy)]
pub(super) enum RefusedOrUnreadable {
    Refused(Refusal),
    Unreadable,
}

impl From<Refusal> for RefusedOrUnreadable {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unreadable> for RefusedOrUnreadable {
    fn from(_: Unreadable) -> Self {
        Self::Unreadable
    }
}

impl From<RefusedOrUnreadable> for crate::failure::Failure {
    fn from(reason: RefusedOrUnreadable) -> Self {
        match reason {
            RefusedOrUnreadable::Refused(refusal) => refusal.into(),
            RefusedOrUnreadable::Unreadable => Self::Unreadable,
        }
    }
}

/// Returns the statement that locks sessions.
pub(super) fn lock(ids: impl IntoIterator<Item = SessionId>) -> Statement<'static> {
    let ids: Vec<_> = ids.into_iter().map(|id| id.as_bytes().to_vec()).collect();
    Statement::new(sql::LOCK_TIPS).with(ids, Type::BYTEA_ARRAY)
}

/// The new values of locked sessions, as parallel arrays.
#[derive(Debug, Default)]
pub(super) struct Written {
    ids: Vec<Vec<u8>>,
    states: Vec<i16>,
    offsets: Vec<i64>,
    totals: Vec<Option<i64>>,
    crc32c: Vec<i64>,
    digests: Vec<Vec<u8>>,
    expected_digests: Vec<Vec<u8>>,
    media: Vec<Option<Vec<u8>>>,
    places: Vec<Option<i16>>,
    extent_starts: Vec<Option<i64>>,
    extent_crc32c: Vec<Option<i64>>,
    expires: Vec<Option<i64>>,
    sweep_hours: Vec<Option<i32>>,
    remembered: Vec<i64>,
    holders: Vec<Option<i64>>,
}

impl Written {
    /// Adds the new values of a session. Without a time of expiry the old one stays.
    pub(super) fn add(
        &mut self,
        id: SessionId,
        state: SessionState,
        progress: &Progress,
        expires: Option<Timestamp>,
        remembered: u64,
        holder: Option<i64>,
    ) {
        self.ids.push(id.as_bytes().to_vec());
        self.states.push(rows::sql_state(state));
        self.offsets.push(progress.offset.cast_signed());
        self.totals.push(progress.total.map(u64::cast_signed));
        self.crc32c.push(progress.crc32c.0.into());
        self.digests.push(progress.slow_digests.clone());
        self.expected_digests
            .push(progress.expected_digests.clone());
        let media = progress.media;
        self.media.push(media.map(|it| it.id.as_bytes().to_vec()));
        self.places
            .push(media.map(|it| rows::sql_location(it.location)));
        let extent = progress.extent;
        self.extent_starts
            .push(extent.map(|it| it.start.cast_signed()));
        self.extent_crc32c.push(extent.map(|it| it.crc32c.0.into()));
        self.expires.push(expires.map(rows::sql_time));
        self.sweep_hours.push(expires.map(rows::sql_hour));
        self.remembered.push(remembered.cast_signed());
        self.holders.push(holder);
    }

    /// Returns the statement that writes them, unless a lease has run out.
    pub(super) fn write(self) -> Statement<'static> {
        let count = rows::sql_limit(self.ids.len());
        Statement::new(sql::WRITE_TIPS)
            .with(self.ids, Type::BYTEA_ARRAY)
            .with(self.states, Type::INT2_ARRAY)
            .with(self.offsets, Type::INT8_ARRAY)
            .with(self.totals, Type::INT8_ARRAY)
            .with(self.crc32c, Type::INT8_ARRAY)
            .with(self.digests, Type::BYTEA_ARRAY)
            .with(self.expected_digests, Type::BYTEA_ARRAY)
            .with(self.media, Type::BYTEA_ARRAY)
            .with(self.places, Type::INT2_ARRAY)
            .with(self.extent_starts, Type::INT8_ARRAY)
            .with(self.extent_crc32c, Type::INT8_ARRAY)
            .with(self.expires, Type::INT8_ARRAY)
            .with(self.sweep_hours, Type::INT4_ARRAY)
            .with(self.remembered, Type::INT8_ARRAY)
            .with(self.holders, Type::INT8_ARRAY)
            .with(count, Type::INT8)
            .or(Refusal::Fenced)
    }
}
