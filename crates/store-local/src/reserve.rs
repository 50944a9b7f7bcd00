//! Room that is kept for the ledger.
//!
//! On a disk without any room the ledger could not commit a cancel or a delete either, which would make room, and
//! the next start could not open it. So a file holds some of the disk, and is made shorter when a change finds no
//! room, step by step: what is given back at once, others could take at once. Each purpose leaves a part for those
//! that matter more ([`Purpose`]). The file gets its length again when there is plenty of room.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use windlass_store::Space;

use crate::filesystem;

/// The most that is kept: some thousand cancels.
const MOST: u64 = 8 << 20;

/// A small disk gives one part in so many.
const SHARE: u64 = 64;

/// The number of steps in which it is given back.
const STEPS: u64 = 8;

/// Steps that are left for opening the database, which needs an index of its log.
const FOR_OPENING: u64 = STEPS / 4;

/// What the steps are multiples of.
const BLOCK_LEN: u64 = 4096;

/// What the reserve is given back for. The later one may use more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// To bring uploads to their end, which may take more room than it frees. Half of the reserve.
    Finish,
    /// To make room, or to end sessions. Three quarters of it; the rest is for the next opening.
    MakeRoom,
}

impl Purpose {
    /// How many steps it leaves.
    fn leaves(self) -> u64 {
        match self {
            Self::Finish => STEPS / 2,
            Self::MakeRoom => FOR_OPENING,
        }
    }
}

/// A file that takes up room until the ledger needs it.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// How much one step is.
    step: u64,
    room: Mutex<Room>,
}

/// What a reserve has of the disk.
#[derive(Debug)]
struct Room {
    /// None when there was not even room for an empty file.
    file: Option<File>,
    /// How much of the disk the file holds.
    held: u64,
}

impl Reserve {
    /// Opens the file, and takes the room if there is plenty. Where there is no room for the file itself, it is made
    /// when there is.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let space = space(path)?;
        let reserve = Self::open_within(path, space, filesystem::open_or_create(path))?;
        reserve.take(space.available);
        Ok(reserve)
    }

    /// Opens the file if there is one.
    pub(crate) fn open_existing(path: &Path) -> io::Result<Option<Self>> {
        match filesystem::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => Self::open_within(path, space(path)?, file).map(Some),
        }
    }

    fn open_within(path: &Path, space: Space, file: io::Result<File>) -> io::Result<Self> {
        let room = match file {
            Ok(file) => Room::of(file)?,
            Err(error) if filesystem::is_out_of_space(&error) => Room::NONE,
            Err(error) => return Err(error),
        };
        let step = MOST.min(space.total / SHARE) / STEPS;
        Ok(Self {
            path: path.to_owned(),
            step: step - step % BLOCK_LEN,
            room: Mutex::new(room),
        })
    }

    /// Takes all of the room when the disk has plenty. A file system that cannot set room aside goes without.
    pub(crate) fn take(&self, available: u64) {
        let mut room = match self.room.try_lock() {
            Ok(room) => room,
            // Another thread is at it, perhaps on a disk that stands still.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let has_plenty = self.step > 0 && available / 2 >= self.len();
        if has_plenty
            && room.held < self.len()
            && let Err(error) = room.grow(&self.path, self.len())
        {
            tracing::debug!(%error, "no room is kept for the ledger");
        }
    }

    /// Gives one step back. Returns whether there was any for this purpose.
    pub(crate) fn give_back(&self, purpose: Purpose) -> bool {
        let mut room = self.room();
        let least = purpose.leaves() * self.step;
        let left = room.held.saturating_sub(self.step).max(least);
        let was_shortened = room.shorten(left);
        if was_shortened {
            tracing::warn!(
                left,
                "the disk is full; the ledger goes on with its reserve"
            );
        }
        was_shortened
    }

    /// Gives back, when the disk has next to nothing else, what the opening of the database may need. What that has
    /// not used goes back to the reserve when the loan is dropped.
    pub(crate) fn lend(&self) -> io::Result<Loan<'_>> {
        let available = space(&self.path)?.available;
        let mut room = self.room();
        let before = room.held;
        let need = FOR_OPENING * self.step;
        if available < need {
            room.shorten(before.saturating_sub(need));
        }
        Ok(Loan {
            reserve: self,
            before,
        })
    }

    fn len(&self) -> u64 {
        STEPS * self.step
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room of the reserve that the opening of the database may use.
#[derive(Debug)]
#[must_use]
pub(crate) struct Loan<'a> {
    reserve: &'a Reserve,
    /// How much the reserve held before.
    before: u64,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut room = self.reserve.room();
        let mut piece = self.before.saturating_sub(room.held);
        while piece >= BLOCK_LEN && room.held < self.before {
            let len = (room.held + piece).min(self.before);
            if room.grow(&self.reserve.path, len).is_err() {
                piece /= 2;
            }
        }
    }
}

