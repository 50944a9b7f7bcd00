//! Failed uploads, and the fate of their media and their sessions.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tower_service::Service as _;
use windlass_discovery::Api;
use windlass_server::{ServedApi, Stores};
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault, ObjectVault};
use windlass_store::{
    ExtentChanges, Ledger as _, MediaId, MediaLocation, MediaRef, NewSession, OffsetCommit,
    Progress, SessionId, SessionState, Timestamp, Vault as _,
};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use crate::world::{Body, LIFETIME, ManualClock, Peer as _, SMALL_MEDIA, World, limits};

/// Larger than an animal's limit, which is 4 MB.
const TOO_LARGE: Media = Media::new(5, 5 << 20);

/// A server that commits when a request ends, and its vault.
fn without_checkpoints() -> (World, MemoryVault) {
    let vault = MemoryVault::new();
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(vault.clone()),
    };
    (World::without_checkpoints(stores), vault)
}

async fn count(vault: &MemoryVault) -> usize {
    let listing = vault.list(None, 10).await.expect("it is in memory");
    listing.stored.len()
}

#[tokio::test(start_paused = true)]
async fn unreferenced_media_with_a_wrong_digest_is_deleted_at_once() {
    let (world, vault) = without_checkpoints();
    let media = Media::new(1, 3_000_000);
    let session = world.start(Some(media.len())).await.unwrap();
    let headers = [("x-goog-hash", "crc32c=AAAAAA==")];
    let reply = world.send("PUT", &session, &headers, media).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
    assert_eq!(world.query(&session).await.status, StatusCode::GONE);
    assert_eq!(count(&vault).await, 0);
}

/// In a vault of objects, media arrives in several and is sealed as one.
#[tokio::test(start_paused = true)]
async fn media_of_one_request_leaves_no_object_beside_the_sealed_one() {
    let vault = ObjectVault::new(NonZeroU64::new(16).expect("it is not zero"));
    let world = World::without_checkpoints(Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(vault.clone()),
    });
    let media = Media::new(4, 3 * SMALL_MEDIA + 1);
    let headers = [("x-goog-hash", "crc32c=AAAAAA==")];
    let uri = format!("{}?uploadType=media", farm::UPLOADS);
    let refused = world.send("POST", &uri, &headers, media).await;
    assert_eq!((refused.status.as_u16(), vault.objects()), (400, 0));
    let reply = world
        .simple(farm::ANIMALS, "image/png", &media.whole())
        .await;
    assert_eq!((reply.status.as_u16(), vault.objects()), (200, 1));
    assert_eq!(world.media(&reply).await, media.whole());
}

#[tokio::test(start_paused = true)]
async fn unreferenced_media_over_the_limit_is_deleted_at_once() {
    let (world, vault) = without_checkpoints();
    let session = world.start(None).await.unwrap();
    assert_eq!(exceed_limit(&world, &session, 0).await, 413);
    assert_eq!(world.query(&session).await.status, StatusCode::GONE);
    assert_eq!(count(&vault).await, 0);
}

#[tokio::test(start_paused = true)]
async fn unreferenced_media_is_deleted_at_once_also_if_small_media_was_committed() {
    let (world, vault) = without_checkpoints();
    let session = world.start(None).await.unwrap();
    let small = Body::Whole(TOO_LARGE.bytes(0..10));
    let reply = world.put(&session, "bytes 0-9/*", small).await;
    assert_eq!((reply.committed(), count(&vault).await), (10, 0));
    assert_eq!(exceed_limit(&world, &session, 10).await, 413);
    assert_eq!(world.query(&session).await.status, StatusCode::GONE);
    assert_eq!(count(&vault).await, 0);
}

