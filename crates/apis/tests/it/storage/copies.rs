//! Copies of objects.

use serde_json::json;

use super::{LARGE, OBJECTS, Storage};
use crate::world::Peer as _;

fn to(http_method: &str, name: &str) -> String {
    format!("{OBJECTS}/cow/{http_method}/b/barn/o/{name}")
}

#[tokio::test]
async fn a_copy_is_an_object_of_its_own_and_outlives_its_source() {
    for media in [LARGE, b"moo"] {
        let storage = Storage::new().await;
        let said =
            json!({"name": "cow", "metadata": {"herd": "north"}, "contentType": "image/png"});
        let source = storage.described(&said, media).await.resource();
        let copy = storage.call("POST", &to("copyTo", "calf")).await.resource();
        assert_eq!(
            (&copy["name"], &copy["metageneration"]),
            (&json!("calf"), &json!("1"))
        );
        for field in ["md5Hash", "crc32c", "size", "contentType", "metadata"] {
            assert_eq!(copy[field], source[field], "{field}");
        }
        assert_eq!(
            storage.object("cow").await.resource(),
            source,
            "the source is as it was"
        );
        storage.call("DELETE", &format!("{OBJECTS}/cow")).await;
        assert_eq!(storage.media("calf").await, media);
    }
}

#[tokio::test]
async fn a_copy_does_not_change_its_source() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    let before = storage.stored("storage/b/barn", "cow").await;
    storage.call("POST", &to("copyTo", "calf")).await.resource();
    let after = storage.stored("storage/b/barn", "cow").await;
    assert_eq!(after, before);
}

#[tokio::test]
async fn fields_given_with_a_copy_take_the_place_of_the_old_ones() {
    let storage = Storage::new().await;
    storage
        .described(
            &json!({"name": "cow", "metadata": {"herd": "north"}, "cacheControl": "no-store"}),
            LARGE,
        )
        .await
        .resource();
    let copy = storage
        .json(
            "POST",
            &to("copyTo", "calf"),
            &json!({"metadata": {"herd": "south"}}),
        )
        .await
        .resource();
    assert_eq!(copy["metadata"], json!({"herd": "south"}));
    assert_eq!(
        (copy.get("cacheControl"), &copy["contentType"]),
        (None, &json!("text/plain"))
    );
}

#[tokio::test]
async fn a_rewrite_is_done_at_once_and_may_be_onto_itself() {
    let storage = Storage::new().await;
    let source = storage.put("cow", LARGE).await;
    let rewritten = storage
        .json(
            "POST",
            &to("rewriteTo", "cow"),
            &json!({"storageClass": "ARCHIVE"}),
        )
        .await
        .resource();
    let size = LARGE.len().to_string();
    assert_eq!(rewritten["done"], true);
    assert_eq!(
        (&rewritten["objectSize"], &rewritten["totalBytesRewritten"]),
        (&json!(size), &json!(size))
    );
    assert_eq!(rewritten["resource"]["storageClass"], "ARCHIVE");
    assert_ne!(rewritten["resource"]["generation"], source["generation"]);
    assert_eq!(storage.media("cow").await, LARGE);
}

#[tokio::test]
async fn a_copy_takes_the_place_of_what_is_there_and_lets_its_media_go() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    storage.put("calf", b"moo").await;
    storage.call("POST", &to("copyTo", "calf")).await.resource();
    assert_eq!(storage.media("calf").await, LARGE);
}

#[tokio::test]
async fn a_copy_has_conditions_on_both_ends() {
    let storage = Storage::new().await;
    let generation = storage.put("cow", LARGE).await["generation"]
        .as_str()
        .unwrap()
        .to_owned();
    storage.put("calf", b"moo").await;
    let table = [
        ("ifGenerationMatch=0".to_owned(), 412),
        ("ifSourceGenerationMatch=1".to_owned(), 412),
        (format!("ifSourceGenerationNotMatch={generation}"), 412),
        ("sourceGeneration=1".to_owned(), 404),
        (
            format!("sourceGeneration={generation}&ifSourceGenerationMatch={generation}"),
            200,
        ),
    ];
    for (query, status) in table {
        let reply = storage
            .call("POST", &format!("{}?{query}", to("copyTo", "calf")))
            .await;
        assert_eq!(reply.status, status, "{query}");
    }
    let other_bucket = format!("{OBJECTS}/cow/copyTo/b/none/o/calf");
    storage
        .call("POST", &other_bucket)
        .await
        .refusal(404, "notFound");
    storage
        .call("POST", &to("copyTo", "a%0Ab"))
        .await
        .refusal(400, "invalidParameter");
}

#[tokio::test]
async fn a_move_leaves_nothing_behind() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    let moved = storage
        .call("POST", &format!("{OBJECTS}/cow/moveTo/o/calf"))
        .await
        .resource();
    assert_eq!(moved["name"], "calf");
    storage.object("cow").await.refusal(404, "notFound");
    assert_eq!(storage.media("calf").await, LARGE);
    let onto_itself = storage
        .call("POST", &format!("{OBJECTS}/calf/moveTo/o/calf"))
        .await;
    onto_itself.refusal(400, "invalidParameter");
}
