//! The directory of a backup: a data directory with a mark.
//!
//! `backup` says that it was completed once, `backup.incomplete` that a backup into it is running or
//! was interrupted. A server that opens it takes the marks away: from then on it is a store, and no
//! backup is made into it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use windlass_store::MediaId;

use super::BackupError;
use crate::directory::{
    COMPLETE_BACKUP, INCOMPLETE_BACKUP, Identity, LEDGER, NEW_LEDGER, lock_vault,
};
use crate::vault::scan;
use crate::{OpenError, filesystem, ledger};

/// The destination, in use by this backup alone.
#[derive(Debug)]
pub(super) struct Target {
    dir: PathBuf,
    /// Of the directory, and of its vault.
    locks: Vec<File>,
}

impl Target {
    /// Makes `dir` the destination of a backup of the store in `store`, or finds that it is none.
    ///
    /// Its vault is marked as the store's. A former backup that is whole needs its mark as long as it is, so
    /// it can only be one of the same store.
    pub(super) fn open(store: &Path, dir: &Path, identity: Identity) -> Result<Self, BackupError> {
        let io = |error| BackupError::io(dir)(error);
        if is_inside(store, dir).map_err(io)? {
            let target = dir.to_owned();
            return Err(BackupError::Inside { target });
        }
        filesystem::make_directories_durably(dir).map_err(io)?;
        refuse_others(dir)?;
        let lock = filesystem::lock(&dir.join("lock")).map_err(io)?;
        let lock = lock.ok_or_else(|| OpenError::InUse {
            dir: dir.to_owned(),
        })?;
        let mut target = Self {
            locks: vec![lock],
            dir: dir.to_owned(),
        };
        // A server may have had it meanwhile, and made a store of it.
        refuse_others(dir)?;
        target.refuse_others_backup(identity)?;
        target.mark(INCOMPLETE_BACKUP)?;
        target.take_vault(identity)?;
        Ok(target)
    }

    /// A ledger here that cannot be read has rotted, and is replaced.
    fn refuse_others_backup(&self, identity: Identity) -> Result<(), BackupError> {
        match ledger::identity_in(&self.ledger()) {
            Ok(Some(other)) if other != identity => {
                let target = self.dir.clone();
                Err(BackupError::OfAnother { target })
            }
            _ => Ok(()),
        }
    }

    /// Marks the vault, which may be a link to one that a server uses.
    fn take_vault(&mut self, identity: Identity) -> Result<(), BackupError> {
        let vault = self.vault();
        let io = |error| BackupError::io(&vault)(error);
        filesystem::make_directories_durably(&vault).map_err(io)?;
        self.locks.push(lock_vault(&vault)?);
        if identity.misses(&vault).map_err(io)?.is_some() {
            identity.mark_durably(&vault).map_err(io)?;
        }
        Ok(())
    }

    /// The ledger of the backup.
    pub(super) fn ledger(&self) -> PathBuf {
        self.dir.join(LEDGER)
    }

    /// The ledger that takes its place.
    pub(super) fn new_ledger(&self) -> PathBuf {
        self.dir.join(NEW_LEDGER)
    }

    pub(super) fn vault(&self) -> PathBuf {
        self.dir.join("vault")
    }

    /// The file of a media, made now if it does not exist.
    pub(super) fn media(&self, id: MediaId) -> Result<(PathBuf, File), BackupError> {
        let path = scan::path(&self.vault(), id);
        let inner = path.parent().expect("a media lies two directories deep");
        let outer = inner.parent().expect("a media lies two directories deep");
        let file = filesystem::make_directory(outer)
            .and_then(|()| filesystem::make_directory(inner))
            .and_then(|()| filesystem::open_or_create(&path));
        Ok((path.clone(), file.map_err(BackupError::io(&path))?))
    }

    /// Puts the new ledger in the place of the old one. All names of media are durable before it, the
    /// ledger's is after it. The new ledger has no sidecars, and what is left of the old one's are not
    /// its.
    pub(super) fn complete(&self) -> Result<(), BackupError> {
        let io = |error| BackupError::io(&self.dir)(error);
        scan::sync_names(&self.vault()).map_err(io)?;
        for suffix in ["-wal", "-shm", "-journal"] {
            filesystem::remove(&filesystem::beside(&self.ledger(), suffix)).map_err(io)?;
        }
        filesystem::rename(&self.new_ledger(), &self.ledger()).map_err(io)?;
        filesystem::sync_directory(&self.dir).map_err(io)
    }

    /// Says that the backup is complete.
    pub(super) fn close(&self) -> Result<(), BackupError> {
        self.mark(COMPLETE_BACKUP)?;
        let removed = filesystem::remove(&self.dir.join(INCOMPLETE_BACKUP));
        let durably = removed.and_then(|()| filesystem::sync_directory(&self.dir));
        durably.map_err(BackupError::io(&self.dir))
    }

    fn mark(&self, name: &str) -> Result<(), BackupError> {
        let path = self.dir.join(name);
        let marked = filesystem::open_or_create(&path)
            .and_then(|file| file.sync_all())
            .and_then(|()| filesystem::sync_directory(&self.dir));
        marked.map_err(BackupError::io(&path))
    }
}

/// Whether a directory, which need not exist, is the store's or will be in it, or in its vault.
fn is_inside(store: &Path, dir: &Path) -> io::Result<bool> {
    let dir = std::path::absolute(dir)?;
    let mut above = dir.ancestors();
    let nearest = above.find(|above| above.exists()).unwrap_or(&dir);
    let nearest = filesystem::canonical(nearest)?;
    let is_below = |place: &Path| filesystem::canonical(place).map(|it| nearest.starts_with(it));
    // The vault may be a link to another disk.
    let vault = store.join("vault");
    Ok(is_below(store)? || filesystem::exists(&vault)? && is_below(&vault)?)
}

/// Refuses a directory that is not for backups.
fn refuse_others(dir: &Path) -> Result<(), BackupError> {
    if is_for_backups(dir).map_err(BackupError::io(dir))? {
        return Ok(());
    }
    let target = dir.to_owned();
    Err(BackupError::NotABackup { target })
}

/// Whether a directory is empty or a backup. A lock file alone is what is left of a backup that was
/// interrupted before its mark.
fn is_for_backups(dir: &Path) -> io::Result<bool> {
    let names = filesystem::names(dir)?;
    let is_marked = names
        .iter()
        .any(|name| name == COMPLETE_BACKUP || name == INCOMPLETE_BACKUP);
    Ok(is_marked || names.iter().all(|name| name == "lock"))
}
