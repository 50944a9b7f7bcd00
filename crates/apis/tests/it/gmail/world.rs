//! A server of APIs over stores in memory, with a clock that tests drive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::request::Builder;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_service::Service as _;
use windlass_apis::{Options, by_name};
use windlass_server::{Clock, Registry, Server, Settings, Stores};
use windlass_store::Timestamp;
use windlass_store::memory::{MemoryLedger, MemoryVault};

/// When the clock begins: 1 May 2024.
pub(crate) const START: u64 = 1_714_521_600_000;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("a short time");
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A server and its clock.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Arc<ManualClock>,
}

/// A reply, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    location: Option<String>,
    body: Bytes,
}

impl World {
    /// Serves the API of this name.
    pub(crate) fn of(name: &str, options: &Options) -> Self {
        let settings = Settings {
            public_url: Some("http://apis.test".to_owned()),
            ..Settings::default()
        };
        let clock = Arc::new(ManualClock(AtomicU64::new(START)));
        let stores = Stores {
            ledger: Arc::new(MemoryLedger::default()),
            vault: Arc::new(MemoryVault::default()),
        };
        let apis = by_name(name, options).expect("it comes with Windlass");
        let registry = Registry::new(apis).expect("they do not collide");
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        Self {
            server: Server::new(settings, registry, stores, time),
            clock,
        }
    }

    /// Sends a request and reads the reply.
    pub(crate) async fn send(
        &self,
        method: &str,
        uri: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Reply {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("content-type", content_type);
        self.finish(request, body.into()).await
    }

    /// Begins an upload of such media and returns the path of its session.
    pub(crate) async fn start(&self, uri: &str, media_type: &str, metadata: &Value) -> String {
        let request = Request::builder()
            .method("POST")
            .uri(uri)
            .header("content-type", "application/json")
            .header("x-upload-content-type", media_type);
        let reply = self.finish(request, metadata.to_string().into()).await;
        let session = reply.location.as_deref();
        let session = session.and_then(|session| session.strip_prefix("http://apis.test"));
        session.unwrap_or_else(|| panic!("{reply:?}")).to_owned()
    }

    async fn finish(&self, request: Builder, body: Bytes) -> Reply {
        let request = request
            .header("content-length", body.len())
            .body(Full::new(body))
            .expect("tests write valid requests");
        let reply = self.server.clone().call(request).await;
        let (head, body) = reply.expect("it cannot fail").into_parts();
        let body = body.collect().await.expect("it is in memory").to_bytes();
        let location = head.headers.get("location");
        Reply {
            status: head.status,
            location: location.map(|it| it.to_str().expect("a URI is text").to_owned()),
            body,
        }
    }

    pub(crate) async fn get(&self, uri: &str) -> Reply {
        self.send("GET", uri, "", Bytes::new()).await
    }

    pub(crate) async fn delete(&self, uri: &str) -> Reply {
        self.send("DELETE", uri, "", Bytes::new()).await
    }

    /// Sends JSON.
    pub(crate) async fn json(&self, method: &str, uri: &str, body: &Value) -> Reply {
        self.send(method, uri, "application/json", body.to_string())
            .await
    }
}

impl Reply {
    /// What a call that has to go well answers.
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The status and the reason of a refusal.
    pub(crate) fn refusal(&self) -> (u16, String) {
        assert!(!self.status.is_success(), "{self:?}");
        let error: Value = serde_json::from_slice(&self.body).expect("an error object");
        let reason = error["error"]["errors"][0]["reason"].as_str();
        (self.status.as_u16(), reason.unwrap_or_default().to_owned())
    }
}
