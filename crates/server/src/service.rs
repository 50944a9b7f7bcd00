//! One request: routed, its parameters checked, carried out, answered.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Method as HttpMethod, Request, Response, StatusCode, Version};
use percent_encoding::percent_decode_str;
use tower_service::Service;
use windlass_discovery::{Found, Method, Target};
use windlass_proto::command::{
    Command, Framing, SessionHead, StartHead, command, effective_method,
};
use windlass_proto::error::ProtocolError;
use windlass_proto::header::X_GUPLOADER_UPLOADID;
use windlass_proto::metadata::parse_metadata;
use windlass_proto::parameters::{NotUtf8, Parameters, UploadId};
use windlass_proto::reply::{resume_incomplete, started};

use crate::auth::{Access, AccessError, AccessRequest};
use crate::body::RequestBody;
use crate::capacity::Full;
use crate::context::{Principal, RequestContext, RequestId};
use crate::error::Error;
use crate::origin::{LocalAddress, Origin};
use crate::parameters::check_parameters;
use crate::registry::{ServedMethod, VirtualHost};
use crate::reply::{Reply, ReplyBody};
use crate::resources::{CallHead, call};
use crate::uploads::ServerState;
use crate::uploads::finish::FinalReply;
use crate::uploads::request::UploadHead;
use crate::uploads::session::SessionReply;
use crate::{discovery_service, reply};

/// How long the readiness check waits for the ledger.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers the requests of a [`Server`](crate::Server). Clones answer for the same server.
///
/// It does not keep the server's stores open.
#[derive(Clone)]
pub struct UploadService {
    // Weak: an application may hold its routes longer than the server, and a connection whose client
    // does not take its reply holds a service.
    server: Weak<ServerState>,
}

