//! The leases of the sessions on which requests of this process work, for a ledger that several
//! processes can have open.
//!
//! A ledger that only one process can open needs none of this, and nothing is kept for it here.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_store::{Lease, SessionId};

/// The leases of running requests.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    has_ended: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// The leases of requests that work on their sessions.
    held: HashMap<SessionId, Lease>,
    /// The leases of requests that have ended without a commit.
    ended: Vec<(SessionId, Lease)>,
}

/// The lease of one request, until dropped.
#[derive(Debug)]
pub(crate) struct HeldLease {
    id: SessionId,
    lease: Lease,
    /// Where the lease is kept. `None` if the ledger knows that the request works no longer on the
    /// session, or need not know it.
    kept: Option<Arc<Leases>>,
}

impl HeldLease {
    pub(crate) fn new(leases: Option<&Arc<Leases>>, id: SessionId, lease: Lease) -> Self {
        if let Some(leases) = leases {
            leases.table().held.insert(id, lease);
        }
        Self {
            id,
            lease,
            kept: leases.cloned(),
        }
    }

    /// Returns the lease.
    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }

    /// Records that the ledger knows that the request works no longer on the session.
    pub(crate) fn set_released(&mut self) {
        if let Some(leases) = self.kept.take() {
            leases.table().forget(self.id, self.lease);
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(leases) = self.kept.take() {
            let mut table = leases.table();
            table.forget(self.id, self.lease);
            table.ended.push((self.id, self.lease));
            drop(table);
            leases.has_ended.notify_one();
        }
    }
}

impl Table {
    fn forget(&mut self, id: SessionId, lease: Lease) {
        if self.held.get(&id) == Some(&lease) {
            self.held.remove(&id);
        }
    }
}

impl Leases {
    /// Returns the leases of running requests.
    pub(crate) fn held(&self) -> Vec<(SessionId, Lease)> {
        let table = self.table();
        table.held.iter().map(|(id, lease)| (*id, *lease)).collect()
    }

    /// Returns the lease of the request that works on a session.
    pub(crate) fn of(&self, id: SessionId) -> Option<Lease> {
        self.table().held.get(&id).copied()
    }

    /// Waits until requests have ended without a commit, and returns their leases.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub(crate) async fn ended(&self) -> Vec<(SessionId, Lease)> {
        self.has_ended.notified().await;
        mem::take(&mut self.table().ended)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{Epoch, LeaseId};

    use super::*;

    const ID: SessionId = SessionId::from_bytes([1; 32]);

    fn lease(n: u8) -> Lease {
        Lease {
            id: LeaseId::from_bytes([n; 16]),
            epoch: Epoch(n.into()),
        }
    }

    #[test]
    fn dropped_lease_is_to_be_released_unless_it_is() {
        let leases = Arc::new(Leases::default());
        let mut held = HeldLease::new(Some(&leases), ID, lease(1));
        assert_eq!(leases.held(), [(ID, lease(1))]);
        held.set_released();
        drop(held);
        assert!(leases.held().is_empty() && leases.table().ended.is_empty());
        drop(HeldLease::new(Some(&leases), ID, lease(2)));
        assert!(leases.held().is_empty());
        assert_eq!(leases.table().ended, [(ID, lease(2))]);
    }

    #[test]
    fn lease_of_a_newer_request_stays_held() {
        let leases = Arc::new(Leases::default());
        let older = HeldLease::new(Some(&leases), ID, lease(1));
        let newer = HeldLease::new(Some(&leases), ID, lease(2));
        drop(older);
        assert_eq!(leases.held(), [(ID, lease(2))]);
        drop(newer);
        assert!(leases.held().is_empty());
    }

    #[test]
    fn nothing_is_kept_for_a_ledger_of_one_process() {
        let mut held = HeldLease::new(None, ID, lease(1));
        held.set_released();
        assert_eq!(held.lease(), lease(1));
    }
}
