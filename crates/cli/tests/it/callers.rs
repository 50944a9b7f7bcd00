//! Limits on one caller (docs/configuration.md, "Limits").

use std::net::Ipv4Addr;

use windlass_testkit::error_object::assert_error;
use windlass_testkit::http2::{Event, Http2Peer};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Request};
use windlass_testkit::wait;

use crate::server::{own, with_configuration};

const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Where a simple upload goes.
const UPLOAD: &str = "/upload/farm/v1/animals?uploadType=media";

fn server(arguments: &[&str]) -> ServerProcess {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/few_per_address.toml");
    own(&[&["--config", config], arguments].concat())
}

fn server_for_few_resets() -> ServerProcess {
    with_configuration("[limits]\nresets_per_address = 5\n")
}

fn probe() -> Request {
    Request::new("GET", "/healthz")
}

/// How often a limit on callers has refused something.
pub(crate) fn limited(server: &ServerProcess, limit: &str) -> u64 {
    let mut peer = RawPeer::connect_from(Ipv4Addr::new(127, 0, 0, 3), server.address());
    let metrics = peer.exchange(&Request::new("GET", "/metrics")).expect(200);
    let name = format!("windlass_limited_total{{limit=\"{limit}\"}} ");
    let line = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(&*name));
    let count = line.expect("the metric is there").parse();
    count.expect("it is a number")
}

#[test]
fn connections_of_an_address_are_bounded_and_others_get_in() {
    let server = server(&[]);
    let mut peers: Vec<_> = (0..3).map(|_| RawPeer::connect(server.address())).collect();
    for peer in &mut peers {
        peer.exchange(&probe()).expect(200);
    }
    let mut further = RawPeer::connect(server.address());
    assert!(further.is_closed(), "it is closed at once");
    let mut neighbour = RawPeer::connect_from(NEIGHBOUR, server.address());
    neighbour.exchange(&probe()).expect(200);
    assert_eq!(limited(&server, "connections_per_address"), 1);

    // The slot of a connection that has ended is free.
    drop(peers.pop());
    wait::until("another connection gets in", || {
        let mut peer = RawPeer::connect(server.address());
        let sent = peer.try_send(probe().to_bytes());
        sent.and_then(|()| peer.try_reply()).is_ok()
    });
}

/// Clients that never pause could keep all others out.
#[test]
fn connections_that_are_kept_busy_make_room_for_those_that_wait() {
    let server = with_configuration("[limits]\nconnections = 5\n");
    let mut busy = RawPeer::connect(server.address());
    let kept = busy.exchange(&probe()).expect(200);
    assert_eq!(kept.header("connection"), None);
    let mut busy_http2 = Http2Peer::connect(server.address(), 65_535);
    let mut silent: Vec<_> = (0..2).map(|_| RawPeer::connect(server.address())).collect();
    silent[1].send(&probe().to_bytes()[..10]);
    let mut modest = RawPeer::connect_from(NEIGHBOUR, server.address());
    modest.exchange(&probe()).expect(200);
    // All slots are taken now. An address with few connections keeps its connections.
    let kept = modest.exchange(&probe()).expect(200);
    assert_eq!(kept.header("connection"), None);
    // New connections wait in the kernel.
    let mut waiting: Vec<_> = (0..2).map(|_| RawPeer::connect(server.address())).collect();
    for peer in &mut waiting {
        peer.send(probe().to_bytes());
    }
    // A request may come before the server has begun to wait for a slot.
    wait::until("the client is told to end", || {
        let reply = busy.exchange(&probe()).expect(200);
        reply.header("connection") == Some("close")
    });
    assert!(busy.is_closed());
    drop(busy);
    let mut waiting = waiting.into_iter();
    waiting.next().expect("it is there").reply().expect(200);
    let stream = busy_http2.get("/healthz");
    assert_eq!(busy_http2.reply(stream).status, 200);
    until_closed(&mut busy_http2);
    drop(busy_http2);
    waiting.next().expect("it is there").reply().expect(200);
}

/// The server learns by a PING whether a client knows that it has to end.
#[test]
fn client_that_does_not_take_note_that_its_place_is_wanted_loses_it() {
    let server = with_configuration("[limits]\nconnections = 2\nhead_timeout = '1s'\n");
    let mut stubborn = Http2Peer::connect(server.address(), 65_535);
    // The payload of a PING of the h2 crate.
    stubborn.leave_unanswered([0x0b, 0x7b, 0xa2, 0xf0, 0x8b, 0x9b, 0xfe, 0x54]);
    wait::until("the client is told to end", || {
        // Takes the second connection slot, and gives it up after a second.
        let mut other = RawPeer::connect(server.address());
        let _ = other
            .try_send(probe().to_bytes())
            .and_then(|()| other.try_reply());
        stubborn.get("/healthz");
        is_told_to_end(&mut stubborn)
    });
    until_closed(&mut stubborn);
}

/// Reads the reply to a request. Returns whether the server announced the end of the connection
/// before it.
fn is_told_to_end(peer: &mut Http2Peer) -> bool {
    loop {
        match peer.next_event().expect("a frame comes in time") {
            Some(Event::GoAway) => return true,
            Some(Event::Data { is_last: true, .. }) => return false,
            Some(_) => {}
            None => panic!("the connection has ended"),
        }
    }
}

/// Sends requests until the server has closed the connection.
fn until_closed(peer: &mut Http2Peer) {
    wait::until("the connection is closed", || {
        let asked = peer.try_get("/healthz");
        asked.is_err() || matches!(peer.next_event(), Ok(None))
    });
}

