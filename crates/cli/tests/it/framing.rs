//! Messages and connections (docs/protocol.md, 2.11, 4.20 and 4.28).

use windlass_testkit::encodings::chunked;
use windlass_testkit::farm::{self, ANIMALS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Request, exchange};

use crate::server::{farm, pond};

const MEDIA: Media = Media::new(20, 150_000);

fn head(name: &str, value: &str) -> Request {
    Request::new("POST", "/upload/farm/v1/animals?uploadType=media")
        .header("Content-Type", "image/png")
        .header(name, value)
}

#[test]
fn a_client_that_waits_for_100_gets_it_before_it_sends_the_body() {
    let mut peer = RawPeer::connect(farm());
    let request = head("Expect", "100-continue").header("Content-Length", MEDIA.len());
    peer.send(request.head_bytes());
    let interim = peer.head().unwrap();
    assert_eq!((interim.status, interim.reason.as_str()), (100, "Continue"));
    peer.send(MEDIA.whole());
    let reply = peer.head().unwrap();
    assert_eq!(reply.status, 200);
}

#[test]
fn a_client_that_waits_for_100_is_refused_without_it() {
    let session = farm::begin(farm(), "expected");
    let expecting = |request: Request| {
        request
            .header("Expect", "100-continue")
            .header("Content-Length", 300_000)
    };
    let table = [
        (expecting(session.ranged("bytes 1-300000/300001")), 503),
        (
            expecting(
                Request::new("POST", "/upload/farm/v1/animals?uploadType=media")
                    .header("Content-Type", "font/ttf"),
            ),
            400,
        ),
        (
            expecting(Request::new(
                "POST",
                "/upload/farm/v1/cows?uploadType=media",
            )),
            404,
        ),
    ];
    for (request, status) in table {
        let mut peer = RawPeer::connect(farm());
        peer.send(request.head_bytes());
        let first = peer.head().unwrap();
        assert_eq!(first.status, status);
        assert_eq!(first.header("connection"), Some("close"));
    }
}

#[test]
fn requests_may_be_pipelined() {
    let session = farm::begin(farm(), "pipelined");
    let mut peer = RawPeer::connect(farm());
    let requests = [
        session.ranged("bytes */*").body(""),
        session
            .ranged("bytes 0-262143/*")
            .body(Media::new(21, 300_000).bytes(0..262_144)),
        session.ranged("bytes */*").body(""),
        session
            .ranged("bytes 262144-299999/300000")
            .body(Media::new(21, 300_000).bytes(262_144..300_000)),
        session.ranged("bytes */*").body(""),
        Request::new("GET", "/healthz"),
    ];
    let wire: Vec<u8> = requests.iter().flat_map(Request::to_bytes).collect();
    peer.send(wire);
    let statuses: Vec<_> = requests.iter().map(|_| peer.reply().status).collect();
    assert_eq!(statuses, [308, 308, 308, 201, 201, 200]);
}

#[test]
fn a_connection_is_kept_after_every_kind_of_reply_whose_request_was_read() {
    let session = farm::begin(farm(), "kept");
    let mut peer = RawPeer::connect(farm());
    let requests = [
        (farm::simple(MEDIA), 200),
        (
            head("Transfer-Encoding", "chunked").raw_body(chunked([&b"abc"[..]])),
            200,
        ),
        (farm::start("{"), 400),
        (farm::start(""), 200),
        (session.ranged("bytes 9-11/12").body("abc"), 503),
        (session.ranged("bytes */*").body(""), 308),
        (Request::new("GET", "/farm/v1/animals/nobody"), 404),
        (Request::new("HEAD", "/farm/v1/animals/nobody"), 404),
        (session.request("DELETE").body(""), 499),
        (Request::new("GET", "/healthz"), 200),
    ];
    for (request, status) in requests {
        let reply = peer.exchange(&request);
        assert_eq!(reply.status, status, "{request:?}");
        assert_eq!(reply.header("connection"), None, "{request:?}");
    }
}

