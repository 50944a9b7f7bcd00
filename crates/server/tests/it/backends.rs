//! Methods that a service of the operator answers, and services that receive notices about uploads.

mod bounds;
mod callers;
mod deliveries;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::outbound::{Outbound, OutboundAddresses, OutboundError, OutboundLimits};
use windlass_server::{Backends, ServedApi, Stores};
use windlass_store::Ledger;
use windlass_store::memory::{MemoryLedger, MemoryVault};

use crate::world::{ManualClock, Peer as _, Reply, World};

const ALBUM: &str = r#"
name = "album"
version = "v1"

[collections.photos]
order_by = ["likes desc"]
on.finished = "http://127.0.0.1:9000/thumbnail"
media = { max_size = "1MB" }

[collections.photos.schema]
title = { type = "string", max_length = 10 }
likes = { type = "integer", min = 0, default = 0, read_only = true }

[methods."photos.like"]
http = "POST"
path = "photos/{photoId}:like"
response = "Photo"
parameters.loud = "boolean"
backend = "http://127.0.0.1:9000/like"

[methods."photos.best"]
http = "GET"
path = "photos:best"
backend = "http://127.0.0.1:9000/best"
"#;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const PHOTOS: &str = "/album/v1/photos";

/// Where the ledger has the events of the photos.
const EVENTS: &str = ".outbox/webhook.album.v1.photos";

/// Where the ledger has the events of all APIs.
const EVENTS_OF_ALL: &str = ".outbox/webhooks.finished";

/// A request that a service has received.
struct Got {
    path: String,
    id: String,
    body: Value,
}

impl Got {
    fn of(request: &Request<Bytes>) -> Self {
        assert!(request.headers()["webhook-signature"].to_str().is_ok());
        let id = request.headers()["webhook-id"].to_str();
        Self {
            path: request.uri().path().to_owned(),
            id: id.expect("a text").to_owned(),
            body: serde_json::from_slice(request.body()).expect("JSON"),
        }
    }
}

/// Returns a service's reply to its `n`-th request, counted from 0.
type Answer = Box<dyn Fn(usize, &Got) -> Result<(u16, String), OutboundError> + Send + Sync>;

/// Services in this process.
struct Services {
    got: Mutex<Vec<Got>>,
    answer: Answer,
}

#[async_trait]
impl Outbound for Services {
    async fn send(
        &self,
        request: Request<Bytes>,
        limits: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        assert_eq!(limits.addresses, OutboundAddresses::Any);
        let got = Got::of(&request);
        // Yields, so that another call can run in between.
        tokio::task::yield_now().await;
        let mut all = self.got.lock().expect("no panic");
        let answer = (self.answer)(all.len(), &got);
        all.push(got);
        let (status, body) = answer?;
        let reply = Response::builder().status(status).body(body.into());
        Ok(reply.expect("a reply"))
    }
}

fn services(
    answer: impl Fn(usize, &Got) -> Result<(u16, String), OutboundError> + Send + Sync + 'static,
) -> Arc<Services> {
    Arc::new(Services {
        got: Mutex::default(),
        answer: Box::new(answer),
    })
}

fn album(services: &Arc<Services>, ledger: &Arc<MemoryLedger>) -> World {
    album_of(ALBUM, services, ledger)
}

fn album_of(description: &str, services: &Arc<Services>, ledger: &Arc<MemoryLedger>) -> World {
    world_of(description, ledger, backends(services))
}

fn backends(services: &Arc<Services>) -> Backends {
    let secret = SECRET.parse().expect("a secret");
    let outbound = Arc::clone(services) as Arc<_>;
    Backends::new(outbound, secret, OutboundAddresses::Public)
}

fn world_of(description: &str, ledger: &Arc<MemoryLedger>, backends: Backends) -> World {
    let api = Api::from_toml(description).expect("it is valid");
    let stores = Stores {
        ledger: Arc::clone(ledger) as Arc<_>,
        vault: Arc::new(MemoryVault::new()),
    };
    World::of(
        ServedApi::with_default_handler(api).with_backends(Arc::new(backends)),
        stores,
        Arc::new(ManualClock::default()),
    )
}