#[test]
fn requests_under_way_are_bounded_for_an_address_that_a_trusted_proxy_states() {
    let server =
        with_configuration("trust_forwarded = true\n[limits]\nconnections_per_address = 3\n");
    let of = |client: &str, request: Request| request.header("X-Forwarded-For", client);
    let begin = |client: &str| {
        let mut peer = RawPeer::connect(server.address());
        let upload = Request::new("POST", UPLOAD)
            .header("Content-Type", "image/png")
            .header("Content-Length", 10)
            .header("Expect", "100-continue");
        peer.send(of(client, upload).to_bytes());
        peer
    };
    let mut peers: Vec<_> = (0..3).map(|_| begin("192.0.2.1")).collect();
    for peer in &mut peers {
        assert_eq!(peer.head().expect("it is let in").status, 100);
    }
    let refused = begin("192.0.2.1").reply();
    assert_error(&refused, 429, "rateLimitExceeded", None);
    assert_eq!(refused.header("retry-after"), Some("1"));
    let neighbour = begin("192.0.2.2").head();
    assert_eq!(neighbour.expect("it is let in").status, 100);
    // Connections of the proxy itself, and probes, are not limited.
    RawPeer::connect(server.address())
        .exchange(&of("192.0.2.1", probe()))
        .expect(200);
    let mut last = peers.pop().expect("there are three");
    last.send("0123456789");
    last.reply().expect(200);
    let again = begin("192.0.2.1").head();
    assert_eq!(again.expect("it is let in").status, 100);
    assert_eq!(limited(&server, "connections_per_address"), 1);
}

#[test]
fn requests_of_an_address_and_of_a_principal_have_a_rate() {
    let server = server(&["--trust-forwarded"]);
    let mut peer = RawPeer::connect(server.address());
    // The client may have sent everything before the last element.
    let list = |from: &str| {
        Request::new("GET", "/farm/v1/animals")
            .header("X-Forwarded-For", format!("198.51.100.7, {from}"))
    };
    let refused = (0..100).find_map(|_| {
        let reply = peer.exchange(&list("192.0.2.1"));
        (reply.status != 200).then_some(reply)
    });
    let refused = refused.expect("a hundred requests in a moment are too many");
    assert_error(&refused, 429, "rateLimitExceeded", None);
    assert_eq!(refused.header("retry-after"), Some("1"));
    let preflight = |from: &str| {
        Request::new("OPTIONS", UPLOAD)
            .header("Origin", "https://app.example")
            .header("Access-Control-Request-Method", "POST")
            .header("X-Forwarded-For", from)
    };
    // On a slow machine the address may send another one meanwhile.
    let mut check = |what: &str, request: &Request| {
        wait::until(what, || {
            peer.exchange(&list("192.0.2.1"));
            peer.exchange(request).status == 429
        });
    };
    check("preflights count", &preflight("192.0.2.1"));
    let elsewhere = list("192.0.2.1").header("Host", "evil.example");
    check("what would be refused anyway counts, too", &elsewhere);
    peer.exchange(&preflight("192.0.2.2")).expect(204);
    peer.exchange(&list("192.0.2.2")).expect(200);
    peer.exchange(&probe().header("X-Forwarded-For", "192.0.2.1"))
        .expect(200);
    assert!(limited(&server, "requests_per_address") >= 3);
}

/// Begins an upload, and resets it after the server has begun with it. Returns whether the server
/// is still connected.
fn begin_and_reset(peer: &mut Http2Peer) -> bool {
    let stream = peer.request("POST", UPLOAD, &[], false);
    let reset = peer.ping().and_then(|()| peer.reset(stream));
    reset.and_then(|()| peer.ping()).is_ok()
}

#[test]
fn address_that_resets_request_after_request_is_shut_out_and_others_are_not() {
    let server = server_for_few_resets();
    let mut honest = RawPeer::connect(server.address());
    honest.exchange(&probe()).expect(200);
    let mut attacker = Http2Peer::connect(server.address(), 1000);
    let begun = (0..50)
        .take_while(|_| begin_and_reset(&mut attacker))
        .count();
    // The resets are counted when another request begins.
    assert!((6..50).contains(&begun), "{begun}");
    assert!(attacker.is_closed());
    let mut again = RawPeer::connect(server.address());
    assert!(again.is_closed(), "it is closed at once");
    let mut neighbour = RawPeer::connect_from(NEIGHBOUR, server.address());
    neighbour.exchange(&probe()).expect(200);
    honest.exchange(&probe()).expect(200);
    // The requests and the connection, each at least once.
    assert!(limited(&server, "resets_per_address") >= 2);
}

#[test]
fn client_that_resets_no_more_than_it_lets_be_answered_is_not_shut_out() {
    let server = server_for_few_resets();
    let mut peer = Http2Peer::connect(server.address(), 1000);
    for _ in 0..20 {
        let stream = peer.get("/healthz");
        assert_eq!(peer.reply(stream).status, 200);
        assert!(begin_and_reset(&mut peer));
    }
    RawPeer::connect(server.address())
        .exchange(&probe())
        .expect(200);
    // Nor a client with connections that break with all requests under way.
    for _ in 0..5 {
        let mut peer = Http2Peer::connect(server.address(), 1000);
        for _ in 0..3 {
            peer.request("POST", UPLOAD, &[], false);
        }
    }
    RawPeer::connect(server.address())
        .exchange(&probe())
        .expect(200);
    assert_eq!(limited(&server, "resets_per_address"), 0);
}
