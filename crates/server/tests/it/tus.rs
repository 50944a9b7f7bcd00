//! tus 1.0.0 at the upload path of a method.

use std::convert::Infallible;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::oneshot;
use tower_service::Service as _;
use windlass_digest::{Crc32c, Digests};
use windlass_store::{Ledger as _, SessionQuery, SessionState};
use windlass_testkit::media::Media;

use crate::world::{Body, LIFETIME, Peer as _, Reply, SharedStores, World};

const UPLOADS: &str = "/upload/farm/v1/animals";

/// Larger than what the ledger keeps itself.
const MEDIA: Media = Media::new(5, 100_000);

const VERSION: (&str, &str) = ("tus-resumable", "1.0.0");
const PART: (&str, &str) = ("content-type", "application/offset+octet-stream");

fn world() -> World {
    SharedStores::new().server()
}

async fn send(
    world: &World,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Reply {
    let headers = [&[VERSION], headers].concat();
    let reply = world.send(method, uri, &headers, body).await;
    assert_eq!(reply.headers["tus-resumable"], "1.0.0", "{reply:?}");
    reply
}

/// Creates an upload. Returns the target of its URL.
async fn create(world: &World, headers: &[(&str, &str)]) -> String {
    let metadata = format!(
        "filename {},filetype {}",
        STANDARD.encode("cow.png"),
        STANDARD.encode("image/png")
    );
    let metadata = ("upload-metadata", &*metadata);
    let created = send(
        world,
        "POST",
        UPLOADS,
        &[&[metadata], headers].concat(),
        Vec::new(),
    )
    .await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    assert!(created.body.is_empty());
    target_of(&created)
}

fn target_of(created: &Reply) -> String {
    let location = created.headers["location"].to_str().expect("it is text");
    let from = location.find("/upload/").expect("it is an upload path");
    location[from..].to_owned()
}

async fn patch(world: &World, target: &str, offset: u64, body: Vec<u8>) -> Reply {
    let offset = offset.to_string();
    send(
        world,
        "PATCH",
        target,
        &[PART, ("upload-offset", &offset)],
        body,
    )
    .await
}

async fn head(world: &World, target: &str) -> Reply {
    send(world, "HEAD", target, &[], Vec::new()).await
}

#[track_caller]
fn check(reply: &Reply, status: StatusCode, offset: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.headers["upload-offset"], offset, "{reply:?}");
}

#[tokio::test]
async fn upload_in_parts_becomes_a_resource_with_its_name() {
    let world = world();
    let target = create(&world, &[("upload-length", "100000")]).await;
    let first = patch(&world, &target, 0, MEDIA.bytes(0..70_000)).await;
    check(&first, StatusCode::NO_CONTENT, "70000");
    assert!(first.headers.contains_key("upload-expires"));
    let asked = head(&world, &target).await;
    check(&asked, StatusCode::OK, "70000");
    assert_eq!(asked.headers["upload-length"], "100000");
    assert_eq!(asked.headers["cache-control"], "no-store");
    assert_eq!(
        asked.headers["upload-metadata"],
        "filename Y293LnBuZw==,filetype aW1hZ2UvcG5n"
    );
    let last = patch(&world, &target, 70_000, MEDIA.bytes(70_000..100_000)).await;
    check(&last, StatusCode::NO_CONTENT, "100000");
    assert!(last.body.is_empty() && !last.headers.contains_key("upload-expires"));

    let resource = last.headers["content-location"]
        .to_str()
        .expect("it is text");
    let from = resource.find("/farm/").expect("it is the API's");
    let resource = world.call("GET", &resource[from..]).await;
    assert_eq!(resource.json()["name"], "cow.png");
    let media = world.media(&resource).await;
    assert!(media == MEDIA.whole(), "other media");

    let asked = head(&world, &target).await;
    check(&asked, StatusCode::OK, "100000");
    assert_eq!(asked.headers["upload-length"], "100000");
    let again = patch(&world, &target, 100_000, Vec::new()).await;
    check(&again, StatusCode::NO_CONTENT, "100000");
    assert_eq!(world.count().await, 1);
}

