//! The application's callback after each upload.

use std::sync::{Arc, Mutex};

use http::Request;
use tokio::sync::Notify;
use windlass_discovery::Api;
use windlass_server::{Principal, Registry, ServedApi, Server, Settings};
use windlass_testkit::farm;
use windlass_testkit::in_process::exchange;

use crate::embedding::{HOUR, memory};
use crate::world::{Body, ManualClock};

#[tokio::test]
async fn application_is_called_after_each_upload_until_it_succeeds() {
    let stores = memory();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (called, clock) = (Arc::new(Notify::new()), Arc::new(ManualClock::default()));
    let farm = || Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    let server = |farm: ServedApi| {
        let registry = Registry::new([farm]).expect("there is one API");
        let mut settings = Settings::default();
        settings.free_space.soft = 0;
        settings.free_space.hard = 0;
        let builder = Server::builder(registry, stores.clone()).settings(settings);
        let clock = Arc::clone(&clock) as Arc<_>;
        builder.clock(clock).build().expect("it is valid")
    };
    // Its callback fails, as long as it runs.
    let failing = Arc::clone(&called);
    let api = ServedApi::with_default_handler(farm());
    let first = server(api.on_uploaded(move |_| {
        failing.notify_one();
        async { Err("the queue is full") }
    }));
    first.start().await;
    let mut by_alice = request("/upload/farm/v1/animals?uploadType=media", b"a cow");
    by_alice.extensions_mut().insert(Principal::new("alice"));
    let reply = exchange(first.service(), by_alice).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let made = reply.json();
    let plain = Request::post("/farm/v1/animals")
        .header("content-type", "application/json")
        .body(Body::from(b"{}".to_vec()))
        .expect("a request");
    assert_eq!(exchange(first.service(), plain).await.status, 200);
    called.notified().await;
    first.drain().await;
    clock.advance(HOUR);
    let (told, succeeded) = (Arc::clone(&seen), Arc::clone(&called));
    let api = ServedApi::with_default_handler(farm());
    let second = server(api.on_uploaded(move |uploaded| {
        let (told, succeeded) = (Arc::clone(&told), Arc::clone(&succeeded));
        async move {
            let media = uploaded.media.as_ref().expect("there is media");
            let bytes = media
                .read(0..100)
                .await
                .map_err(|error| error.to_string())?;
            let bytes = bytes.to_vec();
            told.lock().expect("no panic").push((bytes, uploaded));
            succeeded.notify_one();
            Ok::<_, String>(())
        }
    }));
    second.start().await;
    called.notified().await;
    let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    let [(bytes, uploaded)] = &seen[..] else {
        panic!("one upload is expected: {seen:?}");
    };
    assert_eq!(bytes, b"a cow");
    assert_eq!(uploaded.method, "farm.animals.insert");
    assert_eq!(uploaded.principal.as_deref(), Some("alice"));
    assert_eq!(uploaded.resource["id"], made["id"]);
    // Neither the upload nor the call without media has left another event.
    second.drain().await;
    let rows = stores
        .ledger
        .resources(".outbox/uploaded.farm.v1", None, 10);
    assert!(rows.await.expect("it can be read").is_empty());
}

fn request(uri: &str, media: &'static [u8]) -> Request<Body> {
    Request::post(uri)
        .header("content-type", "image/png")
        .header("content-length", media.len())
        .body(Body::from(media.to_vec()))
        .expect("a request")
}
