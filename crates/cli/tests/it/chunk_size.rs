//! The rule that chunks are multiples of 256 KiB (docs/protocol.md, 4.3).

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::session::{CHUNK_GRANULARITY, content_range};

use crate::server::{farm, own};

const CHUNK: u64 = CHUNK_GRANULARITY;
const MEDIA: Media = Media::new(10, 1_000_000);

#[test]
fn a_chunk_below_256_kib_that_is_not_the_last_is_refused_and_ends_the_session() {
    for len in [1, 1000, CHUNK - 1] {
        let session = farm::begin(farm(), "too-small");
        let reply = session.append(MEDIA, 0..len).expect(400);
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
        assert!(reply.text().contains("262144"), "{}", reply.text());
        assert!(reply.text().contains(&len.to_string()), "{}", reply.text());
        session.append(MEDIA, 0..CHUNK).expect(410);
        session.query().expect(410);
    }
}

#[test]
fn a_small_chunk_with_a_total_it_does_not_reach_is_refused_too() {
    let session = farm::begin(farm(), "too-small");
    session
        .put("bytes 0-99/1000000", MEDIA.bytes(0..100))
        .expect(400);
    session.query().expect(410);
}

#[test]
fn a_chunk_that_is_too_small_is_refused_before_its_body_is_sent() {
    let session = farm::begin(farm(), "too-small");
    let mut peer = session.peer();
    peer.send(
        session
            .ranged("bytes 0-99/*")
            .header("Content-Length", 100)
            .head_bytes(),
    );
    peer.reply().expect(400);
}

#[test]
fn a_last_chunk_may_have_any_size() {
    for len in [1, 1000, CHUNK - 1, CHUNK + 1] {
        let media = Media::new(len, CHUNK + len);
        let session = farm::begin(farm(), "last");
        session.append(media, 0..CHUNK).expect(308);
        farm::assert_media(
            farm(),
            &session.append(media, CHUNK..media.len()).expect(201),
            media,
        );
    }
}

#[test]
fn unaligned_chunk_above_256_kib_is_kept_up_to_a_multiple_and_is_never_the_last() {
    for (len, kept) in [
        (CHUNK + 13, CHUNK),
        (2 * CHUNK - 1, CHUNK),
        (700_000, 2 * CHUNK),
    ] {
        let session = farm::begin(farm(), "unaligned");
        assert_eq!(session.append(MEDIA, 0..len).committed(), kept);
        assert_eq!(session.query().committed(), kept);
        let reply = session.append(MEDIA, kept..MEDIA.len()).expect(201);
        farm::assert_media(farm(), &reply, MEDIA);
    }
}

#[test]
fn the_rule_looks_at_the_length_of_a_chunk_and_not_at_its_place() {
    let session = farm::begin(farm(), "unaligned");
    let mut peer = session.peer();
    let request = session.ranged(&content_range(MEDIA, &(0..MEDIA.len())));
    peer.send(request.header("Content-Length", MEDIA.len()).head_bytes());
    peer.send(MEDIA.bytes(0..43));
    peer.finish_sending();
    peer.try_reply().ok();
    assert_eq!(session.query().committed(), 43);
    assert_eq!(
        session.append(MEDIA, 43..43 + CHUNK).committed(),
        43 + CHUNK
    );
}

#[test]
fn small_chunk_without_new_bytes_is_accepted() {
    let session = farm::begin(farm(), "unaligned");
    session.append(MEDIA, 0..CHUNK).expect(308);
    assert_eq!(session.append(MEDIA, 0..1000).committed(), CHUNK);
    session.append(MEDIA, CHUNK..MEDIA.len()).expect(201);
}

#[test]
fn a_lenient_server_keeps_chunks_of_any_size_whole() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/lenient.toml");
    let server = own(&["--config", config]);
    let session = farm::begin(server.address(), "lenient");
    for (first, end) in [(0, 1), (1, 1000), (1000, CHUNK + 13)] {
        assert_eq!(session.append(MEDIA, first..end).committed(), end);
    }
    let reply = session.append(MEDIA, CHUNK + 13..MEDIA.len()).expect(201);
    farm::assert_media(server.address(), &reply, MEDIA);
}
