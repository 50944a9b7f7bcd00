//! The records of the ledger: sessions, resources and media.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use windlass_digest::{Crc32c, Digests};

/// A point in time, in milliseconds since the Unix epoch. The default is that epoch.
///
/// Callers always pass the time; no store reads a clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the time `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the number of milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the low six bytes in big-endian order, which suffice until the year 10889.
    ///
    /// Ids that begin with them sort by time. Rows that are written at about the same time then
    /// share pages of the ledger's indexes, however many rows there are.
    pub fn to_sortable_bytes(self) -> [u8; 6] {
        let [_, _, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }

    /// Returns this time plus `duration`, saturating at the largest time.
    #[must_use]
    pub fn saturating_add(self, duration: std::time::Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// Returns this time minus `duration`, saturating at the Unix epoch.
    #[must_use]
    pub fn saturating_sub(self, duration: std::time::Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

/// The id of a session: six bytes of the time when it was started, and 26 bytes of a SHA-256 of the
/// `upload_id` that the client has.
///
/// The `upload_id` itself is a credential and is never stored. `Debug` shows four bytes of the
/// hash, which suffice to follow a session in a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 32]);

impl SessionId {
    /// Returns the id with these 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the least id of a session that is started at `time`. As the position of a list, it
    /// separates the earlier sessions from the later ones.
    pub fn least_at(time: Timestamp) -> Self {
        let mut id = [0; 32];
        let time = time.to_sortable_bytes();
        id[..time.len()].copy_from_slice(&time);
        Self(id)
    }

    /// Returns the 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns eight hexadecimal digits of the hash, for logs.
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

/// The id of a media: 128 bits, chosen by the server, of which at least 80 are random. Never
/// reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediaId([u8; 16]);

impl MediaId {
    /// Returns the id with these 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Parses the 32 lower-case hexadecimal digits that [`fmt::Display`] writes. Returns `None` for
    /// anything else.
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

/// The number of a lease: each lease of a session has a higher one than the lease before. It is for
/// order and for logs. A number may be given out again if the ledger has lost the last leases, so
/// the ledger compares the [`LeaseId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// What the ledger compares of a lease: 16 bytes that no other lease has, not even one that the
/// ledger gives out after it has lost this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId([u8; 16]);

impl LeaseId {
    /// Returns the id with these 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({:032x})", u128::from_be_bytes(self.0))
    }
}

/// The right to commit offsets of a session, and to finish or end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// What the ledger compares.
    pub id: LeaseId,
    /// Its number.
    pub epoch: Epoch,
}

/// A session, with a new lease of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// The session as it is under the lease. Its epoch is the lease's, if the session is open.
    pub session: Session,
    /// The lease. If the session is not open, the ledger refuses every change under it.
    pub lease: Lease,
    /// The extents of the session's media, in the order of their offsets.
    pub extents: Vec<StoredExtent>,
}

/// Where the bytes of a media are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaLocation {
    /// In the ledger, with the rows that reference it. For small media.
    Ledger,
    /// In the vault.
    Vault,
}

/// A media and where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MediaRef {
    /// Id of the media.
    pub id: MediaId,
    /// Where its bytes are stored.
    pub location: MediaLocation,
}

/// The id of an entry of the garbage list. Opaque to all but the ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GarbageId(Bytes);

impl GarbageId {
    /// Returns the id with these bytes.
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An entry of the garbage list: what the vault stores and the ledger has released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage {
    /// Id of the entry. It has another id after its first deletion, if it is deleted twice.
    pub id: GarbageId,
    /// Name of what is to be deleted.
    pub name: StoredName,
    /// Number of times that the vault has deleted it.
    pub attempt: u8,
}

/// How released media in the vault is treated. The default is to delete it at once, and once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// For how long it is kept before it is deleted, for backups of the ledger alone.
    pub keep: Duration,
    /// For how long the ledger waits before the vault deletes it a second time; `None` if it is
    /// deleted once. A second deletion is for vaults in which a write may take effect after the
    /// deletion, since its sender was stopped in between.
    pub again_after: Option<Duration>,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// Bytes are accepted.
    Active,
    /// All bytes are committed, and the resource is to be created. If a crash prevents that, it is
    /// created after the restart.
    Finishing,
    /// The resource exists. The stored reply is repeated.
    Finished,
    /// The client has cancelled the session.
    Cancelled,
    /// The session has met an error that no retry can repair.
    Failed,
}

