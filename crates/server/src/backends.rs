//! Services of the operator that a description names: the backend that answers a method, and the
//! service that is told of finished uploads.
//!
//! [`WithBackends`] wraps the handler of an API. A call of a method with a backend is forwarded as a
//! JSON object, and the reply may change the resource that the path names and say what the caller
//! gets. Nothing is locked meanwhile: the change is made only if the resource is still the one that the
//! backend has seen, and else the backend is asked again. A finished upload leaves an event in the
//! outbox, in the transaction of the resource, so that a crash does not lose it.
//!
//! All requests are signed as Standard Webhooks (<https://www.standardwebhooks.com>) says: `webhook-id`
//! is the same each time that the server repeats a request, so that a service does nothing twice.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use ring::hmac;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use windlass_discovery::{Api, Method};
use windlass_store::{Resource, Timestamp};

use crate::default_handler::Target;
use crate::handler::{
    Answer, ApiHandler, Call, Deliver, Delivery, DeliveryPolicy, Embedded, Failure, OutboxEvent,
    Outcome, Rejection, Uploaded,
};
use crate::on_uploaded;
use crate::outbound::{Outbound, OutboundAddresses, OutboundError, OutboundLimits};

/// Time in which a backend must have answered. Its caller waits for it.
const CALL_TIME: Duration = Duration::from_secs(10);

/// Time in which a service must have taken an event.
const DELIVERY_TIME: Duration = Duration::from_secs(30);

/// Maximum size of the reply of a backend in bytes.
const MAX_REPLY: usize = 1 << 20;

/// Maximum size of the reply to an event, which nobody reads.
const MAX_RECEIPT: usize = 64 << 10;

/// Maximum number of calls that wait for backends at the same time. Further ones are refused with 503.
const MAX_CALLS: usize = 64;

/// Maximum length of the message of a backend that is passed on, in characters.
const MAX_MESSAGE: usize = 500;

/// The topic of events of finished uploads.
const TOPIC: &str = "webhook";

/// Beginning of a secret as Standard Webhooks writes it.
const SECRET_PREFIX: &str = "whsec_";

/// The sizes that Standard Webhooks allows a secret, in bytes.
const SECRET_LEN: std::ops::RangeInclusive<usize> = 24..=64;

/// The secret by which requests to services are signed. Its `Debug` does not show it.
#[derive(Clone)]
pub struct ServiceSecret(hmac::Key);

/// A text that is not a [`ServiceSecret`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not 24 to 64 bytes in base64, with or without whsec_ before it")]
pub struct NotAServiceSecret;

impl FromStr for ServiceSecret {
    type Err = NotAServiceSecret;

    /// Reads the form of Standard Webhooks, `whsec_` and base64.
    fn from_str(text: &str) -> Result<Self, NotAServiceSecret> {
        let text = text.trim();
        let encoded = text.strip_prefix(SECRET_PREFIX).unwrap_or(text);
        let secret = STANDARD.decode(encoded).map_err(|_| NotAServiceSecret)?;
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

/// How the services of descriptions are called.
pub struct Backends {
    outbound: Arc<dyn Outbound>,
    secret: ServiceSecret,
    addresses: OutboundAddresses,
    calls: Semaphore,
}

impl Backends {
    /// Calls services by `outbound`, and signs requests with `secret`.
    ///
    /// A URL whose host is an IP address or `localhost` says where it leads, and is called wherever that is.
    /// `addresses` says where names may lead: with [`OutboundAddresses::Public`] not into the server's
    /// own network, so that whoever controls a name cannot reach into it.
    pub fn new(
        outbound: Arc<dyn Outbound>,
        secret: ServiceSecret,
        addresses: OutboundAddresses,
    ) -> Self {
        Self {
            outbound,
            secret,
            addresses,
            calls: Semaphore::new(MAX_CALLS),
        }
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
        let body = Bytes::from(body.to_string());
        let mut request = Request::post(uri)
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|_| OutboundError::Unsupported {
                problem: "it is not a URL",
            })?;
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

    /// Has a backend answer a call.
    async fn call(
        &self,
        url: &str,
        call: &Call<'_>,
        target: Option<&Target>,
    ) -> Result<Reply, Rejection> {
        let _permit = self.calls.try_acquire().map_err(|_| Rejection::Busy)?;
        let path: Map<_, _> = call
            .path
            .iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let parameters = call.query.iter();
        let own = parameters.filter(|(name, _)| call.method.parameter(name).is_some());
        let mut query: Map<String, Value> = Map::new();
        for (name, value) in own {
            query.entry(name).or_insert_with(|| value.into());
        }
        let body = json!({
            "method": call.method.id,
            "path": path,
            "query": query,
            "body": call.metadata,
            "resource": target.map(|target| target.shown(call)),
            "principal": call.principal.map(ToString::to_string),
        });
        let limits = (CALL_TIME, MAX_REPLY);
        let sent = self.send(url, call.fresh_id, call.now, &body, limits).await;
        let failed = |problem: String| {
            // The caller is not told: it says where the service is.
            tracing::warn!(method = call.method.id, problem, "a backend failed");
            Rejection::BackendFailed {
                method: call.method.id.clone(),
                problem,
            }
        };
        let reply = sent.map_err(|error| failed(error.to_string()))?;
        let status = reply.status();
        match status {
            _ if status.is_success() => {
                Reply::parse(reply.body()).map_err(|error| failed(error.to_string()))
            }
            _ if status.is_client_error() => Err(Rejection::Backend {
                status: passed_on(status),
                message: message(reply.body()),
            }),
            _ => Err(failed(format!("it answered {}", status.as_u16()))),
        }
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backends").finish_non_exhaustive()
    }
}

/// What a backend answers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    /// Fields of the resource that change, as in a PATCH.
    #[serde(default)]
    fields: Map<String, Value>,
    /// What the caller gets; by default the resource.
    reply: Option<Map<String, Value>>,
}

impl Reply {
    fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(body)
    }
}

