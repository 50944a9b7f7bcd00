//! A few connections that only read.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use windlass_store::LedgerError;

use super::sync_verifier::SyncVerifier;
use super::unreadable::Unreadable;
use super::wal::is_busy;
use crate::fail_stop::FailStop;

/// They are not waited for longer when the ledger closes.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often it is looked whether they are over.
const GLANCE: Duration = Duration::from_millis(1);

/// Reads run on tokio's blocking threads, on one of these connections. Each sees the last commit,
/// and neither waits for the writer nor holds it up.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    sync_verifier: Arc<SyncVerifier>,
    fail_stop: FailStop,
    unreadable: Unreadable,
    /// How long reads are waited for that nobody waits for any more.
    pub(super) patience: Duration,
}

impl Readers {
    pub(super) fn new(
        connections: Vec<Connection>,
        sync_verifier: Arc<SyncVerifier>,
        fail_stop: FailStop,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self {
            idle: Arc::new(Mutex::new(connections)),
            permits,
            sync_verifier,
            fail_stop,
            unreadable: Unreadable::default(),
            patience: PATIENCE,
        }
    }

    /// Runs a query. A failure is a fault like any other: a database that cannot be read promises
    /// nothing. But a single row that makes no sense fails this query alone.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (idle, sync_verifier) = (Arc::clone(&self.idle), Arc::clone(&self.sync_verifier));
        let task = tokio::task::spawn_blocking(move || {
            let lock = || idle.lock().expect("nothing panics while it is held");
            let connection = lock().pop().expect("there are as many as permits");
            let result = query(&connection);
            let result = result.map(|found| sync_verifier.confirm_read().map(|()| found));
            lock().push(connection);
            drop(permit);
            result
        });
        match task.await {
            Ok(Ok(found)) => found.map_err(LedgerError::Fault),
            Ok(Err(error)) if is_busy(&error) => Err(LedgerError::Busy),
            Ok(Err(error)) if self.unreadable.note(&error) => Err(LedgerError::Unreadable),
            Ok(Err(error)) => Err(LedgerError::Fault(self.fail_stop.trip(error))),
            Err(panic) => Err(LedgerError::Fault(self.fail_stop.trip(panic))),
        }
    }
}

/// Waits for reads that nobody waits for any more, but not long: while one has its connection, the writer's
/// is not the last that closes, and leaves the WAL to the next start.
impl Drop for Readers {
    fn drop(&mut self) {
        let begun = Instant::now();
        while Arc::strong_count(&self.idle) > 1 && begun.elapsed() < self.patience {
            std::thread::sleep(GLANCE);
        }
    }
}