/// The bytes that the last commit of an offset has added in the vault, with their checksum. When
/// the vault opens the media again ([`Vault::resume`](crate::Vault::resume)), it reads them back
/// and compares them with the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte: the offset of the commit before, or 0 if the media was not in the
    /// vault then. The extent ends at the committed offset.
    pub start: u64,
    /// Checksum of the bytes.
    pub crc32c: Crc32c,
}

/// The name of something that is stored in the vault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredName {
    /// Id of the media that it belongs to.
    pub media: MediaId,
    /// The handle of sealed media, or the name of an extent. At most [`MAX_NAME_LEN`] bytes, which
    /// mean something to the vault alone. Empty in a vault that names media by their ids.
    pub handle: Bytes,
}

impl StoredName {
    /// Returns the name of media whose id is enough.
    pub const fn of(media: MediaId) -> Self {
        Self {
            media,
            handle: Bytes::new(),
        }
    }
}

/// Maximum number of bytes of a handle and of the name of an extent.
pub const MAX_NAME_LEN: usize = 512;

/// Durable bytes of media that is not sealed, as the vault names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredExtent {
    /// Number of the extent. The vault gives a media no number twice.
    pub number: u32,
    /// Offset of the first byte.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
    /// Name of the extent, of at most [`MAX_NAME_LEN`] bytes. Opaque to the ledger.
    pub name: Bytes,
}

impl StoredExtent {
    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// How the extents of a media change with a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtentChanges {
    /// Extents that come.
    pub added: Vec<StoredExtent>,
    /// Numbers of extents that go. Their names become garbage.
    pub dropped: Vec<u32>,
}

impl ExtentChanges {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.dropped.is_empty()
    }

    /// Adds the changes that come after these. An extent that comes and goes again stays among
    /// both, so that its name becomes garbage.
    pub fn then(&mut self, later: Self) {
        self.added.extend(later.added);
        self.dropped.extend(later.dropped);
    }
}

/// Media in the vault that is not sealed, as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMedia {
    /// Id of the media.
    pub id: MediaId,
    /// Number of committed bytes.
    pub length: u64,
    /// The extents that hold them, in the order of their offsets. None in a vault that names media
    /// by their ids.
    pub extents: Vec<StoredExtent>,
    /// The bytes of the last commit, which [`Vault::resume`](crate::Vault::resume) reads back;
    /// `None` if it need not.
    pub verify: Option<Extent>,
}

impl StoredMedia {
    /// Returns media without extents, and with nothing to verify.
    pub const fn new(id: MediaId, length: u64) -> Self {
        Self {
            id,
            length,
            extents: Vec::new(),
            verify: None,
        }
    }

    /// Returns the names under which its bytes are stored.
    pub fn names(&self) -> Vec<StoredName> {
        let media = self.id;
        if self.extents.is_empty() {
            return vec![StoredName::of(media)];
        }
        let names = self.extents.iter().map(|extent| StoredName {
            media,
            handle: extent.name.clone(),
        });
        names.collect()
    }

    /// Makes changes of its extents.
    pub fn change(&mut self, changes: &ExtentChanges) {
        change_extents(&mut self.extents, changes);
    }
}

/// Makes changes of extents, and keeps them in the order of their offsets.
pub fn change_extents(extents: &mut Vec<StoredExtent>, changes: &ExtentChanges) {
    let dropped: HashSet<u32> = changes.dropped.iter().copied().collect();
    extents.extend_from_slice(&changes.added);
    extents.retain(|extent| !dropped.contains(&extent.number));
    extents.sort_by_key(|extent| extent.start);
}

/// The committed progress of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Number of committed bytes, which is the offset of the next one.
    pub offset: u64,
    /// Length of the complete media, once a request has declared it.
    pub total: Option<u64>,
    /// Checksum of the bytes `0..offset`.
    pub crc32c: Crc32c,
    /// Saved state of the hashers of MD5 and SHA-256 after the bytes `0..offset`. The next request
    /// continues from this state. Unlike `crc32c`, these digests are slow and only computed on
    /// request. Empty if neither is computed. Opaque to the ledger.
    pub slow_digests: Vec<u8>,
    /// Media that holds the bytes; `None` while no bytes exist.
    pub media: Option<MediaRef>,
    /// Bytes of the last commit of an offset; `None` while there are no bytes in the vault.
    pub extent: Option<Extent>,
    /// Digests that the client has stated for the whole media with its last bytes, and that are
    /// still to be checked. Empty without any. Opaque to the ledger.
    pub expected_digests: Vec<u8>,
}

