//! The write-ahead log: its length, and the checkpoints that copy it into the database file.
//!
//! With many small uploads a checkpoint is due several times a second. It takes some tens of
//! milliseconds, most of them waiting for the disk. Most of it therefore runs on the checkpoint
//! thread, while commits continue. The thread also copies pages that these commits add, until few
//! are pending. The writer copies the rest between two commits, which makes the checkpoint
//! complete. SQLite restarts the WAL only when all of its pages are in the database file and
//! synced.
//!
//! SQLite reports the length of the WAL to a hook with each commit. A query for the length would
//! take locks on the WAL's index, which with small uploads took a twentieth of the server's time.

use std::fs::File;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use windlass_store::Failpoint;

use crate::sync_health::FailStop;

/// Number of pending pages at which a checkpoint is due: 32 MiB.
///
/// With fewer checkpoints, a page that changes often is written into the database file fewer times.
/// A longer WAL makes the start after a crash slower.
pub(super) const CHECKPOINT_PAGES: u64 = 8192;

/// On a small disk, a checkpoint is due when the pending pages take this fraction of the disk: a
/// quarter.
const DISK_FRACTION: u64 = 4;

/// Size of a page in bytes. It is SQLite's default, which is never changed here.
pub(super) const PAGE_LEN: u64 = 4096;

/// Size in bytes of a page in the WAL, with its header of 24 bytes (sqlite.org/fileformat.html,
/// 4.1).
const FRAME_LEN: u64 = 24 + PAGE_LEN;

/// Number of pending pages, 2 MiB, below which the checkpoint thread leaves them to the writer.
const REMAINING_PAGES: i64 = 512;

/// Maximum number of passes of the checkpoint thread over the WAL. If commits add pages faster than
/// it copies them, it leaves the rest to the writer, however many pages that are.
const MAX_PASSES: usize = 4;

/// The length of the WAL. The writer and the checkpoint thread have a clone each.
#[derive(Debug, Clone)]
pub(super) struct Wal {
    /// Number of pending pages at which a checkpoint is due.
    checkpoint_pages: i64,
    lengths: Arc<Lengths>,
}

/// Two counts of pages in the WAL. Their difference is the number of pending pages.
///
/// The atomics are relaxed, because the lengths only decide when checkpoints run. SQLite itself
/// keeps track of the pages that it has copied.
#[derive(Debug, Default)]
struct Lengths {
    /// Length of the WAL as of the last commit.
    pages: AtomicI64,
    /// Number of pages of the WAL that were in the database file after the last checkpoint. Greater
    /// than `pages` if the WAL was restarted afterwards and is still shorter. 0 if it is not known,
    /// because another connection was running a checkpoint: all pages count as pending then.
    copied: AtomicI64,
}

