//! Headers of the XML API, and keys for the encryption of media.

use serde_json::json;

use super::{BUCKET, OBJECTS, Storage, UPLOAD};
use crate::world::{ORIGIN, Peer as _};

const COW: &str = "/storage/v1/b/barn/o/cow";

/// The paths at which the media of the object `cow` is read.
const MEDIA: [&str; 3] = [
    "/storage/v1/b/barn/o/cow?alt=media",
    "/download/storage/v1/b/barn/o/cow",
    "/barn/cow",
];

/// A key that a client has, its algorithm and its hash, as libraries send them.
const KEY: [(&str, &str); 3] = [
    ("x-goog-encryption-algorithm", "AES256"),
    (
        "x-goog-encryption-key",
        "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    ),
    (
        "x-goog-encryption-key-sha256",
        "Y6zH4SmGZIvuFpnYJFVKTm7BHz1UJjsPCmYKpFVzB9I=",
    ),
];

/// `THIS` stands for the generation of the object.
const CONDITIONS: [(&str, &str, u16, u16); 8] = [
    ("x-goog-if-generation-match", "THIS", 200, 200),
    ("x-goog-if-generation-match", "1234", 412, 412),
    ("x-goog-if-generation-not-match", "1234", 200, 200),
    ("x-goog-if-generation-not-match", "THIS", 304, 412),
    ("x-goog-if-metageneration-match", "1", 200, 200),
    ("x-goog-if-metageneration-match", "77", 412, 412),
    ("x-goog-if-metageneration-not-match", "77", 200, 200),
    ("x-goog-if-metageneration-not-match", "1", 304, 412),
];

#[tokio::test]
async fn conditions_in_headers_decide_at_every_path() {
    for (name, value, read, write) in CONDITIONS {
        let storage = Storage::new().await;
        let cow = storage.put("cow", b"moo").await;
        let value = value.replace("THIS", cow["generation"].as_str().expect("it is shown"));
        let condition = [(name, value.as_str())];
        for path in MEDIA.into_iter().chain([COW]) {
            for http_method in ["GET", "HEAD"] {
                let reply = storage.try_send(http_method, path, &condition, "").await;
                assert_eq!(reply.status, read, "{http_method} {path} {condition:?}");
            }
        }
        let upload = format!("{UPLOAD}?uploadType=media&name=cow");
        let reply = storage.send("POST", &upload, &condition, "MOO").await;
        assert_eq!(reply.status, write, "{upload} {condition:?}");
    }
}

#[tokio::test]
async fn condition_in_a_header_decides_on_lists_too() {
    for (name, value, read, write) in CONDITIONS {
        let storage = Storage::new().await;
        let cow = storage.put("cow", b"moo").await;
        let is_generation = name.starts_with("x-goog-if-generation");
        let value = value.replace("THIS", cow["generation"].as_str().expect("it is shown"));
        let condition = [("content-type", "application/json"), (name, value.as_str())];
        let entry = r#"{"entity": "allUsers", "role": "READER"}"#;
        for of in [COW, BUCKET] {
            // A bucket has no generations.
            if is_generation && of == BUCKET {
                continue;
            }
            for list in ["acl", "defaultObjectAcl"] {
                if of == COW && list == "defaultObjectAcl" {
                    continue;
                }
                if of == BUCKET && list == "defaultObjectAcl" && write == 200 {
                    // The list before has changed the bucket.
                    continue;
                }
                let uri = format!("{of}/{list}");
                let got = storage.send("GET", &uri, &condition[1..], "").await;
                assert_eq!(got.status, read, "{uri} {condition:?}");
                let made = storage.send("POST", &uri, &condition, entry).await;
                assert_eq!(made.status, write, "{uri} {condition:?}");
                let entries = storage.call("GET", &uri).await.resource().to_string();
                assert_eq!(
                    entries.contains("allUsers"),
                    write == 200,
                    "{uri} {condition:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn entity_tag_of_what_has_a_list_decides() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    let headers = [
        ("content-type", "application/json"),
        ("if-match", "\"other\""),
    ];
    let entry = r#"{"entity": "allUsers", "role": "READER"}"#;
    for list in [
        format!("{COW}/acl"),
        format!("{BUCKET}/acl"),
        format!("{BUCKET}/defaultObjectAcl"),
    ] {
        let made = storage.send("POST", &list, &headers, entry).await;
        made.refusal(412, "conditionNotMet");
        let shown = storage.call("GET", &list).await.resource();
        assert!(!shown.to_string().contains("allUsers"), "{list}");
        let etag = shown["items"][0]["etag"]
            .as_str()
            .expect("it is shown")
            .to_owned();
        let headers = [headers[0], ("if-match", etag.as_str())];
        let made = storage.send("POST", &list, &headers, entry).await;
        assert_eq!(made.status, 200, "{list}");
    }
}

#[tokio::test]
async fn condition_on_a_collection_is_refused() {
    let storage = Storage::new().await;
    for name in [
        "x-goog-if-generation-match",
        "x-goog-if-metageneration-match",
        "x-goog-if-metageneration-not-match",
    ] {
        let headers = [("content-type", "application/json"), (name, "1")];
        let uri = "/storage/v1/b?project=farm";
        let made = storage
            .send("POST", uri, &headers, r#"{"name": "shed"}"#)
            .await;
        made.refusal(400, "invalidParameter");
        for uri in [uri, OBJECTS] {
            let list = storage.send("GET", uri, &headers[1..], "").await;
            list.refusal(400, "invalidParameter");
        }
    }
    storage
        .call("GET", "/storage/v1/b/shed")
        .await
        .refusal(404, "notFound");
}

#[tokio::test]
async fn condition_in_a_header_is_asked_at_the_end_too() {
    let storage = Storage::new().await;
    let uri = format!("{UPLOAD}?uploadType=resumable&name=cow");
    let condition = [("x-goog-if-generation-match", "0")];
    let start = storage.send("POST", &uri, &condition, "").await;
    let session = start.location(ORIGIN).to_owned();
    storage.put("cow", b"moo").await;
    let again = storage.send("POST", &uri, &condition, "").await;
    again.refusal(412, "conditionNotMet");
    let end = storage.send("PUT", &session, &[], "MOO").await;
    end.refusal(412, "conditionNotMet");
    assert_eq!(storage.media("cow").await, "moo");
}

#[tokio::test]
async fn condition_of_a_chunk_is_that_of_the_start() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    let uri = format!("{UPLOAD}?uploadType=resumable&name=cow");
    let there = ("x-goog-if-metageneration-match", "1");
    for start in [&[][..], &[there]] {
        let started = storage.send("POST", &uri, start, "").await;
        let session = started.location(ORIGIN).to_owned();
        for other in [
            ("x-goog-if-generation-match", "1"),
            ("x-goog-if-metageneration-match", "77"),
            ("if-match", "\"other\""),
            ("if-none-match", "*"),
        ] {
            let end = storage.send("PUT", &session, &[other], "MOO").await;
            end.refusal(400, "invalid");
            assert_eq!(end.json()["error"]["errors"][0]["location"], other.0);
        }
        assert_eq!(storage.media("cow").await, "moo");
        if !start.is_empty() {
            let end = storage.send("PUT", &session, start, "MOO").await;
            assert_eq!(end.status, 200);
        }
    }
}

#[tokio::test]
async fn malformed_condition_in_a_header_is_refused() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    let name = "x-goog-if-generation-match";
    for condition in [
        &[(name, "x")][..],
        &[(name, "")],
        &[(name, "1"), (name, "1")],
        &[(name, "9223372036854775808")],
    ] {
        let reply = storage.send("GET", "/barn/cow", condition, "").await;
        reply.refusal(400, "invalid");
        assert_eq!(reply.json()["error"]["errors"][0]["location"], name);
    }
    let upload = format!("{UPLOAD}?uploadType=media&name=cow");
    for (uri, headers) in [
        (upload.clone(), &[(name, "")][..]),
        (format!("{upload}&ifGenerationMatch="), &[]),
    ] {
        assert_eq!(storage.send("POST", &uri, headers, "MOO").await.status, 400);
    }
    assert_eq!(storage.media("cow").await, "moo");
    let twice = format!("{COW}?ifGenerationMatch=2");
    let reply = storage.send("GET", &twice, &[(name, "1")], "").await;
    reply.refusal(400, "invalidArgument");
}

/// `If-Match` and `If-None-Match` are of the object that the call makes or replaces.
#[tokio::test]
async fn entity_tag_is_that_of_the_object_that_an_upload_replaces() {
    let tags = [
        ("if-match", "\"other\"", 412, 412),
        ("if-match", "*", 412, 200),
        ("if-none-match", "*", 200, 412),
    ];
    for (name, tag, of_new, of_old) in tags {
        for (is_there, expected) in [(false, of_new), (true, of_old)] {
            let storage = Storage::new().await;
            storage.put("calf", b"moo").await;
            if is_there {
                storage.put("cow", b"moo").await;
            }
            let condition = [(name, tag)];
            let upload = format!("{UPLOAD}?uploadType=media&name=cow");
            let start = format!("{UPLOAD}?uploadType=resumable&name=cow");
            let copy = format!("{OBJECTS}/calf/rewriteTo/b/barn/o/cow");
            for uri in [&start, &copy, &upload] {
                if uri == &upload && !is_there && expected == 200 {
                    storage.call("DELETE", COW).await;
                }
                let reply = storage.send("POST", uri, &condition, "").await;
                assert_eq!(reply.status, expected, "{uri} {condition:?}");
            }
        }
    }
}

#[tokio::test]
async fn encryption_key_is_refused_everywhere() {
    let storage = Storage::new().await;
    storage.put("calf", b"moo").await;
    let one = |at: usize| &KEY[at..=at];
    let uploads = ["media", "multipart", "resumable"];
    let uploads = uploads.map(|it| ("POST", format!("{UPLOAD}?uploadType={it}&name=cow")));
    let others = [
        ("GET", format!("{OBJECTS}/calf")),
        ("GET", format!("{OBJECTS}/calf?alt=media")),
        ("GET", "/barn/calf".to_owned()),
        ("HEAD", "/barn/calf".to_owned()),
        ("PATCH", format!("{OBJECTS}/calf")),
        ("POST", format!("{OBJECTS}/calf/copyTo/b/barn/o/cow")),
        ("POST", format!("{OBJECTS}/calf/rewriteTo/b/barn/o/cow")),
        ("POST", format!("{OBJECTS}/cow/compose")),
    ];
    for (http_method, uri) in uploads.iter().chain(&others) {
        for headers in [&KEY[..], one(0), one(1), one(2)] {
            let reply = storage.send(http_method, uri, headers, "").await;
            assert_eq!(reply.status, 400, "{http_method} {uri} {headers:?}");
            if *http_method != "HEAD" {
                reply.refusal(400, "invalidParameter");
            }
        }
        for name in [
            "x-goog-copy-source-encryption-key",
            "x-amz-server-side-encryption",
            "x-amz-server-side-encryption-customer-key",
            "x-amz-copy-source-server-side-encryption-customer-key",
        ] {
            let reply = storage.send(http_method, uri, &[(name, "k")], "").await;
            assert_eq!(reply.status, 400, "{http_method} {uri} {name}");
        }
    }
    storage.object("cow").await.refusal(404, "notFound");
}

#[tokio::test]
async fn encryption_key_of_a_chunk_is_refused() {
    let storage = Storage::new().await;
    let uri = format!("{UPLOAD}?uploadType=resumable&name=cow");
    let start = storage.call("POST", &uri).await;
    let session = start.location(ORIGIN).to_owned();
    let amazon = ("x-amz-server-side-encryption-customer-key", "k");
    for key in [&KEY[..], &[amazon]] {
        let chunk = storage.send("PUT", &session, key, "moo").await;
        chunk.refusal(400, "invalidParameter");
    }
    assert_eq!(storage.send("PUT", &session, &[], "moo").await.status, 200);
}

#[tokio::test]
async fn headers_of_the_xml_api_are_refused_where_they_decide() {
    for (name, value) in [
        ("x-goog-acl", "private"),
        ("x-goog-storage-class", "NEARLINE"),
        ("x-goog-custom-time", "2026-11-28T00:00:00Z"),
        ("x-goog-meta-colour", "brown"),
        ("x-goog-copy-source", "barn/calf"),
        ("x-goog-metadata-directive", "REPLACE"),
        ("x-goog-resumable", "start"),
        ("x-goog-content-length-range", "0,1"),
        ("x-goog-temporary-hold", "true"),
        ("x-goog-object-lock-mode", "COMPLIANCE"),
    ] {
        let storage = Storage::new().await;
        let uri = format!("{UPLOAD}?uploadType=media&name=cow");
        let reply = storage.send("POST", &uri, &[(name, value)], "moo").await;
        reply.refusal(501, "notImplemented");
        assert_eq!(reply.json()["error"]["errors"][0]["location"], name);
        storage.object("cow").await.refusal(404, "notFound");
    }
    let storage = Storage::new().await;
    let harmless = [
        ("x-goog-user-project", "farm"),
        ("x-goog-api-client", "gl-python/3"),
    ];
    let uri = format!("{UPLOAD}?uploadType=media&name=cow");
    let reply = storage.send("POST", &uri, &harmless, "moo").await;
    assert_eq!(reply.resource()["name"], json!("cow"));
}
