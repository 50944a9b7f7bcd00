//! Connections to the database, and what each must show before it is used.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::open::OpenError;
use crate::options::{Durability, Tls};
use crate::{schema, sql};

/// The oldest release of PostgreSQL that is supported. Earlier ones round times.
const MIN_SERVER_VERSION: i32 = 14_00_00;

/// Makes connections. A pool has it.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    pub(crate) durability: Durability,
    /// The store and the replica, from the moment on at which they are known.
    pub(crate) home: OnceLock<Home>,
}

/// The store that the first connection has found, and this replica in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home {
    pub(crate) identity: [u8; 16],
    /// Number of the replica, which is never given out again.
    pub(crate) replica: i64,
    /// The replica's rows of `usage` have it.
    pub(crate) slot: i16,
}

/// A connection to the primary.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The last warning of the database that nobody has taken.
    warning: Arc<Mutex<Option<String>>>,
}

impl Connection {
    /// Takes the last warning. The database sends a warning before the answer to the statement that
    /// it is about.
    pub(crate) fn take_warning(&self) -> Option<String> {
        let mut warning = self.warning.lock().expect("nobody panics while holding it");
        warning.take()
    }
}

impl Connector {
    /// Makes a connection and checks the settings of the database. The schema is not looked at.
    pub(crate) async fn connect(&self) -> Result<Connection, OpenError> {
        let warning = Arc::default();
        let client = match &self.tls {
            Tls::Off => {
                let connected = self.config.connect(NoTls).await;
                let (client, connection) = connected.map_err(OpenError::unreachable)?;
                serve(connection, &warning);
                client
            }
            Tls::Required(tls) => {
                let tls = MakeRustlsConnect::new((**tls).clone());
                let connected = self.config.connect(tls).await;
                let (client, connection) = connected.map_err(OpenError::unreachable)?;
                serve(connection, &warning);
                client
            }
        };
        let settings = client.query_typed_one(sql::SETTINGS, &[]).await;
        check_settings(&settings.map_err(OpenError::unreachable)?, self.durability)?;
        Ok(Connection { client, warning })
    }

    /// Checks that a connection leads to the same store as the first one, and makes one durable
    /// change: a primary that was replaced by its standby cannot, so its stale rows are not
    /// believed.
    async fn welcome(&self, connection: &Connection, home: &Home) -> Result<(), OpenError> {
        let client = &connection.client;
        let store = schema::read(client).await?.ok_or(OpenError::NotAStore)?;
        if store.check()?.identity != home.identity {
            return Err(OpenError::AnotherStore);
        }
        beat(client, home).await.map_err(OpenError::unreachable)?;
        match connection.take_warning() {
            Some(_) => Err(OpenError::NotDurable),
            None => Ok(()),
        }
    }
}

/// Writes a sign of life of the replica.
pub(crate) async fn beat(client: &Client, home: &Home) -> Result<(), tokio_postgres::Error> {
    let params: [(&(dyn ToSql + Sync), Type); 3] = [
        (&home.replica, Type::INT8),
        (&home.slot, Type::INT2),
        (&env!("CARGO_PKG_VERSION"), Type::TEXT),
    ];
    client.execute_typed(sql::BEAT, &params).await.map(drop)
}

impl Manager for Connector {
    type Type = Connection;
    type Error = OpenError;

    async fn create(&self) -> Result<Connection, OpenError> {
        let connection = self.connect().await?;
        if let Some(home) = self.home.get() {
            self.welcome(&connection, home).await?;
        }
        Ok(connection)
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<OpenError> {
        if connection.client.is_closed() {
            return Err(RecycleError::message("the connection was lost"));
        }
        // It was about a statement of an earlier caller.
        drop(connection.take_warning());
        Ok(())
    }
}

/// Drives a connection in a task, which ends when the client is dropped or the connection is lost.
/// Keeps the last warning.
fn serve<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    warning: &Arc<Mutex<Option<String>>>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let warning = Arc::clone(warning);
    tokio::spawn(async move {
        // The callers whose statements are not answered get the error, too.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message
                && notice.parsed_severity() == Some(Severity::Warning)
            {
                let mut last = warning.lock().expect("nobody panics while holding it");
                *last = Some(notice.message().to_owned());
            }
        }
    });
}

/// Refuses settings that allow no changes, or with which an acknowledged change is not as durable
/// as it has to be.
fn check_settings(row: &Row, durability: Durability) -> Result<(), OpenError> {
    let setting = |name: &'static str| -> Result<&str, OpenError> {
        row.try_get(name).map_err(OpenError::unreachable)
    };
    let version: i32 = row
        .try_get("server_version")
        .map_err(OpenError::unreachable)?;
    if version < MIN_SERVER_VERSION {
        return Err(OpenError::Setting {
            setting: "server_version_num",
            value: version.to_string(),
            reason: "PostgreSQL 14 is the oldest supported release",
        });
    }
    let settings = Settings {
        fsync: setting("fsync")?,
        full_page_writes: setting("full_page_writes")?,
        synchronous_commit: setting("synchronous_commit")?,
        synchronous_standby_names: setting("synchronous_standby_names")?,
        transaction_read_only: setting("transaction_read_only")?,
    };
    settings.check(durability)
}

