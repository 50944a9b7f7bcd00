//! The faults of a store, and the comparison of bytes with their row.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_digest::{Crc32c, Crc32cHasher, Digests, Md5Sha256Hasher, Wanted};
use windlass_store::{Cause, Extent, MediaId, SessionId};

use crate::ledger::SessionRow;
use crate::{IdentityMismatch, filesystem};

/// A finding of a verification or a backup.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The subject of the finding.
    pub subject: Subject,
    /// The fault.
    pub fault: Fault,
    /// Whether it was repaired. Then a session has failed and its client starts again, unreferenced
    /// media was deleted, referenced media was removed from the garbage list, or references were
    /// counted again.
    pub is_repaired: bool,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// No crash and no power cut leaves it.
    Damage,
    /// A crash leaves it. It takes space and does no harm, and a server deletes most of it.
    Remains,
}

/// The subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The database file as a whole.
    Ledger,
    /// The vault as a whole.
    Vault,
    /// A row that cannot be read.
    Row {
        /// Table of the row.
        table: &'static str,
        /// Rowid of the row.
        row: i64,
    },
    /// A session.
    Session {
        /// Id of the session.
        id: SessionId,
        /// Rowid, by which it is found in the database.
        row: i64,
    },
    /// A resource.
    Resource {
        /// Collection of the resource.
        collection: String,
        /// Id in the collection.
        id: String,
    },
    /// A media.
    Media(MediaId),
    /// A path in the vault.
    Path(PathBuf),
}

/// The fault of a finding.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// SQLite reports that the database is damaged. Holds its message.
    #[error("the database is damaged: {0}")]
    Database(String),
    /// A row has invalid values.
    #[error("the row cannot be read: {0}")]
    Row(#[source] Cause),
    /// The values of a row contradict each other.
    #[error("the row contradicts itself: {0}")]
    Contradiction(&'static str),
    /// The vault does not belong to the ledger. Its media was not checked.
    #[error("it is not the vault of this store: {0}")]
    IdentityMismatch(#[source] IdentityMismatch),
    /// A row references media that does not exist.
    #[error("media {media} is gone")]
    Missing {
        /// Id of the media.
        media: MediaId,
    },
    /// There are fewer bytes than the row requires.
    #[error("media {media} has {len} bytes and should have {expected}")]
    Short {
        /// Id of the media.
        media: MediaId,
        /// Number of bytes that exist.
        len: u64,
        /// Number of bytes that the row requires.
        expected: u64,
    },
    /// The bytes differ from the stored bytes.
    #[error("media {media}: bytes {}..{} do not have their {digest}", bytes.start, bytes.end)]
    Rotten {
        /// Id of the media.
        media: MediaId,
        /// Smallest range that is known to contain the difference.
        bytes: Range<u64>,
        /// Digest that differs: `CRC32C`, `MD5` or `SHA-256`.
        digest: &'static str,
    },
    /// The bytes cannot be read.
    #[error("media {media} cannot be read: {source}")]
    Unreadable {
        /// Id of the media.
        media: MediaId,
        /// Why they cannot be read.
        source: Arc<io::Error>,
    },
    /// Media in the ledger that no row references.
    #[error("it is in the ledger, and no row references it")]
    UnnamedInLedger,
    /// The ledger has counted another number of rows that reference a media.
    #[error("{counted} rows reference it, and the ledger has counted {stored}")]
    Miscounted {
        /// Number of rows that reference it.
        counted: u64,
        /// Number that the ledger has stored.
        stored: u64,
    },
    /// Media on the garbage list that a row references. The next sweep would delete it.
    #[error("it is on the garbage list, and a row references it")]
    NamedGarbage,
    /// Media that the ledger has released and the vault has not deleted yet.
    #[error("it is garbage, and the next sweep deletes it")]
    Garbage,
    /// Media in the vault that no row references.
    #[error("it is in the vault, and no row references it")]
    Unnamed,
    /// A file or directory in the vault with a name that Windlass does not use.
    #[error("it is in the vault, and Windlass did not create it")]
    Foreign,
}

impl Finding {
    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        match self.fault {
            Fault::Garbage | Fault::Unnamed | Fault::Foreign => Severity::Remains,
            Fault::Database(_)
            | Fault::Row(_)
            | Fault::Contradiction(_)
            | Fault::IdentityMismatch(_)
            | Fault::Missing { .. }
            | Fault::Short { .. }
            | Fault::Rotten { .. }
            | Fault::Unreadable { .. }
            | Fault::UnnamedInLedger
            | Fault::Miscounted { .. }
            | Fault::NamedGarbage => Severity::Damage,
        }
    }
}

impl Fault {
    /// Returns whether it is about the bytes of a media that a row references.
    pub fn is_of_bytes(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Short { .. }
                | Self::Rotten { .. }
                | Self::Unreadable { .. }
        )
    }

    /// Returns its name for machine-readable output.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Database(_) => "database",
            Self::Row(_) => "row",
            Self::Contradiction(_) => "contradiction",
            Self::IdentityMismatch(_) => "stranger",
            Self::Missing { .. } => "missing",
            Self::Short { .. } => "short",
            Self::Rotten { .. } => "rotten",
            Self::Unreadable { .. } => "unreadable",
            Self::UnnamedInLedger => "unnamed_in_ledger",
            Self::Miscounted { .. } => "miscounted",
            Self::NamedGarbage => "named_garbage",
            Self::Garbage => "garbage",
            Self::Unnamed => "unnamed",
            Self::Foreign => "foreign",
        }
    }
}

