//! Data requests on a session URI (docs/protocol.md, 2.8 and 4.1 to 4.7).

use windlass_testkit::encodings::{chunk, chunked};
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session, content_range};

use crate::server::farm;

const CHUNK: u64 = CHUNK_GRANULARITY;

/// Two chunks and a bit.
const MEDIA: Media = Media::new(8, 600_000);

/// A session that holds the first chunk of [`MEDIA`].
fn begun() -> Session {
    let session = farm::begin(farm(), "appended");
    assert_eq!(session.append(MEDIA, 0..CHUNK).committed(), CHUNK);
    session
}

#[track_caller]
fn assert_finishes(session: &Session, committed: u64) {
    assert_eq!(session.query().committed(), committed);
    let reply = session.append(MEDIA, committed..MEDIA.len()).expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[track_caller]
fn assert_session_error(reply: &Reply, status: u16) {
    assert_eq!(
        reply.status,
        status,
        "{}",
        String::from_utf8_lossy(&reply.body)
    );
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(!reply.text().is_empty());
}

#[test]
fn a_chunk_is_answered_308_resume_incomplete_with_the_committed_range_and_nothing_else() {
    let session = farm::begin(farm(), "appended");
    let reply = session.append(MEDIA, 0..CHUNK).expect(308);
    assert_eq!(reply.reason, "Resume Incomplete");
    assert_eq!(reply.header("range"), Some("bytes=0-262143"));
    assert_eq!(reply.header("content-length"), Some("0"));
    assert_eq!(reply.header("location"), None);
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(
        reply.header("x-guploader-uploadid"),
        Some(session.upload_id())
    );
    assert!(reply.body.is_empty());
}

#[test]
fn chunks_are_kept_whole_one_behind_the_other_until_the_last_is_answered_201() {
    let media = Media::new(9, 5 * CHUNK + 17);
    let session = farm::begin(farm(), "appended");
    for first in (0..5).map(|index| index * CHUNK) {
        assert_eq!(
            session.append(media, first..first + CHUNK).committed(),
            first + CHUNK
        );
    }
    let reply = session.append(media, 5 * CHUNK..media.len()).expect(201);
    assert_eq!(reply.reason, "Created");
    assert_eq!(
        reply.header("content-type"),
        Some("application/json; charset=UTF-8")
    );
    farm::assert_media(farm(), &reply, media);
}

#[test]
fn post_appends_like_put() {
    let session = farm::begin(farm(), "appended");
    let post = |range: std::ops::Range<u64>| {
        let request = session
            .request("POST")
            .header("Content-Range", content_range(MEDIA, &range));
        session.exchange(&request.body(MEDIA.bytes(range)))
    };
    assert_eq!(post(0..CHUNK).committed(), CHUNK);
    farm::assert_media(farm(), &post(CHUNK..MEDIA.len()).expect(201), MEDIA);
}

#[test]
fn client_that_cannot_read_308_gets_200_with_the_status_in_a_header() {
    let session = farm::begin(farm(), "appended");
    for (name, value) in [("X-GUploader-No-308", "yes"), ("X-Guploader-No-308", "YES")] {
        let chunk = session.ranged("bytes 0-262143/*").header(name, value);
        let query = session.ranged("bytes */*").header(name, value);
        for request in [chunk.body(MEDIA.bytes(0..CHUNK)), query.body("")] {
            let reply = session.exchange(&request).expect(200);
            assert_eq!(reply.header("x-http-status-code-override"), Some("308"));
            assert_eq!(reply.header("content-length"), Some("0"));
            assert_eq!(reply.range(), CHUNK);
        }
    }
}

#[test]
fn only_a_308_is_rewritten_for_a_client_that_cannot_read_it() {
    let session = begun();
    let no_308 = |request: Request| request.header("X-GUploader-No-308", "yes");
    let gap =
        no_308(session.ranged("bytes 400000-599999/600000")).body(MEDIA.bytes(400_000..600_000));
    let last =
        no_308(session.ranged("bytes 262144-599999/600000")).body(MEDIA.bytes(CHUNK..600_000));
    for (request, status) in [(gap, 503), (last, 201)] {
        let reply = session.exchange(&request).expect(status);
        assert_eq!(reply.header("x-http-status-code-override"), None);
    }
}

#[test]
fn nothing_committed_is_reported_without_a_range() {
    let reply = farm::begin(farm(), "appended").query();
    assert_eq!(reply.status, 308);
    assert_eq!(reply.header("range"), None);
}

#[test]
fn one_committed_byte_is_reported_as_the_range_0_to_0() {
    let session = farm::begin(farm(), "appended");
    send_and_break_off(&session, 0, 1);
    assert_eq!(session.query().header("range"), Some("bytes=0-0"));
}

/// Sends a part of a request for the rest of the media, then hangs up, and waits until the server
/// has noticed.
fn send_and_break_off(session: &Session, first: u64, len: u64) {
    let mut peer = session.peer();
    let request = session.ranged(&content_range(MEDIA, &(first..MEDIA.len())));
    peer.send(
        request
            .header("Content-Length", MEDIA.len() - first)
            .head_bytes(),
    );
    peer.send(MEDIA.bytes(first..first + len));
    peer.finish_sending();
    peer.try_reply().ok();
}

#[test]
fn bytes_of_a_broken_connection_are_kept() {
    let session = begun();
    send_and_break_off(&session, CHUNK, 43);
    assert_finishes(&session, CHUNK + 43);
}

#[test]
fn bytes_that_are_there_already_are_skipped() {
    for first in [0, 1, CHUNK - 1, CHUNK] {
        let session = begun();
        let reply = session.append(MEDIA, first..first + CHUNK);
        let kept = if first + CHUNK > CHUNK {
            first + CHUNK
        } else {
            CHUNK
        };
        assert_eq!(reply.committed(), kept, "{first}");
        assert_finishes(&session, kept);
    }
}

#[test]
fn a_chunk_that_is_sent_again_changes_nothing() {
    let session = begun();
    for _ in 0..3 {
        assert_eq!(session.append(MEDIA, 0..CHUNK).committed(), CHUNK);
    }
    let others = Media::new(99, CHUNK).whole();
    assert_eq!(session.put("bytes 0-262143/*", others).committed(), CHUNK);
    assert_finishes(&session, CHUNK);
}

#[test]
fn the_whole_media_sent_again_finishes_the_upload() {
    farm::assert_media(
        farm(),
        &begun().append(MEDIA, 0..MEDIA.len()).expect(201),
        MEDIA,
    );
}

#[test]
fn a_gap_is_answered_503_with_the_known_text_and_commits_nothing() {
    let session = begun();
    let reply = session.append(MEDIA, CHUNK + 1..MEDIA.len());
    assert_session_error(&reply, 503);
    assert_eq!(
        reply.text(),
        "Invalid request.  According to the Content-Range header, the upload offset is 262145 byte(s), \
         which exceeds already uploaded size of 262144 byte(s)."
    );
    assert_finishes(&session, CHUNK);
}

#[test]
fn a_gap_is_refused_before_the_body_is_sent() {
    let session = begun();
    let mut peer = session.peer();
    let request = session
        .ranged("bytes 300000-599999/600000")
        .header("Content-Length", 300_000);
    peer.send(request.head_bytes());
    assert_session_error(&peer.reply(), 503);
}

#[test]
fn a_total_other_than_the_first_one_ends_the_session() {
    let session = farm::begin(farm(), "appended");
    session
        .put("bytes 0-262143/600000", MEDIA.bytes(0..CHUNK))
        .expect(308);
    assert_session_error(
        &session.put("bytes 262144-599999/600001", MEDIA.bytes(CHUNK..600_000)),
        400,
    );
    session.query().expect(410);
}

#[test]
fn a_total_other_than_the_declared_one_ends_the_session() {
    for (range, end) in [
        ("bytes 0-499999/500000", 500_000),
        ("bytes 0-699999/700000", 700_000),
    ] {
        let session = farm::begin_declared(farm(), MEDIA.len());
        assert_session_error(&session.put(range, MEDIA.bytes(0..end)), 400);
        session.query().expect(410);
    }
}

#[test]
fn a_chunk_past_the_declared_length_is_refused_before_its_body_is_sent() {
    let session = farm::begin_declared(farm(), 1000);
    let mut peer = session.peer();
    let request = session
        .ranged("bytes 0-262143/*")
        .header("Content-Length", CHUNK);
    peer.send(request.head_bytes());
    assert_session_error(&peer.reply(), 400);
}

#[test]
fn a_body_to_the_end_may_not_be_longer_than_the_declared_length() {
    let session = farm::begin_declared(farm(), 1000);
    let body = MEDIA.bytes(0..1001);
    let request = session
        .ranged("bytes 0-*/*")
        .header("Transfer-Encoding", "chunked");
    assert_session_error(
        &session.exchange(&request.raw_body(chunked([&body[..]]))),
        400,
    );
}

#[test]
fn a_chunk_that_reaches_the_declared_length_finishes_the_upload() {
    let session = farm::begin_declared(farm(), MEDIA.len());
    let reply = session.put("bytes 0-599999/*", MEDIA.whole()).expect(201);
    farm::assert_media(farm(), &reply, MEDIA);
}

#[test]
fn a_length_that_contradicts_the_range_is_refused_and_the_session_goes_on() {
    for len in [0, 1, 337_855, 337_857] {
        let session = begun();
        let reply = session.put(
            "bytes 262144-599999/600000",
            MEDIA.bytes(CHUNK..CHUNK + len),
        );
        assert_session_error(&reply, 400);
        assert!(reply.text().contains(&len.to_string()), "{}", reply.text());
        assert!(reply.text().contains("337856"), "{}", reply.text());
        assert_finishes(&session, CHUNK);
    }
}

#[test]
fn a_chunked_body_that_contradicts_the_range_is_refused_and_what_fits_is_kept() {
    for (len, kept) in [(300_000, 562_144), (340_000, 600_000)] {
        let session = begun();
        let body = MEDIA.bytes(CHUNK..CHUNK + len);
        let request = session
            .ranged("bytes 262144-599999/600000")
            .header("Transfer-Encoding", "chunked");
        let reply = session.exchange(&request.raw_body(chunked(body.chunks(20_000))));
        assert_session_error(&reply, 400);
        let committed = session.query().committed();
        assert!((CHUNK..=kept).contains(&committed), "{len}: {committed}");
        assert_finishes(&session, committed);
    }
}

#[test]
fn a_chunked_body_needs_no_length() {
    let session = farm::begin(farm(), "appended");
    for (range, first, end) in [
        ("bytes 0-262143/*", 0, CHUNK),
        ("bytes 262144-599999/600000", CHUNK, 600_000),
    ] {
        let body = MEDIA.bytes(first..end);
        let request = session.ranged(range).header("Transfer-Encoding", "chunked");
        let reply = session.exchange(&request.raw_body(chunked(body.chunks(50_000))));
        assert_eq!(reply.status, if end == 600_000 { 201 } else { 308 });
    }
}

#[test]
fn a_chunked_body_without_its_last_chunk_is_not_the_end_of_the_media() {
    let session = farm::begin(farm(), "appended");
    let mut peer = RawPeer::connect(farm());
    peer.send(
        session
            .ranged("bytes 0-*/*")
            .header("Transfer-Encoding", "chunked")
            .head_bytes(),
    );
    peer.send(chunk(&MEDIA.bytes(0..100_000)));
    peer.finish_sending();
    peer.try_reply().ok();
    assert_finishes(&session, 100_000);
}

#[test]
fn data_without_a_length_and_without_chunks_is_answered_411() {
    let session = farm::begin(farm(), "appended");
    let reply = session
        .exchange(&session.ranged("bytes 0-262143/*"))
        .expect(411);
    assert!(reply.body.is_empty());
    assert_eq!(session.query().committed(), 0);
}

#[test]
fn the_content_type_of_a_chunk_is_of_no_interest() {
    for content_type in ["", "application/json", "font/ttf", "no type at all"] {
        let session = farm::begin(farm(), "appended");
        let request = session
            .ranged("bytes 0-2/3")
            .header("Content-Type", content_type);
        let reply = session.exchange(&request.body("abc")).expect(201);
        assert_eq!(reply.field("mimeType"), "image/png");
    }
}

#[test]
fn an_append_needs_no_authorization() {
    let session = farm::begin(farm(), "appended");
    let anybody = session
        .ranged("bytes 0-2/3")
        .header("Authorization", "Bearer whatever");
    session.exchange(&anybody.body("abc")).expect(201);
}

#[test]
fn metadata_too_long_to_wait_in_memory_is_in_the_resource() {
    let name = "Llama".repeat(20_000);
    let session = farm::begin(farm(), &name);
    let reply = session.append(MEDIA, 0..MEDIA.len()).expect(201);
    assert_eq!(reply.field("name"), name);
}
