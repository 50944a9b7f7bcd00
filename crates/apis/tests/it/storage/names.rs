//! Names with arbitrary characters.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{LARGE, OBJECTS, Storage};
use crate::world::Peer as _;

#[tokio::test]
async fn an_object_is_found_by_whatever_name_it_was_given() {
    let storage = Storage::new().await;
    let long = "é".repeat(512);
    let names = [
        "a/b/c",
        "/",
        "a//b",
        "with space",
        "100%",
        "?#&=+",
        "..%2F..",
        "ünï ☃ 🐄",
        "tab\tnul\0",
        "acl",
        long.as_str(),
    ];
    for name in names {
        let object = storage.put(name, LARGE).await;
        assert_eq!(object["name"], name);
        let path = utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
        assert_eq!(storage.object(&path).await.resource(), object, "{name}");
        assert_eq!(storage.media(&path).await, LARGE, "{name}");
        let own = object["selfLink"]
            .as_str()
            .unwrap()
            .strip_prefix(crate::world::ORIGIN)
            .unwrap();
        assert_eq!(storage.call("GET", own).await.resource()["name"], name);
        let patched = storage
            .json(
                "PATCH",
                &format!("{OBJECTS}/{path}"),
                &json!({"cacheControl": "x"}),
            )
            .await;
        assert_eq!(patched.resource()["name"], name);
    }
    let mut sorted: Vec<_> = names.to_vec();
    sorted.sort_unstable();
    let list = storage.call("GET", OBJECTS).await.resource();
    let listed: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(listed, sorted);
    for name in names {
        let path = utf8_percent_encode(name, NON_ALPHANUMERIC);
        assert_eq!(
            storage
                .call("DELETE", &format!("{OBJECTS}/{path}"))
                .await
                .status,
            204,
            "{name}"
        );
    }
}

/// Two names in Latin-1 must not become one.
#[tokio::test]
async fn a_name_that_is_not_utf_8_names_nothing() {
    let storage = Storage::new().await;
    for name in ["caf%E9", "caf%E8"] {
        let refused = storage.alone(&format!("name={name}"), LARGE).await;
        refused.refusal(400, "invalidParameter");
        storage.object(name).await.refusal(400, "badRequest");
    }
    assert_eq!(storage.count("storage/b/barn").await, 0);
}
