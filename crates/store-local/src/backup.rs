//! A copy of a store, made while a server uses it.
//!
//! ```text
//! 1  media that the ledger names now is copied: most of the bytes, at leisure
//! 2  a hold is taken: from here on no media is deleted
//! 3  the ledger is copied, as it is at one moment
//! 4  what the copy names and step 1 has not brought is copied; the hold is let go of
//! 5  every media is read back and compared with its row in the copy, and synced
//! 6  the copy of the ledger gets its name, and is durable
//! 7  media that it does not name is deleted from the backup
//! ```
//!
//! So a backup is the store of one moment, that of step 3: what was acknowledged before the backup
//! began is in it. Media below a committed offset never changes, so it does not matter when its bytes
//! are copied, and bytes behind the offset mean nothing. The hold lasts as long as
//! the ledger takes to be copied, and what was uploaded during step 1.
//!
//! A destination may hold a former backup of the same store. What it has of a media is not copied again, and it stays
//! whole until the new ledger takes the place of the old one (step 6). Until the end, also of a backup
//! that was interrupted, there is a file `backup.incomplete`; a destination without a ledger beside it
//! is no store, and no server takes it for one.
//!
//! Absent: a limit on the pace, and whatever brings a backup to another machine.

mod media;
mod target;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::Cause;

use crate::ledger::{self, LedgerSnapshot};
use crate::verify::Finding;
use crate::{OpenError, directory, filesystem};
use target::Target;

/// What a backup tells while it is made.
#[derive(Debug)]
pub enum BackupEvent {
    /// Something in the store is damaged. It is in the backup as far as it is there.
    Finding(Finding),
    /// It goes on.
    Progress(BackedUp),
}

/// What a backup holds, and what it took to make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackedUp {
    /// Sessions in it.
    pub sessions: u64,
    /// Resources in it.
    pub resources: u64,
    /// Names of media in its vault. Media that two resources share counts twice.
    pub media: u64,
    /// Bytes of those media.
    pub bytes: u64,
    /// Bytes of media that were copied; the others were there already.
    pub copied: u64,
    /// Media of a former backup that was deleted.
    pub deleted: u64,
    /// What was found damaged.
    pub damage: u64,
}

/// Why there is no backup, or the former one still.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The directory does not exist, or there is no ledger in it.
    #[error("there is no store in {}", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// The destination is in the store.
    #[error("{} is inside of the store", target.display())]
    Inside {
        /// The destination.
        target: PathBuf,
    },
    /// The destination holds something that is not to be written over.
    #[error("{} is neither empty nor a backup", target.display())]
    NotABackup {
        /// The destination.
        target: PathBuf,
    },
    /// The destination has a backup of another store.
    #[error("{} is a backup of another store", target.display())]
    OfAnother {
        /// The destination.
        target: PathBuf,
    },
    /// A ledger, the vault or the destination cannot be opened, or the destination is in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The ledger could not be read.
    #[error("the ledger fails")]
    Ledger(#[source] Cause),
    /// SQLite finds the copy of the ledger damaged, and so the ledger is.
    #[error("the ledger is damaged: {reason}")]
    LedgerDamaged {
        /// In SQLite's words.
        reason: String,
    },
    /// The store could not be held, or the backup not be written or synced.
    #[error("{} fails", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl BackupError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Ledger(Arc::new(error))
    }
}

/// Copies the store in `dir` to `target`, which is made if it does not exist. A server may use the
/// store meanwhile. When it returns, the backup is durable.
///
/// It blocks, for as long as it takes to copy what is new and to read all.
///
/// # Errors
/// When there is no store, its vault is not there, the destination is not for its backups, or anything fails. A former backup in
/// the destination is still whole then. Damaged media is no error: it is told, and counted.
pub fn backup(
    dir: &Path,
    target: &Path,
    tell: &mut dyn FnMut(BackupEvent),
) -> Result<BackedUp, BackupError> {
    if !filesystem::exists(&dir.join("ledger.sqlite")).map_err(BackupError::io(dir))? {
        directory::refuse_incomplete(dir)?;
        let dir = dir.to_owned();
        return Err(BackupError::NoStore { dir });
    }
    let live = LedgerSnapshot::open(&dir.join("ledger.sqlite"))?;
    let identity = live.identity()?;
    directory::check_identity(&dir.join("vault"), identity)?;
    let backup = Backup {
        target: Target::open(dir, target, identity)?,
        dir,
        counts: BackedUp::default(),
        tell,
    };
    backup.make(live)
}

/// A backup under way.
struct Backup<'a> {
    dir: &'a Path,
    target: Target,
    counts: BackedUp,
    tell: &'a mut dyn FnMut(BackupEvent),
}

impl Backup<'_> {
    fn make(mut self, live: LedgerSnapshot) -> Result<BackedUp, BackupError> {
        self.fetch_all(&live)?;
        drop(live);
        let deletion_lock =
            directory::lock_deletion(self.dir).map_err(BackupError::io(self.dir))?;
        let copy = self.copy_ledger()?;
        self.fetch_all(&copy)?;
        drop(deletion_lock);
        self.check_all(&copy)?;
        drop(copy);
        self.target.complete()?;
        self.delete_unnamed()?;
        self.target.close()?;
        Ok(self.counts)
    }

    /// A page that has rotted would be copied as it is.
    fn copy_ledger(&mut self) -> Result<LedgerSnapshot, BackupError> {
        let path = self.target.new_ledger();
        let source = self.dir.join("ledger.sqlite");
        ledger::copy(&source, &path, &mut || self.progress())?;
        let copy = LedgerSnapshot::open(&path)?;
        match copy.integrity(false)?.into_iter().next() {
            None => Ok(copy),
            Some(reason) => Err(BackupError::LedgerDamaged { reason }),
        }
    }

    fn report(&mut self, finding: Finding) {
        self.counts.damage += 1;
        (self.tell)(BackupEvent::Finding(finding));
    }

    fn progress(&mut self) {
        (self.tell)(BackupEvent::Progress(self.counts));
    }
}