impl Subject {
    /// Returns the name of its kind for machine-readable output.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Vault => "vault",
            Self::Row { .. } => "row",
            Self::Session { .. } => "session",
            Self::Resource { .. } => "resource",
            Self::Media(_) => "media",
            Self::Path(_) => "path",
        }
    }
}

/// Human-readable, in one line. A session is shown by four bytes of its id, as in logs.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str("ledger"),
            Self::Vault => f.write_str("vault"),
            Self::Row { table, row } => write!(f, "row {row} of {table}"),
            Self::Session { id, row } => {
                write!(f, "session {}.. (row {row})", id.abbreviated())
            }
            Self::Resource { collection, id } => write!(f, "resource {collection}/{id}"),
            Self::Media(id) => write!(f, "media {id}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Number of bytes that are read at once.
const PIECE_LEN: u64 = 1 << 20;

/// The requirements of a row on the first bytes of a media. Bytes behind them mean nothing.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) len: u64,
    digests: Digests,
    /// The last extent, which has a separate checksum.
    extent: Option<Extent>,
}

impl Expected {
    pub(crate) fn of_session(session: &SessionRow) -> Self {
        Self {
            len: session.offset,
            digests: Digests {
                crc32c: session.crc32c,
                md5: None,
                sha256: None,
            },
            extent: session.extent,
        }
    }

    pub(crate) fn of_resource(len: u64, digests: Digests) -> Self {
        Self {
            len,
            digests,
            extent: None,
        }
    }

    /// Returns the offset of the last extent.
    fn extent_start(&self) -> u64 {
        self.extent.map_or(self.len, |extent| extent.start)
    }
}

/// A comparison, which is fed with the bytes in order.
pub(crate) struct Check<'a> {
    expected: &'a Expected,
    at: u64,
    before_extent: Crc32cHasher,
    extent: Crc32cHasher,
    slow: Md5Sha256Hasher,
}

impl<'a> Check<'a> {
    pub(crate) fn new(expected: &'a Expected) -> Self {
        let wanted = Wanted {
            md5: expected.digests.md5.is_some(),
            sha256: expected.digests.sha256.is_some(),
        };
        Self {
            expected,
            at: 0,
            before_extent: Crc32cHasher::default(),
            extent: Crc32cHasher::default(),
            slow: Md5Sha256Hasher::new(wanted),
        }
    }

    /// Takes the next bytes. There must be no more than expected in all.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let before = self.expected.extent_start().saturating_sub(self.at);
        let before = usize::try_from(before).map_or(piece.len(), |len| len.min(piece.len()));
        let (first, rest) = piece.split_at(before);
        self.before_extent.update(first);
        self.extent.update(rest);
        self.slow.update(piece);
        self.at += piece.len() as u64;
    }

    /// Returns the mismatch of the bytes that were read from `media`, if they differ.
    pub(crate) fn finish(self, media: MediaId) -> Option<Fault> {
        let Expected { len, digests, .. } = *self.expected;
        let rotten = |bytes: Range<u64>, digest| Fault::Rotten {
            media,
            bytes,
            digest,
        };
        if self.at < len {
            return Some(Fault::Short {
                media,
                len: self.at,
                expected: len,
            });
        }
        if self.is_extent_rotten() {
            return Some(rotten(self.expected.extent_start()..len, "CRC32C"));
        }
        if self.crc32c() != digests.crc32c {
            return Some(rotten(0..self.rot_ends_before(), "CRC32C"));
        }
        let (md5, sha256) = self.slow.finish();
        if md5 != digests.md5 {
            return Some(rotten(0..len, "MD5"));
        }
        (sha256 != digests.sha256).then(|| rotten(0..len, "SHA-256"))
    }

    fn is_extent_rotten(&self) -> bool {
        let extent = self.expected.extent;
        extent.is_some_and(|extent| extent.crc32c != self.extent.value())
    }

    /// Returns the end of the range that contains the difference. The extent is known to be sound
    /// here, so the difference is before it, unless the extent is everything.
    fn rot_ends_before(&self) -> u64 {
        match self.expected.extent_start() {
            0 => self.expected.len,
            start => start,
        }
    }

    fn crc32c(&self) -> Crc32c {
        let extent_len = self.expected.len - self.expected.extent_start();
        self.before_extent
            .value()
            .combine(self.extent.value(), extent_len)
    }
}

/// Returns the problem with the media in the file at `path`, if it has one. Calls `read` with the
/// number of bytes of each piece.
pub(crate) fn check_file(
    path: &Path,
    media: MediaId,
    expected: &Expected,
    read: &mut dyn FnMut(u64),
) -> Option<Fault> {
    match try_check_file(path, media, expected, read) {
        Ok(fault) => fault,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Fault::Missing { media }),
        Err(error) => Some(Fault::Unreadable {
            media,
            source: Arc::new(error),
        }),
    }
}

fn try_check_file(
    path: &Path,
    media: MediaId,
    expected: &Expected,
    read: &mut dyn FnMut(u64),
) -> io::Result<Option<Fault>> {
    let file = filesystem::open_for_reading(path)?;
    // Before its bytes: a file that is too short need not be read.
    let len = file.metadata()?.len();
    if len < expected.len {
        return Ok(Some(Fault::Short {
            media,
            len,
            expected: expected.len,
        }));
    }
    let mut check = Check::new(expected);
    let mut at = 0;
    while at < expected.len {
        let len = usize::try_from((expected.len - at).min(PIECE_LEN)).expect("at most a piece");
        let piece = filesystem::read_at(&file, at, len)?;
        if piece.is_empty() {
            break;
        }
        check.take(&piece);
        at += piece.len() as u64;
        read(piece.len() as u64);
    }
    Ok(check.finish(media))
}
