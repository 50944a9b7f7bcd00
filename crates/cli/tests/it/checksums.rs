//! Digests that a client states of its media (docs/protocol.md, 2.14).

use std::path::Path;

use windlass_testkit::error_object::{ErrorObject, assert_error};
use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session};

use crate::server::{farm, own, pond};

const MEDIA: Media = Media::new(16, CHUNK_GRANULARITY + 99);
const OTHER: Media = Media::new(17, CHUNK_GRANULARITY + 99);

/// `X-Goog-Hash` headers with the right digests of [`MEDIA`], as clients write them.
fn right() -> Vec<String> {
    let (crc32c, md5) = (MEDIA.crc32c(), MEDIA.md5());
    vec![
        format!("crc32c={crc32c}"),
        format!("md5={md5}"),
        format!("crc32c={crc32c},md5={md5}"),
        format!("md5={md5}, crc32c={crc32c}"),
        format!("CRC32C={crc32c},sha3=whatever"),
    ]
}

/// `X-Goog-Hash` headers with wrong digests.
fn wrong() -> Vec<String> {
    vec![
        format!("crc32c={}", OTHER.crc32c()),
        format!("md5={}", OTHER.md5()),
        format!("crc32c={},md5={}", MEDIA.crc32c(), OTHER.md5()),
        "crc32c=AAAAAA==".to_owned(),
    ]
}

const MALFORMED: [&str; 5] = [
    "crc32c=",
    "crc32c=AAAA",
    "crc32c=!!!!!!==",
    "md5=AAAAAA==",
    "md5",
];

#[track_caller]
fn assert_mismatch(reply: &Reply) {
    assert_error(reply, 400, "invalid", None);
    let message = ErrorObject::of(reply, 400).message;
    assert!(message.contains("doesn't match calculated"), "{message}");
}

/// Sends the first chunk of an upload, and then its last request.
fn last(session: &Session, hash: &str) -> Reply {
    session.append(MEDIA, 0..CHUNK_GRANULARITY).expect(308);
    let request = session
        .ranged("bytes 262144-262242/262243")
        .header("X-Goog-Hash", hash);
    session.exchange(&request.body(MEDIA.bytes(CHUNK_GRANULARITY..MEDIA.len())))
}

#[test]
fn right_digests_with_the_last_chunk_are_accepted() {
    for hash in right() {
        let reply = last(&farm::begin(farm(), "hashed"), &hash).expect(201);
        farm::assert_media(farm(), &reply, MEDIA);
    }
}

