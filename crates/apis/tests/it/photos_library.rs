//! Google Photos: uploads, and the media items made of them.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_apis::Options;

use crate::world::{ManualClock, ORIGIN, Peer as _, Reply, World};

const UPLOADS: &str = "/v1/uploads";
const BATCH_CREATE: &str = "/v1/mediaItems:batchCreate";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn photos() -> World {
    World::of("photoslibrary")
}

/// Uploads media in one request, as the guide says.
async fn raw<C>(photos: &World<C>, headers: &[(&str, &str)], media: &[u8]) -> Reply {
    let usual = [
        ("content-type", "application/octet-stream"),
        ("x-goog-upload-protocol", "raw"),
    ];
    let headers = [&usual, headers].concat();
    photos.send("POST", UPLOADS, &headers, media.to_vec()).await
}

/// Uploads a picture and returns its token.
async fn token<C>(photos: &World<C>, media: &[u8]) -> String {
    let headers = [("x-goog-upload-content-type", "image/png")];
    token_in(&raw(photos, &headers, media).await)
}

#[track_caller]
fn token_in(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("x-goog-upload-status"), "final");
    assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
    let token = String::from_utf8(reply.body.to_vec()).expect("a token is text");
    assert_eq!(token.len(), 32, "{token}");
    token
}

fn new_item(token: &str) -> Value {
    json!({"simpleMediaItem": {"uploadToken": token, "fileName": "cow.png"}})
}

async fn create<C>(photos: &World<C>, items: &[Value]) -> Vec<Value> {
    let body = json!({"newMediaItems": items});
    let made = photos.json("POST", BATCH_CREATE, &body).await.resource();
    let results = made["newMediaItemResults"].as_array().cloned();
    results.expect("an array")
}

#[track_caller]
fn assert_refused(result: &Value, token: &str) {
    assert_eq!(result["uploadToken"], token, "{result}");
    assert_eq!(result["status"]["code"], 3, "{result}");
    assert_eq!(result.get("mediaItem"), None, "{result}");
}

#[tokio::test]
async fn uploaded_picture_becomes_a_media_item_with_its_type_and_its_bytes() {
    let photos = photos();
    let token = token(&photos, b"a picture").await;
    let mut new = new_item(&token);
    new["description"] = "A cow".into();
    let [made] = create(&photos, &[new]).await.try_into().expect("one");
    assert_eq!(made["uploadToken"], token);
    assert_eq!(made["status"], json!({"message": "Success"}));
    let item = &made["mediaItem"];
    let id = item["id"].as_str().expect("an id");
    let expected = json!({
        "description": "A cow",
        "filename": "cow.png",
        "mimeType": "image/png",
        "baseUrl": format!("{ORIGIN}/v1/media/{id}"),
        "productUrl": format!("{ORIGIN}/v1/mediaItems/{id}"),
    });
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&item[key], value, "{key}");
    }
    assert_eq!(item["mediaMetadata"]["photo"], json!({}));
    let product = item["productUrl"].as_str().expect("a URL");
    assert_eq!(&photos.get(product).await.resource(), item);
    for options in ["", "=d", "=w2048-h1024-c"] {
        let url = format!("{ORIGIN}/v1/media/{id}{options}");
        let media = photos.get(&url).await;
        assert_eq!(&media.body[..], b"a picture", "{options}");
        assert_eq!(media.header("content-type"), "image/png");
    }
    let unknown = photos.call("GET", "/v1/mediaItems/none").await;
    unknown.refusal(404, "notFound");
}

