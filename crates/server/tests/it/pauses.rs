//! Clients that pause in the middle of an upload.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{Empty, StreamBody};
use tokio::time::Instant;
use tower_service::Service as _;
use windlass_discovery::Api;
use windlass_server::config::Limits;
use windlass_server::{ServedApi, Stores};
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, Trouble, When};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;

use crate::world::{World, limits};

/// How many bytes come before the pause, and after it.
const HALF: usize = 1000;

#[tokio::test(start_paused = true)]
async fn what_came_before_a_pause_does_not_wait_in_memory() {
    let calls = Arc::new(Faults::new(When::Never, Trouble::Fault));
    let vault = FaultyVault::new(Arc::new(MemoryVault::new()), Arc::clone(&calls));
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(vault),
    };
    let mut world = World::new(stores, Arc::default());
    let pause = async move {
        assert_eq!(calls.calls_of("write"), 0, "it begins just now");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(calls.calls_of("write"), 1);
        Ok(half())
    };
    let first = stream::once(async { Ok::<_, io::Error>(half()) });
    let body = first.chain(stream::once(pause));
    let request = Request::post("/upload/farm/v1/animals?uploadType=media")
        .header("content-length", 2 * HALF)
        .body(StreamBody::new(Box::pin(body)))
        .unwrap();
    let reply = world.server.call(request).await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
}

/// However much came: not a block, just a block, or just what a checkpoint is made for.
#[tokio::test(start_paused = true)]
async fn what_came_before_a_pause_is_committed_in_it() {
    for len in [20 << 10, 256 << 10, 1 << 20] {
        let calls = Arc::new(Faults::new(When::Never, Trouble::Fault));
        let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&calls));
        let stores = Stores {
            ledger: Arc::new(ledger),
            vault: Arc::new(MemoryVault::new()),
        };
        // A block has a quarter of it.
        let limits = Limits {
            media_memory: 1 << 20,
            ..limits()
        };
        let farm = Api::from_toml(farm::SHORT_FORM).unwrap();
        let farm = ServedApi::generic(farm);
        let mut world = World::limited(farm, stores, Arc::default(), limits);
        let session = start(&mut world).await;
        let pause = async move {
            assert_eq!(calls.calls_of("advance"), 0, "it begins just now");
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(calls.calls_of("advance"), 1, "{len} bytes");
            Ok(data(len))
        };
        let first = stream::once(async move { Ok::<_, io::Error>(data(len)) });
        let body = first.chain(stream::once(pause));
        let append = Request::put(session)
            .header("content-length", 2 * len)
            .body(StreamBody::new(Box::pin(body)))
            .unwrap();
        let reply = world.server.call(append).await.unwrap();
        assert_eq!(reply.status(), StatusCode::CREATED);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_in_a_pause_is_told_in_it() {
    // The first call starts the session.
    let calls = Arc::new(Faults::new(When::From(2), Trouble::Fault));
    let stores = Stores {
        ledger: Arc::new(FaultyLedger::new(Arc::new(MemoryLedger::new()), calls)),
        vault: Arc::new(MemoryVault::new()),
    };
    let mut world = World::new(stores, Arc::default());
    let session = start(&mut world).await;
    let first = stream::once(async { Ok::<_, io::Error>(half()) });
    let body = first.chain(stream::pending());
    let append = Request::put(session)
        .header("content-length", 2 * HALF)
        .body(StreamBody::new(Box::pin(body)))
        .unwrap();
    let begun = Instant::now();
    let reply = world.server.call(append).await.unwrap();
    assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(3), "{waited:?}");
}

/// Begins a resumable upload, and returns the URI of its session.
async fn start(world: &mut World) -> String {
    let start = Request::post("/upload/farm/v1/animals?uploadType=resumable")
        .body(Empty::new())
        .expect("it is valid");
    let started = world.server.call(start).await.unwrap();
    started.headers()["location"]
        .to_str()
        .expect("it is a URI")
        .to_owned()
}

fn half() -> Frame<Bytes> {
    data(HALF)
}

fn data(len: usize) -> Frame<Bytes> {
    Frame::data(Bytes::from(vec![7; len]))
}
