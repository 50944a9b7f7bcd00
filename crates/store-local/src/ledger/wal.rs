//! How long the write-ahead log is, and how it is brought into the database.
//!
//! SQLite tells the length with each commit. To ask costs locks on the log's index, which with small
//! uploads was a twentieth of the server's time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, ErrorCode};

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
