//! Slow services, and resources that many calls change: which calls wait for which.

use std::time::Duration;

use futures_util::future::join_all;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::registry::Registry as MetricsRegistry;
use tokio::sync::Semaphore;
use tower_service::Service as _;
use windlass_server::BACKEND_CALLS;
use windlass_server::config::Limits;
use windlass_testkit::exposition::Exposition;
use windlass_testkit::in_process;

use super::*;
use crate::world::limits;

/// Two services. The first answers only when the test permits.
const TWO: &str = r#"
name = "album"
version = "v1"

[collections.photos.schema]
title = "string"
likes = { type = "integer", default = 0 }

[methods."photos.like"]
http = "POST"
path = "photos/{photoId}:like"
response = "Photo"
backend = "http://127.0.0.1:9000/like"

[methods."photos.tell"]
http = "POST"
path = "photos/{photoId}:tell"
parameters.to = "string[]"
parameters.why = "string"
backend = "http://127.0.0.1:9001/tell"
"#;

/// A service at port 9000 that answers once per permit, and a second service.
struct Stuck {
    may_answer: Semaphore,
    services: Arc<Services>,
}

#[async_trait]
impl Outbound for Stuck {
    async fn send(
        &self,
        request: Request<Bytes>,
        limits: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        if request.uri().port_u16() == Some(9000) {
            let permit = self.may_answer.acquire().await;
            permit.expect("it is never closed").forget();
        }
        self.services.send(request, limits).await
    }
}

fn world(description: &str, backends: Backends) -> World {
    limited(description, backends, limits())
}

fn limited(description: &str, backends: Backends, limits: Limits) -> World {
    let api = Api::from_toml(description).expect("it is valid");
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::default()),
        vault: Arc::new(MemoryVault::new()),
    };
    let served = ServedApi::with_default_handler(api).with_backends(Arc::new(backends));
    World::limited(served, stores, Arc::default(), limits)
}

fn over(outbound: Arc<dyn Outbound>) -> Backends {
    let secret = SECRET.parse().expect("a secret");
    Backends::new(outbound, secret, OutboundAddresses::Public)
}

/// More calls than the attempts of one call.
#[tokio::test]
async fn many_calls_that_change_one_resource_all_come_through() {
    const CALLS: usize = 25;
    let services = services(|_, got| Ok(likes_plus_one(got)));
    let album = album(&services, &Arc::default());
    let photo = photo(&album).await;
    let (like, nothing) = (format!("{photo}:like"), json!({}));
    let likes = (0..CALLS).map(|_| album.json("POST", &like, &nothing));
    for reply in join_all(likes).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert_eq!(album.get(&photo).await.json()["likes"], CALLS);
    let asked = services.got.lock().expect("no panic").len();
    assert!(asked <= 2 * CALLS, "a call is repeated once, not {asked}");
}

