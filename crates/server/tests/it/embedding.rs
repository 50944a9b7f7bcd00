//! A server without a listener, as in an application that mounts the service.

use std::convert::{Infallible, identity};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry as MetricsRegistry;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower_service::Service;
use windlass_discovery::{Api, Method};
use windlass_server::config::ChunkRule;
use windlass_server::{
    AccessError, AccessRequest, Authorize, BuildError, Clock, CorsPolicy, Ended, Listener,
    Principal, Registry, ReplyBody, ServedApi, Server, ServerBuilder, Settings, Stores,
    UploadService,
};
use windlass_store::Ledger as _;
use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;
use windlass_testkit::in_process::{self, exchange};
use windlass_testkit::media::Media;
use windlass_testkit::raw;

use crate::world::{Body, LIFETIME, ManualClock, Reply};

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

pub(crate) const MEDIA: Media = Media::new(7, 200_000);

pub(crate) const SESSIONS: &str = "/upload/farm/v1/animals?uploadType=resumable";

pub(crate) fn memory() -> Stores {
    Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
    }
}

pub(crate) fn builder(stores: Stores) -> ServerBuilder {
    let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    let registry = Registry::new([ServedApi::with_default_handler(farm)]);
    let mut settings = Settings::default();
    settings.session_lifetime = LIFETIME;
    settings.chunks = ChunkRule::Lenient;
    settings.free_space.soft = 0;
    settings.free_space.hard = 0;
    Server::builder(registry.expect("there is one API"), stores).settings(settings)
}

pub(crate) async fn started(builder: ServerBuilder) -> Server {
    let server = builder.build().expect("its parts fit");
    server.start().await;
    server
}

/// The origin of the server as clients see it.
pub(crate) const ORIGIN: &str = "http://app.localhost";

