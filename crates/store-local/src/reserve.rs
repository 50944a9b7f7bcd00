//! Room that is kept for the ledger.
//!
//! When others fill the disk to its last byte, the ledger cannot commit a cancel or a delete either,
//! which would make room. So a file holds some of the disk, and gives it back when a commit finds no
//! room. It is taken again when there is plenty.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, TryLockError};

use windlass_store::Space;

use crate::filesystem;

/// The most that is kept: some thousand cancels.
const MOST: u64 = 8 << 20;

/// A small disk gives one part in so many.
const SHARE: u64 = 64;

/// A file that takes up room until the ledger needs it.
#[derive(Debug)]
pub(crate) struct Reserve {
    file: File,
    len: u64,
    is_held: Mutex<bool>,
}

impl Reserve {
    /// Opens the file, and takes the room if there is plenty. When there is next to none, what an
    /// earlier process took is given back: opening the ledger may need it.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let space = filesystem::space(path.parent().expect("the data directory"))?;
        Self::open_within(path, space)
    }

    fn open_within(path: &Path, space: Space) -> std::io::Result<Self> {
        let file = filesystem::open_or_create(path)?;
        let len = MOST.min(space.total / SHARE);
        let is_held = filesystem::room_of(&file)? >= len;
        if !is_held && file.metadata()?.len() > 0 {
            // Whatever part of it an earlier process took.
            file.set_len(0).ok();
        }
        let reserve = Self {
            is_held: Mutex::new(is_held),
            file,
            len,
        };
        if space.available < len {
            reserve.give_back();
        } else {
            reserve.take(space.available);
        }
        Ok(reserve)
    }

    /// Takes the room when the disk has plenty, and it is not taken yet. A file system that cannot
    /// set room aside goes without.
    pub(crate) fn take(&self, available: u64) {
        let mut is_held = match self.is_held.try_lock() {
            Ok(is_held) => is_held,
            // Somebody is at it, perhaps on a disk that stands still.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        if !*is_held && self.len > 0 && available / 2 >= self.len {
            match filesystem::allocate(&self.file, self.len) {
                Ok(()) => *is_held = true,
                Err(error) => {
                    tracing::debug!(%error, "no room is kept for the ledger");
                    // Whatever part of it was taken.
                    self.file.set_len(0).ok();
                }
            }
        }
    }

    /// Gives the room back. Returns whether there was any.
    pub(crate) fn give_back(&self) -> bool {
        let mut is_held = match self.is_held.lock() {
            Ok(is_held) => is_held,
            Err(poisoned) => poisoned.into_inner(),
        };
        let had_any = *is_held && self.file.set_len(0).is_ok();
        if had_any {
            *is_held = false;
            tracing::warn!(
                bytes = self.len,
                "the disk is full; the ledger goes on with its reserve"
            );
        }
        had_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(path: &Path) -> u64 {
        filesystem::room_of(&File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn room_is_taken_from_plenty_and_given_back_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = Reserve::open(&path).unwrap();
        assert!(taken(&path) >= reserve.len, "this disk has plenty");
        assert!(reserve.give_back());
        assert_eq!(taken(&path), 0);
        assert!(!reserve.give_back(), "there is nothing left");

        reserve.take(2 * reserve.len - 2);
        assert_eq!(taken(&path), 0, "this is not plenty");
        reserve.take(2 * reserve.len);
        assert!(taken(&path) >= reserve.len);
        drop(reserve);
        assert!(
            Reserve::open(&path).unwrap().give_back(),
            "it outlives the process"
        );
    }
    #[test]
    fn a_file_of_the_right_length_without_room_is_no_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let len = Reserve::open(&path).unwrap().len;
        // As a copy of the directory has it.
        std::fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(len).unwrap();
        let reserve = Reserve::open(&path).unwrap();
        assert!(taken(&path) >= len);
        assert!(reserve.give_back());
    }

    #[test]
    fn a_part_of_the_room_is_given_back_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        std::fs::write(&path, "taken ".repeat(4096)).unwrap();
        let file = filesystem::open_or_create(&path).unwrap();
        file.sync_all().unwrap();
        assert!(taken(&path) > 0);
        let full = Space {
            available: 0,
            total: u64::MAX,
        };
        let reserve = Reserve::open_within(&path, full).unwrap();
        assert_eq!(taken(&path), 0);
        assert!(!reserve.give_back());
    }
}