impl UploadService {
    pub(crate) fn new(server: &Arc<ServerState>) -> Self {
        Self {
            server: Arc::downgrade(server),
        }
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

/// The reply when the server has been dropped.
fn gone(version: Version) -> Reply {
    let mut reply = reply::of_error(&Error::Draining);
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
    let (mut head, body) = request.into_parts();
    let mut context = context_of(&server, &head);
    let mut body = RequestBody::new(body, &head.headers, &server.settings.limits);
    let admitted = server.capacity.requests.take().and_then(|permit| {
        body.count(server.capacity.metadata.permit(), head_size(&head))?;
        Ok(permit)
    });
    let read_to_end = body.end_flag();
    let mut body = Some(body);
    let running = server.lifecycle.begin_request();
    async move {
        let refused = admitted.as_ref().err().copied();
        let routed = Box::pin(route(&server, &head, &mut context, &mut body, refused)).await;
        let RequestContext { id, principal, .. } = context;
        let result = match routed {
            Ok(Routing::Answered(reply)) => Ok(reply),
            Ok(Routing::Session(call)) => {
                (head.headers, head.extensions) = Default::default();
                if let Some(body) = &mut body {
                    body.forget_head();
                }
                call.carry_out(&server, &mut body).await
            }
            Err(error) => Err(error),
        };
        if let Some(mut unread) = body.take() {
            unread.finish_if_short().await;
        }
        let log = RequestLog { id, principal };
        let reply = reply_to(&head, &log, &server, result, read_to_end.is_set());
        drop(running);
        match admitted {
            Ok(permit) => reply::counted(reply, permit),
            Err(_) => reply,
        }
    }
}

fn context_of(server: &ServerState, head: &Parts) -> RequestContext {
    let local = head.extensions.get::<LocalAddress>().copied();
    let (settings, mount) = (&server.settings, &server.mount);
    let origin = Origin::of(settings, mount, &head.uri, &head.headers, local);
    let host = origin.host();
    let base_url = origin.base_url(server.registry.on(host.as_ref()).host());
    RequestContext::new(&head.extensions, host, base_url)
}

/// The part of a request's context that is logged with its reply.
struct RequestLog {
    id: RequestId,
    principal: Option<Principal>,
}

/// Estimated size of a head in memory, in bytes.
fn head_size(head: &Parts) -> u64 {
    const FIELD: usize = 128;
    let fields = head.headers.iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    let target = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    (fields.sum::<usize>() + target) as u64
}

/// The reply to a request whose body was read to its end, or was not.
fn reply_to(
    head: &Parts,
    log: &RequestLog,
    server: &ServerState,
    result: Result<Reply, Error>,
    is_read: bool,
) -> Reply {
    let mut reply = result.unwrap_or_else(|error| {
        server.lifecycle.examine(&error);
        tracing::debug!(id = %log.id, method = %head.method, path = head.uri.path(), %error, "refused");
        reply::of_error(&error)
    });
    let is_last = !is_read || server.lifecycle.is_draining();
    if is_last && head.version < Version::HTTP_2 {
        reply::close(&mut reply);
    }
    tracing::info!(
        id = %log.id,
        principal = log.principal.as_ref().map(Principal::id),
        method = %head.method,
        path = head.uri.path(),
        status = reply.status().as_u16(),
        "answered"
    );
    reply
}

/// The route of a request.
enum Routing {
    Answered(Reply),
    /// A session. The header fields are dropped: a slow upload would hold them for hours.
    Session(SessionCall),
}

async fn route(
    server: &Arc<ServerState>,
    head: &Parts,
    context: &mut RequestContext,
    body: &mut Option<RequestBody>,
    refused: Option<Full>,
) -> Result<Routing, Error> {
    match head.uri.path() {
        "/healthz" => return Ok(Routing::Answered(health(server))),
        "/readyz" => return Ok(Routing::Answered(readiness(server).await)),
        _ if server.lifecycle.has_failed() => return Err(Error::Draining),
        _ if !server.lifecycle.is_started() => return Err(Error::NotStarted),
        _ => {}
    }
    if let Some(full) = refused {
        return Err(full.into());
    }
    context.principal = authenticate(server, head, context).await?;
    let empty = body.as_ref().is_none_or(|body| body.end_flag().is_set());
    let framing = Framing::of(head.version, &head.headers, empty)?;
    check_path(head.uri.path())?;
    let query = Parameters::parse(head.uri.query())?;
    let virtual_host = server.registry.on(context.host.as_ref());
    let request = Routed {
        server,
        virtual_host,
        head,
        http_method: &effective_method(&head.method, &head.headers)?,
        query: &query,
        base_url: &context.base_url,
        principal: context.principal.as_ref(),
    };
    let path = head.uri.path();
    if let Some(reply) = discovery_service::answer(
        server,
        virtual_host,
        request.http_method,
        path,
        &query,
        request.base_url,
    ) {
        return reply.map(Routing::Answered);
    }
    let reply = match plain_path(path) {
        Some(plain) if query.upload_id().is_some() => {
            return request.session(plain, framing).map(Routing::Session);
        }
        Some(plain) => request.upload(plain, framing, body).await,
        None => Box::pin(request.call(body)).await,
    };
    reply.map(Routing::Answered)
}

/// Establishes who sends the request.
async fn authenticate(
    server: &ServerState,
    head: &Parts,
    context: &RequestContext,
) -> Result<Option<Principal>, AccessError> {
    let path = head.uri.path();
    let access = if discovery_service::has(path) {
        Access::Discovery
    } else if plain_path(path).is_some() && names_session(head.uri.query()) {
        Access::Session
    } else {
        Access::Call
    };
    let request = AccessRequest {
        access,
        http_method: &head.method,
        uri: &head.uri,
        headers: &head.headers,
        peer: context.peer,
        principal: context.principal.as_ref(),
    };
    server.authorize.authenticate(&request).await
}

/// Whether a query has an `upload_id`, as that of a session URI has.
fn names_session(query: Option<&str>) -> bool {
    Parameters::parse(query).is_ok_and(|query| query.upload_id().is_some())
}

/// No method has a path that is not UTF-8; a 404 would mean that the resource does not exist.
fn check_path(path: &str) -> Result<(), ProtocolError> {
    let decoded = percent_decode_str(path).decode_utf8();
    decoded.map(drop).map_err(|_| ProtocolError::PathNotUtf8)
}

/// The path of the resource that an upload path belongs to.
fn plain_path(path: &str) -> Option<&str> {
    let rest = path
        .strip_prefix("/resumable/upload")
        .or_else(|| path.strip_prefix("/upload"))?;
    rest.starts_with('/').then_some(rest)
}

/// Returns the parameters of a request on a download path, which has only media. The first of
/// several values counts.
fn for_media(query: Option<&str>) -> Result<Parameters, NotUtf8> {
    Parameters::parse(Some(&format!("alt=media&{}", query.unwrap_or_default())))
}

/// A request whose head has been read.
struct Routed<'a> {
    server: &'a Arc<ServerState>,
    /// The APIs that answer on the requested host.
    virtual_host: &'a VirtualHost,
    head: &'a Parts,
    http_method: &'a HttpMethod,
    query: &'a Parameters,
    base_url: &'a str,
    principal: Option<&'a Principal>,
}

impl Routed<'_> {
    /// Refuses a call that the principal may not make.
    async fn authorize(&self, method: &Method) -> Result<(), AccessError> {
        let authorize = &self.server.authorize;
        authorize.authorize(self.principal, method).await
    }