#[test]
fn a_connection_ends_when_the_client_wants_it_to() {
    let mut peer = RawPeer::connect(farm());
    let request = Request::new("GET", "/healthz").header("Connection", "close");
    assert_eq!(peer.exchange(&request).header("connection"), Some("close"));
    assert!(peer.is_closed());
    let mut peer = RawPeer::connect(farm());
    peer.send("GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(peer.reply().status, 200);
    assert!(peer.is_closed());
}

#[test]
fn a_reply_to_a_long_body_that_is_refused_reaches_a_client_that_is_still_sending() {
    let mut peer = RawPeer::connect(pond());
    let request = Request::new("POST", "/upload/pond/v2/frogs?uploadType=media")
        .header("Content-Type", "image/png")
        .header("Content-Length", 4_000_000);
    peer.send(request.head_bytes());
    // More than the buffers of the sockets hold; the server has refused long before the end.
    for _ in 0..40 {
        peer.send(MEDIA.bytes(0..100_000));
    }
    let reply = peer.reply();
    assert_eq!(reply.status, 413);
    assert_eq!(reply.header("connection"), Some("close"));
    peer.finish_sending();
    assert!(peer.is_closed());
}

#[test]
fn malformed_length_is_refused_and_closes_the_connection() {
    for length in [
        "-224288",
        "+5",
        "5,6",
        "5 5",
        "0x5",
        "18446744073709551616",
        "five",
    ] {
        assert_refused_and_closed(&head("Content-Length", length).raw_body("abcde"));
    }
}

#[test]
fn two_lengths_that_differ_are_refused_and_the_connection_closed() {
    assert_refused_and_closed(
        &head("Content-Length", "5")
            .header("Content-Length", "6")
            .raw_body("abcde"),
    );
}

/// RFC 9112, 6.3: a server may refuse such a request, or take the chunks and close the connection,
/// so that no smuggled request is read from it. The HTTP library does the latter.
#[test]
fn chunks_win_over_a_length_and_the_connection_is_closed() {
    let body = chunked([&b"abc"[..]]);
    let length_first = head("Content-Length", "5").header("Transfer-Encoding", "chunked");
    let length_last = head("Transfer-Encoding", "chunked").header("Content-Length", "5");
    for request in [length_first, length_last] {
        let mut peer = RawPeer::connect(farm());
        let smuggled = Request::new("GET", "/healthz").to_bytes();
        peer.send([request.raw_body(&body).to_bytes(), smuggled].concat());
        assert_eq!(peer.reply().expect(200).field("size"), "3");
        assert!(peer.is_closed());
    }
}

#[test]
fn another_transfer_coding_than_chunked_is_refused_and_the_connection_closed() {
    for coding in ["gzip", "gzip, chunked", "chunked, chunked", "identity"] {
        let mut peer = RawPeer::connect(farm());
        peer.send(
            head("Transfer-Encoding", coding)
                .raw_body(chunked([&b"abc"[..]]))
                .to_bytes(),
        );
        let reply = peer.reply();
        assert!(matches!(reply.status, 400 | 501), "{coding}: {reply:?}");
        assert!(peer.is_closed(), "{coding}");
    }
}

#[test]
fn chunks_with_malformed_sizes_store_nothing_as_complete() {
    let name = "malformed-chunks";
    for body in [
        "xyz\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
    ] {
        let session = farm::begin(farm(), name);
        let mut peer = RawPeer::connect(farm());
        let request = session
            .ranged("bytes 0-*/*")
            .header("Transfer-Encoding", "chunked");
        peer.send(request.raw_body(body).to_bytes());
        if let Ok(reply) = peer.try_reply() {
            assert!((400..500).contains(&reply.status), "{body:?}: {reply:?}");
        }
        assert!(peer.is_closed(), "{body:?}");
        session.query().expect(308);
    }
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn chunk_extensions_and_trailers_are_passed_over() {
    let body = "3;name=\"value\"\r\nabc\r\n0\r\nX-Trailer: yes\r\n\r\n";
    let request = head("Transfer-Encoding", "Chunked")
        .header("Trailer", "X-Trailer")
        .raw_body(body);
    assert_eq!(exchange(farm(), &request).expect(200).field("size"), "3");
}

/// Sends all at once, and returns the statuses of the replies until the connection ends.
fn statuses(sent: &str) -> Vec<u16> {
    let mut peer = RawPeer::connect(farm());
    peer.send(sent);
    let mut statuses = Vec::new();
    while let Ok(reply) = peer.try_reply() {
        statuses.push(reply.status);
    }
    statuses
}

#[test]
fn what_follows_connect_is_for_a_tunnel_and_no_request() {
    let next = "DELETE /farm/v1/animals/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for length in ["", "Content-Length: 0\r\n"] {
        let connect = format!("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n{length}\r\n");
        assert_eq!(statuses(&format!("{connect}{next}")).len(), 1, "{length}");
    }
}

#[test]
fn connection_ends_after_trailers_which_may_be_the_head_of_a_request() {
    let chunked = "POST /farm/v1/animals HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
    let next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(statuses(&format!("{chunked}\r\n{next}")), [200, 200]);
    for end in ["X-Y: z\r\n\r\n", "\n"] {
        assert_eq!(
            statuses(&format!("{chunked}{end}{next}{next}")),
            [200],
            "{end:?}"
        );
    }
    let packed = chunked.replace("\r\n2\r\n{}", "Content-Encoding: gzip\r\n\r\n");
    let packed = packed.replace("gzip\r\n\r\n\r\n", "gzip\r\n\r\n");
    assert_eq!(statuses(&format!("{packed}X-Y: z\r\n\r\n{next}")).len(), 1);
}

#[test]
fn more_bytes_than_the_length_says_are_not_taken_for_media() {
    let session = farm::begin(farm(), "surplus");
    let mut peer = RawPeer::connect(farm());
    // google-api-python-client sends this when it resumes with one chunk for everything.
    let request = session.ranged("bytes 0-9/10").header("Content-Length", 10);
    peer.send(
        request
            .raw_body("0123456789surplus surplus\r\n\r\n")
            .to_bytes(),
    );
    assert_eq!(peer.reply().expect(201).field("size"), "10");
    let second = peer.try_reply();
    assert!(second.is_err() || second.is_ok_and(|reply| reply.status == 400));
    assert!(peer.is_closed());
}

#[test]
fn a_reply_to_head_has_the_headers_of_get_and_no_body() {
    let id = farm::id(&farm::upload(farm(), MEDIA));
    for target in [
        farm::animal(&id),
        ANIMALS.to_owned(),
        format!("{}?alt=media", farm::animal(&id)),
    ] {
        let get = exchange(farm(), &Request::new("GET", &target)).expect(200);
        let mut peer = RawPeer::connect(farm());
        let head = peer.exchange(&Request::new("HEAD", &target));
        assert_eq!(head.status, 200);
        assert_eq!(head.header("content-type"), get.header("content-type"));
        assert_eq!(head.header("etag"), get.header("etag"));
        // Nothing of a body lies between this reply and the next one.
        assert_eq!(
            peer.exchange(&Request::new("GET", "/healthz")).text(),
            "ok\n"
        );
    }
}

#[track_caller]
fn assert_refused_and_closed(request: &Request) {
    let mut peer = RawPeer::connect(farm());
    peer.send(request.to_bytes());
    assert_eq!(peer.reply().status, 400, "{request:?}");
    assert!(peer.is_closed(), "{request:?}");
}
