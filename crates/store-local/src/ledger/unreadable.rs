//! Rows that hold what no version of the store has written.
//!
//! SQLite has read them without an error, so the database is as good as ever; what is in them makes no sense. A request
//! that needs such a row fails. Everything else goes on.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use rusqlite::Error;

/// Most different errors that go to the log.
const MOST_TOLD: usize = 100;

/// Tells of such rows, of each kind of error once.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    told: Mutex<HashSet<String>>,
}

impl Unreadable {
    /// Whether an error is that of a row that makes no sense. Then the log tells, if it has not yet.
    pub(super) fn note(&self, error: &Error) -> bool {
        if !is_unreadable(error) {
            return false;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD && told.insert(error.to_string()) {
            tracing::error!(%error, "a row of the ledger cannot be read; `windlass verify` says which");
        }
        true
    }
}

/// Whether a value of a row could not be converted.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}