impl Room {
    const NONE: Self = Self {
        file: None,
        held: 0,
    };

    /// What an earlier process has left. A file that takes less room than it is long holds none, such as a copy.
    fn of(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let is_whole = filesystem::room_of(&file)? >= len;
        if !is_whole {
            file.set_len(0)?;
        }
        Ok(Self {
            held: if is_whole { len } else { 0 },
            file: Some(file),
        })
    }

    /// Takes as much as is missing to `len`, or nothing.
    fn grow(&mut self, path: &Path, len: u64) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(filesystem::open_or_create(path)?),
        };
        match filesystem::allocate(file, len) {
            Ok(()) => self.held = len,
            Err(error) => {
                file.set_len(self.held).ok();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives back what is behind `len`. Returns whether there was any.
    fn shorten(&mut self, len: u64) -> bool {
        let file = self.file.as_ref().filter(|_| len < self.held);
        let was_shortened = file.is_some_and(|file| file.set_len(len).is_ok());
        if was_shortened {
            self.held = len;
        }
        was_shortened
    }
}

/// The reserve of the store in `dir`.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("reserve")
}

/// The room on the disk of a file in the data directory.
fn space(path: &Path) -> io::Result<Space> {
    filesystem::space(path.parent().expect("it is in the data directory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Space = Space {
        available: 0,
        total: u64::MAX,
        disk: 0,
    };

    fn taken(path: &Path) -> u64 {
        filesystem::room_of(&File::open(path).unwrap()).unwrap()
    }

    /// A reserve that holds all of its room.
    fn held_in(path: &Path) -> Reserve {
        let file = filesystem::open_or_create(path);
        let reserve = Reserve::open_within(path, FULL, file).unwrap();
        reserve.take(u64::MAX);
        assert_eq!(reserve.room().held, reserve.len());
        assert!(taken(path) >= reserve.len());
        reserve
    }

    fn steps_for(reserve: &Reserve, purpose: Purpose) -> usize {
        std::iter::from_fn(|| reserve.give_back(purpose).then_some(())).count()
    }

    #[test]
    fn each_purpose_leaves_a_part_for_those_that_matter_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        assert_eq!(steps_for(&reserve, Purpose::Finish), 4);
        assert_eq!(steps_for(&reserve, Purpose::Finish), 0);
        assert_eq!(steps_for(&reserve, Purpose::MakeRoom), 2);
        let left = 2 * reserve.step;
        assert_eq!(path.metadata().unwrap().len(), left);
        drop(reserve);

        let file = filesystem::open_or_create(&path);
        let reserve = Reserve::open_within(&path, FULL, file).unwrap();
        assert_eq!(reserve.room().held, left, "it outlives the process");
        assert_eq!(steps_for(&reserve, Purpose::MakeRoom), 0);
    }

    #[test]
    fn room_is_taken_from_plenty_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        reserve.room().shorten(0);
        reserve.take(2 * reserve.len() - 2);
        assert_eq!(taken(&path), 0, "this is not plenty");
        reserve.take(2 * reserve.len());
        assert!(taken(&path) >= reserve.len());
    }

    #[test]
    fn what_an_opening_does_not_use_goes_back_to_the_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        drop(reserve.lend().unwrap());
        assert_eq!(reserve.room().held, reserve.len(), "this disk has room");

        let before = reserve.room().held;
        let used = 3 * BLOCK_LEN;
        reserve.room().shorten(before - 2 * reserve.step);
        drop(Loan {
            reserve: &reserve,
            before: before - used,
        });
        assert_eq!(reserve.room().held, before - used);
    }

    #[test]
    fn a_file_of_the_right_length_without_room_is_no_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        let len = reserve.len();
        // As a copy of the directory has it.
        std::fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(len).unwrap();
        let file = filesystem::open_or_create(&path);
        let reserve = Reserve::open_within(&path, FULL, file).unwrap();
        assert_eq!(reserve.room().held, 0);
        assert_eq!(path.metadata().unwrap().len(), 0);
    }

    #[test]
    fn on_a_disk_without_room_for_the_file_it_is_made_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let no_room = || Err(rustix::io::Errno::NOSPC.into());
        let reserve = Reserve::open_within(&path, FULL, no_room()).unwrap();
        assert!(!reserve.give_back(Purpose::MakeRoom));
        reserve.take(0);
        assert!(!path.exists());
        reserve.take(2 * reserve.len());
        assert!(path.exists());

        let forbidden = Err(rustix::io::Errno::ACCESS.into());
        Reserve::open_within(&path, FULL, forbidden).unwrap_err();
        assert!(
            Reserve::open_existing(&dir.path().join("none"))
                .unwrap()
                .is_none()
        );
    }
}
