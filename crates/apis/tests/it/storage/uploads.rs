//! Uploads of objects.

use http::StatusCode;
use serde_json::{Value, json};

use super::{BUCKET, LARGE, OBJECTS, Storage, UPLOAD};
use crate::world::{ORIGIN, Peer as _};

#[tokio::test]
async fn an_object_shows_what_the_libraries_read() {
    let storage = Storage::new().await;
    let metadata =
        json!({"name": "stall/cow 1", "cacheControl": "no-store", "metadata": {"herd": "north"}});
    let object = storage.described(&metadata, b"moo").await.resource();
    let generation = object["generation"].as_str().unwrap();
    let path = "storage/v1/b/barn/o/stall%2Fcow%201";
    let expected = json!({
        "kind": "storage#object",
        "id": format!("barn/stall/cow 1/{generation}"),
        "selfLink": format!("{ORIGIN}/{path}"),
        "mediaLink": format!("{ORIGIN}/download/{path}?generation={generation}&alt=media"),
        "name": "stall/cow 1",
        "bucket": "barn",
        "generation": generation,
        "metageneration": "1",
        "etag": format!("\"{generation}-1\""),
        "timeCreated": object["timeCreated"],
        "updated": object["timeCreated"],
        "timeStorageClassUpdated": object["timeCreated"],
        "timeFinalized": object["timeCreated"],
        "contentType": "text/plain",
        "size": "3",
        "crc32c": "HbtQqw==",
        "md5Hash": "t9GSpE4NoWzRgOvoXvt8jw==",
        "cacheControl": "no-store",
        "metadata": {"herd": "north"},
        "storageClass": "STANDARD",
    });
    assert_eq!(object, expected);
    assert_eq!(storage.object("stall%2Fcow%201").await.resource(), object);
    assert_eq!(storage.media("stall%2Fcow%201").await, "moo");
}

#[tokio::test]
async fn a_resumable_upload_ends_with_200() {
    let storage = Storage::new().await;
    let uri = format!("{UPLOAD}?uploadType=resumable");
    let start = storage.json("POST", &uri, &json!({"name": "cow"})).await;
    let session = start
        .header("location")
        .strip_prefix(ORIGIN)
        .unwrap()
        .to_owned();
    let range = format!("bytes 0-{}/{}", LARGE.len() - 1, LARGE.len());
    let end = storage
        .send("PUT", &session, &[("content-range", &range)], LARGE)
        .await;
    assert_eq!(
        (end.status.as_u16(), &end.json()["name"]),
        (200, &json!("cow"))
    );
    assert_eq!(storage.media("cow").await, LARGE);
}

#[tokio::test]
async fn a_name_in_the_query_counts_before_one_in_the_metadata() {
    let storage = Storage::new().await;
    let path = format!("{OBJECTS}?name=query");
    let metadata = json!({"name": "metadata"});
    let reply = storage
        .multipart(&path, &metadata, "text/plain", b"moo")
        .await;
    assert_eq!(reply.field("name"), "query");
}

#[tokio::test]
async fn a_type_in_the_metadata_counts_before_that_of_the_part() {
    let storage = Storage::new().await;
    let stated = storage
        .described(&json!({"name": "cow", "contentType": "image/png"}), b"moo")
        .await;
    assert_eq!(stated.resource()["contentType"], "image/png");
    assert_eq!(
        storage.object("cow?alt=media").await.header("content-type"),
        "image/png"
    );
}

