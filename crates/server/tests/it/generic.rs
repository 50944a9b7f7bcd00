//! The default handler on a description in Google's style: the effects of its methods, and the form
//! of their replies.

mod description;
mod metadata;
mod replies;

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::{ServedApi, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};

use self::description::description;
use crate::world::{ManualClock, Peer as _, Reply, World};

/// A server of the API of `description`.
struct Barn(World);

impl Barn {
    fn new() -> Self {
        let api = Api::from_json(&description().to_string()).expect("it is valid");
        let stores = Stores {
            ledger: Arc::new(MemoryLedger::default()),
            vault: Arc::new(MemoryVault::new()),
        };
        let clock = Arc::new(ManualClock::default());
        Self(World::of(
            ServedApi::with_default_handler(api),
            stores,
            clock,
        ))
    }

    async fn call(&self, verb: &str, uri: &str, body: &Value) -> Reply {
        if body.is_null() {
            return self.0.call(verb, uri).await;
        }
        self.0.json(verb, uri, body).await
    }

    async fn get(&self, uri: &str) -> Reply {
        self.0.get(uri).await
    }

    /// A multipart upload of `hay`.
    async fn upload(&self, path: &str, query: &str, metadata: &Value) -> Reply {
        let path = format!("/{path}?{query}");
        self.0
            .multipart(&path, metadata, "text/plain", b"hay")
            .await
    }
}

#[track_caller]
fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[track_caller]
fn refused(reply: &Reply, status: u16, says: &str) {
    assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    let message = reply.json()["error"]["message"].to_string();
    assert!(message.contains(says), "{message} does not say {says}");
}

#[tokio::test]
async fn resource_is_found_by_name_after_any_method_created_it() {
    let barn = Barn::new();
    let uploaded = ok(&barn
        .upload("v1/barns/b/hayFiles:upload", "", &json!({}))
        .await);
    let created = ok(&barn.call("POST", "/v1/barns/b/hayFiles", &json!({})).await);
    for name in [&uploaded["hayFile"]["name"], &created["name"]] {
        let name = name.as_str().expect("a name");
        assert!(name.starts_with("barns/b/hayFiles/"), "{name}");
        assert_eq!(ok(&barn.get(&format!("/v1/{name}")).await)["name"], name);
    }
    let listed = ok(&barn.get("/v1/barns/b/hayFiles").await);
    assert_eq!(listed["hayFiles"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        ok(&barn.get("/v1/barns/c/hayFiles").await)["hayFiles"],
        json!([])
    );
}

#[tokio::test]
async fn id_chosen_by_a_client_is_accepted_once() {
    let barn = Barn::new();
    let create = |id: &'static str| {
        let barn = &barn;
        async move {
            barn.call(
                "POST",
                &format!("/v1/barns/b/hayFiles?hayFileId={id}"),
                &json!({}),
            )
            .await
        }
    };
    assert_eq!(ok(&create("first").await)["name"], "barns/b/hayFiles/first");
    refused(&create("first").await, 409, "first exists already");
    refused(
        &barn
            .upload("v1/barns/b/hayFiles:upload", "hayFileId=first", &json!({}))
            .await,
        409,
        "first",
    );
    refused(&create("a%2Fb").await, 400, "hayFileId");
    assert_ne!(ok(&create("").await)["name"], "barns/b/hayFiles/");
}

#[tokio::test]
async fn id_next_to_the_resource_in_the_metadata_is_used() {
    let barn = Barn::new();
    let metadata = json!({"hayFileId": "first", "hayFile": {"title": "Hay"}});
    let upload = || barn.upload("v1/barns/b/hayFiles:upload", "", &metadata);
    let made = ok(&upload().await);
    assert_eq!(made["hayFile"]["name"], "barns/b/hayFiles/first");
    refused(&upload().await, 409, "first exists already");
}

