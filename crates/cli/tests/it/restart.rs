//! Data that survives the end of the server (docs/durability.md).

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::RawPeer;
use windlass_testkit::session::{CHUNK_GRANULARITY, Session, content_range};
use windlass_testkit::wait;

use crate::server::own;

const CHUNK: u64 = CHUNK_GRANULARITY;
const MEDIA: Media = Media::new(23, 20 * CHUNK + 5);

/// How a server ends.
const ENDS: [fn(&mut ServerProcess); 2] = [ServerProcess::kill9, terminate];

fn terminate(server: &mut ServerProcess) {
    assert!(server.terminate().success(), "{}", server.stderr());
}

/// Ends the server, starts it again, and returns the session at its new address.
fn restart(server: &mut ServerProcess, end: fn(&mut ServerProcess), session: &Session) -> Session {
    end(server);
    server.start_again();
    session.moved_to(server.address())
}

#[test]
fn an_acknowledged_byte_survives_the_end_of_the_server() {
    for end in ENDS {
        let mut server = own(&[]);
        let mut session = farm::begin(server.address(), "survivor");
        for committed in (1..=4).map(|count| count * 5 * CHUNK) {
            let reply = session.append(MEDIA, committed - 5 * CHUNK..committed);
            assert_eq!(reply.committed(), committed);
            session = restart(&mut server, end, &session);
            assert_eq!(session.query().committed(), committed);
        }
        let reply = session.append(MEDIA, 20 * CHUNK..MEDIA.len()).expect(201);
        farm::assert_media(server.address(), &reply, MEDIA);
    }
}

#[test]
fn upload_continues_after_a_crash_during_a_request() {
    let mut server = own(&[]);
    let session = farm::begin(server.address(), "crashed");
    session.append(MEDIA, 0..CHUNK).expect(308);
    let mut peer = session.peer();
    let request = session.ranged(&content_range(MEDIA, &(CHUNK..MEDIA.len())));
    peer.send(
        request
            .header("Content-Length", MEDIA.len() - CHUNK)
            .head_bytes(),
    );
    peer.send(MEDIA.bytes(CHUNK..10 * CHUNK));
    let session = restart(&mut server, ServerProcess::kill9, &session);
    let committed = session.query().committed();
    assert!((CHUNK..=10 * CHUNK).contains(&committed), "{committed}");
    let reply = session.append(MEDIA, committed..MEDIA.len()).expect(201);
    farm::assert_media(server.address(), &reply, MEDIA);
}

#[test]
fn terminated_server_commits_received_bytes() {
    let mut server = own(&[]);
    let session = farm::begin(server.address(), "drained");
    let mut peer = session.peer();
    let request = session.ranged(&content_range(MEDIA, &(0..MEDIA.len())));
    let request = request
        .header("Expect", "100-continue")
        .header("Content-Length", MEDIA.len());
    peer.send(request.head_bytes());
    assert_eq!(peer.head().unwrap().status, 100);
    peer.send(MEDIA.bytes(0..3 * CHUNK));
    wait::until("what was sent is committed", || {
        session.query().committed() == 3 * CHUNK
    });
    // The server reads an unknown number of these bytes before it receives the signal.
    peer.send(MEDIA.bytes(3 * CHUNK..5 * CHUNK));
    let session = restart(&mut server, terminate, &session);
    let committed = session.query().committed();
    assert!((3 * CHUNK..=5 * CHUNK).contains(&committed), "{committed}");
    let reply = session.append(MEDIA, committed..MEDIA.len()).expect(201);
    farm::assert_media(server.address(), &reply, MEDIA);
}

#[test]
fn request_that_ends_during_the_drain_is_answered() {
    let mut server = own(&[]);
    let session = farm::begin(server.address(), "drained");
    let mut peer = session.peer();
    let request = session
        .ranged("bytes 0-262143/*")
        .header("Expect", "100-continue");
    peer.send(request.header("Content-Length", CHUNK).head_bytes());
    assert_eq!(peer.head().unwrap().status, 100);
    server.ask_to_end();
    peer.send(MEDIA.bytes(0..CHUNK));
    let reply = peer.reply();
    assert_eq!(reply.committed(), CHUNK);
    assert!(peer.is_closed());
    assert!(server.wait_for_end().success(), "{}", server.stderr());
}