#[tokio::test]
async fn session_is_named_in_the_path_or_in_the_query() {
    let world = world();
    let created = send(
        &world,
        "POST",
        "/farm/v1/animals",
        &[("upload-length", "9")],
        Vec::new(),
    )
    .await;
    let target = target_of(&created);
    let rest = target.strip_prefix("/upload/-tus/").expect("it is tus's");
    let (id, plain) = rest.split_once('/').expect("the path follows");
    assert_eq!(plain, "farm/v1/animals");
    let in_query = format!("{UPLOADS}?uploadType=tus&upload_id={id}");
    check(
        &patch(&world, &target, 0, vec![7; 3]).await,
        StatusCode::NO_CONTENT,
        "3",
    );
    check(
        &patch(&world, &in_query, 3, vec![7; 3]).await,
        StatusCode::NO_CONTENT,
        "6",
    );
    // Also in other dialects, and to a client of tus that states nothing.
    assert_eq!(world.query(&target).await.committed(), 6);
    let asked = world.send("HEAD", &target, &[], "").await;
    check(&asked, StatusCode::OK, "6");
    for other in [
        format!("/upload/-tus/{id}/farm/v1/plants"),
        format!("/upload/-tus/{id}/farm/v1/animals/"),
        format!("/upload/-tus/{id}"),
        format!("/upload/-tus/{id}x/farm/v1/animals"),
        format!("/-tus/{id}/farm/v1/animals"),
        format!("{target}?upload_id={id}"),
        format!("{target}?upload_id=other"),
    ] {
        let refused = world.send("HEAD", &other, &[VERSION], "").await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{other}");
    }
    let gone = send(&world, "DELETE", &target, &[], Vec::new()).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn other_offset_is_a_conflict_and_changes_nothing() {
    let world = world();
    let target = create(&world, &[("upload-length", "100")]).await;
    patch(&world, &target, 0, vec![7; 60]).await;
    for offset in [0, 59, 61, 100] {
        let refused = patch(&world, &target, offset, vec![7; 10]).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{offset}");
    }
    check(&head(&world, &target).await, StatusCode::OK, "60");
    patch(&world, &target, 60, vec![7; 40]).await;
    let refused = patch(&world, &target, 60, vec![7; 40]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "it is finished");
}

#[tokio::test]
async fn bytes_of_a_part_that_breaks_off_are_kept() {
    let world = world();
    let target = create(&world, &[("upload-length", "100")]).await;
    let break_off = async |offset: &str, bytes: usize| {
        let headers = [VERSION, PART, ("upload-offset", offset)];
        let part = Body::Broken(vec![7; bytes]);
        world.try_send("PATCH", &target, &headers, part).await
    };
    break_off("0", 60).await;
    check(&head(&world, &target).await, StatusCode::OK, "60");
    assert_eq!(world.count().await, 0);
    // All bytes are there, but not the end of the request that brought them.
    break_off("60", 40).await;
    check(&head(&world, &target).await, StatusCode::OK, "100");
    assert_eq!(world.count().await, 1, "the question has ended the upload");
}

/// The checksum of a part, and whether it is that of the part.
fn checksum(part: &[u8], is_right: bool) -> String {
    let crc32c = if is_right {
        Digests::of(part).crc32c
    } else {
        Crc32c(1)
    };
    format!("crc32c {crc32c}")
}

#[tokio::test]
async fn part_with_another_checksum_leaves_nothing() {
    for length in [100, 3_000_000] {
        let world = world();
        let target = create(&world, &[("upload-length", &length.to_string())]).await;
        let half = length / 2;
        let send_part = async |offset: usize, is_right| {
            let part = vec![7; half];
            let checksum = checksum(&part, is_right);
            let headers = [
                PART,
                ("upload-offset", &*offset.to_string()),
                ("upload-checksum", &checksum),
            ];
            send(&world, "PATCH", &target, &headers, part).await
        };
        for offset in [0, half] {
            let refused = send_part(offset, false).await;
            assert_eq!(refused.status.as_u16(), 460, "{refused:?}");
            check(
                &head(&world, &target).await,
                StatusCode::OK,
                &offset.to_string(),
            );
            let end = (offset + half).to_string();
            check(&send_part(offset, true).await, StatusCode::NO_CONTENT, &end);
        }
        assert_eq!(world.count().await, 1);
    }
}

#[tokio::test]
async fn part_with_a_checksum_that_breaks_off_leaves_nothing() {
    let world = world();
    let target = create(&world, &[("upload-length", "3000000")]).await;
    let part = vec![7; 2_000_000];
    let checksum = checksum(&part, true);
    let headers = [
        VERSION,
        PART,
        ("upload-offset", "0"),
        ("upload-checksum", &checksum),
    ];
    world
        .try_send("PATCH", &target, &headers, Body::Broken(part))
        .await;
    check(&head(&world, &target).await, StatusCode::OK, "0");
    check(
        &patch(&world, &target, 0, vec![7; 3_000_000]).await,
        StatusCode::NO_CONTENT,
        "3000000",
    );
}

#[tokio::test]
async fn checksum_may_follow_in_a_trailer() {
    let world = world();
    let target = create(&world, &[("upload-length", "100")]).await;
    let part = vec![7; 100];
    let send_part = async |trailer: &str| {
        let headers = [
            VERSION,
            PART,
            ("upload-offset", "0"),
            ("trailer", "Upload-Checksum"),
        ];
        let mut trailers = HeaderMap::new();
        trailers.insert("upload-checksum", trailer.parse().expect("it is valid"));
        let body = Body::Trailed(part.clone(), trailers);
        world.send("PATCH", &target, &headers, body).await
    };
    let refused = send_part(&checksum(&part, false)).await;
    assert_eq!(refused.status.as_u16(), 460, "{refused:?}");
    let refused = send_part("sha3 AAAA").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    check(&head(&world, &target).await, StatusCode::OK, "0");
    check(
        &send_part(&checksum(&part, true)).await,
        StatusCode::NO_CONTENT,
        "100",
    );
}

#[tokio::test]
async fn creation_with_another_checksum_brings_no_data() {
    let stores = SharedStores::new();
    let world = stores.server();
    let headers = [
        PART,
        ("upload-length", "100"),
        ("upload-checksum", "crc32c AAAAAA=="),
    ];
    let refused = send(&world, "POST", UPLOADS, &headers, vec![7; 100]).await;
    assert_eq!(refused.status.as_u16(), 460, "{refused:?}");
    assert_eq!(world.count().await, 0);
    let sessions = stores.ledger.sessions(&SessionQuery::default()).await;
    let sessions = sessions.expect("memory can be read").sessions;
    let open = sessions
        .iter()
        .filter(|it| it.state == SessionState::Active);
    assert_eq!(open.count(), 0, "nobody knows its URI");
}

#[tokio::test]
async fn question_stops_a_running_part_and_tells_where_the_next_begins() {
    let world = world();
    let target = create(&world, &[("upload-length", "100")]).await;
    let (ask, asked) = oneshot::channel();
    let first = Ok::<_, Infallible>(Frame::data(Bytes::from(vec![7; 10])));
    let rest = async move {
        ask.send(()).expect("the test waits");
        std::future::pending().await
    };
    let body = stream::iter([first]).chain(stream::once(rest));
    let part = Request::patch(&target)
        .header(VERSION.0, VERSION.1)
        .header(PART.0, PART.1)
        .header("upload-offset", "0")
        .header("content-length", "100")
        .body(StreamBody::new(Box::pin(body)))
        .expect("it is valid");
    let mut service = world.service().await;
    let running = tokio::spawn(async move { service.call(part).await });
    asked.await.expect("the body is read to its pause");
    check(&head(&world, &target).await, StatusCode::OK, "10");
    let next = patch(&world, &target, 10, vec![7; 90]).await;
    check(&next, StatusCode::NO_CONTENT, "100");
    running.abort();
}

#[tokio::test]
async fn creation_may_bring_all_data_some_or_none() {
    let world = world();
    let with_data = async |length: &str, body: Vec<u8>| {
        let headers = [PART, ("upload-length", length)];
        send(&world, "POST", UPLOADS, &headers, body).await
    };
    let some = with_data("10", vec![7; 4]).await;
    check(&some, StatusCode::CREATED, "4");
    let end = patch(&world, &target_of(&some), 4, vec![7; 6]).await;
    check(&end, StatusCode::NO_CONTENT, "10");
    let all = with_data("10", vec![7; 10]).await;
    check(&all, StatusCode::CREATED, "10");
    assert!(all.headers.contains_key("content-location"));
    check(&head(&world, &target_of(&all)).await, StatusCode::OK, "10");
    let none = with_data("10", Vec::new()).await;
    check(&none, StatusCode::CREATED, "0");
    let refused = with_data("10", vec![7; 11]).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(world.count().await, 2);

    let other = [("content-type", "text/plain"), ("upload-length", "10")];
    let ignored = send(&world, "POST", UPLOADS, &other, vec![7; 4]).await;
    assert_eq!(ignored.status, StatusCode::CREATED);
    assert!(!ignored.headers.contains_key("upload-offset"));
    check(
        &head(&world, &target_of(&ignored)).await,
        StatusCode::OK,
        "0",
    );
}

#[tokio::test]
async fn empty_upload_ends_with_its_creation() {
    let world = world();
    let target = create(&world, &[("upload-length", "0")]).await;
    let asked = head(&world, &target).await;
    check(&asked, StatusCode::OK, "0");
    assert_eq!(asked.headers["upload-length"], "0");
    assert_eq!(world.count().await, 1);
}

#[tokio::test]
async fn length_may_come_with_a_later_part() {
    let world = world();
    let target = create(&world, &[("upload-defer-length", "1")]).await;
    check(
        &patch(&world, &target, 0, vec![7; 60]).await,
        StatusCode::NO_CONTENT,
        "60",
    );
    let asked = head(&world, &target).await;
    assert_eq!(asked.headers["upload-defer-length"], "1");
    assert!(!asked.headers.contains_key("upload-length"));
    let state = async |length: &str| {
        let headers = [PART, ("upload-offset", "60"), ("upload-length", length)];
        send(&world, "PATCH", &target, &headers, Vec::new()).await
    };
    assert_eq!(state("59").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(state("5000000").await.status, StatusCode::PAYLOAD_TOO_LARGE);
    check(&state("70").await, StatusCode::NO_CONTENT, "60");
    assert_eq!(state("71").await.status, StatusCode::BAD_REQUEST);
    let asked = head(&world, &target).await;
    assert_eq!(asked.headers["upload-length"], "70");
    assert!(!asked.headers.contains_key("upload-defer-length"));
    check(
        &patch(&world, &target, 60, vec![7; 10]).await,
        StatusCode::NO_CONTENT,
        "70",
    );
    assert_eq!(world.count().await, 1);
}

#[tokio::test]
async fn terminated_and_unknown_uploads_are_not_found() {
    let world = world();
    let target = create(&world, &[("upload-length", "100")]).await;
    let gone = send(&world, "DELETE", &target, &[], Vec::new()).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    let unknown = format!("{UPLOADS}?uploadType=tus&upload_id=unknown");
    for target in [&target, &unknown] {
        let asked = head(&world, target).await;
        assert_eq!(asked.status, StatusCode::NOT_FOUND);
        assert!(!asked.headers.contains_key("upload-offset"));
        assert_eq!(
            patch(&world, target, 0, vec![7]).await.status,
            StatusCode::NOT_FOUND
        );
        let gone = send(&world, "DELETE", target, &[], Vec::new()).await;
        assert_eq!(gone.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn upload_expires_at_the_time_that_its_replies_state() {
    let world = world();
    let headers = [("upload-length", "100")];
    let created = send(&world, "POST", UPLOADS, &headers, Vec::new()).await;
    assert_eq!(
        created.headers["upload-expires"],
        "Thu, 08 Jan 1970 00:00:00 GMT"
    );
    let target = target_of(&created);
    world
        .clock
        .advance(LIFETIME.saturating_sub(Duration::from_secs(1)));
    check(&head(&world, &target).await, StatusCode::OK, "0");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(head(&world, &target).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn methods_may_be_overridden() {
    let world = world();
    let target = create(&world, &[("upload-length", "10")]).await;
    let overridden = |method| ("x-http-method-override", method);
    let headers = [overridden("PATCH"), PART, ("upload-offset", "0")];
    let part = send(&world, "POST", &target, &headers, vec![7; 4]).await;
    check(&part, StatusCode::NO_CONTENT, "4");
    let gone = send(&world, "POST", &target, &[overridden("DELETE")], Vec::new()).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn malformed_requests_are_refused_with_the_version() {
    let world = world();
    let refused = send(&world, "POST", UPLOADS, &[], Vec::new()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let large = [("upload-length", "5000000")];
    let refused = send(&world, "POST", UPLOADS, &large, Vec::new()).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    let target = create(&world, &[("upload-length", "10")]).await;
    let text = [("content-type", "text/plain"), ("upload-offset", "0")];
    let refused = send(&world, "PATCH", &target, &text, vec![7]).await;
    assert_eq!(refused.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let more = patch(&world, &target, 0, vec![7; 11]).await;
    assert_eq!(more.status, StatusCode::PAYLOAD_TOO_LARGE);
    check(&head(&world, &target).await, StatusCode::OK, "0");

    let version = [("tus-resumable", "0.2.2"), ("upload-length", "1")];
    let refused = world.send("POST", UPLOADS, &version, "").await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(refused.headers["tus-version"], "1.0.0");
    let unstated = world.send("POST", UPLOADS, &[("upload-length", "1")], "");
    assert_eq!(unstated.await.status, StatusCode::PRECONDITION_FAILED);
}

#[tokio::test]
async fn options_tell_the_extensions_and_the_largest_upload() {
    let world = world();
    for path in [UPLOADS, "/farm/v1/animals"] {
        let told = world.call("OPTIONS", path).await;
        assert_eq!(told.status, StatusCode::NO_CONTENT, "{told:?}");
        assert_eq!(told.headers["tus-version"], "1.0.0");
        assert_eq!(told.headers["tus-max-size"], "4194304");
        let extensions = told.headers["tus-extension"].to_str().expect("it is text");
        assert!(extensions.starts_with("creation,creation-with-upload,"));
    }
    let preflight = [("access-control-request-method", "POST")];
    let none = world.send("OPTIONS", UPLOADS, &preflight, "").await;
    assert_eq!(none.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn session_is_changed_by_the_dialect_that_started_it_alone() {
    let world = world();
    let target = create(&world, &[("upload-length", "20")]).await;
    patch(&world, &target, 0, vec![7; 10]).await;
    let google = world.put(&target, "bytes 10-19/20", vec![7; 10]);
    assert_eq!(google.await.status, StatusCode::BAD_REQUEST);
    assert_eq!(world.query(&target).await.committed(), 10);

    let session = world.start(Some(20)).await.expect("it is Google's");
    world.put(&session, "bytes 0-9/20", vec![7; 10]).await;
    let asked = head(&world, &session).await;
    check(&asked, StatusCode::OK, "10");
    // Its client could take the upload for finished at its length.
    assert_eq!(asked.headers["upload-defer-length"], "1");
    let refused = patch(&world, &session, 10, vec![7; 10]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let refused = send(&world, "DELETE", &session, &[], Vec::new()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_eq!(world.query(&session).await.committed(), 10);
}

#[tokio::test]
async fn finished_upload_is_not_terminated() {
    let world = world();
    let target = create(&world, &[("upload-length", "1")]).await;
    patch(&world, &target, 0, vec![7]).await;
    let refused = send(&world, "DELETE", &target, &[], Vec::new()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(world.count().await, 1);
}
