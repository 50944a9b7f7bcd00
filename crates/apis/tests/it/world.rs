//! A server of some APIs, and requests to it without a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_service::Service as _;
use windlass_apis::{Options, by_name, from_document};
use windlass_discovery::Api;
use windlass_server::{Clock, Registry, ServedApi, Server, Settings, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{ChangeSet, Ledger, Resource, ResourceChange, Timestamp};

/// Where clients believe the server to be.
pub(crate) const ORIGIN: &str = "http://apis.test";

/// A clock that goes on by a second whenever it is looked at.
#[derive(Debug, Default)]
pub(crate) struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1000, Ordering::Relaxed))
    }
}

/// When a manual clock begins: 1 May 2024.
pub(crate) const START: u64 = 1_714_521_600_000;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub(crate) struct ManualClock(AtomicU64);

impl Default for ManualClock {
    fn default() -> Self {
        Self(AtomicU64::new(START))
    }
}

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

/// A server over memory.
pub(crate) struct World<C = TickingClock> {
    pub(crate) server: Server,
    pub(crate) clock: Arc<C>,
    ledger: Arc<dyn Ledger>,
}

/// A reply, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl World {
    /// Serves the APIs of this name that come with Windlass.
    pub(crate) fn of(name: &str) -> Self {
        Self::serving(by_name(name, &Options::default()).expect("it comes with Windlass"))
    }

    /// Serves the APIs of this name over these stores.
    pub(crate) fn over(name: &str, stores: Stores) -> Self {
        let apis = by_name(name, &Options::default()).expect("it comes with Windlass");
        Self::serving_over(apis, stores)
    }

    /// Serves a discovery document as it is published.
    pub(crate) fn adopting(document: &Value) -> Self {
        let api = Api::from_json(&document.to_string()).expect("tests write valid documents");
        Self::serving(vec![from_document(api, &Options::default())])
    }
}

impl World<ManualClock> {
    /// Serves the APIs of this name, with these options, at a time that tests drive.
    pub(crate) fn timed(name: &str, options: &Options) -> Self {
        Self::serving(by_name(name, options).expect("it comes with Windlass"))
    }
}

impl<C: Clock + Default> World<C> {
    fn serving(apis: Vec<ServedApi>) -> Self {
        let stores = Stores {
            ledger: Arc::new(MemoryLedger::new()),
            vault: Arc::new(MemoryVault::new()),
        };
        Self::serving_over(apis, stores)
    }

    fn serving_over(apis: Vec<ServedApi>, stores: Stores) -> Self {
        let mut settings = Settings::default();
        settings.public_url = Some(ORIGIN.to_owned());
        // Little media is enough to be in the vault.
        settings.limits.small_media = 512;
        let ledger = Arc::clone(&stores.ledger);
        let registry = Registry::new(apis).expect("they do not collide");
        let clock = Arc::new(C::default());
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        settings.free_space.soft = 0;
        settings.free_space.hard = 0;
        let server = Server::builder(registry, stores)
            .settings(settings)
            .clock(time)
            .build()
            .expect("its parts fit");
        let started = server.start_without_maintenance().now_or_never();
        started.expect("no disk is measured");
        Self {
            server,
            clock,
            ledger,
        }
    }

