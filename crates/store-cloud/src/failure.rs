//! Why a call has failed, and what the errors of PostgreSQL mean for it.

use std::sync::Arc;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};
use windlass_store::{Cause, LedgerError};

/// Why a call has failed.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// A condition of the change does not hold. Nothing has changed.
    Refused(Refusal),
    /// Nothing has changed, and the same change may succeed at once.
    Again(Cause),
    /// Nothing has changed.
    Unavailable(Cause),
    /// The change may have happened.
    Unknown(Cause),
    /// The disk of the database is full. Nothing has changed.
    NoSpace,
    /// A row has a value that cannot be converted. Nothing has changed.
    Unreadable,
    /// The database does not have what this release needs of it.
    Fault(Cause),
}

/// The condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Fenced,
    Conflict,
    OverQuota,
    TooMuchMedia,
    KeyTooLong,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Refusal> for LedgerError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fenced => Self::Fenced,
            Refusal::Conflict => Self::Conflict,
            Refusal::OverQuota => Self::OverQuota,
            Refusal::TooMuchMedia => Self::TooMuchMedia,
            Refusal::KeyTooLong => Self::KeyTooLong,
        }
    }
}

impl From<Failure> for LedgerError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Again(cause) | Failure::Unavailable(cause) => Self::Unavailable(cause),
            Failure::Unknown(cause) => Self::Unknown(cause),
            Failure::NoSpace => Self::NoSpace,
            Failure::Unreadable => Self::Unreadable,
            Failure::Fault(cause) => Self::Fault(cause),
        }
    }
}

/// The statement that an error answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// A statement that changes nothing, or whose `COMMIT` has not been sent.
    Statement,
    /// A statement before a `COMMIT` that was sent with it.
    BeforeCommit,
    /// A `COMMIT`, or a statement that commits itself.
    Commit,
}

impl Failure {
    /// Returns what an error means.
    ///
    /// An error that the database itself has answered to a statement before the `COMMIT` has ended
    /// the transaction. If the connection breaks instead, the answers may have been lost, and it
    /// depends on whether a `COMMIT` was on its way.
    pub(crate) fn of(error: Error, answered: Answered) -> Self {
        let Some(answer) = error.as_db_error() else {
            return Self::of_connection(error, answered);
        };
        if answered == Answered::Commit && is_open_question(answer) {
            return Self::Unknown(Arc::new(error));
        }
        let code = answer.code().clone();
        if code == SqlState::DISK_FULL {
            Self::NoSpace
        } else if is_passing(&code) {
            Self::Again(Arc::new(error))
        } else if is_fault(&code) {
            Self::Fault(Arc::new(error))
        } else {
            Self::Unavailable(Arc::new(error))
        }
    }

    fn of_connection(error: Error, answered: Answered) -> Self {
        match answered {
            Answered::Statement => Self::Again(Arc::new(error)),
            Answered::BeforeCommit | Answered::Commit => Self::Unknown(Arc::new(error)),
        }
    }

    /// Returns the failure of a call that has waited too long for an answer.
    pub(crate) fn timed_out(answered: Answered) -> Self {
        match answered {
            Answered::Statement => Self::Unavailable(Arc::new(TimedOut)),
            Answered::BeforeCommit | Answered::Commit => Self::Unknown(Arc::new(TimedOut)),
        }
    }

    /// Returns the failure of a call whose connection was lost before it has sent anything.
    pub(crate) fn of_lost_connection() -> Self {
        Self::Again(Arc::new(ConnectionLost))
    }

    /// Whether the connection is still of use after an error.
    pub(crate) fn leaves_connection(error: &Error) -> bool {
        error.as_db_error().is_some_and(|answer| !is_fatal(answer))
    }
}

/// Whether it is open whether a `COMMIT` with this answer has happened.
fn is_open_question(answer: &DbError) -> bool {
    is_fatal(answer) || *answer.code() == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
}

/// Whether the connection ends with this answer.
fn is_fatal(answer: &DbError) -> bool {
    let severity = answer.parsed_severity();
    let is_fatal = matches!(severity, Some(Severity::Fatal | Severity::Panic));
    is_fatal || answer.code().code().starts_with("08") || is_shutdown(answer.code())
}

fn is_shutdown(code: &SqlState) -> bool {
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ]
    .contains(code)
}

/// Whether the same change may succeed at once: another transaction came first, or the connection
/// leads to a database that has become a standby or is ending.
fn is_passing(code: &SqlState) -> bool {
    is_shutdown(code)
        || code.code().starts_with("08")
        || [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code)
}

/// Whether the database is damaged, or lacks a table or a column: a release that expects them must
/// not go on.
fn is_fault(code: &SqlState) -> bool {
    [
        SqlState::DATA_CORRUPTED,
        SqlState::INDEX_CORRUPTED,
        SqlState::IO_ERROR,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::CHECK_VIOLATION,
        SqlState::NOT_NULL_VIOLATION,
        SqlState::SYNTAX_ERROR,
    ]
    .contains(code)
}

/// The database has not answered in time.
#[derive(Debug, thiserror::Error)]
#[error("the database has not answered in time")]
struct TimedOut;

/// The connection was lost before anything was sent.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the database was lost")]
struct ConnectionLost;

/// The primary has stopped waiting for its standby.
#[derive(Debug, thiserror::Error)]
#[error("the database has committed with a warning: {0}")]
pub(crate) struct CommittedWithWarning(pub(crate) String);
