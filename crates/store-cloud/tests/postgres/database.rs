//! Databases for tests.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{Client, NoTls};
use windlass_store_cloud::{CloudLedger, Durability, Options};

/// A new and empty database.
pub(crate) struct Database {
    pub(crate) url: String,
    /// A connection to it.
    pub(crate) client: Client,
}

static CREATED: AtomicU32 = AtomicU32::new(0);

/// Returns the URL of the server.
///
/// # Panics
/// If the tests were not started by `tests/postgres/run`.
pub(crate) fn server() -> String {
    std::env::var("POSTGRES_URL").expect("tests/postgres/run starts a server and sets POSTGRES_URL")
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Database {
    pub(crate) async fn new() -> Self {
        let server = server();
        let name = format!(
            "test_{}_{}",
            std::process::id(),
            CREATED.fetch_add(1, Ordering::Relaxed)
        );
        let admin = connect(&server).await;
        let create = format!("CREATE DATABASE {name}");
        admin.batch_execute(&create).await.unwrap();
        let (server, _) = server.rsplit_once('/').unwrap();
        let direct = format!("{server}/{name}");
        let url = match std::env::var("POSTGRES_POOLER") {
            Ok(pooler) => format!("postgres://windlass@{pooler}/{name}"),
            Err(_) => direct.clone(),
        };
        Self {
            client: connect(&direct).await,
            url,
        }
    }

    /// Opens the ledger as another process.
    pub(crate) async fn open(&self) -> CloudLedger {
        self.open_with(options()).await
    }

    pub(crate) async fn open_with(&self, options: Options) -> CloudLedger {
        CloudLedger::open(&self.url, options).await.unwrap()
    }

    /// Returns a number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }
}

/// The server of the tests has no standby, and perhaps no syncs.
pub(crate) fn options() -> Options {
    Options::default().durability(Durability::Unchecked)
}
