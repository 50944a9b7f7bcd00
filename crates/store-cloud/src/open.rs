//! Reasons why a ledger is not opened.

use tokio_postgres::Error;

/// Why a ledger was not opened. No error shows the password of the database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL of the database cannot be used. It is not shown, because it may have a password.
    #[error("the URL of the database cannot be used: {0}")]
    Url(&'static str),
    /// The database does not answer, or refuses the connection.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Error),
    /// The database does not answer in time.
    #[error("the database has not answered in time")]
    TimedOut,
    /// The primary has made a change, but has not waited for its standby.
    #[error("the database has stopped waiting for its standby")]
    NotDurable,
    /// A setting of the database would lose acknowledged bytes, or allow no changes.
    #[error("the database has {setting} = {value}: {reason}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// The schema is of a newer release, which does not allow this one to use it.
    #[error(
        "the database has version {found} of the schema, and this release knows version {known}: \
         start a newer release"
    )]
    NewerSchema {
        /// Version of the schema.
        found: i32,
        /// Newest version that this release knows.
        known: i32,
    },
    /// The database has a table `store` that is no table of Windlass.
    #[error("the database has tables of another application: use an empty database")]
    NotAStore,
    /// A connection leads to another store than the first one.
    #[error("the database has another store than at the start")]
    AnotherStore,
    /// The tables could not be created.
    #[error("the tables could not be created")]
    Schema(#[source] Error),
}

impl OpenError {
    pub(crate) fn unreachable(error: Error) -> Self {
        Self::Unreachable(error)
    }
}
