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
use std::sync::Mutex;

use crate::filesystem;

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
            path: path(dir),
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
pub(crate) fn take(dir: &Path) -> io::Result<File> {
    filesystem::lock_shared(&path(dir))
}

/// Keeps backups of the store in `dir` out, until the file is closed; `None` when one is running.
pub(crate) fn exclude_backups(dir: &Path) -> io::Result<Option<File>> {
    filesystem::lock(&path(dir))
}

fn path(dir: &Path) -> PathBuf {
    dir.join("hold")
}
