//! What must be true of the stores when all is over.

use std::collections::BTreeSet;

use windlass_server::Stores;
use windlass_store::{MediaId, MediaLocation, Sweep, SweepOptions};

use super::FAR;
use crate::world::World;

/// Where the ledger keeps the animals.
const COLLECTION: &str = "farm/farm/v1/animals";

/// After a sweep there is no media without a row, and no row without media.
pub(super) async fn check_media(world: &World, stores: &Stores) {
    let mut sweep = Sweep::new(SweepOptions::default());
    while !sweep_step(&mut sweep, stores).await {}
    let named = named(world, stores).await;
    assert_eq!(stored(stores).await, named);
    let garbage = stores.ledger.garbage(None, 100).await;
    assert_eq!(garbage.expect("the ledger is well"), []);
}

async fn sweep_step(sweep: &mut Sweep, stores: &Stores) -> bool {
    let swept = sweep.step(&*stores.ledger, &*stores.vault, FAR).await;
    swept.expect("the stores are well").is_done
}

/// The media that resources name and the vault has to have. All sessions are dead.
async fn named(world: &World, stores: &Stores) -> BTreeSet<MediaId> {
    let resources = stores.ledger.resources(COLLECTION, None, 100).await;
    let resources = resources.expect("the ledger is well");
    assert_eq!(resources.len(), world.count().await);
    let media = resources.into_iter().filter_map(|resource| resource.media);
    media
        .filter(|media| media.at.location == MediaLocation::Vault)
        .map(|media| media.at.id)
        .collect()
}

async fn stored(stores: &Stores) -> BTreeSet<MediaId> {
    let listed = stores.vault.list(None, 100).await;
    let listed = listed.expect("the vault is well");
    listed.media.iter().map(|media| media.id).collect()
}
