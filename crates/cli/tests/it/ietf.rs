//! The dialect of the IETF's drafts (docs/protocol.md, 2.22).

use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::target_in;

use crate::server::farm;

const MEDIA: Media = Media::new(41, 100_000);

const MISMATCH: &str = "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";
const INCONSISTENT: &str =
    "https://iana.org/assignments/http-problem-types#inconsistent-upload-length";

fn create(complete: &str) -> Request {
    Request::new("POST", UPLOADS)
        .header("Content-Type", "image/png")
        .header("Upload-Complete", complete)
}

/// Returns the target of a new upload of this length.
#[track_caller]
fn begin(length: u64) -> String {
    let request = create("?0").header("Upload-Length", length).body("");
    target_of(&exchange(farm(), &request).expect(201))
}

#[track_caller]
fn target_of(reply: &Reply) -> String {
    target_in(reply, "location").expect("it is an absolute URI")
}

fn patch(target: &str, offset: u64, complete: &str) -> Request {
    Request::new("PATCH", target)
        .header("Content-Type", "application/partial-upload")
        .header("Upload-Offset", offset)
        .header("Upload-Complete", complete)
}

fn send(request: &Request) -> Reply {
    exchange(farm(), request)
}

fn head(target: &str) -> Reply {
    send(&Request::new("HEAD", target))
}

#[track_caller]
fn assert_state(reply: &Reply, complete: &str, offset: u64) {
    assert_eq!(reply.header("upload-complete"), Some(complete), "{reply:?}");
    let offset = offset.to_string();
    assert_eq!(reply.header("upload-offset"), Some(&*offset), "{reply:?}");
}

#[track_caller]
fn assert_problem(reply: &Reply, status: u16, kind: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    let content_type = reply.header("content-type");
    assert_eq!(content_type, Some("application/problem+json"));
    assert_eq!(reply.field("type"), kind);
    assert_eq!(reply.header("upload-complete"), Some("?0"));
}

#[test]
fn upload_goes_on_where_its_parts_have_ended() {
    let target = begin(MEDIA.len());
    let reply = head(&target).expect(204);
    assert_state(&reply, "?0", 0);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("upload-length"), Some("100000"));
    assert!(
        reply
            .header("upload-limit")
            .unwrap()
            .starts_with("max-age=")
    );

    let part = patch(&target, 0, "?0").body(MEDIA.bytes(0..30_000));
    assert_state(&send(&part).expect(204), "?0", 30_000);
    assert_state(&head(&target).expect(204), "?0", 30_000);
    let rest = patch(&target, 30_000, "?1").body(MEDIA.bytes(30_000..100_000));
    let reply = send(&rest).expect(201);
    assert_state(&reply, "?1", 100_000);
    farm::assert_media(farm(), &reply, MEDIA);

    let reply = head(&target).expect(204);
    assert_state(&reply, "?1", 100_000);
    assert_eq!(reply.header("upload-length"), Some("100000"));
    // The final reply may be lost. An empty part at the end gets it again.
    let again = send(&patch(&target, 100_000, "?1").body("")).expect(201);
    assert_eq!(
        again.field("id"),
        reply_id(&send(&patch(&target, 100_000, "?1").body("")))
    );
}

fn reply_id(reply: &Reply) -> serde_json::Value {
    reply.field("id")
}

#[test]
fn whole_upload_takes_one_request() {
    let whole = create("?1").body(MEDIA.whole());
    let reply = send(&whole).expect(201);
    assert_state(&reply, "?1", MEDIA.len());
    farm::assert_media(farm(), &reply, MEDIA);
    let empty = create("?1").header("Upload-Length", 0).body("");
    let reply = send(&empty).expect(201);
    assert_state(&reply, "?1", 0);
}

#[test]
fn upload_of_unknown_length_ends_with_its_last_part() {
    let request = create("?0").body(MEDIA.bytes(0..10));
    let reply = send(&request).expect(201);
    assert_state(&reply, "?0", 10);
    let target = target_of(&reply);
    assert_eq!(head(&target).header("upload-length"), None);
    let rest = patch(&target, 10, "?1").body(MEDIA.bytes(10..100_000));
    let reply = send(&rest).expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
    assert_eq!(head(&target).header("upload-length"), Some("100000"));
}

#[test]
fn part_at_another_offset_is_a_conflict_that_changes_nothing() {
    let target = begin(100);
    send(&patch(&target, 0, "?0").body("abc")).expect(204);
    for offset in [0, 1, 4, 99] {
        let reply = send(&patch(&target, offset, "?0").body("x"));
        assert_problem(&reply, 409, MISMATCH);
        assert_state(&reply, "?0", 3);
        assert_eq!(reply.field("expected-offset"), 3);
        assert_eq!(reply.field("provided-offset"), offset);
    }
    assert_state(&head(&target), "?0", 3);
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let other = create("?1").header("Upload-Length", 100).body("12345");
    assert_problem(&send(&other), 400, INCONSISTENT);
    let target = begin(100);
    let changed = patch(&target, 0, "?0").header("Upload-Length", 50);
    assert_problem(&send(&changed.body("abc")), 400, INCONSISTENT);
    let short = patch(&target, 0, "?1").body("abc");
    assert_problem(&send(&short), 400, INCONSISTENT);
    assert_state(&head(&target).expect(204), "?0", 0);
}

#[test]
fn more_than_the_length_ends_the_upload() {
    for begun in [0, 50] {
        let target = begin(50);
        if begun > 0 {
            let all = patch(&target, 0, "?0").body(MEDIA.bytes(0..50));
            assert_state(&send(&all).expect(204), "?0", 50);
        }
        let more = patch(&target, begun, "?0").body(MEDIA.bytes(0..100));
        assert_problem(&send(&more), 400, INCONSISTENT);
        head(&target).expect(410);
    }
}

