//! Columns, and the values that they stand for.

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use windlass_digest::{Crc32c, Digests, Md5, Sha256};
use windlass_store::{
    Epoch, Extent, Lease, LeaseId, Media, MediaId, MediaLocation, MediaRef, Progress, Resource,
    Session, SessionId, SessionState, SessionSummary, StoredExtent, Timestamp,
};

use crate::failure::Failure;

/// A row has a value that cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl From<Unreadable> for Failure {
    fn from(_: Unreadable) -> Self {
        Self::Unreadable
    }
}

/// A row that is read by the names of its columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a>(pub(crate) &'a Row);

impl<'a> Columns<'a> {
    pub(crate) fn value<T: FromSql<'a>>(self, name: &str) -> Result<T, Unreadable> {
        self.0.try_get(name).map_err(|_| Unreadable)
    }

    pub(crate) fn unsigned(self, name: &str) -> Result<u64, Unreadable> {
        let value: i64 = self.value(name)?;
        u64::try_from(value).map_err(|_| Unreadable)
    }

    fn optional_unsigned(self, name: &str) -> Result<Option<u64>, Unreadable> {
        let value: Option<i64> = self.value(name)?;
        let value = value.map(u64::try_from).transpose();
        value.map_err(|_| Unreadable)
    }

    pub(crate) fn time(self, name: &str) -> Result<Timestamp, Unreadable> {
        self.unsigned(name).map(Timestamp::from_millis)
    }

    pub(crate) fn text(self, name: &str) -> Result<String, Unreadable> {
        let text: Option<String> = self.optional_text(name)?;
        text.ok_or(Unreadable)
    }

    pub(crate) fn optional_text(self, name: &str) -> Result<Option<String>, Unreadable> {
        let bytes: Option<&[u8]> = self.value(name)?;
        let text = bytes.map(|bytes| String::from_utf8(bytes.to_vec()));
        text.transpose().map_err(|_| Unreadable)
    }

    pub(crate) fn bytes(self, name: &str) -> Result<Bytes, Unreadable> {
        self.value(name).map(Bytes::copy_from_slice)
    }

    /// Returns bytes of a fixed length.
    pub(crate) fn array<const LEN: usize>(self, name: &str) -> Result<[u8; LEN], Unreadable> {
        let bytes: &[u8] = self.value(name)?;
        bytes.try_into().map_err(|_| Unreadable)
    }

    fn optional_array<const LEN: usize>(self, name: &str) -> Result<Option<[u8; LEN]>, Unreadable> {
        let bytes: Option<&[u8]> = self.value(name)?;
        let array = bytes.map(<[u8; LEN]>::try_from).transpose();
        array.map_err(|_| Unreadable)
    }

    fn crc32c(self, name: &str) -> Result<Crc32c, Unreadable> {
        let value: i64 = self.value(name)?;
        u32::try_from(value).map(Crc32c).map_err(|_| Unreadable)
    }

    pub(crate) fn session_id(self, name: &str) -> Result<SessionId, Unreadable> {
        self.array(name).map(SessionId::from_bytes)
    }

    pub(crate) fn state(self) -> Result<SessionState, Unreadable> {
        match self.value::<i16>("state")? {
            0 => Ok(SessionState::Active),
            1 => Ok(SessionState::Finishing),
            2 => Ok(SessionState::Finished),
            3 => Ok(SessionState::Cancelled),
            4 => Ok(SessionState::Failed),
            _ => Err(Unreadable),
        }
    }

    /// Returns the media in the columns `media` and `place`.
    pub(crate) fn media(self) -> Result<Option<MediaRef>, Unreadable> {
        let id = self.optional_array("media")?.map(MediaId::from_bytes);
        let location = self.value::<Option<i16>>("place")?.map(location);
        match (id, location.transpose()?) {
            (None, None) => Ok(None),
            (Some(id), Some(location)) => Ok(Some(MediaRef { id, location })),
            _ => Err(Unreadable),
        }
    }

    fn progress(self) -> Result<Progress, Unreadable> {
        let extent = match self.optional_unsigned("extent_start")? {
            Some(start) => Some(Extent {
                start,
                crc32c: self.crc32c("extent_crc32c")?,
            }),
            None => None,
        };
        Ok(Progress {
            offset: self.unsigned("offset")?,
            total: self.optional_unsigned("total")?,
            crc32c: self.crc32c("crc32c")?,
            slow_digests: self.value::<&[u8]>("digests")?.to_vec(),
            media: self.media()?,
            extent,
            expected_digests: self.value::<&[u8]>("expected_digests")?.to_vec(),
        })
    }

    pub(crate) fn session(self) -> Result<Session, Unreadable> {
        Ok(Session {
            id: self.session_id("id")?,
            context: self.value::<&[u8]>("context")?.to_vec(),
            created: self.time("created")?,
            expires: self.time("expires")?,
            state: self.state()?,
            epoch: Epoch(self.unsigned("epoch")?),
            progress: self.progress()?,
            reply: self.value::<Option<&[u8]>>("reply")?.map(<[u8]>::to_vec),
            owner: self.optional_text("owner")?,
            dialect: self.text("dialect")?,
        })
    }

    pub(crate) fn summary(self) -> Result<SessionSummary, Unreadable> {
        Ok(SessionSummary {
            id: self.session_id("id")?,
            owner: self.optional_text("owner")?,
            state: self.state()?,
            created: self.time("created")?,
            expires: self.time("expires")?,
            offset: self.unsigned("offset")?,
            total: self.optional_unsigned("total")?,
            dialect: self.text("dialect")?,
        })
    }

    fn extent(self) -> Result<StoredExtent, Unreadable> {
        let number = u32::try_from(self.unsigned("number")?);
        Ok(StoredExtent {
            number: number.map_err(|_| Unreadable)?,
            start: self.unsigned("start")?,
            len: self.unsigned("len")?,
            name: self.bytes("name")?,
        })
    }

    pub(crate) fn resource(self) -> Result<Resource, Unreadable> {
        let media = match self.media()? {
            Some(at) => Some(Media {
                at,
                handle: self.bytes("handle")?,
                length: self.unsigned("length")?,
                content_type: self.text("content_type")?,
                digests: Digests {
                    crc32c: self.crc32c("crc32c")?,
                    md5: self.optional_array("md5")?.map(Md5),
                    sha256: self.optional_array("sha256")?.map(Sha256),
                },
            }),
            None => None,
        };
        Ok(Resource {
            collection: self.text("collection")?,
            id: self.text("id")?,
            version: self.value::<i64>("version")?.cast_unsigned(),
            body: self.bytes("body")?,
            media,
            created: self.time("created")?,
            updated: self.time("updated")?,
            owner: self.optional_text("owner")?,
            due: self.optional_unsigned("due")?.map(Timestamp::from_millis),
            claimed_by: self
                .value::<Option<i64>>("claimed_by")?
                .map(i64::cast_unsigned),
        })
    }
}

