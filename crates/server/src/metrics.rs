//! The metrics of a server, and the path `/metrics` at which they can be read.
//!
//! [`ServerMetrics`] holds the handles and registers them. Requests record through a [`Recorder`].
//! It looks up the handle of each method once, when the server is built, so counting a request
//! allocates nothing. The use of limited resources is not counted but read at each scrape
//! ([`Live`]).
//!
//! Labels are bounded by the descriptions of the served APIs. No label contains anything that a
//! client chose: a path, an id, a session URI, a token or a principal.
//!
//! `/metrics` shows a registry in the text formats of Prometheus. It is not part of the service of
//! a [`Server`](crate::Server): the application owns the registry and decides from where the path
//! can be reached. [`MetricsService`] serves the path in front of another service, and
//! [`serve_metrics`] serves it on a separate listener.

mod live;
mod store;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::BodyExt as _;
use http_body_util::combinators::InspectFrame;
use hyper::body::Incoming;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;
use tower_service::Service;
use windlass_discovery::{Method as ApiMethod, Template};
use windlass_engine::{LimitedResource, Pool};
use windlass_proto::command::Command;
use windlass_proto::dialect::Google;
use windlass_rest::registry::Registry as ApiRegistry;

use crate::callers::{AddressLimits, CallerMetrics};
use crate::config::Limits;
use crate::connections::{Accept, Connections, Listener};
use crate::error::Error;
use crate::reply::{self, Reply, ReplyBody};

use live::Live;
pub(crate) use live::Sources;
pub use store::StoreMetrics;

/// Upper bounds in seconds of the buckets of request durations: from a query to a long upload.
const SECONDS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0,
];

/// The kind of upload request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum UploadType {
    /// Not an upload, or a request that was refused before it was known to be an upload.
    None,
    /// A simple upload.
    Media,
    Multipart,
    Start,
    Append,
    Query,
    Cancel,
}

impl UploadType {
    /// All types, in the order of their numbers.
    const ALL: [Self; 7] = [
        Self::None,
        Self::Media,
        Self::Multipart,
        Self::Start,
        Self::Append,
        Self::Query,
        Self::Cancel,
    ];

    /// Returns the kind of a command.
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Simple(_) => Self::Media,
            Command::Multipart(_) => Self::Multipart,
            Command::Start(_) => Self::Start,
            Command::Session(session) if session.request.is_query() => Self::Query,
            Command::Session(_) => Self::Append,
            Command::Cancel { .. } => Self::Cancel,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Media => "media",
            Self::Multipart => "multipart",
            Self::Start => "resumable_start",
            Self::Append => "resumable_append",
            Self::Query => "resumable_query",
            Self::Cancel => "resumable_cancel",
        }
    }
}

/// The values of the label `status`: one for each class of statuses, and one for requests that
/// their client has abandoned.
const STATUSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "aborted"];

/// Index of the abandoned request in [`STATUSES`].
const ABORTED: usize = STATUSES.len() - 1;

/// Requests to paths that belong to no method, in the order of their [`MethodIndex`].
const NOT_METHODS: [&str; 4] = ["other", "discovery", "health", "batch"];

/// Position of a value of the label `method`.
type MethodIndex = usize;

const OTHER: MethodIndex = 0;
const DISCOVERY: MethodIndex = 1;
const HEALTH: MethodIndex = 2;
const BATCH: MethodIndex = 3;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    upload_type: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    upload_type: &'static str,
}

/// Counts of sessions in this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionCounters {
    pub(crate) started: Counter,
    pub(crate) finished: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) failed: Counter,
    /// Sessions that were deleted after the end of their lifetime, in any state.
    pub(crate) expired: Counter,
}

/// The handles of a server's metrics. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct ServerMetrics {
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<DurationLabels, Histogram, fn() -> Histogram>,
    received_bytes: Counter,
    sent_bytes: Counter,
    sessions: SessionCounters,
    callers: CallerMetrics,
    live: Arc<Live>,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            request_duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            sessions: SessionCounters::default(),
            callers: CallerMetrics::default(),
            live: Arc::default(),
        }
    }
}

