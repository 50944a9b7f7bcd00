//! Disk space that is reserved for the ledger.
//!
//! On a completely full disk the ledger could not commit a cancel or a delete, which would make
//! space, and could not be opened at the next start. So a file occupies some space, and is
//! shortened when a change finds none. It is shortened step by step, because other programs may
//! take released space at once. Each purpose leaves a part to more important ones ([`Purpose`]).
//! The file gets its length again when the disk has plenty of space.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use windlass_store::Space;

use crate::filesystem;

/// Maximum number of bytes reserved. They suffice for some thousand cancels.
const MAX_LEN: u64 = 8 << 20;

/// On a small disk the reserve takes this fraction of it.
const DISK_FRACTION: u64 = 64;

/// Number of steps in which the reserve is released.
const STEPS: u64 = 8;

/// Number of steps that are left for opening the database, which needs space for the index of its
/// WAL.
const FOR_OPENING: u64 = STEPS / 4;

/// Unit of the steps in bytes.
const BLOCK_LEN: u64 = 4096;

/// The purpose for which the reserve is released. The later purpose may use more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// To commit offsets of uploads and to finish them, which may take more space than it frees.
    /// May use half of the reserve.
    Uploads,
    /// To make space or to end sessions. May use three quarters. The rest is for the next opening.
    MakeSpace,
}

impl Purpose {
    /// Returns the number of steps that it must leave.
    fn leaves(self) -> u64 {
        match self {
            Self::Uploads => STEPS / 2,
            Self::MakeSpace => FOR_OPENING,
        }
    }
}

/// A file that occupies space until the ledger needs it.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// Length of a step in bytes.
    step: u64,
    occupied: Mutex<HeldSpace>,
}

/// The space that a reserve occupies.
#[derive(Debug)]
struct HeldSpace {
    /// `None` if there was not even space for an empty file.
    file: Option<File>,
    /// Number of bytes that the file occupies.
    held: u64,
}

impl Reserve {
    /// Opens or creates the file, and reserves the space if there is plenty. If there is no space
    /// for the file itself, it is created later.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let space = space(path)?;
        let reserve = Self::open_within(path, space, filesystem::open_or_create(path))?;
        reserve.refill(space.available);
        Ok(reserve)
    }

    /// Opens the file if it exists.
    pub(crate) fn open_existing(path: &Path) -> io::Result<Option<Self>> {
        match filesystem::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => Self::open_within(path, space(path)?, file).map(Some),
        }
    }

    fn open_within(path: &Path, space: Space, file: io::Result<File>) -> io::Result<Self> {
        let occupied = match file {
            Ok(file) => HeldSpace::of(file)?,
            Err(error) if filesystem::is_out_of_space(&error) => HeldSpace::NONE,
            Err(error) => return Err(error),
        };
        let step = MAX_LEN.min(space.total / DISK_FRACTION) / STEPS;
        Ok(Self {
            path: path.to_owned(),
            step: step - step % BLOCK_LEN,
            occupied: Mutex::new(occupied),
        })
    }

    /// Reserves all of the space if the disk has plenty. Does nothing on a file system that cannot
    /// reserve space.
    pub(crate) fn refill(&self, available: u64) {
        let mut occupied = match self.occupied.try_lock() {
            Ok(occupied) => occupied,
            // Another thread is reserving space, perhaps on a frozen disk. Waiting gains nothing.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let has_plenty = self.step > 0 && available / 2 >= self.len();
        if has_plenty
            && occupied.held < self.len()
            && let Err(error) = occupied.grow(&self.path, self.len())
        {
            tracing::debug!(%error, "cannot reserve space for the ledger");
        }
    }

    /// Shortens the file by one step. Returns whether one was left for this purpose.
    pub(crate) fn shorten(&self, purpose: Purpose) -> bool {
        let mut occupied = self.occupied();
        let least = purpose.leaves() * self.step;
        let left = occupied.held.saturating_sub(self.step).max(least);
        let was_shortened = occupied.shorten(left);
        if was_shortened {
            tracing::warn!(
                left,
                "the disk is full; the ledger continues with its reserve"
            );
        }
        was_shortened
    }

    /// Releases, if the disk has little other space, the space that opening the database may need.
    /// The unused part returns to the reserve when the loan is dropped.
    pub(crate) fn lend(&self) -> io::Result<Loan<'_>> {
        Ok(self.lend_on(space(&self.path)?.available))
    }

    /// As [`Reserve::lend`], on a disk with this much other space.
    fn lend_on(&self, available: u64) -> Loan<'_> {
        let mut occupied = self.occupied();
        let before = occupied.held;
        let need = FOR_OPENING * self.step;
        if available < need {
            occupied.shorten(before.saturating_sub(need));
        }
        Loan {
            reserve: self,
            before,
        }
    }

    fn len(&self) -> u64 {
        STEPS * self.step
    }

    fn occupied(&self) -> MutexGuard<'_, HeldSpace> {
        self.occupied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Space of the reserve that opening the database may use.