#[tokio::test]
async fn update_mask_limits_a_patch_to_its_fields() {
    let barn = Barn::new();
    let hay = json!({"title": "Hay", "weight": 3, "harvest": {"code": "a-1", "total": "7"}});
    ok(&barn
        .call("POST", "/v1/barns/b/hayFiles?hayFileId=h", &hay)
        .await);
    let patch = json!({"name": "barns/b/hayFiles/h", "weight": 4, "harvest": {"code": "b-2"}});
    let uri = "/v1/barns/b/hayFiles/h?updateMask=title,harvest.code";
    let patched = ok(&barn.call("PATCH", uri, &patch).await);
    assert_eq!(patched["title"], Value::Null);
    assert_eq!(patched["weight"], 3);
    assert_eq!(patched["harvest"]["code"], "b-2");
    assert_eq!(patched["harvest"]["total"], "7");
    let unknown = barn
        .call("PATCH", "/v1/barns/b/hayFiles/h?updateMask=hat", &patch)
        .await;
    refused(&unknown, 400, "hat is not a field");
    // Once is enough, and each copies its value.
    let repeated = format!(
        "/v1/barns/b/hayFiles/h?updateMask={}",
        ["weight"; 1000].join(",")
    );
    let patched = ok(&barn.call("PATCH", &repeated, &patch).await);
    assert_eq!(patched["weight"], 4);
    let many: Vec<_> = (0..201).map(|n| format!("harvest.code.x{n}")).collect();
    let many = format!("/v1/barns/b/hayFiles/h?updateMask={}", many.join(","));
    let refusal = barn.call("PATCH", &many, &patch).await;
    refused(&refusal, 400, "it names more than 200 fields");
}

#[tokio::test]
async fn resource_does_not_grow_beyond_a_document_by_patches() {
    let barn = Barn::new();
    let uri = "/v1/barns/b/hayFiles/h";
    let create = "/v1/barns/b/hayFiles?hayFileId=h";
    let long = || "x".repeat(600_000);
    ok(&barn.call("POST", create, &json!({"title": long()})).await);
    let more = json!({"harvest": {"code": long() + "-1"}});
    for uri in [uri, &format!("{uri}?updateMask=harvest.code")] {
        let refusal = barn.call("PATCH", uri, &more).await;
        refused(&refusal, 400, "bytes of fields; at most 1048576");
    }
    assert_eq!(ok(&barn.get(uri).await).get("harvest"), None);
    let shorter = json!({"title": "short"});
    ok(&barn.call("PATCH", uri, &shorter).await);
    ok(&barn.call("PATCH", uri, &more).await);
}

#[tokio::test]
async fn path_with_an_unknown_verb_is_not_implemented() {
    let barn = Barn::new();
    refused(
        &barn
            .call("POST", "/v1/barns/b/hayFiles:bless", &json!({}))
            .await,
        501,
        "bless",
    );
    refused(
        &barn.call("POST", "/counts", &json!({})).await,
        501,
        "count",
    );
}

#[tokio::test]
async fn media_under_a_chosen_name_is_created_and_then_replaced() {
    let barn = Barn::new();
    for size in [2, 5] {
        let media = vec![b'm'; size];
        let reply = barn.0.simple("/v1/media/x/y", "text/plain", &media).await;
        assert_eq!(ok(&reply), json!({"resourceName": "x/y", "size": size}));
        assert_eq!(barn.get("/v1/media/x/y?alt=media").await.body.len(), size);
    }
}

#[tokio::test]
async fn name_beyond_the_maximum_is_refused_as_the_callers_mistake() {
    let barn = Barn::new();
    let uri = |len| format!("/v1/media/{}", "n".repeat(len));
    let media = b"hay";
    let reply = barn.0.simple(&uri(1_500), "text/plain", media).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = barn.0.simple(&uri(2_049), "text/plain", media).await;
    refused(&reply, 400, "a name in the call is too long");
    let start = format!("/upload{}?uploadType=resumable", uri(2_049));
    let started = barn.0.send("POST", &start, &[], "").await;
    let session = started.location(World::ORIGIN).to_owned();
    for _ in 0..2 {
        // The session has failed: it is not left to be finished again and again.
        let reply = barn.0.put(&session, "bytes 0-2/3", &media[..]).await;
        assert!([400, 410].contains(&reply.status.as_u16()), "{reply:?}");
    }
}

