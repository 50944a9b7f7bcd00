//! Clients that pause in the middle of an upload.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tower_service::Service as _;
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyVault, Trouble, When};
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
    let half = || Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![7; HALF])));
    let pause = async move {
        assert_eq!(calls.calls_of("write"), 0, "it begins just now");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(calls.calls_of("write"), 1);
        half()
    };
    let body = stream::once(async move { half() }).chain(stream::once(pause));
    let request = Request::post("/upload/farm/v1/animals?uploadType=media")
        .header("content-length", 2 * HALF)
        .body(StreamBody::new(Box::pin(body)))
        .unwrap();
    let reply = world.server.call(request).await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
}
