//! Batches: several calls in one request (docs/protocol.md, 2.19).
//!
//! Each call is answered as a request of its own would be, with its own authentication, limits, line in
//! the log and metrics. This module makes requests of the parts of a batch, one after the other, and
//! one reply of their replies. Layers around the service see the batch alone.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE, TRAILER};
use http::header::{TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::ext::ReasonPhrase;
use windlass_proto::batch::{self, Call};
use windlass_proto::command::ContentCoding;
use windlass_proto::dialect::Google;

use crate::body::RequestBody;
use crate::capacity::{Full, Permit, Pool, SHORT_REPLY};
use crate::context::{Host, RequestContext, RequestId};
use crate::error::Error;
use crate::identifiers::random_number;
use crate::reply::{self, Reply};
use crate::uploads::ServerState;

/// Approximate memory of a header field of a call in bytes, besides its text.
const FIELD_MEMORY: usize = 128;

/// Maximum number of bytes that a part of the reply has besides its body and its `Content-ID`.
const PART_HEAD: usize = 1024;

/// Marks the request of a call in a batch, as an extension of the request.
#[derive(Debug, Clone, Copy)]
struct InBatch;

/// Whether a request is a call in a batch.
pub(crate) fn is_inside(head: &Parts) -> bool {
    head.extensions.get::<InBatch>().is_some()
}

/// Answers a batch; `answer` answers one of its calls.
///
/// # Cancel safety
/// If the future is dropped, the call that is being answered is cancelled like a request whose client
/// has gone, and the calls after it are not begun.
pub(crate) async fn answer(
    server: &ServerState,
    head: &Parts,
    context: &RequestContext,
    body: &mut RequestBody,
    answer: impl Fn(Parts, Bytes) -> BoxFuture<'static, Reply>,
) -> Result<Reply, Error> {
    let calls = read_calls(server, head, body).await?;
    // Before the first call: afterwards no reply may be left out for lack of memory.
    let mut replies = Replies::reserve(&server.capacity.replies, &calls)?;
    for (index, call) in calls.into_iter().enumerate() {
        let reply = match request_of(server, head, context, &call, index + 1) {
            Ok(request) => answer(request, call.body).await,
            Err(error) => reply::of_error(&Google, &error),
        };
        replies.push(call.content_id.as_deref(), reply).await;
    }
    Ok(replies.finish())
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
    let calls = batch::calls(text.into(), boundary)?;
    let fields: usize = calls.iter().map(|call| call.headers.len()).sum();
    body.set_held_bytes((len + fields * FIELD_MEMORY) as u64)?;
    Ok(calls)
}

/// Returns the head of the request that the call `number` stands for.
fn request_of(
    server: &ServerState,
    batch: &Parts,
    context: &RequestContext,
    call: &Call,
    number: usize,
) -> Result<Parts, Error> {
    if server.dialects.claiming(&call.headers).is_some() {
        return Err(Error::MediaInBatch);
    }
    let base_url: Uri = context.base_url.parse().unwrap_or_default();
    check_host(context, &base_url, call)?;
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = call.http_method.clone();
    head.uri = target_of(batch, &base_url, &call.target)?;
    head.headers = headers_of(&batch.headers, call);
    head.extensions = batch.extensions.clone();
    head.extensions.insert(InBatch);
    let id = RequestId::new(format!("{}.{number}", context.id));
    head.extensions.insert(id);
    Ok(head)
}

/// Refuses a call that names another host than its batch was sent to.
fn check_host(context: &RequestContext, base_url: &Uri, call: &Call) -> Result<(), Error> {
    let known = [
        context.host.clone(),
        base_url.authority().and_then(Host::of),
    ];
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

/// Returns the target of a call at the origin of its batch. Clients write the path as they know it, that
/// is with the one under which the server is mounted.
fn target_of(batch: &Parts, base_url: &Uri, target: &Uri) -> Result<Uri, Error> {
    let path = target.path_and_query().map_or("/", |path| path.as_str());
    let mount = base_url.path().trim_end_matches('/');
    let mounted = path.strip_prefix(mount).filter(|it| it.starts_with('/'));
    let path = mounted.unwrap_or(path);
    let no_such = || Error::NoSuchPath {
        path: path.to_owned(),
    };
    let mut parts = batch.uri.clone().into_parts();
    parts.path_and_query = Some(path.parse().map_err(|_| no_such())?);
    Uri::from_parts(parts).map_err(|_| no_such())
}

/// Returns the headers of a call: its own, and those of the batch.
fn headers_of(batch: &HeaderMap, call: &Call) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &call.headers {
        if is_own(name) {
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

/// Whether a header is taken from the head of a call. A proxy in front of the server sees the batch
/// alone, so what such a proxy may be trusted to set must not come from here.
fn is_own(name: &HeaderName) -> bool {
    let name = name.as_str();
    let single = [
        "accept",
        "accept-language",
        "authorization",
        "x-http-method-override",
    ];
    single.contains(&name) || name.starts_with("content-") || name.starts_with("if-")
}

/// Whether a header of the batch is one of its calls, too.
fn is_shared(name: &HeaderName) -> bool {
    let is_of_message = name.as_str().starts_with("content-")
        || name == "x-http-method-override"
        || [CONNECTION, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name);
    !is_of_message
}

/// The reply to a batch as it grows.
struct Replies {
    boundary: String,
    segments: Vec<Bytes>,
    /// For everything but large bodies, which have their own.
    permit: Permit,
    /// Number of bytes that the permit is for.
    len: usize,
}

impl Replies {
    /// Takes memory for the replies to these calls, as far as they do not count themselves.
    fn reserve(pool: &Pool, calls: &[Call]) -> Result<Self, Full> {
        let ids = calls.iter().filter_map(|call| call.content_id.as_ref());
        let ids: usize = ids.map(String::len).sum();
        let mut permit = pool.permit();
        permit.resize((ids + calls.len() * (SHORT_REPLY + PART_HEAD)) as u64)?;
        Ok(Self {
            // Random, so that no text in a reply can contain it.
            boundary: format!("batch_{:016x}{:016x}", random_number(), random_number()),
            segments: Vec::new(),
            permit,
            len: 0,
        })
    }

    /// Adds the reply to the next call.
    async fn push(&mut self, content_id: Option<&str>, reply: Reply) {
        let (head, mut body) = reply.into_parts();
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.expect("only media breaks off, and a batch has none");
            frames.extend(frame.into_data());
        }
        let length: usize = frames.iter().map(Bytes::len).sum();
        let text = part_head(&self.boundary, content_id, &head, length);
        self.len += text.len() + if length > SHORT_REPLY { 0 } else { length };
        self.segments.push(text.into());
        self.segments.extend(frames);
        self.segments.push(Bytes::from_static(b"\r\n"));
    }

    fn finish(self) -> Reply {
        let Self {
            boundary,
            mut segments,
            mut permit,
            len,
        } = self;
        // Less than before, so it cannot fail.
        permit.resize(len as u64).ok();
        let end = Bytes::from(format!("--{boundary}--\r\n"));
        segments.push(permit.with(end));
        let length: usize = segments.iter().map(Bytes::len).sum();
        let frames = segments.into_iter().map(|segment| Ok(Frame::data(segment)));
        let mut reply = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
        let content_type = HeaderValue::try_from(format!("multipart/mixed; boundary={boundary}"));
        let content_type = content_type.expect("the boundary is letters and digits");
        reply.headers_mut().insert(CONTENT_TYPE, content_type);
        reply.headers_mut().insert(CONTENT_LENGTH, length.into());
        reply
    }
}

/// Returns a part of the reply up to the body of a reply of this length.
fn part_head(
    boundary: &str,
    content_id: Option<&str>,
    reply: &http::response::Parts,
    length: usize,
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
    // Also with 204, whose head would have no header otherwise: Python's library needs one.
    text.extend_from_slice(format!("\r\ncontent-length: {length}\r\n\r\n").as_bytes());
    text
}

#[cfg(test)]
mod tests;
