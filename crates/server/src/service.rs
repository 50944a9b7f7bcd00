//! The service, which answers each request with one reply.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::ORIGIN;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use http_body_util::Full;
use tower_service::Service;
use windlass_engine::Error as EngineError;
use windlass_engine::identifiers::without_upload_ids;
use windlass_proto::dialect::{Dialect, Google};

use crate::audit::{self, AuditAction, AuditOutcome, Sender};
use crate::batch;
use crate::body::RequestBody;
use crate::callers::{AddressPermit, CallerLimit};
use crate::capacity::{Permit, Pool};
use crate::context::{LocalAddress, Origin, Principal, RequestContext, RequestId};
use crate::cross_origin::{self, Answered, Marks};
use crate::error::Error;
use crate::health;
use crate::metrics::RequestRecord;
use crate::reply;
use crate::reply::{ClientGone, Reply, ReplyBody};
use crate::routes::{Routing, route};
use crate::uploads::ServerState;

/// Answers the requests of a [`Server`](crate::Server). Clones answer for the same server.
///
/// The service does not keep the server's stores open.
#[derive(Clone)]
pub struct UploadService {
    // Weak: an application may hold its routes longer than the server. A connection with a client
    // that does not read its reply also holds a service.
    server: Weak<ServerState>,
}

impl UploadService {
    pub(crate) fn new(server: &Arc<ServerState>) -> Self {
        Self {
            server: Arc::downgrade(server),
        }
    }

    /// Whether the server accepts the host that this head names. The head must name one host, and
    /// the host must be known ([`Settings::hosts`](crate::Settings::hosts)). Intended for services
    /// in front of this one that answer requests themselves. Always false after the server is
    /// dropped.
    pub fn knows_host(&self, head: &Parts) -> bool {
        let server = self.server.upgrade();
        server.is_some_and(|server| {
            let host = context_of(&server, head).host;
            server.known_hosts.check(head, host.as_ref()).is_ok()
        })
    }
}

impl fmt::Debug for UploadService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadService")
    }
}

impl<B> Service<Request<B>> for UploadService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<ReplyBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.server.upgrade() {
            Some(server) => Box::pin(answer(server, request).map(Ok)),
            None => Box::pin(ready(Ok(gone(request.version())))),
        }
    }
}

/// The reply after the server has been dropped.
fn gone(version: Version) -> Reply {
    let mut reply = reply::of_error(&Google, &EngineError::Draining.into());
    if version < Version::HTTP_2 {
        reply::close(&mut reply);
    }
    reply
}

/// Answers a request. Every outcome, including an error, has a reply.
fn answer<B>(
    server: Arc<ServerState>,
    request: Request<B>,
) -> impl Future<Output = Reply> + Send + 'static
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let record = begin_record(&server);
    let body = record.received(body);
    let sent_bytes = server.metrics.sent_bytes.clone();
    let exchange = exchange(server, head, body, record);
    async move {
        let (reply, permit) = exchange.await;
        reply::counted(reply, permit, sent_bytes)
    }
}

/// Answers or refuses a call of a batch. The bytes of the call are counted as the batch's bytes.
fn answer_call(
    server: Arc<ServerState>,
    head: Parts,
    call: Result<Bytes, Error>,
) -> BoxFuture<'static, Reply> {
    let record = begin_record(&server);
    match call {
        Ok(body) => {
            let exchange = exchange(server, head, Full::new(body), record);
            Box::pin(exchange.map(|(reply, _)| reply))
        }
        Err(error) => {
            let about = About {
                id: context_of(&server, &head).id,
                principal: None,
                dialect: &Google,
                record: &record,
            };
            let reply = reply_to(&head, &about, &server, Err(error), true);
            record.answered(reply.status());
            Box::pin(ready(reply))
        }
    }
}

/// The permits that a request holds until its reply is sent.
type Permits = (Option<Permit>, Option<AddressPermit>);

