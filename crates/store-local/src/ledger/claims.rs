//! Rows that are due, and the processes that claim them.
//!
//! One process has the ledger open, so a claim of another opening is of a process that has ended.

use rusqlite::{Connection, Error, params};
use windlass_store::{Resource, Timestamp};

use super::changes::{ChangeError, Tables};
use super::rows::{self, RESOURCE_COLUMNS};

/// The rows that are due at `?2`.
const DUE: &str = "FROM resources INDEXED BY resources_due WHERE collection = ?1 AND due <= ?2";

/// The rows that another opening than `?3` has claimed and that are not due at `?2`.
///
/// The index has claimed rows alone. By the index of all times SQLite would read all rows that wait.
const ABANDONED: &str = "FROM resources INDEXED BY resources_claimed
    WHERE collection = ?1 AND claimed_by IS NOT NULL AND claimed_by <> ?3 AND due > ?2";

/// The rows that are due at any time.
const WAITING: &str =
    "FROM resources INDEXED BY resources_due WHERE collection = ?1 AND due IS NOT NULL";

/// Returns whether a row can be claimed.
pub(super) fn is_any_claimable(
    connection: &Connection,
    collection: &str,
    now: Timestamp,
    opening: u64,
) -> rusqlite::Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 {DUE}) OR EXISTS (SELECT 1 {ABANDONED})");
    let bounds = params![collection, rows::sql_moment(now), opening.cast_signed()];
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row(bounds, |row| row.get(0))
}

/// Returns the time from which the first row is due.
pub(super) fn next_due(
    connection: &Connection,
    collection: &str,
) -> rusqlite::Result<Option<Timestamp>> {
    let sql = format!("SELECT min(due) {WAITING}");
    let mut statement = connection.prepare_cached(&sql)?;
    let first: Option<i64> = statement.query_row([collection], |row| row.get(0))?;
    Ok(first.map(|due| Timestamp::from_millis(due.cast_unsigned())))
}

/// Returns the number of rows that are due at any time.
pub(super) fn count_due(connection: &Connection, collection: &str) -> rusqlite::Result<u64> {
    let sql = format!("SELECT count(*) {WAITING}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows: i64 = statement.query_row([collection], |row| row.get(0))?;
    Ok(rows.cast_unsigned())
}

impl Tables<'_> {
    /// Claims rows for the process with this opening.
    pub(super) fn claim(
        &self,
        collection: &str,
        [now, until]: [Timestamp; 2],
        limit: usize,
        opening: u64,
    ) -> Result<Vec<Resource>, ChangeError> {
        let opening = opening.cast_signed();
        let mut found = self.claimable(
            &format!("{DUE} ORDER BY due"),
            params![collection, rows::sql_moment(now)],
            limit,
        )?;
        let of_others = params![collection, rows::sql_moment(now), opening];
        found.extend(self.claimable(
            &format!("{ABANDONED} ORDER BY due, id"),
            of_others,
            limit - found.len(),
        )?);
        let mut claimed = Vec::with_capacity(found.len());
        for (rowid, row) in found {
            let row = Resource {
                version: row.version + 1,
                due: Some(until),
                claimed_by: Some(opening.cast_unsigned()),
                ..row
            };
            self.execute(
                "UPDATE resources SET version = ?2, due = ?3, claimed_by = ?4 WHERE rowid = ?1",
                params![
                    rowid,
                    row.version.cast_signed(),
                    rows::sql_moment(until),
                    opening
                ],
            )?;
            claimed.push(row);
        }
        Ok(claimed)
    }

    /// Returns up to `limit` rows that can be claimed, each with its rowid.
    fn claimable(
        &self,
        which: &str,
        bounds: &[&dyn rusqlite::ToSql],
        limit: usize,
    ) -> rusqlite::Result<Vec<(i64, Resource)>> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT {RESOURCE_COLUMNS} {which}"))?;
        let found = statement.query_map(bounds, |row| {
            Ok((row.get("rowid")?, rows::read_resource(row)?))
        })?;
        // Not limited in SQL, because rows that cannot be read are left out.
        let is_readable =
            |found: &Result<_, Error>| !found.as_ref().is_err_and(rows::is_conversion_error);
        // Collected before the first UPDATE, which changes the index of the query.
        found.filter(is_readable).take(limit).collect()
    }
}