    async fn call(&self, body: &mut Option<RequestBody>) -> Result<Reply, Error> {
        let path = self.head.uri.path();
        // HEAD is a GET whose body is left out.
        let http_method = if *self.http_method == HttpMethod::HEAD {
            &HttpMethod::GET
        } else {
            self.http_method
        };
        let (method, target, parameters) = match self.virtual_host.table.find(http_method, path) {
            Found::Method {
                method,
                target,
                parameters,
            } => (method, target, parameters),
            Found::WrongHttpMethod { allowed } => return Err(Error::MethodNotAllowed { allowed }),
            Found::Nothing => return Err(no_such(path)),
        };
        self.authorize(method).await?;
        check_parameters(method, &parameters, self.query)?;
        let for_media = match target {
            Target::Download => Some(for_media(self.head.uri.query())?),
            Target::Plain | Target::Upload => None,
        };
        let head = CallHead {
            method: self.virtual_host.of(method),
            raw_path: path,
            path: &parameters,
            query: for_media.as_ref().unwrap_or(self.query),
            http_method: self.http_method,
            headers: &self.head.headers,
            base_url: self.base_url,
            principal: self.principal,
        };
        let body = body.as_mut().expect("nobody has taken the body yet");
        call(self.server, head, body).await
    }

    async fn upload(
        &self,
        plain: &str,
        framing: Framing,
        body: &mut Option<RequestBody>,
    ) -> Result<Reply, Error> {
        let method = self.upload_method(plain).await?;
        let upload = UploadHead {
            method,
            http_method: self.http_method,
            path: plain,
            query: self.query,
            base_url: self.base_url,
            headers: &self.head.headers,
            principal: self.principal,
        };
        let command = command(self.http_method, self.query, &self.head.headers, framing)?;
        match command {
            Command::Simple(simple) => {
                let reply = Box::pin(self.server.simple(&upload, simple, take(body))).await?;
                Ok(final_reply(reply))
            }
            Command::Multipart(multipart) => {
                let reply = Box::pin(self.server.multipart(&upload, multipart, take(body))).await?;
                Ok(final_reply(reply))
            }
            Command::Start(start) => Box::pin(self.start(&upload, start, body)).await,
            Command::Session(_) | Command::Cancel { .. } => {
                unreachable!("a request with an upload_id was routed to its session")
            }
        }
    }

