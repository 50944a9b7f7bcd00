//! Batches in an application that mounts the service (docs/protocol.md, 2.19).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::registry::Registry as MetricsRegistry;
use serde_json::json;
use tokio::sync::Notify;
use tower_service::Service as _;
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_server::{
    AccessError, AccessRequest, Authorize, LimitedResource, Principal, Registry, ServedApi, Server,
    Settings,
};
use windlass_store::Resource;
use windlass_testkit::exposition::Exposition;
use windlass_testkit::in_process;

use crate::embedding::{NoDeletes, ask, builder, get, memory, started};
use crate::world::Reply;

const ANIMALS: &str = "/farm/v1/animals";

const MIXED: [(&str, &str); 1] = [("content-type", "multipart/mixed; boundary=b")];

fn batch(calls: &[&str]) -> Vec<u8> {
    let part = |call| format!("--b\r\nContent-Type: application/http\r\n\r\n{call}\r\n");
    let parts: String = calls.iter().map(part).collect();
    format!("{parts}--b--").into_bytes()
}

async fn send(server: &Server, calls: &[&str]) -> Reply {
    ask(server.service(), "POST", "/batch", &MIXED, batch(calls)).await
}

fn insert(name: &str) -> String {
    let json = format!("{{\"name\": \"{name}\"}}");
    format!("POST {ANIMALS}\r\nContent-Type: application/json\r\n\r\n{json}")
}

/// The statuses in the reply to a batch.
#[track_caller]
fn statuses(reply: &Reply) -> Vec<u16> {
    assert_eq!(reply.status, 200, "{reply:?}");
    statuses_in(&reply.body)
}

fn statuses_in(reply: &[u8]) -> Vec<u16> {
    let text = str::from_utf8(reply).expect("it is text");
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("HTTP/1.1 "));
    lines
        .map(|line| line[..3].parse().expect("a status"))
        .collect()
}

#[tokio::test]
async fn calls_may_have_the_prefix_of_a_mounted_server() {
    let server = started(builder(memory()).mounted_at("/media/")).await;
    let calls = [
        format!("GET /media{ANIMALS}"),
        format!("GET http://app.localhost/media{ANIMALS}"),
        format!("GET {ANIMALS}"),
        "GET /media/nothing".to_owned(),
    ];
    let reply = send(&server, &calls.each_ref().map(String::as_str)).await;
    assert_eq!(statuses(&reply), [200, 200, 200, 404]);
}

#[tokio::test]
async fn principal_of_the_batch_is_asked_for_the_method_of_each_call() {
    let server = started(builder(memory()).authorize(Arc::new(NoDeletes))).await;
    let calls = [
        &*format!("GET {ANIMALS}"),
        &format!("DELETE {ANIMALS}/1"),
        &format!("GET {ANIMALS}/1"),
    ];
    assert_eq!(send(&server, &calls).await.status, 401);
    let mut request = in_process::request("POST", "/batch", &MIXED, batch(&calls));
    request.extensions_mut().insert(Principal::new("alice"));
    let reply = in_process::exchange(server.service(), request).await;
    assert_eq!(statuses(&reply), [200, 403, 404]);
}

#[tokio::test]
async fn batch_and_its_calls_are_counted_as_requests_and_their_bytes_once() {
    let mut registry = MetricsRegistry::default();
    let server = started(builder(memory()).metrics(&mut registry)).await;
    let json =
        "POST /farm/v1/animals\r\nContent-Type: application/json\r\n\r\n{\"name\": \"Bella\"}";
    let calls = [
        json,
        "GET /farm/v1/animals",
        "GET /farm/v1/animals/1",
        "GET /x",
        // Refused before they are routed.
        "GET http://elsewhere.test/farm/v1/animals",
        "POST /farm/v1/animals\r\nX-Goog-Upload-Protocol: raw\r\n\r\nx",
    ];
    let reply = send(&server, &calls).await;
    assert_eq!(statuses(&reply), [200, 200, 404, 404, 400, 400]);
    let mut text = String::new();
    encode(&mut text, &registry).expect("the registry can be written");
    let scrape = Exposition::parse(&text);
    let expected = [
        ("batch", "2xx", 1.0),
        ("farm.animals.insert", "2xx", 1.0),
        ("farm.animals.list", "2xx", 1.0),
        ("farm.animals.get", "4xx", 1.0),
        ("other", "4xx", 3.0),
    ];
    let expected = expected.map(|(method, status, count)| {
        let labels = format!("method=\"{method}\",status=\"{status}\",upload_type=\"none\"");
        (labels, count)
    });
    let counted = scrape.non_zero("windlass_requests_total");
    assert_eq!(counted, BTreeMap::from(expected));
    for (series, expected) in [
        ("windlass_received_bytes_total", batch(&calls).len()),
        ("windlass_sent_bytes_total", reply.body.len()),
    ] {
        assert_eq!(scrape.value(series).to_string(), expected.to_string());
    }
}

