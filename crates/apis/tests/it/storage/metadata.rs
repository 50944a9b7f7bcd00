//! Changes of an object's metadata.

use serde_json::json;

use super::{LARGE, OBJECTS, Storage};
use crate::world::Peer as _;

#[tokio::test]
async fn a_patch_changes_what_it_names_and_counts_as_a_metageneration() {
    let storage = Storage::new().await;
    let said = json!({"name": "cow", "cacheControl": "no-store", "metadata": {"a": "1", "b": "2"}});
    let old = storage.described(&said, LARGE).await.resource();
    let change = json!({"cacheControl": null, "contentType": "image/png", "metadata": {"a": null, "c": "3"}});
    let new = storage
        .json("PATCH", &format!("{OBJECTS}/cow"), &change)
        .await
        .resource();
    assert_eq!(new["metadata"], json!({"b": "2", "c": "3"}));
    assert_eq!(
        (new.get("cacheControl"), &new["contentType"]),
        (None, &json!("image/png"))
    );
    assert_eq!(
        (&new["metageneration"], &new["generation"]),
        (&json!("2"), &old["generation"])
    );
    assert_eq!(new["timeCreated"], old["timeCreated"]);
    assert_ne!(new["updated"], old["updated"]);
    let media = storage.object("cow?alt=media").await;
    assert_eq!(
        (media.header("content-type"), &media.body[..]),
        ("image/png", LARGE)
    );
    assert_eq!(media.header("x-goog-metageneration"), "2");
}

#[tokio::test]
async fn an_update_replaces_all_that_may_be_written() {
    let storage = Storage::new().await;
    let said = json!({"name": "cow", "cacheControl": "no-store", "storageClass": "ARCHIVE", "metadata": {"a": "1"}});
    storage.described(&said, LARGE).await.resource();
    let new = storage
        .json(
            "PUT",
            &format!("{OBJECTS}/cow"),
            &json!({"contentLanguage": "de"}),
        )
        .await
        .resource();
    assert_eq!((new.get("cacheControl"), new.get("metadata")), (None, None));
    assert_eq!(new["contentLanguage"], "de");
    assert_eq!(new["contentType"], "application/octet-stream");
    assert_eq!(
        new["storageClass"], "ARCHIVE",
        "the class is where it is stored"
    );
}

#[tokio::test]
async fn the_media_of_an_object_is_not_changed_by_what_is_said() {
    let storage = Storage::new().await;
    let old = storage.put("cow", LARGE).await;
    let change =
        json!({"size": "1", "md5Hash": "x", "name": "calf", "generation": "1", "bucket": "zoo"});
    let new = storage
        .json("PATCH", &format!("{OBJECTS}/cow"), &change)
        .await
        .resource();
    for field in ["size", "md5Hash", "name", "generation", "bucket"] {
        assert_eq!(new[field], old[field], "{field}");
    }
}

#[tokio::test]
async fn what_cannot_stand_in_a_header_or_is_too_much_is_refused() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    let cow = format!("{OBJECTS}/cow");
    for change in [
        json!({"contentDisposition": "x\r\nset-cookie: a=b"}),
        json!({"contentType": "text/plain\u{0}"}),
        json!({"metadata": {"a": {}}}),
        json!({"storageClass": "GOLD"}),
    ] {
        storage
            .json("PATCH", &cow, &change)
            .await
            .refusal(400, "invalid");
    }
    let half = |key: &str| json!({"metadata": {key: "x".repeat(5000)}});
    storage.json("PATCH", &cow, &half("a")).await.resource();
    storage
        .json("PATCH", &cow, &half("b"))
        .await
        .refusal(400, "invalid");
    storage
        .json("PATCH", &format!("{OBJECTS}/none"), &json!({}))
        .await
        .refusal(404, "notFound");
}