#[tokio::test]
async fn what_can_never_be_an_object_is_refused_before_its_media() {
    let storage = Storage::new().await;
    let nowhere = "/upload/storage/v1/b/none/o?uploadType=resumable&name=cow";
    storage.call("POST", nowhere).await.refusal(404, "notFound");
    let table = [
        ("", "", "required"),
        ("name=", "", "invalidParameter"),
        ("name=a%0Ab", "", "invalidParameter"),
        ("name=cow&ifGenerationMatch=x", "", "invalidParameter"),
        ("name=cow&contentEncoding=a%0Db", "", "invalid"),
        ("name=cow", r#"{"cacheControl": 1}"#, "invalid"),
        ("name=cow", r#"{"metadata": {"a": 1}}"#, "invalid"),
        ("name=cow", r#"{"temporaryHold": true}"#, "invalid"),
    ];
    for (query, metadata, reason) in table {
        let uri = format!("{UPLOAD}?uploadType=resumable&{query}");
        let headers = [("content-type", "application/json")];
        let reply = storage.send("POST", &uri, &headers, metadata).await;
        reply.refusal(400, reason);
    }
}

#[tokio::test]
async fn an_object_without_media_is_refused() {
    let storage = Storage::new().await;
    storage
        .json("POST", OBJECTS, &json!({"name": "cow"}))
        .await
        .refusal(400, "invalid");
}

#[tokio::test]
async fn media_that_is_not_what_the_client_says_makes_no_object() {
    let storage = Storage::new().await;
    for metadata in [
        json!({"name": "cow", "md5Hash": "AAAAAAAAAAAAAAAAAAAAAA=="}),
        json!({"name": "cow", "crc32c": "AAAAAA=="}),
    ] {
        storage
            .described(&metadata, b"moo")
            .await
            .refusal(400, "invalid");
    }
    storage.object("cow").await.refusal(404, "notFound");
}

#[tokio::test]
async fn checksums_in_a_third_part_are_held_against_the_media() {
    for media in [LARGE, b"moo"] {
        checksums_are_held_against(media).await;
    }
}

async fn checksums_are_held_against(media: &[u8]) {
    let storage = Storage::new().await;
    let sums = storage.put("model", media).await;
    let md5 = json!({"md5Hash": sums["md5Hash"]});
    let crc32c = json!({"crc32c": sums["crc32c"]});
    for right in [&md5, &crc32c, &json!({})] {
        let reply = storage.summed("cow", media, &right.to_string()).await;
        reply.resource();
    }
    storage.call("DELETE", &format!("{OBJECTS}/cow")).await;
    for (wrong, reason) in [
        (r#"{"crc32c": "AAAAAA=="}"#, "invalid"),
        (r#"{"md5Hash": "AAAAAAAAAAAAAAAAAAAAAA=="}"#, "invalid"),
        (
            // Not computed on the way: Cloud Storage shows no SHA-256.
            r#"{"sha256Checksum": "0000000000000000000000000000000000000000000000000000000000000000"}"#,
            "invalid",
        ),
        (r#"{"crc32c": "?"}"#, "invalid"),
        ("no JSON", "parseError"),
    ] {
        let reply = storage.summed("cow", media, wrong).await;
        reply.refusal(400, reason);
    }
    storage.object("cow").await.refusal(404, "notFound");
}

#[tokio::test]
async fn an_upload_in_the_place_of_an_object_is_a_new_generation() {
    let storage = Storage::new().await;
    let old = storage
        .described(&json!({"name": "cow", "cacheControl": "no-store"}), LARGE)
        .await
        .resource();
    let new = storage.put("cow", b"moo").await;
    let generation = |object: &Value| {
        object["generation"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(generation(&new) > generation(&old), "{new} {old}");
    assert_eq!(
        new.get("cacheControl"),
        None,
        "a new object has fields of its own"
    );
    assert_eq!(storage.media("cow").await, "moo");
    let query = |generation| format!("cow?generation={generation}");
    storage
        .object(&query(generation(&old)))
        .await
        .refusal(404, "notFound");
    storage.object(&query(generation(&new))).await.resource();
}

/// As by a clock that was set back, or two uploads within a millisecond.
#[tokio::test]
async fn a_generation_is_above_the_one_before_whatever_the_clock_says() {
    let storage = Storage::new().await;
    storage.row("cow", 9_000_000_000_000_000).await;
    let new = storage.put("cow", b"moo").await;
    assert_eq!(new["generation"], "9000000000000001");
}

#[tokio::test]
async fn an_object_has_the_storage_class_of_its_bucket_unless_it_states_one() {
    let storage = Storage::new().await;
    storage
        .json("PATCH", BUCKET, &json!({"storageClass": "NEARLINE"}))
        .await
        .resource();
    assert_eq!(storage.put("cow", b"moo").await["storageClass"], "NEARLINE");
    let stated = json!({"name": "cow", "storageClass": "ARCHIVE"});
    assert_eq!(
        storage.described(&stated, b"moo").await.resource()["storageClass"],
        "ARCHIVE"
    );
}

#[tokio::test]
async fn a_deleted_object_is_gone() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    let gone = storage.call("DELETE", &format!("{OBJECTS}/cow")).await;
    assert_eq!((gone.status, gone.body.len()), (StatusCode::NO_CONTENT, 0));
    storage
        .call("DELETE", &format!("{OBJECTS}/cow"))
        .await
        .refusal(404, "notFound");
    storage
        .object("cow?alt=media")
        .await
        .refusal(404, "notFound");
}