/// A sweep that began before the end of the session is committed would find nothing, and the next
/// sweep follows a minute later.
#[tokio::test(start_paused = true)]
async fn media_of_a_failed_session_is_swept_soon_also_if_its_end_takes_long() {
    let slow = InjectedFault::Slow(Duration::from_secs(10));
    let ends = Arc::new(Faults::new(Trigger::CallsOf("end"), slow));
    let vault = MemoryVault::new();
    let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), ends);
    let stores = Stores {
        ledger: Arc::new(ledger),
        vault: Arc::new(vault.clone()),
    };
    let world = World::without_checkpoints(stores);
    let serving = world.serve().await;
    let media = Media::new(3, 2 * SMALL_MEDIA);
    let session = world.start(Some(media.len())).await.unwrap();
    let part = Body::Whole(media.bytes(0..media.len() - 1));
    let range = format!("bytes 0-{}/{}", media.len() - 2, media.len());
    assert_eq!(world.put(&session, &range, part).await.status, 308);
    assert_eq!(count(&vault).await, 1);
    let last = format!("bytes {0}-{0}/{1}", media.len() - 1, media.len());
    let headers = [
        ("content-range", last.as_str()),
        ("x-goog-hash", "crc32c=AAAAAA=="),
    ];
    let rest = Body::Whole(media.bytes(media.len() - 1..media.len()));
    let reply = world.send("PUT", &session, &headers, rest).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(count(&vault).await, 0);
    serving.stop().await.unwrap();
}

/// It is computed from the stored media, and only once the session is finishing.
#[tokio::test(start_paused = true)]
async fn digest_that_comes_last_is_checked_also_after_a_crash() {
    let media = Media::new(3, 2 * SMALL_MEDIA);
    let right = media.md5();
    for (stated, expected) in [(right.as_str(), [201, 201]), (OTHER_MD5, [400, 410])] {
        let (ledger, vault) = (Arc::new(MemoryLedger::new()), MemoryVault::new());
        let unreadable = Faults::new(Trigger::CallsOf("read"), InjectedFault::Unavailable);
        let first = World::without_checkpoints(Stores {
            ledger: Arc::clone(&ledger) as Arc<_>,
            vault: Arc::new(FaultyVault::new(
                Arc::new(vault.clone()),
                Arc::new(unreadable),
            )),
        });
        let session = first.start(Some(media.len())).await.unwrap();
        let part = Body::Whole(media.bytes(0..media.len() - 1));
        let range = format!("bytes 0-{}/{}", media.len() - 2, media.len());
        assert_eq!(first.put(&session, &range, part).await.status, 308);
        let last = format!("bytes {0}-{0}/{1}", media.len() - 1, media.len());
        let hash = format!("md5={stated}");
        let headers = [
            ("content-range", last.as_str()),
            ("x-goog-hash", hash.as_str()),
        ];
        let rest = Body::Whole(media.bytes(media.len() - 1..media.len()));
        let reply = first.send("PUT", &session, &headers, rest).await;
        assert_eq!(reply.status, 503, "{reply:?}");
        drop(first);
        ledger.crash();
        vault.crash();
        let second = World::without_checkpoints(Stores {
            ledger,
            vault: Arc::new(vault),
        });
        for expected in expected {
            let status = second.query(&session).await.status;
            assert_eq!(status.as_u16(), expected, "{stated}");
        }
    }
}

/// The MD5 of nothing.
const OTHER_MD5: &str = "1B2M2Y8AsgTpgAmY7PhCfg==";

/// Sends media from `offset` on until it exceeds the limit of the method. Returns the status.
async fn exceed_limit(world: &World, session: &str, offset: u64) -> u16 {
    let part = |first| {
        let part = TOO_LARGE.bytes(first..TOO_LARGE.len().min(first + (1 << 20)));
        Ok::<_, io::Error>(Frame::data(Bytes::from(part)))
    };
    let parts = (offset..TOO_LARGE.len()).step_by(1 << 20).map(part);
    let append = Request::put(session)
        .header("content-range", format!("bytes {offset}-*/*"))
        .header("transfer-encoding", "chunked")
        .body(StreamBody::new(stream::iter(parts.collect::<Vec<_>>())))
        .expect("it is valid");
    let reply = world.service().await.call(append).await;
    reply.expect("it cannot fail").status().as_u16()
}

