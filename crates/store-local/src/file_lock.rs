//! Locks between processes, on files.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::filesystem::open_or_create;

/// A locked file, which is unlocked when this is dropped.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Locks a file. Returns `None` if it is locked already.
    pub(crate) fn try_exclusive(path: &Path) -> io::Result<Option<Self>> {
        let file = open_or_create(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks a file together with others. Waits for an exclusive lock.
    pub(crate) fn shared(path: &Path) -> io::Result<Self> {
        let file = open_or_create(path)?;
        file.lock_shared()?;
        Ok(Self(file))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just being started has a copy of
        // the descriptor until it executes its program, and would keep the lock. The file is closed
        // in any case, so that an error changes nothing.
        self.0.unlock().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_lock_is_free_although_a_child_has_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        let lock = || FileLock::try_exclusive(&path).expect("it can be opened");
        let first = lock().expect("nobody has it");
        assert!(lock().is_none());
        let of_child = first.0.try_clone().expect("it can be copied");
        drop(first);
        assert!(lock().is_some());
        drop(of_child);
    }
}
