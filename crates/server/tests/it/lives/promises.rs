//! What must be true of the stores when all is over.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_server::Stores;
use windlass_store::{MediaId, MediaLocation, Sweep, SweepOptions};

use super::FAR;
use crate::outbox::EVENTS;
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

/// Each change of an animal has left one event, and nothing else has. A version follows another, so an
/// event that is missing leaves a gap, and one that is written twice is a duplicate.
pub(super) async fn check_events(stores: &Stores) {
    let rows = stores.ledger.resources(EVENTS, None, 100).await;
    let mut versions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in rows.expect("the ledger is well") {
        let row: Value = serde_json::from_slice(&row.body).expect("it is JSON");
        let (id, version) = (&row["payload"]["id"], &row["payload"]["version"]);
        let id = id.as_str().expect("it is text").to_owned();
        let version = version.as_u64().expect("it is a number");
        versions.entry(id).or_default().push(version);
    }
    for versions in versions.values_mut() {
        versions.sort_unstable();
        let is_next = |pair: &[u64]| pair[0] + 1 == pair[1];
        assert!(versions.windows(2).all(is_next), "{versions:?}");
    }
    let animals = stores.ledger.resources(COLLECTION, None, 100).await;
    for animal in animals.expect("the ledger is well") {
        let versions = versions.remove(&animal.id).expect("its making left one");
        assert_eq!(versions.last(), Some(&animal.version));
    }
    // Those of animals that are gone: they were made, and deleted.
    for versions in versions.values() {
        assert_eq!(versions.len(), 2, "{versions:?}");
    }
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
