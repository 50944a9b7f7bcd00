//! The write-ahead log: its length, and the checkpoints that copy it into the database.
//!
//! With many small uploads a WAL is full several times a second, and copying it into the database
//! takes some tens of milliseconds, most of them for the disk. A thread of its own does that, so
//! that commits do not wait. It also copies what commits add meanwhile, until little is left. The
//! writer copies the rest between two commits: SQLite restarts the WAL only when all of it is in
//! the database and synced.
//!
//! SQLite reports the length of the WAL with each commit. Asking for it instead takes locks on the
//! WAL's index, which with small uploads was a twentieth of the server's time.

use std::fs::File;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use windlass_store::Failpoint;

use crate::sync_health::FailStop;

/// Number of pages at which a checkpoint is due: 32 MiB.
///
/// With fewer checkpoints, a page that changes often is written into the database fewer times. A
/// longer WAL makes the start after a crash slower.
const CHECKPOINT_PAGES: u64 = 8192;

/// On a small disk, a checkpoint is due when the WAL takes this fraction of it.
const DISK_FRACTION: u64 = 4;

/// Size of a page in bytes. It is SQLite's default, which is never changed here.
pub(super) const PAGE_LEN: u64 = 4096;

/// Size of a page in the WAL, with its header of 24 bytes (sqlite.org/fileformat.html, 4.1).
const FRAME_LEN: u64 = 24 + PAGE_LEN;

/// Number of pages, 2 MiB, that the checkpoint thread leaves to the writer.
const REMAINING_PAGES: i64 = 512;

/// Maximum number of passes of the checkpoint thread. If commits add pages faster than it copies
/// them, the writer gets the rest, however much it is.
const MAX_PASSES: usize = 4;

/// The WAL as seen by its connections: one that writes, and any that checkpoints.
#[derive(Debug, Clone)]
pub(super) struct Wal {
    checkpoint_pages: i64,
    lengths: Arc<Lengths>,
}

/// Lengths in pages.
///
/// They only decide when a checkpoint is started. SQLite itself keeps track of which pages it has
/// copied, so their atomics are relaxed.
#[derive(Debug, Default)]
struct Lengths {
    /// Length of the WAL as of the last commit.
    pages: AtomicI64,
    /// Number of pages that the database has. More than `pages` when the WAL has been restarted.
    copied: AtomicI64,
}

