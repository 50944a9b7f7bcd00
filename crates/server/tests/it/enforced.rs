//! Schemas of the short form, which the default handler enforces.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::{ServedApi, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};

use crate::world::{ManualClock, Peer as _, Reply, World};

/// Fields that must be there, at every depth.
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
