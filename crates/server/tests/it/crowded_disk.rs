//! Many uploads that begin at once, although not all of them fit on the disk or into a quota.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::{HeaderName, Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_service::Service as _;
use windlass_server::{Principal, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use crate::world::{Peer as _, SMALL_MEDIA, World};

/// Media of one upload. There is room for ten.
const MEDIA: Media = Media::new(7, 300_000);
/// The rows of the uploads take some of the rest.
const ROOM: u64 = 3_250_000;
const UPLOADS: usize = 24;

const SIMPLE: &str = "/upload/farm/v1/animals?uploadType=media";

const BEFORE: &str = "--x\r\ncontent-type: application/json\r\n\r\n{}\r\n--x\r\n\r\n";
const AFTER: &str = "\r\n--x--\r\n";

fn memory() -> Stores {
    Stores {
        ledger: std::sync::Arc::new(MemoryLedger::new()),
        vault: std::sync::Arc::new(MemoryVault::new()),
    }
}

/// A request with a body that stops in the middle until it may continue.
struct Upload {
    method: &'static str,
    uri: String,
    headers: Vec<(HeaderName, String)>,
    /// The stated length, if the request states one.
    length: Option<usize>,
    /// The body before the stop, and after it.
    body: [Bytes; 2],
}

impl Upload {
    fn simple(media: Media, before: u64) -> Self {
        let all = Bytes::from(media.bytes(0..media.len()));
        let mut rest = all.clone();
        let begun = rest.split_to(usize::try_from(before).expect("it is short"));
        Self {
            method: "POST",
            uri: SIMPLE.to_owned(),
            headers: Vec::new(),
            length: Some(all.len()),
            body: [begun, rest],
        }
    }

    fn multipart() -> Self {
        let media = MEDIA.bytes(0..MEDIA.len());
        let rest = [&media[1000..], AFTER.as_bytes()].concat();
        let begun = [BEFORE.as_bytes(), &media[..1000]].concat();
        let kind = "multipart/related; boundary=x".to_owned();
        Self {
            uri: format!("{}?uploadType=multipart", farm::UPLOADS),
            headers: vec![(http::header::CONTENT_TYPE, kind)],
            length: Some(begun.len() + rest.len()),
            body: [begun.into(), rest.into()],
            ..Self::simple(MEDIA, 0)
        }
    }

    fn chunk(session: String) -> Self {
        let len = MEDIA.len();
        let range = format!("bytes 0-{}/{len}", len - 1);
        Self {
            method: "PUT",
            uri: session,
            headers: vec![(http::header::CONTENT_RANGE, range)],
            ..Self::simple(MEDIA, 0)
        }
    }

    /// Sends the request, and the second part of its body when `go` is true.
    async fn send(self, world: &World, mut go: watch::Receiver<bool>) -> StatusCode {
        let request = Request::builder().method(self.method).uri(&self.uri);
        let mut request = request.extension(Principal::new("alice"));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request = match self.length {
            Some(length) => request.header("content-length", length),
            None => request.header("transfer-encoding", "chunked"),
        };
        let [begun, rest] = self.body;
        let rest = async move {
            go.wait_for(|go| *go).await.expect("the test tells");
            rest
        };
        let pieces = stream::once(async { begun }).chain(stream::once(rest.boxed()));
        let pieces = pieces.filter(|piece| std::future::ready(!piece.is_empty()));
        let body = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        let request = request.body(StreamBody::new(body.boxed()));
        let reply = world.service().await.call(request.expect("it is valid"));
        reply.await.expect("it replies").status()
    }
}

/// Sends all uploads. Sends the second parts of their bodies when `waiting` uploads have no reply.
/// Returns the statuses of the replies before and after that.
async fn send_all(
    world: World,
    uploads: Vec<Upload>,
    waiting: usize,
) -> (Vec<StatusCode>, Vec<StatusCode>) {
    let world = std::sync::Arc::new(world);
    let (go, told) = watch::channel(false);
    let mut running = JoinSet::new();
    for upload in uploads {
        let (world, told) = (std::sync::Arc::clone(&world), told.clone());
        running.spawn(async move { upload.send(&world, told).await });
    }
    let mut early = Vec::new();
    while running.len() > waiting {
        early.extend(running.join_next().await.map(|done| done.expect("it ends")));
    }
    go.send(true).expect("they wait");
    (early, running.join_all().await)
}

async fn check_that_ten_fit(world: World, uploads: Vec<Upload>, created: StatusCode) {
    let (early, late) = send_all(world, uploads, 10).await;
    let refused = [StatusCode::SERVICE_UNAVAILABLE; UPLOADS - 10];
    assert_eq!(early, refused, "before their bodies");
    assert_eq!(late, [created; 10]);
}

#[tokio::test(start_paused = true)]
async fn simple_uploads_at_once_succeed_as_many_as_fit() {
    let world = World::with_room(memory(), ROOM, 0).await;
    let uploads = (0..UPLOADS).map(|_| Upload::simple(MEDIA, 0)).collect();
    check_that_ten_fit(world, uploads, StatusCode::OK).await;
}

#[tokio::test(start_paused = true)]
async fn multipart_uploads_at_once_succeed_as_many_as_fit() {
    let world = World::with_room(memory(), ROOM, 0).await;
    let uploads = (0..UPLOADS).map(|_| Upload::multipart()).collect();
    check_that_ten_fit(world, uploads, StatusCode::OK).await;
}

#[tokio::test(start_paused = true)]
async fn resumable_uploads_at_once_succeed_as_many_as_fit() {
    let world = World::with_room(memory(), ROOM, 0).await;
    let mut uploads = Vec::new();
    for _ in 0..UPLOADS {
        let session = world.start(Some(MEDIA.len())).await.expect("each fits");
        uploads.push(Upload::chunk(session));
    }
    check_that_ten_fit(world, uploads, StatusCode::CREATED).await;
}

#[tokio::test(start_paused = true)]
async fn session_whose_media_does_not_fit_stores_nothing_of_it() {
    let world = World::with_room(memory(), ROOM, 0).await;
    // A start brings no bytes, so it takes no room, whatever it declares.
    let session = world.start(Some(4_000_000)).await.expect("it begins");
    let range = "bytes 0-1249999/4000000";
    let refused = world.put(&session, range, vec![0; 1_250_000]).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let other = world.send("POST", SIMPLE, &[], vec![1; 1_250_000]).await;
    assert_eq!(other.status, 200, "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn media_above_its_limit_is_413_wherever_there_is_room() {
    let world = World::with_room(memory(), ROOM, 0).await;
    let huge = Upload {
        length: Some(1 << 50),
        ..Upload::simple(MEDIA, 0)
    };
    let (early, _) = send_all(world, vec![huge], 0).await;
    assert_eq!(early, [StatusCode::PAYLOAD_TOO_LARGE]);
}

#[tokio::test(start_paused = true)]
async fn media_of_the_ledger_begins_where_all_is_set_aside() {
    let world = World::with_room(memory(), ROOM, 0).await;
    let session = world.start(Some(ROOM - 50_000)).await.expect("it fits");
    // The session waits for its next chunk, and the room has become less than its claim.
    let range = format!("bytes 0-1249999/{}", ROOM - 50_000);
    let first = world.put(&session, &range, vec![0; 1_250_000]).await;
    assert_eq!(first.status, 308);
    let small = usize::try_from(SMALL_MEDIA).expect("it is short");
    world.start(Some(SMALL_MEDIA)).await.expect("it begins");
    let reply = world.send("POST", SIMPLE, &[], vec![1; small]).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn session_keeps_what_is_set_aside_until_its_next_chunk() {
    let world = World::with_room(memory(), ROOM, 0).await;
    let session = world.start(Some(2_500_000)).await.expect("it fits");
    let chunk = || vec![0; 1_250_000];
    let first = world
        .put(&session, "bytes 0-1249999/2500000", chunk())
        .await;
    assert_eq!(first.status, 308);
    let other = |len| world.send("POST", SIMPLE, &[], vec![1; len]);
    assert_eq!(other(1_000_000).await.status, 503);
    assert_eq!(other(500_000).await.status, 200);
    let last = world
        .put(&session, "bytes 1250000-2499999/2500000", chunk())
        .await;
    assert_eq!(last.status, 201, "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn session_with_bytes_goes_on_where_only_its_next_chunk_fits() {
    let world = World::with_room(memory(), ROOM, 0).await;
    let session = world.start(None).await.expect("it begins");
    let chunk = || vec![0; 1_310_720];
    let first = world.put(&session, "bytes 0-1310719/*", chunk()).await;
    assert_eq!(first.status, 308);
    let more = world
        .put(&session, "bytes 1310720-2621439/4000000", chunk())
        .await;
    assert_eq!(more.status, 308, "{more:?}");
    let last = "bytes 2621440-3999999/4000000";
    let refused = world.put(&session, last, vec![0; 1_378_560]).await;
    assert_eq!(refused.status, 503, "nothing of it would be of use");
}

#[tokio::test(start_paused = true)]
async fn uploads_without_a_length_share_a_quota_as_they_arrive() {
    let world = World::with_room(memory(), 1 << 30, ROOM).await;
    let chunked = |_| Upload {
        length: None,
        ..Upload::simple(MEDIA, MEDIA.len())
    };
    let (early, late) = send_all(world, (0..UPLOADS).map(chunked).collect(), 10).await;
    assert_eq!(early, [StatusCode::TOO_MANY_REQUESTS; UPLOADS - 10]);
    assert_eq!(late, [StatusCode::OK; 10]);
}

#[tokio::test(start_paused = true)]
async fn declared_length_is_reserved_in_the_quota_until_the_end() {
    let world = World::with_room(memory(), 1 << 30, 1_000_000).await;
    let large = Media::new(3, 800_000);
    let uploads = vec![
        Upload::simple(large, 100_000),
        Upload::simple(large, 100_000),
    ];
    let (early, late) = send_all(world, uploads, 1).await;
    assert_eq!(early, [StatusCode::TOO_MANY_REQUESTS]);
    assert_eq!(late, [StatusCode::OK]);
}
