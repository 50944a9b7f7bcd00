//! The dialect of the IETF's drafts (docs/protocol.md, 2.22).

use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::target_in;

use crate::server::{farm, own};

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

/// A request in a draft, or in the finished protocol, which has no version.
#[derive(Debug, Clone, Copy)]
struct Draft(Option<u8>);

impl Draft {
    fn is_up_to(self, number: u8) -> bool {
        self.0.is_some_and(|own| own <= number)
    }

    fn flag(self, is_complete: bool) -> (&'static str, &'static str) {
        match (self.is_up_to(3), is_complete) {
            (true, true) => ("Upload-Incomplete", "?0"),
            (true, false) => ("Upload-Incomplete", "?1"),
            (false, true) => ("Upload-Complete", "?1"),
            (false, false) => ("Upload-Complete", "?0"),
        }
    }

    fn request(self, verb: &str, target: &str) -> Request {
        let request = Request::new(verb, target);
        match self.0 {
            Some(number) => request.header("Upload-Draft-Interop-Version", number),
            None => request,
        }
    }

    fn part(self, target: &str, offset: u64, is_last: bool, body: &str) -> Request {
        let (name, value) = self.flag(is_last);
        let part = self
            .request("PATCH", target)
            .header("Upload-Offset", offset);
        let part = if self.is_up_to(5) {
            part
        } else {
            part.header("Content-Type", "application/partial-upload")
        };
        part.header(name, value).body(body)
    }

    /// Checks the state that a reply tells.
    #[track_caller]
    fn check(self, reply: &Reply, status: u16, is_complete: bool, offset: &str) {
        assert_eq!(reply.status, status, "{self:?}: {reply:?}");
        let (name, value) = self.flag(is_complete);
        assert_eq!(reply.header(name), Some(value), "{self:?}: {reply:?}");
        assert_eq!(reply.header("upload-offset"), Some(offset), "{self:?}");
        let version = self.0.map(|number| number.to_string());
        let told = reply.header("upload-draft-interop-version");
        assert_eq!(told, version.as_deref(), "{self:?}");
    }
}

#[test]
fn upload_in_parts_works_in_every_draft() {
    for draft in [None].into_iter().chain((3..=10).map(Some)).map(Draft) {
        let (name, value) = draft.flag(false);
        let creation = draft.request("POST", UPLOADS);
        let creation = creation.header("Content-Type", "image/png");
        let created = send(&creation.header(name, value).body("abc"));
        draft.check(&created, 201, false, "3");
        let target = target_of(&created);
        let stored = if draft.is_up_to(6) { 201 } else { 204 };
        let part = send(&draft.part(&target, 3, false, "def"));
        draft.check(&part, stored, false, "6");
        let asked = send(&draft.request("HEAD", &target));
        draft.check(&asked, 204, false, "6");
        let last = send(&draft.part(&target, 6, true, "ghi"));
        draft.check(&last, 201, true, "9");
        assert_eq!(last.field("size"), "9", "{draft:?}");
        let asked = send(&draft.request("HEAD", &target));
        draft.check(&asked, 204, true, "9");
    }
}

/// A whole upload in a draft that has interim replies.
fn whole(body: &str) -> Request {
    create("?1")
        .header("Upload-Draft-Interop-Version", 8)
        .body(body)
}

#[test]
fn interim_replies_to_pipelined_creations_come_before_their_own_reply() {
    let mut peer = RawPeer::connect(farm());
    let both = [whole("first"), whole("second!")].map(|request| request.to_bytes());
    peer.send(both.concat());
    let mut targets = Vec::new();
    for size in ["5", "7"] {
        let interim = peer.next_reply().unwrap();
        assert_eq!(interim.status, 104, "{interim:?}");
        targets.push(target_of(&interim));
        let reply = peer.next_reply().unwrap().expect(201);
        assert_eq!(reply.field("size"), size);
    }
    assert_ne!(targets[0], targets[1]);
}

#[test]
fn interim_reply_does_not_replace_100_continue() {
    let mut peer = RawPeer::connect(farm());
    let expecting = create("?1")
        .header("Upload-Draft-Interop-Version", 8)
        .header("Expect", "100-continue")
        .header("Content-Length", 3);
    peer.send(expecting.head_bytes());
    let mut statuses = [(); 2].map(|()| peer.next_reply().unwrap().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [100, 104]);
    peer.send("abc");
    peer.next_reply().unwrap().expect(201);
}

#[test]
fn client_of_http_1_0_gets_the_reply_alone() {
    let mut peer = RawPeer::connect(farm());
    let bytes = whole("abc").to_bytes();
    let text = String::from_utf8(bytes).unwrap();
    peer.send(text.replacen("HTTP/1.1", "HTTP/1.0", 1));
    let reply = peer.next_reply().unwrap().expect(201);
    assert_eq!(reply.field("size"), "3");
}

#[test]
fn finished_upload_repeats_its_reply_after_a_crash() {
    let mut server = own(&[]);
    let tus = |verb: &str, target: &str| {
        Request::new(verb, target)
            .header("Tus-Resumable", "1.0.0")
            .header("Content-Type", "application/offset+octet-stream")
            .header("Upload-Offset", 0)
    };
    let creation = create("?0").body("");
    let of_draft = target_of(&exchange(server.address(), &creation).expect(201));
    let last = patch(&of_draft, 0, "?1").body(MEDIA.whole());
    let finished = exchange(server.address(), &last).expect(201);
    let creation = Request::new("POST", UPLOADS)
        .header("Tus-Resumable", "1.0.0")
        .header("Upload-Length", MEDIA.len());
    let of_tus = target_of(&exchange(server.address(), &creation.body("")).expect(201));
    let last = tus("PATCH", &of_tus).body(MEDIA.whole());
    exchange(server.address(), &last).expect(204);

    server.kill9();
    server.start_again();
    let again = patch(&of_draft, MEDIA.len(), "?1").body("");
    let again = exchange(server.address(), &again).expect(201);
    assert_eq!(again.body, finished.body);
    let asked = exchange(server.address(), &Request::new("HEAD", &of_draft));
    assert_state(&asked.expect(204), "?1", MEDIA.len());
    let length = MEDIA.len().to_string();
    let head = Request::new("HEAD", &of_tus).header("Tus-Resumable", "1.0.0");
    let asked = exchange(server.address(), &head).expect(200);
    for name in ["upload-offset", "upload-length"] {
        assert_eq!(asked.header(name), Some(&*length), "{asked:?}");
    }
    let animals = exchange(server.address(), &farm::list("")).expect(200);
    assert_eq!(animals.field("items").as_array().map(Vec::len), Some(2));
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
