//! The epochs that are in force and not yet in the database.
//!
//! A lease need not survive a crash, so it costs no commit: its epoch waits here until the session's
//! next change carries it into the row. It waits outside of the database's transactions, because a
//! transaction that is rolled back (the disk is full) would take it back, and the next lease would
//! get the same epoch once more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use windlass_store::{Epoch, SessionId};

/// The epochs in force. Raised and settled by the writer only, so that they change in the order of
/// its work; readers look.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<HashMap<SessionId, Epoch>>);

impl Leases {
    /// The newest epoch of a session whose row says `row`.
    pub(super) fn newest(&self, id: SessionId, row: Epoch) -> Epoch {
        self.waiting(id).map_or(row, |epoch| epoch.max(row))
    }

    /// The epoch that waits for a session. Looked at before the row is read: a lease that is
    /// settled in between is then in the row.
    pub(super) fn waiting(&self, id: SessionId) -> Option<Epoch> {
        self.map().get(&id).copied()
    }

    /// Grants a new lease of a session whose row says `row`.
    pub(super) fn raise(&self, id: SessionId, row: Epoch) -> Epoch {
        let next = Epoch(self.newest(id, row).0 + 1);
        self.map().insert(id, next);
        next
    }

    /// The row of a session has `epoch` now, durably.
    pub(super) fn settle(&self, id: SessionId, epoch: Epoch) {
        let mut map = self.map();
        if map.get(&id) == Some(&epoch) {
            map.remove(&id);
        }
    }

    /// The session is gone, durably.
    pub(super) fn forget(&self, id: SessionId) {
        self.map().remove(&id);
    }

    /// All that wait, when they have become more than `limit`: sessions that were leased and then
    /// never moved.
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