impl Progress {
    /// Returns the progress of a session without bytes. `total` is the length of its media, if
    /// known.
    pub fn none(total: Option<u64>) -> Self {
        Self {
            offset: 0,
            total,
            crc32c: Crc32c::default(),
            slow_digests: Vec::new(),
            media: None,
            extent: None,
            expected_digests: Vec::new(),
        }
    }
}

/// A session to be started.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Id of the session.
    pub id: SessionId,
    /// The server's data about the request that starts the session. Opaque to the ledger.
    pub context: Vec<u8>,
    /// Time of the start.
    pub created: Timestamp,
    /// Time after which the session is treated as unknown.
    pub expires: Timestamp,
    /// Length of the media, if the client has declared it.
    pub total: Option<u64>,
    /// Principal that starts it, as the server writes it; `None` if nobody was asked who they are.
    /// Opaque to the ledger.
    pub owner: Option<String>,
    /// Name of the wire dialect that starts it, such as `google`. Opaque to the ledger.
    pub dialect: String,
}

/// The usage of a principal in the ledger and the vault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of its open sessions.
    pub sessions: u64,
    /// Bytes of its sessions and of its resources: media, the server's data about the start,
    /// replies, and bodies. An open session counts with the greater of its declared length and its
    /// committed bytes. A finished session counts without its media, until it expires. Each row is
    /// rounded up to 1 KiB, and its media counts as at most 16 TiB.
    pub bytes: u64,
}

/// How much a principal may occupy. The default is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Maximum number of open sessions; `None` for no limit.
    pub sessions: Option<u64>,
    /// Maximum number of bytes, as [`Usage::bytes`] counts them; `None` for no limit.
    pub bytes: Option<u64>,
    /// Bytes that one change may add also where the maximum is reached. Default: none.
    pub tolerance: u64,
}

impl Quota {
    /// Whether there is no limit.
    pub fn is_unlimited(&self) -> bool {
        self.sessions.is_none() && self.bytes.is_none()
    }

    /// Whether a principal's usage may change from `before` to `after`. A usage that does not grow
    /// is always allowed, even above a lowered limit.
    pub fn admits(&self, before: Usage, after: Usage) -> bool {
        let fits = |limit: Option<u64>, before: u64, after: u64| {
            after <= before || limit.is_none_or(|limit| after <= limit)
        };
        let tolerated = before.bytes.saturating_add(self.tolerance);
        fits(self.sessions, before.sessions, after.sessions)
            && fits(self.bytes, tolerated, after.bytes)
    }
}

/// The quota of each owner of the resources in a [`ChangeSet`](crate::ChangeSet). The default is no
/// limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerQuotas {
    /// The quota of each owner without an entry in `by_owner`.
    rest: Quota,
    by_owner: BTreeMap<String, Quota>,
}

impl OwnerQuotas {
    /// Sets the quota of one owner.
    #[must_use]
    pub fn with(mut self, owner: impl Into<String>, quota: Quota) -> Self {
        self.by_owner.insert(owner.into(), quota);
        self
    }

    /// Returns the quota of an owner.
    pub fn of(&self, owner: &str) -> Quota {
        self.by_owner.get(owner).copied().unwrap_or(self.rest)
    }

    /// Whether no owner has a limit.
    pub fn is_unlimited(&self) -> bool {
        self.rest.is_unlimited() && self.by_owner.values().all(Quota::is_unlimited)
    }
}

/// The same quota for each owner.
impl From<Quota> for OwnerQuotas {
    fn from(rest: Quota) -> Self {
        Self {
            rest,
            by_owner: BTreeMap::new(),
        }
    }
}

/// The longest media that counts in [`Usage::bytes`].
const MAX_COUNTED: u64 = 1 << 44;

/// Returns a row's part of [`Usage::bytes`].
pub(crate) fn counted(media: u64, rest: usize) -> u64 {
    (media.min(MAX_COUNTED) + rest as u64).next_multiple_of(1024)
}

