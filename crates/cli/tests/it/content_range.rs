//! The meaning of `Content-Range` on a session URI (docs/protocol.md, 2.4).

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::RawPeer;
use windlass_testkit::session::{CHUNK_GRANULARITY, Session};

use crate::server::farm;

/// One chunk and a bit.
const MEDIA: Media = Media::new(7, 300_000);

/// A session that holds the first chunk of [`MEDIA`].
fn begun() -> Session {
    let session = farm::begin(farm(), "ranged");
    let reply = session.append(MEDIA, 0..CHUNK_GRANULARITY);
    assert_eq!(reply.committed(), CHUNK_GRANULARITY);
    session
}

fn check_finishes(session: &Session, content_range: &str, first: u64) {
    let reply = session
        .put(content_range, MEDIA.bytes(first..MEDIA.len()))
        .expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn a_body_without_a_range_is_the_whole_media() {
    let session = farm::begin(farm(), "ranged");
    let reply = session
        .exchange(&session.request("PUT").body(MEDIA.whole()))
        .expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn a_body_without_a_range_begins_at_the_first_byte_even_when_bytes_are_there() {
    let session = begun();
    let reply = session
        .exchange(&session.request("PUT").body(MEDIA.whole()))
        .expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn a_range_with_a_total_is_a_chunk_and_the_last_one_when_it_reaches_the_total() {
    let session = farm::begin(farm(), "ranged");
    let first = session.put("bytes 0-262143/300000", MEDIA.bytes(0..CHUNK_GRANULARITY));
    assert_eq!(first.committed(), CHUNK_GRANULARITY);
    check_finishes(&session, "bytes 262144-299999/300000", CHUNK_GRANULARITY);
}

#[test]
fn a_range_without_a_total_is_not_the_last() {
    check_finishes(&begun(), "bytes 262144-299999/300000", CHUNK_GRANULARITY);
}

#[test]
fn a_range_to_the_end_is_final_when_the_body_ends() {
    for content_range in ["bytes 0-*/*", "bytes 0-*/300000"] {
        check_finishes(&farm::begin(farm(), "ranged"), content_range, 0);
    }
    for content_range in ["bytes 262144-*/*", "bytes 262144-*/300000"] {
        check_finishes(&begun(), content_range, CHUNK_GRANULARITY);
    }
}

#[test]
fn the_unit_may_be_written_in_any_case() {
    check_finishes(&begun(), "Bytes 262144-299999/300000", CHUNK_GRANULARITY);
}

#[test]
fn a_query_reports_what_is_committed() {
    for query in ["bytes */*", "bytes */300000", "bytes */1", "bytes */0"] {
        assert_eq!(
            begun().put(query, "").committed(),
            CHUNK_GRANULARITY,
            "{query}"
        );
    }
}

#[test]
fn a_query_with_the_committed_count_as_total_finishes() {
    for finish in ["bytes */262144", "bytes 262144-262143/262144"] {
        let reply = begun().put(finish, "").expect(201);
        let media = Media::new(7, CHUNK_GRANULARITY);
        farm::assert_media(farm(), &reply, media);
    }
}

#[test]
fn every_request_without_bytes_creates_empty_media() {
    for content_range in ["bytes */0", "bytes 0--1/0", "bytes 0-*/*", "bytes 0-*/0"] {
        let session = farm::begin(farm(), "empty");
        let reply = session.put(content_range, "").expect(201);
        farm::assert_media(farm(), &reply, Media::new(0, 0));
    }
    let session = farm::begin(farm(), "empty");
    let reply = session
        .exchange(&session.request("PUT").body(""))
        .expect(201);
    farm::assert_media(farm(), &reply, Media::new(0, 0));
}

#[test]
fn a_declared_length_of_zero_may_be_followed_by_nothing_or_by_data() {
    let session = farm::begin_declared(farm(), 0);
    session.put("bytes */0", "").expect(201);
    let session = farm::begin_declared(farm(), 0);
    assert_eq!(
        session.put("bytes 0-2/3", "abc").expect(201).field("size"),
        "3"
    );
}

#[test]
fn an_empty_body_without_a_range_does_not_truncate_an_upload_of_declared_length() {
    let session = farm::begin_declared(farm(), 300_000);
    session
        .exchange(&session.request("PUT").body(""))
        .expect(400);
    let reply = session
        .exchange(&session.request("PUT").body(MEDIA.whole()))
        .expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn a_range_that_cannot_be_parsed_is_answered_with_the_known_text_and_ends_the_session() {
    let malformed = [
        "*/*",
        "*/300000",
        "0-2/3",
        "bytes",
        "bytes ",
        "bytes=0-2/3",
        "bytes 0-2",
        "bytes 2-0/3",
        "bytes 0-2/2",
        "bytes -2/3",
        "bytes 0-/3",
        "bytes 0--1/3",
        "bytes +0-2/3",
        "bytes 0-2/-3",
        "bytes 0x0-0x2/3",
        "bytes 0-2/3/4",
        "bytes 0-2/3, 0-2/3",
        "bytes 0 - 2 / 3",
        "bytes 262144-37855/300000",
        "bytes 0-18446744073709551615/*",
        "bytes 0-18446744073709551616/*",
        "octets 0-2/3",
    ];
    for content_range in malformed {
        let session = farm::begin(farm(), "malformed");
        let reply = session.put(content_range, "abc");
        assert_eq!(reply.status, 400, "{content_range}");
        assert_eq!(reply.text(), "Failed to parse Content-Range header.");
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
        session.query().expect(410);
    }
}

#[test]
fn two_ranges_cannot_be_parsed() {
    let session = farm::begin(farm(), "malformed");
    let twice = session
        .ranged("bytes 0-2/3")
        .header("Content-Range", "bytes 0-2/3")
        .body("abc");
    assert_eq!(
        session.exchange(&twice).expect(400).text(),
        "Failed to parse Content-Range header."
    );
}

#[test]
fn an_inverted_range_with_more_data_behind_it_closes_the_connection() {
    let session = farm::begin(farm(), "inverted");
    let mut peer = RawPeer::connect(farm());
    let request = session
        .ranged("bytes 262144-37855/300000")
        .header("Content-Length", 5_000_000);
    peer.send(request.head_bytes());
    peer.send(MEDIA.bytes(0..100_000));
    let reply = peer.reply().expect(400);
    assert_eq!(reply.header("connection"), Some("close"));
    peer.finish_sending();
    assert!(peer.is_closed());
}