async fn photo(album: &World) -> String {
    let reply = album.json("POST", PHOTOS, &json!({"title": "cow"})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let id = reply.json()["id"].as_str().expect("an id").to_owned();
    format!("{PHOTOS}/{id}")
}

fn likes_plus_one(got: &Got) -> (u16, String) {
    let likes = got.body["resource"]["likes"].as_u64().expect("a number");
    (200, json!({"fields": {"likes": likes + 1}}).to_string())
}

#[track_caller]
fn refused(reply: &Reply, status: u16, reason: &str, says: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    let error = &reply.json()["error"];
    assert_eq!(error["errors"][0]["reason"], reason, "{reply:?}");
    let message = error["message"].as_str().expect("a text");
    assert!(message.contains(says), "{message}");
}

#[tokio::test]
async fn a_backend_sees_the_call_and_changes_the_resource() {
    let services = services(|_, got| Ok(likes_plus_one(got)));
    let album = album(&services, &Arc::default());
    let photo = photo(&album).await;
    let like = format!("{photo}:like?loud=true&fields=likes,title");
    let body = json!({"why": "cow"});
    let reply = album.json("POST", &like, &body).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()),
        (200, json!({"likes": 1, "title": "cow"}))
    );
    album.json("POST", &like, &body).await;
    assert_eq!(album.get(&photo).await.json()["likes"], 2);
    // A client cannot set this field, and keeps its value when it replaces all fields that it can
    // set.
    album.json("PATCH", &photo, &json!({"likes": 9})).await;
    album.json("PUT", &photo, &json!({"title": "Io"})).await;
    assert_eq!(album.get(&photo).await.json()["likes"], 2);
    let got = services.got.lock().expect("no panic");
    let id = photo.rsplit('/').next().expect("an id");
    assert_eq!(got[0].path, "/like");
    assert_eq!(got[0].body["method"], "album.photos.like");
    assert_eq!(got[0].body["path"], json!({"photoId": id}));
    assert_eq!(got[0].body["query"], json!({"loud": "true"}));
    assert_eq!(got[0].body["body"], body);
    assert_eq!(got[0].body["principal"], Value::Null);
    let seen = &got[0].body["resource"];
    assert_eq!(
        (&seen["id"], &seen["title"], &seen["likes"]),
        (&json!(id), &json!("cow"), &json!(0))
    );
    assert!(seen["etag"].is_string());
    assert_ne!(got[0].id, got[1].id, "they are two calls");
}

#[tokio::test]
async fn a_backend_answers_for_a_collection_in_its_own_words() {
    let services = services(|_, _| Ok((200, json!({"reply": {"best": "cow"}}).to_string())));
    let album = album(&services, &Arc::default());
    let reply = album.get(&format!("{PHOTOS}:best")).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()),
        (200, json!({"best": "cow"}))
    );
    assert_eq!(
        services.got.lock().expect("no panic")[0].body["resource"],
        Value::Null
    );
}

