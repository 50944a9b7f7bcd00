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
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;

use crate::world::World;

/// How many bytes come before the pause, and after it.
const HALF: usize = 1000;

/// The number of bytes after a pause in a large upload.
const AFTER: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn bytes_before_a_pause_are_written_during_it() {
    let calls = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
    let vault = FaultyVault::new(Arc::new(MemoryVault::new()), Arc::clone(&calls));
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(vault),
    };
    let world = World::new(stores, Arc::default());
    let pause = async move {
        assert_eq!(calls.calls_of("append"), 0, "it begins just now");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(calls.calls_of("append"), 1);
        Ok(half())
    };
    let first = stream::once(async { Ok::<_, io::Error>(half()) });
    let body = first.chain(stream::once(pause));
    let request = Request::post("/upload/farm/v1/animals?uploadType=media")
        .header("content-length", 2 * HALF)
        .body(StreamBody::new(Box::pin(body)))
        .unwrap();
    let reply = world.service().await.call(request).await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn bytes_before_a_pause_are_committed_during_it() {
    // Less than a block, exactly a block, and exactly the bytes of a checkpoint.
    for before in [20 << 10, 256 << 10, 1 << 20] {
        let all = before + AFTER;
        commits_in_a_pause(before, format!("bytes 0-{}/{all}", all - 1), 201).await;
        commits_in_a_pause(before, format!("bytes 0-{}/*", all - 1), 308).await;
    }
}

/// Sends `before` bytes, waits for a commit, and sends the rest.
async fn commits_in_a_pause(before: usize, range: String, status: u16) {
    let calls = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
    let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&calls));
    let stores = Stores {
        ledger: Arc::new(ledger),
        vault: Arc::new(MemoryVault::new()),
    };
    let mut limits = Limits::default();
    limits.small_media = 64 << 10;
    // A buffer has a quarter of it.
    limits.media_memory = 1 << 20;
    let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    let farm = ServedApi::with_default_handler(farm);
    let mut world = World::limited(farm, stores, Arc::default(), limits);
    let session = start(&mut world).await;
    let case = format!("{before} bytes of {range}");
    let pause = async move {
        assert_eq!(calls.calls_of("commit_offset"), 0, "it begins just now");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(calls.calls_of("commit_offset"), 1, "{case}");
        Ok(data(AFTER))
    };
    let first = stream::once(async move { Ok::<_, io::Error>(data(before)) });
    let body = first.chain(stream::once(pause));
    let append = Request::put(session)
        .header("content-range", range)
        .header("content-length", before + AFTER)
        .body(StreamBody::new(Box::pin(body)))
        .expect("it is valid");
    let reply = world
        .server
        .service()
        .call(append)
        .await
        .expect("it is infallible");
    assert_eq!(reply.status(), status);
}

#[tokio::test(start_paused = true)]
async fn failed_commit_during_a_pause_is_reported_during_it() {
    // The first call starts the session.
    let calls = Arc::new(Faults::new(Trigger::From(2), InjectedFault::Fault));
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
    let reply = world.service().await.call(append).await.unwrap();
    assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(3), "{waited:?}");
}

/// Begins a resumable upload, and returns the URI of its session.
async fn start(world: &mut World) -> String {
    let start = Request::post("/upload/farm/v1/animals?uploadType=resumable")
        .body(Empty::new())
        .expect("it is valid");
    let started = world.service().await.call(start).await.unwrap();
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