#[test]
fn wrong_digests_with_the_last_chunk_are_refused_and_no_resource_is_made() {
    let name = "hashed-wrongly";
    for hash in wrong() {
        let session = farm::begin(farm(), name);
        assert_mismatch(&last(&session, &hash));
        session.query().expect(410);
    }
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn digests_with_an_end_that_has_no_data_are_checked() {
    let media = Media::new(16, CHUNK_GRANULARITY);
    for (hash, right) in [(media.crc32c(), true), (OTHER.crc32c(), false)] {
        let session = farm::begin(farm(), "hashed");
        session.put("bytes 0-262143/*", media.whole()).expect(308);
        let end = session
            .ranged("bytes */262144")
            .header("X-Goog-Hash", format!("crc32c={hash}"));
        let reply = session.exchange(&end.body(""));
        if right {
            assert_eq!(reply.status, 201);
        } else {
            assert_mismatch(&reply);
        }
    }
}

#[test]
fn digests_in_the_metadata_of_the_start_are_checked_at_the_end() {
    let name = "hashed-at-the-start";
    let table = [
        (format!(r#"{{"crc32c":"{}"}}"#, MEDIA.crc32c()), true),
        (format!(r#"{{"md5Hash":"{}"}}"#, MEDIA.md5()), true),
        (
            format!(r#"{{"name":"{name}","crc32c":"{}"}}"#, OTHER.crc32c()),
            false,
        ),
        (
            format!(r#"{{"name":"{name}","md5Hash":"{}"}}"#, OTHER.md5()),
            false,
        ),
    ];
    for (metadata, right) in table {
        let session = Session::start(farm(), &farm::start(&metadata));
        let reply = session.append(MEDIA, 0..MEDIA.len());
        if right {
            assert_eq!(reply.status, 201);
        } else {
            assert_mismatch(&reply);
        }
    }
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn digests_of_a_simple_upload_are_checked() {
    let simple =
        |name: &str, value: &str| exchange(farm(), &farm::simple(MEDIA).header(name, value));
    for hash in right() {
        simple("X-Goog-Hash", &hash).expect(200);
    }
    for hash in wrong() {
        assert_mismatch(&simple("X-Goog-Hash", &hash));
    }
    simple("Content-MD5", &MEDIA.md5()).expect(200);
    assert_mismatch(&simple("Content-MD5", &OTHER.md5()));
}

#[test]
fn digests_of_a_multipart_upload_are_checked() {
    let name = "hashed-multipart";
    let multipart = |crc32c: &str| {
        let metadata = format!(r#"{{"name":"{name}","crc32c":"{crc32c}"}}"#);
        let body =
            format!("--b\r\n\r\n{metadata}\r\n--b\r\nContent-Type: image/png\r\n\r\nabc\r\n--b--");
        let request = Request::new("POST", format!("{UPLOADS}?uploadType=multipart"));
        exchange(
            farm(),
            &request
                .header("Content-Type", "multipart/related; boundary=b")
                .body(body),
        )
    };
    multipart("Nks/tw==").expect(200);
    assert_mismatch(&multipart("AAAAAA=="));
    assert_eq!(farm::count(farm(), name), 1);
}

/// Digest fields (RFC 9530) with the right digests of a media.
fn fields(media: Media) -> [String; 3] {
    [
        format!("sha-256=:{}:", media.sha256()),
        format!("md5=:{}:, unixsum=:AAAA:", media.md5()),
        format!("crc32c=:{}:", media.crc32c()),
    ]
}

#[test]
fn digest_fields_of_a_simple_upload_are_checked() {
    let simple =
        |name: &str, field: &str| exchange(farm(), &farm::simple(MEDIA).header(name, field));
    for header in ["Repr-Digest", "Content-Digest"] {
        for field in fields(MEDIA) {
            simple(header, &field).expect(200);
        }
    }
    for field in fields(OTHER) {
        assert_mismatch(&simple("Repr-Digest", &field));
        assert_body_mismatch(&simple("Content-Digest", &field));
    }
    for field in ["sha-256=:AAAA:", "sha-256=1", "adler=:AAAA:", "("] {
        let location = Some("Content-Digest");
        assert_error(&simple("Repr-Digest", field), 400, "invalid", None);
        assert_error(&simple("Content-Digest", field), 400, "invalid", location);
    }
}

#[track_caller]
fn assert_body_mismatch(reply: &Reply) {
    assert_error(reply, 400, "invalid", Some("Content-Digest"));
    let message = ErrorObject::of(reply, 400).message;
    assert!(message.contains("The body does not have the"), "{message}");
}

#[test]
fn content_digest_of_a_chunk_counts_before_its_bytes_do() {
    let session = farm::begin(farm(), "digest-of-a-chunk");
    let first = |seed| {
        let crc32c = Media::new(seed, CHUNK_GRANULARITY).crc32c();
        let request = session.ranged("bytes 0-262143/262243");
        let request = request.body(MEDIA.bytes(0..CHUNK_GRANULARITY));
        session.exchange(&request.header("Content-Digest", format!("crc32c=:{crc32c}:")))
    };
    assert_body_mismatch(&first(17));
    assert_eq!(session.query().expect(308).header("range"), None);
    first(16).expect(308);
    session
        .append(MEDIA, CHUNK_GRANULARITY..MEDIA.len())
        .expect(201);
}

/// Number of bytes of the files below a directory.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("it can be read");
    let lengths = entries.map(|entry| {
        let entry = entry.expect("it can be read");
        let about = entry.metadata().expect("it is there");
        if about.is_dir() {
            bytes_below(&entry.path())
        } else {
            about.len()
        }
    });
    lengths.sum()
}

#[test]
fn chunk_that_is_refused_by_its_digest_takes_no_space() {
    let server = own(&[]);
    let media = Media::new(16, 32 * CHUNK_GRANULARITY);
    let session = farm::begin(server.address(), "takes-no-space");
    session.append(media, 0..CHUNK_GRANULARITY).expect(308);
    let rest = session.ranged(&format!(
        "bytes 262144-{0}/{1}",
        media.len() - 1,
        media.len()
    ));
    let rest = rest.header("Content-Digest", "crc32c=:AAAAAA==:");
    let refused = session.exchange(&rest.body(media.bytes(CHUNK_GRANULARITY..media.len())));
    assert_body_mismatch(&refused);
    let vault = server.data().join("vault");
    let kept = bytes_below(&vault);
    assert!(kept < 2 * CHUNK_GRANULARITY, "{kept} bytes");
}

#[test]
fn content_digest_of_metadata_is_checked() {
    let start = |field: &str| exchange(farm(), &farm::start("{}").header("Content-Digest", field));
    start("md5=:mZFLkyvTelC5g8XnyQrpOw==:").expect(200);
    assert_body_mismatch(&start("md5=:AAAAAAAAAAAAAAAAAAAAAA==:"));
}

#[test]
fn repr_digest_of_an_upload_in_pieces_is_that_of_the_whole() {
    let [right, ..] = fields(MEDIA);
    let [wrong, ..] = fields(OTHER);
    let start = |field: &str| {
        let request = farm::start("{}").header("Repr-Digest", field);
        Session::start(farm(), &request)
    };
    start(&right).append(MEDIA, 0..MEDIA.len()).expect(201);
    assert_mismatch(&start(&wrong).append(MEDIA, 0..MEDIA.len()));
    let last = |field: &str| {
        let session = farm::begin(farm(), "whole");
        session.append(MEDIA, 0..CHUNK_GRANULARITY).expect(308);
        let request = session.ranged("bytes 262144-262242/262243");
        let request = request.header("Repr-Digest", field);
        session.exchange(&request.body(MEDIA.bytes(CHUNK_GRANULARITY..MEDIA.len())))
    };
    last(&right).expect(201);
    assert_mismatch(&last(&wrong));
}

#[test]
fn repr_digest_of_a_multipart_upload_is_that_of_its_media() {
    let name = "repr-digest";
    for field in fields(MEDIA) {
        let request = farm::multipart(name, MEDIA).header("Repr-Digest", field);
        exchange(farm(), &request).expect(200);
    }
    let stored = farm::count(farm(), name);
    for field in fields(OTHER) {
        let request = farm::multipart(name, MEDIA).header("Repr-Digest", field);
        assert_mismatch(&exchange(farm(), &request));
    }
    assert_eq!(farm::count(farm(), name), stored);
}

#[test]
fn digest_field_of_a_gzip_body_is_refused() {
    for header in ["Repr-Digest", "Content-Digest"] {
        let request = farm::simple(MEDIA).header("Content-Encoding", "gzip");
        let [field, ..] = fields(MEDIA);
        let reply = exchange(farm(), &request.header(header, field));
        let location = Some(header).filter(|_| header == "Content-Digest");
        assert_error(&reply, 400, "invalid", location);
    }
}

#[test]
fn malformed_digests_are_refused() {
    for hash in MALFORMED {
        let reply = exchange(farm(), &farm::simple(MEDIA).header("X-Goog-Hash", hash));
        assert_error(&reply, 400, "invalid", None);
    }
    let reply = exchange(farm(), &farm::simple(MEDIA).header("Content-MD5", "short"));
    assert_error(&reply, 400, "invalid", None);
    let reply = exchange(farm(), &farm::start(r#"{"md5Hash":"no digest"}"#));
    assert_error(&reply, 400, "invalid", None);
}

#[test]
fn digests_that_contradict_each_other_are_refused() {
    let hashes = format!("crc32c={},crc32c={}", MEDIA.crc32c(), OTHER.crc32c());
    let reply = exchange(farm(), &farm::simple(MEDIA).header("X-Goog-Hash", hashes));
    assert_error(&reply, 400, "invalid", None);
}

#[test]
fn a_resource_shows_the_digests_that_its_schema_names() {
    for media in [MEDIA, Media::new(0, 0)] {
        let request = Request::new("POST", "/upload/pond/v2/frogs?uploadType=media");
        let request = request
            .header("Content-Type", "image/png")
            .body(media.whole());
        let reply = exchange(pond(), &request).expect(200);
        assert_eq!(reply.field("crc32c"), media.crc32c());
        assert_eq!(reply.field("md5Hash"), media.md5());
        assert_eq!(reply.field("sha256Hash"), media.sha256());
    }
}

#[test]
fn digests_of_media_that_came_in_pieces_are_those_of_the_whole() {
    let start = Request::new("POST", "/upload/pond/v2/frogs?uploadType=resumable");
    let start = start.header("X-Upload-Content-Type", "image/png").body("");
    let session = Session::start(pond(), &start);
    let reply = last(&session, &right()[2]).expect(200);
    assert_eq!(reply.field("crc32c"), MEDIA.crc32c());
    assert_eq!(reply.field("md5Hash"), MEDIA.md5());
    assert_eq!(reply.field("sha256Hash"), MEDIA.sha256());
}