#[tokio::test]
async fn a_resource_that_changes_meanwhile_is_shown_again_with_the_same_id() {
    let ledger = Arc::new(MemoryLedger::default());
    let services = services(|_, got| Ok(likes_plus_one(got)));
    let album = album(&services, &ledger);
    let photo = photo(&album).await;
    let like = format!("{photo}:like");
    let nothing = json!({});
    let likes = tokio::join!(
        album.json("POST", &like, &nothing),
        album.json("POST", &like, &nothing),
        album.json("POST", &like, &nothing),
    );
    for reply in [likes.0, likes.1, likes.2] {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert_eq!(album.get(&photo).await.json()["likes"], 3);
    let got = services.got.lock().expect("no panic");
    assert!(got.len() > 3, "one of them was too late");
    let ids: std::collections::BTreeSet<_> = got.iter().map(|got| &got.id).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn refusals_and_failures_of_a_backend_change_nothing() {
    let services = services(|at, _| match at {
        0 => Ok((
            404,
            json!({"error": {"message": "no such cow"}}).to_string(),
        )),
        1 => Ok((401, String::new())),
        2 => Ok((500, "secret stack trace".to_owned())),
        3 => Ok((200, "<html>".to_owned())),
        4 => Ok((200, json!({"fields": {"likes": -1}}).to_string())),
        5 => Ok((200, json!({"fields": {"likes": "many"}}).to_string())),
        6 => Ok((302, String::new())),
        7 => Ok((405, json!({"error": "secret"}).to_string())),
        _ => Err(OutboundError::Timeout {
            host: "10.0.0.5".to_owned(),
            timeout: std::time::Duration::from_secs(10),
        }),
    });
    let album = album(&services, &Arc::default());
    let photo = photo(&album).await;
    let like = format!("{photo}:like");
    let nothing = json!({});
    refused(
        &album.json("POST", &like, &nothing).await,
        404,
        "notFound",
        "no such cow",
    );
    refused(
        &album.json("POST", &like, &nothing).await,
        403,
        "forbidden",
        "refuses the call",
    );
    for _ in 0..7 {
        let reply = album.json("POST", &like, &nothing).await;
        refused(
            &reply,
            503,
            "backendError",
            "the service behind album.photos.like failed",
        );
        assert!(reply.headers.contains_key("retry-after"));
        let text = String::from_utf8_lossy(&reply.body);
        assert!(
            !text.contains("secret") && !text.contains("10.0.0.5"),
            "{text}"
        );
    }
    assert_eq!(album.get(&photo).await.json()["likes"], 0);
    refused(
        &album
            .json("POST", &format!("{PHOTOS}/nothing:like"), &nothing)
            .await,
        404,
        "notFound",
        "nothing",
    );
    assert_eq!(
        services.got.lock().expect("no panic").len(),
        9,
        "nothing is repeated"
    );
}

#[tokio::test]
async fn finished_uploads_leave_an_event_and_other_writes_none() {
    let ledger = Arc::new(MemoryLedger::default());
    let services = services(|_, _| Ok((204, String::new())));
    let album = album(&services, &ledger);
    photo(&album).await;
    let simple = format!("/upload{PHOTOS}?uploadType=media");
    let headers = [("content-type", "image/png")];
    let reply = album
        .send("POST", &simple, &headers, b"a cow".to_vec())
        .await;
    let made = reply.json();
    let rows = ledger
        .resources(EVENTS, None, 10)
        .await
        .expect("it can be read");
    let payload: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::from_slice(&row.body).expect("JSON"))
        .collect();
    assert_eq!(payload.len(), 1, "{payload:?}");
    let text = payload[0].to_string();
    for part in [
        "album.photos.finished",
        "/thumbnail",
        made["id"].as_str().expect("an id"),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn service_of_all_apis_gets_an_event_beside_the_service_of_the_collection() {
    let ledger = Arc::new(MemoryLedger::default());
    let services = services(|_, _| Ok((204, String::new())));
    let url = "http://127.0.0.1:9000/all".parse().expect("a URL");
    let album = world_of(ALBUM, &ledger, backends(&services).notify_of_all(url));
    let simple = format!("/upload{PHOTOS}?uploadType=media");
    let headers = [("content-type", "image/png")];
    let reply = album
        .send("POST", &simple, &headers, b"a cow".to_vec())
        .await;
    let id = reply.json()["id"].clone();
    for (topic, path) in [(EVENTS, "/thumbnail"), (EVENTS_OF_ALL, "/all")] {
        let rows = ledger.resources(topic, None, 10).await;
        let rows = rows.expect("it can be read");
        assert_eq!(rows.len(), 1, "{topic}");
        let row: Value = serde_json::from_slice(&rows[0].body).expect("JSON");
        let text = row.to_string();
        for part in ["album.photos.finished", path, id.as_str().expect("an id")] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[tokio::test]
async fn methods_that_nothing_implements_are_known_before_they_are_called() {
    let methods = [
        (
            "photos.like",
            "POST",
            "photos/{photoId}:like",
            "photos/a:like",
        ),
        ("photos.best", "GET", "photos:best", "photos:best"),
        (
            "photos.turn",
            "PUT",
            "photos/{photoId}/turn",
            "photos/a/turn",
        ),
        ("photos.empty", "DELETE", "photos:empty", "photos:empty"),
        (
            "photos.read",
            "GET",
            "photos/{photoId}/read",
            "photos/a/read",
        ),
        ("notes.create", "POST", "notes", "notes"),
        ("notes.get", "GET", "notes/{noteId}", "notes/a"),
        ("notes.list", "GET", "notes", "notes"),
        ("notes.drop", "DELETE", "notes/{noteId}", "notes/a"),
        ("ping", "POST", "ping", "ping"),
    ];
    let mut description = "name = \"album\"\nversion = \"v1\"\n[collections.photos]\n\
                           [schemas.Note]\ntext = \"string\"\n[schemas.Notes]\nitems = \"Note[]\"\n"
        .to_owned();
    for (name, http, path, _) in methods {
        let response = if name == "notes.list" {
            "Notes"
        } else {
            "Note"
        };
        let _ = write!(
            description,
            "[methods.\"{name}\"]\nhttp = \"{http}\"\npath = \"{path}\"\nresponse = \"{response}\"\n"
        );
    }
    let api = Api::from_toml(&description).expect("it is valid");
    let unanswered: Vec<_> = windlass_server::unanswered_methods(&api)
        .map(|method| method.id.clone())
        .collect();
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::default()),
        vault: Arc::new(MemoryVault::new()),
    };
    let served = ServedApi::with_default_handler(api);
    let album = World::of(served, stores, Arc::new(ManualClock::default()));
    for (name, http, _, path) in methods {
        let reply = album
            .json(http, &format!("/album/v1/{path}"), &json!({}))
            .await;
        let is_unanswered = unanswered.contains(&format!("album.{name}"));
        assert_eq!(is_unanswered, reply.status == 501, "{name}: {reply:?}");
    }
    assert_eq!(unanswered.len(), 6, "{unanswered:?}");
}
