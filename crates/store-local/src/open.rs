//! Opening a store, and everything that speaks against it.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::Cause;

use crate::backup;
use crate::filesystem::{self, JournalHealth, Safety};
use crate::identity::{self, Identity, IdentityMismatch};
use crate::ledger::{self, LocalLedger};
use crate::reserve::{self, Reserve};
use crate::vault::{LocalVault, Writes, scan};

/// A ledger and a vault that share a data directory.
#[derive(Debug)]
pub struct LocalStore {
    /// The ledger, in `ledger.sqlite`.
    pub ledger: LocalLedger,
    /// The vault, in `vault/`.
    pub vault: LocalVault,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What an acknowledged byte survives.
    pub durability: Durability,
    /// Writes all media through the page cache. Otherwise large writes, which are synced soon, go past it;
    /// with [`Durability::Os`] none does.
    pub page_cache: bool,
    /// Opens the store on a file system that is known not to keep what it has synced, with a
    /// warning instead of an error.
    pub allow_unsafe_filesystem: bool,
}

/// What an acknowledged byte survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power cut: everything is synced before it is acknowledged. Costs a sync of the media and a
    /// shared one of the ledger for each acknowledgement.
    #[default]
    Disk,
    /// The end of the process, kill -9 included, but no power cut: nothing is ever synced. For
    /// scratch data.
    Os,
}

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

    pub(crate) fn ledger(path: &Path, source: impl Into<ledger::SchemaError>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        let is_full = source.is_full();
        let source: Cause = Arc::new(source);
        if is_full {
            Self::NoSpace { path, source }
        } else {
            Self::Ledger { path, source }
        }
    }
}

/// What the ledger and the vault share.
#[derive(Debug, Clone)]
pub(crate) struct StoreShared {
    pub(crate) durability: Durability,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) lock: Arc<DirectoryLock>,
    /// Of the file systems that sync the store; none where nothing is synced.
    pub(crate) journals: Arc<[JournalHealth]>,
}

/// The right to the data directory and to its vault, held as long as the ledger or the vault lives.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _files: Vec<File>,
}

impl DirectoryLock {
    pub(crate) fn new(files: Vec<File>) -> Self {
        Self { _files: files }
    }
}

impl LocalStore {
    /// Opens the store in `dir`, made now if it does not exist.
    ///
    /// It blocks, for some milliseconds; it walks neither sessions nor media, however many there
    /// are. What a crash left behind is met where it matters: the ledger replays its WAL, and a
    /// media is cut to its committed offset when it is reopened.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_judged(dir, options, filesystem::judge)
    }

    fn open_judged(dir: &Path, options: Options, judge: Judge) -> Result<Self, OpenError> {
        let io = |source| OpenError::io(dir, source);
        filesystem::make_directories_durably(dir).map_err(io)?;
        let lock = filesystem::lock(&dir.join("lock")).map_err(io)?;
        let file = lock.ok_or_else(|| OpenError::InUse {
            dir: dir.to_owned(),
        })?;
        let (ledger_path, vault_dir) = (dir.join("ledger.sqlite"), dir.join("vault"));
        check_filesystems(dir, &vault_dir, options, judge)?;
        backup::refuse_incomplete(dir)?;

        let reserve_path = reserve::path(dir);
        let reserve =
            Reserve::open(&reserve_path).map_err(|source| OpenError::io(&reserve_path, source))?;
        let reserve = Arc::new(reserve);
        let _loan = reserve.lend().map_err(io)?;
        let (identity, vault_lock) = identify(&ledger_path, &vault_dir)?;
        let lock = Arc::new(DirectoryLock::new(vec![file, vault_lock]));
        backup::take_over(dir)?;
        let keep = StoreShared {
            durability: options.durability,
            reserve: Arc::clone(&reserve),
            lock,
            journals: journals(dir, &vault_dir, options.durability).map_err(io)?,
        };
        let writes = writes(&vault_dir, options);
        let vault = LocalVault::new(vault_dir, writes, keep.clone());
        let ledger = LocalLedger::open(&ledger_path, identity, keep)?;
        Ok(Self { ledger, vault })
    }
}

