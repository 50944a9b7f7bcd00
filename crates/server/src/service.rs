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
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use http_body_util::Full;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower_service::Service;
use windlass_engine::identifiers::without_upload_ids;
use windlass_engine::{Error as EngineError, Pool};
use windlass_proto::dialect::{Dialect, Google};
use windlass_rest::principal::Principal;

use crate::admission::{Arrival, Ticket};
use crate::audit::{self, AuditAction, AuditOutcome, Sender};
use crate::batch;
use crate::body::{EndFlag, RequestBody};
use crate::callers::CallerLimit;
use crate::connections::InterimReplies;
use crate::context::{LocalAddress, Origin, RequestContext, RequestId};
use crate::cross_origin::{self, Answered, Marks};
use crate::error::Error;
use crate::metrics::RequestRecord;
use crate::reply;
use crate::reply::{ClientGone, Reply, ReplyBody};
use crate::routes::{Routing, route};
use crate::state::ServerState;

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
    // Not an `async` block: it would hold the exchange twice, where it was and where it is awaited.
    exchange.map(|(reply, ticket)| reply::counted(reply, ticket, sent_bytes))
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

/// Answers a request. Returns the reply, and the ticket that the request holds until the reply is
/// sent.
fn exchange<B>(
    server: Arc<ServerState>,
    head: Parts,
    body: B,
    record: RequestRecord,
) -> impl Future<Output = (Reply, Ticket)> + Send + 'static
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut exchange = Exchange::begin(server, head, body, record);
    let audit = exchange.server.audit.clone();
    let sender = Sender::of(&exchange.context);
    let answered = async move {
        let mut ticket = Ticket::default();
        let answered = exchange.admit(&mut ticket).await;
        let routed = match answered {
            Some(answered) => answered.map(Routing::Answered),
            // Boxed to keep the future of an early answer small.
            None => Box::pin(exchange.route(&mut ticket)).await,
        };
        let result = match routed {
            Ok(routing) => exchange.carry_out(routing).await,
            Err(error) => Err(error),
        };
        if let Some(mut unread) = exchange.body.take() {
            unread.finish_if_short().await;
        }
        (exchange.reply(result), ticket)
    };
    audit.of_request(sender, answered)
}

/// A request and the reply to it.
struct Exchange {
    server: Arc<ServerState>,
    head: Parts,
    context: RequestContext,
    /// The body, until the code that reads it takes it.
    body: Option<RequestBody>,
    is_read: EndFlag,
    dialect: Arc<dyn Dialect>,
    /// The dialect that claims the request. It marks the reply, also to a request that is refused
    /// before it is routed.
    claiming: Option<Arc<dyn Dialect>>,
    /// The answer to a preflight or its refusal. It is given only after the stages that come before
    /// the stage `origin`.
    preflight: Answered,
    /// The headers that the reply needs for browsers.
    marks: Marks,
    record: RequestRecord,
    /// The drain of the server waits for this token.
    running: TaskTrackerToken,
}

impl Exchange {
    /// Reads the head of a request.
    fn begin<B>(server: Arc<ServerState>, mut head: Parts, body: B, record: RequestRecord) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // First, so that everything finds the session in one place, and the log shows no path with
        // an `upload_id`.
        if let Some(uri) = server.dialects.session_in_query(&head.uri) {
            head.uri = uri;
        }
        let mut context = context_of(&server, &head);
        let mut body = RequestBody::new(body, head.version, &head.headers, &server.settings.limits);
        let capacity = &server.capacity;
        let pools = [&capacity.connections, &capacity.requests, &capacity.uploads];
        if pools.into_iter().any(Pool::is_short) {
            body.hurry();
        }
        let table = &server.registry.on(context.host.as_ref()).table;
        let claiming = server.dialects.claiming_head(&head, table);
        let (preflight, marks) = cross_origin::examine(&server, &mut head, context.host.as_ref());
        marks.limit_authority(&mut head, &mut context);
        Self {
            dialect: server.dialects.default(),
            claiming,
            running: server.lifecycle.begin_request(),
            is_read: body.end_flag(),
            body: Some(body),
            server,
            head,
            context,
            preflight,
            marks,
            record,
        }
    }

    /// Returns the answer to the request, or `None` if the request is to be routed.
    async fn admit(&mut self, ticket: &mut Ticket) -> Answered {
        let mut arrival = Arrival {
            server: &self.server,
            head: &self.head,
            context: &self.context,
            body: self.body.as_mut().expect("nobody has taken the body yet"),
            answered: self.preflight.take(),
            marks: std::mem::take(&mut self.marks),
        };
        let answered = arrival.admit(ticket).await;
        self.marks = arrival.marks;
        answered
    }

    async fn route(&mut self, ticket: &mut Ticket) -> Result<Routing, Error> {
        route(
            &self.server,
            &mut self.head,
            &mut self.context,
            &mut self.dialect,
            &mut self.body,
            ticket,
            &self.record,
        )
        .await
    }

    async fn carry_out(&mut self, routing: Routing) -> Result<Reply, Error> {
        match routing {
            Routing::Answered(reply) => Ok(reply),
            Routing::Session(mut call) => {
                let interim = self.head.extensions.remove::<InterimReplies>();
                (self.head.headers, self.head.extensions) = Default::default();
                // The log needs only the path, and the query may be as long as a head.
                self.head.uri = self.head.uri.path().parse().unwrap_or_default();
                if let Some(body) = &mut self.body {
                    body.forget_head();
                }
                if let (Some(interim), Some(body)) = (interim, &mut self.body) {
                    call.report_progress(interim, &self.dialect, body);
                }
                let (server, dialect) = (&self.server, &*self.dialect);
                call.carry_out(server, dialect, &mut self.body, &self.record)
                    .await
            }
            Routing::Batch => {
                let (server, context) = (&self.server, &self.context);
                let (head, body) = (&mut self.head, &mut self.body);
                Box::pin(batch::answer(server, head, context, body, answer_call)).await
            }
        }
    }

    /// Completes the reply, and records it.
    fn reply(self, result: Result<Reply, Error>) -> Reply {
        let is_abandoned = result.as_ref().is_err_and(Error::is_abandoned);
        let is_broken_off = result.as_ref().is_err_and(Error::is_broken_off);
        let about = About {
            id: self.context.id,
            principal: self.context.principal,
            dialect: &*self.dialect,
            record: &self.record,
        };
        let is_read = self.is_read.is_sure();
        let mut reply = reply_to(&self.head, &about, &self.server, result, is_read);
        if is_broken_off {
            reply.extensions_mut().insert(ClientGone);
        }
        if let Some(claiming) = &self.claiming {
            claiming.mark(reply.headers_mut());
        }
        self.marks.add_to(&mut reply);
        let hsts = self.server.settings.hsts;
        reply::demand_https(&mut reply, &self.context.base_url, hsts);
        drop(self.running);
        // Otherwise the request is counted as aborted, although some such clients receive the
        // reply. A broken connection is not an error of the server.
        if !is_abandoned {
            self.record.answered(reply.status());
        }
        reply
    }
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
