//! Batches: several calls in one request (docs/protocol.md, 2.19).
//!
//! Each call is answered like a separate request, with separate authentication, limits, metrics and
//! log line. This module turns the parts of a batch into requests, and their replies into a stream.
//! A call is carried out when the connection asks for its part of the reply, which happens after
//! the connection has sent the earlier parts. A batch therefore holds one reply at a time. Layers
//! around the service see only the batch.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE, TRAILER};
use http::header::{TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::ext::ReasonPhrase;
use windlass_engine::identifiers::random_number;
use windlass_engine::{Error as EngineError, Permit};
use windlass_proto::batch::{self, Call};
use windlass_proto::command::ContentCoding;
use windlass_proto::dialect::Google;
use windlass_rest::host::Host;
use windlass_rest::reply_pools::SHORT_REPLY;

use crate::body::RequestBody;
use crate::context::{RequestContext, RequestId};
use crate::error::Error;
use crate::reply::{self, Reply};
use crate::state::ServerState;

/// Approximate memory of a header field of a call in bytes, besides its text.
const FIELD_MEMORY: usize = 128;

/// Marks the request of a call in a batch, as an extension of the request.
#[derive(Debug, Clone, Copy)]
struct InBatch;

/// Whether a request is a call in a batch.
pub(crate) fn is_inside(head: &Parts) -> bool {
    head.extensions.get::<InBatch>().is_some()
}

/// Answers a call of a batch. The arguments are the head of its request, and its body or its
/// refusal.
pub(crate) type AnswerCall =
    fn(Arc<ServerState>, Parts, Result<Bytes, Error>) -> BoxFuture<'static, Reply>;

/// Begins to answer a batch. If the batch is well-formed, this takes the body, and the headers and
/// extensions of the head. The calls are carried out while the reply is read.
///
/// If the reply is dropped, the running call is cancelled like a request with a client that has
/// gone, and later calls are not begun.
///
/// # Cancel safety
/// If the future is dropped, no call is begun.
pub(crate) async fn answer(
    server: &Arc<ServerState>,
    head: &mut Parts,
    context: &RequestContext,
    body: &mut Option<RequestBody>,
    answer: AnswerCall,
) -> Result<Reply, Error> {
    let unread = body.as_mut().expect("nobody has taken the body yet");
    let calls = read_calls(server, head, unread).await?;
    // Random, so that no text in a reply can contain it.
    let boundary = format!("batch_{:016x}{:016x}", random_number(), random_number());
    let content_type = HeaderValue::try_from(format!("multipart/mixed; boundary={boundary}"));
    let content_type = content_type.expect("the boundary is letters and digits");
    let (mut shared, ()) = Request::new(()).into_parts();
    shared.uri = head.uri.clone();
    (shared.headers, shared.extensions) = (
        std::mem::take(&mut head.headers),
        std::mem::take(&mut head.extensions),
    );
    let batch = Batch {
        server: Arc::downgrade(server),
        answer,
        head: shared,
        id: context.id.clone(),
        host: context.host.clone(),
        base_url: context.base_url.parse().unwrap_or_default(),
        calls: calls.into_iter(),
        begun: 0,
        boundary: Some(boundary),
        _memory: body.take().and_then(RequestBody::into_permit),
    };
    let parts = stream::unfold(batch, |mut batch| async {
        let part = batch.next_part().await?;
        Some((stream::iter(part), batch))
    });
    let frames = parts.flatten().map(|bytes| Ok(Frame::data(bytes)));
    let mut reply = Response::new(StreamBody::new(frames).boxed_unsync());
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(reply)
}

async fn read_calls(
    server: &ServerState,
    head: &Parts,
    body: &mut RequestBody,
) -> Result<Vec<Call>, Error> {
    let boundary = batch::boundary(&head.headers)?;
    ContentCoding::from_headers(&head.headers)?;
    let limit = server.settings.limits.metadata;
    let mut text = Vec::new();
    while body.append(&mut text, limit).await? {
        body.set_held_bytes(text.capacity() as u64)?;
    }
    let len = text.len();
    // The parts are a copy.
    body.set_held_bytes(2 * len as u64)?;
    let calls = batch::calls(text.into(), boundary, server.settings.limits.part_headers)?;
    let fields: usize = calls.iter().map(|call| call.headers.len()).sum();
    body.set_held_bytes((len + fields * FIELD_MEMORY) as u64)?;
    Ok(calls)
}

/// A batch while its reply is being read.
struct Batch {
    // Weak, as in the service: a client that does not read its reply must not keep the stores open.
    server: Weak<ServerState>,
    answer: AnswerCall,
    /// Target, headers and extensions of the batch.
    head: Parts,
    id: RequestId,
    /// Host that the client asked for.
    host: Option<Host>,
    base_url: Uri,
    calls: std::vec::IntoIter<Call>,
    /// Number of calls that were begun.
    begun: usize,
    /// `None` after the last delimiter.
    boundary: Option<String>,
    /// The permit for the memory of the head and of the calls.
    _memory: Option<Permit>,
}

impl Batch {
    /// Carries out the next call and returns its part of the reply. Returns the end of the reply
    /// after the last call, and then `None`.
    async fn next_part(&mut self) -> Option<Vec<Bytes>> {
        let Some(call) = self.calls.next() else {
            let boundary = self.boundary.take()?;
            return Some(vec![format!("--{boundary}--\r\n").into()]);
        };
        self.begun += 1;
        let is_head = call.http_method == Method::HEAD;
        let content_id = call.content_id.clone();
        let reply = self.reply_to(call).await;
        let boundary = self.boundary.as_deref().unwrap_or_default();
        Some(part(boundary, content_id.as_deref(), reply, is_head).await)
    }

    async fn reply_to(&self, call: Call) -> Reply {
        let Some(server) = self.server.upgrade() else {
            return reply::of_error(&Google, &EngineError::Draining.into());
        };
        let (request, refused) = self.request_of(&server, &call);
        (self.answer)(server, request, refused.map_or(Ok(call.body), Err)).await
    }

    /// Returns the head of the request in a call, and an error if the call is refused.
    fn request_of(&self, server: &ServerState, call: &Call) -> (Parts, Option<Error>) {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = call.http_method.clone();
        let is_refused = |name: &HeaderName| server.registry.refuses_header(name);
        head.headers = headers_of(&self.head.headers, call, is_refused);
        head.extensions = self.head.extensions.clone();
        head.extensions.insert(InBatch);
        let id = RequestId::new(format!("{}.{}", self.id, self.begun));
        head.extensions.insert(id);
        let target = self.check(server, call);
        let target = target.and_then(|()| target_of(&self.head, &self.base_url, &call.target));
        match target {
            Ok(target) => {
                head.uri = target;
                (head, None)
            }
            Err(error) => {
                head.uri = call.target.clone();
                (head, Some(error))
            }
        }
    }

    fn check(&self, server: &ServerState, call: &Call) -> Result<(), Error> {
        // The reply lasts as long as its client reads. The stop of the server does not wait for
        // that.
        if server.lifecycle.is_draining() {
            return Err(EngineError::Draining.into());
        }
        if server.dialects.claim_headers(&call.headers) {
            return Err(Error::MediaInBatch);
        }
        check_host(self.host.as_ref(), &self.base_url, call)
    }
}

/// Refuses a call that names another host than its batch.
fn check_host(host: Option<&Host>, base_url: &Uri, call: &Call) -> Result<(), Error> {
    let known = [host.cloned(), base_url.authority().and_then(Host::of)];
    let header = call.headers.get(HOST).and_then(|host| host.to_str().ok());
    let header = header.and_then(|host| host.parse::<Authority>().ok());
    let mut named = call.target.authority().into_iter().chain(&header);
    let is_other = |host: Option<Host>| host.is_none() || !known.contains(&host);
    match named.find(|authority| is_other(Host::of(authority))) {
        Some(other) => Err(Error::OtherHost {
            host: other.host().to_owned(),
        }),
        None => Ok(()),
    }
}

/// Returns a path, with its query, without the path under which the server is mounted. Clients write
/// both.
pub(crate) fn without_mount<'a>(base_url: &Uri, path: &'a str) -> &'a str {
    let mount = base_url.path().trim_end_matches('/');
    let mounted = path.strip_prefix(mount).filter(|it| it.starts_with('/'));
    mounted.unwrap_or(path)
}

