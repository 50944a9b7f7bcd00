//! Why a store was not opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::Cause;

use crate::filesystem;

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open, or the same vault by way of another data directory.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The data directory, or the vault.
        dir: PathBuf,
    },
    /// It is a backup that was never completed.
    #[error("{} is a backup that was not completed", dir.display())]
    IncompleteBackup {
        /// The directory.
        dir: PathBuf,
    },
    /// The file system cannot keep the promise.
    #[error("{} is on a file system that loses acknowledged bytes: {reason}", dir.display())]
    UnsafeFilesystem {
        /// The data directory, or the vault.
        dir: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The database was made by something else, by a newer version, or is damaged.
    #[error("{} cannot be used as the ledger", path.display())]
    Ledger {
        /// The database file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Cause,
    },
    /// The vault is not the one of the ledger. Nothing was changed.
    #[error("{} is not the vault of this store: {why}", vault.display())]
    Vault {
        /// Where the vault should be.
        vault: PathBuf,
        /// What is wrong with it.
        why: IdentityMismatch,
    },
    /// There is media in the vault, and no ledger that could name it. Nothing was changed.
    #[error("{} holds media, and its ledger is gone", vault.display())]
    NoLedger {
        /// The vault.
        vault: PathBuf,
    },
    /// The disk is full: there is no room for the files that an open database needs.
    #[error("there is no room on the disk of {}", path.display())]
    NoSpace {
        /// The file or directory.
        path: PathBuf,
        /// What was refused.
        #[source]
        source: Cause,
    },
    /// A file call failed.
    #[error("{} cannot be opened", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        if filesystem::is_out_of_space(&source) {
            let source = Arc::new(source);
            return Self::NoSpace { path, source };
        }
        Self::Io { path, source }
    }
}

/// Why a directory is not the vault of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityMismatch {
    /// It does not exist, or no store has marked it, as when its disk is not mounted.
    #[error("it has no mark of a store")]
    Unmarked,
    /// It has the mark of another store.
    #[error("it has the mark of another store")]
    Marked,
}