/// Answers a request.
fn exchange<B>(
    server: Arc<ServerState>,
    mut head: Parts,
    body: B,
    record: RequestRecord,
) -> impl Future<Output = (Reply, Permits)> + Send + 'static
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut context = context_of(&server, &head);
    let mut body = RequestBody::new(body, head.version, &head.headers, &server.settings.limits);
    let capacity = &server.capacity;
    let pools = [&capacity.connections, &capacity.requests, &capacity.uploads];
    if pools.into_iter().any(Pool::is_short) {
        body.hurry();
    }
    let importance = || server.importance_to(context.client, server.dialects.importance_of(&head));
    let memory = capacity.metadata.permit_for(importance);
    let counted = body.count(memory, head_size(&head));
    // A call runs under the permit of its batch.
    let is_call = batch::is_inside(&head);
    let read_to_end = body.end_flag();
    let mut body = Some(body);
    let mut dialect = server.dialects.default();
    let running = server.lifecycle.begin_request();
    let examined = cross_origin::examine(&server, &mut head, context.host.as_ref());
    examined.1.limit_authority(&mut head, &mut context);
    let audit = server.audit.clone();
    let sender = Sender::of(&context);
    let answered = async move {
        let admitted = match counted {
            // A probe takes a permit only if one is free. It never waits, because a late probe
            // counts as failed.
            Ok(()) if health::is_probe(head.uri.path()) => Ok(server.capacity.requests.take().ok()),
            Ok(()) if !is_call => {
                let importance =
                    || server.importance_to(context.client, server.dialects.importance_of(&head));
                server.capacity.admit_request(importance).await.map(Some)
            }
            counted => counted.map(|()| None),
        };
        let refused = admitted.as_ref().err().copied();
        let early = answer_early(&server, &head, &context, examined).await;
        let (marks, place) = (early.marks, early.place);
        let routed = match early.answered.filter(|_| refused.is_none()) {
            Some(answered) => answered.map(Routing::Answered),
            None => {
                // Boxed to keep the future of an early answer small.
                Box::pin(route(
                    &server,
                    &mut head,
                    &mut context,
                    &mut dialect,
                    &mut body,
                    refused,
                    &record,
                ))
                .await
            }
        };
        let result = match routed {
            Ok(Routing::Answered(reply)) => Ok(reply),
            Ok(Routing::Session(call)) => {
                (head.headers, head.extensions) = Default::default();
                // The log needs only the path, and the query may be as long as a head.
                head.uri = head.uri.path().parse().unwrap_or_default();
                if let Some(body) = &mut body {
                    body.forget_head();
                }
                call.carry_out(&server, &*dialect, &mut body, &record).await
            }
            Ok(Routing::Batch) => {
                let reply = batch::answer(&server, &mut head, &context, &mut body, answer_call);
                Box::pin(reply).await
            }
            Err(error) => Err(error),
        };
        if let Some(mut unread) = body.take() {
            unread.finish_if_short().await;
        }
        let RequestContext {
            id,
            principal,
            base_url,
            ..
        } = context;
        let is_abandoned = result.as_ref().is_err_and(Error::is_abandoned);
        let is_broken_off = result.as_ref().is_err_and(Error::is_broken_off);
        let about = About {
            id,
            principal,
            dialect: &*dialect,
            record: &record,
        };
        let mut reply = reply_to(&head, &about, &server, result, read_to_end.is_sure());
        if is_broken_off {
            reply.extensions_mut().insert(ClientGone);
        }
        marks.add_to(&mut reply);
        reply::demand_https(&mut reply, &base_url, server.settings.hsts);
        drop(running);
        // Otherwise the request is counted as aborted, although some such clients receive the
        // reply. A broken connection is not an error of the server.
        if !is_abandoned {
            record.answered(reply.status());
        }
        (reply, (admitted.ok().flatten(), place))
    };
    async move { audit.of_request(sender, answered).await }
}

/// The results of the checks before routing.
struct Early {
    /// The answer, unless the request is to be routed.
    answered: Answered,
    /// The headers that the reply needs for browsers.
    marks: Marks,
    /// The permit for one request of the client's address.
    place: Option<AddressPermit>,
}

/// Checks a request before it is routed.
async fn answer_early(
    server: &ServerState,
    head: &Parts,
    context: &RequestContext,
    examined: (Answered, Marks),
) -> Early {
    let counted =
        count_to_address(server, head, context).and_then(|()| check_host(server, head, context));
    let (answered, marks) = match counted {
        Err(error) => (Some(Err(error)), examined.1),
        Ok(()) if head.headers.contains_key(ORIGIN) => {
            // Boxed to keep the future of the common case small, which has no `Origin`.
            Box::pin(cross_origin::examine_session(server, head, examined)).await
        }
        Ok(()) => examined,
    };
    let admitted = match &answered {
        Some(_) => Ok(None),
        None => admit(server, head, context, &marks),
    };
    let (answered, place) = match admitted {
        Ok(place) => (answered, place),
        Err(error) => (Some(Err(error)), None),
    };
    Early {
        answered,
        marks,
        place,
    }
}

/// Refuses a request that names an unknown host. Probes may name any host, and the calls of a batch
/// have the batch's host.
fn check_host(server: &ServerState, head: &Parts, context: &RequestContext) -> Result<(), Error> {
    if batch::is_inside(head) {
        return Ok(());
    }
    let is_probe = health::is_probe(head.uri.path());
    let known = server.known_hosts.check(head, context.host.as_ref());
    known.or_else(|error| match error {
        Error::UnknownHost { .. } if is_probe => Ok(()),
        _ => Err(error),
    })
}

/// Counts a request against the rate limit of its address. Preflights and requests that are refused
/// later count as well. Probes do not count and are always answered.
fn count_to_address(
    server: &ServerState,
    head: &Parts,
    context: &RequestContext,
) -> Result<(), Error> {
    if health::is_probe(head.uri.path()) {
        return Ok(());
    }
    server.rates.admit_address(context.client)
}

