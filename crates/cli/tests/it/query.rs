//! Queries, and ends of uploads without data (docs/protocol.md, 2.9 and 4.19).

use windlass_testkit::encodings::{chunked, gzip};
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::Request;
use windlass_testkit::session::{CHUNK_GRANULARITY, Session};

use crate::server::farm;

const CHUNK: u64 = CHUNK_GRANULARITY;
const MEDIA: Media = Media::new(11, 2 * CHUNK);

/// A session that holds half of [`MEDIA`].
fn half() -> Session {
    let session = farm::begin(farm(), "queried");
    session
        .put("bytes 0-262143/*", MEDIA.bytes(0..CHUNK))
        .expect(308);
    session
}

/// Every way in which client libraries ask.
fn variants(session: &Session, content_range: &str) -> Vec<Request> {
    let ranged = |verb| session.request(verb).header("Content-Range", content_range);
    let nothing = gzip(b"");
    assert_eq!(nothing.len(), 20, "as the Java library sends it");
    vec![
        ranged("PUT").body(""),
        ranged("POST").body(""),
        ranged("PUT"),
        ranged("PUT")
            .header("Content-Type", "application/octet-stream")
            .body(""),
        ranged("PUT")
            .header("Transfer-Encoding", "chunked")
            .raw_body(chunked([])),
        ranged("PUT")
            .header("Content-Encoding", "gzip")
            .body(&nothing),
        ranged("PUT")
            .header("Content-Encoding", "gzip")
            .header("Transfer-Encoding", "chunked")
            .raw_body(chunked([&nothing[..]])),
    ]
}

#[test]
fn query_is_recognised_by_its_range_with_any_framing() {
    let session = half();
    for content_range in ["bytes */*", "bytes */524288"] {
        for query in variants(&session, content_range) {
            let reply = session.exchange(&query);
            assert_eq!(reply.committed(), CHUNK, "{query:?}");
            assert_eq!(reply.reason, "Resume Incomplete");
        }
    }
}

#[test]
fn end_is_recognised_by_its_total_with_any_framing() {
    let ways = variants(&half(), "").len();
    for way in 0..ways {
        let session = half();
        let finish = variants(&session, "bytes */262144").swap_remove(way);
        session.exchange(&finish).expect(201);
    }
}

#[test]
fn a_query_with_a_wrong_total_changes_nothing() {
    let session = half();
    for total in ["0", "1", "262143", "262145", "999999999999"] {
        assert_eq!(
            session.put(&format!("bytes */{total}"), "").committed(),
            CHUNK
        );
    }
    let reply = session.append(MEDIA, CHUNK..2 * CHUNK).expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn an_end_that_would_truncate_media_of_declared_length_is_refused() {
    let session = farm::begin_declared(farm(), MEDIA.len());
    session
        .put("bytes 0-262143/*", MEDIA.bytes(0..CHUNK))
        .expect(308);
    let reply = session.put("bytes */262144", "").expect(400);
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    farm::assert_media(
        farm(),
        &session.append(MEDIA, CHUNK..2 * CHUNK).expect(201),
        MEDIA,
    );
}

#[test]
fn a_query_with_data_is_refused_and_the_session_goes_on() {
    let session = half();
    for content_range in ["bytes */*", "bytes */262144", "bytes */524288"] {
        let ranged = || session.ranged(content_range);
        let requests = [
            ranged().body("a"),
            ranged().header("Content-Encoding", "gzip").body(gzip(b"a")),
            ranged()
                .header("Transfer-Encoding", "chunked")
                .raw_body(chunked([&b"a"[..]])),
        ];
        for request in requests {
            let reply = session.exchange(&request).expect(400);
            assert_eq!(
                reply.header("content-type"),
                Some("text/plain; charset=utf-8")
            );
            assert_eq!(session.query().committed(), CHUNK, "{request:?}");
        }
    }
}

#[test]
fn a_query_may_come_between_any_two_chunks() {
    let session = farm::begin(farm(), "queried");
    for committed in [0, CHUNK] {
        assert_eq!(session.query().range(), committed);
        session.put(
            &format!("bytes {committed}-{}/*", committed + CHUNK - 1),
            MEDIA.bytes(committed..committed + CHUNK),
        );
    }
    assert_eq!(session.query().committed(), 2 * CHUNK);
    farm::assert_media(
        farm(),
        &session.put("bytes */524288", "").expect(201),
        MEDIA,
    );
}