#[tokio::test]
async fn slow_service_holds_up_neither_other_services_nor_writers() {
    let services = services(|_, got| {
        Ok(match &*got.path {
            "/like" => likes_plus_one(got),
            _ => (200, json!({"reply": {"told": true}}).to_string()),
        })
    });
    let stuck = Arc::new(Stuck {
        may_answer: Semaphore::new(0),
        services,
    });
    let backends = over(Arc::clone(&stuck) as Arc<_>);
    let mut registry = MetricsRegistry::default();
    backends.register(&mut registry);
    let album = world(TWO, backends);
    let photo = photo(&album).await;
    let (like, tell) = (format!("{photo}:like"), format!("{photo}:tell"));
    let nothing = json!({});
    let likes = join_all((0..BACKEND_CALLS).map(|_| album.json("POST", &like, &nothing)));
    let others = async {
        // Polled after the likes, which all wait by now.
        let reply = album.json("POST", &like, &nothing).await;
        let says = "limit on calls of the service behind this method";
        refused(&reply, 503, "backendError", says);
        let told = album.json("POST", &tell, &nothing).await;
        assert_eq!(told.json(), json!({"told": true}));
        let renamed = album.json("PATCH", &photo, &json!({"title": "Io"})).await;
        assert_eq!(renamed.status, 200, "{renamed:?}");
        stuck.may_answer.add_permits(2 * BACKEND_CALLS + 1);
    };
    let (likes, ()) = tokio::join!(likes, others);
    for reply in likes {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let read = album.get(&photo).await.json();
    let seen = (&read["title"], &read["likes"]);
    assert_eq!(seen, (&json!("Io"), &json!(BACKEND_CALLS)));
    let calls = |method, outcome| {
        let mut text = String::new();
        encode(&mut text, &registry).expect("it can be written");
        let labels = format!("method=\"album.photos.{method}\",outcome=\"{outcome}\"");
        let series = format!("windlass_backend_calls_total{{{labels}}}");
        Exposition::parse(&text).value(&series).to_string()
    };
    // Each like has found the photo changed, by the new title or by another one, and was repeated.
    assert_eq!(calls("like", "busy"), "1");
    assert_eq!(calls("like", "failed"), "0");
    assert_eq!(calls("tell", "answered"), "1");
}

#[tokio::test]
async fn parameters_that_may_be_repeated_come_as_arrays() {
    let services = services(|_, _| Ok((204, String::new())));
    let album = world(TWO, over(Arc::clone(&services) as Arc<_>));
    let photo = photo(&album).await;
    let uri = format!("{photo}:tell?to=ann&why=cow&to=bob&fields=a");
    let reply = album.json("POST", &uri, &json!({})).await;
    assert_eq!(reply.status, 204, "{reply:?}");
    album
        .json("POST", &format!("{photo}:tell?to=ann"), &json!({}))
        .await;
    let got = services.got.lock().expect("no panic");
    let expected = json!({"to": ["ann", "bob"], "why": "cow"});
    assert_eq!(got[0].body["query"], expected);
    assert_eq!(got[1].body["query"], json!({"to": ["ann"]}));
}

/// Asserts the limits of each request, and refuses the request.
struct Bounded(Duration);

#[async_trait]
impl Outbound for Bounded {
    async fn send(
        &self,
        request: Request<Bytes>,
        limits: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        let expected = OutboundLimits {
            timeout: self.0,
            reply: 1 << 20,
            addresses: OutboundAddresses::Public,
        };
        assert_eq!(limits, expected);
        let host = request.uri().host().unwrap_or_default().to_owned();
        Err(OutboundError::Refused { host })
    }
}

#[tokio::test]
async fn time_size_and_addresses_are_bounded() {
    let description = TWO.replace("127.0.0.1:9001", "inside.example");
    for (timeout, set) in [(Backends::TIMEOUT, false), (Duration::from_secs(3), true)] {
        let mut backends = over(Arc::new(Bounded(timeout)));
        if set {
            backends = backends.with_timeout(timeout);
        }
        let album = world(&description, backends);
        let tell = format!("{}:tell", photo(&album).await);
        let reply = album.json("POST", &tell, &json!({})).await;
        refused(&reply, 503, "backendError", "failed; try again later");
        let text = String::from_utf8_lossy(&reply.body);
        assert!(!text.contains("inside"), "{text}");
    }
}

#[tokio::test]
async fn reply_of_a_service_counts_as_memory_of_the_reply() {
    // Short as text, and large in memory.
    let many = json!({"reply": {"a": vec![1; 3000]}}).to_string();
    let services = services(move |_, _| Ok((200, many.clone())));
    let mut limits = limits();
    limits.reply_memory = 128 << 10;
    let album = limited(TWO, over(services), limits);
    let tell = format!("{}:tell", photo(&album).await);
    let request = in_process::request("POST", &tell, &[], "");
    let unread = album.service().await.call(request).await;
    let reply = album.json("POST", &tell, &json!({})).await;
    refused(&reply, 503, "backendError", "memory for replies");
    drop(unread);
    let reply = album.json("POST", &tell, &json!({})).await;
    assert_eq!(reply.status, 200);
}
