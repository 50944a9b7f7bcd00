//! Appends with gzip bodies: only the end of a body shows whether it is valid.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tower_service::Service as _;
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::encodings::gzip;
use windlass_testkit::media::Media;

use crate::power::{LocalStores, PoweredStores};
use crate::world::{Body, Peer as _, Reply, World};

/// Enough for several checkpoints.
const MEDIA: Media = Media::new(4, 4 << 20);

/// The number of bytes that are committed before the append, in a case.
const FIRST: u64 = 256 * 1024;

/// Stores that count calls.
struct Counted {
    world: World,
    calls: Arc<Faults>,
}

impl Counted {
    fn over(stores: Stores) -> Self {
        Self::with_fault(stores, Trigger::Never, InjectedFault::Fault)
    }

    fn with_fault(
        Stores { ledger, vault }: Stores,
        trigger: Trigger,
        fault: InjectedFault,
    ) -> Self {
        let calls = Arc::new(Faults::new(trigger, fault));
        let stores = Stores {
            ledger: Arc::new(FaultyLedger::new(ledger, Arc::clone(&calls))),
            vault: Arc::new(FaultyVault::new(vault, Arc::clone(&calls))),
        };
        let world = World::new(stores, Arc::default());
        Self { world, calls }
    }

    fn advances(&self) -> usize {
        self.calls.calls_of("commit_offset")
    }
}

async fn put_packed(world: &World, session: &str, first: u64, body: impl Into<Body>) -> Reply {
    let last = MEDIA.len() - 1;
    let range = format!("bytes {first}-{last}/{}", MEDIA.len());
    let headers = [
        ("content-range", range.as_str()),
        ("content-encoding", "gzip"),
    ];
    world.send("PUT", session, &headers, body).await
}

fn packed(first: u64) -> Vec<u8> {
    gzip(&MEDIA.bytes(first..MEDIA.len()))
}

fn damaged(first: u64) -> Vec<u8> {
    let mut packed = packed(first);
    *packed.last_mut().expect("gzip is never empty") ^= 1;
    packed
}

#[tokio::test]
async fn gzip_body_with_a_wrong_or_missing_end_commits_nothing() {
    for first in [0, FIRST] {
        let half = packed(first).len() / 2;
        let bodies = [
            (Body::Whole(damaged(first)), StatusCode::BAD_REQUEST),
            (
                Body::Broken(packed(first)[..half].to_vec()),
                StatusCode::SERVICE_UNAVAILABLE,
            ),
        ];
        for (body, status) in bodies {
            let local = LocalStores::new();
            let counted = Counted::over(local.stores());
            let world = &counted.world;
            let session = world.start(None).await.unwrap();
            if first > 0 {
                let body = MEDIA.bytes(0..first);
                let range = format!("bytes 0-{}/*", first - 1);
                assert_eq!(world.put(&session, &range, body).await.committed(), first);
            }
            let before = counted.advances();
            let reply = put_packed(world, &session, first, body).await;
            assert_eq!(reply.status, status, "{reply:?}");
            assert_eq!(
                counted.advances(),
                before,
                "nothing is committed on the way"
            );
            let deleted = counted.calls.calls_of("delete");
            assert_eq!(
                deleted,
                usize::from(first == 0),
                "what no row names is gone"
            );
            assert_eq!(world.query(&session).await.committed(), first);

            let again = put_packed(world, &session, first, packed(first)).await;
            assert_eq!(again.status, StatusCode::CREATED, "{again:?}");
            assert!(world.media(&again).await == MEDIA.whole(), "other media");
        }
    }
}

/// The checksum was right, so each byte that fitted is a byte that the client meant.
#[tokio::test]
async fn gzip_body_whose_last_bytes_find_no_space_keeps_what_was_written() {
    let stores = || Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
    };
    let counted = Counted::over(stores());
    let session = counted.world.start(None).await.unwrap();
    let reply = put_packed(&counted.world, &session, 0, packed(0)).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    let calls = counted.calls.names();
    let last = calls.iter().rposition(|call| *call == "append");
    let last = 1 + last.expect("it is written") as u64;

    let counted = Counted::with_fault(stores(), Trigger::Once(last), InjectedFault::NoSpace);
    let world = &counted.world;
    let session = world.start(None).await.unwrap();
    let reply = put_packed(world, &session, 0, packed(0)).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
    let kept = world.query(&session).await.committed();
    assert!(kept > 0 && kept < MEDIA.len(), "{kept} bytes");
    let rest = put_packed(world, &session, kept, packed(kept)).await;
    assert_eq!(rest.status, StatusCode::CREATED, "{rest:?}");
    assert!(world.media(&rest).await == MEDIA.whole(), "other media");
}

#[tokio::test(start_paused = true)]
async fn gzip_bytes_before_a_pause_are_written_but_not_committed() {
    let counted = Counted::over(Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
    });
    let session = counted.world.start(None).await.unwrap();
    let packed = packed(0);
    let (before, after) = packed.split_at(packed.len() / 2);
    let frame = |bytes: &[u8]| Ok::<_, io::Error>(Frame::data(Bytes::copy_from_slice(bytes)));
    let (before, after) = (frame(before), frame(after));
    let calls = Arc::clone(&counted.calls);
    let pause = async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_ne!(calls.calls_of("append"), 0, "it does not wait in memory");
        assert_eq!(calls.calls_of("commit_offset"), 0);
        after
    };
    let body = stream::once(async { before }).chain(stream::once(pause));
    let append = Request::put(&session)
        .header("content-encoding", "gzip")
        .header("transfer-encoding", "chunked")
        .body(StreamBody::new(Box::pin(body)))
        .expect("it is valid");
    let mut server = counted.world.service().await;
    let reply = server.call(append).await.expect("it is infallible");
    assert_eq!(reply.status(), StatusCode::CREATED);
}
