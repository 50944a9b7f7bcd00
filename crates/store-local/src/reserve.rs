//! Room that is kept for the ledger.
//!
//! When others fill the disk to its last byte, the ledger cannot commit a cancel or a delete either,
//! which would make room. So a file holds some of the disk, and gives it back when a commit finds no
//! room. It is taken again when there is plenty.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
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
    path: PathBuf,
    len: u64,
    room: Mutex<Room>,
}

/// What a reserve has of the disk.
#[derive(Debug)]
struct Room {
    /// None when there was not even room for an empty file.
    file: Option<File>,
    is_held: bool,
}

impl Reserve {
    /// Opens the file, and takes the room if there is plenty. When there is next to none, what an
    /// earlier process took is given back: opening the ledger may need it. Where there is no room for the
    /// file itself, it is made when there is.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let space = filesystem::space(path.parent().expect("the data directory"))?;
        Self::open_within(path, space, filesystem::open_or_create(path))
    }

    fn open_within(path: &Path, space: Space, file: io::Result<File>) -> io::Result<Self> {
        let len = MOST.min(space.total / SHARE);
        let room = match file {
            Ok(file) => Room::of(file, len)?,
            Err(error) if filesystem::is_out_of_space(&error) => Room::NONE,
            Err(error) => return Err(error),
        };
        let reserve = Self {
            path: path.to_owned(),
            len,
            room: Mutex::new(room),
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
        let mut room = match self.room.try_lock() {
            Ok(room) => room,
            // Somebody is at it, perhaps on a disk that stands still.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let has_plenty = self.len > 0 && available / 2 >= self.len;
        if has_plenty
            && !room.is_held
            && let Err(error) = room.take(&self.path, self.len)
        {
            tracing::debug!(%error, "no room is kept for the ledger");
        }
    }

    /// Gives the room back. Returns whether there was any.
    pub(crate) fn give_back(&self) -> bool {
        let mut room = match self.room.lock() {
            Ok(room) => room,
            Err(poisoned) => poisoned.into_inner(),
        };
        let had_any = room.give_back();
        if had_any {
            tracing::warn!(
                bytes = self.len,
                "the disk is full; the ledger goes on with its reserve"
            );
        }
        had_any
    }
}

impl Room {
    const NONE: Self = Self {
        file: None,
        is_held: false,
    };

    /// What an earlier process has left. A part of the room is none.
    fn of(file: File, len: u64) -> io::Result<Self> {
        let is_held = filesystem::room_of(&file)? >= len;
        if !is_held && file.metadata()?.len() > 0 {
            file.set_len(0).ok();
        }
        Ok(Self {
            file: Some(file),
            is_held,
        })
    }

    /// Takes all of it, or none.
    fn take(&mut self, path: &Path, len: u64) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(filesystem::open_or_create(path)?),
        };
        let taken = filesystem::allocate(file, len);
        if taken.is_err() {
            file.set_len(0).ok();
        }
        self.is_held = taken.is_ok();
        taken
    }

    /// Returns whether there was any.
    fn give_back(&mut self) -> bool {
        let file = self.file.as_ref().filter(|_| self.is_held);
        let had_any = file.is_some_and(|file| file.set_len(0).is_ok());
        self.is_held &= !had_any;
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
    fn on_a_disk_without_room_for_the_file_it_is_made_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let full = Space {
            available: 0,
            total: u64::MAX,
        };
        let no_room = || Err(rustix::io::Errno::NOSPC.into());
        let reserve = Reserve::open_within(&path, full, no_room()).unwrap();
        assert!(!reserve.give_back());
        reserve.take(0);
        assert!(!path.exists());
        reserve.take(2 * reserve.len);
        assert!(taken(&path) >= reserve.len);
        assert!(reserve.give_back());

        let forbidden = Err(rustix::io::Errno::ACCESS.into());
        Reserve::open_within(&path, full, forbidden).unwrap_err();
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
        let reserve = Reserve::open_within(&path, full, Ok(file)).unwrap();
        assert_eq!(taken(&path), 0);
        assert!(!reserve.give_back());
    }
}