impl ServerMetrics {
    /// Adds the metrics to a registry, with the prefix `windlass`.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("windlass");
        registry.register(
            "requests",
            "Requests that were answered, or whose client has gone",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "Time from the head of a request to the head of its reply",
            Unit::Seconds,
            self.request_duration.clone(),
        );
        registry.register_with_unit(
            "received",
            "Bytes of request bodies, as they were sent",
            Unit::Bytes,
            self.received_bytes.clone(),
        );
        registry.register_with_unit(
            "sent",
            "Bytes of reply bodies",
            Unit::Bytes,
            self.sent_bytes.clone(),
        );
        let sessions = &self.sessions;
        for (name, help, counter) in [
            (
                "sessions_started",
                "Sessions of resumable uploads that were started",
                &sessions.started,
            ),
            (
                "sessions_finished",
                "Sessions whose resource was made",
                &sessions.finished,
            ),
            (
                "sessions_cancelled",
                "Sessions that their client has cancelled",
                &sessions.cancelled,
            ),
            (
                "sessions_failed",
                "Sessions that ended because of an error that no retry can repair",
                &sessions.failed,
            ),
            (
                "sessions_expired",
                "Sessions that were deleted at the end of their lifetime, ended ones included",
                &sessions.expired,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "limited",
            "What was refused or ended because one caller took too much, by the limit",
            self.callers.family(),
        );
        registry.register_collector(Box::new(Arc::clone(&self.live)));
    }

    /// Resolves the handles of a server of these APIs.
    pub(crate) fn recorder(&self, apis: &ApiRegistry, sources: Sources) -> Recorder {
        self.live.read_from(sources);
        let mut recorder = Recorder {
            methods: Vec::new(),
            names: Vec::new(),
            templates: Vec::new(),
            by_id: HashMap::new(),
            durations: UploadType::ALL.map(|upload_type| {
                let upload_type = upload_type.label();
                let labels = DurationLabels { upload_type };
                self.request_duration.get_or_create_owned(&labels)
            }),
            received_bytes: self.received_bytes.clone(),
            sent_bytes: self.sent_bytes.clone(),
            sessions: self.sessions.clone(),
            callers: self.callers.clone(),
        };
        for name in NOT_METHODS {
            // A request to a session that does not exist belongs to no method.
            let counters = self.of_method(name, name == NOT_METHODS[OTHER]);
            recorder.methods.push(counters);
            recorder.names.push(name.to_owned());
            recorder.templates.push(Vec::new());
        }
        for method in apis.served().flat_map(|served| served.api.methods()) {
            // Hosts and versions of an API may have methods of the same id, which are one series.
            let index = match recorder.by_id.get(&method.id) {
                Some(index) => *index,
                None => self.add_method(&mut recorder, method),
            };
            recorder.templates[index].push(method.template.clone());
        }
        recorder
    }

    /// Adds a method, and returns its index.
    fn add_method(&self, recorder: &mut Recorder, method: &ApiMethod) -> MethodIndex {
        let index = recorder.methods.len();
        recorder.by_id.insert(method.id.clone(), index);
        let counters = self.of_method(&method.id, method.upload.is_some());
        recorder.methods.push(counters);
        recorder.names.push(method.id.clone());
        recorder.templates.push(Vec::new());
        index
    }

    /// Returns the counters of a method, one for each type of upload and status. A method without
    /// uploads has only one type.
    fn of_method(&self, method: &str, takes_uploads: bool) -> Vec<Counter> {
        let upload_types = if takes_uploads {
            &UploadType::ALL[..]
        } else {
            &[UploadType::None]
        };
        let labels = upload_types.iter().flat_map(|upload_type| {
            STATUSES.map(|status| RequestLabels {
                method: method.to_owned(),
                upload_type: upload_type.label(),
                status,
            })
        });
        labels
            .map(|labels| self.requests.get_or_create_owned(&labels))
            .collect()
    }
}

/// The resolved handles of one server.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The counters of each value of the label `method`, as [`ServerMetrics::of_method`] orders
    /// them.
    methods: Vec<Vec<Counter>>,
    /// The values of the label `method`.
    names: Vec<String>,
    /// The templates of the paths of each of them, one for each host and version.
    templates: Vec<Vec<Template>>,
    by_id: HashMap<String, MethodIndex>,
    /// By the number of the type of upload.
    durations: [Histogram; UploadType::ALL.len()],
    received_bytes: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) sessions: SessionCounters,
    pub(crate) callers: CallerMetrics,
}

