//! Cloud Storage for Firebase.

use serde_json::{Value, json};

use crate::world::{ORIGIN, Peer as _, Reply, World};

const OBJECTS: &str = "/v0/b/barn/o";

fn firebase() -> World {
    World::of("firebasestorage")
}

/// Uploads media alone, as Firebase's libraries do not, but as briefly as the dialect allows.
async fn put(firebase: &World, name: &str, media: &[u8]) -> Value {
    let uri = format!("{OBJECTS}?name={name}");
    let headers = [
        ("x-goog-upload-protocol", "raw"),
        ("content-type", "text/plain"),
    ];
    let reply = firebase.send("POST", &uri, &headers, media.to_vec()).await;
    assert_eq!(reply.header("x-goog-upload-status"), "final");
    reply.resource()
}

/// Uploads in a session whose start has this metadata.
async fn resumable(firebase: &World, uri: &str, metadata: &Value, media: &[u8]) -> Reply {
    let start = [
        ("content-type", "application/json; charset=utf-8"),
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
        ("x-goog-upload-header-content-type", "text/plain"),
    ];
    let started = firebase
        .send("POST", uri, &start, metadata.to_string())
        .await;
    if !started.status.is_success() {
        return started;
    }
    let url = started.link("x-goog-upload-url", ORIGIN);
    let headers = [
        ("x-goog-upload-command", "upload, finalize"),
        ("x-goog-upload-offset", "0"),
    ];
    firebase.send("POST", url, &headers, media.to_vec()).await
}

#[tokio::test]
async fn object_is_uploaded_to_the_path_of_objects_itself() {
    let firebase = firebase();
    let uri = format!("{OBJECTS}?name=stall%2Fcow.txt");
    let metadata = json!({
        "name": "stall/cow.txt",
        "cacheControl": "no-store",
        "metadata": {"colour": "brown"},
    });
    let made = resumable(&firebase, &uri, &metadata, b"moo")
        .await
        .resource();
    let expected = json!({
        "name": "stall/cow.txt",
        "bucket": "barn",
        "metageneration": "1",
        "contentType": "text/plain",
        "cacheControl": "no-store",
        "metadata": {"colour": "brown"},
        "size": "3",
    });
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&made[key], value, "{key}");
    }
    let uri = format!("{OBJECTS}/stall%2Fcow.txt");
    assert_eq!(firebase.call("GET", &uri).await.resource(), made);
    let media = firebase.call("GET", &format!("{uri}?alt=media")).await;
    assert_eq!(&media.body[..], b"moo");
    assert_eq!(media.header("cache-control"), "no-store");
    assert_eq!(media.header("content-type"), "text/plain");
}

#[tokio::test]
async fn download_url_needs_the_token_of_the_object() {
    let firebase = firebase();
    let made = put(&firebase, "cow", b"moo").await;
    let token = made["downloadTokens"].as_str().expect("a token");
    assert_eq!(token.split('-').count(), 5);
    let right = format!("{OBJECTS}/cow?alt=media&token={token}");
    assert_eq!(&firebase.call("GET", &right).await.body[..], b"moo");
    let wrong = format!("{OBJECTS}/cow?alt=media&token=x{token}");
    firebase.call("GET", &wrong).await.refusal(403, "forbidden");
}

#[tokio::test]
async fn object_takes_the_place_of_one_of_its_name() {
    let firebase = firebase();
    let first = put(&firebase, "cow", b"moo").await;
    let second = put(&firebase, "cow", b"moooo").await;
    assert_ne!(first["generation"], second["generation"]);
    assert_ne!(first["downloadTokens"], second["downloadTokens"]);
    let uri = format!("{OBJECTS}/cow?alt=media");
    assert_eq!(&firebase.call("GET", &uri).await.body[..], b"moooo");
    assert_eq!(firebase.count("firebasestorage/barn").await, 1);
}

#[tokio::test]
async fn metadata_is_patched_and_null_removes_a_field() {
    let firebase = firebase();
    put(&firebase, "cow", b"moo").await;
    let uri = format!("{OBJECTS}/cow");
    let patch = json!({
        "contentType": "text/x-cow",
        "cacheControl": "no-store",
        "metadata": {"a": "1", "b": "2"},
        "size": "7",
    });
    let patched = firebase.json("PATCH", &uri, &patch).await.resource();
    assert_eq!(patched["contentType"], "text/x-cow");
    assert_eq!(patched["metageneration"], "2");
    assert_eq!(patched["size"], "3");
    let patch = json!({"cacheControl": null, "metadata": {"a": null}});
    let patched = firebase.json("PATCH", &uri, &patch).await.resource();
    assert_eq!(patched.get("cacheControl"), None);
    assert_eq!(patched["metadata"], json!({"b": "2"}));
    for patch in [
        json!({"cacheControl": 7}),
        json!({"contentType": "a\nb"}),
        json!({"contentType": format!("text/plain;a={}", "x".repeat(1100))}),
        json!({"metadata": {"a": 1}}),
        json!({"metadata": "a"}),
        json!({"metadata": {"a": "x".repeat(17_000)}}),
    ] {
        let refused = firebase.json("PATCH", &uri, &patch).await;
        refused.refusal(400, "invalid");
    }
}