#[tokio::test]
async fn session_of_several_chunks_repeats_its_token_after_a_lost_reply() {
    let photos = photos();
    let media = [7; 1000];
    let start = [
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
        ("x-goog-upload-content-type", "video/mp4"),
        ("x-goog-upload-raw-size", "1000"),
    ];
    let started = photos.send("POST", UPLOADS, &start, "").await;
    assert_eq!(started.header("x-goog-upload-chunk-granularity"), "262144");
    let session = started.link("x-goog-upload-url", ORIGIN).to_owned();
    let send = async |command, offset: usize, media: &[u8]| {
        let offset = offset.to_string();
        let headers = [
            ("x-goog-upload-command", command),
            ("x-goog-upload-offset", offset.as_str()),
        ];
        photos
            .send("POST", &session, &headers, media.to_vec())
            .await
    };
    for first in [0, 400] {
        let reply = send("upload", first, &media[first..first + 400]).await;
        assert_eq!(reply.header("x-goog-upload-status"), "active");
    }
    let lost = send("upload, finalize", 800, &media[800..]).await;
    let query = [("x-goog-upload-command", "query")];
    let queried = photos.send("POST", &session, &query, "").await;
    let token = token_in(&queried);
    assert_eq!(token, token_in(&lost));
    let repeated = send("upload, finalize", 800, &media[800..]).await;
    assert_eq!(token, token_in(&repeated));
    let [made] = create(&photos, &[new_item(&token)])
        .await
        .try_into()
        .expect("one");
    let item = &made["mediaItem"];
    assert_eq!(item["mimeType"], "video/mp4");
    assert_eq!(item["mediaMetadata"]["video"]["status"], "READY");
    let bytes = photos.get(item["baseUrl"].as_str().expect("a URL")).await;
    assert_eq!(&bytes.body[..], media);
}

#[tokio::test]
async fn empty_media_is_refused_and_leaves_nothing() {
    let photos = photos();
    let refused = raw(&photos, &[], b"").await;
    assert_eq!(refused.header("x-goog-upload-status"), "final");
    refused.refusal(400, "invalid");
    assert_eq!(photos.count("photoslibrary/uploads").await, 0);
    assert_eq!(photos.count(".outbox/photoslibrary").await, 0);
}

#[tokio::test]
async fn token_makes_one_media_item() {
    let photos = photos();
    let (one, two) = (token(&photos, b"one").await, token(&photos, b"two").await);
    let items = [
        new_item("unknown"),
        new_item(&one),
        new_item(&one),
        new_item(&two),
    ];
    let results = create(&photos, &items).await;
    assert_refused(&results[0], "unknown");
    assert_refused(&results[2], &one);
    for (result, media) in [(&results[1], b"one"), (&results[3], b"two")] {
        let url = result["mediaItem"]["baseUrl"].as_str().expect("a URL");
        assert_eq!(&photos.get(url).await.body[..], media);
    }
    let again = create(&photos, &[new_item(&one), json!({})]).await;
    assert_refused(&again[0], &one);
    assert_refused(&again[1], "");
    assert_eq!(photos.count("photoslibrary/mediaItems").await, 2);
    assert_eq!(photos.count("photoslibrary/uploads").await, 0);
}

#[tokio::test]
async fn of_a_token_only_the_hash_is_stored() {
    let photos = photos();
    let token = token(&photos, b"a picture").await;
    for collection in ["photoslibrary/uploads", ".outbox/photoslibrary"] {
        let stored = photos.all_stored(collection).await;
        assert_eq!(stored.len(), 1, "{collection}");
        assert!(!format!("{stored:?}").contains(&token), "{stored:?}");
    }
}

#[tokio::test]
async fn calls_beyond_their_bounds_are_refused() {
    let photos = photos();
    let token = token(&photos, b"a picture").await;
    let with = |field: &str, value: String| {
        let mut item = new_item(&token);
        match field {
            "description" => item["description"] = value.into(),
            _ => item["simpleMediaItem"][field] = value.into(),
        }
        json!({"newMediaItems": [item]})
    };
    let many = vec![new_item(&token); 51];
    for body in [
        json!({}),
        json!({"newMediaItems": []}),
        json!({"newMediaItems": many}),
        json!({"newMediaItems": [new_item(&token)], "albumId": "a"}),
        with("description", "x".repeat(1001)),
        with("fileName", "x".repeat(256)),
    ] {
        let refused = photos.json("POST", BATCH_CREATE, &body).await;
        refused.refusal(400, "invalid");
    }
    let plain = photos.call("POST", UPLOADS).await;
    plain.refusal(400, "invalidArgument");
    let most = with("description", "\u{e9}".repeat(1000));
    let made = photos.json("POST", BATCH_CREATE, &most).await.resource();
    assert_eq!(
        made["newMediaItemResults"][0]["status"]["message"],
        "Success"
    );
}