/// Reads a resource.
pub(crate) fn resource(row: Columns<'_>) -> Result<Resource, Unreadable> {
    row.resource()
}

/// Reads an extent.
pub(crate) fn extent(row: Columns<'_>) -> Result<StoredExtent, Unreadable> {
    row.extent()
}

/// Returns a lease with an id that no other lease has.
///
/// # Panics
/// If the system has no randomness: a lease with a predictable id would fence nobody.
pub(crate) fn new_lease(epoch: Epoch) -> Lease {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the system has randomness");
    Lease {
        id: LeaseId::from_bytes(id),
        epoch,
    }
}

pub(crate) fn sql_state(state: SessionState) -> i16 {
    match state {
        SessionState::Active => 0,
        SessionState::Finishing => 1,
        SessionState::Finished => 2,
        SessionState::Cancelled => 3,
        SessionState::Failed => 4,
    }
}

pub(crate) fn is_open(state: SessionState) -> bool {
    matches!(state, SessionState::Active | SessionState::Finishing)
}

pub(crate) fn sql_location(location: MediaLocation) -> i16 {
    match location {
        MediaLocation::Ledger => 0,
        MediaLocation::Vault => 1,
    }
}

pub(crate) fn location(place: i16) -> Result<MediaLocation, Unreadable> {
    match place {
        0 => Ok(MediaLocation::Ledger),
        1 => Ok(MediaLocation::Vault),
        _ => Err(Unreadable),
    }
}

/// Returns a time as a column has it. Times that do not fit are after all others.
pub(crate) fn sql_time(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the hour of a time, for the index of expiry.
pub(crate) fn sql_hour(time: Timestamp) -> i32 {
    i32::try_from(time.as_millis() / 3_600_000).unwrap_or(i32::MAX)
}

pub(crate) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(crate) fn sql_optional(text: Option<&String>) -> Option<&[u8]> {
    text.map(String::as_bytes)
}

/// The longest media that counts in a usage, 16 TiB.
const MAX_COUNTED: u64 = 1 << 44;

/// Returns a row's part of a usage, in KiB.
pub(crate) fn counted_kib(media: u64, rest: u64) -> i64 {
    let bytes = media.min(MAX_COUNTED).saturating_add(rest);
    bytes.div_ceil(1024).cast_signed()
}

/// Returns a session's part of a usage, in KiB. `remembered` is the length of its request and its
/// reply.
pub(crate) fn session_kib(
    state: SessionState,
    offset: u64,
    total: Option<u64>,
    remembered: u64,
) -> i64 {
    let media = if is_open(state) {
        offset.max(total.unwrap_or_default())
    } else {
        0
    };
    counted_kib(media, remembered)
}

/// Reads all rows, or none.
pub(crate) fn all<T>(
    rows: &[Row],
    read: impl Fn(Columns<'_>) -> Result<T, Unreadable>,
) -> Result<Vec<T>, Unreadable> {
    rows.iter().map(|row| read(Columns(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_rounded_up_and_bounded() {
        for (media, rest, kib) in [
            (0, 0, 0),
            (1, 0, 1),
            (1024, 0, 1),
            (1024, 1, 2),
            (u64::MAX, 0, 16 << 30),
            (u64::MAX, 1, (16 << 30) + 1),
        ] {
            assert_eq!(counted_kib(media, rest), kib, "{media}, {rest}");
        }
        let ended = session_kib(SessionState::Failed, 10_000, Some(20_000), 24);
        let open = session_kib(SessionState::Finishing, 10_000, Some(20_000), 24);
        assert_eq!((ended, open), (1, 20));
    }

    #[test]
    fn times_beyond_the_column_are_the_last() {
        let never = Timestamp::from_millis(u64::MAX);
        assert_eq!(sql_time(never), i64::MAX);
        assert_eq!(sql_hour(never), i32::MAX);
        assert_eq!(sql_hour(Timestamp::from_millis(7_199_999)), 1);
    }
}
