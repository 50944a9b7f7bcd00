//! What can be wrong with a store.
//!
//! Bytes against what a row says of them.
//!
//! Media where it lies, piece by piece.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_proto::digest::{Crc32c, Crc32cHasher, Digests, SlowHasher, Wanted};
use windlass_store::{Cause, Extent, MediaId, SessionId};

use crate::ledger::SessionRow;
use crate::{IdentityMismatch, filesystem};

/// Something that is wrong.
#[derive(Debug, Clone)]
pub struct Finding {
    /// With what.
    pub subject: Subject,
    /// What it is.
    pub fault: Fault,
    /// The repair has mended it. After that a session has failed and its client starts again; media
    /// that nothing names is gone; named media is not garbage any more.
    pub is_mended: bool,
}

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Neither a crash nor a power cut leaves it.
    Damage,
    /// A crash leaves it. It takes up room and does no harm; a server clears most of it away.
    Remains,
}

/// What something is wrong with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The database file as a whole.
    Ledger,
    /// The vault as a whole.
    Vault,
    /// A row that cannot be read.
    Row {
        /// Its table.
        table: &'static str,
        /// Its rowid.
        row: i64,
    },
    /// A session.
    Session {
        /// Its id.
        id: SessionId,
        /// Its rowid, which finds it in the database.
        row: i64,
    },
    /// A resource.
    Resource {
        /// Its collection.
        collection: String,
        /// Its id in there.
        id: String,
    },
    /// A media, by itself.
    Media(MediaId),
    /// A name in the vault.
    Path(PathBuf),
}

/// What is wrong.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// SQLite says that the file is damaged, in these words.
    #[error("the database is damaged: {0}")]
    Database(String),
    /// A row has values that it cannot have.
    #[error("the row cannot be read: {0}")]
    Row(#[source] Cause),
    /// The values of a row cannot all be true.
    #[error("the row contradicts itself: {0}")]
    Contradiction(&'static str),
    /// The vault is not the one of the ledger, so that nothing is to be known of media.
    #[error("it is not the vault of this store: {0}")]
    IdentityMismatch(#[source] IdentityMismatch),
    /// A row names media that does not exist.
    #[error("media {media} is gone")]
    Missing {
        /// The media.
        media: MediaId,
    },
    /// There are fewer bytes than the row says.
    #[error("media {media} has {len} bytes, of which there should be {expected}")]
    Short {
        /// The media.
        media: MediaId,
        /// Bytes that are there.
        len: u64,
        /// Bytes that the row speaks of.
        expected: u64,
    },
    /// The bytes are not those that were stored.
    #[error("media {media}: bytes {}..{} do not have their {digest}", bytes.start, bytes.end)]
    Rotten {
        /// The media.
        media: MediaId,
        /// Where; the smallest stretch of which that is known.
        bytes: Range<u64>,
        /// The digest that differs: `CRC32C`, `MD5` or `SHA-256`.
        digest: &'static str,
    },
    /// The bytes cannot be read.
    #[error("media {media} cannot be read: {source}")]
    Unreadable {
        /// The media.
        media: MediaId,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// Media in the ledger that no row names.
    #[error("it is in the ledger, and no row names it")]
    UnnamedInLedger,
    /// Media that is to be deleted, though a row names it: the next sweep deletes it.
    #[error("it is on the list of garbage, and a row names it")]
    NamedGarbage,
    /// Media that a session or a resource has let go of, and that was not deleted yet.
    #[error("it is garbage that waits for the sweep")]
    Garbage,
    /// Media in the vault that no row names.
    #[error("it is in the vault, and no row names it")]
    Unnamed,
    /// Something that Windlass has not put there.
    #[error("it is in the vault, and not Windlass's")]
    Foreign,
}

impl Finding {
    /// How bad it is.
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
            | Fault::NamedGarbage => Severity::Damage,
        }
    }
}

impl Fault {
    /// Whether it is about the bytes of a media that a row names.
    pub fn is_of_bytes(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Short { .. }
                | Self::Rotten { .. }
                | Self::Unreadable { .. }
        )
    }

    /// Its name, for programs.
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
            Self::NamedGarbage => "named_garbage",
            Self::Garbage => "garbage",
            Self::Unnamed => "unnamed",
            Self::Foreign => "foreign",
        }
    }
}

impl Subject {
    /// The name of its kind, for programs.
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

/// One line for people. Of a session it shows four bytes, as a log does.
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

/// As much as is read at once.
const PIECE_LEN: u64 = 1 << 20;

/// What a row says of the first bytes of a media. What is behind them means nothing.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) len: u64,
    digests: Digests,
    /// The last stretch of them.
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

    /// Where the last stretch begins, of which there is a checksum of its own.
    fn extent_start(&self) -> u64 {
        self.extent.map_or(self.len, |extent| extent.start)
    }
}

/// The comparison, fed with the bytes in order.
pub(crate) struct Check<'a> {
    expected: &'a Expected,
    at: u64,
    before_extent: Crc32cHasher,
    extent: Crc32cHasher,
    slow: SlowHasher,
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
            slow: SlowHasher::new(wanted),
        }
    }

    /// Takes the next bytes, up to the end of what is expected.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let before = self.expected.extent_start().saturating_sub(self.at);
        let before = usize::try_from(before).map_or(piece.len(), |len| len.min(piece.len()));
        let (first, rest) = piece.split_at(before);
        self.before_extent.update(first);
        self.extent.update(rest);
        self.slow.update(piece);
        self.at += piece.len() as u64;
    }

    /// What differs. `media` is whose bytes they were.
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

    /// The extent is sound by now: what differs is before it, unless it is everything.
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

/// What is wrong with a media in the file of this path, if anything is. Tells how many bytes it has
/// read, piece by piece.
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

/// The length first: to tell that a file is short it need not be read.
fn try_check_file(
    path: &Path,
    media: MediaId,
    expected: &Expected,
    read: &mut dyn FnMut(u64),
) -> io::Result<Option<Fault>> {
    let file = filesystem::open_for_reading(path)?;
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
