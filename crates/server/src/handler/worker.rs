//! What a handler does beside requests.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_store::{ChangeSet, ResourceChange, Timestamp};

use super::{Rejection, StoreHandles, StoreReader};
use crate::clock::Clock;

/// What goes on beside requests, such as handing messages to a relay.
///
/// It works on what is in the ledger: a handler's change set leaves a resource that says what is to be
/// done, and the worker takes it away when it is done. So nothing is forgotten by a crash, and what
/// was under way when it came may be done twice.
#[async_trait]
pub trait Worker: Send + Sync {
    /// Works as long as the server runs.
    ///
    /// # Cancel safety
    /// Is dropped at any `await` when the server stops.
    async fn run(&self, context: WorkerContext);
}

/// Where a [`Worker`] works.
#[derive(Clone)]
pub struct WorkerContext {
    store_handles: StoreHandles,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for WorkerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WorkerContext")
    }
}

impl WorkerContext {
    pub(crate) fn new(store_handles: StoreHandles, clock: Arc<dyn Clock>) -> Self {
        Self {
            store_handles,
            clock,
        }
    }

    /// A look at the stores.
    pub fn lookup(&self) -> StoreReader<'_> {
        StoreReader::new(&self.store_handles)
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Makes changes, all or none.
    ///
    /// # Errors
    /// [`Rejection::Ledger`], with a conflict when somebody else has changed the same meanwhile.
    pub async fn apply(&self, resources: Vec<ResourceChange>) -> Result<(), Rejection> {
        let changes = ChangeSet {
            resources,
            ..ChangeSet::default()
        };
        Ok(self.store_handles.ledger.apply(changes).await?)
    }
}