#[derive(Debug)]
#[must_use]
pub(crate) struct Loan<'a> {
    reserve: &'a Reserve,
    /// Number of bytes that the reserve occupied before.
    before: u64,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut occupied = self.reserve.occupied();
        // By halves: it is not known how much of the loan is still free.
        let mut piece = self.before.saturating_sub(occupied.held);
        while piece >= BLOCK_LEN && occupied.held < self.before {
            let len = (occupied.held + piece).min(self.before);
            if occupied.grow(&self.reserve.path, len).is_err() {
                piece /= 2;
            }
        }
    }
}

impl HeldSpace {
    const NONE: Self = Self {
        file: None,
        held: 0,
    };

    /// Returns the space that the file of an earlier process occupies. A sparse file, such as a
    /// copy may be, reserves nothing.
    fn of(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let is_whole = filesystem::allocated_len(&file)? >= len;
        if !is_whole {
            file.set_len(0)?;
        }
        Ok(Self {
            held: if is_whole { len } else { 0 },
            file: Some(file),
        })
    }

    /// Reserves the missing bytes up to `len`, or nothing.
    fn grow(&mut self, path: &Path, len: u64) -> io::Result<()> {
        self.grow_by(path, len, filesystem::allocate)
    }

    /// As [`HeldSpace::grow`], by this allocation.
    fn grow_by(
        &mut self,
        path: &Path,
        len: u64,
        allocate: impl FnOnce(&File, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(filesystem::open_or_create(path)?),
        };
        match allocate(file, len) {
            Ok(()) => self.held = len,
            Err(error) => {
                // A failed allocation may have taken a part of the space.
                file.set_len(self.held).ok();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Releases the bytes behind `len`. Returns whether there were any.
    fn shorten(&mut self, len: u64) -> bool {
        // Truncated, not removed: XFS releases the space of a truncated file at once.
        let file = self.file.as_ref().filter(|_| len < self.held);
        let was_shortened = file.is_some_and(|file| file.set_len(len).is_ok());
        if was_shortened {
            self.held = len;
        }
        was_shortened
    }
}

/// Returns the path of the reserve of the store in `dir`.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("reserve")
}

/// Returns the space on the disk of a file in the data directory.
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
        filesystem::allocated_len(&File::open(path).unwrap()).unwrap()
    }

    /// Returns a reserve that occupies all of its space.
    fn held_in(path: &Path) -> Reserve {
        let file = filesystem::open_or_create(path);
        let reserve = Reserve::open_within(path, FULL, file).unwrap();
        reserve.refill(u64::MAX);
        assert_eq!(reserve.occupied().held, reserve.len());
        assert!(taken(path) >= reserve.len());
        reserve
    }

    fn steps_for(reserve: &Reserve, purpose: Purpose) -> usize {
        std::iter::from_fn(|| reserve.shorten(purpose).then_some(())).count()
    }