/// The record of one request. The request is counted when the record is dropped.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    recorder: Arc<Recorder>,
    begun: Instant,
    // Atomics, so that the futures that refer to the record can be sent to other threads. Relaxed:
    // the task of the request alone uses them.
    method: AtomicUsize,
    upload_type: AtomicU8,
    status: usize,
    /// The bytes of its body, if its reply will be logged: the body shares the counter.
    logged_bytes: Option<Arc<AtomicU64>>,
}

impl RequestRecord {
    /// Begins to count a request. It belongs to no method yet. `is_logged` says whether its reply
    /// will be logged. Only then the request counts its own bytes, which takes an allocation.
    pub(crate) fn begin(recorder: &Arc<Recorder>, is_logged: bool) -> Self {
        Self {
            recorder: Arc::clone(recorder),
            begun: Instant::now(),
            method: AtomicUsize::new(OTHER),
            upload_type: AtomicU8::new(UploadType::None as u8),
            status: ABORTED,
            logged_bytes: is_logged.then(Arc::default),
        }
    }

    /// Wraps the body of the request, so that its bytes are counted as they arrive.
    pub(crate) fn received<B: http_body::Body<Data = Bytes>>(
        &self,
        body: B,
    ) -> InspectFrame<B, impl FnMut(&http_body::Frame<Bytes>) + Send + use<B>> {
        let counter = self.recorder.received_bytes.clone();
        let logged_bytes = self.logged_bytes.clone();
        body.inspect_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                counter.inc_by(data.len() as u64);
                if let Some(bytes) = &logged_bytes {
                    bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                }
            }
        })
    }

    /// Returns the value of the label `method`: the id of a method, or a name for other requests.
    pub(crate) fn method_name(&self) -> &str {
        &self.recorder.names[self.method.load(Ordering::Relaxed)]
    }

    /// Returns the template of the path of the request, such as
    /// `/upload/farm/v1/animals/{animalId}`; `None` if it calls no method.
    pub(crate) fn path_template(&self, path: &str) -> Option<String> {
        let templates = &self.recorder.templates[self.method.load(Ordering::Relaxed)];
        let split = |prefix: &'static str| Some((prefix, path.strip_prefix(prefix)?));
        let prefixes = ["/resumable/upload/", "/upload/", "/download/"];
        let (prefix, plain) = prefixes.into_iter().find_map(split).unwrap_or(("/", path));
        let is_of_path = |template: &&Template| template.match_path(plain).is_some();
        // A method that is called at another method's path, or an upload at a separate path.
        let other = || templates.first();
        let template = match &templates[..] {
            [only] => Some(only),
            several => several.iter().find(is_of_path).or_else(other),
        };
        Some(format!("{prefix}{}", template?.as_str()))
    }

    /// Returns the bytes of the body that have arrived, if they are logged.
    pub(crate) fn received_bytes(&self) -> Option<u64> {
        let bytes = self.logged_bytes.as_ref()?;
        Some(bytes.load(Ordering::Relaxed))
    }

    /// Returns the time since the head of the request.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Records the id of the method that the request calls.
    pub(crate) fn method(&self, id: &str) {
        let index = self.recorder.by_id.get(id).copied();
        self.method.store(index.unwrap_or(OTHER), Ordering::Relaxed);
    }

    /// Records that the request asks for a description of an API.
    pub(crate) fn discovery(&self) {
        self.method.store(DISCOVERY, Ordering::Relaxed);
    }

    /// Records that the request is a health probe.
    pub(crate) fn health(&self) {
        self.method.store(HEALTH, Ordering::Relaxed);
    }

    /// Records that the request is a batch. Its calls have separate records.
    pub(crate) fn batch(&self) {
        self.method.store(BATCH, Ordering::Relaxed);
    }

    /// Records the kind of upload request.
    pub(crate) fn upload_type(&self, upload_type: UploadType) {
        self.upload_type.store(upload_type as u8, Ordering::Relaxed);
    }

    /// Counts the request with the status of its reply.
    pub(crate) fn answered(mut self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        // The server sends no status below 200 and none above 599.
        self.status = class.clamp(2, 5) - 2;
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let recorder = &self.recorder;
        let counters = &recorder.methods[self.method.load(Ordering::Relaxed)];
        let upload_type = usize::from(self.upload_type.load(Ordering::Relaxed));
        // A method that takes no uploads has the counters of the first type only.
        let counter = counters.get(upload_type * STATUSES.len() + self.status);
        counter.unwrap_or(&counters[self.status]).inc();
        recorder.durations[upload_type].observe(self.begun.elapsed().as_secs_f64());
    }
}