    /// Sends a request and reads the reply.
    pub(crate) async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let body = body.into();
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::new(body))
            .expect("tests write valid requests");
        let reply = self
            .server
            .service()
            .call(request)
            .await
            .expect("it cannot fail");
        let (head, body) = reply.into_parts();
        Reply {
            status: head.status,
            headers: head.headers,
            body: body.collect().await.expect("memory can be read").to_bytes(),
        }
    }

    /// Reads a URI, which may be absolute.
    pub(crate) async fn get(&self, uri: &str) -> Reply {
        let path = uri.strip_prefix(ORIGIN).unwrap_or(uri);
        self.send("GET", path, &[], Bytes::new()).await
    }

    /// A call without a body.
    pub(crate) async fn call(&self, method: &str, uri: &str) -> Reply {
        self.send(method, uri, &[], Bytes::new()).await
    }

    /// A call with JSON.
    pub(crate) async fn json(&self, method: &str, uri: &str, body: &Value) -> Reply {
        let headers = [("content-type", "application/json")];
        self.send(method, uri, &headers, body.to_string()).await
    }

    /// Uploads media alone.
    pub(crate) async fn simple(&self, path: &str, content_type: &str, media: &[u8]) -> Reply {
        let uri = upload_uri(path, "media");
        let headers = [("content-type", content_type)];
        self.send("POST", &uri, &headers, media.to_vec()).await
    }

    /// Uploads metadata and media in one request.
    pub(crate) async fn multipart(
        &self,
        path: &str,
        metadata: &Value,
        content_type: &str,
        media: &[u8],
    ) -> Reply {
        let media = (content_type, media);
        self.multipart_by("POST", path, metadata, media).await
    }

    /// Uploads metadata and media in one request of this HTTP method.
    pub(crate) async fn multipart_by(
        &self,
        method: &str,
        path: &str,
        metadata: &Value,
        (content_type, media): (&str, &[u8]),
    ) -> Reply {
        let uri = upload_uri(path, "multipart");
        let head = format!(
            "--=b=\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n\
             --=b=\r\nContent-Type: {content_type}\r\n\r\n"
        );
        let body = [head.as_bytes(), media, b"\r\n--=b=--\r\n"].concat();
        let headers = [("content-type", "multipart/related; boundary=\"=b=\"")];
        self.send(method, &uri, &headers, body).await
    }

    /// Uploads in a session; the reply is that to its last request, or to the first when that was
    /// refused.
    pub(crate) async fn resumable(
        &self,
        path: &str,
        metadata: &Value,
        content_type: &str,
        media: &[u8],
    ) -> Reply {
        let uri = upload_uri(path, "resumable");
        let headers = [
            ("content-type", "application/json"),
            ("x-upload-content-type", content_type),
        ];
        let started = self
            .send("POST", &uri, &headers, metadata.to_string())
            .await;
        let Some(session) = started.headers.get("location") else {
            return started;
        };
        let session = session.to_str().expect("a URI is text");
        let session = session.strip_prefix(ORIGIN).expect("it is absolute");
        self.send("PUT", session, &[], media.to_vec()).await
    }

    /// Puts resources into the ledger, past all APIs.
    pub(crate) async fn put(&self, resources: impl IntoIterator<Item = Resource>) {
        let resources = resources.into_iter().map(ResourceChange::Insert);
        let changes = ChangeSet {
            resources: resources.collect(),
            ..ChangeSet::default()
        };
        self.ledger.apply(changes).await.expect("they are new");
    }

    /// A resource as it is in the ledger.
    pub(crate) async fn stored(&self, collection: &str, id: &str) -> Resource {
        let resource = self.ledger.resource(collection, id).await;
        let resource = resource.expect("memory can be read");
        resource.expect("it is there")
    }

    /// The resources of a collection; a thousand are many.
    pub(crate) async fn all_stored(&self, collection: &str) -> Vec<Resource> {
        let resources = self.ledger.resources(collection, None, 1000).await;
        resources.expect("memory can be read")
    }

    /// How many resources a collection has.
    pub(crate) async fn count(&self, collection: &str) -> usize {
        self.all_stored(collection).await.len()
    }
}

/// Where media goes that belongs to this path, which may have parameters.
fn upload_uri(path: &str, upload_type: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("/upload{path}{sign}uploadType={upload_type}")
}

impl Reply {
    /// A header that must be there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        let value = value.unwrap_or_else(|| panic!("no {name} in {self:?}"));
        value.to_str().expect("tests read plain text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The resource of a reply that must not be an error; null when it has no body.
    pub(crate) fn resource(&self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        if self.body.is_empty() {
            return Value::Null;
        }
        self.json()
    }

    /// A field of the resource that is a string.
    pub(crate) fn field(&self, name: &str) -> String {
        let resource = self.resource();
        let field = resource[name].as_str();
        let field = field.unwrap_or_else(|| panic!("no {name} in {resource}"));
        field.to_owned()
    }

    /// The reply must refuse with this status and reason; its message is returned.
    pub(crate) fn refusal(&self, status: u16, reason: &str) -> String {
        let refused = self.refused();
        assert_eq!(refused, (status, reason.to_owned()), "{self:?}");
        self.json()["error"]["message"]
            .as_str()
            .expect("a message")
            .to_owned()
    }

    /// The status and the reason of a reply that must refuse.
    pub(crate) fn refused(&self) -> (u16, String) {
        assert!(!self.status.is_success(), "{self:?}");
        let reason = &self.json()["error"]["errors"][0]["reason"];
        let reason = reason.as_str().unwrap_or_default();
        (self.status.as_u16(), reason.to_owned())
    }
}
