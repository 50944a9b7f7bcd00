//! Conditions of calls on resources without entity tags.

use serde_json::{Value, json};

use crate::world::{Peer as _, World};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn made(world: &World, uri: &str, body: &Value) -> String {
    let made = world.json("POST", uri, body).await.resource();
    made["id"].as_str().expect("it has an id").to_owned()
}

#[tokio::test]
async fn resource_without_a_tag_matches_none_but_any() {
    let drive = World::of("drive");
    let file = made(&drive, "/drive/v3/files", &json!({"name": "cow"})).await;
    let file = format!("/drive/v3/files/{file}");
    for (http_method, condition) in [
        ("GET", ("if-match", "\"x\"")),
        ("PATCH", ("if-match", "\"x\"")),
        ("PATCH", ("if-none-match", "*")),
        ("DELETE", ("if-match", "\"x\"")),
        ("DELETE", ("if-match", "")),
        ("DELETE", ("if-none-match", "*")),
    ] {
        let headers = [JSON, condition];
        let reply = drive.send(http_method, &file, &headers, "{}").await;
        reply.refusal(412, "conditionNotMet");
    }
    assert_eq!(drive.call("GET", &file).await.resource()["name"], "cow");
    for condition in [("if-match", "*"), ("if-none-match", "\"x\"")] {
        let headers = [JSON, condition];
        let patched = drive.send("PATCH", &file, &headers, "{}").await;
        assert_eq!(patched.status, 200, "{condition:?}");
    }
    let any = [("if-match", "*")];
    assert_eq!(drive.send("DELETE", &file, &any, "").await.status, 204);
}

#[tokio::test]
async fn collection_without_a_tag_matches_none_but_any() {
    for (api, uri) in [
        ("gmail", "/gmail/v1/users/me/labels"),
        ("generativelanguage", "/v1beta/files"),
        ("drive", "/drive/v3/files"),
    ] {
        let world = World::of(api);
        let other = [("if-match", "\"x\"")];
        let refused = world.send("GET", uri, &other, "").await;
        refused.refusal(412, "conditionNotMet");
        let any = [("if-match", "*")];
        assert_eq!(world.send("GET", uri, &any, "").await.status, 200, "{uri}");
    }
}

#[tokio::test]
async fn parameter_of_uploads_is_refused_without_media() {
    let gmail = World::of("gmail");
    let labels = "/gmail/v1/users/me/labels";
    for parameter in [
        "uploadType=media",
        "uploadType=resumable",
        "upload_protocol=raw",
    ] {
        let uri = format!("{labels}?{parameter}");
        let refused = gmail.json("POST", &uri, &json!({"name": "Farm"})).await;
        refused.refusal(400, "notUpload");
    }
    let made = gmail.json("POST", labels, &json!({"name": "Farm"})).await;
    assert_eq!(made.status, 200);
}

#[tokio::test]
async fn session_with_long_metadata_goes_on_with_the_conditions_of_its_start() {
    let drive = World::of("drive");
    for length in [10, 10_000] {
        let condition = ("if-none-match", "\"x\"");
        let metadata = json!({"name": "cow", "description": "m".repeat(length)});
        let uri = "/upload/drive/v3/files?uploadType=resumable";
        let headers = [JSON, condition];
        let started = drive.send("POST", uri, &headers, metadata.to_string());
        let started = started.await;
        let session = started.headers["location"].to_str().unwrap();
        let chunk = [("content-range", "bytes 0-2/3"), condition];
        let done = drive.send("PUT", session, &chunk, "moo").await;
        assert_eq!(done.status, 200, "{length}: {done:?}");
    }
}