impl Wal {
    /// Watches the commits of `connection`, which is the only one that writes.
    ///
    /// `disk` is the size of its disk in bytes. `len` is the length of the WAL file that an earlier
    /// process has left. Its pages count as pending until the first commit reports their number.
    pub(super) fn watch(
        connection: &mut Connection,
        disk: u64,
        len: u64,
    ) -> rusqlite::Result<Self> {
        let checkpoint_pages = CHECKPOINT_PAGES.min(disk / DISK_FRACTION / PAGE_LEN);
        let wal = Self {
            checkpoint_pages: checkpoint_pages.cast_signed(),
            lengths: Arc::default(),
        };
        let pages = (len / FRAME_LEN).cast_signed();
        wal.lengths.pages.store(pages, Ordering::Relaxed);
        let lengths = Arc::clone(&wal.lengths);
        // The hook replaces SQLite's automatic checkpoint, which uses the same one
        // (sqlite3_wal_hook). It runs on the writer thread, within COMMIT.
        connection.wal_hook(Some(move |_: &mut _, pages| {
            lengths.pages.store(i64::from(pages), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(wal)
    }

    /// Returns the number of pages that are not in the database. After a restart of the WAL it may
    /// be too low, by no more than the number of pages copied before.
    pub(super) fn pending_pages(&self) -> i64 {
        let pages = self.lengths.pages.load(Ordering::Relaxed);
        // A WAL that is shorter than what was copied from it has been restarted.
        if pages < self.lengths.copied.load(Ordering::Relaxed) {
            self.lengths.copied.store(0, Ordering::Relaxed);
        }
        pages - self.lengths.copied.load(Ordering::Relaxed)
    }

    /// Returns whether a checkpoint is due.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        self.pending_pages() >= self.checkpoint_pages
    }

    /// Returns whether commits must wait for a checkpoint. Pages that are in the database count
    /// too, because the file grows until all of them are.
    pub(super) fn exceeds_limit(&self) -> bool {
        self.lengths.pages.load(Ordering::Relaxed) >= 2 * self.checkpoint_pages
    }

    /// Copies pages into the database as far as readers allow it. Commits go on meanwhile, and the
    /// pages that they add are left for the next time. Returns whether the database had the space
    /// to grow. Without it the WAL keeps the pages.
    pub(super) fn checkpoint(&self, connection: &Connection) -> rusqlite::Result<bool> {
        // PASSIVE never waits for readers or the writer, and never keeps them waiting.
        let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
        // The third column is the number of pages copied, and -1 when another process is running a
        // checkpoint.
        let copied: i64 = match statement.query_row([], |row| row.get(2)) {
            Err(error) if is_full_error(&error) || is_busy_error(&error) => return Ok(false),
            copied => copied?,
        };
        self.lengths.copied.store(copied.max(0), Ordering::Relaxed);
        Ok(true)
    }
}

/// Returns whether an error means that the database, its WAL or the WAL's index has no space.
pub(super) fn is_full_error(error: &rusqlite::Error) -> bool {
    // The index is a file that is grown and mapped. SQLite reports a lack of space for it as an
    // I/O error of its own kind.
    let index_cannot_grow = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == index_cannot_grow)
}

/// Returns whether an error means that another program holds a lock.
pub(super) fn is_busy_error(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// The writer's handle of the checkpoint thread.
#[derive(Debug)]
pub(super) struct Checkpointer {
    /// `None` only during the drop.
    requests: Option<mpsc::Sender<()>>,
    done: mpsc::Receiver<()>,
    is_running: bool,
    fail_stop: FailStop,
    thread: Option<JoinHandle<()>>,
}

/// The state of the checkpoint thread.
pub(super) struct CheckpointThread {
    /// A connection of its own: one connection is used by one thread at a time.
    pub(super) connection: Connection,
    pub(super) wal: Wal,
    /// The database file, if it is to be synced.
    ///
    /// Closing it drops all POSIX locks that the process has on the database, so another owner must
    /// keep it open until all connections are closed.
    pub(super) database: Option<Arc<File>>,
    pub(super) fail_stop: FailStop,
}

impl Checkpointer {
    /// Starts the thread.
    pub(super) fn start(checkpoint_thread: CheckpointThread) -> std::io::Result<Self> {
        let (requests, requested) = mpsc::channel();
        let (report, done) = mpsc::channel();
        let fail_stop = checkpoint_thread.fail_stop.clone();
        let thread = std::thread::Builder::new()
            .name("checkpointer".to_owned())
            .spawn(move || {
                while let Ok(()) = requested.recv() {
                    checkpoint_thread.run();
                    if report.send(()).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Self {
            requests: Some(requests),
            done,
            is_running: false,
            fail_stop,
            thread: Some(thread),
        })
    }

    /// Returns whether the thread was told to begin and has not been seen to end.
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Tells the thread to begin. It must not be busy.
    pub(super) fn begin(&mut self) {
        let requests = self.requests.as_ref().expect("it is there until the drop");
        self.is_running = true;
        if requests.send(()).is_err() {
            self.stopped();
        }
    }

    /// Checks, without waiting, whether the thread has ended its work.
    pub(super) fn poll(&mut self) {
        match self.done.try_recv() {
            Ok(()) => self.is_running = false,
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => self.stopped(),
        }
    }

    /// Waits until the thread has ended its work, if it is busy.
    pub(super) fn wait(&mut self) {
        if self.is_running {
            match self.done.recv() {
                Ok(()) => self.is_running = false,
                Err(mpsc::RecvError) => self.stopped(),
            }
        }
    }

    /// Records that the thread has panicked. The WAL would grow without a bound from here on, so
    /// that is a fault.
    fn stopped(&mut self) {
        self.is_running = false;
        self.fail_stop.trip(CheckpointerStopped);
    }
}

/// Waits for the thread's work and closes its connection.
impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.stopped();
        }
    }
}

/// The checkpoint thread has ended early.
#[derive(Debug, thiserror::Error)]
#[error("the ledger's checkpoint thread has panicked")]
struct CheckpointerStopped;

impl CheckpointThread {
    fn run(&self) {
        match self.copy_most() {
            Ok(true) => self.sync(),
            // The database has no space to grow. The WAL keeps the pages, and the next checkpoint
            // copies them.
            Ok(false) => {}
            Err(error) => drop(self.fail_stop.trip(error)),
        }
    }

    /// Returns whether the database had the space to grow.
    fn copy_most(&self) -> rusqlite::Result<bool> {
        for _ in 0..MAX_PASSES {
            if !self.wal.checkpoint(&self.connection)? {
                return Ok(false);
            }
            if self.wal.pending_pages() < REMAINING_PAGES {
                break;
            }
        }
        Ok(true)
    }

    /// Syncs the database here, so that the writer's own sync has little left. SQLite syncs it only
    /// after the last page of the WAL.
    fn sync(&self) {
        match self
            .database
            .as_ref()
            .map_or(Ok(()), |file| file.sync_data())
        {
            Ok(()) => Failpoint::CheckpointCopied.reach(),
            // A fault at once: SQLite's own sync would succeed after this one has failed, and the
            // WAL, which has the pages, would be overwritten.
            Err(error) => drop(self.fail_stop.trip(error)),
        }
    }
}
