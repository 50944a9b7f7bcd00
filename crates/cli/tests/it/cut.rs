//! A connection is cut at any byte of a request.
//!
//! Fault model: the client's side of the connection goes away, by an end or by a reset, in the
//! middle of a body. The server keeps the bytes that arrived in order, and the client continues
//! from there.

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::Reply;
use windlass_testkit::session::{Session, content_range};

use crate::server;

const CUTS: u64 = 200;

const LEN: u64 = 3 * 1024 * 1024 + 17;

#[test]
fn an_upload_that_was_cut_at_a_random_byte_goes_on_where_it_broke() {
    let address = server::farm();
    std::thread::scope(|scope| {
        for lane in 0..4 {
            scope.spawn(move || {
                for round in (lane..CUTS).step_by(4) {
                    cut(address, round);
                }
            });
        }
    });
}

fn cut(address: std::net::SocketAddr, round: u64) {
    let media = Media::new(round, LEN);
    // Every length of the prefix is as likely, and every tenth cut is within the first bytes.
    let spread = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let sent = if round.is_multiple_of(10) {
        spread % 100
    } else {
        spread % LEN
    };
    let session = farm::begin(address, "cut");
    let mut peer = session.peer();
    let request = session.ranged(&content_range(media, &(0..LEN)));
    peer.send(request.header("Content-Length", LEN).head_bytes());
    peer.send(media.bytes(0..sent));
    if round.is_multiple_of(2) {
        peer.reset();
    } else {
        drop(peer);
    }
    let committed = session.query().committed();
    assert!(
        committed <= sent,
        "{committed} bytes of {sent} that were sent"
    );
    let reply = go_on(&session, media);
    farm::assert_media(address, &reply, media);
}

/// Sends the missing bytes. The server may read the cut request only after this request has begun,
/// and take the cut request for the newer one. It then replies 503, and the client asks and
/// continues.
fn go_on(session: &Session, media: Media) -> Reply {
    for _ in 0..10 {
        let committed = session.query().committed();
        let reply = session.append(media, committed..LEN);
        if reply.status != 503 {
            return reply.expect(201);
        }
    }
    panic!("it does not come to an end")
}
