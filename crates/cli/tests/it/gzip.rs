//! Request bodies in gzip (docs/protocol.md, 2.15).

use windlass_testkit::encodings::{chunked, gzip};
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, content_range};

use crate::server::farm;

const MEDIA: Media = Media::new(18, 2 * CHUNK_GRANULARITY + 7);

fn simple() -> Request {
    Request::new("POST", format!("{}?uploadType=media", farm::UPLOADS))
        .header("Content-Type", "image/png")
}

#[test]
fn a_simple_upload_in_gzip_is_stored_unpacked() {
    for coding in ["gzip", "GZIP", "x-gzip"] {
        let packed = simple()
            .header("Content-Encoding", coding)
            .body(gzip(&MEDIA.whole()));
        farm::assert_media(farm(), &exchange(farm(), &packed).expect(200), MEDIA);
    }
}

#[test]
fn identity_coding_is_accepted() {
    let identity = simple()
        .header("Content-Encoding", "identity")
        .body(MEDIA.whole());
    farm::assert_media(farm(), &exchange(farm(), &identity).expect(200), MEDIA);
}

#[test]
fn several_gzip_members_are_one_body() {
    let packed = [
        gzip(&MEDIA.bytes(0..1000)),
        gzip(&MEDIA.bytes(1000..MEDIA.len())),
    ]
    .concat();
    let packed = simple().header("Content-Encoding", "gzip").body(packed);
    farm::assert_media(farm(), &exchange(farm(), &packed).expect(200), MEDIA);
}

#[test]
fn the_range_of_a_chunk_in_gzip_counts_unpacked_bytes() {
    let session = farm::begin(farm(), "packed");
    let ends = [CHUNK_GRANULARITY, 2 * CHUNK_GRANULARITY, MEDIA.len()];
    let mut first = 0;
    for end in ends {
        let packed = gzip(&MEDIA.bytes(first..end));
        let request = session
            .ranged(&content_range(MEDIA, &(first..end)))
            .header("Content-Encoding", "gzip");
        let request = if first == 0 {
            request.body(packed)
        } else {
            request
                .header("Transfer-Encoding", "chunked")
                .raw_body(chunked(packed.chunks(50_000)))
        };
        let reply = session.exchange(&request);
        if end == MEDIA.len() {
            farm::assert_media(farm(), &reply.expect(201), MEDIA);
        } else {
            assert_eq!(reply.committed(), end);
        }
        first = end;
    }
}

#[test]
fn bytes_that_are_there_already_are_skipped_after_unpacking() {
    let session = farm::begin(farm(), "packed");
    session.append(MEDIA, 0..CHUNK_GRANULARITY).expect(308);
    let request = session.ranged(&content_range(MEDIA, &(0..MEDIA.len())));
    let reply = session.exchange(
        &request
            .header("Content-Encoding", "gzip")
            .body(gzip(&MEDIA.whole())),
    );
    farm::assert_media(farm(), &reply.expect(201), MEDIA);
}

#[test]
fn empty_media_may_be_packed_into_twenty_bytes() {
    for content_range in ["bytes */0", "bytes 0-*/*"] {
        let session = farm::begin(farm(), "packed");
        let request = session
            .ranged(content_range)
            .header("Content-Encoding", "gzip")
            .body(gzip(b""));
        farm::assert_media(
            farm(),
            &session.exchange(&request).expect(201),
            Media::new(0, 0),
        );
    }
}

#[test]
fn a_body_that_is_not_the_gzip_it_claims_to_be_is_refused() {
    let whole = gzip(&MEDIA.bytes(0..1000));
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("gzip is never empty") ^= 1;
    for body in [
        b"no gzip".to_vec(),
        whole[..whole.len() - 1].to_vec(),
        damaged,
    ] {
        let reply = exchange(
            farm(),
            &simple().header("Content-Encoding", "gzip").body(body),
        );
        assert_error(&reply, 400, "badRequest", Some("Content-Encoding"));
    }
}

/// A megabyte may come out of a small body, which some formats need; not more than 200 times its
/// length beyond that.
#[test]
fn a_small_body_that_expands_without_end_is_refused() {
    let zeros = |len| gzip(&vec![0; len]);
    let simple = |packed| simple().header("Content-Encoding", "gzip").body(packed);
    exchange(farm(), &simple(zeros(1_000_000))).expect(200);
    let reply = exchange(farm(), &simple(zeros(3_000_000)));
    assert_error(&reply, 400, "badRequest", Some("Content-Encoding"));
}