/// Admits every request, except that the nth request waits for the test, which never admits it.
struct StopsAt {
    nth: usize,
    asked: AtomicUsize,
    reached: Notify,
}

#[async_trait]
impl Authorize for StopsAt {
    async fn authenticate(&self, _: &AccessRequest<'_>) -> Result<Option<Principal>, AccessError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.nth {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(None)
    }
}

#[tokio::test]
async fn batch_that_its_client_leaves_begins_no_further_call() {
    // The batch itself is the first request, and its second call the third.
    let stops = Arc::new(StopsAt {
        nth: 3,
        asked: AtomicUsize::new(0),
        reached: Notify::new(),
    });
    let authorize = Arc::clone(&stops) as Arc<dyn Authorize>;
    let server = started(builder(memory()).authorize(authorize)).await;
    let calls = ["Bella", "Dolly", "Molly"].map(insert);
    let calls = batch(&[&*calls[0], &*calls[1], &*calls[2]]);
    let request = in_process::request("POST", "/batch", &MIXED, calls);
    let reply = server.service().call(request).await.unwrap();
    tokio::select! {
        _ = reply.into_body().collect() => panic!("it is never answered"),
        () = stops.reached.notified() => {}
    }
    let list = get(server.service(), &format!("{ANIMALS}?fields=items(name)")).await;
    assert_eq!(list.json(), json!({"items": [{"name": "Bella"}]}));
    assert!(server.usage().iter().all(|usage| usage.used == 0));
    assert_eq!(stops.asked.load(Ordering::Relaxed), 4);
}

fn replies_in_use(server: &Server) -> u64 {
    let usage = server.usage().into_iter();
    let mut replies = usage.filter(|usage| usage.resource == LimitedResource::Replies);
    replies.next().expect("it is limited").used
}

#[tokio::test]
async fn batch_holds_the_reply_to_one_call_at_a_time() {
    let server = started(builder(memory())).await;
    let insert = insert(&"x".repeat(3000));
    let reply = send(&server, &[&*insert; 30]).await;
    assert_eq!(statuses(&reply), [200; 30]);
    let list = format!("GET {ANIMALS}");
    let request = in_process::request("POST", "/batch", &MIXED, batch(&[&*list; 100]));
    let mut reply = server.service().call(request).await.unwrap().into_body();
    assert_eq!(replies_in_use(&server), 0, "no call is carried out as yet");
    let (mut most, mut sent) = (0, 0);
    while let Some(frame) = reply.frame().await {
        sent += frame.unwrap().into_data().unwrap().len();
        most = most.max(replies_in_use(&server));
    }
    assert!(sent > 100 * 90_000, "{sent}");
    assert!((90_000..150_000).contains(&most), "{most}");
    assert_eq!(replies_in_use(&server), 0);
}

/// Answers with a short reply, and takes all memory for large replies.
struct Greedy;