impl Wal {
    /// Watches the commits of `connection`, the only connection that makes changes.
    ///
    /// `disk_len` is the size in bytes of the disk with the database file. `wal_len` is the length
    /// in bytes of the WAL file, which an earlier process may have left. Its pages count as pending
    /// until the first commit reports the length of the WAL.
    pub(super) fn watch(
        connection: &mut Connection,
        disk_len: u64,
        wal_len: u64,
    ) -> rusqlite::Result<Self> {
        let checkpoint_pages = CHECKPOINT_PAGES.min(disk_len / DISK_FRACTION / PAGE_LEN);
        let wal = Self {
            checkpoint_pages: checkpoint_pages.cast_signed(),
            lengths: Arc::default(),
        };
        let pages = (wal_len / FRAME_LEN).cast_signed();
        wal.lengths.pages.store(pages, Ordering::Relaxed);
        let lengths = Arc::clone(&wal.lengths);
        // The hook replaces SQLite's automatic checkpoint, which uses the same hook
        // (sqlite3_wal_hook). It runs on the writer thread, within COMMIT.
        connection.wal_hook(Some(move |_: &mut _, pages| {
            lengths.pages.store(i64::from(pages), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(wal)
    }

    /// Counts the pending pages.
    ///
    /// SQLite does not report restarts of the WAL. This method infers a restart if the WAL has
    /// fewer pages than were copied from it, and sets the number of copied pages to 0. If the WAL
    /// has already grown beyond that number when the method is called, the restart goes unnoticed
    /// until the next checkpoint. Until then the result is too low by the pages that were copied
    /// before the restart.
    pub(super) fn count_pending_pages(&self) -> i64 {
        let pages = self.lengths.pages.load(Ordering::Relaxed);
        if pages < self.lengths.copied.load(Ordering::Relaxed) {
            self.lengths.copied.store(0, Ordering::Relaxed);
        }
        pages - self.lengths.copied.load(Ordering::Relaxed)
    }

    /// Returns the length in bytes as of the last commit.
    pub(super) fn len(&self) -> i64 {
        let pages = self.lengths.pages.load(Ordering::Relaxed);
        pages.saturating_mul(FRAME_LEN.cast_signed())
    }

    /// Returns whether a checkpoint is due.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        self.count_pending_pages() >= self.checkpoint_pages
    }

    /// Returns whether commits must wait for the checkpoint thread: the WAL has at least twice
    /// `checkpoint_pages` pages, pending or copied. Copied pages count, because the WAL file grows
    /// until a checkpoint is complete.
    pub(super) fn exceeds_limit(&self) -> bool {
        self.lengths.pages.load(Ordering::Relaxed) >= 2 * self.checkpoint_pages
    }

    /// Copies pending pages into the database file, except pages that a running reader must not see
    /// yet. Commits continue meanwhile. Pages that they add are left for the next checkpoint.
    ///
    /// Returns `false` if SQLite reports a lack of space or a lock of another connection. It does
    /// not report a checkpoint that another connection is running: this one then copies nothing and
    /// returns `true`. So `true` does not mean that no page is pending.
    pub(super) fn checkpoint(&self, connection: &Connection) -> rusqlite::Result<bool> {
        // PASSIVE never waits for readers or the writer, and never keeps them waiting.
        let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
        // The third column is the number of pages of the WAL that are in the database file. It is
        // -1 while another connection runs a checkpoint.
        let copied: i64 = match statement.query_row([], |row| row.get(2)) {
            Err(error) if is_full_error(&error) || is_busy_error(&error) => return Ok(false),
            copied => copied?,
        };
        self.lengths.copied.store(copied.max(0), Ordering::Relaxed);
        Ok(true)
    }
}

/// Returns whether an error means that the database, its WAL or the WAL's index has no space.
///
/// An exhausted quota is not such an error: SQLite reports it as a general I/O error, which is a
/// fault.
pub(super) fn is_full_error(error: &rusqlite::Error) -> bool {
    // The index is a file that is grown and mapped. SQLite has a separate code of I/O error for a
    // lack of space for the index.
    let index_cannot_grow = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == index_cannot_grow)
}

/// Returns whether an error means that another connection, usually of another program, holds a
/// lock.
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
    /// A separate connection: one connection is used by one thread at a time.
    pub(super) connection: Connection,
    pub(super) wal: Wal,
    /// The database file, if it is to be synced: with
    /// [`Durability::Disk`](crate::Durability::Disk).
    ///
    /// Closing it drops all POSIX locks that the process has on the file, so
    /// [`Committer`](super::committer::Committer) keeps a clone, which it drops after the
    /// connections.
    pub(super) database_file: Option<Arc<File>>,
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

    /// Returns whether the thread was told to begin a checkpoint, and neither [`Self::poll`] nor
    /// [`Self::wait`] has received its end.
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Tells the thread to begin a checkpoint. None may be running.
    pub(super) fn begin(&mut self) {
        let requests = self.requests.as_ref().expect("it is there until the drop");
        self.is_running = true;
        if requests.send(()).is_err() {
            self.record_panic();
        }
    }

    /// Receives the end of the checkpoint if it has ended. Does not wait.
    pub(super) fn poll(&mut self) {
        match self.done.try_recv() {
            Ok(()) => self.is_running = false,
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => self.record_panic(),
        }
    }

    /// Waits for the end of the checkpoint, if one is running.
    pub(super) fn wait(&mut self) {
        if self.is_running {
            match self.done.recv() {
                Ok(()) => self.is_running = false,
                Err(mpsc::RecvError) => self.record_panic(),
            }
        }
    }

    /// Records that the thread has panicked. This is a fault: without checkpoints the WAL would
    /// grow without a bound.
    fn record_panic(&mut self) {
        self.is_running = false;
        self.fail_stop.trip(CheckpointerPanicked);
    }
}

/// Waits for a running checkpoint, ends the thread, and closes its connection.
impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.record_panic();
        }
    }
}

/// The checkpoint thread has panicked.
#[derive(Debug, thiserror::Error)]
#[error("the ledger's checkpoint thread has panicked")]
struct CheckpointerPanicked;

impl CheckpointThread {
    fn run(&self) {
        match self.copy_most() {
            Ok(true) => self.sync(),
            // No space, or a lock of another connection. The WAL keeps the pages, and the next
            // checkpoint copies them.
            Ok(false) => {}
            Err(error) => drop(self.fail_stop.trip(error)),
        }
    }

    /// Runs checkpoints, at most [`MAX_PASSES`], until few pages are pending. Returns `false` if
    /// one has failed for lack of space or because of a lock.
    fn copy_most(&self) -> rusqlite::Result<bool> {
        for _ in 0..MAX_PASSES {
            if !self.wal.checkpoint(&self.connection)? {
                return Ok(false);
            }
            if self.wal.count_pending_pages() < REMAINING_PAGES {
                break;
            }
        }
        Ok(true)
    }

    /// Syncs the database file on this thread, so that little is left for the sync on the writer
    /// thread. SQLite itself syncs the file only in a complete checkpoint.
    fn sync(&self) {
        match self
            .database_file
            .as_ref()
            .map_or(Ok(()), |file| file.sync_data())
        {
            Ok(()) => Failpoint::CheckpointCopied.reach(),
            // Recorded before the writer continues with the checkpoint. Otherwise SQLite's own sync
            // of the file might succeed after this failure. The next commit would then overwrite
            // the WAL, which alone has the pages.
            Err(error) => drop(self.fail_stop.trip(error)),
        }
    }
}
