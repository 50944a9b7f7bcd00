//! Brings the WAL into the database beside the commits.
//!
//! With many small uploads a WAL is full several times a second, and its way into the database takes some
//! tens of milliseconds, most of them for the disk. A thread of its own goes that way, so that commits do
//! not wait. What they add meanwhile it copies as well, until little is left. The rest is the writer's,
//! between two commits: SQLite begins the WAL again only when all of it is in the database, and synced.

use std::fs::File;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rusqlite::Connection;
use windlass_store::Failpoint;

use super::wal::Wal;
use crate::fail_stop::FailStop;

/// So few pages are left to the writer: 2 MiB.
const FEW_PAGES: i64 = 512;

/// Most times that it goes over what was added. What is left then is the writer's, however much it is.
const ROUNDS: usize = 4;

/// The thread, as the writer sees it.
#[derive(Debug)]
pub(super) struct Checkpointer {
    orders: Option<mpsc::Sender<()>>,
    done: mpsc::Receiver<()>,
    is_busy: bool,
    fail_stop: FailStop,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has.
pub(super) struct CheckpointThread {
    /// To itself.
    pub(super) connection: Connection,
    pub(super) wal: Wal,
    /// The database, where it is to be synced. SQLite syncs it only after the last page of the WAL, which
    /// would leave all of that to the writer. Anyone who closes this lets go of all locks on the database that
    /// the process has, so it must not be the last to have it.
    pub(super) database: Option<Arc<File>>,
    pub(super) fail_stop: FailStop,
}

impl Checkpointer {
    /// Starts the thread.
    pub(super) fn start(copier: CheckpointThread) -> std::io::Result<Self> {
        let (orders, ordered) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        let fail_stop = copier.fail_stop.clone();
        let thread = std::thread::Builder::new()
            .name("checkpointer".to_owned())
            .spawn(move || {
                while let Ok(()) = ordered.recv() {
                    copier.run();
                    if tell.send(()).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Self {
            orders: Some(orders),
            done,
            is_busy: false,
            fail_stop,
            thread: Some(thread),
        })
    }

    /// Whether it was told to begin, and is not known to have come to its end.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Tells it to begin. It must not be busy.
    pub(super) fn begin(&mut self) {
        let orders = self.orders.as_ref().expect("it is there until the drop");
        self.is_busy = true;
        if orders.send(()).is_err() {
            self.stopped();
        }
    }

    /// Looks whether it has come to its end.
    pub(super) fn look(&mut self) {
        match self.done.try_recv() {
            Ok(()) => self.is_busy = false,
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => self.stopped(),
        }
    }

    /// Waits for its end, if it is busy.
    pub(super) fn wait(&mut self) {
        if self.is_busy {
            match self.done.recv() {
                Ok(()) => self.is_busy = false,
                Err(mpsc::RecvError) => self.stopped(),
            }
        }
    }

    /// The thread is gone: it panicked.
    fn stopped(&mut self) {
        self.is_busy = false;
        self.fail_stop.trip(CheckpointerStopped);
    }
}

/// Waits for what it is at, and closes its connection.
impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.stopped();
        }
    }
}

/// The checkpointer's thread ended before its time.
#[derive(Debug, thiserror::Error)]
#[error("the ledger's checkpointer has stopped")]
struct CheckpointerStopped;

impl CheckpointThread {
    fn run(&self) {
        match self.copy_most() {
            Ok(true) => self.sync(),
            Ok(false) => {}
            Err(error) => drop(self.fail_stop.trip(error)),
        }
    }

    /// Whether the database had the room to grow.
    fn copy_most(&self) -> rusqlite::Result<bool> {
        for _ in 0..ROUNDS {
            if !self.wal.checkpoint(&self.connection)? {
                return Ok(false);
            }
            if self.wal.waiting() < FEW_PAGES {
                break;
            }
        }
        Ok(true)
    }

    fn sync(&self) {
        match self
            .database
            .as_ref()
            .map_or(Ok(()), |file| file.sync_data())
        {
            Ok(()) => Failpoint::CheckpointCopied.reach(),
            Err(error) => drop(self.fail_stop.trip(error)),
        }
    }
}
