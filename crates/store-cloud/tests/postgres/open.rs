//! Opening a ledger.

use std::error::Error;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinSet;
use windlass_store::Ledger;
use windlass_store_cloud::{CloudLedger, Durability, OpenError, Options, Tls};

use crate::database::{self, Database};

fn refusal(opened: Result<CloudLedger, OpenError>) -> OpenError {
    match opened {
        Ok(_) => panic!("it must be refused"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn replicas_that_start_at_once_create_one_store() {
    let database = Database::new().await;
    let mut opening = JoinSet::new();
    for _ in 0..6 {
        let url = database.url.clone();
        opening.spawn(async move {
            let ledger = CloudLedger::open(&url, database::options()).await.unwrap();
            ledger.check().await.unwrap();
            ledger.identity()
        });
    }
    let mut identities = opening.join_all().await;
    identities.dedup();
    assert_eq!(identities.len(), 1);
    assert_eq!(database.number("SELECT count(*) FROM store").await, 1);
    assert_eq!(database.number("SELECT count(*) FROM replicas").await, 6);
}

#[tokio::test]
async fn schema_of_a_newer_release_is_refused_if_it_says_so() {
    let database = Database::new().await;
    drop(database.open().await);
    let newer = "UPDATE store SET version = 2";
    database.client.batch_execute(newer).await.unwrap();
    drop(database.open().await);
    let newer = "UPDATE store SET version = 3, oldest_reader = 2";
    database.client.batch_execute(newer).await.unwrap();
    let refused = refusal(CloudLedger::open(&database.url, database::options()).await);
    assert!(
        matches!(refused, OpenError::NewerSchema { found: 3, known: 1 }),
        "{refused:?}"
    );
}

#[tokio::test]
async fn table_of_another_application_is_left_alone() {
    let database = Database::new().await;
    let other = "CREATE TABLE store (id int PRIMARY KEY, name text); INSERT INTO store VALUES (1)";
    database.client.batch_execute(other).await.unwrap();
    let refused = refusal(CloudLedger::open(&database.url, database::options()).await);
    assert!(matches!(refused, OpenError::NotAStore), "{refused:?}");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(database.number(tables).await, 1);
}

#[tokio::test]
async fn settings_that_lose_acknowledged_bytes_are_refused() {
    let database = Database::new().await;
    let server_syncs = database
        .client
        .query_one("SELECT current_setting('fsync') = 'on'", &[])
        .await
        .unwrap()
        .get::<_, bool>(0);
    let primary = Options::default().durability(Durability::Primary);
    let opened = CloudLedger::open(&database.url, primary.clone()).await;
    assert_eq!(opened.is_ok(), server_syncs);
    let refused = refusal(CloudLedger::open(&database.url, Options::default()).await);
    assert!(
        matches!(refused, OpenError::Setting { setting, .. }
            if setting == if server_syncs { "synchronous_standby_names" } else { "fsync" }),
        "{refused:?}"
    );
    for (name, value) in [
        ("synchronous_commit", "off"),
        ("default_transaction_read_only", "on"),
    ] {
        let (_, of) = database.url.rsplit_once('/').unwrap();
        let server = database::connect(&database::server()).await;
        let set = format!("ALTER DATABASE {of} SET {name} = {value}");
        server.batch_execute(&set).await.unwrap();
        let refused = refusal(CloudLedger::open(&database.url, primary.clone()).await);
        assert!(
            matches!(
                refused,
                OpenError::Setting { .. } | OpenError::Unreachable(_)
            ),
            "{name}: {refused:?}"
        );
        let reset = format!("ALTER DATABASE {of} RESET {name}");
        server.batch_execute(&reset).await.unwrap();
    }
}

#[tokio::test]
async fn no_error_shows_the_password() {
    const SECRET: &str = "hunter2";
    let database = Database::new().await;
    let (_, rest) = database.url.split_once('@').unwrap();
    for url in [
        // The server trusts everybody, but knows no such role.
        format!("postgres://nobody:{SECRET}@{rest}"),
        format!("postgres://windlass:{SECRET}@127.0.0.1:1/postgres"),
        format!("postgres://windlass:{SECRET}@{rest}x?sslmode=require"),
    ] {
        let refused = refusal(CloudLedger::open(&url, database::options()).await);
        let mut shown = format!("{refused:?}");
        let mut error: Option<&dyn Error> = Some(&refused);
        while let Some(cause) = error {
            shown += &cause.to_string();
            error = cause.source();
        }
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let url = format!("postgres://windlass:{SECRET}@{rest}");
    let ledger = CloudLedger::open(&url, database::options()).await.unwrap();
    let shown = format!("{ledger:?}");
    assert!(!shown.contains(SECRET), "{shown}");
}

/// Returns options with TLS that trusts these certificates.
fn trusting(roots: RootCertStore) -> Options {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    database::options().tls(Tls::Required(Arc::new(config)))
}

#[tokio::test]
async fn server_without_a_trusted_certificate_for_its_name_is_refused() {
    let database = Database::new().await;
    let certificate = std::fs::read(std::env::var("POSTGRES_CERTIFICATE").unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate)).unwrap();
    let (_, name) = database.url.rsplit_once('/').unwrap();
    let server = database::server();
    let (_, port) = server.rsplit_once(':').unwrap();
    let (port, _) = port.split_once('/').unwrap();
    let url = |host: &str| format!("postgres://windlass@{host}:{port}/{name}");

    let opened = CloudLedger::open(&url("localhost"), trusting(roots.clone())).await;
    let ledger = opened.unwrap();
    ledger.check().await.unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE ssl AND application_name = 'windlass' AND datname = current_database()";
    assert!(database.number(encrypted).await > 0);

    let stranger = trusting(RootCertStore::empty());
    for (host, options) in [("localhost", stranger), ("127.0.0.1", trusting(roots))] {
        let refused = refusal(CloudLedger::open(&url(host), options).await);
        assert!(matches!(refused, OpenError::Unreachable(_)), "{refused:?}");
    }
}
