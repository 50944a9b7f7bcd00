//! Why a store was not opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::Cause;

use crate::filesystem;

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the store open, or its vault through another data directory.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// Data directory or vault.
        dir: PathBuf,
    },
    /// The directory is a backup that was never completed.
    #[error("{} is a backup that was not completed", dir.display())]
    IncompleteBackup {
        /// Data directory.
        dir: PathBuf,
    },
    /// The file system is known to lose synced bytes.
    #[error("{} is on a file system that loses acknowledged bytes: {reason}", dir.display())]
    UnsafeFilesystem {
        /// Data directory or vault.
        dir: PathBuf,
        /// What is wrong with the file system.
        reason: &'static str,
    },
    /// The database belongs to another application or to a newer version, or is damaged.
    #[error("{} cannot be used as the ledger", path.display())]
    Ledger {
        /// Database file.
        path: PathBuf,
        /// Why it cannot be used.
        #[source]
        source: Cause,
    },
    /// The vault does not belong to the ledger. Nothing was changed.
    #[error("{} is not the vault of this store: {why}", vault.display())]
    Vault {
        /// Path of the vault.
        vault: PathBuf,
        /// How the vault differs.
        why: IdentityMismatch,
    },
    /// The vault holds media, and there is no ledger. Nothing was changed: a new ledger would
    /// reference none of the media, and all of it would be deleted.
    #[error("{} holds media, but there is no ledger", vault.display())]
    NoLedger {
        /// Path of the vault.
        vault: PathBuf,
    },
    /// The disk has no space for the files that an open database needs.
    #[error("the disk of {} is full", path.display())]
    NoSpace {
        /// File or directory.
        path: PathBuf,
        /// Failed operation.
        #[source]
        source: Cause,
    },
    /// A system call has failed.
    #[error("{} cannot be opened", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Why it has failed.
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

/// Why a directory is not the vault of a store. See its `identity` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityMismatch {
    /// The directory or its `identity` file does not exist, for example because its disk is not
    /// mounted.
    #[error("it has no mark of a store")]
    Unmarked,
    /// The `identity` file is that of another store.
    #[error("it has the mark of another store")]
    Marked,
}
