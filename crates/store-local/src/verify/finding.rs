//! What can be wrong with a store.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_store::{Cause, MediaId, SessionId};

use crate::IdentityMismatch;

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
        source: Arc<std::io::Error>,
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
