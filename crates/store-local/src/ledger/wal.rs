//! How long the write-ahead log is, and how it is brought into the database.
//!
//! SQLite tells the length with each commit. To ask costs locks on the log's index, which with small
//! uploads was a twentieth of the server's time.
//!
//! Brings the WAL into the database beside the commits.
//!
//! With many small uploads a WAL is full several times a second, and its way into the database takes some
//! tens of milliseconds, most of them for the disk. A thread of its own goes that way, so that commits do
//! not wait. What they add meanwhile it copies as well, until little is left. The rest is the writer's,
//! between two commits: SQLite begins the WAL again only when all of it is in the database, and synced.

use std::fs::File;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use windlass_store::Failpoint;

use crate::sync_health::FailStop;

/// Pages that are enough for a checkpoint: 32 MiB. Fewer checkpoints write a page that changes often
/// fewer times into the database; a longer log makes the start after a crash slower.
const ENOUGH: u64 = 8192;

/// On a small disk, the part of it that is enough.
const SHARE: u64 = 4;

/// The size of a page.
pub(super) const PAGE_LEN: u64 = 4096;

/// A page in the log, with what stands before it.
const FRAME_LEN: u64 = 24 + PAGE_LEN;

/// The log, as its connections see it: one that writes, and any that checkpoints.
#[derive(Debug, Clone)]
pub(super) struct Wal {
    enough: i64,
    lengths: Arc<Lengths>,
}

#[derive(Debug, Default)]
struct Lengths {
    /// Pages in it, as of the last commit.
    pages: AtomicI64,
    /// How many of them the database has. More than there are when the log has started again.
    copied: AtomicI64,
}

impl Wal {
    /// Watches from now on what a connection commits, the only one that writes. `disk` is how many bytes its disk has
    /// in all. `len` is how long the log's file is, which a dead process has left: its pages count as waiting until the
    /// first commit tells how many there are.
    pub(super) fn watch(
        connection: &mut Connection,
        disk: u64,
        len: u64,
    ) -> rusqlite::Result<Self> {
        let enough = ENOUGH.min(disk / SHARE / PAGE_LEN);
        let wal = Self {
            enough: enough.cast_signed(),
            lengths: Arc::default(),
        };
        let pages = (len / FRAME_LEN).cast_signed();
        wal.lengths.pages.store(pages, Ordering::Relaxed);
        let lengths = Arc::clone(&wal.lengths);
        connection.wal_hook(Some(move |_: &mut _, pages| {
            lengths.pages.store(i64::from(pages), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(wal)
    }

    /// Pages that are not in the database. After the log has started again it may be less than there are,
    /// by no more than were copied before.
    pub(super) fn waiting(&self) -> i64 {
        let pages = self.lengths.pages.load(Ordering::Relaxed);
        if pages < self.lengths.copied.load(Ordering::Relaxed) {
            self.lengths.copied.store(0, Ordering::Relaxed);
        }
        pages - self.lengths.copied.load(Ordering::Relaxed)
    }

    /// Whether it calls for a checkpoint.
    pub(super) fn is_long(&self) -> bool {
        self.waiting() >= self.enough
    }

    /// Whether no more may be committed before it has been brought into the database. Pages that are there already count: the
    /// log becomes longer until all of them are.
    pub(super) fn is_too_long(&self) -> bool {
        self.lengths.pages.load(Ordering::Relaxed) >= 2 * self.enough
    }

    /// Brings the pages into the database, as far as readers let it. Commits go on meanwhile, and what
    /// they add is left for the next time. Whether the database had the room to grow; without it the log
    /// keeps the pages.
    pub(super) fn checkpoint(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
        // Negative when another process is at it.
        let copied: i64 = match statement.query_row([], |row| row.get(2)) {
            Err(error) if is_full(&error) || is_busy(&error) => return Ok(false),
            copied => copied?,
        };
        self.lengths.copied.store(copied.max(0), Ordering::Relaxed);
        Ok(true)
    }
}

/// Whether there is no room for the database, its WAL, or the index of that.
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    let of_the_index = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == of_the_index)
}

/// Whether another program holds a lock that is needed.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

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
