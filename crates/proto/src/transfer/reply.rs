//! Replies as the client sees them, and their classification.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, LOCATION, RANGE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::RequestKind;
use crate::content_range::CommittedRange;
use crate::header::X_HTTP_STATUS_CODE_OVERRIDE;

/// A reply to a request of a transfer.
#[derive(Clone, Copy)]
pub struct Reply<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// Body, or the part of it that was read.
    pub body: &'a [u8],
    /// Wait that the server asks for; see [`retry_after`].
    pub retry_after: Option<Duration>,
}

/// Hides the headers, which may hold a session URI, a credential.
impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Reply<'_> {
    /// A reply with this status and neither headers nor body.
    pub fn empty(status: StatusCode) -> Self {
        static NONE: std::sync::LazyLock<HeaderMap> = std::sync::LazyLock::new(HeaderMap::new);
        Self {
            status,
            headers: &NONE,
            body: &[],
            retry_after: None,
        }
    }
}

/// The state of a session according to the reply to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// The session accepts more bytes.
    Active {
        /// Number of committed bytes.
        committed: u64,
    },
    /// The session is finished; the reply shows the resource.
    Finished,
    /// The session is unknown to the server.
    Lost,
    /// The session was cancelled.
    Cancelled,
}

impl SessionStatus {
    /// Reads the reply to a query; `None` when the reply does not state the session's state.
    pub fn of(reply: &Reply<'_>) -> Option<Self> {
        match ReplyClass::of(RequestKind::Query, reply) {
            ReplyClass::Incomplete { committed } => Some(Self::Active { committed }),
            ReplyClass::Complete => Some(Self::Finished),
            ReplyClass::Lost => Some(Self::Lost),
            ReplyClass::Cancelled => Some(Self::Cancelled),
            _ => None,
        }
    }
}

/// Returns the wait that `Retry-After` asks for: seconds, or a date that is compared with `now`
/// (RFC 9110, 10.2.3).
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The meaning of a reply, given the kind of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyClass {
    /// A session has started.
    Started { location: String },
    /// The session has committed bytes and accepts more.
    Incomplete { committed: u64 },
    /// The upload is finished.
    Complete,
    /// The session does not exist any more.
    Lost,
    /// The session was cancelled.
    Cancelled,
    /// The same request may succeed after a wait.
    Transient,
    /// The token is missing or no longer valid.
    Unauthorized,
    /// Not a reply of the protocol; a retry may get another one.
    Unexpected,
    /// Not a reply of the protocol, and a retry could do harm.
    NotTheProtocol,
    /// The request is refused, and a retry would be refused as well.
    Refused,
}

impl ReplyClass {
    pub(super) fn of(kind: RequestKind, reply: &Reply<'_>) -> Self {
        let in_session = matches!(kind, RequestKind::Query | RequestKind::Data);
        match reply.status.as_u16() {
            308 if in_session => incomplete(reply.headers),
            200 if in_session && stands_for_308(reply.headers) => incomplete(reply.headers),
            200..=299 if kind == RequestKind::Start => started(reply.headers),
            200 | 201 if is_resource(reply) => Self::Complete,
            // A 204 confirms the request that carried the media. In reply to a query it may come
            // from a proxy that answers everything.
            204 if matches!(kind, RequestKind::SingleRequest | RequestKind::Data) => Self::Complete,
            // The server has already acted, or another address would act: a retry could create a
            // second resource.
            200..=399 if matches!(kind, RequestKind::SingleRequest | RequestKind::Start) => {
                Self::NotTheProtocol
            }
            404 | 410 if in_session => Self::Lost,
            401 => Self::Unauthorized,
            499 => Self::Cancelled,
            408 | 429 | 500..=599 => Self::Transient,
            403 if Refusal::of(reply).is_rate_limit() => Self::Transient,
            // A second writer, a wrong connection, a request that is too early: each may pass.
            100..=399 | 409 | 421 | 423 | 425 => Self::Unexpected,
            _ => Self::Refused,
        }
    }
}

