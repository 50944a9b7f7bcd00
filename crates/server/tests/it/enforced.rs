//! Schemas of the short form, which the default handler enforces.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::{ServedApi, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};

use crate::world::{ManualClock, Peer as _, Reply, World};

/// Required fields at every depth.
const ZOO: &str = r#"
name = "zoo"
version = "v1"

[collections.animals.schema]
name = { type = "string", required = true }
keeper = { type = "string", required_for = ["animals.update"] }
photo = "Photo"
photos = "Photo[]"
code = { type = "string", required = true, read_only = true }

[collections.animals.media]
max_size = "1MB"

[schemas.Photo]
url = { type = "string", required = true }
"#;

const PLAIN: &str = "/zoo/v1/animals";

fn stores() -> Stores {
    Stores {
        ledger: Arc::new(MemoryLedger::default()),
        vault: Arc::new(MemoryVault::new()),
    }
}

fn zoo_of(description: &str, stores: Stores) -> World {
    let api = Api::from_toml(description).expect("it is valid");
    World::of(
        ServedApi::with_default_handler(api),
        stores,
        Arc::new(ManualClock::default()),
    )
}

fn zoo() -> World {
    zoo_of(ZOO, stores())
}

#[track_caller]
fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[track_caller]
fn refused(reply: &Reply, reason: &str, says: &str) {
    assert_eq!(reply.status, 400, "{reply:?}");
    let error = &reply.json()["error"];
    assert_eq!(error["errors"][0]["reason"], reason, "{reply:?}");
    let message = error["message"].to_string();
    assert!(message.contains(says), "{message} does not say {says}");
}

