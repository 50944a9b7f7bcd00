//! Collections inside of resources, and fields that name resources, in the short form.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::{ServedApi, Stores};
use windlass_store::Ledger;
use windlass_store::fault::PacedLedger;
use windlass_store::memory::{MemoryLedger, MemoryVault};

use crate::world::{ManualClock, Peer as _, Reply, World};

const ALBUM: &str = r#"
name = "album"
version = "v1"

[collections.albums.schema]
title = "string"

[collections.photos.schema]
album = { type = "string", references = "albums" }
seeAlso = { type = "string[]", references = "photos" }
caption = "string"

[collections.photos.media]
max_size = "1MB"

[collections.comments]
parent = "photos"
on_parent_delete = "cascade"
schema = { text = "string", album = { type = "string", references = "albums" } }
media = { max_size = "1KB" }

[collections.replies]
resource = "reply"
parent = "comments"
schema = { text = "string" }
"#;

const PHOTOS: &str = "/album/v1/photos";

fn album() -> World {
    album_in(Arc::new(MemoryLedger::default()))
}

fn album_in(ledger: Arc<dyn Ledger>) -> World {
    let api = Api::from_toml(ALBUM).expect("it is valid");
    let stores = Stores {
        ledger,
        vault: Arc::new(MemoryVault::new()),
    };
    World::of(
        ServedApi::with_default_handler(api),
        stores,
        Arc::new(ManualClock::default()),
    )
}

#[track_caller]
fn refused(reply: &Reply, status: u16, says: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    let message = reply.json()["error"]["message"].to_string();
    assert!(message.contains(says), "{message} does not say {says}");
}

/// Makes a resource, and returns its path.
async fn made(album: &World, collection: &str, fields: &Value) -> String {
    let reply = album.json("POST", collection, fields).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let id = reply.json()["id"].as_str().expect("an id").to_owned();
    format!("{collection}/{id}")
}

/// The number of rows that remain in a collection after its resource is deleted.
async fn orphans(ledger: &MemoryLedger, path: &str) -> usize {
    let collection = format!("album{path}");
    let rows = ledger.resources(&collection, None, 10).await;
    rows.expect("it can be read").len()
}

async fn count(album: &World, collection: &str) -> usize {
    let reply = album.get(collection).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["items"].as_array().expect("a list").len()
}

#[tokio::test]
async fn a_collection_inside_of_a_resource_has_the_content_of_that_one_alone() {
    let album = album();
    let (first, second) = (
        made(&album, PHOTOS, &json!({})).await,
        made(&album, PHOTOS, &json!({})).await,
    );
    let comments = format!("{first}/comments");
    let comment = made(&album, &comments, &json!({"text": "nice"})).await;
    let read = album.get(&comment).await.json();
    assert_eq!(
        (&read["text"], &read["kind"]),
        (&json!("nice"), &json!("album#comment"))
    );
    assert!(
        read["selfLink"]
            .as_str()
            .is_some_and(|link| link.ends_with(&comment))
    );
    let upload = format!("/upload{comments}?uploadType=media");
    let headers = [("content-type", "text/plain")];
    let reply = album
        .send("POST", &upload, &headers, b"with media".to_vec())
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(count(&album, &comments).await, 2);
    assert_eq!(count(&album, &format!("{second}/comments")).await, 0);
    let elsewhere = comment.replace(&first, &second);
    assert_eq!(album.get(&elsewhere).await.status, 404);
}

#[tokio::test]
async fn nothing_is_put_into_a_resource_that_does_not_exist() {
    let album = album();
    let nowhere = format!("{PHOTOS}/nothing/comments");
    refused(
        &album.json("POST", &nowhere, &json!({})).await,
        404,
        "photos nothing was not found",
    );
    refused(
        &album.get(&nowhere).await,
        404,
        "photos nothing was not found",
    );
    let start = format!("/upload{nowhere}?uploadType=resumable");
    refused(
        &album.json("POST", &start, &json!({})).await,
        404,
        "photos nothing",
    );
}

#[tokio::test]
async fn content_is_deleted_with_its_resource_or_keeps_it() {
    let ledger = Arc::new(MemoryLedger::default());
    let album = album_in(ledger.clone());
    let photo = made(&album, PHOTOS, &json!({})).await;
    let comments = format!("{photo}/comments");
    let mut last = String::new();
    for _ in 0..250 {
        last = made(&album, &comments, &json!({})).await;
    }
    let reply = made(&album, &format!("{last}/replies"), &json!({})).await;
    for kept in [&photo, &last] {
        refused(
            &album.send("DELETE", kept, &[], Vec::new()).await,
            409,
            "still has replies",
        );
    }
    assert_eq!(
        count(&album, &format!("{comments}?maxResults=1000")).await,
        250
    );
    assert_eq!(
        album.send("DELETE", &reply, &[], Vec::new()).await.status,
        204
    );
    assert_eq!(
        album.send("DELETE", &photo, &[], Vec::new()).await.status,
        204
    );
    assert_eq!(album.get(&last).await.status, 404);
    assert_eq!(orphans(&ledger, &comments).await, 0);
}