/// How media is written: past the page cache if it will be synced, and if the vault's file system is good at it.
fn writes(vault: &Path, options: Options) -> Writes {
    let wants_direct = options.durability == Durability::Disk && !options.page_cache;
    if wants_direct && filesystem::takes_direct_writes(&identity::path(vault)) {
        Writes::Direct
    } else {
        Writes::Cached
    }
}

/// By files that never change: that of the data directory, and that of the vault, which may be on a disk of its own.
fn journals(
    dir: &Path,
    vault: &Path,
    durability: Durability,
) -> std::io::Result<Arc<[JournalHealth]>> {
    if durability == Durability::Os {
        return Ok(Arc::new([]));
    }
    let (lock, mark) = (dir.join("lock"), identity::path(vault));
    let one_disk = filesystem::are_together(&lock, &mark)?;
    let apart = (!one_disk).then_some(&mark);
    [&lock]
        .into_iter()
        .chain(apart)
        .map(|path| JournalHealth::of(path))
        .collect()
}

/// The identity of the store, which its vault has too, and the lock of the vault. A new store gets one.
fn identify(ledger: &Path, vault: &Path) -> Result<(Identity, File), OpenError> {
    let Some(identity) = ledger::identity_in(ledger)? else {
        return mark_new(vault);
    };
    check_identity(vault, identity)?;
    let lock = lock_vault(vault)?;
    // Until then another store could mark it.
    check_identity(vault, identity)?;
    Ok((identity, lock))
}

/// Takes the lock of a vault, which is that of its mark. Links and mounts may lead to one vault from several data
/// directories, and what one store does not know it takes for remains.
pub(crate) fn lock_vault(vault: &Path) -> Result<File, OpenError> {
    let lock = filesystem::lock(&identity::path(vault));
    lock.map_err(|source| OpenError::io(vault, source))?
        .ok_or_else(|| OpenError::InUse {
            dir: vault.to_owned(),
        })
}

/// Makes the vault of a new store, and marks it as such. A mark that it has is that of a store whose
/// ledger was never made.
fn mark_new(vault: &Path) -> Result<(Identity, File), OpenError> {
    let io = |source| OpenError::io(vault, source);
    filesystem::make_directories_durably(vault).map_err(io)?;
    if !scan::is_bare(vault).map_err(io)? {
        let vault = vault.to_owned();
        return Err(OpenError::NoLedger { vault });
    }
    let lock = lock_vault(vault)?;
    let identity = Identity::random();
    identity.mark_durably(vault).map_err(io)?;
    Ok((identity, lock))
}

/// Refuses a vault that is not that of the store of this identity.
pub(crate) fn check_identity(vault: &Path, identity: Identity) -> Result<(), OpenError> {
    let misses = identity.misses(vault);
    match misses.map_err(|source| OpenError::io(vault, source))? {
        None => Ok(()),
        Some(why) => Err(OpenError::Vault {
            vault: vault.to_owned(),
            why,
        }),
    }
}

/// How a file system is judged by a directory on it.
type Judge = fn(&Path) -> std::io::Result<Safety>;

/// Judges the file system of the data directory, and that of the vault, which may be mounted there or be elsewhere
/// behind a link. What was said of the one is not said again of the other.
fn check_filesystems(
    dir: &Path,
    vault: &Path,
    options: Options,
    judge: Judge,
) -> Result<(), OpenError> {
    if options.durability == Durability::Os {
        return Ok(());
    }
    let judge = |dir| judge(dir).map_err(|source| OpenError::io(dir, source));
    let of_dir = judge(dir)?;
    check_filesystem(dir, &of_dir, options)?;
    if filesystem::exists(vault).map_err(|source| OpenError::io(vault, source))? {
        let of_vault = judge(vault)?;
        if of_vault != of_dir {
            check_filesystem(vault, &of_vault, options)?;
        }
    }
    Ok(())
}

fn check_filesystem(dir: &Path, safety: &Safety, options: Options) -> Result<(), OpenError> {
    match *safety {
        Safety::Safe => {}
        Safety::Unsafe(reason) if !options.allow_unsafe_filesystem => {
            return Err(OpenError::UnsafeFilesystem {
                dir: dir.to_owned(),
                reason,
            });
        }
        Safety::Unsafe(reason) | Safety::Doubtful(reason) => {
            tracing::warn!(dir = %dir.display(), reason, "acknowledged bytes may be lost");
        }
    }
    Ok(())
}
