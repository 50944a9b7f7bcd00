//! The largest media that a method takes (docs/protocol.md, 4.13). Frogs are at most 300 KiB.

use windlass_testkit::encodings::{chunk, chunked, gzip};
use windlass_testkit::error_object::assert_error;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session};

use crate::server::pond;

const LIMIT: u64 = 300 * 1024;
const LARGEST: Media = Media::new(19, LIMIT);
const TOO_LARGE: Media = Media::new(19, LIMIT + 1);

fn frogs(upload_type: &str) -> Request {
    Request::new(
        "POST",
        format!("/upload/pond/v2/frogs?uploadType={upload_type}"),
    )
}

fn simple() -> Request {
    frogs("media").header("Content-Type", "image/png")
}

fn start() -> Request {
    frogs("resumable").header("X-Upload-Content-Type", "image/png")
}

fn multipart(media: Media) -> Vec<u8> {
    let metadata = format!(r#"{{"name":"{}"}}"#, "x".repeat(10_000));
    let before = format!("--b\r\n\r\n{metadata}\r\n--b\r\nContent-Type: image/png\r\n\r\n");
    [before.into_bytes(), media.whole(), b"\r\n--b--".to_vec()].concat()
}

#[track_caller]
fn assert_too_large(reply: &Reply) {
    assert_error(reply, 413, "uploadTooLarge", None);
}

#[test]
fn media_of_exactly_the_limit_is_taken_by_every_upload_type() {
    exchange(pond(), &simple().body(LARGEST.whole())).expect(200);
    let request = frogs("multipart").header("Content-Type", "multipart/related; boundary=b");
    // The limit is on the media part, not on the whole body.
    exchange(pond(), &request.body(multipart(LARGEST))).expect(200);
    let declared = start().header("X-Upload-Content-Length", LIMIT);
    for start in [start(), declared] {
        let session = Session::start(pond(), &start.body(""));
        assert_eq!(
            session.append(LARGEST, 0..CHUNK_GRANULARITY).committed(),
            CHUNK_GRANULARITY
        );
        session
            .append(LARGEST, CHUNK_GRANULARITY..LIMIT)
            .expect(200);
    }
}

#[test]
fn a_simple_upload_of_a_known_length_is_refused_before_its_body_is_sent() {
    let mut peer = RawPeer::connect(pond());
    peer.send(simple().header("Content-Length", LIMIT + 1).head_bytes());
    let reply = peer.reply();
    assert_too_large(&reply);
    assert_eq!(reply.header("connection"), Some("close"));
}

#[test]
fn a_simple_upload_of_an_unknown_length_is_refused_where_it_crosses_the_limit() {
    let bytes = TOO_LARGE.whole();
    let request = simple().header("Transfer-Encoding", "chunked");
    assert_too_large(&exchange(
        pond(),
        &request.raw_body(chunked(bytes.chunks(40_000))),
    ));
    assert_too_large(&exchange(
        pond(),
        &simple()
            .header("Content-Encoding", "gzip")
            .body(gzip(&bytes)),
    ));
    let mut endless = RawPeer::connect(pond());
    endless.send(simple().header("Transfer-Encoding", "chunked").head_bytes());
    endless.send(chunk(&bytes));
    assert_too_large(&endless.reply());
}

#[test]
fn a_multipart_upload_is_refused_when_its_media_part_crosses_the_limit() {
    let request = frogs("multipart").header("Content-Type", "multipart/related; boundary=b");
    assert_too_large(&exchange(pond(), &request.body(multipart(TOO_LARGE))));
}

#[test]
fn a_declared_length_above_the_limit_is_refused_at_the_start() {
    for length in ["307201", "18446744073709551615"] {
        let start = start().header("X-Upload-Content-Length", length).body("");
        assert_too_large(&exchange(pond(), &start));
    }
}

#[test]
fn a_range_above_the_limit_is_refused_before_its_body_is_sent_and_ends_the_session() {
    for content_range in [
        "bytes 0-262143/307201",
        "bytes 0-307200/*",
        "bytes 0-307200/307201",
    ] {
        let session = Session::start(pond(), &start().body(""));
        let mut peer = session.peer();
        peer.send(
            session
                .ranged(content_range)
                .header("Content-Length", length(content_range))
                .head_bytes(),
        );
        assert_too_large(&peer.reply());
        session.query().expect(410);
    }
}

/// How many bytes a range of the media has.
fn length(content_range: &str) -> u64 {
    if content_range.contains("-262143/") {
        CHUNK_GRANULARITY
    } else {
        LIMIT + 1
    }
}

#[test]
fn a_body_to_the_end_is_refused_where_it_crosses_the_limit_and_ends_the_session() {
    let session = Session::start(pond(), &start().body(""));
    session.append(TOO_LARGE, 0..CHUNK_GRANULARITY).expect(308);
    let rest = TOO_LARGE.bytes(CHUNK_GRANULARITY..LIMIT + 1);
    let request = session
        .ranged("bytes 262144-*/*")
        .header("Transfer-Encoding", "chunked");
    assert_too_large(&session.exchange(&request.raw_body(chunked(rest.chunks(5_000)))));
    session.query().expect(410);
}

#[test]
fn metadata_above_its_limit_is_refused() {
    let metadata = format!(r#"{{"name":"{}"}}"#, "x".repeat(2_000_000));
    assert_too_large(&exchange(pond(), &start().body(&metadata)));
    let plain = Request::new("POST", "/pond/v2/notes").header("Content-Type", "application/json");
    assert_too_large(&exchange(pond(), &plain.body(&metadata)));
}
