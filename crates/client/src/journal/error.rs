//! What can go wrong with a journal.

use std::io;
use std::path::PathBuf;

use super::RecordId;
use crate::InvalidSessionUri;

/// Why the journal did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory cannot be made, listed or synced.
    #[error("cannot use the journal {}", directory.display())]
    Directory {
        /// The journal's directory, or one above it.
        directory: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// Who else can write here decides where media is sent.
    #[error("others may write to the journal {} (mode {mode:04o})", directory.display())]
    WritableByOthers {
        /// The journal's directory.
        directory: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Its owner decides where media is sent.
    #[error("the journal {} belongs to another user (uid {owner})", directory.display())]
    OwnedByAnother {
        /// The journal's directory.
        directory: PathBuf,
        /// The id of the user who owns it.
        owner: u32,
    },
    /// A file cannot be looked at.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A file cannot be written, synced or put in place.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A file cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A file cannot be locked, for another reason than that somebody has the lock.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The system gives no random numbers.
    #[error("cannot draw an id for the upload")]
    Random(#[source] getrandom::Error),
    /// There is no such upload. It may have been finished.
    #[error("no unfinished upload is called {id}")]
    NotFound {
        /// What was looked for.
        id: RecordId,
    },
    /// Somebody works on it.
    #[error("another process is working on the upload {id}")]
    InUse {
        /// The upload.
        id: RecordId,
    },
    /// Its record cannot be used.
    #[error("{} cannot be used: {damage}", path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
}

/// What is wrong with a record.
///
/// It says where, not what is there: that may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// It cannot be read.
    #[error("it cannot be read ({0})")]
    Unreadable(io::Error),
    /// Who wrote it decides where media is sent.
    #[error("it belongs to another user (uid {owner})")]
    OwnedByAnother {
        /// The id of the user who owns it.
        owner: u32,
    },
    /// It is not JSON, or not that of a record.
    #[error("it is not the record of an upload (line {line}, column {column})")]
    Format {
        /// The line, from 1.
        line: usize,
        /// The column in bytes.
        column: usize,
    },
    /// Another windlass wrote it, presumably a newer one.
    #[error(
        "it has version {found}, and this windlass knows version {known}; go on with the one that wrote it"
    )]
    Version {
        /// Its version.
        found: u64,
        /// The version that is written here.
        known: u64,
    },
    /// Its session is not to be used.
    #[error("{0}")]
    Session(InvalidSessionUri),
}
