//! Parameters of every method that has them: two values, two outcomes.

use serde_json::{Value, json};

use super::{BUCKET, OBJECTS, Storage, UPLOAD};
use crate::world::{Peer as _, Reply};

const COW: &str = "/storage/v1/b/barn/o/cow";

/// How a call of an object is sent. `cow` is its source, `calf` its target where it has two.
const OBJECT_CALLS: [(&str, &str, &str); 8] = [
    ("copy", "POST", "/copyTo/b/barn/o/calf"),
    ("rewrite", "POST", "/rewriteTo/b/barn/o/calf"),
    ("move", "POST", "/moveTo/o/calf"),
    ("get", "GET", ""),
    ("delete", "DELETE", ""),
    ("patch", "PATCH", ""),
    ("update", "PUT", ""),
    ("compose", "POST", ""),
];

/// A bucket with the objects `cow` and `calf`.
struct Herd {
    storage: Storage,
    cow: u64,
    calf: u64,
}

impl Herd {
    async fn new() -> Self {
        let storage = Storage::new().await;
        let put = async |name: &str| {
            let object = storage.put(name, b"moo").await;
            let generation = object["generation"].as_str().expect("as it is shown");
            generation.parse::<u64>().expect("a number")
        };
        let (cow, calf) = (put("cow").await, put("calf").await);
        Self { storage, cow, calf }
    }

    /// Carries out a call of [`OBJECT_CALLS`].
    async fn call(&self, (name, http_method, rest): (&str, &str, &str), query: &str) -> Reply {
        if name == "compose" {
            let uri = format!("{OBJECTS}/calf/compose?{query}");
            let sources = json!({"sourceObjects": [{"name": "cow"}]});
            return self.storage.json("POST", &uri, &sources).await;
        }
        let uri = format!("{COW}{rest}?{query}");
        if http_method == "GET" {
            return self.storage.call(http_method, &uri).await;
        }
        self.storage.json(http_method, &uri, &json!({})).await
    }
}

/// Returns the status of a call in a separate world, with a matching or a wrong value of the
/// parameter.
async fn outcomes(call: (&str, &str, &str), parameter: &str, right: bool, is_not: bool) -> u16 {
    let herd = Herd::new().await;
    let is_metageneration = parameter.contains("Meta");
    let is_of_source = parameter.to_lowercase().contains("source");
    let is_of_cow = is_of_source || parameter == "generation" || call.2.is_empty();
    let current = match (is_metageneration, is_of_cow && call.0 != "compose") {
        (true, _) => 1,
        (false, true) => herd.cow,
        (false, false) => herd.calf,
    };
    let value = if right == is_not {
        current + 1
    } else {
        current
    };
    let reply = herd.call(call, &format!("{parameter}={value}")).await;
    reply.status.as_u16()
}

async fn check_preconditions(names: [&str; 4], calls: &[(&str, &str, &str)]) {
    for call in calls {
        for name in names {
            let is_not = name.contains("Not");
            if call.0 == "compose" && is_not {
                continue;
            }
            let met = outcomes(*call, name, true, is_not).await;
            assert!((200..300).contains(&met), "{} {name}: {met}", call.0);
            let failed = if call.0 == "get" && is_not { 304 } else { 412 };
            let unmet = outcomes(*call, name, false, is_not).await;
            assert_eq!(unmet, failed, "{} {name}", call.0);
        }
    }
}

#[tokio::test]
async fn preconditions_of_objects_decide() {
    let names = [
        "ifGenerationMatch",
        "ifGenerationNotMatch",
        "ifMetagenerationMatch",
        "ifMetagenerationNotMatch",
    ];
    check_preconditions(names, &OBJECT_CALLS).await;
    for name in names {
        for right in [true, false] {
            let herd = Herd::new().await;
            let current = if name.contains("Meta") { 1 } else { herd.cow };
            let value = if right == name.contains("Not") {
                current + 1
            } else {
                current
            };
            let query = format!("name=cow&{name}={value}");
            let status = herd.storage.alone(&query, "MOO").await.status;
            assert_eq!(status, if right { 200 } else { 412 }, "insert {name}");
        }
    }
}