#[tokio::test]
async fn download_by_name_finds_media_of_another_upload_path() {
    let barn = Barn::new();
    ok(&barn
        .upload("v1/barns/b/hayFiles:upload", "hayFileId=h", &json!({}))
        .await);
    for uri in [
        "/v1/barns/b/hayFiles/h:download",
        "/v1/media/barns/b/hayFiles/h",
    ] {
        let reply = barn.get(&format!("{uri}?alt=media")).await;
        assert_eq!(&reply.body[..], b"hay", "{uri}");
    }
    refused(
        &barn.get("/v1/media/barns/b/hayFiles/i?alt=media").await,
        404,
        "i was not found",
    );
}

#[tokio::test]
async fn resource_without_an_id_in_its_path_is_named_by_a_field_or_a_parameter() {
    let barn = Barn::new();
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        let made = ok(&barn.call("POST", "/tags", &json!({"text": text})).await);
        ids.push(made["id"].as_str().expect("an id").to_owned());
    }
    let updated = ok(&barn
        .call("PUT", "/tags", &json!({"id": ids[1], "text": "zwei"}))
        .await);
    assert_eq!(
        updated,
        json!({"kind": "barn#tag", "id": ids[1], "text": "zwei"})
    );
    refused(
        &barn.call("PUT", "/tags", &json!({"text": "zwei"})).await,
        400,
        "id is required",
    );
    let gone = barn
        .call("DELETE", &format!("/tags?id={}", ids[0]), &Value::Null)
        .await;
    assert_eq!(gone.status, 204);
    let listed = ok(&barn.get(&format!("/tags?id={},{}", ids[1], ids[0])).await);
    assert_eq!(listed, json!({"kind": "barn#tagList", "items": [updated]}));
    let many = vec!["1"; 101].join(",");
    refused(
        &barn.get(&format!("/tags?id={many}")).await,
        400,
        "more than 100 ids",
    );
}

#[tokio::test]
async fn verb_at_the_end_of_a_path_is_not_part_of_the_collection() {
    let barn = Barn::new();
    let sent = ok(&barn.upload("tags/send", "", &json!({"text": "moo"})).await);
    assert_eq!(ok(&barn.get("/tags").await)["items"], json!([sent]));
}

/// RFC 9110, section 13.1.1: without a current resource the condition is false.
#[tokio::test]
async fn if_match_on_media_of_a_new_name_makes_nothing() {
    let barn = Barn::new();
    let upload = async |headers: &[(&str, &str)]| {
        let uri = "/upload/v1/media/x/y?uploadType=media";
        let headers = [&[("content-type", "text/plain")], headers].concat();
        barn.0.send("POST", uri, &headers, "hay").await.status
    };
    let download = "/v1/media/x/y?alt=media";
    for tag in ["*", "\"other\""] {
        assert_eq!(upload(&[("if-match", tag)]).await, 412, "{tag}");
        assert_eq!(barn.get(download).await.status, 404, "{tag}");
    }
    assert_eq!(upload(&[("if-none-match", "*")]).await, 200);
    assert_eq!(upload(&[("if-none-match", "*")]).await, 412);
    assert_eq!(upload(&[("if-match", "*")]).await, 200);
    assert_eq!(upload(&[("if-match", "\"other\"")]).await, 412);
}

#[tokio::test]
async fn if_match_on_an_insertion_makes_nothing() {
    let barn = Barn::new();
    let insert = async |headers: &[(&str, &str)]| {
        let headers = [&[("content-type", "application/json")], headers].concat();
        let uri = "/v1/barns/north/hayFiles?hayFileId=a";
        barn.0.send("POST", uri, &headers, "{}").await.status
    };
    assert_eq!(insert(&[("if-match", "*")]).await, 412);
    assert_eq!(barn.get("/v1/barns/north/hayFiles/a").await.status, 404);
    assert_eq!(insert(&[("if-none-match", "*")]).await, 200);
}
