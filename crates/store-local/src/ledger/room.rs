//! How much room the ledger has.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use windlass_store::Space;

use super::wal::PAGE_LEN;
use crate::filesystem;
use crate::reserve::Reserve;

/// Less than this may stay idle, however full the disk is.
const FEW: u64 = 256 << 10;

/// What stays idle is less than the free space of the disk divided by this.
const SHARE: u64 = 16;

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

    /// Looks at the disk, and takes the reserve if there is plenty. What the database's file lacks of all that is
    /// committed is still to be written by a checkpoint, which needs the room.
    pub(super) fn look(&self, used: Used) -> io::Result<Look> {
        let space = filesystem::space(&self.database)?;
        let len = self.database.metadata()?.len();
        let available = space.available.saturating_sub(used.len.saturating_sub(len));
        self.reserve.take(available);
        Ok(Look {
            space: Space { available, ..space },
            idle: used.unused + len.saturating_sub(used.len),
        })
    }
}

/// What a look at the disk has found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) space: Space,
    /// Bytes of the database's file that hold nothing.
    pub(super) idle: u64,
}

impl Look {
    /// Whether what is idle would make a difference to the disk.
    pub(super) fn is_short(self) -> bool {
        self.idle >= FEW && self.idle >= self.space.available / SHARE
    }
}

/// What the database takes up, with what only the log has of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    /// Bytes, all of it.
    pub(super) len: u64,
    /// Bytes of these that deleted rows have left, to be used again.
    pub(super) unused: u64,
}

impl Used {
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let bytes = |pragma| {
            let pages = connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            pages.map(|pages| pages.unsigned_abs() * PAGE_LEN)
        };
        Ok(Self {
            len: bytes("page_count")?,
            unused: bytes("freelist_count")?,
        })
    }
}