/// A request as a client at [`ORIGIN`] sends it.
fn request(method: &str, uri: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Request<Body> {
    let headers = [&[("host", "app.localhost")], headers].concat();
    in_process::request(method, uri, &headers, body)
}

/// Sends a request and reads the reply.
pub(crate) async fn ask<R>(
    service: impl Service<Request<Body>, Response = Response<R>, Error = Infallible>,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Reply
where
    R: http_body::Body<Data = Bytes>,
{
    exchange(service, request(method, uri, headers, body)).await
}

pub(crate) async fn get(service: UploadService, uri: &str) -> Reply {
    ask(service, "GET", uri, &[], Vec::new()).await
}

/// Starts an upload. Returns the path and the query of its `Location`.
pub(crate) async fn start(service: UploadService) -> String {
    let reply = ask(service, "POST", SESSIONS, &[], Vec::new()).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.location(ORIGIN).to_owned()
}

#[tokio::test]
async fn service_refuses_until_the_server_is_started() {
    let server = builder(memory()).build().unwrap();
    let early = ask(server.service(), "POST", SESSIONS, &[], Vec::new()).await;
    assert_eq!(early.status, StatusCode::SERVICE_UNAVAILABLE);
    let message = early.json()["error"]["message"].to_string();
    assert!(message.contains("has not been started"), "{message}");
    let ready = get(server.service(), "/readyz").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);

    server.start().await;
    start(server.service()).await;
    assert_eq!(get(server.service(), "/readyz").await.status, 200);
}

#[tokio::test]
async fn drain_before_the_start_opens_nothing() {
    let server = builder(memory()).build().unwrap();
    server.drain().await;
    let early = get(server.service(), "/farm/v1/animals").await;
    assert_eq!(early.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn service_of_a_dropped_server_refuses_and_keeps_no_store_open() {
    let ledger = Arc::new(MemoryLedger::new());
    let stores = Stores {
        ledger: Arc::clone(&ledger) as Arc<_>,
        ..memory()
    };
    let server = started(builder(stores)).await;
    let service = server.service();
    assert_eq!(get(service.clone(), "/healthz").await.status, 200);
    drop(server);
    assert_eq!(Arc::strong_count(&ledger), 1);
    let late = get(service, "/healthz").await;
    assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn prefix_of_a_mounted_server_is_in_session_uris_and_documents() {
    let server = started(builder(memory()).mounted_at("/media/")).await;
    let started = ask(server.service(), "POST", SESSIONS, &[], Vec::new()).await;
    let session = started.header("location");
    let expected =
        "http://app.localhost/media/upload/farm/v1/animals?uploadType=resumable&upload_id=";
    assert!(session.starts_with(expected), "{session}");

    let uri = "/discovery/v1/apis/farm/v1/rest";
    let document = get(server.service(), uri).await.json();
    assert_eq!(document["rootUrl"], "http://app.localhost/media/");
    let directory = get(server.service(), "/discovery/v1/apis").await.json();
    let link = &directory["items"][0]["discoveryRestUrl"];
    assert_eq!(*link, format!("http://app.localhost/media{uri}"));
}

#[test]
fn prefix_that_is_no_path_is_refused() {
    let prefix = "media".to_owned();
    let refused = builder(memory()).mounted_at(&prefix).build().err();
    assert_eq!(refused, Some(BuildError::Mount { prefix }));
}

#[tokio::test(start_paused = true)]
async fn probes_do_not_wait_where_other_requests_do() {
    let mut settings = Settings::default();
    settings.limits.requests = 1;
    let server = started(builder(memory()).settings(settings)).await;
    let call = in_process::request("GET", "/farm/v1/animals", &[], Vec::new());
    // A request runs until its reply is dropped.
    let _held = server.service().call(call).await.unwrap();
    let begun = tokio::time::Instant::now();
    for probe in ["/healthz", "/readyz"] {
        let reply = get(server.service(), probe).await;
        assert_eq!(reply.status, StatusCode::OK, "{probe}");
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let other = get(server.service(), "/farm/v1/animals").await;
    assert_eq!(other.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn left_session_is_swept() {
    let ledger = Arc::new(MemoryLedger::new());
    let stores = Stores {
        ledger: Arc::clone(&ledger) as Arc<_>,
        ..memory()
    };
    let clock = Arc::new(ManualClock::default());
    let server = started(builder(stores).clock(Arc::clone(&clock) as Arc<dyn Clock>)).await;
    let session = start(server.service()).await;
    clock.advance(LIFETIME + HOUR);
    tokio::time::sleep(HOUR).await;
    let expired = ledger.expire(clock.now(), usize::MAX).await.unwrap();
    assert_eq!(expired, 0, "nothing is left for a second sweep");
    let late = ask(server.service(), "PUT", &session, &[], Vec::new()).await;
    assert_eq!(late.status, StatusCode::NOT_FOUND);
}

/// A server with a ledger that fails from the nth call on, and the ledger's calls.
async fn failing_from(nth: u64, stores: Stores) -> (Server, Arc<Faults>) {
    failing_with(nth, stores, identity).await
}

/// Like [`failing_from`], with options of the builder.
pub(crate) async fn failing_with(
    nth: u64,
    Stores { ledger, vault }: Stores,
    options: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> (Server, Arc<Faults>) {
    let calls = Arc::new(Faults::new(Trigger::From(nth), InjectedFault::Fault));
    let ledger = Arc::new(FaultyLedger::new(ledger, Arc::clone(&calls)));
    let server = options(builder(Stores { ledger, vault })).build();
    let server = server.expect("its parts fit");
    server.start_without_maintenance().await;
    (server, calls)
}

pub(crate) async fn upload(server: &Server) -> (String, Reply) {
    let session = start(server.service()).await;
    let range = format!("bytes 0-{}/{}", MEDIA.len() - 1, MEDIA.len());
    let headers = [("content-range", range.as_str())];
    let reply = ask(server.service(), "PUT", &session, &headers, MEDIA.whole()).await;
    (session, reply)
}

#[tokio::test(start_paused = true)]
async fn storage_fault_can_be_waited_for_and_the_next_server_finishes_the_upload() {
    let (server, calls) = failing_from(u64::MAX, memory()).await;
    assert_eq!(upload(&server).await.1.status, StatusCode::CREATED);
    let names = calls.names();
    let finish = names.iter().position(|name| *name == "apply");
    let finish = 1 + finish.expect("it is committed") as u64;

    let stores = memory();
    let (server, _) = failing_from(finish, stores.clone()).await;
    let failed = tokio::spawn({
        let server = server.clone();
        async move { server.failed().await }
    });
    let (session, reply) = upload(&server).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
    failed.await.unwrap();
    let health = get(server.service(), "/healthz").await;
    assert_eq!(health.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(server);

    let server = started(builder(stores.clone())).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(
        stores
            .ledger
            .finishing(None, 1, Duration::ZERO)
            .await
            .unwrap(),
        []
    );
    let headers = [("content-range", "bytes */*")];
    let reply = ask(server.service(), "PUT", &session, &headers, Vec::new()).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn drain_commits_what_a_running_upload_has_sent() {
    const SENT: u64 = 100_000;
    let server = started(builder(memory())).await;
    let session = start(server.service()).await;
    let (ask_for_more, asked) = oneshot::channel();
    let first = Ok::<_, Infallible>(Frame::data(Bytes::from(MEDIA.bytes(0..SENT))));
    let rest = async move {
        ask_for_more.send(()).expect("the test waits");
        std::future::pending().await
    };
    let body = stream::iter([first]).chain(stream::once(rest));
    let request = Request::put(&session)
        .header("content-length", MEDIA.len())
        .body(StreamBody::new(Box::pin(body)))
        .unwrap();
    let mut service = server.service();
    let running = tokio::spawn(async move { service.call(request).await.unwrap().status() });
    asked.await.unwrap();

    server.drain().await;
    assert_eq!(running.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    let late = ask(server.service(), "POST", SESSIONS, &[], Vec::new()).await;
    assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE);
    let headers = [("content-range", "bytes */*")];
    let query = ask(server.service(), "PUT", &session, &headers, Vec::new()).await;
    assert_eq!(query.headers["range"], format!("bytes=0-{}", SENT - 1));
}

/// Everybody with a principal may do everything except delete.
pub(crate) struct NoDeletes;

#[async_trait]
impl Authorize for NoDeletes {
    async fn authenticate(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError> {
        let principal = request.principal.cloned();
        principal.map(Some).ok_or(AccessError::CredentialsMissing)
    }

    async fn authorize(
        &self,
        principal: Option<&Principal>,
        method: &Method,
    ) -> Result<(), AccessError> {
        let who = principal.expect("it was demanded");
        if method.http_method != http::Method::DELETE {
            return Ok(());
        }
        let problem = format!("{who} may not call {}", method.id);
        Err(AccessError::Forbidden { problem })
    }
}

#[tokio::test]
async fn principal_of_a_layer_is_asked_for_each_method() {
    let server = started(builder(memory()).authorize(Arc::new(NoDeletes))).await;
    let stranger = get(server.service(), "/farm/v1/animals").await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);

    let animal = "/farm/v1/animals/1";
    let missing = alice(&server, "GET", animal, Vec::new()).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let refused = alice(&server, "DELETE", animal, Vec::new()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let error = &refused.json()["error"];
    assert_eq!(error["message"], "alice may not call farm.animals.delete");
    assert_eq!(error["errors"][0]["reason"], "forbidden");
    assert_eq!(error["status"], "PERMISSION_DENIED");
}

/// Sends a request of Alice's and reads the reply.
async fn alice(server: &Server, method: &str, uri: &str, body: Vec<u8>) -> Reply {
    let mut request = request(method, uri, &[], body);
    request.extensions_mut().insert(Principal::new("alice"));
    exchange(server.service(), request).await
}

async fn owners(stores: &Stores) -> Vec<Option<String>> {
    let animals = stores
        .ledger
        .resources("farm/farm/v1/animals", None, 10)
        .await;
    let animals = animals.expect("it is in memory").into_iter();
    animals.map(|animal| animal.owner).collect()
}

#[tokio::test(start_paused = true)]
async fn principal_owns_what_its_requests_create_even_after_a_crash() {
    let alice_s = Some("alice".to_owned());
    let stores = memory();
    let server = started(builder(stores.clone())).await;
    let simple = "/upload/farm/v1/animals?uploadType=media";
    assert_eq!(alice(&server, "POST", simple, vec![7; 9]).await.status, 200);
    assert_eq!(owners(&stores).await, std::slice::from_ref(&alice_s));

    let stores = memory();
    let started_by_alice = async |server: &Server| {
        let begun = alice(server, "POST", SESSIONS, Vec::new()).await;
        begun.location(ORIGIN).to_owned()
    };
    let put = async |server: &Server, session: &str| {
        ask(server.service(), "PUT", session, &[], MEDIA.whole()).await
    };
    let (server, calls) = failing_from(u64::MAX, memory()).await;
    let session = started_by_alice(&server).await;
    assert_eq!(put(&server, &session).await.status, 201);
    let names = calls.names();
    let finish = names.iter().position(|name| *name == "apply");
    let finish = 1 + finish.expect("it is committed") as u64;
    let (server, _) = failing_from(finish, stores.clone()).await;
    let session = started_by_alice(&server).await;
    assert_eq!(put(&server, &session).await.status, 503);
    drop(server);

    let server = started(builder(stores.clone())).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(owners(&stores).await, [alice_s]);
    drop(server);
}

/// Counts requests in a metric of the application, and adds a header to their replies.
#[derive(Clone)]
struct Layered {
    inner: UploadService,
    requests: Counter,
}

impl<B> Service<Request<B>> for Layered
where
    UploadService: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
    <UploadService as Service<Request<B>>>::Future: Send + 'static,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<ReplyBody>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.requests.inc();
        let reply = self.inner.call(request);
        Box::pin(async {
            let mut reply = reply.await?;
            let headers = reply.headers_mut();
            headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
            Ok(reply)
        })
    }
}

#[tokio::test]
async fn layers_see_the_requests_of_connections_and_count_in_the_same_registry() {
    let mut registry = MetricsRegistry::default();
    let requests = Counter::default();
    registry.register("app_requests", "Requests of the app", requests.clone());
    let server = builder(memory()).metrics(&mut registry).build().unwrap();
    let service = Layered {
        inner: server.service(),
        requests,
    };
    let sockets = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = sockets.local_addr().unwrap();
    let client = tokio::task::spawn_blocking(move || {
        let request = raw::Request::new("POST", SESSIONS);
        raw::exchange(address, &request).expect(200)
    });
    let (send_reply, reply) = oneshot::channel();
    let stop = async {
        send_reply.send(client.await.unwrap()).ok();
    };
    let ended = server
        .run_with(service, Listener::plain(sockets), stop)
        .await;
    assert_eq!(ended, Ended::Drained);
    let reply = reply.await.unwrap();
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    let mut scrape = String::new();
    encode(&mut scrape, &registry).unwrap();
    assert!(scrape.contains("\napp_requests_total 1\n"), "{scrape}");
    assert!(
        scrape.contains("\nwindlass_sessions_started_total 1\n"),
        "{scrape}"
    );
}

/// Lets pages of one origin use the server.
#[derive(Clone)]
struct Cors {
    inner: UploadService,
}

impl Service<Request<Body>> for Cors {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<ReplyBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_allowed = request.headers().get("origin") == Some(&APP);
        let asks = request
            .headers()
            .contains_key("access-control-request-method");
        if !is_allowed {
            return self.inner.call(request);
        }
        let reply: Self::Future = if request.method() == http::Method::OPTIONS && asks {
            let mut preflight = Response::new(ReplyBody::default());
            *preflight.status_mut() = StatusCode::NO_CONTENT;
            let methods = HeaderValue::from_static("POST, PUT, DELETE");
            let headers = preflight.headers_mut();
            headers.insert("access-control-allow-methods", methods);
            Box::pin(std::future::ready(Ok(preflight)))
        } else {
            self.inner.call(request)
        };
        Box::pin(async {
            let mut reply = reply.await?;
            let exposed = HeaderValue::from_static("Location, Range");
            let headers = reply.headers_mut();
            headers.insert("access-control-allow-origin", APP);
            headers.insert("access-control-expose-headers", exposed);
            Ok(reply)
        })
    }
}

const APP: HeaderValue = HeaderValue::from_static("https://app.test");

/// Leaves the decision about origins to a layer in front.
struct LayerDecides;

#[async_trait]
impl Authorize for LayerDecides {
    async fn authenticate(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError> {
        Ok(request.principal.cloned())
    }
}

#[tokio::test]
async fn cors_layer_answers_preflights_and_marks_every_reply() {
    let server = started(builder(memory()).authorize(Arc::new(LayerDecides))).await;
    let cors = Cors {
        inner: server.service(),
    };
    let preflight = [
        ("origin", "https://app.test"),
        ("access-control-request-method", "POST"),
    ];
    let reply = ask(cors.clone(), "OPTIONS", SESSIONS, &preflight, Vec::new()).await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    assert_eq!(reply.headers["access-control-allow-origin"], APP);
    let unknown_type = "/upload/farm/v1/animals?uploadType=x";
    for (uri, status) in [(SESSIONS, 200), (unknown_type, 400)] {
        let reply = ask(cors.clone(), "POST", uri, &preflight[..1], Vec::new()).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.headers["access-control-allow-origin"], APP);
    }
    let other = [("origin", "https://other.test"), preflight[1]];
    let refused = ask(cors, "OPTIONS", SESSIONS, &other, Vec::new()).await;
    assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!refused.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn service_with_a_policy_needs_no_layer_for_cors() {
    let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    let policy = CorsPolicy::new(["https://app.test".parse().expect("an origin")]);
    let farm = ServedApi::with_default_handler(farm).with_cors(policy);
    let registry = Registry::new([farm]).expect("there is one API");
    let server = started(Server::builder(registry, memory())).await;
    let preflight = [
        ("origin", "https://app.test"),
        ("access-control-request-method", "PUT"),
    ];
    let service = server.service();
    let reply = ask(service.clone(), "OPTIONS", SESSIONS, &preflight, Vec::new()).await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    assert_eq!(reply.headers["access-control-allow-origin"], APP);
    let reply = ask(
        service.clone(),
        "POST",
        SESSIONS,
        &preflight[..1],
        Vec::new(),
    )
    .await;
    assert_eq!(reply.headers["access-control-allow-origin"], APP);
    // No API has this path, and all APIs together have no policy.
    let reply = ask(service, "GET", "/no/such/path", &preflight[..1], Vec::new()).await;
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
}
