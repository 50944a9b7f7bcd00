//! What a reply means to a client.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, LOCATION, RANGE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::RequestKind;
use crate::content_range::CommittedRange;
use crate::header::X_HTTP_STATUS_CODE_OVERRIDE;

/// A reply as a transfer looks at it.
#[derive(Clone, Copy)]
pub struct Reply<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body, or as much of it as was read.
    pub body: &'a [u8],
    /// How long the server asks to wait; see [`retry_after`].
    pub retry_after: Option<Duration>,
}

/// Headers may hold a session URI, which is a credential.
impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Reply<'_> {
    /// A reply of a status and nothing else.
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

/// What a session is at, as the reply to a query tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// It wants more.
    Active {
        /// Count of committed bytes.
        committed: u64,
    },
    /// It is finished; the reply shows the resource.
    Finished,
    /// The server does not know it, or not any more.
    Lost,
    /// It was cancelled.
    Cancelled,
}

impl SessionStatus {
    /// Reads the reply to a query; `None` when it does not tell.
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

/// How long a reply's `Retry-After` asks to wait: seconds, or a date that is compared with `now`
/// (RFC 9110, 10.2.3).
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// What a reply means, given what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyClass {
    /// A session has started.
    Started { location: String },
    /// The session has so many bytes and wants more.
    Incomplete { committed: u64 },
    /// The resource is there.
    Complete,
    /// The session is no more.
    Lost,
    /// Somebody cancelled the session.
    Cancelled,
    /// The same may work after a while.
    Transient,
    /// The token is missing or no longer good.
    Unauthorized,
    /// Not what a server of the protocol says here; it may be another thing the next time.
    Unexpected,
    /// Not what a server of the protocol says here, and asking again would do harm.
    NotTheProtocol,
    /// No, and trying again would not help.
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
            // What shows no resource says so to the request that brought the media. To a question it may
            // come from something on the way that answers everything.
            204 if matches!(kind, RequestKind::SingleRequest | RequestKind::Data) => Self::Complete,
            // The server has acted, or another address would: once more would be once too often.
            200..=399 if matches!(kind, RequestKind::SingleRequest | RequestKind::Start) => {
                Self::NotTheProtocol
            }
            404 | 410 if in_session => Self::Lost,
            401 => Self::Unauthorized,
            499 => Self::Cancelled,
            408 | 429 | 500..=599 => Self::Transient,
            403 if Refusal::of(reply).is_rate_limit() => Self::Transient,
            // Two writers, another connection wanted, too early: each may pass.
            100..=399 | 409 | 421 | 423 | 425 => Self::Unexpected,
            _ => Self::Refused,
        }
    }
}

/// Without a `Range` nothing is committed. One that cannot be read says nothing to rely on.
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

/// A JSON object, or nothing: a method need not show what it made.
fn is_resource(reply: &Reply<'_>) -> bool {
    let body = reply.body.trim_ascii();
    matches!(body, [] | b"null" | [b'{', ..]) && !is_html(reply.headers)
}

/// Something on the way answers everything with a page of its own.
fn is_html(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content_type| {
        let essence = content_type.as_bytes().trim_ascii_start();
        essence.len() >= 9 && essence[..9].eq_ignore_ascii_case(b"text/html")
    })
}

/// A reply that was not hoped for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The first `reason` of Google's error object.
    pub reason: Option<String>,
    /// The message of Google's error object, or a short text without markup.
    pub message: Option<String>,
}

/// Reasons of a 403 that mean: not so fast.
const RATE_LIMITS: [&str; 2] = ["rateLimitExceeded", "userRateLimitExceeded"];

/// No more of a message is kept.
const LONGEST_MESSAGE: usize = 400;

impl Refusal {
    /// Reads a reply: Google's error object, a plain text, or a page of which nothing is kept.
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

/// Where a redirection leads, without the query: it may be a credential.
fn redirection(reply: &Reply<'_>) -> Option<String> {
    let location = reply.headers.get(LOCATION)?.to_str().ok()?;
    let place = location.split(['?', '#']).next().unwrap_or_default();
    let redirects = reply.status.is_redirection() && !place.is_empty();
    redirects.then(|| shortened(&format!("it redirects to {place}")))
}

/// A body that is text on one line and no markup.
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

/// Whether a character does more in a terminal or a log than to stand there: control characters, line
/// ends, and what turns the direction of the text behind it.
fn is_control_or_bidi(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