/// The status that a caller sees. One about credentials would be about those of the server.
fn passed_on(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            StatusCode::FORBIDDEN
        }
        StatusCode::REQUEST_TIMEOUT => StatusCode::CONFLICT,
        status => status,
    }
}

/// The message in the reply of a backend that refuses: `{"error": {"message": "..."}}`, `{"error": "..."}` or
/// `{"message": "..."}`.
fn message(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let texts = [
        body.pointer("/error/message"),
        body.get("error"),
        body.get("message"),
    ];
    let text = texts.into_iter().flatten().find_map(Value::as_str);
    let text = text.unwrap_or("the service behind this method refuses the call");
    let printable = text.chars().filter(|char| !char.is_control());
    printable.take(MAX_MESSAGE).collect()
}

/// A handler, with the services that the descriptions of its APIs name.
pub(crate) struct WithBackends {
    inner: Arc<dyn ApiHandler>,
    backends: Arc<Backends>,
}

impl WithBackends {
    /// Wraps a handler.
    pub(crate) fn new(inner: Arc<dyn ApiHandler>, backends: Arc<Backends>) -> Self {
        Self { inner, backends }
    }

    async fn run_backend(&self, call: &Call<'_>, url: &str) -> Result<Answer, Rejection> {
        let target = Target::of(call).await?;
        let reply = self.backends.call(url, call, target.as_ref()).await?;
        let mut answer = match target {
            Some(target) => target.changed(call, &reply.fields).await?,
            None if reply.fields.is_empty() => Answer::default(),
            None => {
                return Err(Rejection::BackendFailed {
                    method: call.method.id.clone(),
                    problem: "it changes fields, and the path names no resource".to_owned(),
                });
            }
        };
        if let Some(reply) = reply.reply {
            answer.body = Some(reply.into());
        }
        Ok(answer)
    }

    /// Adds the event of a finished upload, if somebody is to be told.
    fn add_event(call: &Call<'_>, answer: &mut Answer) {
        let settings = call.api.settings().collection_of(call.method);
        let Some(url) = settings.and_then(|it| it.on_finished.as_deref()) else {
            return;
        };
        let resource = on_uploaded::resource(answer.body.as_ref());
        let payload = json!({
            "url": url,
            "event": {
                "type": format!("{}.{}.finished", call.api.name(), call.method.collection()),
                "timestamp": crate::default_handler::rfc3339(call.now),
                "data": {
                    "method": call.method.id,
                    "resource": resource,
                    "principal": call.principal.map(ToString::to_string),
                },
            },
        });
        answer.events.push(OutboxEvent::new(TOPIC, payload));
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
            Self::add_event(call, &mut answer);
        }
        Ok(answer)
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        self.inner.find(call).await
    }

    /// None for calls that a backend answers: one that takes its time must not hold up others.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        match backend_of(call) {
            Some(_) => None,
            None => self.inner.lock_key(call),
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

    fn alias(&self, api: &Api, path: &str) -> Option<String> {
        self.inner.alias(api, path)
    }

    fn separates_owners(&self) -> bool {
        self.inner.separates_owners()
    }

    fn guards(&self, method: &Method) -> bool {
        self.inner.guards(method)
    }

    fn deliveries(&self) -> Vec<Arc<dyn Deliver>> {
        let own: Arc<dyn Deliver> = Arc::new(Webhook(Arc::clone(&self.backends)));
        let mut deliveries = self.inner.deliveries();
        deliveries.push(own);
        deliveries
    }
}

/// Tells services of finished uploads.
struct Webhook(Arc<Backends>);

#[async_trait]
impl Deliver for Webhook {
    fn topic(&self) -> &str {
        TOPIC
    }

    fn policy(&self) -> DeliveryPolicy {
        DeliveryPolicy {
            first_delay: Duration::from_secs(5),
            timeout: 2 * DELIVERY_TIME,
            concurrency: 16,
            ..DeliveryPolicy::default()
        }
    }

    async fn deliver(&self, delivery: &Delivery<'_>) -> Result<Outcome, Rejection> {
        let url = delivery.payload.get("url").and_then(Value::as_str);
        let (Some(url), Some(event)) = (url, delivery.payload.get("event")) else {
            return Ok(Outcome::Unreadable("it has no URL or no event".to_owned()));
        };
        let limits = (DELIVERY_TIME, MAX_RECEIPT);
        let sent = self.0.send(url, delivery.id, delivery.now, event, limits);
        Ok(match sent.await {
            Ok(reply) if reply.status().is_success() => Outcome::Delivered,
            Ok(reply) => {
                let status = reply.status();
                let failure = Failure {
                    status: Some(status.as_u16()),
                    text: "the service did not take the event".to_owned(),
                };
                // So a service says that it wants no more of them.
                if status == StatusCode::GONE {
                    Outcome::GiveUp(failure)
                } else {
                    Outcome::Retry(failure)
                }
            }
            Err(error) => Outcome::Retry(Failure::new(error.to_string())),
        })
    }
}

#[cfg(test)]
mod tests;
