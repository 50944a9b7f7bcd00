//! The rules of the contract.

use std::num::NonZeroU64;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use windlass_store::{Vault, conformance};
use windlass_store_cloud::CloudVault;

fn vault(store: &Arc<InMemory>, cell: u64) -> CloudVault {
    let store = Arc::clone(store);
    CloudVault::new(store, Path::from("media")).with_cell(NonZeroU64::new(cell).unwrap())
}

#[tokio::test]
async fn the_vault_keeps_the_contract() {
    for cell in [50_000, 1 << 20, 8 << 20] {
        conformance::vault(&vault(&Arc::default(), cell)).await;
    }
}

#[tokio::test]
async fn the_vault_keeps_what_it_synced_over_a_restart() {
    for cell in [1, 3, 8, 100] {
        let store = Arc::default();
        let open = async || Arc::new(vault(&store, cell)) as Arc<dyn Vault>;
        conformance::vault_restart(open).await;
    }
}
