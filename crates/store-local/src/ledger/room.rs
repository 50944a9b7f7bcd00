//! How much room the ledger has.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use windlass_store::Space;

use super::wal::PAGE_LEN;
use crate::filesystem;
use crate::reserve::Reserve;

/// The disk of the database, and what is kept of it.
#[derive(Debug, Clone)]
pub(super) struct Room {
    database: PathBuf,
    reserve: Arc<Reserve>,
}

impl Room {
    pub(super) fn of(database: &Path, reserve: Arc<Reserve>) -> Self {
        Self {
            database: database.to_owned(),
            reserve,
        }
    }

    /// Looks at the disk, and takes the reserve if there is plenty. The database is `len` bytes long when all that is
    /// committed is in its file: what the file lacks of that is still to be written by a checkpoint, which needs the
    /// room.
    pub(super) fn look(&self, len: u64) -> io::Result<Space> {
        let space = filesystem::space(&self.database)?;
        let missing = len.saturating_sub(self.database.metadata()?.len());
        let available = space.available.saturating_sub(missing);
        self.reserve.take(available);
        Ok(Space { available, ..space })
    }
}

/// How long the database is, with what only the log has of it.
pub(super) fn len_of(connection: &Connection) -> rusqlite::Result<u64> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    Ok(pages.unsigned_abs() * PAGE_LEN)
}