#[tokio::test]
async fn preconditions_of_sources_decide() {
    let names = [
        "ifSourceGenerationMatch",
        "ifSourceGenerationNotMatch",
        "ifSourceMetagenerationMatch",
        "ifSourceMetagenerationNotMatch",
    ];
    check_preconditions(names, &OBJECT_CALLS[..3]).await;
}

#[tokio::test]
async fn preconditions_of_buckets_decide() {
    for (http_method, path) in [
        ("GET", ""),
        ("GET", "/defaultObjectAcl"),
        ("PATCH", ""),
        ("PUT", ""),
        ("DELETE", ""),
    ] {
        for (name, met, unmet) in [
            ("ifMetagenerationMatch", 1, 2),
            ("ifMetagenerationNotMatch", 2, 1),
        ] {
            for value in [unmet, met] {
                let storage = Storage::new().await;
                let uri = format!("{BUCKET}{path}?{name}={value}");
                let reply = match http_method {
                    "PATCH" | "PUT" => storage.json(http_method, &uri, &json!({})).await,
                    _ => storage.call(http_method, &uri).await,
                };
                let reads_known = http_method == "GET" && name.contains("Not");
                let failed = if reads_known { 304 } else { 412 };
                if value == met {
                    assert!(reply.status.is_success(), "{http_method} {uri}: {reply:?}");
                } else {
                    assert_eq!(reply.status, failed, "{http_method} {uri}");
                }
            }
        }
    }
}

#[tokio::test]
async fn another_generation_is_not_found() {
    for call in &OBJECT_CALLS[..7] {
        let name = match call.0 {
            "copy" | "rewrite" => "sourceGeneration",
            "move" => continue,
            _ => "generation",
        };
        let found = outcomes(*call, name, true, false).await;
        assert!((200..300).contains(&found), "{} {name}: {found}", call.0);
        // Of sources, too.
        let herd = Herd::new().await;
        let other = format!("{name}={}", herd.cow + 1);
        herd.call(*call, &other).await.refusal(404, "notFound");
    }
    let entry = json!({"entity": "allUsers", "role": "READER"});
    for (http_method, path) in [
        ("GET", "/acl"),
        ("POST", "/acl"),
        ("GET", "/acl/allUsers"),
        ("PATCH", "/acl/allUsers"),
        ("PUT", "/acl/allUsers"),
        ("DELETE", "/acl/allUsers"),
    ] {
        let herd = Herd::new().await;
        let uri = format!("{COW}/acl");
        herd.storage.json("POST", &uri, &entry).await.resource();
        for (generation, is_found) in [(herd.cow + 1, false), (herd.cow, true)] {
            let uri = format!("{COW}{path}?generation={generation}");
            let reply = match http_method {
                "GET" | "DELETE" => herd.storage.call(http_method, &uri).await,
                _ => herd.storage.json(http_method, &uri, &entry).await,
            };
            assert_eq!(
                reply.status.is_success(),
                is_found,
                "{http_method} {uri}: {reply:?}"
            );
        }
    }
}

/// Whether a resource, or the first one of a list, shows its access control list.
fn shows_acl(reply: &Reply) -> bool {
    let shown = reply.resource();
    let shown = match (shown.get("items"), shown.get("resource")) {
        (Some(items), _) => items[0].clone(),
        (None, Some(resource)) => resource.clone(),
        (None, None) => shown,
    };
    shown.get("acl").is_some_and(Value::is_array)
}

