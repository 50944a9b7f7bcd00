//! The rules of both contracts.

use std::sync::Arc;

use windlass_store::{Ledger, Vault, conformance};

use crate::directory;

#[tokio::test]
async fn the_local_ledger_keeps_the_contract() {
    let dir = directory::new();
    conformance::ledger(&directory::open(&dir).ledger).await;
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
