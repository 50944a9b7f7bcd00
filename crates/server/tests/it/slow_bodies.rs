//! Bodies that arrive slowly, on Tokio's clock.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tower_service::Service as _;
use windlass_server::Stores;
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::media::Media;

use crate::world::World;

const MEDIA: Media = Media::new(5, 300_000);

/// Sends media at a rate, one piece per second. Returns the status and the number of committed
/// bytes afterwards.
async fn send(bytes_per_second: u64) -> (StatusCode, Option<u64>) {
    let stores = Stores {
        ledger: std::sync::Arc::new(MemoryLedger::new()),
        vault: std::sync::Arc::new(MemoryVault::new()),
    };
    let world = World::without_checkpoints(stores);
    let session = world.start(Some(MEDIA.len())).await.expect("it begins");
    let body = stream::unfold(0, move |at| async move {
        if at >= MEDIA.len() {
            return None;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let end = MEDIA.len().min(at + bytes_per_second);
        let piece = Frame::data(Bytes::from(MEDIA.bytes(at..end)));
        Some((Ok::<_, Infallible>(piece), end))
    });
    let last = MEDIA.len() - 1;
    let request = Request::put(&session)
        .header("content-range", format!("bytes 0-{last}/{}", MEDIA.len()))
        .header("content-length", MEDIA.len())
        .body(StreamBody::new(Box::pin(body)))
        .expect("it is valid");
    let reply = world.service().await.call(request).await;
    let status = reply.expect("it replies").status();
    let query = world.query(&session).await;
    let range = query.headers.get("range");
    let last = range.and_then(|range| range.to_str().ok()?.strip_prefix("bytes=0-")?.parse().ok());
    (status, last.map(|last: u64| last + 1))
}

#[tokio::test(start_paused = true)]
async fn body_that_drips_ends_and_what_has_arrived_is_kept() {
    let (status, committed) = send(100).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        committed,
        Some(60 * 100),
        "what has come in the first minute"
    );
}

#[tokio::test(start_paused = true)]
async fn body_at_the_limit_is_taken() {
    let (status, _) = send(512).await;
    assert_eq!(status, StatusCode::CREATED);
}
