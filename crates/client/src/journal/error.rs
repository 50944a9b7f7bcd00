//! Errors of the journal.

use std::io;
use std::path::PathBuf;

use super::RecordId;
use crate::InvalidSessionUri;

/// Why an operation of the journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory cannot be created, listed or synced.
    #[error("cannot use the journal {}", directory.display())]
    Directory {
        /// The journal's directory, or one of its parents.
        directory: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// Other users may write to the directory, and so could redirect uploads.
    #[error("others may write to the journal {} (mode {mode:04o})", directory.display())]
    WritableByOthers {
        /// The journal's directory.
        directory: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The directory belongs to another user. That user could redirect uploads.
    #[error("the journal {} belongs to another user (uid {owner})", directory.display())]
    OwnedByAnother {
        /// The journal's directory.
        directory: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A file cannot be written, synced or renamed.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A file cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A file cannot be locked, for a reason other than that the lock is taken.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The operating system provides no random numbers.
    #[error("cannot create a random id for the upload")]
    Random(#[source] getrandom::Error),
    /// The journal has no upload with this id. It may have been finished.
    #[error("the journal has no unfinished upload {id}")]
    NotFound {
        /// The id.
        id: RecordId,
    },
    /// Another process has locked the upload.
    #[error("another process is working on the upload {id}")]
    InUse {
        /// The id.
        id: RecordId,
    },
    /// The record cannot be used.
    #[error("{} cannot be used: {damage}", path.display())]
    Damaged {
        /// Path of the record.
        path: PathBuf,
        /// Why it cannot be used.
        damage: Damage,
    },
}

/// Why a record cannot be used.
///
/// Errors of the format show only positions, because the content may be secret.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The file cannot be read.
    #[error("it cannot be read ({0})")]
    Unreadable(io::Error),
    /// The file belongs to another user. That user could have redirected the upload.
    #[error("it belongs to another user (uid {owner})")]
    OwnedByAnother {
        /// User id of the owner.
        owner: u32,
    },
    /// The file is not the JSON of a record.
    #[error("it is not the record of an upload (line {line}, column {column})")]
    Format {
        /// The line, from 1.
        line: usize,
        /// The column in bytes.
        column: usize,
    },
    /// The record has another version. Presumably a newer windlass wrote it.
    #[error(
        "it has version {found}, but this windlass supports only version {known}; use the windlass that wrote it"
    )]
    Version {
        /// Version of the record.
        found: u64,
        /// The supported version.
        known: u64,
    },
    /// The session URI is not valid.
    #[error("{0}")]
    Session(InvalidSessionUri),
}
