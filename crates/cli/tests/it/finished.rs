//! The answers of a finished session (docs/protocol.md, 4.10 and 4.11).

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::RawPeer;
use windlass_testkit::session::CHUNK_GRANULARITY;

use crate::server::farm;

const MEDIA: Media = Media::new(13, CHUNK_GRANULARITY + 1);

#[test]
fn finished_session_repeats_its_reply_to_any_request() {
    let name = "finished-once";
    let session = farm::begin(farm(), name);
    session.append(MEDIA, 0..CHUNK_GRANULARITY).expect(308);
    let last = session
        .append(MEDIA, CHUNK_GRANULARITY..MEDIA.len())
        .expect(201);
    let requests = [
        session.ranged("bytes */*").body(""),
        session.ranged("bytes */262145").body(""),
        session.ranged("bytes */0").body(""),
        session
            .ranged("bytes 262144-262144/262145")
            .body(MEDIA.bytes(262_144..262_145)),
        session.ranged("bytes 0-262144/262145").body(MEDIA.whole()),
        session.ranged("bytes 0-9/10").body("0123456789"),
        session.ranged("bytes 900000-900002/900003").body("abc"),
        session.ranged("no range").body("abc"),
        session.request("PUT").body("abc"),
        session.request("POST").body(MEDIA.whole()),
        session
            .request("POST")
            .header("X-GUploader-No-308", "yes")
            .body(""),
    ];
    for request in requests {
        let reply = session.exchange(&request);
        assert_eq!(
            (reply.status, &reply.body),
            (last.status, &last.body),
            "{request:?}"
        );
        assert_eq!(reply.header("content-type"), last.header("content-type"));
        assert_eq!(reply.header("x-http-status-code-override"), None);
    }
    assert_eq!(farm::count(farm(), name), 1);
}

#[test]
fn a_finished_session_answers_before_a_long_body_and_closes() {
    let session = farm::begin(farm(), "finished-early");
    let last = session.append(MEDIA, 0..MEDIA.len()).expect(201);
    let mut peer = RawPeer::connect(farm());
    let request = session
        .ranged("bytes 0-999999999/1000000000")
        .header("Content-Length", 1_000_000_000);
    peer.send(request.head_bytes());
    let reply = peer.reply().expect(201);
    assert_eq!(reply.body, last.body);
    assert_eq!(reply.header("connection"), Some("close"));
}
