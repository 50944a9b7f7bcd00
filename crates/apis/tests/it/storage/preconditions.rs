//! Preconditions of calls.

use serde_json::json;

use super::{BUCKET, OBJECTS, Storage, UPLOAD};
use crate::world::Peer as _;

#[tokio::test]
async fn an_upload_that_must_make_something_new_does_not_replace() {
    let storage = Storage::new().await;
    storage
        .alone("name=cow&ifGenerationMatch=0", "moo")
        .await
        .resource();
    let again = storage.alone("name=cow&ifGenerationMatch=0", "MOO").await;
    again.refusal(412, "conditionNotMet");
    assert_eq!(storage.media("cow").await, "moo");
}

#[tokio::test]
async fn a_condition_is_asked_before_the_media_and_again_at_the_end() {
    let storage = Storage::new().await;
    let uri = format!("{UPLOAD}?uploadType=resumable&name=cow&ifGenerationMatch=0");
    let start = storage.call("POST", &uri).await;
    let session = start.header("location").to_owned();
    storage.put("cow", b"moo").await;
    storage
        .call("POST", &uri)
        .await
        .refusal(412, "conditionNotMet");
    let late = storage
        .send("PUT", &session, &[("content-range", "bytes 0-2/3")], "MOO")
        .await;
    late.refusal(412, "conditionNotMet");
    assert_eq!(storage.media("cow").await, "moo");
}

/// `THIS` stands for the generation of the object.
#[tokio::test]
async fn reads_and_writes_keep_their_conditions() {
    let table = [
        ("ifGenerationMatch=THIS", 200, 200),
        ("ifGenerationMatch=1", 412, 412),
        ("ifGenerationMatch=0", 412, 412),
        ("ifMetagenerationMatch=1", 200, 200),
        ("ifMetagenerationMatch=9", 412, 412),
        ("ifGenerationNotMatch=THIS", 304, 412),
        ("ifGenerationNotMatch=1", 200, 200),
        ("generation=THIS", 200, 200),
        ("generation=1", 404, 404),
    ];
    for (query, read, write) in table {
        let storage = Storage::new().await;
        let cow = storage.put("cow", b"moo").await;
        let query = query.replace("THIS", cow["generation"].as_str().unwrap());
        let cow = format!("{OBJECTS}/cow?{query}");
        let status =
            async |http_method, uri: String| storage.call(http_method, &uri).await.status.as_u16();
        assert_eq!(status("GET", cow.clone()).await, read, "get, {query}");
        assert_eq!(
            status("GET", format!("{cow}&alt=media")).await,
            read,
            "media, {query}"
        );
        let deleted = if write == 200 { 204 } else { write };
        assert_eq!(status("DELETE", cow).await, deleted, "delete, {query}");
    }
}

#[tokio::test]
async fn entity_tags_are_those_of_the_resource_for_media_too() {
    let storage = Storage::new().await;
    let cow = format!("{OBJECTS}/cow");
    let etag = storage.put("cow", b"moo").await["etag"]
        .as_str()
        .unwrap()
        .to_owned();
    let media = format!("{cow}?alt=media");
    assert_eq!(storage.call("GET", &media).await.header("etag"), etag);
    for uri in [&cow, &media] {
        let same = storage
            .send("GET", uri, &[("if-none-match", &etag)], "")
            .await;
        assert_eq!(same.status, 304, "{uri}");
        let right = storage.send("GET", uri, &[("if-match", &etag)], "").await;
        assert_eq!(right.status, 200, "{uri}");
        let wrong = storage
            .send("GET", uri, &[("if-match", "\"other\"")], "")
            .await;
        wrong.refusal(412, "conditionNotMet");
    }
    let patched = storage
        .json("PATCH", &cow, &json!({"cacheControl": "no-store"}))
        .await;
    assert_ne!(patched.resource()["etag"], etag);
    let stale = storage
        .send("DELETE", &cow, &[("if-match", &etag)], "")
        .await;
    stale.refusal(412, "conditionNotMet");
}

#[tokio::test]
async fn buckets_have_conditions_on_their_metageneration() {
    let storage = Storage::new().await;
    let at = |query: &str| format!("{BUCKET}?{query}");
    assert_eq!(
        storage
            .call("GET", &at("ifMetagenerationMatch=1"))
            .await
            .status,
        200
    );
    assert_eq!(
        storage
            .call("GET", &at("ifMetagenerationNotMatch=1"))
            .await
            .status,
        304
    );
    let patch = storage
        .json("PATCH", &at("ifMetagenerationMatch=7"), &json!({}))
        .await;
    patch.refusal(412, "conditionNotMet");
    storage
        .call("DELETE", &at("ifMetagenerationMatch=7"))
        .await
        .refusal(412, "conditionNotMet");
}
