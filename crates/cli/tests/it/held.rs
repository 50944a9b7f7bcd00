//! Memory and connections that clients can make the server hold are bounded, and are given back
//! (docs/configuration.md, "What clients can make the server hold").

use std::net::Ipv4Addr;

use windlass_testkit::encodings::gzip;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::http2::{Event, Http2Peer};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::wait;

use crate::batch::batch;
use crate::server::own;
use crate::stored_gzip::{COW, put_gzip, storage_with};

/// Media that the server keeps in a file.
const MEDIA: Media = Media::new(43, 600_000);

fn server(config: &str) -> ServerProcess {
    own(&["--config", &path(config)])
}

fn path(config: &str) -> String {
    format!("{}/tests/it/{config}", env!("CARGO_MANIFEST_DIR"))
}

/// An upload with a body that the server waits for.
fn open_upload(server: &ServerProcess) -> RawPeer {
    let mut peer = RawPeer::connect(server.address());
    let request = Request::new("POST", format!("{UPLOADS}?uploadType=media"))
        .header("Expect", "100-continue")
        .header("Content-Length", 10);
    peer.send(request.head_bytes());
    assert_eq!(peer.head().expect("it is let in").status, 100);
    peer
}

#[track_caller]
fn assert_refused(reply: &Reply) {
    assert_error(reply, 503, "backendError", None);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(reply.text().contains("limit on"), "{}", reply.text());
}

/// Waits until a request is answered with this status: the server learns of a connection's end a
/// moment later.
#[track_caller]
fn wait_for(server: &ServerProcess, request: &Request, status: u16) {
    wait::until("another answer", || {
        exchange(server.address(), request).status == status
    });
}

#[test]
fn requests_above_their_limit_are_refused_until_others_end() {
    let server = server("few_requests.toml");
    let list = farm::list("");
    let mut open = [open_upload(&server), open_upload(&server)];
    assert_refused(&exchange(server.address(), &list));
    let healthy = Request::new("GET", "/healthz");
    exchange(server.address(), &healthy).expect(200);
    open[0].send([b'x'; 10]);
    open[0].reply().expect(200);
    wait_for(&server, &list, 200);
}

#[test]
fn streams_count_as_requests_until_their_reply_is_taken() {
    let server = server("few_requests.toml");
    let list = farm::list("");
    let mut peer = Http2Peer::connect(server.address(), 0);
    for _ in 0..2 {
        peer.get(ANIMALS);
        let event = peer.next_event().expect("it is answered");
        assert!(matches!(event, Some(Event::Head { status: 200, .. })));
    }
    assert_refused(&exchange(server.address(), &list));
    let more = peer.get(ANIMALS);
    let event = peer.next_event().expect("it is answered");
    assert!(
        matches!(event, Some(Event::Head { stream, status: 503, .. }) if stream == more),
        "{event:?}"
    );
    drop(peer);
    wait_for(&server, &list, 200);
}

#[test]
fn uploads_above_their_limit_are_refused_until_others_end() {
    let server = server("few_files.toml");
    let mut open = [open_upload(&server), open_upload(&server)];
    assert_refused(&exchange(server.address(), &farm::simple(MEDIA)));
    let session = farm::begin(server.address(), "one too many");
    assert_refused(&session.append(MEDIA, 0..MEDIA.len()));
    open[0].send([b'x'; 10]);
    open[0].reply().expect(200);
    let reply = session.append(MEDIA, 0..MEDIA.len()).expect(201);
    farm::assert_media(server.address(), &reply, MEDIA);
}

#[test]
fn stalled_downloads_exclude_only_further_downloads() {
    let server = server("few_files.toml");
    let animal = farm::upload(server.address(), MEDIA);
    let download = farm::download(&farm::id(&animal));
    let mut peer = Http2Peer::connect(server.address(), 0);
    for _ in 0..2 {
        peer.get(&format!("{}?alt=media", farm::animal(&farm::id(&animal))));
        let event = peer.next_event().expect("it is answered");
        assert!(matches!(event, Some(Event::Head { status: 200, .. })));
    }
    assert_refused(&exchange(server.address(), &download));
    let session = farm::begin(server.address(), "honest");
    let reply = session.append(MEDIA, 0..MEDIA.len()).expect(201);
    drop(peer);
    wait_for(&server, &download, 200);
    farm::assert_media(server.address(), &reply, MEDIA);
}

