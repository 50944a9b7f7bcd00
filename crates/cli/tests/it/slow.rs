//! A slow client: its bytes are committed while its request still runs.

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::session::content_range;
use windlass_testkit::wait;

use crate::server;

const MEDIA: Media = Media::new(31, 10_000_000);

#[test]
fn bytes_of_a_slow_client_are_committed_during_its_request() {
    // More than small media has, less than is written at once.
    commits_meanwhile(150_000);
}

#[test]
fn the_little_that_a_slow_client_has_sent_is_committed_too_when_there_will_be_more() {
    commits_meanwhile(40_000);
}

/// Sends this number of bytes, waits until they are committed, and sends the rest.
fn commits_meanwhile(sent: u64) {
    let session = farm::begin(server::farm(), "slow");
    let mut peer = session.peer();
    let request = session.ranged(&content_range(MEDIA, &(0..MEDIA.len())));
    peer.send(request.header("Content-Length", MEDIA.len()).head_bytes());
    peer.send(MEDIA.bytes(0..sent));
    wait::until("what was sent is committed", || {
        session.query().committed() == sent
    });
    peer.send(MEDIA.bytes(sent..MEDIA.len()));
    let reply = peer.reply().expect(201);
    farm::assert_media(server::farm(), &reply, MEDIA);
}
