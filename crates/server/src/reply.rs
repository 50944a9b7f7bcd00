//! Replies: their bodies, their headers, JSON and errors.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER,
    STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::ext::ReasonPhrase;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Map, Value, json};
use windlass_proto::dialect::Dialect;
use windlass_proto::error::ProtocolError;
use windlass_proto::reply::{ErrorReply, Form, Location, ReplyHead};
use windlass_rest::handler::Rejection;
use windlass_rest::host::Host;

use crate::error::{Error, error_reply};

/// The body of a reply.
pub type ReplyBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A reply.
pub(crate) type Reply = Response<ReplyBody>;

/// Marks a reply that cannot be delivered, as an extension of it: the client has broken off its
/// request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientGone;

/// The type of JSON replies.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// The type of a problem (RFC 9457).
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

// An error document contains the message twice, and the message may contain text of the client. The
// document must stay short (`SHORT_REPLY`), because its memory is not counted.
/// Maximum length in bytes of the message of an error, as it is written in JSON.
const MAX_MESSAGE_LEN: usize = 1024;

/// Makes browsers rely on the stated type of a reply.
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// The type of plain text.
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Returns a complete body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ReplyBody {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// No body.
pub(crate) fn nothing() -> ReplyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Returns a reply with a body of this type. No cache keeps the reply, and browsers rely on its
/// stated type.
pub(crate) fn reply(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Reply {
    let mut reply = Response::new(full(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    keep_private(headers);
    reply
}

/// Keeps a reply out of all caches, unless the reply has its own `Cache-Control`. Makes browsers
/// rely on the stated type of the reply.
fn keep_private(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    let cache_control = headers.entry(CACHE_CONTROL);
    cache_control.or_insert(HeaderValue::from_static("no-store"));
}

/// Makes browsers use https for the host of `base_url` from now on (RFC 6797), if the request came
/// over https. `localhost` is left out, because browsers would apply the rule to all of its ports.
pub(crate) fn demand_https(reply: &mut Reply, base_url: &str, max_age: Duration) {
    if max_age.is_zero() || !base_url.starts_with("https://") {
        return;
    }
    let host = Host::of_url(base_url);
    if host.is_none_or(|host| host.is_address() || host.is_loopback_name()) {
        return;
    }
    let value = HeaderValue::try_from(format!("max-age={}", max_age.as_secs()));
    if let Ok(value) = value {
        reply.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value);
    }
}

/// A reply without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(nothing());
    *reply.status_mut() = status;
    // A status that never has a body has no length either.
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        reply
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    reply
}

/// Returns a reply with a head from a dialect.
pub(crate) fn of_dialect(head: ReplyHead, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = head.status;
    *reply.headers_mut() = head.headers;
    // Replies of any other type have no body.
    if reply.headers().get(CONTENT_TYPE) == Some(&JSON) {
        keep_private(reply.headers_mut());
    }
    if let Some(phrase) = head.reason_phrase {
        reply
            .extensions_mut()
            .insert(ReasonPhrase::from_static(phrase.as_bytes()));
    }
    reply
}

/// Writes JSON, indented unless the client sent `prettyPrint=false`.
pub(crate) fn json_bytes(value: &Value, pretty: bool) -> Bytes {
    let written = if pretty {
        serde_json::to_vec_pretty(value)
    } else {
        serde_json::to_vec(value)
    };
    let mut bytes = written.expect("a JSON value can be written");
    if pretty {
        bytes.push(b'\n');
    }
    bytes.into()
}

/// A JSON reply.
pub(crate) fn json_reply(status: StatusCode, value: &Value, pretty: bool) -> Reply {
    reply(status, JSON, json_bytes(value, pretty))
}

/// Returns a reply of JSON text.
pub(crate) fn stored_json(status: StatusCode, body: Bytes) -> Reply {
    reply(status, JSON, body)
}

/// Returns the reply to an error, by the table of errors. Its length is bounded, whatever the
/// client has sent.
pub(crate) fn of_error(dialect: &dyn Dialect, error: &Error) -> Reply {
    let row = error_reply(dialect, error);
    let message = bounded(error.to_string());
    let mut reply = match row.form {
        Form::Json => json_reply(row.status, &error_document(&row, &message), true),
        Form::Problem(kind) => problem(kind, &row, &message),
        Form::Text => reply(row.status, TEXT, message.into()),
        Form::Empty => empty(row.status),
    };
    let headers = reply.headers_mut();
    headers.extend(row.headers.clone());
    if let Some(seconds) = row.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if let Some(allowed) = allowed(error) {
        headers.insert(ALLOW, allowed);
    }
    if let Error::RangeNotSatisfiable { length } = error {
        headers.insert(CONTENT_RANGE, unsatisfied_range(*length));
    }
    if let Some(challenge) = challenge(error) {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    let closed = (row.status.as_u16() == 499).then_some("Client Closed Request");
    if let Some(phrase) = row.reason_phrase.or(closed) {
        let phrase = ReasonPhrase::from_static(phrase.as_bytes());
        reply.extensions_mut().insert(phrase);
    }
    reply
}

/// Returns a problem (RFC 9457).
fn problem(kind: &'static str, row: &ErrorReply, message: &str) -> Reply {
    let mut members = row.members.clone();
    members.insert("type".into(), kind.into());
    if let Some(title) = row.reason_phrase.or(row.status.canonical_reason()) {
        members.insert("title".into(), title.into());
    }
    members.insert("status".into(), row.status.as_u16().into());
    members.insert("detail".into(), message.into());
    let body = json_bytes(&Value::Object(members), true);
    reply(row.status, PROBLEM, body)
}

/// Cuts a message that is too long, and marks its end.
fn bounded(mut message: String) -> String {
    let mut rest = MAX_MESSAGE_LEN;
    let mut fits = |character: char| {
        let len = match character {
            '"' | '\\' => 2,
            // The longest escape is `\u` and four digits.
            _ if character.is_control() => 6,
            _ => character.len_utf8(),
        };
        rest.checked_sub(len).inspect(|it| rest = *it).is_some()
    };
    if let Some((end, _)) = message.char_indices().find(|(_, it)| !fits(*it)) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// Returns the reply with a permit that is held until the reply is sent. Counts the bytes that are
/// sent.
pub(crate) fn counted<P>(reply: Reply, permit: P, sent_bytes: Counter) -> Reply
where
    P: Unpin + Send + 'static,
{
    if reply.body().is_end_stream() {
        return reply;
    }
    reply.map(|body| {
        let counted = Counted {
            body,
            _permit: permit,
            sent_bytes,
        };
        counted.boxed_unsync()
    })
}

struct Counted<P> {
    body: ReplyBody,
    _permit: P,
    sent_bytes: Counter,
}

impl<P: Unpin> Body for Counted<P> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.sent_bytes.inc_by(data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Tells the client that the connection ends with this reply.
pub(crate) fn close(reply: &mut Reply) {
    reply
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
}

fn allowed(error: &Error) -> Option<HeaderValue> {
    let methods: &[Method] = match error {
        Error::Protocol(ProtocolError::MethodNotAllowed { allowed }) => allowed,
        Error::MethodNotAllowed { allowed } => allowed,
        _ => return None,
    };
    let names: Vec<_> = methods.iter().map(Method::as_str).collect();
    HeaderValue::try_from(names.join(", ")).ok()
}

/// Returns the `Content-Range` of a reply that the media of `length` bytes lacks the range.
pub(crate) fn unsatisfied_range(length: u64) -> HeaderValue {
    let value = HeaderValue::try_from(format!("bytes */{length}"));
    value.expect("digits are a header value")
}

fn challenge(error: &Error) -> Option<HeaderValue> {
    match error {
        Error::Access(error) | Error::Rejection(Rejection::Access(error)) => error.challenge(),
        _ => None,
    }
}

/// Google's error object. Client libraries decide by `errors[].reason`.
fn error_document(row: &ErrorReply, message: &str) -> Value {
    let mut detail = Map::new();
    detail.insert("message".into(), message.into());
    detail.insert("domain".into(), row.domain.into());
    detail.insert("reason".into(), row.reason.into());
    match &row.location {
        Some(Location::Header(name)) => {
            detail.insert("locationType".into(), "header".into());
            detail.insert("location".into(), name.as_ref().into());
        }
        Some(Location::Parameter(name)) => {
            detail.insert("locationType".into(), "parameter".into());
            detail.insert("location".into(), name.as_ref().into());
        }
        // The form of YouTube's API.
        Some(Location::Field(path)) => {
            detail.insert("locationType".into(), "other".into());
            detail.insert("location".into(), path.as_ref().into());
        }
        None => {}
    }
    json!({"error": {
        "code": row.status.as_u16(),
        "message": message,
        "errors": [detail],
        "status": canonical_status(row.status),
    }})
}

/// Returns the canonical code that Google's APIs state with an HTTP status.
fn canonical_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 | 410 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        412 => "FAILED_PRECONDITION",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        405 | 501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use windlass_proto::dialect::Google;

    use super::*;
    use windlass_rest::reply_pools::SHORT_REPLY;

    #[test]
    fn unsatisfied_range_names_the_length() {
        assert_eq!(unsatisfied_range(0), "bytes */0");
        assert_eq!(unsatisfied_range(u64::MAX), "bytes */18446744073709551615");
    }

    #[tokio::test]
    async fn reply_to_an_error_is_short_whatever_the_client_has_sent() {
        for text in ["\u{1}", "\"", "\u{85}", "ä", "漢", "x"] {
            let path = text.repeat(5000);
            let reply = of_error(&Google, &Error::NoSuchPath { path });
            let body = reply.into_body().collect().await.unwrap().to_bytes();
            assert!(body.len() <= SHORT_REPLY, "{text:?}: {}", body.len());
            let document: Value = serde_json::from_slice(&body).unwrap();
            let message = document["error"]["message"].as_str().unwrap();
            assert!(message.ends_with(&format!("{text}…")), "{message}");
        }
        assert_eq!(bounded("a\nb".to_owned()), "a\nb");
    }
}