/// The path of a new animal.
async fn animal(zoo: &World, fields: &Value) -> String {
    let made = ok(&zoo.json("POST", PLAIN, fields).await);
    format!("{PLAIN}/{}", made["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn insertion_needs_required_fields() {
    let zoo = zoo();
    for absent in [json!({}), json!({"name": null})] {
        refused(
            &zoo.json("POST", PLAIN, &absent).await,
            "required",
            "field name is",
        );
    }
    let nested = json!({"name": "Io", "photo": {}});
    refused(
        &zoo.json("POST", PLAIN, &nested).await,
        "required",
        "photo.url",
    );
    let element = json!({"name": "Io", "photos": [{"url": "a"}, {}]});
    refused(
        &zoo.json("POST", PLAIN, &element).await,
        "required",
        "photos[1].url",
    );
    let made = ok(&zoo.json("POST", PLAIN, &json!({"name": "Io"})).await);
    for field in ["keeper", "photo", "photos", "code"] {
        assert_eq!(made.get(field), None, "{made}");
    }
}

#[tokio::test]
async fn uploads_need_required_fields_at_their_start() {
    let zoo = zoo();
    let upload = format!("/upload{PLAIN}");
    let start = format!("{upload}?uploadType=resumable");
    refused(
        &zoo.json("POST", &start, &json!({})).await,
        "required",
        "name",
    );
    let started = zoo.json("POST", &start, &json!({"name": "Io"})).await;
    assert_eq!(started.status, 200, "{started:?}");
    let multipart = |metadata: Value| {
        let zoo = &zoo;
        async move {
            zoo.multipart(&format!("{PLAIN}?"), &metadata, "text/plain", b"hay")
                .await
        }
    };
    refused(&multipart(json!({})).await, "required", "name");
    ok(&multipart(json!({"name": "Io"})).await);
    let simple = format!("{upload}?uploadType=media");
    let headers = [("content-type", "text/plain")];
    let reply = zoo.send("POST", &simple, &headers, b"hay".to_vec()).await;
    refused(&reply, "required", "name");
}

#[tokio::test]
async fn updates_need_required_fields_and_patches_keep_them() {
    let zoo = zoo();
    let io = animal(&zoo, &json!({"name": "Io", "photo": {"url": "a"}})).await;
    refused(
        &zoo.json("PUT", &io, &json!({"keeper": "Ann"})).await,
        "required",
        "name",
    );
    refused(
        &zoo.json("PUT", &io, &json!({"name": "Io"})).await,
        "required",
        "keeper",
    );
    ok(&zoo
        .json("PATCH", &io, &json!({"photo": {"url": "b"}}))
        .await);
    refused(
        &zoo.json("PATCH", &io, &json!({"name": null})).await,
        "required",
        "name",
    );
    let inside = json!({"photo": {"url": null}});
    refused(
        &zoo.json("PATCH", &io, &inside).await,
        "required",
        "photo.url",
    );
    let kept = ok(&zoo.get(&io).await);
    assert_eq!(kept["photo"]["url"], "b");
    ok(&zoo
        .json("PUT", &io, &json!({"name": "Io", "keeper": "Ann"}))
        .await);
}

#[tokio::test]
async fn rows_from_before_the_field_was_required_are_read_and_media_replaced() {
    let stores = stores();
    let before = zoo_of(&ZOO.replace(", required = true }", " }"), stores.clone());
    let io = animal(&before, &json!({"keeper": "Ann"})).await;
    let zoo = zoo_of(ZOO, stores);
    assert_eq!(ok(&zoo.get(&io).await).get("name"), None);
    refused(
        &zoo.json("PATCH", &io, &json!({"keeper": "Bo"})).await,
        "required",
        "name",
    );
    let media = format!("/upload{io}?uploadType=media");
    let headers = [("content-type", "text/plain")];
    ok(&zoo.send("PUT", &media, &headers, b"hay".to_vec()).await);
    ok(&zoo.json("PATCH", &io, &json!({"name": "Io"})).await);
}

#[tokio::test]
async fn bounds_are_held_at_writes() {
    let bounded = r#"
legs = { type = "integer", min = 0, max = 8 }
names = { type = "string[]", min_length = 1, pattern = "[a-z]+" }
code = { type = "string", max_length = 2 }
big = { type = "string", format = "int64", max = 9007199254740993 }
"#;
    let head = "name = \"zoo\"\nversion = \"v1\"\n[collections.animals.schema]";
    let zoo = zoo_of(&format!("{head}{bounded}"), stores());
    let fits =
        json!({"legs": 8, "names": ["io"], "code": "\u{e4}\u{f6}", "big": "9007199254740993"});
    let io = animal(&zoo, &fits).await;
    for (fields, says) in [
        (json!({"legs": 9}), "legs: must be at most 8"),
        (json!({"legs": -1}), "legs: must be at least 0"),
        (json!({"names": []}), "names: must have at least 1 items"),
        (json!({"names": ["io", "i0"]}), "names[1]: must match"),
        (
            json!({"code": "abc"}),
            "code: must have at most 2 characters",
        ),
        (json!({"big": "9007199254740994"}), "big: must be at most"),
    ] {
        refused(&zoo.json("POST", PLAIN, &fields).await, "invalid", says);
        refused(&zoo.json("PATCH", &io, &fields).await, "invalid", says);
    }
    assert_eq!(ok(&zoo.get(&io).await)["legs"], 8);
}

/// An API with this schema of animals.
fn zoo_with_schema(schema: &str) -> World {
    let head = "name = \"zoo\"\nversion = \"v1\"\n[collections.animals.schema]\n";
    zoo_of(&format!("{head}{schema}"), stores())
}

#[tokio::test]
async fn absent_fields_get_their_defaults_when_a_resource_is_made_or_replaced() {
    let zoo = zoo_with_schema(
        "legs = { type = \"integer\", default = 4 }\n\
         tame = { type = \"boolean\", default = false }\n\
         weight = { type = \"number\", default = 1.5 }\n\
         sound = { type = \"string\", default = \"moo\" }\n\
         photos = \"Photo[]\"\n\
         [schemas.Photo]\n\
         format = { type = \"string\", default = \"jpeg\" }",
    );
    let given = json!({"legs": 2, "photos": [{}, {"format": "png"}]});
    let io = animal(&zoo, &given).await;
    let made = ok(&zoo.get(&io).await);
    let seen =
        |made: &Value| ["legs", "tame", "weight", "sound", "photos"].map(|name| made[name].clone());
    assert_eq!(
        seen(&made),
        [
            json!(2),
            json!(false),
            json!(1.5),
            json!("moo"),
            json!([{"format": "jpeg"}, {"format": "png"}])
        ]
    );
    ok(&zoo.json("PATCH", &io, &json!({"sound": null})).await);
    assert_eq!(ok(&zoo.get(&io).await).get("sound"), None, "it was removed");
    let replaced = ok(&zoo.json("PUT", &io, &json!({"tame": true})).await);
    let expected = [json!(4), json!(true), json!(1.5), json!("moo"), Value::Null];
    assert_eq!(seen(&replaced), expected);
}

#[tokio::test]
async fn immutable_fields_keep_their_first_value() {
    let zoo = zoo_with_schema(
        "born = { type = \"string\", immutable = true }\n\
         name = \"string\"\n\
         chip = \"Chip\"\n\
         [schemas.Chip]\n\
         serial = { type = \"string\", immutable = true }\n\
         place = \"string\"",
    );
    let given = json!({"born": "2020", "chip": {"serial": "a", "place": "ear"}});
    let io = animal(&zoo, &given).await;
    for (method, fields, path) in [
        ("PATCH", json!({"born": "2021"}), "born"),
        ("PATCH", json!({"born": null}), "born"),
        ("PUT", json!({"born": "2021"}), "born"),
        ("PATCH", json!({"chip": {"serial": "b"}}), "chip.serial"),
        ("PUT", json!({"chip": {"place": "leg"}}), "chip.serial"),
    ] {
        let says = format!("{path}: cannot be changed");
        refused(&zoo.json(method, &io, &fields).await, "invalid", &says);
    }
    let same = json!({"born": "2020", "name": "Io"});
    ok(&zoo.json("PATCH", &io, &same).await);
    let replaced = ok(&zoo.json("PUT", &io, &json!({"name": "Iole"})).await);
    assert_eq!(replaced["born"], "2020", "it was left out");
    let bo = animal(&zoo, &json!({})).await;
    ok(&zoo.json("PATCH", &bo, &json!({"born": "2022"})).await);
    let changed = json!({"born": "2023"});
    refused(&zoo.json("PATCH", &bo, &changed).await, "invalid", "born");
}

#[tokio::test]
async fn unknown_fields_are_kept_or_refused() {
    let unknown = json!({"name": "Io", "colour": "red"});
    let open = zoo_with_schema("name = \"string\"");
    assert_eq!(
        ok(&open.json("POST", PLAIN, &unknown).await)["colour"],
        "red"
    );
    let closed = zoo_of(
        "name = \"zoo\"\nversion = \"v1\"\n\
         [collections.animals]\nunknown_fields = \"refuse\"\n\
         schema = { name = \"string\", photo = \"Photo\", code = { type = \"string\", read_only = true } }\n\
         [schemas.Photo]\nurl = \"string\"",
        stores(),
    );
    for (fields, says) in [
        (unknown, "colour: is not a field"),
        (json!({"photo": {"uri": "a"}}), "photo.uri: is not a field"),
    ] {
        refused(&closed.json("POST", PLAIN, &fields).await, "invalid", says);
    }
    // A client may send back the fields that it has read.
    let io = animal(&closed, &json!({"name": "Io"})).await;
    let mut read = ok(&closed.get(&io).await);
    read["code"] = json!("a");
    ok(&closed.json("PUT", &io, &read).await);
}

#[tokio::test]
async fn parameters_that_no_method_has_are_refused() {
    let zoo = zoo_with_schema("name = \"string\"");
    let io = animal(&zoo, &json!({})).await;
    for (path, says) in [
        (
            format!("{PLAIN}?orderBy=name"),
            "unknown parameter orderBy: zoo.animals.list has maxResults, pageToken",
        ),
        (
            format!("{io}?filter=a"),
            "zoo.animals.get has no parameters in its query",
        ),
    ] {
        let reply = zoo.get(&path).await;
        refused(&reply, "invalidParameter", says);
        assert_eq!(
            reply.json()["error"]["errors"][0]["locationType"],
            "parameter"
        );
    }
    for query in [
        "alt=json&prettyPrint=false&fields=items&key=a&quotaUser=b&$.xgafv=2",
        "maxResults=1&X-Trace=1&uploadType=multipart",
    ] {
        ok(&zoo.get(&format!("{PLAIN}?{query}")).await);
    }
    let uploads = zoo_of(ZOO, stores());
    let start = format!("/upload{PLAIN}?uploadType=resumable&colour=red");
    let reply = uploads.json("POST", &start, &json!({"name": "Io"})).await;
    refused(&reply, "invalidParameter", "colour");
}

#[tokio::test]
async fn media_ranges_have_limits_of_their_own() {
    let zoo = zoo_of(
        "name = \"zoo\"\nversion = \"v1\"\n[collections.animals]\n\
         media.accept = { \"image/*\" = 4, \"image/png\" = 8, \"video/*\" = 16 }",
        stores(),
    );
    let upload = format!("/upload{PLAIN}");
    let simple = format!("{upload}?uploadType=media");
    for (content_type, length, status) in [
        ("image/jpeg", 4, 200),
        ("image/jpeg", 5, 413),
        ("image/png", 8, 200),
        ("image/png; a=b", 9, 413),
        ("video/mp4", 16, 200),
        ("video/mp4", 17, 413),
        ("text/plain", 1, 400),
    ] {
        let headers = [("content-type", content_type)];
        let reply = zoo.send("POST", &simple, &headers, vec![0; length]).await;
        assert_eq!(reply.status, status, "{content_type} {length}: {reply:?}");
    }
    let start = format!("{upload}?uploadType=resumable");
    for (content_type, length, status) in [("image/gif", "5", 413), ("video/mp4", "16", 200)] {
        let headers = [
            ("x-upload-content-type", content_type),
            ("x-upload-content-length", length),
        ];
        let reply = zoo.send("POST", &start, &headers, Vec::new()).await;
        assert_eq!(reply.status, status, "{content_type} {length}: {reply:?}");
    }
}

/// A pattern for at most 100 lines. Its program is large, and an ordinary text matches.
const LINES: &str = r#"
name = "zoo"
version = "v1"

[collections.animals.schema]
notes = { type = "string", pattern = '([^\n]*\n?){0,100}' }
"#;

#[tokio::test]
async fn long_text_is_matched_within_a_bound() {
    let zoo = zoo_of(LINES, stores());
    for (text, problem) in [
        ("a".repeat(100_000), None),
        ("\n".repeat(100_000), Some("must match the pattern")),
        ("a".repeat(900_000), Some("at most 131072 bytes")),
    ] {
        let reply = zoo.json("POST", PLAIN, &json!({"notes": text})).await;
        match problem {
            None => drop(ok(&reply)),
            Some(problem) => refused(&reply, "invalid", problem),
        }
    }
    let animal = animal(&zoo, &json!({"notes": "a"})).await;
    let long = json!({"notes": "a".repeat(900_000)});
    for method in ["PUT", "PATCH"] {
        let reply = zoo.json(method, &animal, &long).await;
        refused(&reply, "invalid", "field notes: is too long");
    }
}
