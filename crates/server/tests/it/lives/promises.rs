//! Rules for the final state of the stores. Replies do not show this part of the rules.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_server::Stores;
use windlass_store::{MediaId, MediaLocation, Resource, Sweep, SweepOptions};
use windlass_testkit::oracle::Rule;

use super::FAR;
use super::oracle::violate;
use crate::outbox::EVENTS;
use crate::world::World;

/// Where the ledger keeps the animals.
const COLLECTION: &str = "farm/farm/v1/animals";

/// Judges rule 5: after a sweep there is no media without a row, and no row without media.
pub(super) async fn check_media(world: &World, stores: &Stores) {
    let mut sweep = Sweep::new(SweepOptions::default());
    while !sweep_step(&mut sweep, stores).await {}
    let rows = rows(stores).await;
    let listed = world.count().await;
    if rows.len() != listed {
        unfit(format!("{} rows, but {listed} are listed", rows.len()));
    }
    let (wanted, found) = (named(rows), stored(stores).await);
    if wanted != found {
        unfit(format!("rows name {wanted:?}, there is {found:?}"));
    }
    let garbage = stores.ledger.garbage(None, 100).await;
    let garbage = garbage.expect("the ledger is well");
    if !garbage.is_empty() {
        unfit(format!("{garbage:?} is left after a sweep"));
    }
}

/// Checks that each change of an animal has left one event, and that there is no other event.
/// Versions are consecutive, so a missing event leaves a gap, and an event that is written twice is
/// a duplicate.
pub(super) async fn check_events(stores: &Stores) {
    let mut versions = versions_in_events(stores).await;
    for versions in versions.values() {
        let is_next = |pair: &[u64]| pair[0] + 1 == pair[1];
        if !versions.windows(2).all(is_next) {
            unannounced(&format!("events of versions {versions:?}"));
        }
    }
    for animal in rows(stores).await {
        let versions = versions.remove(&animal.id).unwrap_or_default();
        if versions.last() != Some(&animal.version) {
            unannounced(&format!("version {} after {versions:?}", animal.version));
        }
    }
    // The events of deleted animals: their creation and their deletion.
    for versions in versions.values() {
        if versions.len() != 2 {
            unannounced(&format!("it is gone after {versions:?}"));
        }
    }
}

/// The versions of each animal in events, in order.
async fn versions_in_events(stores: &Stores) -> BTreeMap<String, Vec<u64>> {
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
    }
    versions
}

#[track_caller]
fn unfit(how: String) -> ! {
    violate("the stores", Rule::Store(how))
}

/// Ends the test. The five rules do not cover events.
#[track_caller]
fn unannounced(how: &str) -> ! {
    let how = format!("each change leaves one event: {how}");
    violate("the events", Rule::Misbehaves(how))
}

async fn sweep_step(sweep: &mut Sweep, stores: &Stores) -> bool {
    let swept = sweep.step(&*stores.ledger, &*stores.vault, FAR).await;
    swept.expect("the stores are well").is_done
}

async fn rows(stores: &Stores) -> Vec<Resource> {
    let rows = stores.ledger.resources(COLLECTION, None, 100).await;
    rows.expect("the ledger is well")
}

/// The media that resources name and the vault must hold. All sessions have expired.
fn named(rows: Vec<Resource>) -> BTreeSet<MediaId> {
    let media = rows.into_iter().filter_map(|row| row.media);
    media
        .filter(|media| media.at.location == MediaLocation::Vault)
        .map(|media| media.at.id)
        .collect()
}

async fn stored(stores: &Stores) -> BTreeSet<MediaId> {
    let listed = stores.vault.list(None, 100).await;
    let listed = listed.expect("the vault is well");
    let all = listed.stored.iter();
    all.map(|entry| entry.name.media).collect()
}
