//! The dialect `X-Goog-Upload` (docs/protocol.md, 2.12).

use std::net::SocketAddr;
use std::ops::Range;

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session, target_in};

use crate::server::{farm, own, pond};

const CHUNK: u64 = CHUNK_GRANULARITY;
const MEDIA: Media = Media::new(31, 3 * CHUNK + 7);

/// A session as its client knows it.
struct Upload {
    address: SocketAddr,
    target: String,
}

impl Upload {
    #[track_caller]
    fn start(address: SocketAddr, name: &str) -> Self {
        Self::of(address, &start(&farm::named(name)))
    }

    /// A session with this declared length of its media.
    #[track_caller]
    fn declared(address: SocketAddr, name: &str, length: u64) -> Self {
        let header = "X-Goog-Upload-Header-Content-Length";
        let start = start_head().header(header, length);
        Self::of(address, &start.body(farm::named(name)))
    }

    #[track_caller]
    fn of(address: SocketAddr, start: &Request) -> Self {
        let reply = exchange(address, start).expect(200);
        assert_status(&reply, "active");
        let target = target_in(&reply, "x-goog-upload-url").expect("it is an absolute URI");
        Self { address, target }
    }

    fn request(&self, command: &str) -> Request {
        Request::new("POST", &self.target).header("X-Goog-Upload-Command", command)
    }

    fn at(&self, command: &str, offset: u64) -> Request {
        self.request(command).header("X-Goog-Upload-Offset", offset)
    }

    #[track_caller]
    fn send(&self, request: &Request) -> Reply {
        exchange(self.address, request)
    }

    #[track_caller]
    fn upload(&self, range: Range<u64>) -> Reply {
        let request = self.at("upload", range.start);
        self.send(&request.body(MEDIA.bytes(range)))
    }

    #[track_caller]
    fn upload_and_finalize(&self, range: Range<u64>) -> Reply {
        let request = self.at("upload, finalize", range.start);
        self.send(&request.body(MEDIA.bytes(range)))
    }

    #[track_caller]
    fn bare(&self, command: &str) -> Reply {
        self.send(&self.request(command).body(""))
    }

    /// The same session in Google's other dialect.
    fn in_google_s_dialect(&self) -> Session {
        Session::at(self.address, &self.target)
    }
}

fn start_head() -> Request {
    Request::new("POST", farm::UPLOADS)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start")
        .header("X-Goog-Upload-Header-Content-Type", "image/png")
}

fn start(metadata: &str) -> Request {
    start_head().body(metadata)
}

#[track_caller]
fn assert_status(reply: &Reply, status: &str) {
    let found = reply.header("x-goog-upload-status");
    assert_eq!(found, Some(status), "{reply:?}");
}

#[track_caller]
fn assert_active(reply: &Reply, received: u64) {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_status(reply, "active");
    let size = reply.header("x-goog-upload-size-received");
    assert_eq!(size, Some(received.to_string().as_str()), "{reply:?}");
}

/// The upload is finished, and its animal has this media.
#[track_caller]
fn assert_final(address: SocketAddr, reply: &Reply, media: Media) {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_status(reply, "final");
    farm::assert_media(address, reply, media);
}

