//! Requests over HTTP/2 that make the server hold resources end in time (docs/protocol.md, 2.11).

use windlass_testkit::farm;
use windlass_testkit::http2::{CANCEL, Event, Http2Peer, NO_ERROR};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::target_in;
use windlass_testkit::wait;

use crate::server::{farm, own};

/// Media that the server keeps in a file.
const MEDIA: Media = Media::new(41, 600_000);

/// Media that fits into the window of a fresh connection.
const SMALL: Media = Media::new(42, 60_000);

/// As many requests as a connection carries at once.
const STREAMS: usize = 32;

fn impatient() -> ServerProcess {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/impatient.toml");
    own(&["--config", config])
}

/// The path of media that was uploaded to a server.
fn media_of(server: &ServerProcess) -> String {
    let animal = farm::upload(server.address(), MEDIA);
    format!("{}?alt=media", farm::animal(&farm::id(&animal)))
}

#[test]
fn downloads_that_are_never_taken_are_given_up_with_their_files() {
    let server = impatient();
    let media = media_of(&server);
    let before = server.open_files();
    let mut peers: Vec<_> = (0..3)
        .map(|_| Http2Peer::connect(server.address(), 0))
        .collect();
    for peer in &mut peers {
        for _ in 0..STREAMS {
            peer.get(&media);
        }
    }
    for peer in &mut peers {
        let (mut begun, mut given_up) = (0, 0);
        while given_up < STREAMS {
            match peer.next_event().expect("it goes on") {
                Some(Event::Head { status: 200, .. }) => begun += 1,
                Some(Event::Reset { .. }) => given_up += 1,
                Some(Event::GoAway) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(begun, STREAMS);
    }
    wait::until("all files are closed", || server.open_files() <= before);
    drop(peers);
}

#[test]
fn replies_of_which_only_the_beginning_is_taken_are_given_up() {
    let server = impatient();
    let media = media_of(&server);
    let animal = media.strip_suffix("?alt=media").expect("it ends so");
    for path in [&media, animal] {
        // All of the reply is handed to the connection as soon as a byte of it may be sent.
        let mut peer = Http2Peer::connect(server.address(), 10);
        let stream = peer.get(path);
        let mut events = std::iter::from_fn(|| peer.next_event().expect("it goes on"))
            .filter(|event| *event != Event::GoAway);
        let [head, data, reset] = [(); 3].map(|()| events.next().expect("it is open"));
        assert!(matches!(head, Event::Head { status: 200, .. }), "{head:?}");
        assert!(
            matches!(&data, Event::Data { bytes, .. } if bytes.len() == 10),
            "{data:?}"
        );
        assert_eq!(reset, Event::Reset { stream });
    }
}

#[test]
fn slowly_read_reply_is_complete() {
    let server = impatient();
    let media = media_of(&server);
    let mut peer = Http2Peer::connect(server.address(), 1_000_000);
    peer.open_window(0, 1_000_000);
    let stream = peer.get(&media);
    let reply = peer.reply(stream);
    assert_eq!(reply.status, 200);
    MEDIA
        .compare(0..MEDIA.len(), &reply.body[..])
        .expect("the same media");
}

#[test]
fn connection_that_only_answers_pings_is_closed() {
    let server = impatient();
    let mut silent = Http2Peer::connect(server.address(), 0);
    let mut asked = Http2Peer::connect(server.address(), 1000);
    let stream = asked.get("/healthz");
    assert_eq!(asked.reply(stream).body, b"ok\n");
    for peer in [&mut silent, &mut asked] {
        assert!(matches!(peer.next_event(), Ok(Some(Event::GoAway))));
        assert!(peer.is_closed());
    }
}

#[test]
fn a_connection_on_which_every_stream_stands_still_is_closed() {
    let server = impatient();
    let media = media_of(&server);
    let mut peer = Http2Peer::connect(server.address(), 0);
    peer.get(&media);
    peer.get("/healthz");
    // A body that never comes is answered, and that is not taken either.
    let length = [("content-length", "10")];
    peer.request("POST", farm::ANIMALS, &length, false);
    assert!(peer.is_closed());
    exchange(server.address(), &farm::list("")).expect(200);
}

#[test]
fn idle_connection_does_not_delay_the_end_of_the_server() {
    // With a drain that the test does not outlive.
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/long_drain.toml");
    let mut server = own(&["--config", config]);
    let mut used = Http2Peer::connect(server.address(), 1000);
    let stream = used.get("/healthz");
    assert_eq!(used.reply(stream).body, b"ok\n");
    let silent = Http2Peer::connect(server.address(), 0);
    // Neither client reads the server's last frames.
    assert!(server.terminate().success(), "{}", server.stderr());
    drop((used, silent));
}

/// The content of the PING with which the server asks whether a client has read that the connection
/// ends (h2's `Ping::SHUTDOWN`).
const GOODBYE: [u8; 8] = [0x0b, 0x7b, 0xa2, 0xf0, 0x8b, 0x9b, 0xfe, 0x54];

#[test]
fn request_that_ends_during_the_drain_does_not_delay_the_end_of_the_server() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/long_drain.toml");
    let mut server = own(&["--config", config]);
    let mut peer = Http2Peer::connect(server.address(), 1_000_000);
    peer.leave_unanswered(GOODBYE);
    let simple = format!("{}?uploadType=media", farm::UPLOADS);
    let headers = [("content-type", "image/png"), ("content-length", "6")];
    let stream = peer.request("POST", &simple, &headers, false);
    peer.data(stream, b"abc", false);
    peer.ping().expect("the server has read it");
    server.ask_to_end();
    wait::until("the server drains", || server.stderr().contains("draining"));
    peer.data(stream, b"def", true);
    assert_eq!(peer.reply(stream).status, 200);
    let ended = server.wait_for_end();
    assert!(ended.success(), "{}", server.stderr());
}

/// The fields of a request that brings the rest of an upload, and the dialect that it is in.
type Rest = (
    &'static str,
    &'static str,
    Vec<(&'static str, &'static str)>,
);

/// The requests that end an upload of unknown length, by their method and their fields.
fn rests() -> [Rest; 3] {
    let part = [
        ("upload-offset", "0"),
        ("content-type", "application/partial-upload"),
        ("upload-complete", "?1"),
        ("upload-draft-interop-version", "8"),
    ];
    let command = [
        ("x-goog-upload-command", "upload, finalize"),
        ("x-goog-upload-offset", "0"),
    ];
    [
        ("ietf", "PATCH", part.to_vec()),
        ("x-goog-upload", "POST", command.to_vec()),
        ("google", "PUT", vec![("content-range", "bytes 0-*/*")]),
    ]
}

/// Begins an upload of unknown length in a dialect. Returns the target of its URI.
fn begin(dialect: &str) -> String {
    let (start, name) = match dialect {
        "ietf" => {
            let start = Request::new("POST", farm::UPLOADS).header("Upload-Complete", "?0");
            (start.body(""), "location")
        }
        "x-goog-upload" => {
            let start = Request::new("POST", farm::UPLOADS)
                .header("X-Goog-Upload-Protocol", "resumable")
                .header("X-Goog-Upload-Command", "start");
            (start.body(""), "x-goog-upload-url")
        }
        _ => (farm::start("{}"), "location"),
    };
    let reply = exchange(farm(), &start);
    target_in(&reply, name).unwrap_or_else(|| panic!("no session: {reply:?}"))
}

/// Whether a session is finished. It has this number of bytes otherwise.
fn is_finished(target: &str, bytes: u64) -> bool {
    let query = Request::new("POST", target).header("X-Goog-Upload-Command", "query");
    let reply = exchange(farm(), &query.body("")).expect(200);
    if reply.header("x-goog-upload-status") == Some("final") {
        return true;
    }
    let received = reply.header("x-goog-upload-size-received");
    assert_eq!(received, Some(&*bytes.to_string()), "{reply:?}");
    false
}

#[test]
fn upload_of_unknown_length_does_not_end_with_a_reset() {
    for (dialect, method, fields) in rests() {
        for code in [NO_ERROR, CANCEL] {
            let target = begin(dialect);
            let mut peer = Http2Peer::connect(farm(), 1_000_000);
            let stream = peer.request(method, &target, &fields, false);
            peer.data(stream, &SMALL.bytes(0..1000), false);
            peer.ping().expect("the server has read it");
            peer.reset_with(stream, code).expect("it is there");
            peer.ping().expect("the server has read it");
            wait::until("what arrived is committed", || {
                let query = Request::new("POST", &target).header("X-Goog-Upload-Command", "query");
                let reply = exchange(farm(), &query.body(""));
                reply.header("x-goog-upload-size-received") != Some("0")
            });
            assert!(!is_finished(&target, 1000), "{dialect} {code}");
            let stream = peer.request(method, &target, &fields, false);
            peer.data(stream, &SMALL.bytes(0..1000), true);
            let reply = peer.reply(stream);
            if dialect == "ietf" {
                assert_eq!(reply.status, 409, "the offset is another one");
            } else {
                assert!(reply.status < 300, "{reply:?}");
                assert!(is_finished(&target, 1000), "{dialect} {code}");
            }
        }
    }
}

#[test]
fn upload_whose_stream_is_reset_after_its_end_is_finished_or_goes_on() {
    let target = begin("ietf");
    let (_, method, fields) = &rests()[0];
    let mut peer = Http2Peer::connect(farm(), 1_000_000);
    let stream = peer.request(method, &target, fields, false);
    peer.data(stream, &SMALL.bytes(0..1000), true);
    peer.reset_with(stream, CANCEL).expect("it is there");
    peer.ping().expect("the server has read it");
    // The question ends a part that is still running.
    let asked = exchange(farm(), &Request::new("HEAD", &target)).expect(204);
    if asked.header("upload-complete") == Some("?0") {
        let offset = asked.header("upload-offset").expect("it is told");
        let committed: u64 = offset.parse().expect("a number");
        let rest = Request::new("PATCH", &target)
            .header("Content-Type", "application/partial-upload")
            .header("Upload-Offset", committed)
            .header("Upload-Complete", "?1");
        exchange(farm(), &rest.body(SMALL.bytes(committed..1000))).expect(201);
    }
    assert!(is_finished(&target, 1000));
}

#[test]
fn client_of_a_draft_gets_the_reply_alone_over_http_2() {
    let mut peer = Http2Peer::connect(farm(), 1_000_000);
    let fields = [
        ("content-type", "image/png"),
        ("upload-complete", "?1"),
        ("upload-draft-interop-version", "8"),
    ];
    let stream = peer.request("POST", farm::UPLOADS, &fields, false);
    peer.data(stream, &SMALL.whole(), true);
    let mut heads = Vec::new();
    let mut body = Vec::new();
    loop {
        match peer.next_event().expect("it goes on") {
            Some(Event::Head {
                status, is_last, ..
            }) => {
                heads.push(status);
                assert!(!is_last);
            }
            Some(Event::Data { bytes, is_last, .. }) => {
                body.extend(bytes);
                if is_last {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heads, [201]);
    let animal = serde_json::from_slice::<serde_json::Value>(&body).expect("it is JSON");
    assert_eq!(animal["size"], SMALL.len().to_string());
    assert_eq!(animal["crc32c"], SMALL.crc32c());
}

#[test]
fn client_of_tus_uploads_over_http_2() {
    let version = ("tus-resumable", "1.0.0");
    let creation = Request::new("POST", farm::UPLOADS)
        .header("Tus-Resumable", "1.0.0")
        .header("Upload-Length", SMALL.len());
    let created = exchange(farm(), &creation.body("")).expect(201);
    let target = target_in(&created, "location").expect("it is an absolute URI");
    let mut peer = Http2Peer::connect(farm(), 1_000_000);
    let part = |offset| {
        [
            version,
            ("content-type", "application/offset+octet-stream"),
            ("upload-offset", offset),
        ]
    };
    let stream = peer.request("PATCH", &target, &part("0"), false);
    peer.data(stream, &SMALL.bytes(0..30_000), true);
    assert_eq!(peer.reply(stream).status, 204);
    let stream = peer.request("HEAD", &target, &[version], true);
    assert_eq!(peer.reply(stream).status, 200);
    let stream = peer.request("PATCH", &target, &part("30000"), false);
    peer.data(stream, &SMALL.bytes(30_000..SMALL.len()), true);
    assert_eq!(peer.reply(stream).status, 204);
    assert!(is_finished(&target, SMALL.len()));
}