    async fn upload_method(&self, plain: &str) -> Result<ServedMethod<'_>, Error> {
        let path = self.head.uri.path();
        match self.virtual_host.table.find(self.http_method, path) {
            Found::Method {
                method, parameters, ..
            } => {
                self.authorize(method).await?;
                check_parameters(method, &parameters, self.query)?;
                Ok(self.virtual_host.of(method))
            }
            Found::WrongHttpMethod { allowed } => Err(Error::MethodNotAllowed { allowed }),
            Found::Nothing => {
                let mut methods = self.virtual_host.table.methods_at(plain);
                Err(match methods.find(|method| method.upload.is_none()) {
                    Some(method) => Error::NotUpload {
                        method: method.id.clone(),
                    },
                    None => no_such(path),
                })
            }
        }
    }

    async fn start(
        &self,
        upload: &UploadHead<'_>,
        start: StartHead,
        body: &mut Option<RequestBody>,
    ) -> Result<Reply, Error> {
        let declared = start.declared_total();
        let body = body.as_mut().expect("nobody has taken the body yet");
        let metadata = body
            .collect_json(self.server.settings.limits.metadata)
            .await?;
        let metadata = parse_metadata(&metadata)?;
        let request = upload.with_body(&metadata, start.content_type, start.expected)?;
        let upload_id = self.server.start(request, declared).await?;
        let path = self.head.uri.path();
        let location = format!(
            "{}{path}?uploadType=resumable&upload_id={upload_id}",
            self.base_url
        );
        let invalid = |_| no_such(path);
        let location = HeaderValue::try_from(location).map_err(invalid)?;
        let upload_id = HeaderValue::try_from(upload_id).map_err(invalid)?;
        Ok(reply::of_protocol(started(location, upload_id)))
    }

    fn session(&self, plain: &str, framing: Framing) -> Result<SessionCall, Error> {
        let plain = plain.to_owned();
        match command(self.http_method, self.query, &self.head.headers, framing)? {
            Command::Session(session) => Ok(SessionCall::Continue {
                session: Box::new(session),
                plain,
            }),
            Command::Cancel { upload_id } => Ok(SessionCall::Cancel { upload_id, plain }),
            Command::Simple(_) | Command::Multipart(_) | Command::Start(_) => {
                unreachable!("a request with an upload_id addresses a session")
            }
        }
    }
}

/// Routes a request to a session; `plain` is the path without the upload prefix.
enum SessionCall {
    Continue {
        session: Box<SessionHead>,
        plain: String,
    },
    Cancel {
        upload_id: UploadId,
        plain: String,
    },
}

impl SessionCall {
    async fn carry_out(
        self,
        server: &Arc<ServerState>,
        body: &mut Option<RequestBody>,
    ) -> Result<Reply, Error> {
        let (upload_id, no_308, result) = match self {
            Self::Continue { session, plain } => {
                let (upload_id, no_308) = (session.upload_id.clone(), session.no_308);
                let result = server.continue_session(session, plain, body).await;
                (upload_id, no_308, result)
            }
            Self::Cancel { upload_id, plain } => {
                let result = Box::pin(server.cancel(&upload_id, plain)).await;
                (upload_id, false, result)
            }
        };
        let mut reply = match result? {
            SessionReply::Committed(offset) => {
                reply::of_protocol(resume_incomplete(offset, no_308))
            }
            SessionReply::Final(reply) => final_reply(reply),
        };
        if let Ok(upload_id) = HeaderValue::try_from(upload_id.as_str()) {
            reply.headers_mut().insert(X_GUPLOADER_UPLOADID, upload_id);
        }
        Ok(reply)
    }
}

fn take(body: &mut Option<RequestBody>) -> RequestBody {
    body.take().expect("nobody has taken the body yet")
}

fn final_reply(reply: FinalReply) -> Reply {
    reply::stored_json(reply.status, reply.body)
}

fn no_such(path: &str) -> Error {
    Error::NoSuchPath {
        path: path.to_owned(),
    }
}

/// Liveness check: fails after a storage failure.
fn health(server: &ServerState) -> Reply {
    if server.lifecycle.has_failed() {
        plain(StatusCode::SERVICE_UNAVAILABLE, "storage failed\n")
    } else {
        plain(StatusCode::OK, "ok\n")
    }
}

/// Readiness check: succeeds while new uploads are accepted.
async fn readiness(server: &ServerState) -> Reply {
    let check = tokio::time::timeout(READY_TIMEOUT, server.ledger.check());
    let unready = match server.admit_upload() {
        _ if !server.lifecycle.is_started() => Some(Error::NotStarted.to_string()),
        Err(error) => Some(server.disks.shortage().unwrap_or_else(|| error.to_string())),
        Ok(()) if server.lifecycle.has_failed() => Some("storage failed".to_owned()),
        Ok(()) => match check.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the ledger does not answer".to_owned()),
        },
    };
    match unready {
        None => plain(StatusCode::OK, "ready\n"),
        Some(why) => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {why}\n"),
        ),
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    reply::reply(
        status,
        HeaderValue::from_static("text/plain; charset=utf-8"),
        text.into(),
    )
}
