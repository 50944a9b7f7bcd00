//! Batches, as an application sees them that mounts the service (docs/protocol.md, 2.19).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::registry::Registry as MetricsRegistry;
use serde_json::json;
use tokio::sync::Notify;
use tower_service::Service as _;
use windlass_discovery::Api;
use windlass_server::{
    AccessError, AccessRequest, Authorize, LimitedResource, Principal, Registry, ServedApi, Server,
    Settings,
};
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

/// The statuses in the reply to a batch.
#[track_caller]
fn statuses(reply: &Reply) -> Vec<u16> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let text = str::from_utf8(&reply.body).expect("it is text");
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
        format!("GET http://app.test/media{ANIMALS}"),
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
    ];
    let reply = send(&server, &calls).await;
    assert_eq!(statuses(&reply), [200, 200, 404, 404]);
    let mut text = String::new();
    encode(&mut text, &registry).expect("the registry can be written");
    let scrape = Exposition::parse(&text);
    let expected = [
        ("batch", "2xx"),
        ("farm.animals.insert", "2xx"),
        ("farm.animals.list", "2xx"),
        ("farm.animals.get", "4xx"),
        ("other", "4xx"),
    ];
    let expected = expected.map(|(method, status)| {
        let labels = format!("method=\"{method}\",status=\"{status}\",upload_type=\"none\"");
        (labels, 1.0)
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

/// Lets everybody in, but the nth request only once the test says so, which it never does.
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
    // The batch itself is the first, and its second call the third.
    let stops = Arc::new(StopsAt {
        nth: 3,
        asked: AtomicUsize::new(0),
        reached: Notify::new(),
    });
    let authorize = Arc::clone(&stops) as Arc<dyn Authorize>;
    let server = started(builder(memory()).authorize(authorize)).await;
    let insert = |name| {
        let json = format!("{{\"name\": \"{name}\"}}");
        format!("POST {ANIMALS}\r\nContent-Type: application/json\r\n\r\n{json}")
    };
    let calls = ["Bella", "Dolly", "Molly"].map(insert);
    let calls = batch(&[&*calls[0], &*calls[1], &*calls[2]]);
    let request = in_process::request("POST", "/batch", &MIXED, calls);
    let answer = server.service().call(request);
    tokio::select! {
        _ = answer => panic!("it is never answered"),
        () = stops.reached.notified() => {}
    }
    let list = get(server.service(), &format!("{ANIMALS}?fields=items(name)")).await;
    assert_eq!(list.json(), json!({"items": [{"name": "Bella"}]}));
    assert!(server.usage().iter().all(|usage| usage.used == 0));
    assert_eq!(stops.asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn batch_without_memory_for_its_reply_is_refused_before_its_calls() {
    let mut settings = Settings::default();
    settings.limits.reply_memory = 1024 * 1024;
    settings.free_space.soft = 0;
    settings.free_space.hard = 0;
    let server = started(builder(memory()).settings(settings)).await;
    let used = || {
        let usage = server.usage().into_iter();
        let mut replies = usage.filter(|usage| usage.resource == LimitedResource::Replies);
        replies.next().expect("it is limited").used
    };
    let json = format!("{{\"name\": \"{}\"}}", "x".repeat(3000));
    let insert = format!("POST {ANIMALS}\r\nContent-Type: application/json\r\n\r\n{json}");
    let calls = [&*insert; 90];
    // Two batches whose replies are not taken.
    let mut kept = Vec::new();
    for _ in 0..2 {
        let request = in_process::request("POST", "/batch", &MIXED, batch(&calls));
        kept.push(server.service().call(request).await.unwrap());
    }
    assert!(used() >= 2 * 90 * 3000, "{}", used());
    let before = send(&server, &[&*format!("GET {ANIMALS}?maxResults=1&fields=x")]).await;
    assert_eq!(statuses(&before), [200], "a small one fits");
    let refused = send(&server, &calls).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    drop(kept);
    assert_eq!(used(), 0);
    assert_eq!(statuses(&send(&server, &calls).await), [200; 90]);
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
