//! The files of a data directory besides the ledger and the media: locks, marks, and the identity of its vault.
//!
//! Which vault belongs to which ledger.
//!
//! A store has an identity, which is made with it. The ledger holds it, and so does the file
//! `identity` in the vault. A disk that is not mounted leaves an empty directory in the place of the
//! vault, and a wrong one brings another store's: by such a vault all media would be lost, and be
//! deleted when the disk comes back. So nothing is done with a vault that lacks the identity of its
//! ledger.
//!
//! The vault is marked first, durably, and the ledger is made after it. Whatever crash comes between the
//! two leaves no ledger, and the next start marks the vault again; a ledger without its vault is
//! nothing that a crash leaves.
//!
//! What keeps media from being deleted while a backup copies it.
//!
//! Backups share the lock of the file `hold` in the data directory. Anyone who deletes media first looks
//! whether somebody has it, and if so leaves the media to the next sweep. Looking first is enough,
//! because media is deleted only after the ledger has let go of it: what a delete that has looked
//! already takes away is not in a copy of the ledger that is made after the hold was taken.
//!
//! The lock is gone with the process that has it, however it ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::filesystem;
use crate::reserve::Reserve;
use crate::sync_health::JournalHealth;
use crate::{Durability, IdentityMismatch, OpenError};

/// The ledger of a store or of a backup.
pub(crate) const LEDGER: &str = "ledger.sqlite";
/// The ledger that a backup is about to get.
pub(crate) const NEW_LEDGER: &str = "ledger.sqlite.new";
/// The mark of a backup that was completed once.
pub(crate) const COMPLETE_BACKUP: &str = "backup";
/// The mark of a backup that is running or was interrupted.
pub(crate) const INCOMPLETE_BACKUP: &str = "backup.incomplete";

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

/// Takes the lock of a vault, which is that of its mark. Links and mounts may lead to one vault from several data
/// directories, and what one store does not know it takes for remains.
pub(crate) fn lock_vault(vault: &Path) -> Result<File, OpenError> {
    let lock = filesystem::lock(&identity_path(vault));
    lock.map_err(|source| OpenError::io(vault, source))?
        .ok_or_else(|| OpenError::InUse {
            dir: vault.to_owned(),
        })
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

/// What tells a store from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity([u8; 16]);

impl Identity {
    /// That of a new store.
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

    /// What keeps `vault` from being this store's, if anything does.
    pub(crate) fn misses(self, vault: &Path) -> io::Result<Option<IdentityMismatch>> {
        let marked = match filesystem::open_for_reading(&identity_path(vault)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            file => filesystem::read_at(&file?, 0, MARK_LEN)?,
        };
        Ok(match marked.trim_ascii() {
            b"" => Some(IdentityMismatch::Unmarked),
            mark if mark.eq_ignore_ascii_case(self.mark().trim_ascii()) => None,
            _ => Some(IdentityMismatch::Marked),
        })
    }

    /// Marks a vault, which exists, as this store's. Durable, and so is the name of the mark.
    pub(crate) fn mark_durably(self, vault: &Path) -> io::Result<()> {
        let file = filesystem::open_or_create(&identity_path(vault))?;
        filesystem::cut(&file, 0)?;
        let written = filesystem::write_all_at(&file, &[self.mark()], 0);
        written.map_err(|stopped| stopped.error)?;
        file.sync_all()?;
        filesystem::sync_directory(vault)
    }

    /// 32 hexadecimal digits and the end of the line.
    fn mark(self) -> Vec<u8> {
        format!("{:032x}\n", u128::from_be_bytes(self.0)).into_bytes()
    }
}

/// More than a mark is long, so that a longer one is none.
const MARK_LEN: usize = 64;

/// Where a vault has its mark.
pub(crate) fn identity_path(vault: &Path) -> PathBuf {
    vault.join("identity")
}

/// The look before a delete.
#[derive(Debug)]
pub(crate) struct DeletionLock {
    path: PathBuf,
    /// One look at a time: two would each take the other for a backup.
    looking: Mutex<()>,
}

/// Media was not deleted, because a backup may be about to copy it.
#[derive(Debug, thiserror::Error)]
#[error("a backup holds it")]
pub(crate) struct DeletionLocked;

impl DeletionLock {
    /// The hold on the store in `dir`.
    pub(crate) fn of(dir: &Path) -> Self {
        Self {
            path: hold_path(dir),
            looking: Mutex::default(),
        }
    }

    /// Whether a backup has it.
    pub(crate) fn is_taken(&self) -> io::Result<bool> {
        let _looking = self
            .looking
            .lock()
            .expect("nothing panics while it is held");
        Ok(filesystem::exists(&self.path)? && filesystem::lock(&self.path)?.is_none())
    }
}

/// Keeps the media of the store in `dir` from being deleted, until the file is closed. Waits for a repair, and for a
/// delete that is looking just now, which takes no time.
pub(crate) fn lock_deletion(dir: &Path) -> io::Result<File> {
    filesystem::lock_shared(&hold_path(dir))
}

/// Keeps backups of the store in `dir` out, until the file is closed; `None` when one is running.
pub(crate) fn exclude_backups(dir: &Path) -> io::Result<Option<File>> {
    filesystem::lock(&hold_path(dir))
}

fn hold_path(dir: &Path) -> PathBuf {
    dir.join("hold")
}

/// Refuses a backup that has never been completed.
pub(crate) fn refuse_incomplete(dir: &Path) -> Result<(), OpenError> {
    if is_there(dir, INCOMPLETE_BACKUP)? && !is_there(dir, LEDGER)? {
        let dir = dir.to_owned();
        return Err(OpenError::IncompleteBackup { dir });
    }
    Ok(())
}

/// Makes a store of a backup that was completed, when a server opens it.
pub(crate) fn take_over(dir: &Path) -> Result<(), OpenError> {
    if is_there(dir, INCOMPLETE_BACKUP)? || is_there(dir, COMPLETE_BACKUP)? {
        let io = |error| OpenError::io(dir, error);
        for name in [NEW_LEDGER, INCOMPLETE_BACKUP, COMPLETE_BACKUP] {
            filesystem::remove(&dir.join(name)).map_err(io)?;
        }
        filesystem::sync_directory(dir).map_err(io)?;
    }
    Ok(())
}

fn is_there(dir: &Path, name: &str) -> Result<bool, OpenError> {
    filesystem::exists(&dir.join(name)).map_err(|error| OpenError::io(dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_vault_is_its_stores_and_nobody_elses() {
        let vault = tempfile::tempdir().unwrap();
        let identity = Identity::from_bytes([0xab; 16]);
        let absent = vault.path().join("absent");
        let unmarked = Some(IdentityMismatch::Unmarked);
        assert_eq!(identity.misses(&absent).unwrap(), unmarked);
        assert_eq!(identity.misses(vault.path()).unwrap(), unmarked);
        // A crash may leave a part of a mark; it is made again.
        std::fs::write(identity_path(vault.path()), "abab").unwrap();
        let strange = Some(IdentityMismatch::Marked);
        assert_eq!(identity.misses(vault.path()).unwrap(), strange);
        std::fs::write(identity_path(vault.path()), "ab".repeat(40)).unwrap();
        assert_eq!(identity.misses(vault.path()).unwrap(), strange);
        identity.mark_durably(vault.path()).unwrap();
        assert_eq!(identity.misses(vault.path()).unwrap(), None);
        assert_eq!(Identity::random().misses(vault.path()).unwrap(), strange);
    }
}
