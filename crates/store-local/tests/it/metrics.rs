//! What a store records into the metrics that it is opened with.

use std::sync::Arc;

use bytes::Bytes;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use windlass_store::{Ledger as _, MediaId, NewSession, SessionId, Timestamp, Vault as _};
use windlass_store_local::{Durability, LocalStore, Options, StoreMetrics};
use windlass_testkit::exposition::Exposition;

use crate::directory;

/// Opens a store with a registry of its own.
fn open(dir: &tempfile::TempDir, durability: Durability) -> (LocalStore, Registry) {
    let (metrics, mut registry) = (StoreMetrics::default(), Registry::default());
    metrics.register(&mut registry);
    let options = Options::default()
        .allow_unsafe_filesystem(true)
        .durability(durability)
        .metrics(metrics);
    let store = LocalStore::open(dir.path(), options).expect("the store opens");
    (store, registry)
}

fn scrape(registry: &Registry) -> Exposition {
    let mut text = String::new();
    encode(&mut text, registry).expect("the registry can be written");
    Exposition::parse(&text)
}

fn session(n: u8) -> NewSession {
    NewSession {
        id: SessionId::from_bytes([n; 32]),
        context: Vec::new(),
        created: Timestamp::from_millis(0),
        expires: Timestamp::from_millis(1000),
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    }
}

#[track_caller]
fn assert_value(scrape: &Exposition, series: &str, expected: u64) {
    let value = scrape.value(series);
    assert_eq!(value.to_string(), expected.to_string(), "{series}");
}

#[tokio::test]
async fn commits_and_their_accepted_changes_are_recorded() {
    let dir = directory::new();
    let (store, registry) = open(&dir, Durability::Disk);
    let begun = scrape(&registry);
    assert_value(&begun, "windlass_store_commit_changes_count", 0);
    for n in 0..3 {
        store.ledger.start(session(n)).await.unwrap();
    }
    store.ledger.lease(session(1).id).await.unwrap();
    let taken = store.ledger.start(session(1)).await;
    taken.expect_err("there is such a session");

    let scrape = scrape(&registry);
    assert_value(&scrape, "windlass_store_commit_changes_count", 3);
    assert_value(&scrape, "windlass_store_commit_changes_sum", 3);
    assert_value(
        &scrape,
        "windlass_store_commit_duration_seconds_count",
        store.ledger.commits(),
    );
    assert!(scrape.value("windlass_store_commit_duration_seconds_sum") > 0.0);
    assert_value(&scrape, "windlass_store_queued_calls", 0);
    let wal = dir
        .path()
        .join("ledger.sqlite-wal")
        .metadata()
        .unwrap()
        .len();
    let shown = scrape.value("windlass_store_wal_bytes");
    let wal = f64::from(u32::try_from(wal).unwrap());
    assert!(shown > 0.0 && shown <= wal, "{shown} of {wal}");
}

#[tokio::test]
async fn parallel_changes_of_one_commit_are_recorded_together() {
    let dir = directory::new();
    let (store, registry) = open(&dir, Durability::Disk);
    let ledger = Arc::new(store.ledger);
    let mut starts = JoinSet::new();
    for n in 0..100 {
        let ledger = Arc::clone(&ledger);
        starts.spawn(async move { ledger.start(session(n)).await });
    }
    for started in starts.join_all().await {
        started.unwrap();
    }
    let scrape = scrape(&registry);
    assert_value(&scrape, "windlass_store_commit_changes_sum", 100);
    assert_value(
        &scrape,
        "windlass_store_commit_changes_count",
        ledger.commits(),
    );
    assert!(ledger.commits() < 100);
}

#[tokio::test]
async fn syncs_of_media_are_recorded_unless_nothing_is_synced() {
    for (durability, is_synced) in [(Durability::Disk, true), (Durability::Os, false)] {
        let dir = directory::new();
        let (store, registry) = open(&dir, durability);
        let writer = store
            .vault
            .create(MediaId::from_bytes([1; 16]))
            .await
            .unwrap();
        let data = vec![Bytes::from_static(b"windlass")];
        writer.write_and_sync(0, data).await.unwrap();
        let scrape = scrape(&registry);
        let syncs = if is_synced { 2 } else { 0 };
        assert_eq!(store.vault.syncs(), syncs);
        assert_value(
            &scrape,
            "windlass_store_media_sync_duration_seconds_count",
            syncs,
        );
    }
}

#[tokio::test]
async fn two_stores_of_one_process_do_not_mix() {
    let (one_dir, other_dir) = (directory::new(), directory::new());
    let (one, one_registry) = open(&one_dir, Durability::Os);
    let (_other, other_registry) = open(&other_dir, Durability::Os);
    one.ledger.start(session(1)).await.unwrap();
    assert_value(
        &scrape(&one_registry),
        "windlass_store_commit_changes_sum",
        1,
    );
    assert_value(
        &scrape(&other_registry),
        "windlass_store_commit_changes_sum",
        0,
    );
}
