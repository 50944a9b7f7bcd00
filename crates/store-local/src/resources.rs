//! Reads the resources of a store for tools other than the server.

use std::path::Path;

use crate::OpenError;
use crate::file_lock::FileLock;
use crate::ledger::{LedgerReader, StoredResource, TableScan};
use crate::reserve::{self, Reserve};
use crate::verify::{VerifyError, existing_ledger};

/// Calls `visit` with each resource of the store in `dir`: its collection in the ledger, its id,
/// and its body.
///
/// It blocks until all are read, and changes nothing. A server may have the store open; resources
/// that it writes meanwhile may be left out. Rows that cannot be read are left out too:
/// [`verify`](crate::verify::verify) reports them.
///
/// # Errors
/// [`VerifyError`], but for its reasons of repairs.
pub fn for_each_resource(
    dir: &Path,
    visit: &mut dyn FnMut(&str, &str, &[u8]),
) -> Result<(), VerifyError> {
    let path = existing_ledger(dir)?;
    // If no server is running, the lock prevents the start of one meanwhile, because this process
    // may replay the WAL.
    let lock = FileLock::try_exclusive(&dir.join("lock"));
    let lock = lock.map_err(|source| OpenError::io(dir, source))?;
    let reserve = match &lock {
        Some(_) => Reserve::open_existing(&reserve::path(dir))?,
        None => None,
    };
    let loan = reserve.as_ref().map(Reserve::lend).transpose()?;
    let ledger = LedgerReader::open(&path)?;
    drop(loan);
    let mut scan = TableScan::begin(&ledger, "resources", LedgerReader::resource_bodies)?;
    while let Some(rows) = scan.next(&ledger)? {
        for (_, row) in rows {
            if let Ok(StoredResource {
                collection,
                id,
                body,
            }) = &row
            {
                visit(collection, id, body);
            }
        }
    }
    Ok(())
}
