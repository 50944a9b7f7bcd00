//! What is refused first where the server is nearly full (docs/configuration.md, "Limits").

use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::Session;
use windlass_testkit::wait;

use crate::server::{own, scratch};

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
    let metrics = exchange(server.address(), &Request::new("GET", "/metrics")).expect(200);
    let name = "windlass_capacity_used{resource=\"requests\"} ";
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
fn starts_are_refused_before_queries_these_before_appends_and_ends_last() {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    let settings = "[limits]\nrequests = 16\n[sessions]\nchunks = 'lenient'\n";
    std::fs::write(&config, settings).expect("it is writable");
    let server = own(&["--config", config.to_str().expect("it is UTF-8")]);
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