#[tokio::test]
async fn deleted_object_is_gone() {
    let firebase = firebase();
    put(&firebase, "cow", b"moo").await;
    let uri = format!("{OBJECTS}/cow");
    assert_eq!(firebase.call("DELETE", &uri).await.status, 204);
    for method in ["GET", "DELETE"] {
        firebase.call(method, &uri).await.refusal(404, "notFound");
    }
}

#[tokio::test]
async fn objects_are_listed_with_prefixes_and_in_pages() {
    let firebase = firebase();
    for name in [
        "a",
        "b%2F",
        "b%2F1",
        "b%2F2%2Fx",
        "b%2F2%2Fy",
        "b%2F3",
        "c%2Fx",
    ] {
        put(&firebase, name, b"moo").await;
    }
    let pages = async |query: &str| {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let uri = format!("{OBJECTS}?{query}&pageToken={token}");
            let page = firebase.call("GET", &uri).await.resource();
            let names = page["items"].as_array().expect("a list").iter();
            found.extend(names.map(|item| item["name"].as_str().unwrap().to_owned()));
            let prefixes = page["prefixes"].as_array().expect("a list").iter();
            found.extend(prefixes.map(|prefix| format!("{}*", prefix.as_str().unwrap())));
            match page["nextPageToken"].as_str() {
                Some(next) => {
                    let next = next.replace('/', "%2F");
                    token = next.replace('\u{10ffff}', "%F4%8F%BF%BF");
                }
                None => break,
            }
        }
        found.sort_unstable();
        found
    };
    for size in ["", "&maxResults=1", "&maxResults=2"] {
        let all = pages(&format!("prefix={size}")).await;
        assert_eq!(
            all,
            ["a", "b/", "b/1", "b/2/x", "b/2/y", "b/3", "c/x"],
            "{size}"
        );
        let top = pages(&format!("delimiter=/{size}")).await;
        assert_eq!(top, ["a", "b/*", "c/*"], "{size}");
        let inner = pages(&format!("prefix=b/&delimiter=/{size}")).await;
        assert_eq!(inner, ["b/", "b/1", "b/2/*", "b/3"], "{size}");
    }
    assert!(pages("prefix=zebra/").await.is_empty());
    put(&firebase, "b%2F%F4%8F%BF%BFz", b"moo").await;
    for size in ["", "&maxResults=1"] {
        let top = pages(&format!("delimiter=/{size}")).await;
        assert_eq!(top, ["a", "b/*", "c/*"], "{size}");
    }
    let uri = format!("{OBJECTS}?maxResults=0");
    assert_eq!(firebase.call("GET", &uri).await.status, 400);
}

#[tokio::test]
async fn upload_without_a_usable_name_is_refused_before_the_media() {
    let firebase = firebase();
    let missing = resumable(&firebase, OBJECTS, &json!({}), b"moo").await;
    missing.refusal(400, "required");
    assert_eq!(missing.header("x-goog-upload-status"), "final");
    let long = json!({"name": "x".repeat(1025)});
    for metadata in [json!({"name": "a\nb"}), json!({"name": ".."}), long] {
        let refused = resumable(&firebase, OBJECTS, &metadata, b"moo").await;
        refused.refusal(400, "invalid");
    }
}

#[tokio::test]
async fn upload_to_a_bucket_that_cannot_be_is_refused_before_the_media() {
    let firebase = firebase();
    let long = "b".repeat(1000);
    for bucket in [".index", ".index-state", "..", "a", "Barn", &long] {
        let uri = format!("/v0/b/{bucket}/o");
        let refused = resumable(&firebase, &uri, &json!({"name": "cow"}), b"moo").await;
        refused.refusal(400, "invalidParameter");
    }
    let uri = "/v0/b/barn.appspot.com/o";
    let reply = resumable(&firebase, uri, &json!({"name": "cow"}), b"moo").await;
    assert_eq!(reply.resource()["bucket"], "barn.appspot.com");
}

#[tokio::test]
async fn upload_headers_on_a_path_that_takes_no_media_are_refused() {
    let firebase = firebase();
    put(&firebase, "cow", b"moo").await;
    let headers = [("x-goog-upload-protocol", "raw")];
    let uri = format!("{OBJECTS}/cow");
    let refused = firebase.send("PATCH", &uri, &headers, "moo").await;
    refused.refusal(400, "notUpload");
    assert_eq!(refused.header("x-goog-upload-status"), "final");
}
