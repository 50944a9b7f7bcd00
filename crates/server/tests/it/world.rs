//! A server over given stores, with a clock that tests drive and requests that may break off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_service::Service as _;
use windlass_discovery::Api;
use windlass_server::config::{ChunkRule, Limits};
use windlass_server::{
    Clock, Ended, Listener, Registry, ReplyBody, ServedApi, Server, Settings, Stores, UploadService,
};
use windlass_store::Timestamp;
use windlass_testkit::farm;
use windlass_testkit::media::Media;

/// Media up to this many bytes stays in the ledger, so that tests reach the vault with little.
pub(crate) const SMALL_MEDIA: u64 = 16;

/// The life of a session.
pub(crate) const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
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

/// A server that serves a socket.
pub(crate) struct Serving {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

impl Serving {
    /// Tells it to end. Returns the task that runs until it has.
    pub(crate) fn stop(self) -> JoinHandle<Ended> {
        self.stop.send(()).expect("it runs");
        self.ended
    }

    /// Ends it like a crash: nothing that it does is finished.
    pub(crate) async fn crash(self) {
        self.ended.abort();
        self.ended.await.expect_err("it ran");
    }
}

/// The body of a request.
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// The connection breaks after these bytes.
    Broken(Vec<u8>),
}

/// A reply, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the body came to its end.
    pub(crate) is_whole: bool,
}

