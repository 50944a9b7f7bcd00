//! Media on its way out.

use serde_json::json;

use super::{LARGE, OBJECTS, Storage};
use crate::world::Peer as _;

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
        "cache-control",
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
    assert_eq!(behind.status, 416);
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
    // Nothing else of the XML API is here.
    let refused = storage.call("PUT", path).await;
    refused.refusal(404, "notFound");
}