/// A server that has been asked to end while a request is answered, and the request's connection.
fn draining() -> (ServerProcess, Session, RawPeer) {
    let server = own(&["--config", LONG_DRAIN]);
    let session = farm::begin(server.address(), "drained");
    let mut peer = session.peer();
    let request = session
        .ranged("bytes 0-262143/*")
        .header("Expect", "100-continue");
    peer.send(request.header("Content-Length", CHUNK).head_bytes());
    assert_eq!(peer.head().expect("an interim reply").status, 100);
    server.ask_to_end();
    (server, session, peer)
}

const LONG_DRAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/long_drain.toml");

/// `timeout` of coreutils sends a signal to the process and then to its group.
#[test]
fn two_signals_at_once_are_one() {
    let (mut server, _session, mut peer) = draining();
    server.ask_to_end();
    wait::until("it drains", || server.stderr().contains("draining"));
    peer.send(MEDIA.bytes(0..CHUNK));
    assert_eq!(peer.reply().committed(), CHUNK);
    assert!(server.wait_for_end().success(), "{}", server.stderr());
    assert!(
        !server.stderr().contains("second signal"),
        "{}",
        server.stderr()
    );
}

#[test]
fn signal_that_comes_later_stops_the_server_at_once() {
    let (mut server, _session, peer) = draining();
    // Signals of the first half second are ignored, and nothing shows when that is over.
    wait::until("it has ended", || {
        server.ask_to_end();
        server
            .stderr()
            .contains("stopped immediately by a second signal")
    });
    assert_eq!(server.wait_for_end().code(), Some(1));
    drop(peer);
}

#[test]
fn terminated_server_checkpoints_its_wal() {
    let mut server = own(&[]);
    for _ in 0..5 {
        let session = farm::begin(server.address(), "left");
        let mut idle = session.peer();
        idle.send(session.ranged("bytes */*").body("").to_bytes());
        assert_eq!(idle.reply().committed(), 0);
        terminate(&mut server);
        let log = server.data().join("ledger.sqlite-wal");
        assert!(!log.exists(), "the next start has to read it");
        server.start_again();
    }
}

#[test]
fn a_client_that_does_not_take_its_reply_does_not_keep_a_server_from_closing() {
    const LONG: Media = Media::new(29, 64 << 20);
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/short_drain.toml");
    let mut server = own(&["--config", config]);
    let session = farm::begin(server.address(), "taken");
    let reply = session.append(LONG, 0..LONG.len()).expect(201);
    let mut idle = session.peer();
    idle.send(farm::download(&farm::id(&reply)).to_bytes());
    assert_eq!(idle.head().unwrap().status, 200);
    terminate(&mut server);
    assert!(!server.data().join("ledger.sqlite-wal").exists());
}

#[test]
fn how_a_session_ended_is_remembered() {
    for end in ENDS {
        let mut server = own(&[]);
        let address = server.address();
        let finished = farm::begin(address, "finished");
        let reply = finished.append(MEDIA, 0..MEDIA.len()).expect(201);
        let cancelled = farm::begin(address, "cancelled");
        cancelled.cancel().expect(499);
        let failed = farm::begin(address, "failed");
        failed.put("bytes 0-0/*", "a").expect(400);
        let started = farm::begin(address, "started");
        let finished = restart(&mut server, end, &finished);
        let address = server.address();
        assert_eq!(finished.query().expect(201).body, reply.body);
        farm::assert_media(address, &reply, MEDIA);
        cancelled.moved_to(address).query().expect(499);
        failed.moved_to(address).query().expect(410);
        assert_eq!(started.moved_to(address).query().committed(), 0);
        assert_eq!(farm::count(address, "finished"), 1);
    }
}