/// The settings that matter.
#[derive(Debug, Clone, Copy)]
struct Settings<'a> {
    fsync: &'a str,
    full_page_writes: &'a str,
    synchronous_commit: &'a str,
    synchronous_standby_names: &'a str,
    transaction_read_only: &'a str,
}

impl Settings<'_> {
    fn check(self, durability: Durability) -> Result<(), OpenError> {
        let refused = |setting, value: &str, reason| OpenError::Setting {
            setting,
            value: value.to_owned(),
            reason,
        };
        if self.transaction_read_only != "off" {
            let reason = "the ledger has to make changes";
            return Err(refused(
                "transaction_read_only",
                self.transaction_read_only,
                reason,
            ));
        }
        if durability == Durability::Unchecked {
            return Ok(());
        }
        for (setting, value) in [
            ("fsync", self.fsync),
            ("full_page_writes", self.full_page_writes),
        ] {
            if value != "on" {
                let reason = "a power cut would lose or damage acknowledged changes";
                return Err(refused(setting, value, reason));
            }
        }
        let commit = self.synchronous_commit;
        if durability == Durability::Primary {
            if commit == "off" {
                let reason = "a crash of the database would lose acknowledged changes";
                return Err(refused("synchronous_commit", commit, reason));
            }
            return Ok(());
        }
        if !["on", "remote_apply"].contains(&commit) {
            let reason = "a change has to be on the disk of the standby, too: set it to on";
            return Err(refused("synchronous_commit", commit, reason));
        }
        if self.synchronous_standby_names.trim().is_empty() {
            let reason = "no standby has the changes when they are acknowledged: name one, or \
                          choose the durability of the primary alone";
            return Err(refused("synchronous_standby_names", "''", reason));
        }
        Ok(())
    }
}

/// Waits for a future, at most for the time that a connection may take.
pub(crate) async fn within<T>(
    patience: std::time::Duration,
    future: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let future = pin!(future);
    tokio::time::timeout(patience, future)
        .await
        .unwrap_or(Err(OpenError::TimedOut))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: Settings<'_> = Settings {
        fsync: "on",
        full_page_writes: "on",
        synchronous_commit: "on",
        synchronous_standby_names: "ANY 1 (a, b)",
        transaction_read_only: "off",
    };

    /// Returns the refused settings of each durability: a standby's, the primary's, unchecked.
    fn refused(settings: Settings<'_>) -> [Option<&'static str>; 3] {
        [
            Durability::Standby,
            Durability::Primary,
            Durability::Unchecked,
        ]
        .map(|durability| match settings.check(durability) {
            Ok(()) => None,
            Err(OpenError::Setting { setting, .. }) => Some(setting),
            Err(other) => panic!("{other:?}"),
        })
    }

    #[test]
    fn settings_that_lose_acknowledged_bytes_are_refused() {
        assert_eq!(refused(SOUND), [None; 3]);
        let settings = Settings {
            fsync: "off",
            ..SOUND
        };
        assert_eq!(refused(settings), [Some("fsync"), Some("fsync"), None]);
        let settings = Settings {
            full_page_writes: "off",
            ..SOUND
        };
        let both = Some("full_page_writes");
        assert_eq!(refused(settings), [both, both, None]);
        for (value, of_primary) in [
            ("off", Some("synchronous_commit")),
            ("local", None),
            ("remote_write", None),
        ] {
            let settings = Settings {
                synchronous_commit: value,
                ..SOUND
            };
            let of_standby = Some("synchronous_commit");
            assert_eq!(refused(settings), [of_standby, of_primary, None], "{value}");
        }
        let settings = Settings {
            synchronous_commit: "remote_apply",
            ..SOUND
        };
        assert_eq!(refused(settings), [None; 3]);
    }

    #[test]
    fn standby_that_nobody_waits_for_is_refused() {
        let settings = Settings {
            synchronous_standby_names: " ",
            ..SOUND
        };
        let of_standby = Some("synchronous_standby_names");
        assert_eq!(refused(settings), [of_standby, None, None]);
    }

    #[test]
    fn database_that_allows_no_changes_is_refused() {
        let settings = Settings {
            transaction_read_only: "on",
            ..SOUND
        };
        assert_eq!(refused(settings), [Some("transaction_read_only"); 3]);
    }
}