/// `data` as gzip, with one bit flipped so far into it.
fn damaged(data: &[u8], numerator: usize, denominator: usize) -> Vec<u8> {
    let mut packed = gzip(data);
    let at = (packed.len() - 1) * numerator / denominator;
    packed[at] ^= 1;
    packed
}

#[test]
fn a_damaged_gzip_chunk_does_not_finish_the_upload() {
    // In the header, in the data, in the checksum, and in the length behind it.
    for part in [0, 1, 50, 99, 100] {
        let session = farm::begin(farm(), "packed");
        let request = session
            .ranged("bytes 0-*/*")
            .header("Content-Encoding", "gzip");
        let reply = session.exchange(&request.body(damaged(&MEDIA.whole(), part, 100)));
        assert_error(&reply, 400, "badRequest", Some("Content-Encoding"));
        let finish = session.put(&format!("bytes */{}", MEDIA.len()), "");
        assert_eq!(finish.committed(), 0, "damaged at {part} %");
        let whole = session.append(MEDIA, 0..MEDIA.len()).expect(201);
        farm::assert_media(farm(), &whole, MEDIA);
    }
}

#[test]
fn damaged_gzip_chunk_keeps_the_committed_offset() {
    let session = farm::begin(farm(), "packed");
    session.append(MEDIA, 0..CHUNK_GRANULARITY).expect(308);
    let rest = CHUNK_GRANULARITY..MEDIA.len();
    let request = session
        .ranged(&content_range(MEDIA, &rest))
        .header("Content-Encoding", "gzip");
    let packed = damaged(&MEDIA.bytes(rest.clone()), 1, 2);
    session.exchange(&request.clone().body(packed)).expect(400);
    assert_eq!(session.query().committed(), CHUNK_GRANULARITY);
    let reply = session.exchange(&request.body(gzip(&MEDIA.bytes(rest))));
    farm::assert_media(farm(), &reply.expect(201), MEDIA);
}

#[test]
fn truncated_gzip_body_commits_nothing() {
    let session = farm::begin(farm(), "packed");
    let packed = gzip(&MEDIA.whole());
    let request = session
        .ranged("bytes 0-*/*")
        .header("Content-Encoding", "gzip");
    session
        .exchange(&request.body(&packed[..packed.len() / 2]))
        .expect(400);
    assert_eq!(session.query().committed(), 0);
}

#[test]
fn codings_are_read_from_all_lines_and_lists() {
    for codings in [
        &["identity, gzip"][..],
        &["gzip, identity"],
        &["identity", "gzip"],
        &["", "x-gzip"],
    ] {
        let request = codings.iter().fold(simple(), |request, coding| {
            request.header("Content-Encoding", coding)
        });
        let reply = exchange(farm(), &request.body(gzip(&MEDIA.whole())));
        farm::assert_media(farm(), &reply.expect(200), MEDIA);
    }
}

#[test]
fn a_chunked_body_without_a_byte_is_empty_in_gzip_too() {
    let request = simple()
        .header("Content-Encoding", "gzip")
        .header("Transfer-Encoding", "chunked")
        .raw_body(chunked([]));
    let reply = exchange(farm(), &request).expect(200);
    farm::assert_media(farm(), &reply, Media::new(0, 0));
}

#[test]
fn metadata_on_a_plain_path_may_be_packed_in_gzip_alone() {
    let insert = |coding| {
        let request = Request::new("POST", farm::ANIMALS)
            .header("Content-Type", "application/json")
            .header("Content-Encoding", coding);
        exchange(farm(), &request.body(gzip(farm::named("Zip").as_bytes())))
    };
    assert_eq!(insert("gzip").expect(200).field("name"), "Zip");
    for coding in ["br", "gzip, gzip"] {
        assert_error(
            &insert(coding),
            415,
            "unsupportedMediaType",
            Some("Content-Encoding"),
        );
    }
}

#[test]
fn other_codings_are_refused() {
    for coding in ["br", "deflate", "gzip, gzip", "zstd"] {
        let request = simple().header("Content-Encoding", coding).body("abc");
        let reply = exchange(farm(), &request);
        assert_error(
            &reply,
            415,
            "unsupportedMediaType",
            Some("Content-Encoding"),
        );
    }
}