#[tokio::test]
async fn more_than_can_be_deleted_at_once_is_refused() {
    let album = album();
    let photo = made(&album, PHOTOS, &json!({})).await;
    let comments = format!("{photo}/comments");
    for _ in 0..=5_000 {
        made(&album, &comments, &json!({})).await;
    }
    let refusal = album.send("DELETE", &photo, &[], Vec::new()).await;
    refused(
        &refusal,
        409,
        "more than 5000 resources; delete some of its comments",
    );
    let page = album.get(&format!("{comments}?maxResults=1")).await.json();
    let id = page["items"][0]["id"].as_str().expect("an id");
    album
        .send("DELETE", &format!("{comments}/{id}"), &[], Vec::new())
        .await;
    assert_eq!(
        album.send("DELETE", &photo, &[], Vec::new()).await.status,
        204
    );
}

/// Two servers on one ledger, and the ledger of the first, which can stop its calls.
fn replicas() -> (World, Arc<PacedLedger>, World, Arc<MemoryLedger>) {
    let memory = Arc::new(MemoryLedger::default());
    let paced = Arc::new(PacedLedger::new(memory.clone()));
    (
        album_in(paced.clone()),
        paced,
        album_in(memory.clone()),
        memory,
    )
}

#[tokio::test]
async fn a_photo_that_is_deleted_meanwhile_gets_no_comment() {
    let (album, paced, other, ledger) = replicas();
    let photo = made(&album, PHOTOS, &json!({})).await;
    let summer = made(&album, "/album/v1/albums", &json!({})).await;
    let summer = summer.rsplit('/').next().expect("an id");
    let comments = format!("{photo}/comments");
    // The photo has been read by then.
    let stopped = paced.stop_at(summer);
    let comment = json!({"album": summer});
    let comment = album.json("POST", &comments, &comment);
    let deletion = other.send("DELETE", &photo, &[], Vec::new());
    let (comment, deletion) = stopped.during(comment, deletion).await;
    assert_eq!(deletion.status, 204, "{deletion:?}");
    refused(&comment, 404, "was not found");
    assert_eq!(orphans(&ledger, &comments).await, 0);
}

#[tokio::test]
async fn a_comment_that_comes_meanwhile_is_deleted_with_its_photo() {
    let (album, paced, other, ledger) = replicas();
    let photo = made(&album, PHOTOS, &json!({})).await;
    let comments = format!("{photo}/comments");
    let stopped = paced.stop_at(&format!("album{comments}"));
    let deletion = album.send("DELETE", &photo, &[], Vec::new());
    let comment = json!({});
    let comment = other.json("POST", &comments, &comment);
    let (deletion, comment) = stopped.during(deletion, comment).await;
    assert_eq!(comment.status, 200, "{comment:?}");
    assert_eq!(deletion.status, 204, "{deletion:?}");
    assert_eq!(orphans(&ledger, &comments).await, 0);
}

#[tokio::test]
async fn references_name_resources_that_exist() {
    let album = album();
    let summer = made(&album, "/album/v1/albums", &json!({})).await;
    let summer = summer.rsplit('/').next().expect("an id");
    let photo = made(&album, PHOTOS, &json!({"album": summer})).await;
    let other = photo.rsplit('/').next().expect("an id");
    made(&album, PHOTOS, &json!({"seeAlso": [other], "album": null})).await;
    for (fields, says) in [
        (
            json!({"album": "winter"}),
            "album: there is no resource winter in albums",
        ),
        (
            json!({"seeAlso": [other, "b"]}),
            "seeAlso: there is no resource b in photos",
        ),
        (
            json!({"seeAlso": vec![other; 101]}),
            "seeAlso: must have at most 100 items",
        ),
    ] {
        refused(&album.json("POST", PHOTOS, &fields).await, 400, says);
        refused(&album.json("PATCH", &photo, &fields).await, 400, says);
        let start = format!("/upload{PHOTOS}?uploadType=resumable");
        refused(&album.json("POST", &start, &fields).await, 400, says);
    }
    // Stored references are not checked again.
    let gone = format!("/album/v1/albums/{summer}");
    assert_eq!(
        album.send("DELETE", &gone, &[], Vec::new()).await.status,
        204
    );
    let reply = album
        .json("PATCH", &photo, &json!({"caption": "dusk"}))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
}