#[test]
fn small_media_takes_one_request_after_the_start() {
    let upload = Upload::declared(farm(), "x-goog-small", MEDIA.len());
    let reply = upload.upload_and_finalize(0..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
    assert_eq!(reply.field("name"), "x-goog-small");
    let download = farm::download(&farm::id(&reply));
    let download = exchange(farm(), &download).expect(200);
    assert_eq!(download.header("content-type"), Some("image/png"));
}

#[test]
fn start_names_an_absolute_url_and_a_granularity() {
    let reply = exchange(farm(), &start("{}")).expect(200);
    for name in ["x-goog-upload-url", "x-goog-upload-control-url"] {
        let url = reply.header(name).expect("it is there");
        let prefix = "http://farm.localhost/upload/farm/v1/animals?";
        assert!(url.starts_with(prefix), "{url}");
    }
    let granularity = reply.header("x-goog-upload-chunk-granularity");
    assert_eq!(granularity, Some("262144"));
    assert_eq!(reply.header("content-length"), Some("0"));
}

#[test]
fn chunks_of_any_size_are_appended_and_the_upload_stays_active_until_it_is_finalized() {
    for declared in [false, true] {
        let name = "x-goog-chunks";
        let upload = if declared {
            Upload::declared(farm(), name, MEDIA.len())
        } else {
            Upload::start(farm(), name)
        };
        assert_active(&upload.upload(0..CHUNK), CHUNK);
        assert_active(&upload.upload(CHUNK..CHUNK + 5), CHUNK + 5);
        let end = MEDIA.len();
        assert_active(&upload.upload(CHUNK + 5..end), end);
        assert_active(&upload.bare("query"), end);
        let reply = upload.bare("finalize");
        assert_final(farm(), &reply, MEDIA);
    }
}

#[test]
fn streamed_chunks_are_appended() {
    let upload = Upload::start(farm(), "x-goog-streamed");
    for (command, range) in [
        ("upload", 0..CHUNK),
        ("upload, finalize", CHUNK..MEDIA.len()),
    ] {
        let chunk = MEDIA.bytes(range.clone());
        let mut body = format!("{:x}\r\n", chunk.len()).into_bytes();
        body.extend(chunk);
        body.extend(b"\r\n0\r\n\r\n");
        let request = upload
            .at(command, range.start)
            .header("Transfer-Encoding", "chunked");
        let reply = upload.send(&request.raw_body(body));
        if command == "upload" {
            assert_active(&reply, range.end);
        } else {
            assert_final(farm(), &reply, MEDIA);
        }
    }
}

#[test]
fn empty_media_is_finalized_with_and_without_a_body() {
    const EMPTY: Media = Media::new(31, 0);
    let commands = ["upload, finalize", "finalize"];
    for command in commands {
        let upload = Upload::declared(farm(), "x-goog-empty", 0);
        let reply = upload.send(&upload.at(command, 0).body(""));
        assert_final(farm(), &reply, EMPTY);
    }
    let upload = Upload::start(farm(), "x-goog-empty");
    assert_final(farm(), &upload.bare("finalize"), EMPTY);
}

#[test]
fn finished_upload_repeats_its_final_reply() {
    let name = "x-goog-replay";
    let upload = Upload::start(farm(), name);
    let reply = upload.upload_and_finalize(0..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
    let again = [
        upload.bare("query"),
        upload.bare("finalize"),
        upload.upload_and_finalize(CHUNK..MEDIA.len()),
        upload.upload(0..CHUNK),
    ];
    for again in again {
        assert_eq!(again.status, 200);
        assert_status(&again, "final");
        assert_eq!(again.body, reply.body);
    }
    assert_eq!(farm::count(farm(), name), 1);
}

#[test]
fn bytes_that_are_sent_again_are_skipped() {
    let upload = Upload::start(farm(), "x-goog-resend");
    assert_active(&upload.upload(0..CHUNK + 9), CHUNK + 9);
    // The same again, and from the multiple of the granularity below.
    assert_active(&upload.upload(0..CHUNK + 9), CHUNK + 9);
    assert_active(&upload.upload(CHUNK..2 * CHUNK), 2 * CHUNK);
    let reply = upload.upload_and_finalize(CHUNK..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
}

#[test]
fn offset_ahead_is_refused_with_the_size_received() {
    let upload = Upload::start(farm(), "x-goog-ahead");
    upload.upload(0..CHUNK);
    for reply in [
        upload.upload(2 * CHUNK..3 * CHUNK),
        upload.upload_and_finalize(2 * CHUNK..MEDIA.len()),
    ] {
        assert_eq!(reply.status, 400);
        assert_status(&reply, "active");
        let size = reply.header("x-goog-upload-size-received");
        assert_eq!(size, Some(CHUNK.to_string().as_str()));
    }
    let reply = upload.upload_and_finalize(CHUNK..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
}

#[test]
fn malformed_request_leaves_the_session_active() {
    let upload = Upload::start(farm(), "x-goog-malformed");
    upload.upload(0..CHUNK);
    for (command, offset) in [
        ("upload", "x"),
        ("upload", "-1"),
        ("upload, finalize", "1 2"),
        ("finalise", "0"),
    ] {
        let request = upload
            .request(command)
            .header("X-Goog-Upload-Offset", offset);
        let reply = upload.send(&request.body("moo"));
        assert_eq!(reply.status, 400, "{command} {offset}");
        assert_status(&reply, "active");
    }
    let reply = upload.upload_and_finalize(CHUNK..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
}

#[test]
fn upload_that_lacks_declared_bytes_is_not_finalized() {
    let upload = Upload::declared(farm(), "x-goog-short", MEDIA.len());
    upload.upload(0..CHUNK);
    for reply in [
        upload.bare("finalize"),
        upload.upload_and_finalize(CHUNK..2 * CHUNK),
    ] {
        assert_eq!(reply.status, 400);
        assert_status(&reply, "active");
    }
    let reply = upload.upload_and_finalize(CHUNK..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
}

#[test]
fn more_than_the_declared_bytes_ends_the_session() {
    let name = "x-goog-more";
    let upload = Upload::declared(farm(), name, CHUNK);
    let reply = upload.upload(0..CHUNK + 1);
    assert_eq!(reply.status, 400);
    assert_status(&reply, "final");
    let gone = upload.bare("query");
    assert_eq!(gone.status, 410);
    assert_status(&gone, "final");
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn cancel_is_answered_200_as_often_as_it_is_sent() {
    let name = "x-goog-cancelled";
    let upload = Upload::start(farm(), name);
    upload.upload(0..CHUNK);
    for _ in 0..2 {
        let reply = upload.bare("cancel").expect(200);
        assert_status(&reply, "cancelled");
    }
    for reply in [
        upload.bare("query"),
        upload.upload_and_finalize(CHUNK..MEDIA.len()),
    ] {
        assert_eq!(reply.status, 400);
        assert_status(&reply, "cancelled");
    }
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn finished_upload_cannot_be_cancelled() {
    let upload = Upload::start(farm(), "x-goog-finished");
    let reply = upload.upload_and_finalize(0..MEDIA.len());
    let refused = upload.bare("cancel");
    assert_eq!(refused.status, 400);
    assert_status(&refused, "final");
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn session_is_changed_by_its_own_dialect_alone_and_answers_questions_of_both() {
    let upload = Upload::start(farm(), "x-goog-crossed");
    upload.upload(0..CHUNK);
    let google = upload.in_google_s_dialect();
    google.append(MEDIA, CHUNK..2 * CHUNK).expect(400);
    google.append(MEDIA, CHUNK..MEDIA.len()).expect(400);
    google.cancel().expect(400);
    assert_eq!(google.query().committed(), CHUNK);
    // The size is reached, and the upload is not finished by it.
    let total = format!("bytes */{CHUNK}");
    assert_eq!(google.put(&total, "").committed(), CHUNK);
    let reply = upload.upload_and_finalize(CHUNK..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
    assert_eq!(google.query().expect(201).body, reply.body);

    let google = farm::begin(farm(), "google-crossed");
    google.append(MEDIA, 0..CHUNK).expect(308);
    let upload = Upload {
        address: farm(),
        target: google.target().to_owned(),
    };
    for reply in [
        upload.upload(CHUNK..2 * CHUNK),
        upload.bare("finalize"),
        upload.bare("cancel"),
    ] {
        assert_eq!(reply.status, 400);
        assert_status(&reply, "final");
    }
    assert_active(&upload.bare("query"), CHUNK);
    let reply = google.append(MEDIA, CHUNK..MEDIA.len()).expect(201);
    let again = upload.bare("query");
    assert_status(&again, "final");
    assert_eq!(again.body, reply.body);
}

#[test]
fn media_comes_in_one_request_raw_or_after_its_metadata() {
    let raw = Request::new("POST", farm::UPLOADS)
        .header("X-Goog-Upload-Protocol", "raw")
        .header("Content-Type", "image/png")
        .body(MEDIA.whole());
    let reply = exchange(farm(), &raw);
    assert_final(farm(), &reply, MEDIA);

    let name = "x-goog-multipart";
    let mut body = format!(
        "--b\r\nContent-Type: application/json\r\n\r\n{}\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        farm::named(name)
    )
    .into_bytes();
    body.extend(MEDIA.whole());
    body.extend(b"\r\n--b--");
    let multipart = Request::new("POST", farm::UPLOADS)
        .header("X-Goog-Upload-Protocol", "multipart")
        .header("Content-Type", "multipart/related; boundary=b")
        .body(body);
    let reply = exchange(farm(), &multipart);
    assert_final(farm(), &reply, MEDIA);
    assert_eq!(reply.field("name"), name);
}

#[test]
fn final_reply_is_given_only_to_requests_whose_bytes_it_has() {
    let upload = Upload::start(farm(), "x-goog-two-writers");
    let mut older = RawPeer::connect(farm());
    let head = upload
        .at("upload, finalize", 0)
        .header("Content-Length", MEDIA.len());
    older.send(head.head_bytes());
    older.send(MEDIA.bytes(0..CHUNK));
    let newer = upload.bare("finalize");
    older.try_send(MEDIA.bytes(CHUNK..MEDIA.len())).ok();
    // Either it came first, and has finished with no bytes, or the older request had some by then.
    if newer.status == 200 {
        assert_eq!(newer.field("size"), "0");
    } else {
        assert_eq!(newer.status, 400, "{newer:?}");
        assert_status(&newer, "active");
    }
    if let Ok(reply) = older.try_reply() {
        assert_ne!(reply.status, 200, "{reply:?}");
    }

    let upload = Upload::start(farm(), "x-goog-after-the-end");
    let reply = upload.send(&upload.at("upload, finalize", 0).body(MEDIA.bytes(0..10)));
    assert_eq!(reply.field("size"), "10");
    for after in [
        upload.upload_and_finalize(10..17),
        upload.upload(CHUNK..CHUNK + 1),
    ] {
        assert_eq!(after.status, 400, "{after:?}");
        assert_status(&after, "final");
    }
    assert_eq!(upload.bare("query").body, reply.body);
}

#[test]
fn command_may_be_in_two_fields() {
    let upload = Upload::start(farm(), "x-goog-two-fields");
    let request = upload
        .at("upload", 0)
        .header("X-Goog-Upload-Command", "finalize");
    let reply = upload.send(&request.body(MEDIA.whole()));
    assert_final(farm(), &reply, MEDIA);
}

#[test]
fn upload_may_go_to_the_plain_path_of_its_method() {
    let start = Request::new("POST", farm::ANIMALS)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start")
        .header("X-Goog-Upload-Header-Content-Type", "image/png");
    let upload = Upload::of(farm(), &start.body("{}"));
    assert!(
        upload.target.starts_with(farm::UPLOADS),
        "{}",
        upload.target
    );
    let google = upload.in_google_s_dialect();
    assert_eq!(google.query().committed(), 0);
    upload.upload(0..CHUNK);
    let reply = upload.upload_and_finalize(CHUNK..MEDIA.len());
    assert_final(farm(), &reply, MEDIA);
}

#[test]
fn refused_start_is_final() {
    let table = [
        (start("not JSON"), 400),
        (
            start("{}").header("X-Goog-Upload-Protocol", "resumable"),
            200,
        ),
        (
            Request::new("POST", "/upload/farm/v1/nothing")
                .header("X-Goog-Upload-Command", "start")
                .body("{}"),
            404,
        ),
        (
            Request::new("POST", farm::UPLOADS)
                .header("X-Goog-Upload-Protocol", "resumable")
                .body("{}"),
            400,
        ),
        (
            Request::new("GET", farm::UPLOADS).header("X-Goog-Upload-Command", "start"),
            405,
        ),
    ];
    for (start, status) in table {
        let reply = exchange(farm(), &start);
        assert_eq!(reply.status, status, "{start:?}: {reply:?}");
        let state = if status == 200 { "active" } else { "final" };
        assert_status(&reply, state);
    }
}

#[test]
fn refused_type_and_size_are_final() {
    let start = |content_type: &str, length: u64| {
        Request::new("POST", "/upload/pond/v2/frogs")
            .header("X-Goog-Upload-Protocol", "resumable")
            .header("X-Goog-Upload-Command", "start")
            .header("X-Goog-Upload-Header-Content-Type", content_type)
            .header("X-Goog-Upload-Header-Content-Length", length)
            .body("{}")
    };
    let reply = exchange(pond(), &start("text/plain", 5));
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_status(&reply, "final");
    let reply = exchange(pond(), &start("image/png", 1 << 40));
    assert_eq!(reply.status, 413, "{reply:?}");
    assert_status(&reply, "final");
}

#[test]
fn unknown_session_is_final_in_each_command() {
    let known = Upload::start(farm(), "x-goog-known");
    let target = format!("{}?upload_id=nobody", farm::UPLOADS);
    let upload = Upload { target, ..known };
    for reply in [
        upload.bare("query"),
        upload.bare("finalize"),
        upload.bare("cancel"),
        upload.upload(0..5),
    ] {
        assert_eq!(reply.status, 404, "{reply:?}");
        assert_status(&reply, "final");
    }
}

#[test]
fn acknowledged_bytes_survive_a_crash_and_a_cut_connection() {
    let mut server = own(&[]);
    let mut upload = Upload::start(server.address(), "x-goog-crash");
    assert_active(&upload.upload(0..CHUNK), CHUNK);
    server.kill9();
    server.start_again();
    upload.address = server.address();
    assert_active(&upload.bare("query"), CHUNK);

    let mut peer = RawPeer::connect(upload.address);
    let head = upload
        .at("upload, finalize", CHUNK)
        .header("Content-Length", MEDIA.len() - CHUNK)
        .header("Expect", "100-continue");
    peer.send(head.head_bytes());
    assert_eq!(peer.head().expect("an interim reply").status, 100);
    peer.send(MEDIA.bytes(CHUNK..2 * CHUNK));
    drop(peer);
    let query = upload.bare("query");
    assert_status(&query, "active");
    let received = query.header("x-goog-upload-size-received").expect("a size");
    let received: u64 = received.parse().expect("a number");
    assert!((CHUNK..=2 * CHUNK).contains(&received), "{received}");
    let reply = upload.upload_and_finalize(received..MEDIA.len());
    assert_final(server.address(), &reply, MEDIA);

    restart_and_check(&mut server, &upload, &reply);
}

/// The final reply is the same after a crash.
#[track_caller]
fn restart_and_check(server: &mut ServerProcess, upload: &Upload, reply: &Reply) {
    server.kill9();
    server.start_again();
    let again = exchange(server.address(), &upload.request("query").body(""));
    assert_final(server.address(), &again, MEDIA);
    assert_eq!(again.body, reply.body);
}