/// Without a `Range` nothing is committed. A malformed `Range` states no reliable offset.
fn incomplete(headers: &HeaderMap) -> ReplyClass {
    let Some(range) = headers.get(RANGE) else {
        return ReplyClass::Incomplete { committed: 0 };
    };
    match CommittedRange::parse(range.as_bytes()) {
        Some(range) => ReplyClass::Incomplete {
            committed: range.committed(),
        },
        None => ReplyClass::Unexpected,
    }
}

fn stands_for_308(headers: &HeaderMap) -> bool {
    headers
        .get(X_HTTP_STATUS_CODE_OVERRIDE)
        .is_some_and(|status| status.as_bytes().trim_ascii() == b"308")
}

fn started(headers: &HeaderMap) -> ReplyClass {
    let location = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    match location {
        Some(location) if !location.trim().is_empty() => ReplyClass::Started {
            location: location.trim().to_owned(),
        },
        _ => ReplyClass::NotTheProtocol,
    }
}

/// A JSON object, or an empty body: a method need not show the resource that it created.
fn is_resource(reply: &Reply<'_>) -> bool {
    let body = reply.body.trim_ascii();
    matches!(body, [] | b"null" | [b'{', ..]) && !is_html(reply.headers)
}

/// Detects the HTML page of a proxy or a login portal.
fn is_html(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content_type| {
        let essence = content_type.as_bytes().trim_ascii_start();
        essence.len() >= 9 && essence[..9].eq_ignore_ascii_case(b"text/html")
    })
}

/// A reply other than the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The first `reason` of Google's error object.
    pub reason: Option<String>,
    /// The message of Google's error object, or a short text without markup.
    pub message: Option<String>,
}

/// Reasons of a 403 that mean a rate limit.
const RATE_LIMITS: [&str; 2] = ["rateLimitExceeded", "userRateLimitExceeded"];

/// Maximum length of a message in characters.
const LONGEST_MESSAGE: usize = 400;

impl Refusal {
    /// Reads a reply: Google's error object, a plain text, or a page, which is ignored.
    pub fn of(reply: &Reply<'_>) -> Self {
        let error: Option<Value> = serde_json::from_slice(reply.body).ok();
        let error = error.as_ref().map(|value| &value["error"]);
        let text = |value: &Value| value.as_str().map(shortened);
        let message = match error {
            Some(error) => text(&error["message"]),
            None => plain_text(reply.body),
        };
        Self {
            status: reply.status,
            reason: error.and_then(|error| text(&error["errors"][0]["reason"])),
            message: redirection(reply).or(message),
        }
    }

    pub(super) fn is_rate_limit(&self) -> bool {
        self.reason
            .as_deref()
            .is_some_and(|reason| RATE_LIMITS.contains(&reason))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status.as_u16())?;
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        match &self.message {
            Some(message) => write!(f, ", {message}"),
            None => Ok(()),
        }
    }
}

/// Returns the target of a redirection without its query, which may be a credential.
fn redirection(reply: &Reply<'_>) -> Option<String> {
    let location = reply.headers.get(LOCATION)?.to_str().ok()?;
    let place = location.split(['?', '#']).next().unwrap_or_default();
    let redirects = reply.status.is_redirection() && !place.is_empty();
    redirects.then(|| shortened(&format!("it redirects to {place}")))
}

/// Returns a body that is a single line of text without markup.
fn plain_text(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let plain = !text.is_empty() && !text.starts_with('<') && !text.contains('\n');
    plain.then(|| shortened(text))
}

fn shortened(text: &str) -> String {
    text.chars()
        .filter(|c| !is_control_or_bidi(*c))
        .take(LONGEST_MESSAGE)
        .collect()
}

/// Returns whether a character could manipulate a terminal or a log: control characters, line
/// separators, and characters that change the direction of the following text.
fn is_control_or_bidi(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
