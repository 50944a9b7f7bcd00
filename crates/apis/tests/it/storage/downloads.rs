//! Downloads.

use serde_json::{Value, json};
use windlass_testkit::encodings::gzip;
use windlass_testkit::media::Media;

use super::{LARGE, OBJECTS, Storage};
use crate::world::{Peer as _, Reply};

#[tokio::test]
async fn a_download_says_what_it_is_of() {
    let storage = Storage::new().await;
    let said = json!({
        "name": "cow",
        "contentType": "image/png",
        "contentEncoding": "gzip",
        "contentLanguage": "de",
        "contentDisposition": "attachment; filename=\"cow.png\"",
        "cacheControl": "no-store",
        "storageClass": "NEARLINE",
    });
    let object = storage.described(&said, LARGE).await.resource();
    let generation = object["generation"].as_str().unwrap();
    let hash = format!(
        "crc32c={},md5={}",
        object["crc32c"].as_str().unwrap(),
        object["md5Hash"].as_str().unwrap()
    );
    let length = LARGE.len().to_string();
    let reply = storage.object("cow?alt=media").await;
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-encoding", "gzip"),
        ("content-language", "de"),
        ("content-disposition", "attachment; filename=\"cow.png\""),
        ("cache-control", "no-store"),
        ("content-length", &length),
        ("x-goog-generation", generation),
        ("x-goog-metageneration", "1"),
        ("x-goog-storage-class", "NEARLINE"),
        ("x-goog-stored-content-length", &length),
        ("x-goog-stored-content-encoding", "gzip"),
        ("x-goog-hash", &hash),
    ] {
        assert_eq!(reply.header(name), value, "{name}");
    }
    assert_eq!(reply.body, LARGE);
}

#[tokio::test]
async fn a_download_has_no_header_that_its_object_does_not_state() {
    let storage = Storage::new().await;
    storage.put("cow", b"").await;
    let reply = storage.object("cow?alt=media").await;
    for name in [
        "content-encoding",
        "content-language",
        "content-disposition",
    ] {
        assert!(!reply.headers.contains_key(name), "{name}");
    }
    assert_eq!(reply.header("x-goog-stored-content-encoding"), "identity");
    assert_eq!(
        (
            reply.header("x-goog-stored-content-length"),
            reply.body.len()
        ),
        ("0", 0)
    );
}

#[tokio::test]
async fn a_range_is_given_with_the_length_of_the_whole() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    let uri = format!("{OBJECTS}/cow?alt=media");
    let reply = storage
        .send("GET", &uri, &[("range", "bytes=5-8")], "")
        .await;
    assert_eq!(
        (reply.status.as_u16(), &reply.body[..]),
        (206, &LARGE[5..=8])
    );
    assert_eq!(
        reply.header("x-goog-stored-content-length"),
        LARGE.len().to_string()
    );
    let behind = storage
        .send("GET", &uri, &[("range", "bytes=999-")], "")
        .await;
    behind.refusal(416, "requestedRangeNotSatisfiable");
    assert_eq!(behind.header("content-range"), "bytes */600");
}

#[tokio::test]
async fn media_is_read_at_the_path_of_bucket_and_object() {
    let storage = Storage::new().await;
    let name = json!({"name": "stall/cow 1", "contentType": "image/png"});
    let object = storage.described(&name, LARGE).await.resource();
    let path = "/barn/stall/cow%201";
    let whole = storage.call("GET", path).await;
    assert_eq!(whole.status, 200, "{whole:?}");
    assert_eq!(&whole.body[..], LARGE);
    assert_eq!(whole.header("content-type"), "image/png");
    let generation = object["generation"].as_str().unwrap();
    assert_eq!(whole.header("x-goog-generation"), generation);
    let range = [("range", "bytes=2-5")];
    let part = storage.send("GET", path, &range, "").await;
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &LARGE[2..6]));
    let head = storage.call("HEAD", path).await;
    assert_eq!(head.header("content-length"), LARGE.len().to_string());
    assert!(head.header("x-goog-hash").starts_with("crc32c="));
    for missing in ["/barn/sheep", "/shed/cow", "/barn", "/barn/"] {
        storage.call("GET", missing).await.refusal(404, "notFound");
    }
    // The server has no other part of the XML API.
    let refused = storage.call("PUT", path).await;
    refused.refusal(404, "notFound");
}

#[tokio::test]
async fn own_metadata_is_in_headers_at_bucket_and_object() {
    let storage = Storage::new().await;
    let fields = json!({"name": "cow", "metadata": {"owner": "ann", "Mixed-Case": "x y"}});
    storage.described(&fields, LARGE).await.resource();
    for verb in ["GET", "HEAD"] {
        let reply = storage.call(verb, "/barn/cow").await;
        assert_eq!(reply.header("x-goog-meta-owner"), "ann", "{verb}");
        assert_eq!(reply.header("x-goog-meta-mixed-case"), "x y", "{verb}");
    }
    // Go's library documents that the JSON API has them in the resource alone.
    for path in &PATHS[..2] {
        let reply = storage.call("GET", path).await;
        assert!(!reply.headers.contains_key("x-goog-meta-owner"), "{path}");
    }
}

