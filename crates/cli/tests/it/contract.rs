//! The response contract that satisfies every client library at once (docs/protocol.md, 3.6 and
//! 3.7): one upload, each reply held against all that must not be in it.

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session, content_range};

use crate::server::farm;

const MEDIA: Media = Media::new(28, 3 * CHUNK_GRANULARITY + 1);

/// Checks that a 308 reply has nothing that confuses a client.
#[track_caller]
fn assert_harmless(reply: &Reply, committed: u64) {
    assert_eq!(reply.committed(), committed);
    assert_eq!(reply.reason, "Resume Incomplete");
    assert_eq!(reply.header("content-length"), Some("0"));
    for forbidden in [
        "location",
        "retry-after",
        "transfer-encoding",
        "connection",
        "content-encoding",
    ] {
        assert_eq!(reply.header(forbidden), None, "{forbidden}");
    }
}

#[test]
fn one_upload_on_one_connection_meets_every_point_of_the_contract() {
    let mut peer = RawPeer::connect(farm());
    let started = peer
        .exchange(&farm::start(&farm::named("contract")))
        .expect(200);
    let session = Session::of_reply(farm(), &started);
    for first in (0..3).map(|index| index * CHUNK_GRANULARITY) {
        let end = first + CHUNK_GRANULARITY;
        assert_harmless(&peer.exchange(&session.ranged("bytes */*").body("")), first);
        let chunk = session.ranged(&content_range(MEDIA, &(first..end)));
        assert_harmless(&peer.exchange(&chunk.body(MEDIA.bytes(first..end))), end);
    }
    let last = 3 * CHUNK_GRANULARITY..MEDIA.len();
    let request = session
        .ranged(&content_range(MEDIA, &last))
        .body(MEDIA.bytes(last));
    let reply = peer.exchange(&request).expect(201);
    assert!(
        reply
            .json()
            .as_object()
            .is_some_and(|fields| !fields.is_empty() && !fields.contains_key("error"))
    );
    for field in [
        "id", "name", "size", "crc32c", "mimeType", "selfLink", "etag",
    ] {
        assert!(reply.field(field).is_string(), "{field}");
    }
    for again in [request, session.ranged("bytes */*").body("")] {
        let repeated = peer.exchange(&again).expect(201);
        assert_eq!(repeated.body, reply.body);
        assert_eq!(repeated.header("retry-after"), None);
    }
    farm::assert_media(farm(), &reply, MEDIA);
}
