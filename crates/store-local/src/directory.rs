//! The data directory: opening it, the reasons to refuse it, and its files besides the ledger and
//! the media: locks, the identity of the vault, and the marks of a backup.
//!
//! **Identity.** A store has an identity, which is created with it. The ledger holds it, and so
//! does the file `identity` in the vault. A disk that is not mounted leaves an empty directory in
//! the place of the vault, and a wrong disk brings the vault of another store. With such a vault
//! all media would seem lost, and would be deleted when the right disk returns. So nothing is done
//! with a vault that lacks the identity of its ledger. A new store writes the file first, durably,
//! and then creates the ledger. A crash between the two leaves no ledger, and the next start writes
//! the file again. No crash leaves a ledger without its vault.
//!
//! **Deletion lock.** Backups share a lock on the file `hold`. A process that deletes media first
//! checks whether the file is locked. If so, it leaves the media to the next sweep. The check is
//! sufficient, because media is deleted only after the ledger has released it. A copy of the ledger
//! that was made after the lock was taken does not reference media that passed the check earlier.
//! The operating system releases the lock when its process ends, however it ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use windlass_store::recorder::{NoRecorder, StoreRecorder};
use windlass_store::{Cause, Retention};

use crate::file_lock::FileLock;
use crate::filesystem::{self, SharedDirectory};
use crate::reserve::Reserve;
use crate::sync_health::StopProbe;

/// Options of [`LocalStore::open`](crate::LocalStore::open).
///
/// ```
/// use windlass_store_local::{Durability, Options};
///
/// let scratch = Options::default().durability(Durability::Os);
/// assert!(!scratch.page_cache);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The failures that an acknowledged byte survives. The default is [`Durability::Disk`].
    pub durability: Durability,
    /// Whether all media is written through the page cache. The default is `false`: large writes
    /// bypass it where the file system supports that. With [`Durability::Os`] none does.
    pub page_cache: bool,
    /// Whether to open a store on a file system that is known to lose synced bytes, with a warning
    /// instead of an error. The default is `false`.
    pub allow_unsafe_filesystem: bool,
    /// Whether to open a store with a directory or files that every user can change, with a warning
    /// instead of an error. The default is `false`.
    pub allow_shared_data: bool,
    /// What the store does is recorded here, for metrics. The default is [`NoRecorder`].
    pub recorder: Arc<dyn StoreRecorder>,
    /// How released media in the vault is treated. The default is to delete it at once, and once.
    pub retention: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            page_cache: false,
            allow_unsafe_filesystem: false,
            allow_shared_data: false,
            recorder: Arc::new(NoRecorder),
            retention: Retention::default(),
        }
    }
}

impl Options {
    /// Sets [`Options::durability`].
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets [`Options::page_cache`].
    #[must_use]
    pub const fn page_cache(mut self, page_cache: bool) -> Self {
        self.page_cache = page_cache;
        self
    }

    /// Sets [`Options::allow_unsafe_filesystem`].
    #[must_use]
    pub const fn allow_unsafe_filesystem(mut self, allow: bool) -> Self {
        self.allow_unsafe_filesystem = allow;
        self
    }

    /// Sets [`Options::allow_shared_data`].
    #[must_use]
    pub const fn allow_shared_data(mut self, allow: bool) -> Self {
        self.allow_shared_data = allow;
        self
    }

    /// Sets [`Options::recorder`].
    #[must_use]
    pub fn recorder(self, recorder: Arc<dyn StoreRecorder>) -> Self {
        Self { recorder, ..self }
    }

    /// Sets [`Options::retention`].
    #[must_use]
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }
}

/// The failures that an acknowledged byte survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power cut. Everything is synced before it is acknowledged, which costs a sync of the media
    /// and a shared one of the ledger for each acknowledgement.
    #[default]
    Disk,
    /// The end of the process, including `kill -9`, but not a power cut. Nothing is ever synced.
    /// For scratch data.
    Os,
}

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
        /// The problem with the file system.
        reason: &'static str,
    },
    /// Every user can change the contents of the directory or the file.
    #[error("other users can change what is in {}: {why}", path.display())]
    Shared {
        /// Data directory or vault, or a file in them.
        path: PathBuf,
        /// Why they can.
        why: SharedDirectory,
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
    /// The `identity` file belongs to another store.
    #[error("it has the mark of another store")]
    Marked,
}

