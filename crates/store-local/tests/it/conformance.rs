//! The rules of both contracts.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use windlass_store::{Ledger, Vault, conformance};
use windlass_store_local::{LocalStore, Options};

use crate::directory;

#[tokio::test]
async fn the_local_ledger_keeps_the_contract() {
    let dir = directory::new();
    conformance::ledger(&directory::open(&dir).ledger).await;
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
