//! Cloud Storage for Firebase.

use serde_json::{Value, json};

use crate::world::{ORIGIN, Peer as _, Reply, World};

const OBJECTS: &str = "/v0/b/barn/o";

fn firebase() -> World {
    World::of("firebasestorage")
}

/// Uploads media alone, in the shortest form of the dialect. Firebase's libraries do not use this
/// form.
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

/// Uploads in a session with this metadata in its start.
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
        assert_eq!(all, ["a", "b/1", "b/2/x", "b/2/y", "b/3", "c/x"], "{size}");
        let top = pages(&format!("delimiter=/{size}")).await;
        assert_eq!(top, ["a", "b/*", "c/*"], "{size}");
        let inner = pages(&format!("prefix=b/&delimiter=/{size}")).await;
        assert_eq!(inner, ["b/1", "b/2/*", "b/3"], "{size}");
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

/// Libraries build paths from names and leave out empty segments. They would therefore read and
/// delete another object, or none.
#[tokio::test]
async fn name_that_libraries_cannot_name_is_in_no_list() {
    let firebase = firebase();
    for name in ["%2Fa", "a%2F", "a%2F%2Fb", "b%2F%2F", "c%2Fd", "e", "%2F"] {
        put(&firebase, name, b"moo").await;
    }
    let list = async |query: &str| {
        let uri = format!("{OBJECTS}?{query}");
        let page = firebase.call("GET", &uri).await.resource();
        let texts = |key: &str, field: Option<&str>| -> Vec<String> {
            let texts = page[key].as_array().into_iter().flatten();
            let texts = texts.map(|it| field.map_or(it, |field| &it[field]));
            texts
                .map(|it| it.as_str().expect("a text").to_owned())
                .collect()
        };
        (texts("items", Some("name")), texts("prefixes", None))
    };
    assert_eq!(list("").await.0, ["c/d", "e"]);
    let (items, prefixes) = list("delimiter=/").await;
    assert_eq!(
        (items, prefixes),
        (
            vec!["e".to_owned()],
            ["a/", "b/", "c/"].map(str::to_owned).to_vec()
        )
    );
    for prefix in ["a/", "b/", "/"] {
        let found = list(&format!("delimiter=/&prefix={prefix}")).await;
        assert_eq!(found, (Vec::new(), Vec::new()), "{prefix}");
    }
    // The objects exist nevertheless.
    let uri = format!("{OBJECTS}/a%2F%2Fb");
    assert_eq!(firebase.call("GET", &uri).await.status, 200);
}

const CONDITION: [(&str, &str); 2] = [("if-match", "\"other\""), ("if-match", "*")];

/// RFC 9110, section 13.1.1: without a current object the condition is false.
#[tokio::test]
async fn if_match_on_an_upload_is_about_the_object_it_replaces() {
    let raw = ("x-goog-upload-protocol", "raw");
    let start = [
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
    ];
    let uri = format!("{OBJECTS}?name=cow");
    for (condition, of_old) in CONDITION.into_iter().zip([412, 200]) {
        for is_there in [false, true] {
            let firebase = firebase();
            if is_there {
                put(&firebase, "cow", b"moo").await;
            }
            let expected = if is_there { of_old } else { 412 };
            let head = [raw, condition];
            let reply = firebase.send("POST", &uri, &head, "MOO").await;
            assert_eq!(reply.status, expected, "{condition:?}, {is_there}");
            assert_eq!(reply.header("x-goog-upload-status"), "final");
            let head = [start[0], start[1], condition];
            let reply = firebase.send("POST", &uri, &head, "{}").await;
            assert_eq!(reply.status, expected, "start, {condition:?}, {is_there}");
            let read = firebase.call("GET", &format!("{OBJECTS}/cow")).await;
            assert_eq!(read.status == 200, is_there, "{condition:?}");
        }
    }
    let firebase = firebase();
    let etag = put(&firebase, "cow", b"moo").await["etag"].clone();
    let right = ("if-match", etag.as_str().expect("a tag"));
    let reply = firebase.send("POST", &uri, &[raw, right], "MOO").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let stale = firebase.send("POST", &uri, &[raw, right], "MOO").await;
    assert_eq!(stale.status, 412, "{stale:?}");
    let new = [raw, ("if-none-match", "*")];
    assert_eq!(firebase.send("POST", &uri, &new, "MOO").await.status, 412);
}

