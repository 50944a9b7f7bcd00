//! State that a session's next request finds in the cache.

use std::sync::Arc;
use std::time::Duration;

use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyVault, InjectedFault, Trigger};
use windlass_testkit::media::Media;

use crate::power::{LocalStores, PoweredStores};
use crate::world::{ManualClock, World};

const CHUNK: u64 = 256 * 1024;
const MEDIA: Media = Media::new(1, 4 * CHUNK);

async fn put(world: &World, session: &str, first: u64) -> u16 {
    let chunk = first..first + CHUNK;
    let range = format!("bytes {first}-{}/{}", chunk.end - 1, MEDIA.len());
    let reply = world.put(session, &range, MEDIA.bytes(chunk)).await;
    reply.status.as_u16()
}

#[tokio::test]
async fn consecutive_chunks_reuse_the_open_session() {
    let local = LocalStores::new();
    let Stores { ledger, vault } = local.stores();
    let calls = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
    let vault = Arc::new(FaultyVault::new(vault, Arc::clone(&calls)));
    let reopened = || calls.calls_of("resume");
    let stores = || Stores {
        ledger: Arc::clone(&ledger),
        vault: Arc::clone(&vault) as _,
    };
    let world = World::new(stores(), Arc::default());
    let session = world.start(Some(MEDIA.len())).await.unwrap();
    assert_eq!(put(&world, &session, 0).await, 308);
    assert_eq!(put(&world, &session, CHUNK).await, 308);
    assert_eq!(reopened(), 0);

    // Another life of the server has nothing at hand.
    let world = World::new(stores(), Arc::default());
    assert_eq!(put(&world, &session, 2 * CHUNK).await, 308);
    assert_eq!(reopened(), 1);
    assert_eq!(put(&world, &session, 3 * CHUNK).await, 201);
    assert_eq!(reopened(), 1);
}

#[tokio::test]
async fn chunks_without_new_bytes_do_not_extend_a_session() {
    let local = LocalStores::new();
    let clock: Arc<ManualClock> = Arc::default();
    let world = World::impatient(local.stores(), Arc::clone(&clock), Duration::from_secs(10));
    let session = world.start(Some(MEDIA.len())).await.unwrap();
    assert_eq!(put(&world, &session, 0).await, 308);
    for _ in 0..2 {
        clock.advance(Duration::from_secs(4));
        assert_eq!(put(&world, &session, 0).await, 308);
    }
    clock.advance(Duration::from_secs(3));
    assert_eq!(world.query(&session).await.status.as_u16(), 404);
    assert_eq!(put(&world, &session, CHUNK).await, 404);
}
