//! The server's services for handlers: media that they inspect, media inside of JSON, and
//! serialised calls.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Map, Value, json};
use windlass_discovery::{Api, Method};
use windlass_server::config::Limits;
use windlass_server::handler::{Answer, ApiHandler, Call, Content, Embedded, Rejection, Uploaded};
use windlass_server::{ServedApi, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{Resource, ResourceChange};
use windlass_testkit::media::Media;

use crate::world::{ManualClock, Peer as _, Reply, World, limits};

const POST_OFFICE: &str = r#"
name = "post"
version = "v1"
[collections.letters]
methods = ["insert"]
schema = { text = "string" }
[collections.letters.media]
max_size = "1MB"
"#;

/// The longest JSON with a letter.
const MAX_LEN: usize = 2 * 1024 * 1024;

/// Counts letters in one row, and reads each letter from its end.
struct PostOffice;

#[async_trait]
impl ApiHandler for PostOffice {
    async fn admit(&self, _: &Call<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let media = media.expect("letters have media");
        let count = call.lookup.resource("post/count", "letters").await?;
        // Other calls would run in between if they could.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let whole = media.source.read(0..u64::MAX).await?;
        let tail = tail(&media).await;
        let body = json!({"size": whole.len().to_string(), "tail": tail});
        let Value::Object(body) = body else {
            unreachable!("it is written as one")
        };
        let letter = resource(call, "post/letters", call.fresh_id, 1);
        let letter = Resource {
            media: Some(media.media),
            ..letter
        };
        let counted = match count {
            None => ResourceChange::Insert(resource(call, "post/count", "letters", 1)),
            Some(old) => ResourceChange::Replace {
                resource: resource(call, "post/count", "letters", old.version + 1),
                expected: old.version,
            },
        };
        Ok(Answer {
            changes: vec![ResourceChange::Insert(letter), counted],
            body: Some(body.into()),
            ..Answer::default()
        })
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        Err(Rejection::NotImplemented {
            method: call.method.id.clone(),
        })
    }

    fn lock_key(&self, _: &Call<'_>) -> Option<String> {
        Some("letters".to_owned())
    }

    fn body_limit(&self, _: &Method) -> Option<usize> {
        Some(MAX_LEN)
    }

    fn embedded(
        &self,
        _: &Method,
        metadata: &mut Map<String, Value>,
    ) -> Result<Option<Embedded>, Rejection> {
        let Some(Value::String(text)) = metadata.shift_remove("text") else {
            return Ok(None);
        };
        let bytes = STANDARD.decode(text);
        let bytes = bytes.map_err(|_| Rejection::invalid_field("text", "is not base64"))?;
        Ok(Some(Embedded {
            bytes: bytes.into(),
            content_type: "text/plain".to_owned(),
        }))
    }
}

/// The last four bytes, by seeking.
async fn tail(media: &Uploaded) -> String {
    let mut file = media.source.blocking();
    let tail = tokio::task::spawn_blocking(move || {
        let mut tail = Vec::new();
        file.seek(SeekFrom::End(-4))?;
        file.read_to_end(&mut tail)?;
        std::io::Result::Ok(tail)
    });
    STANDARD.encode(tail.await.expect("no panic").expect("the media is there"))
}

fn resource(call: &Call<'_>, collection: &str, id: &str, version: u64) -> Resource {
    Resource {
        collection: collection.to_owned(),
        id: id.to_owned(),
        version,
        body: Bytes::from_static(b"{}"),
        media: None,
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    }
}

/// A post office, and its ledger.
fn post_office() -> (World, Arc<MemoryLedger>) {
    post_office_within(limits())
}

fn post_office_within(limits: Limits) -> (World, Arc<MemoryLedger>) {
    let ledger = Arc::new(MemoryLedger::default());
    let stores = Stores {
        ledger: Arc::clone(&ledger) as Arc<_>,
        vault: Arc::new(MemoryVault::new()),
    };
    let api = Api::from_toml(POST_OFFICE).expect("it is valid");
    let served = ServedApi::new(api, Arc::new(PostOffice));
    let world = World::limited(served, stores, Arc::new(ManualClock::default()), limits);
    (world, ledger)
}

async fn post(world: &World, uri: &str, content_type: &str, body: Vec<u8>) -> Reply {
    let headers = [("content-type", content_type)];
    world.send("POST", uri, &headers, body).await
}

async fn post_json(world: &World, json: &Value) -> Reply {
    world.json("POST", "/post/v1/letters", json).await
}

async fn letters(ledger: &MemoryLedger) -> Vec<Resource> {
    use windlass_store::Ledger as _;
    let letters = ledger.resources("post/letters", None, 1000).await;
    letters.expect("the ledger is well")
}

#[tokio::test]
async fn handler_reads_media_whole_and_from_its_end_in_either_store() {
    let (world, _) = post_office();
    // The ledger holds the first media, and the vault the rest. The last media takes several
    // windows.
    for len in [10, 100, 700_000] {
        let media = Media::new(len, len).whole();
        let tail = STANDARD.encode(&media[media.len() - 4..]);
        let uri = "/upload/post/v1/letters?uploadType=media";
        let reply = post(&world, uri, "text/plain", media).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.field("size"), len.to_string());
        assert_eq!(reply.field("tail"), tail);
    }
}

