//! Disk space that is set aside for media before it is written.
//!
//! An upload with a stated length, and a copy that the vault makes, set their bytes aside before
//! the first byte is written. Otherwise many uploads that begin at the same time would all be
//! admitted by the same free space, fill the disk together, and all fail.
//!
//! A length is only a claim. It is therefore set aside only while a request brings the bytes, and
//! for the seconds in which the next chunk is expected. The claims of one caller count against
//! other callers up to a [part](SHARE) of the room, and all claims together up to a [larger
//! part](SHARE_OF_OTHERS). Neither one caller nor many callers can keep other callers out by claims
//! alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CountedWrite, DiskSpace, Disks, Written};
use crate::error::Error;
use crate::shares::Caller;

/// The part of the room, as a divisor, up to which the claims of one caller count against others.
const SHARE: u64 = 4;

/// The part of the room, as a divisor, up to which the claims of all other callers count together.
const SHARE_OF_OTHERS: u64 = 2;

/// The free space that must remain in addition to the space that is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The soft limit: for media of an upload that begins, and for copies.
    Soft,
    /// The hard limit: for media of an upload that has begun.
    Hard,
}

/// The bytes that are set aside for each caller.
#[derive(Debug, Default)]
pub(super) struct SetAside(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    total: u128,
    /// Never 0.
    callers: HashMap<Caller, u128>,
}

impl SetAside {
    /// Returns the bytes that are set aside.
    pub(super) fn total(&self) -> u64 {
        u64::try_from(self.lock().total).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the bytes of the room that this caller has to leave free: all that it has set aside
    /// itself, and a part of what other callers have set aside.
    fn bytes_to_leave(&self, caller: &Caller, room: u64) -> u128 {
        let share = u128::from(room / SHARE);
        if self.total <= share {
            return self.total;
        }
        let own = self.callers.get(caller).copied().unwrap_or(0);
        let others = self.callers.iter().filter(|(who, _)| *who != caller);
        let others: u128 = others.map(|(_, bytes)| (*bytes).min(share)).sum();
        own + others.min(u128::from(room / SHARE_OF_OTHERS))
    }

    /// Replaces a claim of a caller by another one.
    fn change(&mut self, caller: &Caller, from: u64, to: u64) {
        if from == to {
            return;
        }
        let (from, to) = (u128::from(from), u128::from(to));
        self.total = self.total - from + to;
        let after = self.callers.get(caller).copied().unwrap_or(0) - from + to;
        if after == 0 {
            self.callers.remove(caller);
        } else {
            self.callers.insert(caller.clone(), after);
        }
    }
}

/// The space for the media of one upload or copy. Dropping it frees the bytes that are set aside
/// and not written.
#[derive(Debug)]
pub struct MediaSpace {
    disks: Arc<Disks>,
    caller: Caller,
    /// Bytes that are set aside and not written yet. Changed only while the table is locked.
    left: AtomicU64,
}

impl MediaSpace {
    /// Returns a space of 0 bytes.
    pub(super) fn new(disks: Arc<Disks>, caller: Option<Caller>) -> Self {
        Self {
            disks,
            caller: caller.unwrap_or(Caller::Unknown),
            left: AtomicU64::new(0),
        }
    }

    /// Sets this number of bytes aside, and replaces the number that was set aside before.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if less than `leaving` would remain. The former number then stays set
    /// aside.
    pub fn set_aside(&self, bytes: u64, leaving: Leaving) -> Result<(), Error> {
        let room = self.disks.media_room(leaving);
        let mut table = self.disks.set_aside.lock();
        let before = self.left();
        let claimed = table.bytes_to_leave(&self.caller, room);
        // The bytes set aside before are part of the caller's bytes, which count in full. A claim
        // of 0 bytes always fits: media that needs no room in the vault is not refused because of
        // other callers' claims.
        if bytes > 0 && claimed + u128::from(bytes) > u128::from(room) + u128::from(before) {
            return Err(Error::NoSpace);
        }
        table.change(&self.caller, before, bytes);
        // Relaxed: the lock of the table orders all changes.
        self.left.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether there are bytes that are set aside and not written yet.
    pub fn holds_bytes(&self) -> bool {
        self.left() > 0
    }

    /// Admits a write to the vault and counts it. Bytes that were not set aside must not use space
    /// that is set aside for other uploads.
    ///
    /// # Errors
    /// [`Error::NoSpace`] below the hard limit, or if the write would use space that is set aside for
    /// other uploads.
    pub fn admit_write(&self, bytes: usize) -> Result<CountedWrite, Error> {
        let bytes = bytes as u64;
        // A checkpoint may have nothing left to write: it must succeed on a full disk, too.
        if bytes > 0 {
            let is_full = self.disks.space() == DiskSpace::Full;
            if is_full || (bytes > self.left() && !self.has_room()) {
                return Err(Error::NoSpace);
            }
        }
        Ok(self.count_write(bytes))
    }

    /// Counts a write that cannot be refused. The caller drops the result when the write has
    /// ended.
    pub fn count_write(&self, bytes: u64) -> CountedWrite {
        // Counted before the bytes are no longer set aside: others see too little space in between,
        // never too much.
        let counted = CountedWrite::new(Arc::clone(&self.disks), Written::Vault, bytes);
        if bytes == 0 || !self.holds_bytes() {
            return counted;
        }
        let mut table = self.disks.set_aside.lock();
        let before = self.left();
        let after = before.saturating_sub(bytes);
        table.change(&self.caller, before, after);
        self.left.store(after, Ordering::Relaxed);
        counted
    }

    /// Whether the hard limit remains in addition to the space that is set aside.
    fn has_room(&self) -> bool {
        let room = self.disks.media_room(Leaving::Hard);
        let table = self.disks.set_aside.lock();
        table.bytes_to_leave(&self.caller, room) <= u128::from(room)
    }

    fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}

impl Drop for MediaSpace {
    fn drop(&mut self) {
        let left = *self.left.get_mut();
        if left > 0 {
            let mut table = self.disks.set_aside.lock();
            table.change(&self.caller, left, 0);
        }
    }
}

impl Disks {
    /// Returns the bytes of media that could be written before a limit is reached.
    fn media_room(&self, leaving: Leaving) -> u64 {
        let limit = match leaving {
            Leaving::Soft => self.limits.soft,
            Leaving::Hard => self.limits.hard,
        };
        let vault = self.vault.available();
        let available = if self.is_shared.load(Ordering::Relaxed) {
            vault.min(self.ledger.available())
        } else {
            vault
        };
        available.saturating_sub(limit)
    }
}

#[cfg(test)]
mod tests;
