use std::io::{ErrorKind, Read as _, Write as _};
use std::time::Instant;

use super::*;
use crate::encodings;
use crate::media::Media;
use crate::raw::{RawPeer, Reply, Request};
use crate::wait;

mod server;

use server::{Seen, Server};

const SESSION: &str = "/upload/farm/v1/animals?uploadType=resumable&upload_id=abc";

/// A body that does not fit into one piece.
const MEDIA: Media = Media::new(3, 1_000_000);

/// The answer of a session: the number of body bytes so far.
fn session(seen: &Seen) -> Vec<u8> {
    let last = seen.body.len().saturating_sub(1);
    format!(
        "HTTP/1.1 308 Resume Incomplete\r\nX-A: b\r\nRange: bytes=0-{last}\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// A server of sessions behind a proxy.
fn setup(fault: Fault) -> (Server, FaultProxy) {
    let server = Server::start(session);
    let proxy = FaultProxy::start(server.address);
    proxy.set_plan(Plan::always(fault));
    (server, proxy)
}

fn put(media: Media) -> Request {
    let last = media.len() - 1;
    Request::new("PUT", SESSION)
        .header("Content-Range", format!("bytes 0-{last}/*"))
        .body(media.whole())
}

/// Sends a request of which the server may not want all.
fn sent(proxy: &FaultProxy, request: &Request) -> RawPeer {
    let mut peer = RawPeer::connect(proxy.address());
    peer.try_send(request.to_bytes()).ok();
    peer
}

fn only(proxy: &FaultProxy) -> Exchange {
    let mut exchanges = proxy.exchanges();
    assert_eq!(exchanges.len(), 1, "{exchanges:?}");
    exchanges.remove(0)
}

#[track_caller]
fn assert_prefix(seen: &Seen, len: usize) {
    assert!(!seen.is_whole);
    assert_eq!(seen.body.len(), len);
    assert!(seen.body == MEDIA.bytes(0..len as u64));
}

/// A reply to each of the requests that pass without a fault, of another form each.
fn every_form(seen: &Seen) -> Vec<u8> {
    let target = seen.head.split(' ').nth(1).unwrap();
    let reply: &[u8] = match target {
        "/length" => b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n"
        }
        "/head" => b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        "/none" => b"HTTP/1.1 204 No Content\r\n\r\n",
        "/308" => b"HTTP/1.1 308 Resume Incomplete\r\nrange: bytes=0-9\r\n\r\n",
        "/200" => {
            b"HTTP/1.1 200 OK\r\nX-HTTP-Status-Code-Override: 308\r\nContent-Length: 0\r\n\r\n"
        }
        "/interim" => {
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nA: b\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
        }
        "/close" => b"HTTP/1.0 200 OK\r\n\r\nall that comes",
        _ => b"",
    };
    reply.to_owned()
}

#[test]
fn without_a_fault_everything_passes_byte_for_byte_on_one_connection() {
    let server = Server::start(every_form);
    let proxy = FaultProxy::start(server.address);
    let chunked = encodings::chunked([&MEDIA.bytes(0..700_000)[..], b"x", b"yz"]);
    let requests = [
        Request::new("PUT", "/length").body(MEDIA.whole()),
        Request::new("POST", "/chunked")
            .header("Transfer-Encoding", "chunked")
            .raw_body(&chunked),
        Request::new("HEAD", "/head"),
        Request::new("DELETE", "/none").body(""),
        Request::new("PUT", "/308")
            .header("X-Odd", "  ")
            .body("0123456789"),
        Request::new("PUT", "/200").body(""),
        Request::new("PUT", "/interim").body("x"),
        Request::new("GET", "/close"),
    ];
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let all: Vec<_> = requests.iter().flat_map(Request::to_bytes).collect();
    stream.write_all(&all).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();

    let mut expected = Vec::new();
    for request in requests {
        let seen = server.seen();
        let came = [seen.head.as_bytes(), &seen.body].concat();
        assert!(came == request.to_bytes(), "{}", seen.head);
        expected.extend(every_form(&seen));
    }
    assert_eq!(
        String::from_utf8(replies).unwrap(),
        String::from_utf8(expected).unwrap()
    );
    assert_counts(&proxy.exchanges());
}

/// Checks the records of exchanges of every form.
fn assert_counts(exchanges: &[Exchange]) {
    let table = [
        (1_000_000, 200, None),
        (700_003, 200, None),
        (0, 200, None),
        (0, 204, None),
        (10, 308, Some(10)),
        (0, 200, Some(0)),
        (1, 201, None),
        (0, 200, None),
    ];
    assert_eq!(exchanges.len(), table.len());
    for (exchange, (body, status, committed)) in exchanges.iter().zip(table) {
        assert_eq!(exchange.body_bytes_received, body, "{exchange:?}");
        assert_eq!(exchange.body_bytes_forwarded, body, "{exchange:?}");
        assert_eq!(exchange.status, Some(status), "{exchange:?}");
        assert_eq!(exchange.committed, committed, "{exchange:?}");
        assert!(exchange.delivered, "{exchange:?}");
    }
}

#[test]
fn a_cut_request_ends_both_connections_in_order() {
    let (server, proxy) = setup(Fault::CutRequest { after: 300_000 });
    let mut peer = sent(&proxy, &put(MEDIA));
    let error = peer.try_reply().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert_prefix(&server.seen(), 300_000);
    let exchange = only(&proxy);
    assert_eq!(exchange.body_bytes_forwarded, 300_000);
    assert!(exchange.body_bytes_received >= 300_000);
    assert_eq!(exchange.content_range.as_deref(), Some("bytes 0-999999/*"));
    assert_eq!((exchange.status, exchange.delivered), (None, false));
}

#[test]
fn a_cut_behind_the_end_strikes_at_the_end() {
    let (server, proxy) = setup(Fault::CutRequest { after: u64::MAX });
    let mut peer = sent(&proxy, &put(MEDIA));
    let error = peer.try_reply().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert!(server.seen().is_whole);
    assert_eq!(only(&proxy).status, None);
}

#[test]
fn a_cut_counts_bytes_without_transfer_coding() {
    let (server, proxy) = setup(Fault::CutRequest { after: 5 });
    let request = Request::new("PUT", SESSION)
        .header("Transfer-Encoding", "chunked")
        .raw_body(encodings::chunked([&b"abc"[..], b"defg"]));
    let mut peer = sent(&proxy, &request);
    assert!(peer.try_reply().is_err());
    assert_eq!(server.seen().body, b"3\r\nabc\r\n4\r\nde");
    let exchange = only(&proxy);
    assert_eq!(exchange.body_bytes_forwarded, 5);
    assert_eq!(exchange.body_bytes_received, 7);
    assert_eq!(exchange.content_length, None);
}

#[test]
fn a_reset_request_ends_with_a_reset() {
    let (server, proxy) = setup(Fault::ResetRequest { after: 10 });
    let mut peer = sent(&proxy, &put(Media::new(3, 1_000)));
    let error = peer.try_reply().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_prefix(&server.seen(), 10);
}

#[test]
fn a_stall_holds_the_client_until_it_gives_up() {
    let (server, proxy) = setup(Fault::Stall { after: 10 });
    let mut peer = sent(&proxy, &put(Media::new(3, 1_000)));
    peer.set_patience(Duration::from_millis(50));
    let error = peer.try_reply().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_prefix(&server.seen(), 10);
    drop(peer);
    let is_held = |socket: &Weak<TcpStream>| socket.strong_count() > 0;
    wait::until("the proxy closes its sockets", || {
        !proxy.shared.state().sockets.iter().any(is_held)
    });
}

#[test]
fn dropping_the_proxy_ends_whatever_it_waits_for() {
    let faults = [
        Fault::Stall { after: 10 },
        Fault::Delay {
            by: Duration::from_secs(24 * 60 * 60),
        },
        Fault::Throttle {
            bytes_per_second: 1,
        },
        Fault::CutRequest { after: 10 },
    ];
    for fault in faults {
        let (_server, proxy) = setup(fault);
        let mut peer = sent(&proxy, &put(MEDIA));
        let _idle = RawPeer::connect(proxy.address());
        wait::until("the request is there", || !proxy.exchanges().is_empty());
        let dropped = wait::within(PATIENCE, || drop(proxy));
        assert!(dropped.is_some(), "{fault:?}");
        assert!(peer.is_closed());
    }
}

#[test]
fn a_delayed_request_passes_later_even_if_the_client_has_left() {
    let by = Duration::from_millis(60);
    let (server, proxy) = setup(Fault::Delay { by });
    let start = Instant::now();
    let mut peer = sent(&proxy, &put(MEDIA));
    assert_eq!(peer.reply().committed(), MEDIA.len());
    assert!(start.elapsed() >= by);
    assert!(server.seen().is_whole);
    drop(sent(&proxy, &put(Media::new(3, 1_000))));
    assert!(server.seen().is_whole);
}

#[test]
fn an_unavailable_server_sees_nothing_and_html_is_the_answer() {
    let retry_after = Some(7);
    let (server, proxy) = setup(Fault::Unavailable { retry_after });
    let mut peer = sent(&proxy, &put(MEDIA));
    let reply = peer.reply().expect(503);
    assert_eq!(reply.header("retry-after"), Some("7"));
    assert_eq!(
        reply.header("content-type"),
        Some("text/html; charset=UTF-8")
    );
    assert!(reply.text().starts_with("<html>"));
    assert!(peer.is_closed());
    assert!(server.has_seen_nothing());
    let exchange = only(&proxy);
    assert_eq!((exchange.status, exchange.delivered), (None, false));
    assert_eq!(exchange.body_bytes_forwarded, 0);
}

#[test]
fn a_load_balancer_that_loses_its_server_answers_itself() {
    let (server, proxy) = setup(Fault::UnavailableAfter { after: 300_000 });
    let mut peer = sent(&proxy, &put(MEDIA));
    assert_eq!(peer.reply().expect(503).header("retry-after"), None);
    assert_prefix(&server.seen(), 300_000);
    assert_eq!(only(&proxy).status, None);
}

#[test]
fn a_lost_reply_was_given() {
    let (server, proxy) = setup(Fault::LoseReply);
    let mut peer = sent(&proxy, &put(MEDIA));
    let error = peer.try_reply().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert!(server.seen().is_whole);
    let exchange = only(&proxy);
    assert_eq!(exchange.status, Some(308));
    assert_eq!(exchange.committed, Some(MEDIA.len()));
    assert!(!exchange.delivered);
}

#[test]
fn of_a_cut_reply_the_beginning_arrives() {
    for (after, delivered) in [(20, false), (10_000, true)] {
        let (server, proxy) = setup(Fault::CutReply { after });
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        stream.write_all(&put(MEDIA).to_bytes()).unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        let mut reply = session(&server.seen());
        reply.truncate(usize::try_from(after).unwrap());
        assert_eq!(came, reply);
        assert_eq!(only(&proxy).delivered, delivered);
    }
}

#[test]
fn a_308_may_lose_its_range_and_nothing_else() {
    let (_server, proxy) = setup(Fault::RangeLost);
    let mut peer = RawPeer::connect(proxy.address());
    for _ in 0..2 {
        let reply = peer.exchange(&put(MEDIA));
        assert_eq!(reply.committed(), 0);
        assert_eq!(reply.header("x-a"), Some("b"));
        assert_eq!(reply.header("content-length"), Some("0"));
    }
    assert_eq!(proxy.exchanges()[1].committed, Some(MEDIA.len()));
    assert!(proxy.exchanges()[1].delivered);
}

#[test]
fn a_reply_may_be_replaced() {
    for (status, body, content_type) in [
        (404, "<html>", "text/html; charset=UTF-8"),
        (401, "{}", "application/json; charset=UTF-8"),
    ] {
        let (server, proxy) = setup(Fault::Replace { status, body });
        let reply = sent(&proxy, &put(MEDIA)).reply().expect(status);
        assert_eq!(reply.text(), body);
        assert_eq!(reply.header("content-type"), Some(content_type));
        assert!(server.has_seen_nothing());
    }
}

#[test]
fn a_throttled_body_takes_its_time() {
    let (server, proxy) = setup(Fault::Throttle {
        bytes_per_second: MEDIA.len() * 10,
    });
    let start = Instant::now();
    let reply = sent(&proxy, &put(MEDIA)).reply();
    assert_eq!(reply.committed(), MEDIA.len());
    assert!(start.elapsed() >= Duration::from_millis(99));
    assert!(server.seen().body == MEDIA.whole());
}

#[test]
fn an_early_reply_is_delivered_and_the_body_goes_on() {
    let server = Server::start(|_| b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n".to_vec());
    let proxy = FaultProxy::start(server.address);
    let request = Request::new("PUT", "/early").body(MEDIA.whole());
    let mut peer = RawPeer::connect(proxy.address());
    peer.send(request.head_bytes());
    peer.reply().expect(410);
    peer.send(MEDIA.whole());
    assert!(server.seen().is_whole);
    peer.exchange(&request).expect(410);
}

#[test]
fn a_fault_in_the_request_does_not_strike_behind_an_early_reply() {
    let server = Server::start(|_| b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n".to_vec());
    let proxy = FaultProxy::start(server.address);
    proxy.set_plan(Plan::always(Fault::CutRequest { after: 1_000 }));
    let request = Request::new("PUT", "/early").body(MEDIA.whole());
    let mut peer = RawPeer::connect(proxy.address());
    peer.send(request.head_bytes());
    peer.reply().expect(410);
    peer.send(MEDIA.whole());
    assert!(server.seen().is_whole);
    assert!(only(&proxy).delivered);
}

#[test]
fn a_server_that_hangs_up_is_seen_by_the_client() {
    let server = Server::start(|_| Vec::new());
    let proxy = FaultProxy::start(server.address);
    let mut peer = sent(&proxy, &put(MEDIA));
    let error = peer.try_reply().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(only(&proxy).body_bytes_forwarded, MEDIA.len());
}

#[test]
fn requests_go_to_the_next_life_of_the_server() {
    let server = Server::start(session);
    let proxy = FaultProxy::start(server.address);
    let mut idle = RawPeer::connect(proxy.address());
    idle.exchange(&put(MEDIA)).expect(308);
    drop(server);
    assert!(idle.is_closed());
    let mut refused = sent(&proxy, &put(Media::new(3, 1_000)));
    assert!(refused.try_reply().is_err());
    let server = Server::start(session);
    proxy.set_upstream(server.address);
    assert_eq!(sent(&proxy, &put(MEDIA)).reply().committed(), MEDIA.len());
    let exchanges = proxy.exchanges();
    let statuses: Vec<_> = exchanges.iter().map(|exchange| exchange.status).collect();
    assert_eq!(statuses, [Some(308), None, Some(308)]);
}

#[test]
fn a_client_that_has_said_all_is_still_answered() {
    let server = Server::start(session);
    let proxy = FaultProxy::start(server.address);
    let mut peer = sent(&proxy, &put(MEDIA));
    peer.finish_sending();
    assert_eq!(peer.reply().committed(), MEDIA.len());
    assert!(peer.is_closed());
    // A client that breaks off is not taken for a client that has sent everything.
    let mut peer = RawPeer::connect(proxy.address());
    peer.send(&put(MEDIA).to_bytes()[..1_000]);
    peer.finish_sending();
    assert!(peer.is_closed());
    assert!(server.seen().is_whole);
    assert!(!server.seen().is_whole);
}

#[test]
fn behind_a_mix_the_requests_pass() {
    let server = Server::start(session);
    let proxy = FaultProxy::start(server.address);
    let small = Media::new(3, 20_000);
    for seed in 0..8 {
        proxy.set_plan(Plan::mix(seed, 3));
        // Requests without a fault are answered, so three faults spoil at most three attempts.
        let answered = (0..50).map(|_| attempt(&proxy, &put(small)));
        let answered = answered.filter(|reply| reply.as_ref().is_some_and(|r| r.status == 308));
        assert!(answered.count() >= 47, "seed {seed}");
    }
}

fn attempt(proxy: &FaultProxy, request: &Request) -> Option<Reply> {
    let earlier = proxy.exchanges().len();
    let mut peer = sent(proxy, request);
    wait::until("the request is there", || proxy.exchanges().len() > earlier);
    // A stall would be waited for in vain.
    let is_stalled = matches!(proxy.exchanges()[earlier].fault, Some(Fault::Stall { .. }));
    (!is_stalled).then(|| peer.try_reply().ok())?
}

#[test]
#[should_panic(expected = "the plan, or the proxy itself, has panicked")]
fn an_assertion_of_a_plan_shows() {
    let server = Server::start(session);
    let proxy = FaultProxy::start(server.address);
    proxy.set_plan(Plan::new(|_| panic!("this test wants it")));
    sent(&proxy, &put(MEDIA)).try_reply().ok();
}