/// File name of the ledger of a store or a backup.
pub(crate) const LEDGER: &str = "ledger.sqlite";
/// File name of the ledger that a running backup writes.
pub(crate) const NEW_LEDGER: &str = "ledger.sqlite.new";
/// File that marks a directory as a backup that was completed once.
pub(crate) const COMPLETE_BACKUP: &str = "backup";
/// File that marks a directory as a backup that is running or was interrupted.
pub(crate) const INCOMPLETE_BACKUP: &str = "backup.incomplete";

/// State that the ledger and the vault share.
#[derive(Debug, Clone)]
pub(crate) struct StoreShared {
    pub(crate) durability: Durability,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) lock: Arc<DirectoryLock>,
    /// One for each file system of the store. Empty with [`Durability::Os`].
    pub(crate) stop_probes: Arc<[StopProbe]>,
    /// [`Options::allow_shared_data`].
    pub(crate) allow_shared_data: bool,
    pub(crate) recorder: Arc<dyn StoreRecorder>,
    pub(crate) retention: Retention,
}

/// The locks on the data directory and on its vault, held as long as the ledger or the vault
/// exists.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _files: Vec<FileLock>,
}

impl DirectoryLock {
    pub(crate) fn new(files: Vec<FileLock>) -> Self {
        Self { _files: files }
    }
}

/// Locks a vault by its `identity` file.
///
/// The lock of the data directory is not enough: links and mounts may lead to one vault from
/// several data directories, and a store deletes media that it does not know.
pub(crate) fn lock_vault(vault: &Path) -> Result<FileLock, OpenError> {
    let lock = FileLock::try_exclusive(&identity_path(vault));
    lock.map_err(|source| OpenError::io(vault, source))?
        .ok_or_else(|| OpenError::InUse {
            dir: vault.to_owned(),
        })
}

/// Refuses a vault that does not belong to the store with this identity.
pub(crate) fn check_identity(vault: &Path, identity: Identity) -> Result<(), OpenError> {
    let mismatch = identity.mismatch(vault);
    match mismatch.map_err(|source| OpenError::io(vault, source))? {
        None => Ok(()),
        Some(why) => Err(OpenError::Vault {
            vault: vault.to_owned(),
            why,
        }),
    }
}

/// The identity of a store: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity([u8; 16]);

impl Identity {
    /// Returns the identity of a new store.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random numbers");
        Self(bytes)
    }

    pub(crate) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns why `vault` does not belong to the store with this identity, or `None` if it does.
    pub(crate) fn mismatch(self, vault: &Path) -> io::Result<Option<IdentityMismatch>> {
        let marked = match filesystem::open_for_reading(&identity_path(vault)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            file => filesystem::read_at(&file?, 0, MAX_READ)?,
        };
        Ok(match marked.trim_ascii() {
            b"" => Some(IdentityMismatch::Unmarked),
            mark if mark.eq_ignore_ascii_case(self.mark().trim_ascii()) => None,
            _ => Some(IdentityMismatch::Marked),
        })
    }

    /// Writes the `identity` file into a vault, which must exist. The file and its name are
    /// durable.
    pub(crate) fn write_durably(self, vault: &Path) -> io::Result<()> {
        let file = filesystem::open_or_create(&identity_path(vault))?;
        filesystem::cut(&file, 0)?;
        let written = filesystem::write_all_at(&file, &[self.mark()], 0);
        written.map_err(|stopped| stopped.error)?;
        file.sync_all()?;
        filesystem::sync_directory(vault)
    }

    /// Returns the content of the file: 32 hexadecimal digits and a line feed.
    fn mark(self) -> Vec<u8> {
        format!("{:032x}\n", u128::from_be_bytes(self.0)).into_bytes()
    }
}

/// Maximum number of bytes read of the file. It is more than the content has, so that a longer one
/// differs.
const MAX_READ: usize = 64;

