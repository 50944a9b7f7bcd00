//! The epochs of leases that no row has yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use windlass_store::{Epoch, SessionId};

/// The unwritten epochs: they are in force and not yet in the database.
///
/// All holders of leases run in this process and end with it. So a lease need not survive a crash,
/// and taking it costs no commit: its epoch is kept in memory until the next change of the session
/// writes it into the row. The epoch is not written in a transaction that stays open until that
/// change: a rollback, such as on a full disk, would undo it, and the next lease would get the same
/// epoch again.
///
/// Only the writer thread raises and removes epochs. Readers look them up.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<HashMap<SessionId, Epoch>>);

impl Leases {
    /// Returns the newest epoch of a session whose row has `row_epoch`.
    pub(super) fn newest(&self, id: SessionId, row_epoch: Epoch) -> Epoch {
        self.unwritten(id)
            .map_or(row_epoch, |epoch| epoch.max(row_epoch))
    }

    /// Returns the unwritten epoch of a session. A reader must call this before it reads the row:
    /// an epoch that is written in between is then found in the row.
    pub(super) fn unwritten(&self, id: SessionId) -> Option<Epoch> {
        self.map().get(&id).copied()
    }

    /// Raises the epoch of a session whose row has `row_epoch`, and returns it.
    pub(super) fn raise(&self, id: SessionId, row_epoch: Epoch) -> Epoch {
        // The map is locked twice, which is no race: only the writer thread changes it.
        let next = Epoch(self.newest(id, row_epoch).0 + 1);
        self.map().insert(id, next);
        next
    }

    /// Removes the unwritten epoch of a session if it is `epoch`. Called after the commit that has
    /// written `epoch` into the row.
    pub(super) fn remove_written(&self, id: SessionId, epoch: Epoch) {
        let mut map = self.map();
        // If a newer lease was taken after the change had been queued, its epoch is still
        // unwritten.
        if map.get(&id) == Some(&epoch) {
            map.remove(&id);
        }
    }

    /// Removes the unwritten epoch of a session. Called after the commit that has deleted the row.
    pub(super) fn remove(&self, id: SessionId) {
        self.map().remove(&id);
    }

    /// Returns all unwritten epochs if there are more than `limit`, and none otherwise. Sessions
    /// that are leased and then not changed make their number grow.
    pub(super) fn overflow(&self, limit: usize) -> Vec<(SessionId, Epoch)> {
        let map = self.map();
        if map.len() <= limit {
            return Vec::new();
        }
        map.iter().map(|(id, epoch)| (*id, *epoch)).collect()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, Epoch>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}