/// The path.
const PATH: &str = "/metrics";

/// Maximum number of connections of [`serve_metrics`]; further ones wait in the kernel.
pub const METRICS_CONNECTIONS: usize = 8;

const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PROMETHEUS_TEXT: HeaderValue = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);

/// Answers requests for `/metrics` from a registry, and passes all other requests to the inner
/// service.
///
/// It needs no store, so it answers after a storage fault and beyond the limit on requests. It does
/// not authenticate requests.
#[derive(Debug, Clone)]
pub struct MetricsService<S> {
    registry: Arc<Registry>,
    inner: S,
}

impl<S> MetricsService<S> {
    /// Puts the metrics of `registry` in front of `inner`.
    pub fn new(registry: Arc<Registry>, inner: S) -> Self {
        Self { registry, inner }
    }
}

impl<B, S> Service<Request<B>> for MetricsService<S>
where
    B: Body,
    S: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response<ReplyBody>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.uri().path() == PATH {
            Either::Left(ready(Ok(answer(&self.registry, &request))))
        } else {
            Either::Right(self.inner.call(request))
        }
    }
}

/// Serves `/metrics` on a separate listener until the future is dropped. The listener decides
/// whether TLS is used. All other paths are answered with 404.
///
/// [`METRICS_CONNECTIONS`] connections are reserved for it, so that it can be read even if the
/// server is at its limit. Each connection carries one request over HTTP/1.
///
/// # Cancel safety
/// When the future is dropped, its connections end after the replies that they are sending.
pub async fn serve_metrics<A: Accept>(
    listener: Listener<A>,
    registry: Arc<Registry>,
    limits: &Limits,
) {
    let service = MetricsService::new(registry, Nothing);
    let pool = Pool::of_count(LimitedResource::Connections, METRICS_CONNECTIONS);
    let connections = Connections::new(
        service,
        pool,
        AddressLimits::default(),
        limits.clone(),
        // Separate counters: refusals here do not belong to the server.
        CallerMetrics::default(),
    )
    .brief();
    let _guard = connections.shutdown_on_drop();
    connections.accept(&listener).await;
}

/// A service that knows no path.
#[derive(Clone)]
struct Nothing;

impl Service<Request<Incoming>> for Nothing {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Ready<Result<Response<ReplyBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let path = request.uri().path().to_owned();
        ready(Ok(refusal(&request, &Error::NoSuchPath { path })))
    }
}

fn answer<B: Body>(registry: &Registry, request: &Request<B>) -> Reply {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allowed = vec![Method::GET, Method::HEAD];
        return refusal(request, &Error::MethodNotAllowed { allowed });
    }
    let mut written = String::new();
    let (content_type, result) = if accepts_open_metrics(request.headers()) {
        (OPEN_METRICS, text::encode(&mut written, registry))
    } else {
        let result = prometheus_text::encode(&mut written, registry);
        (PROMETHEUS_TEXT, result)
    };
    let mut reply = match result {
        Ok(()) => reply::reply(StatusCode::OK, content_type, written.into()),
        // Only a metric or a collector of the application can fail.
        Err(error) => {
            tracing::error!(%error, "the metrics could not be written");
            reply::empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    };
    close_if_unread(&mut reply, request);
    reply
}

/// Whether the client accepts the format of `OpenMetrics`. Every scraper that accepts the format
/// also prefers it.
fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let mut types = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim());
    types.any(|range| range.eq_ignore_ascii_case("application/openmetrics-text"))
}

fn refusal<B: Body>(request: &Request<B>, error: &Error) -> Reply {
    let mut reply = reply::of_error(&Google, error);
    close_if_unread(&mut reply, request);
    reply
}

/// Closes the connection if the request has a body, because the body is not read.
fn close_if_unread<B: Body>(reply: &mut Reply, request: &Request<B>) {
    if !request.body().is_end_stream() && request.version() < Version::HTTP_2 {
        reply::close(reply);
    }
}