#[tokio::test]
async fn query_overrides_type_and_disposition_at_the_xml_path() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    let query = "response-content-type=image%2Fpng\
                 &response-content-disposition=inline%3B%20filename%3Dmoo";
    let reply = storage.call("GET", &format!("/barn/cow?{query}")).await;
    assert_eq!(reply.header("content-type"), "image/png");
    assert_eq!(reply.header("content-disposition"), "inline; filename=moo");
    // Active content is downloaded as an attachment, whatever the query says.
    let page = "response-content-type=text%2Fhtml&response-content-disposition=inline";
    let reply = storage.call("GET", &format!("/barn/cow?{page}")).await;
    assert_eq!(reply.header("content-disposition"), "attachment");
    for refused in [
        "response-cache-control=no-store",
        "response-content-type=a%0Ab",
        "response-content-disposition=",
    ] {
        let reply = storage.call("GET", &format!("/barn/cow?{refused}")).await;
        reply.refusal(400, "invalidParameter");
    }
}

/// A client that has asked for a method which is not here must not look for an object.
#[tokio::test]
async fn path_that_begins_as_methods_do_is_no_object() {
    let storage = Storage::new().await;
    for path in [
        "/storage/v1/b/barn/nosuch",
        "/storage/v2/b/barn",
        "/download/storage/v1/b/barn/nosuch",
        "/batch/drive/v3",
        "/discovery/v1/nosuch",
    ] {
        let reply = storage.call("GET", path).await;
        let message = reply.refusal(404, "notFound");
        assert!(message.contains("has a method with the path"), "{message}");
    }
    let message = storage.call("GET", "/shed/cow").await;
    assert!(message.refusal(404, "notFound").contains("object"));
}

/// Media that is in the ledger when it is packed, and media that is in the vault.
const PACKED: [Media; 2] = [Media::new(1, 200), Media::new(2, 100_000)];

const ACCEPTS_GZIP: (&str, &str) = ("accept-encoding", "deflate, gzip");

impl Storage {
    /// Puts an object that says that its media is in gzip.
    async fn put_gzip(&self, media: &[u8], cache_control: &str) -> Value {
        let fields = json!({
            "name": "cow",
            "contentEncoding": "gzip",
            "cacheControl": cache_control,
        });
        self.described(&fields, media).await.resource()
    }

    async fn read(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.try_send("GET", path, headers, "").await
    }
}

/// The paths at which the media of the object `cow` is read.
const PATHS: [&str; 3] = [
    "/storage/v1/b/barn/o/cow?alt=media",
    "/download/storage/v1/b/barn/o/cow",
    "/barn/cow",
];