#[tokio::test]
async fn list_has_pages_in_the_order_of_creation() {
    let photos = photos();
    let nothing = photos.call("GET", "/v1/mediaItems").await;
    assert_eq!(nothing.resource(), json!({}));
    let mut ids = Vec::new();
    for _ in 0..3 {
        let tokens = [token(&photos, b"one").await, token(&photos, b"two").await];
        let results = create(&photos, &tokens.map(|token| new_item(&token))).await;
        ids.extend(results.iter().map(|it| it["mediaItem"]["id"].clone()));
    }
    let mut listed = Vec::new();
    let mut next = String::new();
    loop {
        let uri = format!("/v1/mediaItems?pageSize=4&pageToken={next}");
        let page = photos.call("GET", &uri).await.resource();
        let items = page["mediaItems"].as_array().expect("an array");
        listed.extend(items.iter().map(|item| item["id"].clone()));
        match page["nextPageToken"].as_str() {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }
    assert_eq!(listed, ids);
    let refused = photos.call("GET", "/v1/mediaItems?pageSize=101").await;
    refused.refusal(400, "invalidParameter");
}

#[tokio::test]
async fn token_is_valid_for_a_day() {
    let photos = World::<ManualClock>::timed("photoslibrary", &Options::default());
    let tokens = [token(&photos, b"one").await, token(&photos, b"two").await];
    photos
        .clock
        .advance(DAY.saturating_sub(Duration::from_millis(1)));
    let made = create(&photos, &[new_item(&tokens[0])]).await;
    assert_eq!(made[0]["status"]["message"], "Success");
    photos.clock.advance(Duration::from_millis(1));
    let late = create(&photos, &[new_item(&tokens[1])]).await;
    assert_refused(&late[0], &tokens[1]);
}

#[tokio::test]
async fn unused_upload_is_deleted_after_a_day_and_media_items_are_kept() {
    let photos = World::<ManualClock>::timed("photoslibrary", &Options::default());
    photos.server.start().await;
    let (used, unused) = (token(&photos, b"one").await, token(&photos, b"two").await);
    let made = create(&photos, &[new_item(&used)]).await;
    let uploads = photos.all_stored("photoslibrary/uploads").await;
    let [upload] = &uploads[..] else {
        panic!("{uploads:?}");
    };
    photos.clock.advance(DAY);
    // Another upload wakes the outbox.
    token(&photos, b"three").await;
    let cleaned = async {
        while photos.count(".outbox/photoslibrary").await > 1 {
            tokio::task::yield_now().await;
        }
    };
    let cleaned = tokio::time::timeout(Duration::from_secs(60), cleaned).await;
    cleaned.expect("the events of both uploads are delivered");
    let left = photos.all_stored("photoslibrary/uploads").await;
    assert!(left.len() == 1 && left[0].id != upload.id, "{left:?}");
    let refused = create(&photos, &[new_item(&unused)]).await;
    assert_refused(&refused[0], &unused);
    let url = made[0]["mediaItem"]["baseUrl"].as_str().expect("a URL");
    assert_eq!(&photos.get(url).await.body[..], b"one");
}

#[tokio::test]
async fn published_document_gets_uploads_and_downloads() {
    let document = json!({
        "name": "photoslibrary", "version": "v1", "servicePath": "",
        "schemas": {"Any": {"id": "Any", "type": "object"}},
        "resources": {"mediaItems": {"methods": {"batchCreate": {
            "id": "photoslibrary.mediaItems.batchCreate", "httpMethod": "POST",
            "path": "v1/mediaItems:batchCreate",
            "request": {"$ref": "Any"}, "response": {"$ref": "Any"},
        }}}},
    });
    let photos = World::adopting(&document);
    let token = token(&photos, b"a picture").await;
    let made = create(&photos, &[new_item(&token)]).await;
    let url = made[0]["mediaItem"]["baseUrl"].as_str().expect("a URL");
    assert_eq!(&photos.get(url).await.body[..], b"a picture");
}

#[tokio::test]
async fn parameters_of_a_list_have_an_effect() {
    let photos = photos();
    let mut items = Vec::new();
    for media in [b"one", b"two", b"six"] {
        items.push(new_item(&token(&photos, media).await));
    }
    create(&photos, &items).await;
    let list = async |query: &str| {
        let uri = format!("/v1/mediaItems?{query}");
        photos.call("GET", &uri).await.resource()
    };
    let count = |page: &Value| page["mediaItems"].as_array().map(Vec::len);
    assert_eq!(count(&list("pageSize=1").await), Some(1));
    let page = list("pageSize=2").await;
    assert_eq!(count(&page), Some(2));
    let token = page["nextPageToken"].as_str().expect("there is more");
    let next = list(&format!("pageToken={token}")).await;
    assert_eq!(count(&next), Some(1));
}

#[tokio::test]
async fn refusals_are_those_of_the_table() {
    let page = include_str!("../../../../docs/apis/photoslibrary.md");
    let photos = photos();
    let token = token(&photos, b"cow").await;
    let create = async |body: Value| photos.json("POST", BATCH_CREATE, &body).await;
    let item = new_item(&token);
    let described = json!({
        "description": "x".repeat(1001), "simpleMediaItem": {"uploadToken": token},
    });
    let mut named = item.clone();
    named["simpleMediaItem"]["fileName"] = "x".repeat(256).into();
    let list = async |query: &str| photos.call("GET", &format!("/v1/mediaItems?{query}")).await;
    let picture = [("content-type", "application/octet-stream")];
    let cases = [
        ("empty media", raw(&photos, &[], b"").await),
        (
            "an upload without `X-Goog-Upload-Protocol`",
            photos.json("POST", UPLOADS, &json!({})).await,
        ),
        ("no media items", create(json!({"newMediaItems": []})).await),
        (
            "51 media items",
            create(json!({"newMediaItems": vec![item.clone(); 51]})).await,
        ),
        (
            "an album",
            create(json!({"albumId": "a", "newMediaItems": [item]})).await,
        ),
        (
            "a description of 1001 characters",
            create(json!({"newMediaItems": [described]})).await,
        ),
        (
            "a file name of 256 characters",
            create(json!({"newMediaItems": [named]})).await,
        ),
        (
            "a picture in the place of JSON",
            photos
                .send("POST", BATCH_CREATE, &picture, vec![0xff, 0xd8])
                .await,
        ),
        (
            "an unknown media item",
            photos.call("GET", "/v1/mediaItems/none").await,
        ),
        (
            "an unknown base URL",
            photos.call("GET", "/v1/media/none=d").await,
        ),
        ("`pageSize=0`", list("pageSize=0").await),
        ("`pageSize=101`", list("pageSize=101").await),
        ("a made-up `pageToken`", list("pageToken=none").await),
    ];
    crate::refusals::check_page(page, &cases);
}

#[tokio::test]
async fn media_item_without_a_name_has_that_of_its_upload() {
    let photos = photos();
    let long = "x".repeat(300);
    for (stated, expected) in [
        ("cow.png", "cow.png"),
        ("xin%20ch%C3%A0o.png", "xin ch\u{e0}o.png"),
        ("100%.png", "100%.png"),
        ("%00cow%0A.png", "\u{fffd}cow\u{fffd}.png"),
        (long.as_str(), &long[..255]),
    ] {
        let header = [("x-goog-upload-file-name", stated)];
        let token = token_in(&raw(&photos, &header, b"cow").await);
        let nameless = json!({"simpleMediaItem": {"uploadToken": token}});
        let made = create(&photos, &[nameless]).await;
        assert_eq!(made[0]["mediaItem"]["filename"], expected);
        let token = token_in(&raw(&photos, &header, b"cow").await);
        let mut named = new_item(&token);
        named["simpleMediaItem"]["fileName"] = "own.png".into();
        let made = create(&photos, &[named]).await;
        assert_eq!(made[0]["mediaItem"]["filename"], "own.png");
    }
    let token = token(&photos, b"cow").await;
    let nameless = json!({"simpleMediaItem": {"uploadToken": token}});
    let made = create(&photos, &[nameless]).await;
    assert_eq!(made[0]["mediaItem"].get("filename"), None);
}
