//! A copy of the ledger while it is written.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::schema::{self, SchemaError};
use crate::{OpenError, filesystem};

/// Pages that are copied between two reports.
const STEP_PAGES: i32 = 256;

/// Copies the ledger in `source`, as it is at one moment, into a new file of its own: without a WAL
/// and without garbage. The file is durable afterwards, its name is not.
///
/// The moment is held by a read transaction as long as pages are copied. Anyone who writes meanwhile is
/// not held up; but the WAL cannot start again until it is over.
pub(crate) fn copy(
    source: &Path,
    target: &Path,
    copied: &mut dyn FnMut(),
) -> Result<(), OpenError> {
    let io = |error| OpenError::io(target, error);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        filesystem::remove(&filesystem::beside(target, suffix)).map_err(io)?;
    }
    let file = filesystem::create(target).map_err(io)?;
    copy_pages(source, target, copied).map_err(|error| {
        // It is the copy that grows.
        let of = if error.is_full() { target } else { source };
        error.at(of)
    })?;
    settle(target).map_err(|error| error.at(target))?;
    file.sync_all().map_err(io)
}

fn copy_pages(source: &Path, target: &Path, copied: &mut dyn FnMut()) -> Result<(), SchemaError> {
    let source = schema::open_onlooker(source)?;
    // Without it every commit of the server would make the copy start again.
    let moment = source.unchecked_transaction()?;
    moment.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let mut target = connect(target)?;
    let backup = Backup::new(&moment, &mut target)?;
    while backup.step(STEP_PAGES)? != StepResult::Done {
        copied();
    }
    Ok(())
}

/// Makes one file of the copy, and forgets garbage: the media of that is not copied.
fn settle(target: &Path) -> Result<(), SchemaError> {
    let target = connect(target)?;
    target.pragma_update(None, "journal_mode", "delete")?;
    target.execute("DELETE FROM garbage", [])?;
    Ok(())
}

/// Nothing is synced on the way: the copy is synced as a whole, or never used.
fn connect(target: &Path) -> rusqlite::Result<Connection> {
    let access = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(target, access)?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}
