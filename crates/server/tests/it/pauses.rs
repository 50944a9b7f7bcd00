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
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, Trouble, When};
use windlass_store::memory::{MemoryLedger, MemoryVault};

use crate::world::World;

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

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_in_a_pause_is_told_in_it() {
    // The first call starts the session.
    let calls = Arc::new(Faults::new(When::From(2), Trouble::Fault));
    let stores = Stores {
        ledger: Arc::new(FaultyLedger::new(Arc::new(MemoryLedger::new()), calls)),
        vault: Arc::new(MemoryVault::new()),
    };
    let mut world = World::new(stores, Arc::default());
    let start = Request::post("/upload/farm/v1/animals?uploadType=resumable")
        .body(Empty::new())
        .unwrap();
    let started = world.server.call(start).await.unwrap();
    let session = started.headers()["location"].to_str().unwrap();
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

fn half() -> Frame<Bytes> {
    Frame::data(Bytes::from(vec![7; HALF]))
}
