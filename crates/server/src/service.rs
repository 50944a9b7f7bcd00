//! One request: routed, its parameters checked, carried out, answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method as HttpMethod, Request, StatusCode, Version};
use percent_encoding::percent_decode_str;
use windlass_discovery::{Found, Location, Method, Numbers, Parameter, PathParameters, Target};
use windlass_proto::command::{
    Command, Framing, SessionHead, StartHead, command, effective_method,
};
use windlass_proto::error::ProtocolError;
use windlass_proto::header::X_GUPLOADER_UPLOADID;
use windlass_proto::metadata::parse_metadata;
use windlass_proto::parameters::{NotUtf8, Parameters, UploadId};
use windlass_proto::reply::{resume_incomplete, started};

use crate::body::RequestBody;
use crate::capacity::Full;
use crate::error::Error;
use crate::handler::Rejection;
use crate::origin::{LocalAddress, Origin};
use crate::registry::{ServedMethod, VirtualHost};
use crate::reply::Reply;
use crate::resources::{CallHead, call};
use crate::uploads::ServerState;
use crate::uploads::finish::FinalReply;
use crate::uploads::request::UploadHead;
use crate::uploads::session::SessionReply;
use crate::{discovery_service, reply};

/// How long the readiness check waits for the ledger.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers a request. Every outcome, including an error, has a reply.
pub(crate) fn answer<B>(
    server: Arc<ServerState>,
    request: Request<B>,
) -> impl Future<Output = Reply> + Send + 'static
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut head, body) = request.into_parts();
    let mut body = RequestBody::new(body, &head.headers, &server.settings.limits);
    let admitted = server.capacity.requests.take().and_then(|permit| {
        body.count(server.capacity.metadata.permit(), head_size(&head))?;
        Ok(permit)
    });
    let read_to_end = body.end_flag();
    let mut body = Some(body);
    async move {
        let refused = admitted.as_ref().err().copied();
        let result = match Box::pin(route(&server, &head, &mut body, refused)).await {
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
        let reply = reply_to(&head, &server, result, read_to_end.is_set());
        match admitted {
            Ok(permit) => reply::counted(reply, permit),
            Err(_) => reply,
        }
    }
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
    server: &ServerState,
    result: Result<Reply, Error>,
    is_read: bool,
) -> Reply {
    let mut reply = result.unwrap_or_else(|error| {
        server.lifecycle.examine(&error);
        tracing::debug!(method = %head.method, path = head.uri.path(), %error, "refused");
        reply::of_error(&error)
    });
    let is_last = !is_read || server.lifecycle.is_draining();
    if is_last && head.version < Version::HTTP_2 {
        reply::close(&mut reply);
    }
    tracing::info!(
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
    body: &mut Option<RequestBody>,
    refused: Option<Full>,
) -> Result<Routing, Error> {
    match head.uri.path() {
        "/healthz" => return Ok(Routing::Answered(health(server))),
        "/readyz" => return Ok(Routing::Answered(readiness(server).await)),
        _ if server.lifecycle.has_failed() => return Err(Error::Draining),
        _ => {}
    }
    if let Some(full) = refused {
        return Err(full.into());
    }
    let empty = body.as_ref().is_none_or(|body| body.end_flag().is_set());
    let framing = Framing::of(head.version, &head.headers, empty)?;
    check_path(head.uri.path())?;
    let query = Parameters::parse(head.uri.query())?;
    let local = head.extensions.get::<LocalAddress>().copied();
    let origin = Origin::of(&server.settings, &head.uri, &head.headers, local);
    let virtual_host = server.registry.on(origin.host().as_ref());
    let request = Routed {
        server,
        virtual_host,
        head,
        http_method: &effective_method(&head.method, &head.headers)?,
        query: &query,
        base_url: &origin.base_url(virtual_host.host()),
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
}

impl Routed<'_> {
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
        let method = self.upload_method(plain)?;
        let upload = UploadHead {
            method,
            http_method: self.http_method,
            path: plain,
            query: self.query,
            base_url: self.base_url,
            headers: &self.head.headers,
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

    fn upload_method(&self, plain: &str) -> Result<ServedMethod<'_>, Error> {
        let path = self.head.uri.path();
        match self.virtual_host.table.find(self.http_method, path) {
            Found::Method {
                method, parameters, ..
            } => {
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

/// Refuses a call whose parameters are missing or contradict the description. Unknown parameters
/// are ignored, since clients append their own.
///
/// If the description marks a parameter as repeated, all of its values count, else the first one.
fn check_parameters(
    method: &Method,
    path: &PathParameters,
    query: &Parameters,
) -> Result<(), Rejection> {
    let mut parameters = method.parameters.iter();
    parameters.try_for_each(|parameter| {
        let checked = match parameter.location {
            Location::Path => check_values(parameter, path.value(&parameter.name)),
            Location::Query => check_values(parameter, values_of(parameter, query)),
        };
        checked.map_err(|problem| Rejection::InvalidParameter {
            parameter: parameter.name.clone(),
            problem,
        })
    })
}

fn values_of<'a>(parameter: &'a Parameter, query: &'a Parameters) -> impl Iterator<Item = &'a str> {
    let values = query.iter().filter(|(name, _)| *name == parameter.name);
    let most = if parameter.repeated { usize::MAX } else { 1 };
    values.map(|(_, value)| value).take(most)
}

fn check_values<'a>(
    parameter: &Parameter,
    values: impl IntoIterator<Item = &'a str>,
) -> Result<(), String> {
    let mut values = values.into_iter().peekable();
    if parameter.required && values.peek().is_none() {
        return Err("is required".to_owned());
    }
    values.try_for_each(|value| check_value(parameter, value))
}

fn check_value(parameter: &Parameter, value: &str) -> Result<(), String> {
    let allowed = &parameter.allowed_values;
    if !allowed.is_empty() && !allowed.iter().any(|allowed| allowed == value) {
        return Err(format!("must be one of {}", allowed.join(", ")));
    }
    match &parameter.numbers {
        Some(numbers) => check_number(parameter, numbers, value)?,
        None if parameter.json_type == "boolean" => check_boolean(value)?,
        None => {}
    }
    match &parameter.pattern {
        Some(pattern) if !pattern.fits(value) => {
            Err(format!("must match the pattern {}", pattern.as_str()))
        }
        _ => Ok(()),
    }
}

fn check_number(parameter: &Parameter, numbers: &Numbers, value: &str) -> Result<(), String> {
    let no_number = || {
        let format = parameter.format.as_ref();
        // A string of the format int64 is a number; the error says so.
        let of_strings = format.filter(|_| parameter.json_type == "string");
        let expected = of_strings.unwrap_or(&parameter.json_type);
        format!("must be of type {expected}")
    };
    let (allowed, least, greatest) = match numbers {
        Numbers::Whole(range) => {
            let number: i128 = value.parse().map_err(|_| no_number())?;
            (
                range.contains(&number),
                range.start().to_string(),
                range.end().to_string(),
            )
        }
        Numbers::Real(range) => {
            let number: f64 = value.parse().map_err(|_| no_number())?;
            (
                range.contains(&number),
                range.start().to_string(),
                range.end().to_string(),
            )
        }
    };
    if allowed {
        Ok(())
    } else {
        Err(format!("must be from {least} to {greatest}"))
    }
}

/// An empty value is a flag without a value, as in `?prettyPrint`. Case does not matter: Python's
/// library writes `True`.
fn check_boolean(value: &str) -> Result<(), String> {
    if matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "false" | "1" | "0" | ""
    ) {
        Ok(())
    } else {
        Err("must be of type boolean".to_owned())
    }
}

#[cfg(test)]
mod tests;
