//! The files of a data directory besides the ledger and the media: locks, the identity of the
//! vault, and the marks of a backup.
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
//! checks whether it is locked, and leaves the media to the next sweep if so. The check is
//! sufficient, because media is deleted only after the ledger has released it: a copy of the ledger
//! that was made after the lock was taken does not reference media whose deletion was checked
//! before. The operating system releases the lock when its process ends, however it ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use windlass_store::metrics::StoreMetrics;

use crate::filesystem;
use crate::reserve::Reserve;
use crate::sync_health::JournalHealth;
use crate::{Durability, IdentityMismatch, OpenError};

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
    /// The file systems that sync the store. Empty if nothing is synced.
    pub(crate) journals: Arc<[JournalHealth]>,
    pub(crate) metrics: StoreMetrics,
}

/// The locks on the data directory and on its vault, held as long as the ledger or the vault
/// exists.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _files: Vec<File>,
}

impl DirectoryLock {
    pub(crate) fn new(files: Vec<File>) -> Self {
        Self { _files: files }
    }
}

/// Locks a vault by its `identity` file.
///
/// The lock of the data directory is not enough: links and mounts may lead to one vault from
/// several data directories, and a store deletes media that it does not know.
pub(crate) fn lock_vault(vault: &Path) -> Result<File, OpenError> {
    let lock = filesystem::lock(&identity_path(vault));
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
    /// Held during a check, which takes the lock for a moment: each of two concurrent ones would
    /// take the other for a backup.
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
        Ok(filesystem::exists(&self.path)? && filesystem::lock(&self.path)?.is_none())
    }
}

/// Prevents media of the store in `dir` from being deleted, until the returned file is closed.
/// Waits for a running repair. A deletion that is just being checked delays it by a moment.
pub(crate) fn lock_deletion(dir: &Path) -> io::Result<File> {
    filesystem::lock_shared(&hold_path(dir))
}

/// Prevents backups of the store in `dir`, until the returned file is closed. Returns `None` if one
/// is running.
pub(crate) fn exclude_backups(dir: &Path) -> io::Result<Option<File>> {
    filesystem::lock(&hold_path(dir))
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
