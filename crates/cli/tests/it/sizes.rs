//! Limits on the parts of a single request, and on a single connection over HTTP/2
//! (docs/configuration.md, "Limits").

use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS};
use windlass_testkit::http2::{Event, Http2Peer, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Request, exchange};

use crate::batch::batch;
use crate::callers::limited;
use crate::server::{own, with_configuration};

/// Limits below the defaults, so that requests above them stay below the defaults.
const SMALL: &str = r#"
[limits]
head = "8KB"
part_headers = "1KB"
json_values = 100
json_depth = 5
streams = 2
window = "256KB"
"#;

fn probe_with(header_len: usize) -> Request {
    Request::new("GET", "/healthz").header("X-Long", "x".repeat(header_len))
}

#[track_caller]
fn assert_limited(server: &ServerProcess, limit: &str, times: u64) {
    assert_eq!(limited(server, limit), times, "{limit}");
}

#[test]
fn head_above_its_limit_is_answered_431_and_counted() {
    let server = with_configuration(SMALL);
    let peer = || RawPeer::connect(server.address());
    peer().exchange(&probe_with(7_000)).expect(200);
    assert_limited(&server, "head", 0);
    let mut refused = peer();
    refused.try_send(probe_with(10_000).to_bytes()).ok();
    assert_eq!(refused.reply().status, 431);
    drop(refused);
    windlass_testkit::wait::until("it is counted", || limited(&server, "head") == 1);

    let generous = with_configuration("[limits]\nhead = \"64KB\"\n");
    exchange(generous.address(), &probe_with(60_000)).expect(200);
}

#[test]
fn head_above_its_limit_over_http_2_is_refused() {
    let server = with_configuration(SMALL);
    let mut peer = Http2Peer::connect(server.address(), 1024);
    for (len, status) in [(7_000, 200), (10_000, 431)] {
        let stream = peer.request("GET", "/healthz", &[("x-long", &"x".repeat(len))], true);
        assert_eq!(peer.reply(stream).status, status, "{len}");
    }
}

#[test]
fn head_with_more_than_100_fields_is_answered_431() {
    let server = own(&[]);
    for (fields, status) in [(100, 200), (101, 431)] {
        let names: Vec<_> = (0..fields).map(|number| format!("x-{number}")).collect();
        let headers: Vec<_> = names.iter().map(|name| (&**name, "x")).collect();
        let mut peer = Http2Peer::connect(server.address(), 1024);
        let stream = peer.request("GET", "/healthz", &headers, true);
        assert_eq!(peer.reply(stream).status, status, "{fields} over HTTP/2");

        // hyper counts `Host`, too.
        let lines: Vec<_> = names[1..]
            .iter()
            .map(|name| format!("{name}: x\r\n"))
            .collect();
        let lines = lines.concat();
        let mut peer = RawPeer::connect(server.address());
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
        peer.try_send(head).ok();
        assert_eq!(peer.reply().status, status, "{fields} over HTTP/1");
    }
    windlass_testkit::wait::until("both are counted", || limited(&server, "head") == 2);
}

#[test]
fn cookies_are_one_field_over_http_2() {
    let server = own(&[]);
    let mut peer = Http2Peer::connect(server.address(), 1024);
    let stream = peer.request("GET", "/healthz", &[("cookie", "a=b"); 101], true);
    assert_eq!(peer.reply(stream).status, 200);
}

#[test]
fn streams_and_window_of_a_connection_are_those_of_the_settings() {
    let announced = |server: &ServerProcess| {
        let peer = Http2Peer::connect(server.address(), 1024);
        let setting = |id| peer.setting(id).expect("the server states it");
        let (streams, window) = (
            setting(MAX_CONCURRENT_STREAMS),
            setting(INITIAL_WINDOW_SIZE),
        );
        (streams, window, peer.connection_window())
    };
    assert_eq!(announced(&own(&[])), (32, 1024 * 1024, 1024 * 1024));
    let server = with_configuration(SMALL);
    assert_eq!(announced(&server), (2, 256 * 1024, 256 * 1024));

    let mut peer = Http2Peer::connect(server.address(), 1024);
    let length = [("content-type", "image/png"), ("content-length", "10")];
    let upload = "/upload/farm/v1/animals?uploadType=media";
    let begun: Vec<_> = (0..2)
        .map(|_| peer.request("POST", upload, &length, false))
        .collect();
    let further = peer.request("POST", upload, &length, false);
    let event = peer.next_event().expect("a frame comes");
    assert_eq!(event, Some(Event::Reset { stream: further }));
    // The open streams continue, and the slot of an ended stream is free.
    peer.data(begun[0], &[0; 10], true);
    assert_eq!(peer.reply(begun[0]).status, 200);
    let next = peer.request("POST", upload, &length, false);
    peer.data(next, &[0; 10], true);
    assert_eq!(peer.reply(next).status, 200);
}

#[test]
fn parts_and_json_above_their_limits_are_refused_and_counted() {
    let server = with_configuration(SMALL);
    let send = |request: &Request| exchange(server.address(), request);
    let insert = |json: &str| {
        Request::new("POST", ANIMALS)
            .header("Content-Type", "application/json")
            .body(json)
    };
    let values = |count: usize| format!(r#"{{"name":"a","tags":[{}0]}}"#, "0,".repeat(count));
    let nested = |depth: usize| {
        let arrays = depth - 1;
        format!(
            r#"{{"name":"a","x":{}{}}}"#,
            "[".repeat(arrays),
            "]".repeat(arrays)
        )
    };
    let multipart = |json: &str, header_len: usize| {
        let long = "x".repeat(header_len);
        let body = format!(
            "--b\r\nContent-Type: application/json\r\nX-Long: {long}\r\n\r\n{json}\r\n\
             --b\r\nContent-Type: image/png\r\n\r\nmedia\r\n--b--"
        );
        Request::new("POST", "/upload/farm/v1/animals?uploadType=multipart")
            .header("Content-Type", "multipart/related; boundary=b")
            .body(&body)
    };
    let start = |json: &str| farm::start(json);
    let call = |header_len: usize| {
        let long = "x".repeat(header_len);
        batch(&[format!("GET {ANIMALS} HTTP/1.1\r\nX-Long: {long}\r\n\r\n")])
    };
    for allowed in [
        insert(&nested(5)),
        insert(&values(90)),
        multipart(&nested(5), 500),
        multipart(&values(90), 500),
        start(&nested(5)),
        call(500),
    ] {
        send(&allowed).expect(200);
    }
    for limit in ["json_depth", "json_values", "part_headers"] {
        assert_limited(&server, limit, 0);
    }
    let refused = [
        ("json_depth", insert(&nested(6))),
        ("json_depth", multipart(&nested(6), 0)),
        ("json_depth", start(&nested(6))),
        ("json_values", insert(&values(100))),
        ("json_values", multipart(&values(100), 0)),
        ("json_values", start(&values(100))),
        ("part_headers", multipart("{}", 1100)),
        ("part_headers", call(1100)),
    ];
    for (limit, request) in refused {
        let before = limited(&server, limit);
        assert_error(&send(&request), 400, "parseError", None);
        assert_limited(&server, limit, before + 1);
    }
}
