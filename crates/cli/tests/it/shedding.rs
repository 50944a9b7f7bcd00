//! What is refused first where the server is nearly full (docs/configuration.md, "Limits").

use std::net::Ipv4Addr;

use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::Session;
use windlass_testkit::wait;

use crate::server::with_configuration;

/// The head of a request whose body never comes.
fn held(server: &ServerProcess, request: &Request) -> RawPeer {
    let mut peer = RawPeer::connect(server.address());
    peer.send(
        request
            .clone()
            .header("Content-Length", 1000)
            .raw_body("")
            .to_bytes(),
    );
    peer
}

fn requests(server: &ServerProcess) -> u64 {
    used(server, "requests")
}

fn used(server: &ServerProcess, resource: &str) -> u64 {
    let metrics = exchange(server.address(), &Request::new("GET", "/metrics")).expect(200);
    let name = &*format!("windlass_capacity_used{{resource=\"{resource}\"}} ");
    let line = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(name));
    line.and_then(|used| used.parse().ok())
        .expect("the metric is there")
}

#[track_caller]
fn assert_refused(reply: &Reply) {
    assert_eq!(
        (reply.status, reply.header("retry-after")),
        (503, Some("1")),
        "{reply:?}"
    );
}

#[test]
fn last_places_are_for_clients_that_have_taken_little() {
    let server = with_configuration("[limits]\nrequests = 32\nuploads = 16\n");
    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let simple = simple.header("Content-Type", "image/png");
    let mut peers = Vec::new();
    for held_before in 0..13 {
        peers.push(held(&server, &simple));
        wait::until("the upload is there", || {
            used(&server, "uploads") == held_before + 1
        });
    }
    let whole = simple.body("moo");
    assert_refused(&exchange(server.address(), &whole));
    let mut neighbour = RawPeer::connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address());
    neighbour.exchange(&whole).expect(200);

    // Requests that need no place among the uploads.
    let start = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    for used in 14..=26 {
        peers.push(held(&server, &start));
        wait::until("the request is there", || requests(&server) == used);
    }
    let start = farm::start(&farm::named("one more"));
    assert_refused(&exchange(server.address(), &start));
    neighbour.exchange(&start).expect(200);
}

#[test]
fn starts_are_refused_before_queries_these_before_appends_and_ends_last() {
    let server = with_configuration("[limits]\nrequests = 16\n[sessions]\nchunks = 'lenient'\n");
    let sessions: Vec<Session> = (0..3)
        .map(|_| farm::begin(server.address(), "kept"))
        .collect();
    let mut peers: Vec<RawPeer> = Vec::new();
    let mut hold = |request: &Request, used: u64| {
        peers.push(held(&server, request));
        wait::until("the request is there", || requests(&server) == used);
    };

    let start = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    (1..=13).for_each(|used| hold(&start, used));
    let send = |request: &Request| exchange(server.address(), request);
    assert_refused(&send(&farm::start(&farm::named("one more"))));
    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    assert_refused(&send(
        &simple.header("Content-Type", "image/png").body("moo"),
    ));
    let query = sessions[0].ranged("bytes */*").body("");
    send(&query).expect(308);
    send(&Request::new("GET", ANIMALS)).expect(200);

    hold(&sessions[0].ranged("bytes 0-999/2000"), 14);
    assert_refused(&send(&query));
    assert_refused(&send(&Request::new("GET", ANIMALS)));
    hold(&sessions[1].ranged("bytes 0-999/2000"), 15);
    let append = sessions[2].ranged("bytes 0-2/*").body("moo");
    assert_refused(&send(&append));
    let end = sessions[2].ranged("bytes 0-2/3").body("moo");
    send(&end).expect(201);
    send(&Request::new("GET", "/healthz")).expect(200);
}
