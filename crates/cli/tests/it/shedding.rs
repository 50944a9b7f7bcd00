//! The requests that a nearly full server refuses first (docs/configuration.md, "Limits").

use std::net::Ipv4Addr;

use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::http2::Http2Peer;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::Session;
use windlass_testkit::wait;

use crate::callers::limited;
use crate::server::with_configuration;

const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The head of a request without its body.
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
    for held_before in 0..12 {
        peers.push(held(&server, &simple));
        wait::until("the upload is there", || {
            used(&server, "uploads") == held_before + 1
        });
    }
    let whole = simple.body("moo");
    assert_refused(&exchange(server.address(), &whole));
    let mut neighbour = RawPeer::connect_from(NEIGHBOUR, server.address());
    neighbour.exchange(&whole).expect(200);

    // Requests that need no place among the uploads.
    let start = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    for used in 13..=24 {
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
    (1..=12).for_each(|used| hold(&start, used));
    let send = |request: &Request| exchange(server.address(), request);
    assert_refused(&send(&farm::start(&farm::named("one more"))));
    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    assert_refused(&send(
        &simple.header("Content-Type", "image/png").body("moo"),
    ));
    let query = sessions[0].ranged("bytes */*").body("");
    send(&query).expect(308);
    send(&Request::new("GET", ANIMALS)).expect(200);

    hold(&sessions[0].ranged("bytes 0-999/2000"), 13);
    assert_refused(&send(&query));
    assert_refused(&send(&Request::new("GET", ANIMALS)));
    hold(&sessions[1].ranged("bytes 0-999/2000"), 14);
    let append = sessions[2].ranged("bytes 0-2/*").body("moo");
    assert_refused(&send(&append));
    let end = sessions[2].ranged("bytes 0-2/3").body("moo");
    send(&end).expect(201);
    send(&Request::new("GET", "/healthz")).expect(200);
}

/// Sends requests that claim to end an upload, on streams with replies that are never taken.
fn hold_by_claims(server: &ServerProcess, connections: usize) -> Vec<Http2Peer> {
    let mut peers: Vec<_> = (0..connections)
        .map(|_| Http2Peer::connect(server.address(), 0))
        .collect();
    for peer in &mut peers {
        for _ in 0..32 {
            peer.get("/farm/v1/animals?upload_id=x");
        }
    }
    peers
}

#[test]
fn client_that_claims_much_leaves_places_to_others() {
    let server = with_configuration("[limits]\nrequests = 64\n");
    let _peers = hold_by_claims(&server, 3);
    wait::until("it holds all that it may", || requests(&server) == 60);
    let mut neighbour = RawPeer::connect_from(NEIGHBOUR, server.address());
    neighbour
        .exchange(&farm::start(&farm::named("honest")))
        .expect(200);
    neighbour
        .exchange(&Request::new("GET", ANIMALS))
        .expect(200);
}

#[test]
fn client_with_many_appends_leaves_uploads_to_others() {
    let server = with_configuration("[limits]\nuploads = 16\n[sessions]\nchunks = 'lenient'\n");
    let append = |session: &Session| session.ranged("bytes 0-999/2000");
    let peers: Vec<_> = (0..14)
        .map(|_| held(&server, &append(&farm::begin(server.address(), "held"))))
        .collect();
    wait::until("it holds all that it may", || {
        used(&server, "uploads") == 14
    });
    let session = farm::begin(server.address(), "one more");
    let end = session.ranged("bytes 0-2/3").body("moo");
    assert_refused(&exchange(server.address(), &end));
    let mut neighbour = RawPeer::connect_from(NEIGHBOUR, server.address());
    neighbour.exchange(&end).expect(201);
    drop(peers);
}

#[test]
fn requests_of_an_address_are_bounded_over_http_2() {
    let server = with_configuration("[limits]\nconnections_per_address = 40\n");
    let _peers = hold_by_claims(&server, 2);
    wait::until("it holds all that it may", || {
        limited(&server, "connections_per_address") == 24
    });
    let mut neighbour = RawPeer::connect_from(NEIGHBOUR, server.address());
    neighbour
        .exchange(&Request::new("GET", ANIMALS))
        .expect(200);
}

#[test]
fn client_with_many_downloads_leaves_some_to_others() {
    let server = with_configuration("[limits]\ndownloads = 16\n");
    let animal = farm::id(&farm::upload(server.address(), Media::new(3, 600_000)));
    let mut peer = Http2Peer::connect(server.address(), 0);
    for _ in 0..20 {
        peer.get(&format!("{}?alt=media", farm::animal(&animal)));
    }
    wait::until("it holds all that it may", || {
        used(&server, "downloads") == 13
    });
    assert_refused(&exchange(server.address(), &farm::download(&animal)));
    let mut neighbour = RawPeer::connect_from(NEIGHBOUR, server.address());
    neighbour.exchange(&farm::download(&animal)).expect(200);
}