#[test]
fn cancelled_upload_is_gone() {
    let target = begin(100);
    send(&Request::new("DELETE", &target)).expect(204);
    head(&target).expect(404);
    assert_eq!(send(&patch(&target, 0, "?0").body("a")).status, 404);
    send(&Request::new("DELETE", &target)).expect(404);
}

#[test]
fn options_state_the_limits_of_an_upload() {
    let reply = send(&Request::new("OPTIONS", UPLOADS)).expect(204);
    assert!(reply.header("upload-limit").unwrap().contains("max-size="));
    let patches = reply.header("accept-patch");
    assert_eq!(patches, Some("application/partial-upload"));
}

#[test]
fn old_draft_has_its_own_flag_and_status() {
    let request = Request::new("POST", UPLOADS)
        .header("Content-Type", "image/png")
        .header("Upload-Draft-Interop-Version", 3)
        .header("Upload-Incomplete", "?1");
    let reply = send(&request.body("abc")).expect(201);
    assert_eq!(reply.header("upload-incomplete"), Some("?1"));
    assert_eq!(reply.header("upload-draft-interop-version"), Some("3"));
    let part = Request::new("PATCH", target_of(&reply))
        .header("Upload-Draft-Interop-Version", 3)
        .header("Upload-Offset", 3);
    let more = part.clone().header("Upload-Incomplete", "?1");
    send(&more.body("")).expect(201);
    let reply = send(&part.body("def")).expect(201);
    assert_eq!(reply.header("upload-incomplete"), Some("?0"));
    assert_eq!(reply.header("upload-offset"), Some("6"));
}

#[test]
fn client_of_a_draft_is_told_of_its_upload_before_the_reply() {
    let mut peer = RawPeer::connect(farm());
    let request = create("?1").header("Upload-Draft-Interop-Version", 6);
    peer.send(request.header("Content-Length", MEDIA.len()).head_bytes());
    let interim = peer.next_reply().unwrap();
    assert_eq!(interim.status, 104);
    assert_eq!(interim.header("upload-draft-interop-version"), Some("6"));
    let target = target_of(&interim);
    // Bytes of small media are committed at the end only.
    peer.send(MEDIA.bytes(0..90_000));
    // The next commit does not wait for the body.
    let progress = peer.next_reply().unwrap();
    assert_eq!(progress.status, 104);
    let offset: u64 = progress.header("upload-offset").unwrap().parse().unwrap();
    assert!((1..=90_000).contains(&offset), "{offset}");
    assert_eq!(progress.header("location"), None);
    drop(peer);
    // What has been announced is durable.
    let asked = head(&target).expect(204);
    let committed: u64 = asked.header("upload-offset").unwrap().parse().unwrap();
    assert!(committed >= offset, "{committed}");
    let rest = patch(&target, committed, "?1").body(MEDIA.bytes(committed..100_000));
    farm::assert_media(farm(), &send(&rest).expect(201), MEDIA);
}

#[test]
fn client_that_announces_no_draft_gets_no_interim_reply() {
    let mut peer = RawPeer::connect(farm());
    peer.send(create("?1").body(MEDIA.whole()).to_bytes());
    assert_eq!(peer.next_reply().unwrap().status, 201);
}

#[test]
fn flag_of_urlsession_changes_no_upload_of_google() {
    let added = |request: Request| {
        request
            .header("Upload-Complete", "?1")
            .header("Upload-Draft-Interop-Version", 6)
    };
    let simple = send(&added(farm::simple(MEDIA))).expect(200);
    assert_eq!(simple.header("upload-complete"), None);
    let session = farm::begin(farm(), "urlsession");
    let reply = session.exchange(&added(session.ranged("bytes */*")).body(""));
    assert_eq!(reply.status, 308);
    let mut peer = RawPeer::connect(farm());
    let whole = added(session.ranged("bytes 0-99999/100000"));
    peer.send(whole.body(MEDIA.whole()).to_bytes());
    let reply = peer.next_reply().unwrap().expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn session_of_another_dialect_is_not_changed() {
    let session = farm::begin(farm(), "google's");
    let target =
        format!("{}&", session.target()).replace("uploadType=resumable", "uploadType=ietf");
    assert_eq!(send(&patch(&target, 0, "?1").body("abc")).status, 400);
    assert_state(&head(&target).expect(204), "?0", 0);
    session.query().expect(308);
}

#[test]
fn digest_of_the_whole_is_checked_at_the_end() {
    let other = Media::new(42, MEDIA.len());
    for (digest, is_right) in [(MEDIA.sha256(), true), (other.sha256(), false)] {
        let request = create("?0").header("Repr-Digest", format!("sha-256=:{digest}:"));
        let target = target_of(&send(&request.body("")).expect(201));
        let reply = send(&patch(&target, 0, "?1").body(MEDIA.whole()));
        if is_right {
            farm::assert_media(farm(), &reply.expect(201), MEDIA);
        } else {
            reply.expect(400);
        }
    }
}

#[test]
fn part_with_another_digest_leaves_nothing() {
    let other = Media::new(42, MEDIA.len());
    let digest = |media: Media| format!("sha-256=:{}:", media.sha256());
    let request = create("?1").header("Content-Digest", digest(other));
    send(&request.body(MEDIA.whole())).expect(400);

    let target = begin(MEDIA.len());
    let part = |media| {
        let part = patch(&target, 0, "?0").header("Content-Digest", digest(media));
        send(&part.body(MEDIA.whole()))
    };
    let refused = part(other);
    assert_problem(&refused, 400, "about:blank");
    assert_state(&head(&target).expect(204), "?0", 0);
    assert_state(&part(MEDIA).expect(204), "?0", MEDIA.len());
}