/// Asks for a path, and takes no reply but its status.
fn stall(peer: &mut Http2Peer, path: &str) -> u16 {
    let stream = peer.get(path);
    loop {
        match peer.next_event().expect("it is answered") {
            Some(Event::Head {
                stream: of, status, ..
            }) if of == stream => return status,
            Some(Event::Data { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn stalled_unpacked_downloads_leave_memory_for_short_replies() {
    let server = storage_with(&["--config", &path("little_json_memory.toml")]);
    put_gzip(&server, &gzip(&MEDIA.whole()));
    let object = Request::new("PATCH", "/storage/v1/b/barn/o/cow");
    let text = "x".repeat(7000);
    let described = object.body(format!(r#"{{"metadata": {{"k": "{text}"}}}}"#));
    exchange(server.address(), &described).expect(200);
    let mut peer = Http2Peer::connect(server.address(), 0);
    let statuses = [(); 30].map(|()| stall(&mut peer, COW));
    assert_eq!((statuses[0], statuses[29]), (200, 503), "{statuses:?}");
    // Together they need more memory than the last refused download may have left free.
    let mut other = Http2Peer::connect(server.address(), 0);
    for _ in 0..8 {
        assert_eq!(stall(&mut other, "/storage/v1/b/barn/o/cow"), 200);
    }
    drop(peer);
    wait_for(&server, &Request::new("GET", COW), 200);
}

#[test]
fn head_and_304_of_stored_gzip_need_no_download() {
    let server = storage_with(&["--config", &path("few_files.toml")]);
    put_gzip(&server, &gzip(&MEDIA.whole()));
    let head = |peer: &mut RawPeer| {
        peer.send(Request::new("HEAD", COW).to_bytes());
        let mut reply = peer.head_reply().expect(200);
        reply.headers.retain(|(name, _)| name != "date");
        reply.headers
    };
    let mut peer = RawPeer::connect(server.address());
    let expected = head(&mut peer);
    let mut others = Http2Peer::connect(server.address(), 0);
    let statuses = [(); 3].map(|()| stall(&mut others, COW));
    assert_eq!(statuses, [200, 200, 503]);
    assert_eq!(head(&mut peer), expected);
    let conditional = Request::new("GET", COW).header("If-None-Match", "*");
    exchange(server.address(), &conditional).expect(304);
    assert_refused(&exchange(server.address(), &Request::new("GET", COW)));
}

/// JSON with a name of this length.
fn json(len: usize) -> String {
    farm::named(&"x".repeat(len))
}

/// The requests that bring JSON: a start, a plain call, and a multipart upload.
fn with_json(json: &str) -> [Request; 3] {
    let call = Request::new("POST", ANIMALS).header("Content-Type", "application/json");
    let multipart = Request::new("POST", format!("{UPLOADS}?uploadType=multipart"))
        .header("Content-Type", "multipart/related; boundary=b");
    let parts = format!(
        "--b\r\nContent-Type: application/json\r\n\r\n{json}\r\n\
         --b\r\nContent-Type: image/png\r\n\r\nx\r\n--b--\r\n"
    );
    [farm::start(json), call.body(json), multipart.body(parts)]
}

/// Begins requests that take the memory for JSON, until `large` JSON is refused. If both arrive at
/// the same time, the wrong request or both may be refused. `large` therefore has to be refused
/// twice.
fn take_memory<T>(server: &ServerProcess, large: &Request, mut begin: impl FnMut() -> T) -> T {
    for _ in 0..100 {
        let taken = begin();
        let replies = [(); 3].map(|()| exchange(server.address(), large));
        if replies[1].status == 503 && replies[2].status == 503 {
            assert_refused(&replies[2]);
            return taken;
        }
    }
    panic!("it is never refused");
}

#[test]
fn incomplete_json_counts_from_its_first_byte_and_leaves_memory_for_short_json() {
    let server = server("little_json_memory.toml");
    for unfinished in with_json(&json(900_000)) {
        let [large, others @ ..] = with_json(&json(300_000));
        let peer = take_memory(&server, &large, || {
            let mut peer = RawPeer::connect(server.address());
            peer.send(&unfinished.to_bytes()[..700_000]);
            peer
        });
        for large in &others {
            assert_refused(&exchange(server.address(), large));
        }
        for short in with_json(&json(20_000)) {
            exchange(server.address(), &short).expect(200);
        }
        drop(peer);
        for large in &others {
            wait_for(&server, large, 200);
        }
    }
}

#[test]
fn incomplete_batch_counts_like_json() {
    let server = server("little_json_memory.toml");
    let unfinished = Request::new("POST", "/batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(vec![b' '; 900_000]);
    let large = &with_json(&json(300_000))[1];
    let peer = take_memory(&server, large, || {
        let mut peer = RawPeer::connect(server.address());
        peer.send(&unfinished.to_bytes()[..700_000]);
        peer
    });
    exchange(server.address(), &batch(&[format!("GET {ANIMALS}/1")])).expect(200);
    drop(peer);
    wait_for(&server, large, 200);
}

#[test]
fn json_on_streams_counts_like_that_on_connections() {
    let server = server("little_json_memory.toml");
    let large = &with_json(&json(300_000))[1];
    let peer = take_memory(&server, large, || {
        let mut peer = Http2Peer::connect(server.address(), 1000);
        for _ in 0..6 {
            let headers = [("content-type", "application/json")];
            let stream = peer.request("POST", ANIMALS, &headers, false);
            peer.data(stream, json(100_000).as_bytes(), false);
        }
        // Frames are read in their order.
        let health = peer.get("/healthz");
        assert_eq!(peer.reply(health).status, 200);
        peer
    });
    drop(peer);
    wait_for(&server, large, 200);
}

#[test]
fn stalled_replies_leave_memory_for_short_replies() {
    let server = server("little_json_memory.toml");
    for _ in 0..3 {
        let [_, call, _] = with_json(&json(200_000));
        exchange(server.address(), &call).expect(200);
    }
    let short = exchange(server.address(), &with_json(&json(10))[1]).expect(200);
    let mut peer = Http2Peer::connect(server.address(), 0);
    peer.get(ANIMALS);
    let event = peer.next_event().expect("it is answered");
    assert!(matches!(event, Some(Event::Head { status: 200, .. })));
    assert_refused(&exchange(server.address(), &farm::list("")));
    let get = Request::new("GET", farm::animal(&farm::id(&short)));
    exchange(server.address(), &get).expect(200);
    // Media in the ledger takes the rest.
    let small = farm::upload(server.address(), Media::new(44, 60_000));
    for _ in 0..30 {
        peer.get(&format!("{}?alt=media", farm::animal(&farm::id(&small))));
        assert!(matches!(peer.next_event(), Ok(Some(Event::Head { .. }))));
    }
    let session = farm::begin(server.address(), "honest");
    session.append(MEDIA, 0..MEDIA.len()).expect(201);
    drop(peer);
    wait_for(&server, &farm::list(""), 200);
}

/// All senders wait for each other, so none of them may wait for a reader.
#[test]
fn slow_readers_of_large_messages_do_not_stop_senders() {
    let server = server("little_reading_memory.toml");
    let send = |length: usize| {
        let path = "/upload/gmail/v1/users/me/messages/send?uploadType=media";
        let text = format!(
            "To: me@windlass.localhost\r\n\r\n{}\r\n",
            "x".repeat(length)
        );
        let send = Request::new("POST", path).header("Content-Type", "message/rfc822");
        exchange(server.address(), &send.body(text))
    };
    let large = send(700_000).expect(200);
    let raw = format!(
        "/gmail/v1/users/me/messages/{}?format=raw",
        farm::id(&large)
    );
    let mut reader = Http2Peer::connect(server.address(), 0);
    reader.get(&raw);
    let event = reader.next_event().expect("it is answered");
    assert!(matches!(event, Some(Event::Head { status: 200, .. })));
    // There is no room for a second one.
    assert_refused(&exchange(server.address(), &Request::new("GET", raw)));
    send(700_000).expect(200);
    send(10).expect(200);
}

#[test]
fn slow_reader_of_large_messages_leaves_memory_to_others() {
    let server = server("little_reading_memory.toml");
    let path = "/upload/gmail/v1/users/me/messages?uploadType=media";
    let text = format!("Subject: hay\r\n\r\n{}\r\n", "x".repeat(150_000));
    let insert = Request::new("POST", path).header("Content-Type", "message/rfc822");
    let message = exchange(server.address(), &insert.body(text)).expect(200);
    let raw = format!(
        "/gmail/v1/users/me/messages/{}?format=raw",
        farm::id(&message)
    );
    // Four of them have all of the memory, if nothing keeps a client to its share.
    let mut reader = Http2Peer::connect(server.address(), 0);
    for _ in 0..5 {
        reader.get(&raw);
    }
    for _ in 0..5 {
        assert!(matches!(reader.next_event(), Ok(Some(Event::Head { .. }))));
    }
    let mut neighbour = RawPeer::connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address());
    neighbour.exchange(&Request::new("GET", raw)).expect(200);
    drop(reader);
}

#[test]
fn client_with_many_requests_leaves_memory_to_others() {
    let server = server("little_json_memory.toml");
    let neighbour = || RawPeer::connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address());
    let animal = farm::upload(server.address(), Media::new(44, 60_000));
    let media = format!("{}?alt=media", farm::animal(&farm::id(&animal)));
    let [_, call, _] = with_json(&json(25_000));

    let mut replies = Http2Peer::connect(server.address(), 0);
    for _ in 0..30 {
        replies.get(&media);
        assert!(matches!(replies.next_event(), Ok(Some(Event::Head { .. }))));
    }
    let download = Request::new("GET", media.as_str());
    assert_refused(&exchange(server.address(), &download));
    neighbour().exchange(&download).expect(200);
    // The replies to `call` must not be refused for the memory that these downloads hold.
    drop(replies);
    wait_for(&server, &download, 200);

    // The neighbour is preferred only once the memory for metadata is short.
    let bodies = take_memory(&server, &call, || {
        let mut bodies = Http2Peer::connect(server.address(), 1000);
        for _ in 0..30 {
            let headers = [("content-type", "application/json")];
            let stream = bodies.request("POST", ANIMALS, &headers, false);
            bodies.data(stream, json(30_000).as_bytes(), false);
        }
        bodies
    });
    neighbour().exchange(&call).expect(200);
    drop(bodies);
}