#[tokio::test]
async fn client_that_does_not_accept_gzip_gets_the_media_unpacked() {
    let storage = Storage::new().await;
    for media in PACKED {
        let packed = gzip(&media.whole());
        let object = storage.put_gzip(&packed, "max-age=60").await;
        let etag = format!("W/{}", object["etag"].as_str().unwrap());
        let hash = format!("crc32c={}", object["crc32c"].as_str().unwrap());
        for path in PATHS {
            for headers in [
                &[][..],
                &[("accept-encoding", "identity"), ("range", "bytes=5-9")],
                &[("accept-encoding", "gzip;q=0"), ("range", "bytes=9999999-")],
            ] {
                let reply = storage.read(path, headers).await;
                assert_eq!(reply.status, 200, "{path} {headers:?}");
                assert!(reply.is_whole && reply.body == media.whole(), "{path}");
                let head = storage.send("HEAD", path, headers, "").await;
                assert_eq!((head.status, &head.headers), (reply.status, &reply.headers));
                for (name, value) in [
                    ("etag", etag.as_str()),
                    ("vary", "accept-encoding"),
                    ("warning", "214 UploadServer gunzipped"),
                    ("accept-ranges", "none"),
                    ("cache-control", "max-age=60"),
                    ("x-goog-stored-content-encoding", "gzip"),
                    ("x-goog-stored-content-length", &packed.len().to_string()),
                ] {
                    assert_eq!(reply.header(name), value, "{name}");
                }
                assert!(reply.header("x-goog-hash").starts_with(&hash));
                for name in ["content-encoding", "content-length", "content-range"] {
                    assert!(!reply.headers.contains_key(name), "{name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn client_that_accepts_gzip_gets_the_stored_bytes_and_parts_of_them() {
    let storage = Storage::new().await;
    for media in PACKED {
        let packed = gzip(&media.whole());
        let object = storage.put_gzip(&packed, "").await;
        for path in PATHS {
            let reply = storage.read(path, &[ACCEPTS_GZIP]).await;
            assert_eq!((reply.status.as_u16(), &reply.body[..]), (200, &packed[..]));
            assert_eq!(reply.header("content-length"), packed.len().to_string());
            assert_eq!(reply.header("etag"), object["etag"].as_str().unwrap());
            let head = storage.send("HEAD", path, &[ACCEPTS_GZIP], "").await;
            assert_eq!(head.headers, reply.headers);
            let range = [ACCEPTS_GZIP, ("range", "bytes=5-99")];
            let part = storage.read(path, &range).await;
            assert_eq!(
                (part.status.as_u16(), &part.body[..]),
                (206, &packed[5..100])
            );
            let of_whole = format!("bytes 5-99/{}", packed.len());
            assert_eq!(part.header("content-range"), of_whole);
            assert!(!part.headers.contains_key("content-length"), "{part:?}");
            for reply in [reply, part] {
                assert_eq!(reply.header("content-encoding"), "gzip");
                assert_eq!(reply.header("vary"), "accept-encoding");
                assert!(!reply.headers.contains_key("warning"));
            }
            let range = [ACCEPTS_GZIP, ("range", "bytes=9999999-")];
            assert_eq!(storage.read(path, &range).await.status, 416);
        }
    }
}

#[tokio::test]
async fn object_that_forbids_transformation_is_given_as_it_is_stored() {
    let storage = Storage::new().await;
    for media in PACKED {
        let packed = gzip(&media.whole());
        storage.put_gzip(&packed, "public, no-transform").await;
        let reply = storage.read(PATHS[0], &[]).await;
        assert_eq!((reply.status.as_u16(), &reply.body[..]), (200, &packed[..]));
        assert_eq!(reply.header("content-encoding"), "gzip");
        assert_eq!(reply.header("content-length"), packed.len().to_string());
    }
}

#[tokio::test]
async fn object_that_only_says_that_it_is_gzip_is_given_as_it_is_stored() {
    let storage = Storage::new().await;
    for stored in [&b""[..], b"\x1f\x8b", b"a cow", LARGE] {
        storage.put_gzip(stored, "").await;
        let reply = storage.read(PATHS[0], &[]).await;
        assert_eq!((reply.status.as_u16(), &reply.body[..]), (200, stored));
        assert_eq!(reply.header("content-encoding"), "gzip");
        assert_eq!(reply.header("content-length"), stored.len().to_string());
    }
}

#[tokio::test]
async fn damaged_gzip_is_never_a_complete_reply() {
    let storage = Storage::new().await;
    for media in PACKED {
        let packed = gzip(&media.whole());
        let mut wrong_checksum = packed.clone();
        wrong_checksum[packed.len() - 8] ^= 1;
        let mut longer = packed.clone();
        longer.extend_from_slice(b"no gzip");
        let shorter = &packed[..packed.len() - 1];
        for damaged in [shorter, &packed[..20], &wrong_checksum, &longer] {
            storage.put_gzip(damaged, "").await;
            let reply = storage.read(PATHS[0], &[]).await;
            assert!(!reply.is_whole, "{} of {}", damaged.len(), packed.len());
        }
    }
}

#[tokio::test]
async fn several_gzip_members_are_unpacked_as_one_media() {
    let storage = Storage::new().await;
    let [one, other] = PACKED.map(Media::whole);
    let members = [gzip(&one), gzip(b""), gzip(&other)].concat();
    storage.put_gzip(&members, "").await;
    let reply = storage.read(PATHS[0], &[]).await;
    assert!(reply.is_whole);
    assert_eq!(reply.body, [one, other].concat());
}

#[tokio::test]
async fn conditions_mean_the_object_whether_its_media_is_unpacked_or_not() {
    let storage = Storage::new().await;
    let packed = gzip(&PACKED[0].whole());
    let object = storage.put_gzip(&packed, "").await;
    let strong = object["etag"].as_str().unwrap();
    let weak = format!("W/{strong}");
    for (headers, expected) in [
        ([("if-match", strong)], 200),
        ([("if-match", "\"other\"")], 412),
        ([("if-none-match", strong)], 304),
        ([("if-none-match", &weak)], 304),
    ] {
        let reply = storage.read(PATHS[0], &headers).await;
        assert_eq!(reply.status, expected, "{headers:?}");
        if expected == 304 {
            assert_eq!(reply.header("etag"), weak);
            assert_eq!(reply.header("vary"), "accept-encoding");
        }
    }
}

#[tokio::test]
async fn a_304_states_no_encoding_of_the_copy_that_its_client_has() {
    let storage = Storage::new().await;
    let packed = gzip(&PACKED[0].whole());
    let object = storage.put_gzip(&packed, "").await;
    let strong = object["etag"].as_str().unwrap();
    let headers = [ACCEPTS_GZIP, ("if-none-match", strong)];
    let reply = storage.read(PATHS[0], &headers).await;
    assert_eq!((reply.status.as_u16(), reply.header("etag")), (304, strong));
    assert!(!reply.headers.contains_key("content-encoding"));
}