/// Refuses a request from a page that may not send it. Returns the request's permit from the limit
/// of its address. Probes are always answered, and the calls of a batch share the batch's permit.
fn admit(
    server: &ServerState,
    head: &Parts,
    context: &RequestContext,
    marks: &Marks,
) -> Result<Option<AddressPermit>, Error> {
    marks.refuse_foreign(server, head, context)?;
    if health::is_probe(head.uri.path()) || batch::is_inside(head) {
        return Ok(None);
    }
    server.address_limits.admit_request(context.limited_client)
}

fn context_of(server: &ServerState, head: &Parts) -> RequestContext {
    let local = head.extensions.get::<LocalAddress>().copied();
    let (settings, mount) = (&server.settings, &server.mount);
    let origin = Origin::of(settings, mount, &head.uri, &head.headers, local);
    let host = origin.host();
    let base_url = origin.base_url(server.registry.on(host.as_ref()).host());
    let ids = &server.request_ids;
    RequestContext::new(
        &head.extensions,
        ids,
        host,
        base_url,
        origin.stated_client(),
    )
}

/// The facts about a request that its reply and its log line need in addition to the head.
struct About<'a> {
    id: RequestId,
    principal: Option<Principal>,
    dialect: &'a dyn Dialect,
    record: &'a RequestRecord,
}

fn begin_record(server: &ServerState) -> RequestRecord {
    RequestRecord::begin(&server.metrics, tracing::enabled!(tracing::Level::INFO))
}

/// Writes into the audit log that a request was refused because of its credentials.
fn write_refusal(head: &Parts, about: &About<'_>, server: &ServerState, status: StatusCode) {
    let path = audit::About {
        path: Some(&without_upload_ids(head.uri.path())),
        ..audit::About::default()
    };
    server.audit.write(
        AuditAction::Authorize,
        AuditOutcome::Refused(status.as_u16()),
        about.principal.as_ref(),
        path,
    );
}

/// Estimated size of a head in memory, in bytes.
fn head_size(head: &Parts) -> u64 {
    const FIELD: usize = 128;
    let fields = head.headers.iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    let target = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    (fields.sum::<usize>() + target) as u64
}

/// Makes the reply to a request. `is_read` says whether the body was read to its end.
fn reply_to(
    head: &Parts,
    about: &About<'_>,
    server: &ServerState,
    result: Result<Reply, Error>,
    is_read: bool,
) -> Reply {
    let is_unauthorized = result.as_ref().is_err_and(Error::is_unauthorized);
    let mut reply = result.unwrap_or_else(|error| {
        server.lifecycle.examine(&error);
        if let Some(limit) = CallerLimit::exceeded_by(&error) {
            server.metrics.callers.count(limit);
        }
        tracing::debug!(
            id = %about.id,
            method = %head.method,
            path = &*without_upload_ids(head.uri.path()),
            error = &*without_upload_ids(&error.to_string()),
            "refused"
        );
        reply::of_error(about.dialect, &error)
    });
    if is_unauthorized {
        write_refusal(head, about, server, reply.status());
    }
    // Bytes after the head of a CONNECT request belong to a tunnel (RFC 9110, section 9.3.6). The
    // server opens no tunnel, so these bytes must not be parsed as a request.
    let is_last = !is_read || head.method == Method::CONNECT || server.lifecycle.is_draining();
    if is_last && head.version < Version::HTTP_2 {
        reply::close(&mut reply);
    }
    log(head, about, &reply);
    reply
}

/// Maximum number of bytes of a path in the log. Any client can send long paths; over HTTP/2 a long
/// path may take one byte.
const LOGGED_PATH: usize = 512;

/// Maximum number of bytes of an HTTP method in the log.
const LOGGED_METHOD: usize = 32;

/// Returns the beginning of a text, of at most this many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut ends = (0..=most.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// Writes the log line of a request. The path is the template of its method, so that lines of equal
/// calls are alike and contain no names. Without a method it is the beginning of the path itself.
/// The query is left out, because it may contain a session URI or a token. The bytes and the time
/// are measured up to the head of the reply.
fn log(head: &Parts, about: &About<'_>, reply: &Reply) {
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let path = head.uri.path();
    let path = match about.record.path_template(path) {
        Some(template) => Cow::Owned(template),
        None => without_upload_ids(path),
    };
    tracing::info!(
        id = %about.id,
        principal = about.principal.as_ref().map(Principal::id),
        http_method = %cut(head.method.as_str(), LOGGED_METHOD),
        path = cut(&path, LOGGED_PATH),
        method = about.record.method_name(),
        status = reply.status().as_u16(),
        received = about.record.received_bytes(),
        sent = reply.body().size_hint().exact(),
        ms = (about.record.elapsed().as_secs_f64() * 1e6).round() / 1e3,
        "answered"
    );
}