#[tokio::test]
async fn projection_shows_lists_or_not() {
    for (projection, is_full) in [("full", true), ("noAcl", false)] {
        let query = format!("projection={projection}");
        for call in &OBJECT_CALLS {
            if ["delete", "compose"].contains(&call.0) {
                continue;
            }
            let reply = Herd::new().await.call(*call, &query).await;
            assert_eq!(shows_acl(&reply), is_full, "{} {query}", call.0);
        }
        let herd = Herd::new().await;
        let inserted = herd
            .storage
            .alone(&format!("name=cow&{query}"), "moo")
            .await;
        assert_eq!(shows_acl(&inserted), is_full, "insert {query}");
        let made = json!({"name": "stall"});
        let of_project = format!("/storage/v1/b?project=farm&{query}");
        for (http_method, uri) in [
            ("GET", format!("{OBJECTS}?{query}")),
            ("GET", format!("{BUCKET}?{query}")),
            ("GET", of_project.clone()),
        ] {
            let reply = herd.storage.call(http_method, &uri).await;
            assert_eq!(shows_acl(&reply), is_full, "{http_method} {uri}");
        }
        for (http_method, uri, body) in [
            ("PATCH", format!("{BUCKET}?{query}"), json!({})),
            ("PUT", format!("{BUCKET}?{query}"), json!({})),
            ("POST", of_project, made),
        ] {
            let reply = herd.storage.json(http_method, &uri, &body).await;
            assert_eq!(shows_acl(&reply), is_full, "{http_method} {uri}");
        }
    }
}

/// Whether everybody is in the list of a resource.
async fn is_public(storage: &Storage, path: &str, list: &str) -> bool {
    let shown = storage
        .call("GET", &format!("{path}?projection=full"))
        .await;
    let shown = shown.resource();
    let entries = shown[list].as_array().expect("a list").iter();
    entries.clone().any(|entry| entry["entity"] == "allUsers")
}

#[tokio::test]
async fn predefined_list_is_that_of_the_resource() {
    for (value, expected) in [("publicRead", true), ("private", false)] {
        for call in &OBJECT_CALLS {
            let (name, object) = match call.0 {
                "copy" | "rewrite" | "compose" => ("destinationPredefinedAcl", "calf"),
                "patch" | "update" => ("predefinedAcl", "cow"),
                _ => continue,
            };
            let herd = Herd::new().await;
            let reply = herd.call(*call, &format!("{name}={value}")).await;
            reply.resource();
            let path = format!("{OBJECTS}/{object}");
            let found = is_public(&herd.storage, &path, "acl").await;
            assert_eq!(found, expected, "{} {name}={value}", call.0);
        }
        let storage = Storage::new().await;
        let query = format!("name=cow&predefinedAcl={value}");
        storage.alone(&query, "moo").await.resource();
        assert_eq!(is_public(&storage, COW, "acl").await, expected);
        for (name, list) in [
            ("predefinedAcl", "acl"),
            ("predefinedDefaultObjectAcl", "defaultObjectAcl"),
        ] {
            let query = format!("{name}={value}");
            for (http_method, uri) in [
                ("POST", format!("/storage/v1/b?project=farm&{query}")),
                ("PATCH", format!("/storage/v1/b/stall?{query}")),
                ("PUT", format!("/storage/v1/b/stall?{query}")),
            ] {
                let storage = Storage::new().await;
                if http_method != "POST" {
                    storage.bucket("stall").await.resource();
                }
                let body = json!({"name": "stall"});
                storage.json(http_method, &uri, &body).await.resource();
                let found = is_public(&storage, "/storage/v1/b/stall", list).await;
                assert_eq!(found, expected, "{http_method} {uri}");
            }
        }
    }
}

#[tokio::test]
async fn parameters_of_an_upload_are_fields_of_the_object() {
    let storage = Storage::new().await;
    for name in ["cow", "calf"] {
        let object = storage
            .alone(&format!("name={name}"), "moo")
            .await
            .resource();
        assert_eq!(
            (&object["name"], object.get("contentEncoding")),
            (&json!(name), None)
        );
    }
    for encoding in ["br", "zstd"] {
        let query = format!("name=cow&contentEncoding={encoding}");
        let object = storage.alone(&query, "moo").await.resource();
        assert_eq!(object["contentEncoding"], encoding);
    }
}

