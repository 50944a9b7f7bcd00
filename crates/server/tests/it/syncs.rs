//! Which syncs come before each acknowledgement, and in which order.
//!
//! Each change of the ledger is one sync. The vault syncs media, and in `create` the media's name.
//! The stores are those in memory, so the expected lists depend on the server alone.

use std::sync::Arc;

use serde_json::json;
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm::ANIMALS;
use windlass_testkit::media::Media;

use crate::world::{Body, Peer as _, Reply, World};

/// The calls to a store that wait for the disk.
const WAITS: [&str; 6] = ["create", "sync", "start", "commit_offset", "apply", "end"];

/// More than stays in the ledger.
const LARGE: u64 = 1000;

const PNG: &str = "image/png";

/// A server, and a log of the calls to its stores.
struct Watched {
    world: World,
    calls: Arc<Faults>,
    seen: usize,
}

impl Watched {
    fn new() -> Self {
        let calls = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
        let ledger = Arc::new(MemoryLedger::new());
        let vault = Arc::new(MemoryVault::new());
        let stores = Stores {
            ledger: Arc::new(FaultyLedger::new(ledger, Arc::clone(&calls))),
            vault: Arc::new(FaultyVault::new(vault, Arc::clone(&calls))),
        };
        Self {
            world: World::new(stores, Arc::default()),
            calls,
            seen: 0,
        }
    }

    /// The calls since the last time that waited for the disk.
    fn waits(&mut self) -> Vec<&'static str> {
        let names = self.calls.names();
        let new = names[self.seen..].iter().copied();
        self.seen = names.len();
        new.filter(|name| WAITS.contains(name)).collect()
    }

    /// Sends a part of the media. Returns the status and the calls that waited for the disk.
    async fn chunk(
        &mut self,
        session: &str,
        range: std::ops::Range<u64>,
    ) -> (u16, Vec<&'static str>) {
        let content_range = format!("bytes {}-{}/{LARGE}", range.start, range.end - 1);
        let body = Media::new(0, LARGE).bytes(range);
        let reply = self.world.put(session, &content_range, body).await;
        (reply.status.as_u16(), self.waits())
    }
}

fn status(reply: &Reply) -> u16 {
    reply.status.as_u16()
}

#[tokio::test(start_paused = true)]
async fn single_request_upload_is_answered_after_its_media_sync_and_one_commit() {
    let mut watched = Watched::new();
    let [small, large] = [10, LARGE].map(|len| Media::new(0, len).whole());
    let reply = watched.world.simple(ANIMALS, PNG, &small).await;
    assert_eq!((status(&reply), watched.waits()), (200, vec!["apply"]));
    let waits = ["create", "sync", "apply"];
    let reply = watched.world.simple(ANIMALS, PNG, &large).await;
    assert_eq!((status(&reply), watched.waits()), (200, waits.to_vec()));
    let ox = json!({"name": "ox"});
    let reply = watched.world.multipart(ANIMALS, &ox, PNG, &large).await;
    assert_eq!((status(&reply), watched.waits()), (200, waits.to_vec()));
}

#[tokio::test(start_paused = true)]
async fn session_request_is_answered_after_its_own_commits_only() {
    let mut watched = Watched::new();
    let session = watched.world.start(Some(LARGE)).await.unwrap();
    assert_eq!(watched.waits(), ["start"]);
    let first = watched.chunk(&session, 0..400).await;
    assert_eq!(first, (308, vec!["create", "sync", "commit_offset"]));
    let next = watched.chunk(&session, 400..800).await;
    assert_eq!(next, (308, vec!["sync", "commit_offset"]));
    let again = watched.chunk(&session, 400..800).await;
    assert_eq!(
        again,
        (308, vec!["sync"]),
        "no commit: nothing of it is new"
    );
    let query = watched.world.query(&session).await;
    assert_eq!((query.committed(), watched.waits()), (800, vec![]));
    // One commit says that the media is complete, the next one has the resource and the reply.
    let last = watched.chunk(&session, 800..LARGE).await;
    assert_eq!(last, (201, vec!["sync", "commit_offset", "apply"]));
    let repeated = watched.world.query(&session).await;
    assert_eq!((status(&repeated), watched.waits()), (201, vec![]));
}

#[tokio::test(start_paused = true)]
async fn bytes_of_a_broken_request_are_synced_before_their_commit() {
    let mut watched = Watched::new();
    let session = watched.world.start(Some(LARGE)).await.unwrap();
    watched.waits();
    let body = Body::Broken(Media::new(0, LARGE).bytes(0..400));
    let range = format!("bytes 0-{}/{LARGE}", LARGE - 1);
    watched.world.put(&session, &range, body).await;
    assert_eq!(watched.waits(), ["create", "sync", "commit_offset"]);
    assert_eq!(watched.world.query(&session).await.committed(), 400);
}

#[tokio::test(start_paused = true)]
async fn cancellation_is_one_commit() {
    let mut watched = Watched::new();
    let session = watched.world.start(Some(LARGE)).await.unwrap();
    watched.chunk(&session, 0..400).await;
    let cancelled = watched.world.call("DELETE", &session).await;
    assert_eq!((status(&cancelled), watched.waits()), (499, vec!["end"]));
}
