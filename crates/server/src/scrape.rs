//! The path `/metrics`: a registry of metrics in the text formats of Prometheus.
//!
//! It is no part of the service of a [`Server`](crate::Server): the application owns the registry and
//! decides from where the path can be reached. [`MetricsService`] puts it in front of a service,
//! [`serve_metrics`] on a listener of its own.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use tower_service::Service;
use windlass_proto::dialect::Google;

use crate::capacity::{LimitedResource, Pool};
use crate::config::Limits;
use crate::connections::{Accept, Connections, Listener};
use crate::error::Error;
use crate::reply::{self, Reply, ReplyBody};

/// The path.
const PATH: &str = "/metrics";

/// Maximum number of connections of [`serve_metrics`]; further ones wait in the kernel.
pub const METRICS_CONNECTIONS: usize = 8;

const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PROMETHEUS_TEXT: HeaderValue = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);

/// Answers requests for `/metrics` from a registry, and passes all others to the service inside.
///
/// It needs no store, so it answers after a storage fault and beyond the limit on requests. It
/// authenticates nobody.
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

/// Serves `/metrics` on a listener of its own, without TLS or with that of the listener, until the
/// future is dropped. All other paths are answered with 404.
///
/// It has [`METRICS_CONNECTIONS`] connections of its own, so that those of a busy server do not keep
/// it from being read.
///
/// # Cancel safety
/// When the future is dropped, its connections end with the replies that they are sending.
pub async fn serve_metrics<A: Accept>(
    listener: Listener<A>,
    registry: Arc<Registry>,
    limits: &Limits,
) {
    let service = MetricsService::new(registry, Nothing);
    let pool = Pool::of_count(LimitedResource::Connections, METRICS_CONNECTIONS);
    let connections = Connections::new(service, pool, limits.clone());
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

/// Whether the client takes the format of `OpenMetrics`. Each scraper that does takes it in preference.
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

/// Closes the connection if the request has a body, because nobody reads it.
fn close_if_unread<B: Body>(reply: &mut Reply, request: &Request<B>) {
    if !request.body().is_end_stream() && request.version() < Version::HTTP_2 {
        reply::close(reply);
    }
}