/// Calls with a parameter that is refused: its name, and the status.
const REFUSED: [(&str, &str, &str, u16); 13] = [
    ("GET", "/b/barn/o?matchGlob=*", "matchGlob", 501),
    ("GET", "/b/barn/o?filter=x", "filter", 501),
    ("GET", "/b/barn/o/cow?softDeleted=true", "softDeleted", 501),
    ("GET", "/b/barn/o/cow?restoreToken=x", "restoreToken", 501),
    ("GET", "/b/barn/o/cow?alt=media&acl", "acl", 501),
    ("GET", "/b/barn?softDeleted=true", "softDeleted", 501),
    ("GET", "/b/barn?generation=7", "generation", 501),
    (
        "GET",
        "/b?project=farm&softDeleted=True",
        "softDeleted",
        501,
    ),
    (
        "POST",
        "/b?project=farm&enableObjectRetention=true",
        "enableObjectRetention",
        501,
    ),
    (
        "POST",
        "/b/barn/o/cow/compose?kmsKeyName=k",
        "kmsKeyName",
        400,
    ),
    (
        "POST",
        "/b/barn/o/cow/copyTo/b/barn/o/calf?destinationKmsKeyName=k",
        "destinationKmsKeyName",
        400,
    ),
    (
        "POST",
        "/b/barn/o/cow/rewriteTo/b/barn/o/calf?destinationKmsKeyName=k",
        "destinationKmsKeyName",
        400,
    ),
    (
        "POST",
        "/b/barn/o/cow/rewriteTo/b/barn/o/calf?rewriteToken=x",
        "rewriteToken",
        400,
    ),
];

#[track_caller]
fn check_refused(reply: &Reply, name: &str, status: u16) {
    let reason = match status {
        501 => "notImplemented",
        _ => "invalidParameter",
    };
    let message = reply.refusal(status, reason);
    assert!(message.contains(name), "{message}");
    assert_eq!(reply.json()["error"]["errors"][0]["location"], name);
}

#[tokio::test]
async fn parameter_of_uploads_is_refused_without_media() {
    let Herd { storage, .. } = Herd::new().await;
    for parameter in [
        "uploadType=media",
        "uploadType=multipart",
        "upload_protocol=raw",
    ] {
        for (http_method, path) in [
            ("PATCH", "cow"),
            ("PUT", "cow"),
            ("POST", "cow/rewriteTo/b/barn/o/calf"),
            ("POST", "cow/acl"),
        ] {
            let uri = format!("{OBJECTS}/{path}?{parameter}");
            let reply = storage.json(http_method, &uri, &json!({})).await;
            reply.refusal(400, "notUpload");
        }
    }
}

#[tokio::test]
async fn parameters_without_an_effect_here_are_refused() {
    let Herd { storage, .. } = Herd::new().await;
    for (http_method, path, name, status) in REFUSED {
        let uri = format!("/storage/v1{path}");
        let reply = storage.json(http_method, &uri, &json!({})).await;
        check_refused(&reply, name, status);
    }
    for upload_type in ["media", "multipart", "resumable"] {
        let uri = format!("{UPLOAD}?uploadType={upload_type}&name=x&kmsKeyName=k");
        let reply = storage.json("POST", &uri, &json!({})).await;
        check_refused(&reply, "kmsKeyName", 400);
    }
    for name in [
        "acl",
        "attributes",
        "cors",
        "encryption",
        "tagging",
        "torrent",
        "uploads",
        "versionId",
    ] {
        for value in ["", "=1"] {
            let reply = storage
                .call("GET", &format!("/barn/cow?{name}{value}"))
                .await;
            check_refused(&reply, name, 501);
        }
    }
    // A parameter that asks for the default behaviour is not refused.
    for uri in [
        format!("{OBJECTS}?matchGlob=&userProject=farm&versions=false"),
        format!("{BUCKET}?softDeleted=false"),
    ] {
        assert_eq!(storage.call("GET", &uri).await.status, 200, "{uri}");
    }
}
