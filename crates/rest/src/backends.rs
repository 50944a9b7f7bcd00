//! Services of the operator that a description names: backends, which answer methods, and receivers
//! of notices about finished uploads.
//!
//! `WithBackends` wraps the handler of an API. A call of a method with a backend is forwarded as
//! a JSON object. The backend's reply may change the resource that the path names and may contain
//! the reply to the caller. No lock is held during the first call. The change is made only
//! if the resource still has the version that the backend has seen. Otherwise the backend is asked
//! again, and such repeated calls for one resource run one at a time, under a lock. Each service has its own limit on
//! calls and each collection its own topic of events, so a slow service delays no other service. A
//! finished upload leaves an event in the outbox. The event is committed together with the
//! resource, so a crash cannot lose it.
//!
//! All requests are signed according to Standard Webhooks (<https://www.standardwebhooks.com>).
//! `webhook-id` is the same for each repetition of a request, so that a service can ignore
//! repetitions.

mod call;
mod metrics;
mod webhook;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method as HttpMethod, Request, Response, Uri};
use prometheus_client::registry::Registry;
use ring::hmac;
use serde_json::{Map, Value};
use tokio::time::Instant;
use windlass_discovery::short_form::ServiceUrl;
use windlass_discovery::{Api, Method};
use windlass_engine::{Caller, Full, LimitedResource, Permit, Pool, SharePermit, Shares};
use windlass_store::{Resource, Timestamp};
use zeroize::Zeroizing;

use crate::default_handler::Target;
use crate::handler::{
    Answer, ApiHandler, Call, Deliver, Embedded, Rejection, Uploaded, with_causes,
};
use crate::outbound::{Outbound, OutboundAddresses, OutboundError, OutboundLimits};
use crate::principal::caller;
use call::{Reply, failed, forwarded};
use metrics::BackendMetrics;

/// Maximum size of the reply of a backend in bytes.
const MAX_REPLY: usize = 1 << 20;

/// Maximum number of concurrent calls to one service, which is a host and a port. Further calls are
/// refused with 503.
pub const BACKEND_CALLS: usize = 32;

/// Maximum number of these calls per caller: a principal, or an address if there is no principal.
/// Further calls wait for [`Backends::with_timeout`].
const CALLS_PER_CALLER: usize = BACKEND_CALLS / 4;

/// Beginning of a secret as Standard Webhooks writes it.
const SECRET_PREFIX: &str = "whsec_";

/// The permitted lengths of a secret in bytes, according to Standard Webhooks.
const SECRET_LEN: std::ops::RangeInclusive<usize> = 24..=64;

/// The secret that signs requests to services. Its `Debug` does not show it.
#[derive(Clone)]
pub struct ServiceSecret(hmac::Key);

/// A text that is not a [`ServiceSecret`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not 24 to 64 bytes in base64, with or without whsec_ before it")]
pub struct NotAServiceSecret;

impl FromStr for ServiceSecret {
    type Err = NotAServiceSecret;

    /// Parses the form of Standard Webhooks, `whsec_` and base64.
    fn from_str(text: &str) -> Result<Self, NotAServiceSecret> {
        let text = text.trim();
        let encoded = text.strip_prefix(SECRET_PREFIX).unwrap_or(text);
        let secret = STANDARD.decode(encoded).map_err(|_| NotAServiceSecret)?;
        let secret = Zeroizing::new(secret);
        if !SECRET_LEN.contains(&secret.len()) {
            return Err(NotAServiceSecret);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
    }
}

impl fmt::Debug for ServiceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceSecret")
    }
}

/// The connection to the services of descriptions.
pub struct Backends {
    outbound: Arc<dyn Outbound>,
    secret: ServiceSecret,
    addresses: OutboundAddresses,
    /// The calls of each service, by its host and port.
    calls: Mutex<HashMap<String, Calls>>,
    metrics: BackendMetrics,
    /// Maximum time of a backend's answer.
    timeout: Duration,
    /// The service that receives notices about the uploads to all APIs.
    finished: Option<ServiceUrl>,
}