/// A session in the ledger.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// Id of the session.
    pub id: SessionId,
    /// The server's data about the request that started the session. Empty in a cancelled or failed
    /// session.
    pub context: Vec<u8>,
    /// Time of the start.
    pub created: Timestamp,
    /// Time after which the session is treated as unknown, whether it has been deleted or not.
    pub expires: Timestamp,
    /// State of the session.
    pub state: SessionState,
    /// Epoch of the newest lease.
    pub epoch: Epoch,
    /// Committed progress.
    pub progress: Progress,
    /// Final reply, once the session is finished. Opaque to the ledger.
    pub reply: Option<Vec<u8>>,
    /// Principal that started it, as the server writes it; `None` if nobody was asked who they are.
    /// Opaque to the ledger.
    pub owner: Option<String>,
    /// Name of the wire dialect that started it, such as `google`. Opaque to the ledger.
    pub dialect: String,
}

/// Hides the stored request and the final reply, which may hold a secret, such as an upload token.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("created", &self.created)
            .field("expires", &self.expires)
            .field("state", &self.state)
            .field("epoch", &self.epoch)
            .field("progress", &self.progress)
            .field("owner", &self.owner)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

impl From<NewSession> for Session {
    /// Returns the session as it starts: active, with nothing committed, without a lease.
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
            owner: new.owner,
            dialect: new.dialect,
        }
    }
}

/// The media of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Id of the media and where it is stored.
    pub at: MediaRef,
    /// The second part of its [name](StoredName) in the vault. Empty if its id is enough, or if it
    /// is in the ledger.
    pub handle: Bytes,
    /// Length in bytes.
    pub length: u64,
    /// Media type as the client has declared it.
    pub content_type: String,
    /// Digests of the bytes.
    pub digests: Digests,
}

impl Media {
    /// Returns the name of the media in the vault.
    pub fn name(&self) -> StoredName {
        StoredName {
            media: self.at.id,
            handle: self.handle.clone(),
        }
    }
}

/// Maximum number of bytes of the collection and the id of a resource together. Databases limit the
/// keys of their indexes.
pub const MAX_KEY_LEN: usize = 2048;

/// A resource: a JSON document, which may describe a media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Collection of the resource. The API's handler chooses its name, for example
    /// `farm/v1/animals`.
    pub collection: String,
    /// Id, unique in the collection. Lists are in the bytewise order of ids.
    pub id: String,
    /// Number that grows by one with each change. It starts at a number that no earlier resource
    /// with this id has had, so that a resource which is deleted and created again is not taken for
    /// the earlier one.
    pub version: u64,
    /// Document as JSON.
    pub body: Bytes,
    /// Media that the document describes.
    pub media: Option<Media>,
    /// Time of the creation.
    pub created: Timestamp,
    /// Time of the last change.
    pub updated: Timestamp,
    /// Principal that it belongs to, as the server writes it; `None` if nobody was asked who they
    /// are. Opaque to the ledger.
    pub owner: Option<String>,
    /// Time from which a process may claim the row ([`Ledger::claim`](crate::Ledger::claim)).
    /// `None` for a row that is never claimed.
    pub due: Option<Timestamp>,
    /// The process that has claimed the row, as the ledger names it. Whoever has claimed the row
    /// leaves this unchanged to keep the claim, and writes `None` to give it up.
    pub claimed_by: Option<u64>,
}

impl Resource {
    /// Returns the number of bytes of the collection and the id together.
    pub fn key_len(&self) -> usize {
        self.collection.len() + self.id.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change_set::FinishSession;

    #[test]
    fn debug_of_a_session_hides_its_request_and_its_reply() {
        let mut session = Session::from(NewSession {
            id: SessionId::from_bytes([1; 32]),
            context: vec![201; 3],
            created: Timestamp::from_millis(1),
            expires: Timestamp::from_millis(2),
            total: None,
            owner: None,
            dialect: "google".to_owned(),
        });
        session.reply = Some(vec![202; 3]);
        let finish = FinishSession {
            id: session.id,
            lease: Lease {
                id: LeaseId::from_bytes([204; 16]),
                epoch: session.epoch,
            },
            progress: session.progress.clone(),
            reply: vec![203; 3],
            handle: Bytes::new(),
            left: Vec::new(),
        };
        let shown = format!("{session:?} {finish:?}");
        for hidden in ["201", "202", "203"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}