#[async_trait]
impl ApiHandler for Greedy {
    async fn admit(&self, _: &Call<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    async fn run(&self, call: &Call<'_>, _: Option<Uploaded>) -> Result<Answer, Rejection> {
        call.reply_memory.reserve(u64::MAX).await?;
        Ok(Answer::of(serde_json::Map::new()))
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        Err(call.not_implemented())
    }
}

#[tokio::test(start_paused = true)]
async fn call_does_not_wait_for_the_memory_of_the_reply_before() {
    let document = json!({"name": "lake", "version": "v1", "methods": {"do": {
        "id": "lake.do", "httpMethod": "GET", "path": "v1/lakes", "response": {},
    }}});
    let api = Api::from_document(serde_json::from_value(document).unwrap()).unwrap();
    let apis = Registry::new([ServedApi::new(api, Arc::new(Greedy))]).unwrap();
    let server = started(Server::builder(apis, memory())).await;
    let before = get(server.service(), "/v1/lakes").await;
    assert_eq!(before.status, 200);
    let call = in_process::request("GET", "/v1/lakes", &[], Vec::new());
    let held = server.service().call(call).await.unwrap();
    let begun = tokio::time::Instant::now();
    let reply = send(&server, &["GET /v1/lakes"]).await;
    assert_eq!(statuses(&reply), [503]);
    // A single request would wait for `limits.takeover_timeout`.
    assert!(begun.elapsed() < Duration::from_secs(1));
    drop(held);
    let reply = send(&server, &["GET /v1/lakes"; 3]).await;
    assert_eq!(statuses(&reply), [200; 3]);
}

#[tokio::test]
async fn batch_ends_with_the_call_in_progress_when_the_server_stops() {
    let server = started(builder(memory())).await;
    let calls = ["Bella", "Dolly", "Molly"].map(insert);
    let calls = batch(&calls.each_ref().map(String::as_str));
    let request = in_process::request("POST", "/batch", &MIXED, calls);
    let mut reply = server.service().call(request).await.unwrap().into_body();
    let mut text = reply
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap()
        .to_vec();
    server.drain().await;
    text.extend_from_slice(&reply.collect().await.unwrap().to_bytes());
    assert_eq!(statuses_in(&text), [200, 503, 503]);
    let list = get(server.service(), &format!("{ANIMALS}?fields=items(name)")).await;
    assert_eq!(list.json(), json!({"items": [{"name": "Bella"}]}));
}

#[tokio::test]
async fn calls_run_under_the_permit_of_their_batch() {
    let mut settings = Settings::default();
    settings.limits.requests = 1;
    settings.free_space.soft = 0;
    settings.free_space.hard = 0;
    let server = started(builder(memory()).settings(settings)).await;
    let list = format!("GET {ANIMALS}");
    let request = in_process::request("POST", "/batch", &MIXED, batch(&[&*list; 2]));
    let reply = server.service().call(request).await.unwrap();
    let other = get(server.service(), ANIMALS).await;
    assert_eq!(other.status, 503, "the batch is under way");
    let text = reply.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(statuses_in(&text), [200, 200]);
    assert_eq!(get(server.service(), ANIMALS).await.status, 200);
}

#[tokio::test]
async fn reply_to_head_has_no_body() {
    let server = started(builder(memory())).await;
    let calls = [format!("HEAD {ANIMALS}"), format!("GET {ANIMALS}")];
    let reply = send(&server, &calls.each_ref().map(String::as_str)).await;
    assert_eq!(statuses(&reply), [200, 200]);
    let text = str::from_utf8(&reply.body).unwrap();
    let (of_head, _) = text.split_once("\r\n\r\n\r\n--batch_").expect(text);
    assert!(
        !of_head.contains("items") && !of_head.contains("content-length"),
        "{text}"
    );
}

#[tokio::test]
async fn batches_can_be_switched_off() {
    let mut settings = Settings::default();
    settings.batches = false;
    let server = started(builder(memory()).settings(settings)).await;
    for path in ["/batch", "/batch/farm/v1"] {
        let calls = batch(&[&*format!("GET {ANIMALS}")]);
        let reply = ask(server.service(), "POST", path, &MIXED, calls).await;
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
}

#[tokio::test]
async fn api_may_name_another_path_for_batches_and_a_method_may_have_one() {
    let api = |name: &str, batch: &str, path: &str| {
        let document = json!({"name": name, "version": "v1", "batchPath": batch, "methods": {"do": {
            "id": format!("{name}.do"), "httpMethod": "POST", "path": path, "response": {},
        }}});
        let api = Api::from_document(serde_json::from_value(document).unwrap());
        ServedApi::with_default_handler(api.unwrap())
    };
    let apis = [
        api("pond", "many/ponds", "v1/ponds"),
        api("lake", "batch", "batch"),
    ];
    let mut settings = Settings::default();
    settings.free_space.soft = 0;
    settings.free_space.hard = 0;
    let server = Server::builder(Registry::new(apis).unwrap(), memory()).settings(settings);
    let server = started(server).await;
    for (path, is_batch) in [
        ("/many/ponds", true),
        ("/batch/pond/v1", true),
        ("/batch/lake/v1", true),
        ("/batch", false),
    ] {
        let reply = ask(server.service(), "POST", path, &MIXED, batch(&["GET /x"])).await;
        assert_eq!(reply.status == 200, is_batch, "{path}: {reply:?}");
    }
}