/// The running calls of one service.
#[derive(Clone)]
struct Calls {
    pool: Pool,
    shares: Shares<Caller>,
}

/// A permit for a call to a service. Dropping it releases the permit.
#[derive(Debug)]
struct CallPermit {
    _share: Option<SharePermit<Caller>>,
    _place: Permit,
}

impl Calls {
    fn new() -> Self {
        Self {
            pool: Pool::of_count(LimitedResource::BackendCalls, BACKEND_CALLS),
            shares: Shares::of_count(CALLS_PER_CALLER),
        }
    }

    /// Admits a call. A call above the limit of its caller waits until another call of this caller
    /// has ended. Otherwise one caller of a slow service would keep all other callers out.
    ///
    /// # Errors
    /// [`Full`] if the service has its maximum number of calls, or after the timeout.
    async fn admit(&self, caller: Option<Caller>, timeout: Duration) -> Result<CallPermit, Full> {
        let share = match caller {
            Some(caller) => {
                let share = tokio::time::timeout(timeout, self.shares.acquire(caller, 1));
                Some(share.await.map_err(|_| self.pool.full())?)
            }
            None => None,
        };
        Ok(CallPermit {
            _share: share,
            _place: self.pool.take()?,
        })
    }
}

impl Backends {
    /// The default of [`Backends::with_timeout`].
    pub const TIMEOUT: Duration = Duration::from_secs(10);

    /// Calls services through `outbound`, and signs requests with `secret`.
    ///
    /// A URL with an IP address or `localhost` as its host is called without a check of the
    /// address. `addresses` restricts the addresses of other hosts. [`OutboundAddresses::Public`]
    /// excludes the server's own network, so that the owner of a name cannot reach into it.
    pub fn new(
        outbound: Arc<dyn Outbound>,
        secret: ServiceSecret,
        addresses: OutboundAddresses,
    ) -> Self {
        Self {
            outbound,
            secret,
            addresses,
            calls: Mutex::default(),
            metrics: BackendMetrics::default(),
            timeout: Self::TIMEOUT,
            finished: None,
        }
    }

    /// Sets the maximum time of a backend's answer to a call. The caller waits for this answer.
    /// Default: [`Backends::TIMEOUT`].
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Notifies a service of each upload that has become a resource, to any of the APIs that are
    /// [served with this](crate::ServedApi::with_backends). Services that a description names are
    /// notified as well. Default: none.
    #[must_use]
    pub fn notify_of_all(self, url: ServiceUrl) -> Self {
        let events = std::iter::once(webhook::ALL.to_owned());
        self.metrics.prepare(std::iter::empty(), events);
        Self {
            finished: Some(url),
            ..self
        }
    }

    /// Whether a service is notified of the uploads to all APIs.
    pub fn notifies_of_all(&self) -> bool {
        self.finished.is_some()
    }

    /// Adds the metrics of services to a registry, with the prefix `windlass_backend`.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Sends a signed request. `id` is the same for each repetition.
    async fn send(
        &self,
        url: &str,
        id: &str,
        now: Timestamp,
        body: &Value,
        (timeout, reply): (Duration, usize),
    ) -> Result<Response<Bytes>, OutboundError> {
        let uri: Uri = url.parse().map_err(|_| OutboundError::Unsupported {
            problem: "it is not a URL",
        })?;
        let limits = OutboundLimits {
            timeout,
            reply,
            addresses: self.addresses_for(&uri),
        };
        let mut request = Request::new(Bytes::from(body.to_string()));
        *request.method_mut() = HttpMethod::POST;
        *request.uri_mut() = uri;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        self.sign(&mut request, id, now);
        self.outbound.send(request, limits).await
    }