#[tokio::test]
async fn media_inside_json_is_stored_as_an_upload() {
    let (world, ledger) = post_office();
    for len in [10, 100, 700_000] {
        let media = Media::new(len, len).whole();
        let reply = post_json(&world, &json!({"text": STANDARD.encode(&media)})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.field("size"), len.to_string());
    }
    let letters = letters(&ledger).await.into_iter();
    let lengths = letters.filter_map(|letter| Some(letter.media?.length));
    assert_eq!(lengths.sum::<u64>(), 700_110);
}

/// The whole memory would hold a third of the body.
#[tokio::test]
async fn json_body_larger_than_the_memory_for_bodies_is_accepted_alone() {
    let mut limits = limits();
    (limits.metadata, limits.reading_memory) = (16 * 1024, 512 * 1024);
    let (world, ledger) = post_office_within(limits);
    let json = json!({"text": STANDARD.encode(Media::new(1, 1_000_000).whole())});
    let replies = futures_util::future::join_all((0..2).map(|_| post_json(&world, &json)));
    for reply in replies.await {
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.field("size"), "1000000");
    }
    assert_eq!(letters(&ledger).await.len(), 2);
}

#[tokio::test]
async fn media_inside_json_is_limited_by_the_method() {
    let (world, ledger) = post_office();
    let reply = post_json(
        &world,
        &json!({"text": STANDARD.encode(vec![0; 1_100_000])}),
    )
    .await;
    assert_eq!(reply.status, 413, "{reply:?}");
    let reply = post_json(&world, &json!({"text": "?"})).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(letters(&ledger).await.is_empty());
}

#[tokio::test]
async fn long_json_body_without_media_is_refused() {
    let (world, ledger) = post_office();
    let long = "x".repeat(1_100_000);
    let inside = json!({"text": STANDARD.encode("hi"), "name": long});
    for body in [json!({ "name": long }), inside] {
        let reply = post_json(&world, &body).await;
        assert_eq!(reply.status, 413, "{reply:?}");
    }
    let longer = json!({"text": "x".repeat(MAX_LEN)});
    assert_eq!(post_json(&world, &longer).await.status, 413);
    assert!(letters(&ledger).await.is_empty());
}

#[tokio::test]
async fn calls_with_the_same_lock_key_run_one_after_the_other() {
    let (world, ledger) = post_office();
    let uri = "/upload/post/v1/letters?uploadType=media";
    let calls = (0..40).map(|_| post(&world, uri, "text/plain", b"hello".to_vec()));
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert_eq!(letters(&ledger).await.len(), 40);
}

#[tokio::test]
async fn method_with_media_as_its_only_reply_needs_no_alt() {
    let album = r#"
        name = "album"
        version = "v1"
        methods."pictures.insert" = { http = "POST", path = "pictures", response = "Picture", media = {} }
        methods."pictures.view" = { http = "GET", path = "pictures/{id}", download = true }
        schemas.Picture.id = "string"
    "#;
    let album = ServedApi::with_default_handler(Api::from_toml(album).unwrap());
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::default()),
        vault: Arc::new(MemoryVault::new()),
    };
    let world = World::of(album, stores, Arc::default());
    let uri = "/upload/album/v1/pictures?uploadType=media";
    let made = post(&world, uri, "image/png", b"a picture".to_vec()).await;
    let uri = format!("/album/v1/pictures/{}", made.field("id"));
    let viewed = world.get(&uri).await;
    assert_eq!(viewed.headers["content-type"], "image/png", "{viewed:?}");
    assert_eq!(viewed.body, "a picture");
}

/// Answers uploads with a token, which is text.
struct Tokens;

#[async_trait]
impl ApiHandler for Tokens {
    async fn admit(&self, _: &Call<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let letter = resource(call, "post/letters", call.fresh_id, 1);
        let letter = Resource {
            media: media.map(|media| media.media),
            ..letter
        };
        Ok(Answer {
            changes: vec![ResourceChange::Insert(letter)],
            body: Some(Content::Bytes {
                content_type: HeaderValue::from_static("text/plain"),
                bytes: Bytes::from_static(b"a token"),
            }),
            ..Answer::default()
        })
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        Err(call.not_implemented())
    }
}

#[tokio::test]
async fn final_reply_of_another_type_is_sent_and_repeated() {
    let api = Api::from_toml(POST_OFFICE).expect("it is valid");
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
    };
    let api = ServedApi::new(api, Arc::new(Tokens));
    let world = World::of(api, stores, Arc::default());
    let check = |reply: Reply| {
        assert_eq!(reply.headers["content-type"], "text/plain");
        assert_eq!(reply.body, "a token");
    };
    let uri = "/upload/post/v1/letters?uploadType=media&fields=x";
    check(post(&world, uri, "text/plain", b"hello".to_vec()).await);
    check(post_json(&world, &json!({})).await);

    let uri = "/upload/post/v1/letters?uploadType=resumable";
    let started = post(&world, uri, "application/json", b"{}".to_vec()).await;
    let session = started.location(World::ORIGIN);
    check(world.put(session, "bytes 0-4/5", "hello").await);
    check(world.query(session).await);
    check(world.put(session, "bytes 0-4/5", "hello").await);
}