/// Returns the target of a call at the origin of its batch. Clients write the path as they know it,
/// including the path under which the server is mounted.
fn target_of(batch: &Parts, base_url: &Uri, target: &Uri) -> Result<Uri, Error> {
    let path = target.path_and_query().map_or("/", |path| path.as_str());
    let path = without_mount(base_url, path);
    let no_such = || Error::NoSuchPath {
        path: path.to_owned(),
    };
    let mut parts = batch.uri.clone().into_parts();
    parts.path_and_query = Some(path.parse().map_err(|_| no_such())?);
    Uri::from_parts(parts).map_err(|_| no_such())
}

/// Returns the headers of a call: the headers in its part, and headers of the batch. A header that
/// an API refuses is included, so that the call is refused.
fn headers_of(
    batch: &HeaderMap,
    call: &Call,
    is_refused: impl Fn(&HeaderName) -> bool,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &call.headers {
        if is_own(name) || (is_refused(name) && !is_of_proxy(name)) {
            headers.append(name.clone(), value.clone());
        }
    }
    for name in batch.keys().filter(|name| is_shared(name)) {
        if !headers.contains_key(name) {
            for value in batch.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
    }
    headers.insert(CONTENT_LENGTH, call.body.len().into());
    headers
}

/// Whether a header is taken from the part of a call. A proxy in front of the server sees only the
/// batch, so headers that a trusted proxy may set must not come from a part.
fn is_own(name: &HeaderName) -> bool {
    let name = name.as_str();
    let single = [
        "accept",
        "accept-language",
        "authorization",
        "x-http-method-override",
    ];
    let prefixes = ["content-", "if-", "x-goog-if-"];
    single.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether Google's proxies set the header to name the principal. An API may refuse all of
/// `x-goog-*`.
fn is_of_proxy(name: &HeaderName) -> bool {
    let name = name.as_str();
    let prefixes = ["x-goog-authenticated-", "x-goog-iap-", "x-forwarded-"];
    name == HOST || name == "forwarded" || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a header of the batch applies to its calls as well.
fn is_shared(name: &HeaderName) -> bool {
    let is_of_message = name.as_str().starts_with("content-")
        || name == "x-http-method-override"
        || [CONNECTION, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name);
    !is_of_message
}

/// Returns the part with the reply to a call. The permit for the bytes of a long body is attached
/// to the bytes.
async fn part(boundary: &str, content_id: Option<&str>, reply: Reply, is_head: bool) -> Vec<Bytes> {
    let (head, mut body) = reply.into_parts();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("only media breaks off, and a batch has none");
        frames.extend(frame.into_data());
    }
    let mut length = Some(frames.iter().map(Bytes::len).sum());
    if is_head && length > Some(0) {
        // As in the reply to a single HEAD request: the length is the length of the omitted body.
        (length, frames) = (None, Vec::new());
    }
    let mut text = part_head(boundary, content_id, &head, length);
    if length.is_none_or(|length| length <= SHORT_REPLY) {
        text.extend(frames.iter().flatten());
        text.extend_from_slice(b"\r\n");
        return vec![text.into()];
    }
    frames.insert(0, text.into());
    frames.push(Bytes::from_static(b"\r\n"));
    frames
}

/// Returns the head of a part. `length` is the length of the body, if it is stated.
fn part_head(
    boundary: &str,
    content_id: Option<&str>,
    reply: &http::response::Parts,
    length: Option<usize>,
) -> Vec<u8> {
    let mut text = format!("--{boundary}\r\nContent-Type: application/http\r\n").into_bytes();
    if let Some(content_id) = content_id {
        let id = batch::response_id(content_id);
        text.extend_from_slice(format!("Content-ID: {id}\r\n").as_bytes());
    }
    let status = reply.status;
    text.extend_from_slice(format!("\r\nHTTP/1.1 {} ", status.as_str()).as_bytes());
    let canonical = status.canonical_reason().unwrap_or("Unknown");
    let reason = reply.extensions.get::<ReasonPhrase>();
    text.extend_from_slice(reason.map_or(canonical.as_bytes(), ReasonPhrase::as_bytes));
    for (name, value) in &reply.headers {
        if name != CONTENT_LENGTH && name != CONNECTION {
            text.extend_from_slice(format!("\r\n{name}: ").as_bytes());
            text.extend_from_slice(value.as_bytes());
        }
    }
    // Sent even with 204, which would otherwise have no header in its head. Python's library needs
    // one.
    if let Some(length) = length {
        text.extend_from_slice(format!("\r\ncontent-length: {length}").as_bytes());
    }
    text.extend_from_slice(b"\r\n\r\n");
    text
}

#[cfg(test)]
mod tests;