    fn sign(&self, request: &mut Request<Bytes>, id: &str, now: Timestamp) {
        let timestamp = (now.as_millis() / 1000).to_string();
        let mut context = hmac::Context::with_key(&self.secret.0);
        for part in [
            id.as_bytes(),
            b".",
            timestamp.as_bytes(),
            b".",
            request.body(),
        ] {
            context.update(part);
        }
        let signature = format!("v1,{}", STANDARD.encode(context.sign()));
        for (name, value) in [
            ("webhook-id", id),
            ("webhook-timestamp", &timestamp),
            ("webhook-signature", &signature),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                request.headers_mut().insert(name, value);
            }
        }
    }

    fn addresses_for(&self, uri: &Uri) -> OutboundAddresses {
        let host = uri.host().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_literal = address.parse::<std::net::IpAddr>().is_ok();
        if is_literal || host.eq_ignore_ascii_case("localhost") {
            OutboundAddresses::Any
        } else {
            self.addresses
        }
    }

    /// Forwards a call to a backend.
    async fn call(
        &self,
        url: &str,
        call: &Call<'_>,
        target: Option<&Target>,
    ) -> Result<Reply, Rejection> {
        let calls = self.calls_of(url);
        let _permit = calls
            .admit(caller(call.principal, call.client), self.timeout)
            .await?;
        let body = forwarded(call, target);
        let limits = (self.timeout, MAX_REPLY);
        let begun = Instant::now();
        let sent = self.send(url, call.fresh_id, call.now, &body, limits).await;
        self.metrics.took(begun.elapsed());
        let reply = sent.map_err(|error| failed(call, with_causes(&error)))?;
        Reply::read(call, &reply)
    }

    /// Returns the calls of the service at a URL. A service is a host and a port, so a slow service
    /// delays only its own callers. There is one entry per service in the descriptions.
    fn calls_of(&self, url: &str) -> Calls {
        let mut services = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = services.entry(service_of(url)).or_insert_with(Calls::new);
        calls.clone()
    }
}

/// The host and port of a URL.
fn service_of(url: &str) -> String {
    let uri: Option<Uri> = url.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    let service = authority.map(|it| it.as_str().to_ascii_lowercase());
    service.unwrap_or_default()
}

/// Returns the maximum number of concurrent connections to the services of these APIs.
pub(crate) fn connections<'a>(apis: impl Iterator<Item = (&'a Api, &'a dyn ApiHandler)>) -> usize {
    let (mut services, mut topics, mut has_all) = (BTreeSet::new(), 0, false);
    for (api, handler) in apis {
        let urls = api.settings().backends.values();
        services.extend(urls.map(|url| service_of(url)));
        topics += webhook::notified(api).count();
        let deliveries = handler.deliveries();
        has_all |= deliveries.iter().any(|it| it.topic() == webhook::ALL);
    }
    let deliveries = (topics + usize::from(has_all)) * webhook::DELIVERIES;
    services.len() * BACKEND_CALLS + deliveries
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backends").finish_non_exhaustive()
    }
}

/// A handler, with the services that the descriptions of its APIs name.
pub(crate) struct WithBackends {
    inner: Arc<dyn ApiHandler>,
    backends: Arc<Backends>,
    deliveries: Vec<Arc<dyn Deliver>>,
}

impl WithBackends {
    /// Wraps the handler of an API.
    pub(crate) fn new(inner: Arc<dyn ApiHandler>, backends: Arc<Backends>, api: &Api) -> Self {
        let methods = api.settings().backends.keys();
        backends
            .metrics
            .prepare(methods.map(String::as_str), webhook::event_types(api));
        let deliveries = webhook::deliveries(&backends, api);
        Self {
            inner,
            backends,
            deliveries,
        }
    }

    /// Calls a backend, counts the call, and logs its failure. The caller does not receive the
    /// failure's text, which may contain the service's address.
    async fn run_backend(&self, call: &Call<'_>, url: &str) -> Result<Answer, Rejection> {
        let result = self.ask_backend(call, url).await;
        let method = &call.method.id;
        self.backends.metrics.called(method, &result);
        match &result {
            Err(Rejection::BackendFailed { problem, .. }) => {
                tracing::warn!(method, problem, "the service behind a method failed");
            }
            Err(Rejection::Backend { status, .. }) => {
                let status = status.as_u16();
                tracing::debug!(method, status, "the service behind a method refused a call");
            }
            _ => {}
        }
        result
    }

