//! Records the work of a store, for metrics.

use std::fmt;
use std::time::Duration;

/// Receives the facts that a store measures about its work.
///
/// A store calls the functions for the facts that it knows. Each function does nothing by default.
/// The thread that does the work calls them, such as the thread that makes commits: they must not
/// block.
pub trait StoreRecorder: fmt::Debug + Send + Sync {
    /// A commit of the ledger has made changes durable. `took` includes the sync.
    fn committed(&self, took: Duration, changes: usize) {
        let _ = (took, changes);
    }

    /// A call begins to wait for the writer of the ledger.
    fn call_queued(&self) {}

    /// A call does not wait for the writer of the ledger any more.
    fn call_dequeued(&self) {}

    /// The write-ahead log of the ledger has this length in bytes.
    fn wal_measured(&self, bytes: u64) {
        let _ = bytes;
    }

    /// A sync of media in the vault has ended.
    fn media_synced(&self, took: Duration) {
        let _ = took;
    }
}

/// Records nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecorder;

impl StoreRecorder for NoRecorder {}
