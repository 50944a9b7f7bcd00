//! How long the write-ahead log is.
//!
//! SQLite tells it with each commit. To ask costs locks on its index, which with small uploads was a
//! twentieth of the server's time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::Connection;

/// Watches the log of one connection, the only one that writes.
#[derive(Debug)]
pub(super) struct Wal {
    /// Pages in it, as of the last commit.
    pages: Arc<AtomicI64>,
    /// How many of them the database has. More than there are when the log has begun anew.
    copied: i64,
}

impl Wal {
    /// Watches from now on. What a dead process has left is counted with the first commit.
    pub(super) fn watch(connection: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::<AtomicI64>::default();
        let told = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut _, pages| {
            told.store(i64::from(pages), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, copied: 0 })
    }

    /// Pages that are not in the database. After the log has begun anew it may be less than there are,
    /// by no more than were copied before.
    pub(super) fn waiting(&mut self) -> i64 {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.copied {
            self.copied = 0;
        }
        pages - self.copied
    }

    /// Brings the pages into the database, as far as readers let it.
    pub(super) fn checkpoint(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
        self.copied = statement.query_row([], |row| row.get(2))?;
        Ok(())
    }
}
