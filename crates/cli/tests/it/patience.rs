//! No wait is without a limit (docs/protocol.md, 2.11).

use std::time::Duration;

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Request};

use crate::server::{own, with_configuration};

const MEDIA: Media = Media::new(31, 600_000);

fn impatient() -> ServerProcess {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/impatient.toml");
    own(&["--config", config])
}

#[test]
fn stalled_append_is_ended_and_its_bytes_are_kept() {
    let server = impatient();
    let session = farm::begin(server.address(), "stalled");
    // google-api-python-client sends nothing when it tries a chunk again.
    for sent in [0, 1, 400_000] {
        let mut peer = session.peer();
        let request = session.request("PUT").header("Content-Length", MEDIA.len());
        peer.send(request.head_bytes());
        peer.send(MEDIA.bytes(0..sent));
        if let Ok(reply) = peer.try_reply() {
            assert_eq!(reply.status, 503, "{reply:?}");
        }
        assert!(peer.is_closed());
        assert_eq!(session.query().committed(), sent);
    }
    let reply = session.append(MEDIA, 400_000..MEDIA.len()).expect(201);
    farm::assert_media(server.address(), &reply, MEDIA);
}

#[test]
fn a_simple_upload_that_stands_still_is_given_up() {
    let server = impatient();
    let mut peer = RawPeer::connect(server.address());
    peer.send(&farm::simple(MEDIA).to_bytes()[..1000]);
    if let Ok(reply) = peer.try_reply() {
        assert_eq!(reply.status, 408, "{reply:?}");
    }
    assert!(peer.is_closed());
}

#[test]
fn a_head_that_stands_still_is_given_up() {
    let server = impatient();
    for sent in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "PUT /upload HTTP/1.1\r\nHost: f",
    ] {
        let mut peer = RawPeer::connect(server.address());
        peer.send(sent);
        if let Ok(reply) = peer.try_reply() {
            assert_eq!(reply.status, 408, "{reply:?}");
        }
        assert!(peer.is_closed(), "{sent:?}");
    }
}

#[test]
fn silent_connections_that_take_the_last_places_are_given_up_soon() {
    let server = with_configuration("[limits]\nconnections = 8\nhead_timeout = '1h'\n");
    let mut silent: Vec<_> = (0..8).map(|_| RawPeer::connect(server.address())).collect();
    for peer in &mut silent {
        peer.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
    }
    // It waits in the kernel until one of them is given up, long before the hour is over.
    let mut honest = RawPeer::connect(server.address());
    honest.set_patience(Duration::from_secs(120));
    honest
        .exchange(&Request::new("GET", "/healthz"))
        .expect(200);
}

#[test]
fn idle_connection_is_closed() {
    let server = impatient();
    let mut peer = RawPeer::connect(server.address());
    peer.exchange(&Request::new("GET", "/healthz")).expect(200);
    assert!(peer.is_closed());
}
