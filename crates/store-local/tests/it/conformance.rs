//! The rules of both contracts.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use windlass_store::{ChangeSet, Ledger, Resource, ResourceChange, Timestamp, Vault, conformance};
use windlass_store_local::{LocalStore, Options};

use crate::{directory, sample};

#[tokio::test]
async fn the_local_ledger_keeps_the_contract() {
    let dir = directory::new();
    conformance::ledger(&directory::open(&dir).ledger).await;
}

#[tokio::test]
async fn claim_of_an_earlier_opening_is_free_at_once() {
    let dir = directory::new();
    let [now, until] = [10, 1_000_000].map(Timestamp::from_millis);
    let resource = |id: &str| Resource {
        due: Some(now),
        ..sample::resource(id)
    };
    let claims = async |store: &LocalStore, limit| {
        let collection = resource("").collection;
        let claimed = store.ledger.claim(&collection, now, until, limit).await;
        let ids = claimed.unwrap().into_iter().map(|row| row.id);
        ids.collect::<Vec<_>>().concat()
    };
    let store = directory::open(&dir);
    let changes = ChangeSet {
        resources: ["a", "b", "c"]
            .map(|id| ResourceChange::Insert(resource(id)))
            .into(),
        ..ChangeSet::default()
    };
    store.ledger.apply(changes).await.unwrap();
    assert_eq!(claims(&store, 2).await, "ab");
    assert_eq!(store.ledger.opening(), claimant(&store, "a").await);
    drop(store);

    let store = directory::open(&dir);
    assert_eq!(claims(&store, 2).await, "ca", "the due row comes first");
    assert_eq!(claims(&store, 9).await, "b");
    assert_eq!(claims(&store, 9).await, "");
    assert_eq!(store.ledger.opening(), claimant(&store, "a").await);
}

async fn claimant(store: &LocalStore, id: &str) -> Option<u64> {
    let collection = sample::resource(id).collection;
    let row = store.ledger.resource(&collection, id).await.unwrap();
    row.unwrap().claimed_by
}

#[tokio::test]
async fn the_local_ledger_keeps_released_media() {
    let dir = directory::new();
    let options = Options::default().allow_unsafe_filesystem(true);
    let store = LocalStore::open(dir.path(), options.retention(conformance::RETENTION)).unwrap();
    // Its clock is the wall clock, so the entries become older instead.
    let advance = async |time: Duration| {
        let ledger = Connection::open(dir.path().join("ledger.sqlite")).unwrap();
        let older = "UPDATE garbage SET not_before = not_before - ?1";
        let time = i64::try_from(time.as_millis()).unwrap();
        ledger.execute(older, [time]).unwrap();
    };
    conformance::ledger_with_retention(&store.ledger, advance).await;
}

#[tokio::test]
async fn the_local_vault_keeps_the_contract() {
    let dir = directory::new();
    conformance::vault(&directory::open(&dir).vault).await;
}

#[tokio::test]
async fn the_local_ledger_keeps_what_it_committed_over_a_restart() {
    let dir = directory::new();
    let open = async || Arc::new(directory::open(&dir).ledger) as Arc<dyn Ledger>;
    conformance::ledger_restart(open).await;
}

#[tokio::test]
async fn the_local_vault_keeps_what_it_synced_over_a_restart() {
    let dir = directory::new();
    let open = async || Arc::new(directory::open(&dir).vault) as Arc<dyn Vault>;
    conformance::vault_restart(open).await;
}
