//! The records of the ledger: sessions, resources, media.

use std::fmt;

use bytes::Bytes;
use windlass_proto::digest::{Crc32c, Digests};

/// A moment: milliseconds since the Unix epoch.
///
/// Time always comes in from outside; nothing in the stores reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The last six bytes, the first of them first: milliseconds until the year 10889.
    ///
    /// Names that begin with them sort by time. What is named at about the same time is then found on the same pages of a ledger,
    /// however much it holds.
    pub fn to_sortable_bytes(self) -> [u8; 6] {
        let [_, _, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }

    /// This moment plus `duration`, or the end of time.
    #[must_use]
    pub fn saturating_add(self, duration: std::time::Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// This moment minus `duration`, or the Unix epoch.
    #[must_use]
    pub fn saturating_sub(self, duration: std::time::Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

/// The name of a session inside the house: six bytes that tell when it was started, and 26 bytes of
/// a SHA-256 of the `upload_id` that the client holds.
///
/// The `upload_id` itself is a credential and is never stored. `Debug` shows four bytes of the hash,
/// enough to follow a session through a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 32]);

impl SessionId {
    /// A session id from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Eight hexadecimal digits of the hash, by which a session can be followed.
    pub fn abbreviated(&self) -> String {
        let [_, _, _, _, _, _, first, second, third, fourth, ..] = self.0;
        format!("{first:02x}{second:02x}{third:02x}{fourth:02x}")
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({}..)", self.abbreviated())
    }
}

/// The name of one media: 128 bits, chosen by the server, at least 80 of them random; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediaId([u8; 16]);

impl MediaId {
    /// A media id from its 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads the 32 lower-case hexadecimal digits that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.as_bytes().iter().all(canonical) {
            return None;
        }
        Some(Self(u128::from_str_radix(text, 16).ok()?.to_be_bytes()))
    }
}

impl fmt::Display for MediaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for MediaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MediaId({self})")
    }
}

/// The fencing number of a lease. Every lease of a session has a higher one than the lease before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Where the bytes of a media are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaLocation {
    /// In the ledger, beside the rows that name it. For small media.
    Ledger,
    /// In the vault.
    Vault,
}

/// A media and where to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MediaRef {
    /// Its name.
    pub id: MediaId,
    /// Who holds its bytes.
    pub location: MediaLocation,
}

/// Where a session stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// Taking bytes.
    Active,
    /// All bytes are committed; the resource is being made. Goes on after a crash until it is done.
    Finishing,
    /// The resource exists; the stored reply is repeated.
    Finished,
    /// Cancelled by the client.
    Cancelled,
    /// Ended by an error that no retry can mend.
    Failed,
}

/// The last stretch of bytes that a commit covered, kept so that recovery can check it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where the stretch begins; it ends at the committed offset.
    pub start: u64,
    /// The checksum of the stretch.
    pub crc32c: Crc32c,
}

/// What is committed of a session's media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Count of committed bytes; the next byte wanted.
    pub offset: u64,
    /// The length of the whole media, once a request has fixed it.
    pub total: Option<u64>,
    /// Checksum of the bytes `0..offset`.
    pub crc32c: Crc32c,
    /// Saved state of the digests that are computed on request, at `offset`. Opaque here; empty
    /// when there are none.
    pub slow_digests: Vec<u8>,
    /// Where the bytes are; `None` while there are none.
    pub media: Option<MediaRef>,
    /// What the last commit covered; `None` while there are no bytes in the vault.
    pub extent: Option<Extent>,
}

impl Progress {
    /// Nothing committed yet of a media whose length may be known.
    pub fn none(total: Option<u64>) -> Self {
        Self {
            offset: 0,
            total,
            crc32c: Crc32c::default(),
            slow_digests: Vec::new(),
            media: None,
            extent: None,
        }
    }
}

/// A session about to be started.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its name.
    pub id: SessionId,
    /// What the server wants to remember of the request that started it. Opaque here.
    pub context: Vec<u8>,
    /// When it was started.
    pub created: Timestamp,
    /// When it dies.
    pub expires: Timestamp,
    /// The length of the media, if the client declared it.
    pub total: Option<u64>,
}

/// A session as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// What the server remembers of the request that started it; empty when it ended without a resource.
    pub context: Vec<u8>,
    /// When it was started.
    pub created: Timestamp,
    /// When it dies. A session past this moment is treated as unknown, swept or not.
    pub expires: Timestamp,
    /// Where it stands.
    pub state: SessionState,
    /// The newest lease.
    pub epoch: Epoch,
    /// What is committed.
    pub progress: Progress,
    /// The final reply, once finished. Opaque here.
    pub reply: Option<Vec<u8>>,
}

impl From<NewSession> for Session {
    /// The session as it starts: active, with nothing committed, under no lease.
    fn from(new: NewSession) -> Self {
        Self {
            id: new.id,
            context: new.context,
            created: new.created,
            expires: new.expires,
            state: SessionState::Active,
            epoch: Epoch(0),
            progress: Progress::none(new.total),
            reply: None,
        }
    }
}

/// A media that a resource owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Where its bytes are.
    pub at: MediaRef,
    /// Its length in bytes.
    pub length: u64,
    /// Its media type, as the client declared it.
    pub content_type: String,
    /// Its digests.
    pub digests: Digests,
}

/// A resource: the JSON document that describes a media, or stands alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The collection it lives in; the kind chooses the name, e.g. `farm/v1/animals`.
    pub collection: String,
    /// Its id, unique in the collection. Lists are ordered by it, bytewise.
    pub id: String,
    /// Grows by one with every change. It starts at a number that no resource of this id has had, so that
    /// a resource which is deleted and made again is not taken for the earlier one.
    pub version: u64,
    /// The document, as JSON.
    pub body: Bytes,
    /// The media it describes.
    pub media: Option<Media>,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last changed.
    pub updated: Timestamp,
}
