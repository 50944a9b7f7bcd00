//! Tests that end the server or its connections, or change its settings. They run one at a time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../postgres/database.rs"]
mod database;
#[path = "../postgres/sample.rs"]
#[expect(dead_code, reason = "the tests of the contract use the others")]
mod sample;
mod server;
mod workload;

use std::time::Duration;

use windlass_store::{Ledger, LedgerError};
use windlass_store_cloud::Durability;

use database::Database;
use workload::Workload;

/// Connections of the ledger end while changes are made. What is acknowledged is there; what
/// `Unavailable` says has not happened is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_connections_lose_and_invent_nothing() {
    let database = Database::new().await;
    let ledger = database.open().await;
    let workload = Workload::start(ledger, 8);
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'windlass' AND datname = current_database() AND state <> 'idle'
        ORDER BY random() LIMIT 1";
    loop {
        database.client.batch_execute(terminate).await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let seen = workload.seen();
        if seen.acknowledged >= 400 && seen.unknown >= 5 || seen.acknowledged >= 10_000 {
            break;
        }
    }
    let seen = workload.stop().await;
    assert!(seen.unknown >= 5, "{seen:?}");
    println!("{seen:?}");
}

/// The server crashes while changes are made, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_server_loses_and_invents_nothing() {
    let database = Database::new().await;
    let workload = Workload::start(database.open().await, 8);
    for round in 1..=3 {
        while workload.seen().acknowledged < round * 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server::stop();
        server::start();
    }
    let seen = workload.stop().await;
    assert!(seen.unavailable + seen.unknown > 0, "{seen:?}");
    println!("{seen:?}");
}

#[tokio::test]
async fn stopped_server_is_unavailable_and_then_available_again() {
    let database = Database::new().await;
    let ledger = database.open().await;
    let (id, lease) = sample::start(&ledger, 1).await;
    server::stop();
    let unavailable = |result: Result<(), LedgerError>| {
        assert!(
            matches!(result, Err(LedgerError::Unavailable(_))),
            "{result:?}"
        );
    };
    unavailable(ledger.check().await);
    unavailable(ledger.session(id).await.map(drop));
    unavailable(ledger.lease(id).await.map(drop));
    unavailable(ledger.commit_offset(id, lease, sample::commit(0, 10)).await);
    let row = sample::resource("r", "one", None);
    unavailable(ledger.apply(sample::insert(vec![row])).await);
    server::start();
    let commit = sample::commit(0, 10);
    ledger.commit_offset(id, lease, commit).await.unwrap();
}

/// A primary that stops waiting for its standby has committed, and says so in a warning: the change
/// may be lost with the primary.
#[tokio::test]
async fn cancelled_wait_for_the_standby_is_unknown() {
    let database = Database::new().await;
    // A durable setting is needed to wait at all.
    let options = database::options().durability(Durability::Unchecked);
    let ledger = database.open_with(options).await;
    let (id, lease) = sample::start(&ledger, 1).await;
    server::set("synchronous_standby_names", "'nobody'").await;
    let commit = ledger.commit_offset(id, lease, sample::commit(0, 10));
    let cancel = async {
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event = 'SyncRep' AND query = 'COMMIT'";
        while database.number(cancel).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    let (committed, ()) = tokio::join!(commit, cancel);
    server::set("synchronous_standby_names", "''").await;
    assert!(
        matches!(committed, Err(LedgerError::Unknown(_))),
        "{committed:?}"
    );
    let session = ledger.session(id).await.unwrap().unwrap();
    assert_eq!(session.progress.offset, 10, "the primary has it");
}