    async fn ask_backend(&self, call: &Call<'_>, url: &str) -> Result<Answer, Rejection> {
        let target = Target::of(call).await?;
        // Checked before the service does its work.
        match &target {
            Some(target) => call.check_conditions(&target.etag())?,
            None => call.check_conditions_without_tag()?,
        }
        let reply = self.backends.call(url, call, target.as_ref()).await?;
        let mut answer = match target {
            Some(target) => target.changed(call, &reply.fields).await?,
            None if reply.fields.is_empty() => Answer::default(),
            None => {
                let problem = "it changes fields, and the path names no resource";
                return Err(failed(call, problem));
            }
        };
        if let Some(reply) = reply.reply {
            answer.body = Some(reply.into());
        }
        Ok(answer)
    }
}

impl fmt::Debug for WithBackends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithBackends").finish_non_exhaustive()
    }
}

/// The URL of the service that answers the method of a call.
fn backend_of<'a>(call: &Call<'a>) -> Option<&'a str> {
    let url = call.api.settings().backends.get(&call.method.id);
    url.map(String::as_str)
}

#[async_trait]
impl ApiHandler for WithBackends {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        self.inner.admit(call).await
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        if let Some(url) = backend_of(call) {
            return self.run_backend(call, url).await;
        }
        let is_upload = media.is_some();
        let mut answer = self.inner.run(call, media).await?;
        if is_upload && answer.concatenation.is_none() {
            webhook::add_events(call, &mut answer, self.backends.finished.as_ref());
        }
        Ok(answer)
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        self.inner.find(call).await
    }

    /// `None` for calls that a backend answers: a slow backend must not block other calls.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        match backend_of(call) {
            Some(_) => None,
            None => self.inner.lock_key(call),
        }
    }

    /// The resource. Concurrent calls that have conflicted on the resource are retried one at a
    /// time. Other writers do not wait for them.
    fn retry_lock_key(&self, call: &Call<'_>) -> Option<String> {
        match backend_of(call) {
            Some(_) => Target::key(call).map(|key| format!("backend {key}")),
            None => self.inner.retry_lock_key(call),
        }
    }

    fn body_limit(&self, method: &Method) -> Option<usize> {
        self.inner.body_limit(method)
    }

    fn embedded(
        &self,
        method: &Method,
        metadata: &mut Map<String, Value>,
    ) -> Result<Option<Embedded>, Rejection> {
        self.inner.embedded(method, metadata)
    }

    fn media_etag(&self, resource: &Resource) -> Option<String> {
        self.inner.media_etag(resource)
    }

    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        self.inner.media_headers(resource)
    }

    fn media_headers_at_alias(
        &self,
        call: &Call<'_>,
        resource: &Resource,
    ) -> Result<HeaderMap, Rejection> {
        self.inner.media_headers_at_alias(call, resource)
    }

    fn not_served(&self, http_method: &HttpMethod, path: &str) -> Option<String> {
        self.inner.not_served(http_method, path)
    }

    fn alias(&self, api: &Api, path: &str) -> Option<String> {
        self.inner.alias(api, path)
    }

    fn counts(&self, collection: &str) -> bool {
        self.inner.counts(collection)
    }

    fn separates_owners(&self) -> bool {
        self.inner.separates_owners()
    }

    fn guards(&self, method: &Method) -> bool {
        self.inner.guards(method)
    }

    fn is_public(&self, call: &Call<'_>) -> bool {
        self.inner.is_public(call)
    }

    fn deliveries(&self) -> Vec<Arc<dyn Deliver>> {
        let mut deliveries = self.inner.deliveries();
        deliveries.extend(self.deliveries.iter().cloned());
        deliveries
    }
}

#[cfg(test)]
mod tests;
