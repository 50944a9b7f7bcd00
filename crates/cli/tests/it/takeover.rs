//! Several requests on one session at the same time (docs/protocol.md, 4.8 and 4.9).

use std::thread;

use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session, content_range};
use windlass_testkit::{farm, wait};

use crate::server::{farm, own};

const MEDIA: Media = Media::new(22, 3 * CHUNK_GRANULARITY);

/// How much of the media a stalled connection has sent.
const SENT: u64 = 300_000;

/// A server that waits much longer for a body that stands still than a test waits for a reply.
fn patient() -> ServerProcess {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/patient.toml");
    own(&["--config", config])
}

/// A request for the whole media that stops in the middle, after the server has committed the bytes
/// sent so far.
fn stalled(session: &Session) -> RawPeer {
    let mut peer = session.peer();
    let request = session.ranged(&content_range(MEDIA, &(0..MEDIA.len())));
    let request = request
        .header("Expect", "100-continue")
        .header("Content-Length", MEDIA.len());
    peer.send(request.head_bytes());
    assert_eq!(peer.head().expect("an interim reply").status, 100);
    peer.send(MEDIA.bytes(0..SENT));
    wait::until("what was sent is committed", || {
        session.query().committed() == SENT
    });
    peer
}

#[test]
fn newer_append_takes_over_at_once_and_keeps_the_older_ones_bytes() {
    let server = patient();
    let session = farm::begin(server.address(), "taken-over");
    let older = stalled(&session);
    // The repeated bytes differ from the bytes sent before. The media is right only if the server
    // kept the first bytes and skips these.
    let others = Media::new(99, SENT).whole();
    let again = [others, MEDIA.bytes(SENT..MEDIA.len())].concat();
    let reply = session
        .put(&content_range(MEDIA, &(0..MEDIA.len())), again)
        .expect(201);
    farm::assert_media(server.address(), &reply, MEDIA);
    drop(older);
}

#[test]
fn bytes_of_an_older_append_after_the_takeover_are_ignored() {
    let session = farm::begin(farm(), "taken-over");
    let mut older = stalled(&session);
    let reply = session.append(MEDIA, 0..2 * CHUNK_GRANULARITY);
    assert_eq!(reply.committed(), 2 * CHUNK_GRANULARITY);
    older.try_send(MEDIA.bytes(SENT..MEDIA.len())).ok();
    if let Ok(reply) = older.try_reply() {
        assert_eq!(reply.status, 503, "{reply:?}");
    }
    assert_eq!(session.query().committed(), 2 * CHUNK_GRANULARITY);
    let reply = session
        .append(MEDIA, 2 * CHUNK_GRANULARITY..MEDIA.len())
        .expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn a_query_does_not_disturb_a_running_append() {
    let session = farm::begin(farm(), "queried");
    let mut append = stalled(&session);
    for _ in 0..3 {
        let reply = session.query().expect(308);
        assert_eq!(reply.range(), SENT);
    }
    append.send(MEDIA.bytes(SENT..MEDIA.len()));
    farm::assert_media(farm(), &append.reply().expect(201), MEDIA);
}

#[test]
fn concurrent_last_chunks_give_one_resource_and_equal_replies() {
    let name = "finished-twice";
    for round in 1..=10 {
        let session = farm::begin(farm(), name);
        let [one, other] = at_the_same_time(&session);
        assert_eq!((one.status, &one.body), (201, &other.body), "{other:?}");
        assert_eq!(other.status, 201);
        assert_eq!(farm::count(farm(), name), round);
    }
}

fn at_the_same_time<const N: usize>(session: &Session) -> [Reply; N] {
    thread::scope(|scope| {
        let appends = [(); N].map(|()| scope.spawn(|| session.append(MEDIA, 0..MEDIA.len())));
        appends.map(|append| append.join().expect("an append does not panic"))
    })
}

#[test]
fn many_concurrent_last_chunks_get_equal_replies() {
    let name = "finished-often";
    let session = farm::begin(farm(), name);
    let replies: [Reply; 8] = at_the_same_time(&session);
    let last = session.query().expect(201);
    for reply in replies {
        assert_eq!((reply.status, &reply.body), (201, &last.body), "{reply:?}");
    }
    assert_eq!(farm::count(farm(), name), 1);
}

#[test]
fn an_append_on_a_connection_that_was_reset_does_not_hold_up_the_next_one() {
    let server = patient();
    let session = farm::begin(server.address(), "reset");
    stalled(&session).reset();
    let committed = session.query().range();
    let reply = session.append(MEDIA, committed..MEDIA.len()).expect(201);
    farm::assert_media(server.address(), &reply, MEDIA);
}