#[tokio::test]
async fn object_that_is_deleted_meanwhile_is_not_made_again() {
    let firebase = firebase();
    put(&firebase, "cow", b"moo").await;
    let uri = format!("{OBJECTS}?name=cow");
    let start = [
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
        ("if-match", "*"),
    ];
    let started = firebase.send("POST", &uri, &start, "{}").await;
    let url = started.link("x-goog-upload-url", ORIGIN).to_owned();
    let cow = format!("{OBJECTS}/cow");
    assert_eq!(firebase.call("DELETE", &cow).await.status, 204);
    let end = [
        ("x-goog-upload-command", "upload, finalize"),
        ("x-goog-upload-offset", "0"),
    ];
    assert_eq!(firebase.send("POST", &url, &end, "MOO").await.status, 412);
    firebase.call("GET", &cow).await.refusal(404, "notFound");
}

#[tokio::test]
async fn if_match_is_asked_of_an_object_that_is_read_or_changed() {
    let firebase = firebase();
    let etag = put(&firebase, "cow", b"moo").await["etag"].clone();
    let cow = format!("{OBJECTS}/cow");
    let right = [("if-match", etag.as_str().expect("a tag"))];
    for http_method in ["GET", "PATCH", "DELETE"] {
        let send = async |head: &[(&str, &str)]| {
            let head = [&[("content-type", "application/json")], head].concat();
            let body = if http_method == "PATCH" { "{}" } else { "" };
            firebase.send(http_method, &cow, &head, body).await.status
        };
        assert_eq!(send(&CONDITION[..1]).await, 412, "{http_method}");
        if http_method == "GET" {
            assert_eq!(send(&right).await, 200);
            assert_eq!(send(&[("if-none-match", right[0].1)]).await, 304);
        }
    }
    assert_eq!(firebase.send("DELETE", &cow, &right, "").await.status, 204);
}

/// The principal who replaces the object owns it, so that it counts against their quota.
#[tokio::test]
async fn replaced_object_belongs_to_the_principal_who_replaced_it() {
    let firebase = firebase();
    let uri = format!("{OBJECTS}?name=cow");
    let head = [
        ("x-goog-upload-protocol", "raw"),
        ("content-type", "text/plain"),
    ];
    for (principal, media) in [
        ("alice", &b"moo"[..]),
        ("bob", &[b'm'; 2000]),
        ("alice", b"m"),
    ] {
        let by = firebase.by(principal);
        let reply = by.send("POST", &uri, &head, media.to_vec()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let stored = firebase.stored("firebasestorage/barn", "cow").await;
        assert_eq!(stored.owner.as_deref(), Some(principal));
        for other in ["alice", "bob"] {
            let usage = firebase.usage(other).await;
            if other == principal {
                assert!(usage > media.len() as u64, "{other}: {usage}");
            } else {
                assert_eq!(usage, 0, "{other}");
            }
        }
    }
}

#[tokio::test]
async fn token_of_an_object_cannot_be_chosen() {
    let firebase = firebase();
    let uri = format!("{OBJECTS}?name=cow");
    let made = resumable(&firebase, &uri, &json!({}), b"moo")
        .await
        .resource();
    let token = &made["downloadTokens"];
    let object = format!("{OBJECTS}/cow");
    for other in [json!("t"), json!(null), json!("")] {
        let fields = json!({"downloadTokens": other});
        let refused = firebase.json("PATCH", &object, &fields).await;
        refused.refusal(501, "notImplemented");
        let started = resumable(&firebase, &uri, &fields, b"MOO").await;
        started.refusal(501, "notImplemented");
    }
    let same = json!({"downloadTokens": token, "contentType": "text/html"});
    let kept = firebase.json("PATCH", &object, &same).await.resource();
    assert_eq!(
        (&kept["downloadTokens"], &kept["contentType"]),
        (token, &json!("text/html"))
    );
}