/// The limit of small media may be lowered between two processes of a server.
#[tokio::test(start_paused = true)]
async fn finish_that_moves_small_media_to_a_full_disk_can_be_repeated() {
    let media = Media::new(2, 2 * SMALL_MEDIA);
    let ledger = Arc::new(MemoryLedger::new());
    let vault = Arc::new(MemoryVault::new());
    let stores = |vault| Stores {
        ledger: Arc::clone(&ledger) as _,
        vault,
    };
    let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    let farm = ServedApi::with_default_handler(farm);
    let mut limits = limits();
    limits.small_media = media.len();
    let first = World::limited(
        farm,
        stores(Arc::clone(&vault) as _),
        Arc::default(),
        limits,
    );
    let session = first.start(None).await.unwrap();
    let range = format!("bytes 0-{}/*", media.len() - 1);
    let reply = first
        .put(&session, &range, Body::Whole(media.whole()))
        .await;
    assert_eq!((reply.committed(), count(&vault).await), (media.len(), 0));

    let writes = Faults::new(Trigger::CallsOf("append"), InjectedFault::NoSpace);
    let full = FaultyVault::new(Arc::clone(&vault) as _, Arc::new(writes));
    let end = format!("bytes */{}", media.len());
    let full = World::new(stores(Arc::new(full)), Arc::default());
    let reply = full.put(&session, &end, Body::Whole(Vec::new())).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
    let body = String::from_utf8_lossy(&reply.body);
    assert!(body.contains("no space"), "{body}");

    let next = World::new(stores(vault), Arc::default());
    let reply = next.put(&session, &end, Body::Whole(Vec::new())).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    assert_eq!(next.media(&reply).await, media.whole());
}

/// A tag need not be ASCII (RFC 9110, 8.8.3). Without its condition the upload would replace the
/// media.
#[tokio::test]
async fn upload_on_condition_of_a_tag_that_is_not_ascii_is_refused() {
    let (world, _) = without_checkpoints();
    let old = Media::new(7, 100);
    let reply = world.simple(farm::ANIMALS, "image/png", &old.whole()).await;
    let uri = format!("{}/{}?uploadType=media", farm::UPLOADS, reply.field("id"));
    for tag in ["\"é\"", "W/\"é\"", "é"] {
        let headers = [("if-match", tag)];
        let refused = world.send("PUT", &uri, &headers, "new").await;
        assert_eq!(refused.status, 412, "{tag}: {refused:?}");
    }
    assert_eq!(world.media(&reply).await, old.whole());
}

/// A session in the state *finishing*, with a start request that no version of the server has
/// written.
async fn finishing(ledger: &MemoryLedger) -> SessionId {
    let id = SessionId::from_bytes([1; 32]);
    let session = NewSession {
        id,
        context: b"?".to_vec(),
        created: Timestamp::from_millis(0),
        expires: Timestamp::from_millis(0).saturating_add(LIFETIME),
        total: Some(1000),
        owner: None,
        dialect: "google".to_owned(),
    };
    ledger.start(session).await.expect("it is new");
    let leased = ledger.lease(id).await.expect("it is in memory");
    let held = leased.expect("it was started").lease;
    let media = MediaRef {
        location: MediaLocation::Vault,
        id: MediaId::from_bytes([1; 16]),
    };
    let advance = OffsetCommit {
        extents: ExtentChanges::default(),
        from: 0,
        progress: Progress {
            offset: 1000,
            media: Some(media),
            ..Progress::none(Some(1000))
        },
        small_media: None,
        state: SessionState::Finishing,
        expires: None,
        releases: true,
    };
    let advanced = ledger.commit_offset(id, held, advance).await;
    advanced.expect("it is leased");
    id
}

/// All of its bytes are acknowledged, and another version of the server may still be able to finish
/// it.
#[tokio::test(start_paused = true)]
async fn finishing_session_with_an_unreadable_start_fails_a_day_after_its_expiry() {
    let ledger = Arc::new(MemoryLedger::new());
    let id = finishing(&ledger).await;
    let stores = Stores {
        ledger: Arc::clone(&ledger) as Arc<_>,
        vault: Arc::new(MemoryVault::new()),
    };
    let clock: Arc<ManualClock> = Arc::default();
    let world = World::new(stores, Arc::clone(&clock));
    let serving = world.serve().await;
    let state = async || ledger.session(id).await.unwrap().unwrap().state;
    // The clock of the timers, which stands still while anything else is done.
    let looks = Duration::from_secs(5 * 60);
    tokio::time::sleep(looks).await;
    assert_eq!(state().await, SessionState::Finishing);
    clock.advance(LIFETIME);
    tokio::time::sleep(looks).await;
    assert_eq!(state().await, SessionState::Finishing);
    clock.advance(Duration::from_secs(24 * 60 * 60));
    tokio::time::sleep(looks).await;
    // The sweep may have forgotten it already.
    let session = ledger.session(id).await.unwrap();
    assert!(
        session.is_none_or(|session| session.state == SessionState::Failed),
        "it must have ended"
    );
    serving.stop().await.unwrap();
}