/// Returns the path of the `identity` file of a vault.
pub(crate) fn identity_path(vault: &Path) -> PathBuf {
    vault.join("identity")
}

/// Checks, before media is deleted, whether a backup is running.
#[derive(Debug)]
pub(crate) struct DeletionLock {
    path: PathBuf,
    /// Held during a check, which takes the lock for a moment. Otherwise, two concurrent checks
    /// would mistake each other for a backup.
    checking: Mutex<()>,
}

/// Media was not deleted, because a running backup may need it.
#[derive(Debug, thiserror::Error)]
#[error("a backup is running and may need it")]
pub(crate) struct DeletionLocked;

impl DeletionLock {
    /// Returns the check for the store in `dir`.
    pub(crate) fn of(dir: &Path) -> Self {
        Self {
            path: hold_path(dir),
            checking: Mutex::default(),
        }
    }

    /// Returns whether a backup or a repair holds the lock.
    pub(crate) fn is_locked(&self) -> io::Result<bool> {
        let _looking = self
            .checking
            .lock()
            .expect("nothing panics while it is held");
        Ok(filesystem::exists(&self.path)? && FileLock::try_exclusive(&self.path)?.is_none())
    }
}

/// Prevents media of the store in `dir` from being deleted, until the returned lock is dropped.
/// Waits for a running repair. A deletion that is just being checked delays it by a moment.
pub(crate) fn lock_deletion(dir: &Path) -> io::Result<FileLock> {
    FileLock::shared(&hold_path(dir))
}

/// Prevents backups of the store in `dir`, until the returned lock is dropped. Returns `None` if one
/// is running.
pub(crate) fn exclude_backups(dir: &Path) -> io::Result<Option<FileLock>> {
    FileLock::try_exclusive(&hold_path(dir))
}

fn hold_path(dir: &Path) -> PathBuf {
    dir.join("hold")
}

/// Refuses a backup that was never completed.
pub(crate) fn refuse_incomplete(dir: &Path) -> Result<(), OpenError> {
    if exists_in(dir, INCOMPLETE_BACKUP)? && !exists_in(dir, LEDGER)? {
        let dir = dir.to_owned();
        return Err(OpenError::IncompleteBackup { dir });
    }
    Ok(())
}

/// Turns a backup that was completed into a store, when a server opens it.
pub(crate) fn become_store(dir: &Path) -> Result<(), OpenError> {
    if exists_in(dir, INCOMPLETE_BACKUP)? || exists_in(dir, COMPLETE_BACKUP)? {
        let io = |error| OpenError::io(dir, error);
        for name in [NEW_LEDGER, INCOMPLETE_BACKUP, COMPLETE_BACKUP] {
            filesystem::remove(&dir.join(name)).map_err(io)?;
        }
        filesystem::sync_directory(dir).map_err(io)?;
    }
    Ok(())
}

fn exists_in(dir: &Path, name: &str) -> Result<bool, OpenError> {
    filesystem::exists(&dir.join(name)).map_err(|error| OpenError::io(dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vault_matches_only_the_identity_in_its_file() {
        let vault = tempfile::tempdir().unwrap();
        let identity = Identity::from_bytes([0xab; 16]);
        let absent = vault.path().join("absent");
        let unmarked = Some(IdentityMismatch::Unmarked);
        assert_eq!(identity.mismatch(&absent).unwrap(), unmarked);
        assert_eq!(identity.mismatch(vault.path()).unwrap(), unmarked);
        // A crash may leave a part of the content.
        std::fs::write(identity_path(vault.path()), "abab").unwrap();
        let strange = Some(IdentityMismatch::Marked);
        assert_eq!(identity.mismatch(vault.path()).unwrap(), strange);
        std::fs::write(identity_path(vault.path()), "ab".repeat(40)).unwrap();
        assert_eq!(identity.mismatch(vault.path()).unwrap(), strange);
        identity.write_durably(vault.path()).unwrap();
        assert_eq!(identity.mismatch(vault.path()).unwrap(), None);
        assert_eq!(Identity::random().mismatch(vault.path()).unwrap(), strange);
    }
}