impl World {
    /// A server of the Farm API that accepts chunks of any size.
    pub(crate) fn new(stores: Stores, clock: Arc<ManualClock>) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        Self::of(ServedApi::with_default_handler(farm), stores, clock)
    }

    /// A server of this API.
    pub(crate) fn of(api: ServedApi, stores: Stores, clock: Arc<ManualClock>) -> Self {
        Self::limited(api, stores, clock, limits())
    }

    /// A server of this API with these limits.
    pub(crate) fn limited(
        api: ServedApi,
        stores: Stores,
        clock: Arc<ManualClock>,
        limits: Limits,
    ) -> Self {
        Self::set_up(api, stores, clock, |settings| settings.limits = limits)
    }

    /// A server of the Farm API whose sessions die when nothing comes for so long.
    pub(crate) fn impatient(stores: Stores, clock: Arc<ManualClock>, idle: Duration) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        Self::set_up(
            ServedApi::with_default_handler(farm),
            stores,
            clock,
            |settings| {
                settings.session_idle = Some(idle);
            },
        )
    }

    /// A server of the Farm API that commits when a request ends, and not before.
    pub(crate) fn without_checkpoints(stores: Stores) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        Self::set_up(
            ServedApi::with_default_handler(farm),
            stores,
            Arc::default(),
            |settings| {
                settings.checkpoints.bytes = u64::MAX;
                settings.checkpoints.interval = Duration::from_secs(24 * 60 * 60);
            },
        )
    }

    /// A server of the Farm API that measures the free space of its disks.
    pub(crate) fn watching_disks(stores: Stores) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        let farm = ServedApi::with_default_handler(farm);
        Self::set_up(farm, stores, Arc::default(), |settings| {
            settings.free_space.soft = 1;
        })
    }

    /// Serves a socket, with all that the server does in the background.
    pub(crate) async fn serve(&self) -> Serving {
        let (stop, stopped) = oneshot::channel::<()>();
        let sockets = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        self.server.start().await;
        let server = self.server.clone();
        let ended = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            server.run(Listener::plain(sockets), stop).await
        });
        Serving { stop, ended }
    }

    fn set_up(
        api: ServedApi,
        stores: Stores,
        clock: Arc<ManualClock>,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let registry = Registry::new([api]).expect("there is one API");
        Self::of_registry(registry, stores, clock, set)
    }

    /// A server of these APIs and deliveries.
    pub(crate) fn of_registry(
        registry: Registry,
        stores: Stores,
        clock: Arc<ManualClock>,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::default();
        settings.public_url = Some("http://farm.test".to_owned());
        settings.chunks = ChunkRule::Lenient;
        settings.session_lifetime = LIFETIME;
        settings.limits = limits();
        settings.free_space.soft = 0;
        settings.free_space.hard = 0;
        // Little media is enough for a checkpoint.
        settings.checkpoints.bytes = 1 << 20;
        set(&mut settings);
        let ticking = Arc::clone(&clock) as Arc<dyn Clock>;
        let server = Server::builder(registry, stores)
            .settings(settings)
            .clock(ticking)
            .build()
            .expect("its parts fit");
        Self { server, clock }
    }

    /// The service. Tests count the calls to the stores, so nothing but requests makes some.
    pub(crate) async fn service(&self) -> UploadService {
        self.server.start_without_maintenance().await;
        self.server.service()
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sends a request and reads the reply.
    pub(crate) async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Reply {
        let reply = self.try_send(method, uri, headers, body).await;
        assert!(reply.is_whole, "{reply:?}");
        reply
    }

    /// Sends a request and reads the reply as far as it comes.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = match body {
            Body::Whole(bytes) => request
                .header("content-length", bytes.len())
                .body(whole(bytes)),
            Body::Broken(bytes) => request
                .header("transfer-encoding", "chunked")
                .body(broken(bytes)),
        };
        let request = request.expect("tests write valid requests");
        let mut service = self.service().await;
        let reply = service.call(request).await.expect("it cannot fail");
        let (head, body) = reply.into_parts();
        let (body, is_whole) = read(body).await;
        Reply {
            status: head.status,
            headers: head.headers,
            body,
            is_whole,
        }
    }

    /// Uploads media in one request.
    pub(crate) async fn simple(&self, method: &str, path: &str, media: Media) -> Reply {
        let uri = format!("{path}?uploadType=media");
        let headers = [("content-type", "image/png")];
        let body = Body::Whole(media.whole());
        self.send(method, &uri, &headers, body).await
    }

    /// Uploads media with metadata, in one request.
    pub(crate) async fn multipart(&self, path: &str, media: Media) -> Reply {
        let uri = format!("{path}?uploadType=multipart");
        let head = "--=b=\r\nContent-Type: application/json\r\n\r\n{\"name\":\"ox\"}\r\n\
                    --=b=\r\nContent-Type: image/png\r\n\r\n";
        let body = [head.as_bytes(), &media.whole(), b"\r\n--=b=--\r\n"].concat();
        let headers = [("content-type", "multipart/related; boundary=\"=b=\"")];
        self.send("POST", &uri, &headers, Body::Whole(body)).await
    }

    /// Starts an upload and returns its session URI.
    pub(crate) async fn start(&self, declared: Option<u64>) -> Result<String, Reply> {
        let uri = "/upload/farm/v1/animals?uploadType=resumable";
        let length = declared
            .map(|length| length.to_string())
            .unwrap_or_default();
        let headers = [("x-upload-content-length", length.as_str())];
        let reply = self
            .send("POST", uri, &headers, Body::Whole(Vec::new()))
            .await;
        if reply.status != StatusCode::OK {
            return Err(reply);
        }
        let location = reply.headers["location"].to_str().expect("a URI is text");
        let location = location
            .strip_prefix("http://farm.test")
            .expect("it is absolute");
        Ok(location.to_owned())
    }

    /// Sends a chunk.
    pub(crate) async fn put(&self, session: &str, content_range: &str, body: Body) -> Reply {
        self.send("PUT", session, &[("content-range", content_range)], body)
            .await
    }

    /// Asks what is committed.
    pub(crate) async fn query(&self, session: &str) -> Reply {
        self.put(session, "bytes */*", Body::Whole(Vec::new()))
            .await
    }

    /// The media of the resource that a final reply shows.
    pub(crate) async fn media(&self, reply: &Reply) -> Bytes {
        let media = self.download(&reply.field("id")).await;
        assert_eq!(media.status, StatusCode::OK, "{media:?}");
        media.body
    }

    /// Asks for the media of a resource.
    pub(crate) async fn download(&self, id: &str) -> Reply {
        let uri = format!("/farm/v1/animals/{id}?alt=media");
        self.send("GET", &uri, &[], Body::Whole(Vec::new())).await
    }

    /// The ids of all resources.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let uri = "/farm/v1/animals?maxResults=1000";
        let reply = self.send("GET", uri, &[], Body::Whole(Vec::new())).await;
        let list = reply.json();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let ids = items.iter().filter_map(|item| item["id"].as_str());
        ids.map(str::to_owned).collect()
    }

    /// How many resources there are.
    pub(crate) async fn count(&self) -> usize {
        self.ids().await.len()
    }
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub(crate) fn field(&self, name: &str) -> String {
        let json = self.json();
        json[name]
            .as_str()
            .unwrap_or_else(|| panic!("no {name} in {json}"))
            .to_owned()
    }

    /// The committed offset that a 308 reports.
    pub(crate) fn committed(&self) -> u64 {
        assert_eq!(self.status.as_u16(), 308, "{self:?}");
        let Some(range) = self.headers.get("range") else {
            return 0;
        };
        let range = range.to_str().expect("plain text");
        let last = range
            .strip_prefix("bytes=0-")
            .expect("as the protocol has it");
        last.parse::<u64>().expect("a number") + 1
    }
}

/// The default limits, except that little media is enough to be in the vault.
pub(crate) fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.small_media = SMALL_MEDIA;
    limits
}

/// The bytes of a body, and whether it came to its end.
async fn read(mut body: ReplyBody) -> (Bytes, bool) {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return (bytes.into(), false),
        }
    }
    (bytes.into(), true)
}

fn whole(bytes: Vec<u8>) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(Bytes::from(bytes))
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn broken(bytes: Vec<u8>) -> UnsyncBoxBody<Bytes, BoxError> {
    let mut frames = vec![];
    if !bytes.is_empty() {
        frames.push(Ok(Frame::data(Bytes::from(bytes))));
    }
    frames.push(Err("the connection broke".into()));
    let mut frames = frames.into_iter();
    let stream = stream::poll_fn(move |_| Poll::Ready(frames.next()));
    StreamBody::new(stream).boxed_unsync()
}