    #[test]
    fn each_purpose_leaves_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        assert_eq!(steps_for(&reserve, Purpose::Uploads), 4);
        assert_eq!(steps_for(&reserve, Purpose::Uploads), 0);
        assert_eq!(steps_for(&reserve, Purpose::MakeSpace), 2);
        let left = 2 * reserve.step;
        assert_eq!(path.metadata().unwrap().len(), left);
        drop(reserve);

        let file = filesystem::open_or_create(&path);
        let reserve = Reserve::open_within(&path, FULL, file).unwrap();
        assert_eq!(reserve.occupied().held, left, "it outlives the process");
        assert_eq!(steps_for(&reserve, Purpose::MakeSpace), 0);
    }

    #[test]
    fn space_is_reserved_only_from_plenty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        reserve.occupied().shorten(0);
        reserve.refill(2 * reserve.len() - 2);
        assert_eq!(taken(&path), 0, "this is not plenty");
        reserve.refill(2 * reserve.len());
        assert!(taken(&path) >= reserve.len());
    }

    #[test]
    fn unused_part_of_a_loan_returns_to_the_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        drop(reserve.lend().unwrap());
        assert_eq!(
            reserve.occupied().held,
            reserve.len(),
            "this disk has space"
        );

        let before = reserve.occupied().held;
        let used = 3 * BLOCK_LEN;
        reserve.occupied().shorten(before - 2 * reserve.step);
        drop(Loan {
            reserve: &reserve,
            before: before - used,
        });
        assert_eq!(reserve.occupied().held, before - used);
    }

    #[test]
    fn opening_on_a_full_disk_borrows_from_the_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        let (all, need) = (reserve.len(), FOR_OPENING * reserve.step);
        let loan = reserve.lend_on(need - 1);
        assert_eq!(path.metadata().unwrap().len(), all - need);
        drop(loan);
        assert_eq!(reserve.occupied().held, all, "it was not used");
        let loan = reserve.lend_on(need);
        assert_eq!(path.metadata().unwrap().len(), all, "the disk has enough");
        drop(loan);
        // The part for the opening is lent even if it is smaller than needed.
        reserve.occupied().shorten(need / 2);
        drop(reserve.lend_on(0));
        assert_eq!(reserve.occupied().held, need / 2);
    }

    #[test]
    fn allocation_that_fails_keeps_nothing_of_what_it_got() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        let held = 2 * reserve.step;
        reserve.occupied().shorten(held);
        let partly = |file: &File, len: u64| {
            filesystem::allocate(file, len - reserve.step)?;
            Err(rustix::io::Errno::NOSPC.into())
        };
        let failed = reserve.occupied().grow_by(&path, reserve.len(), partly);
        assert!(filesystem::is_out_of_space(&failed.unwrap_err()));
        assert_eq!(reserve.occupied().held, held);
        assert_eq!(path.metadata().unwrap().len(), held);
        reserve.refill(u64::MAX);
        assert_eq!(
            reserve.occupied().held,
            reserve.len(),
            "later it may succeed"
        );
    }

    #[test]
    fn sparse_file_reserves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let reserve = held_in(&path);
        let len = reserve.len();
        // A copy of the directory may have it like this.
        std::fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(len).unwrap();
        let file = filesystem::open_or_create(&path);
        let reserve = Reserve::open_within(&path, FULL, file).unwrap();
        assert_eq!(reserve.occupied().held, 0);
        assert_eq!(path.metadata().unwrap().len(), 0);
    }

    #[test]
    fn file_is_created_later_on_a_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let no_space = || Err(rustix::io::Errno::NOSPC.into());
        let reserve = Reserve::open_within(&path, FULL, no_space()).unwrap();
        assert!(!reserve.shorten(Purpose::MakeSpace));
        reserve.refill(0);
        assert!(!path.exists());
        reserve.refill(2 * reserve.len());
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
