//! The values that pass between a transfer and its caller: actions, requests and failures in one
//! direction, replies and their classification in the opposite direction.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::{LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::header::TUS_VERSION;

/// The next action of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a request, then call [`replied`](super::Transfer::replied) or
    /// [`broke`](super::Transfer::broke).
    Send(Request),
    /// Read media up to this offset or to its end, then call [`filled`](super::Transfer::filled).
    Fill {
        /// The offset.
        upto: u64,
    },
    /// Wait, then call [`waited`](super::Transfer::waited).
    Wait(Wait),
    /// Get another bearer token, then call [`token_refreshed`](super::Transfer::token_refreshed).
    RefreshToken,
    /// The upload is finished. The last reply shows the resource.
    Finished,
    /// The upload has failed.
    Failed(Failure),
}

/// A wait before the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Length of the wait.
    pub delay: Duration,
    /// Number of the attempt after the wait; the first attempt is 1.
    pub attempt: u32,
    /// Maximum number of attempts without progress.
    pub of: u32,
    /// Why the last attempt failed.
    pub cause: Cause,
}

/// The effect of a reply.
#[derive(Clone, PartialEq, Eq)]
pub enum Event {
    /// A session has started. Its URI is a credential. Store it before the first byte is sent.
    Started {
        /// Its URI, possibly relative to the URL of the request.
        location: String,
    },
    /// The server has committed bytes.
    Committed {
        /// Number of committed bytes.
        offset: u64,
    },
    /// The upload is finished.
    Finished,
    /// The session is lost, and the upload restarts.
    Lost,
    /// The request failed. [`poll`](super::Transfer::poll) returns the next action.
    Nothing,
}

/// Hides the session URI, which is a credential.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { location: _ } => f.write_str("Started { location: .. }"),
            Self::Committed { offset } => {
                f.debug_struct("Committed").field("offset", offset).finish()
            }
            Self::Finished => f.write_str("Finished"),
            Self::Lost => f.write_str("Lost"),
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

/// A request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The question which protocol the server speaks: OPTIONS at the URL of the upload.
    Discover,
    /// The whole media in one request, simple or multipart.
    SingleRequest,
    /// The start of a session.
    Start,
    /// A query for the committed bytes, to the session URI.
    Query {
        /// Size of the media, if known.
        total: Option<u64>,
    },
    /// Media, to the session URI.
    Data(Chunk),
}

/// The media bytes `first..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset after the last byte. Equal to `first` when all bytes are committed and only the end
    /// is to be stated.
    pub end: u64,
    /// Size of the media, if known.
    pub total: Option<u64>,
    /// Whether no earlier request has told the server the total.
    pub states_total: bool,
}

impl Chunk {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.end - self.first
    }

    /// Returns whether the chunk has no bytes and only states the end of the media.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Request {
    /// Returns whether the request goes to a session.
    pub fn is_in_session(&self) -> bool {
        match self {
            Self::Discover | Self::SingleRequest | Self::Start => false,
            Self::Query { .. } | Self::Data(_) => true,
        }
    }
}

/// Why an upload failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server refuses the request, and would refuse it again.
    #[error("the server refused the request: {0}")]
    Refused(ErrorReply),
    /// The server has ended the upload without success.
    #[error("the server rejected the upload: {0}")]
    Rejected(ErrorReply),
    /// The session was cancelled.
    #[error("the upload was cancelled")]
    Cancelled,
    /// The retries are used up.
    #[error("given up after {tries} attempt{} without progress: {cause}{}", if *.tries == 1 { "" } else { "s" }, RetryAfterNotice(*.retry_after))]
    GaveUp {
        /// Cause of the last failure.
        cause: Cause,
        /// Number of attempts.
        tries: u32,
        /// Whether a session exists in which a later attempt can continue.
        session: bool,
        /// Wait that the server requested.
        retry_after: Option<Duration>,
    },
    /// The replies do not belong to the protocol.
    #[error("the server does not follow the upload protocol: {reply} (attempts: {tries})")]
    Unexpected {
        /// The last reply.
        reply: ErrorReply,
        /// Number of attempts.
        tries: u32,
        /// Whether a session exists in which a later attempt can continue.
        session: bool,
    },
    /// Every session was lost before the upload finished.
    #[error("the server has lost the upload's session (status {}) {} times", .status.as_u16(), .restarts + 1)]
    SessionsLost {
        /// Number of restarts.
        restarts: u32,
        /// Status of the last reply.
        status: StatusCode,
    },
    /// The server needs media again that is no longer buffered.
    #[error(
        "the server needs the media again from byte {committed}, but it is buffered only from byte {kept_from}"
    )]
    SessionRewound {
        /// Number of committed bytes.
        committed: u64,
        /// Offset of the first buffered byte.
        kept_from: u64,
    },
    /// The server reports more bytes than this client sent.
    #[error(
        "the server has {committed} bytes, but only {sent} were sent: another client uploads to the session"
    )]
    OffsetBeyondSent {
        /// Number of committed bytes.
        committed: u64,
        /// Offset up to which this client sent.
        sent: u64,
    },
    /// The server finished the upload before its last byte was sent.
    #[error("the server finished the upload before all media was sent (at most {sent} bytes were)")]
    PrematureSuccess {
        /// Offset up to which this client sent.
        sent: u64,
    },
}

impl Failure {
    /// Returns whether the session is still valid, so that a later attempt can continue in it.
    pub fn session_survives(&self) -> bool {
        match self {
            Self::GaveUp { session, .. } | Self::Unexpected { session, .. } => *session,
            // A reply without Google's error object may come from a proxy, which knows nothing of
            // the session.
            Self::Refused(reply) => {
                reply.reason.is_none() || matches!(reply.status.as_u16(), 401 | 403 | 407)
            }
            Self::SessionRewound { committed, .. } => *committed > 0,
            Self::Rejected(_)
            | Self::Cancelled
            | Self::SessionsLost { .. }
            | Self::OffsetBeyondSent { .. }
            | Self::PrematureSuccess { .. } => false,
        }
    }

    /// Returns the reply that caused the failure, if any.
    pub fn error_reply(&self) -> Option<&ErrorReply> {
        match self {
            Self::Refused(reply)
            | Self::Rejected(reply)
            | Self::Unexpected { reply, .. }
            | Self::GaveUp {
                cause: Cause::Reply(reply),
                ..
            } => Some(reply),
            _ => None,
        }
    }
}

/// Why a request is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The connection broke, or could not be established.
    Broken,
    /// The server replied with an error.
    Reply(ErrorReply),
    /// The server accepted a chunk and committed almost nothing of it.
    Stalled,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken => f.write_str("the connection broke"),
            Self::Reply(reply) => reply.fmt(f),
            Self::Stalled => f.write_str("the server kept nothing of what was sent"),
        }
    }
}

/// Formats the wait that a server requested.
struct RetryAfterNotice(Option<Duration>);

impl fmt::Display for RetryAfterNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(wait) => write!(f, "; it asks to wait {} s", wait.as_secs()),
            None => Ok(()),
        }
    }
}

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

/// The meaning of a reply to a request, in any wire form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyClass {
    /// A session has started. Its URI may be relative to the URL of the request.
    Started {
        location: String,
        limits: ChunkLimits,
    },
    /// The session has committed bytes and accepts more.
    Incomplete(Committed),
    /// The upload is finished.
    Complete,
    /// The request was not for the committed offset. The reply may say which that is.
    WrongOffset { committed: Option<u64> },
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
    /// The upload has ended without success, and its session with it.
    Rejected,
}

impl ReplyClass {
    /// A session without limits.
    pub(super) fn started_at(location: &str) -> Self {
        Self::Started {
            location: location.to_owned(),
            limits: ChunkLimits::default(),
        }
    }
}

/// What a reply says about the bytes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Committed {
    /// Number of committed bytes.
    pub(super) bytes: u64,
    /// Limits of the following chunks, if the reply states some.
    pub(super) limits: Option<ChunkLimits>,
    /// Whether the server knows the size of the media, if the reply says so.
    pub(super) knows_total: Option<bool>,
}

impl Committed {
    pub(super) fn bytes(bytes: u64) -> Self {
        Self {
            bytes,
            limits: None,
            knows_total: None,
        }
    }
}

/// The sizes of chunks that a server accepts. The last chunk may be smaller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ChunkLimits {
    /// Minimum size in bytes.
    pub(super) least: Option<u64>,
    /// Maximum size in bytes.
    pub(super) most: Option<u64>,
    /// Number of bytes that the size is a multiple of.
    pub(super) granularity: Option<u64>,
}

impl ChunkLimits {
    /// Returns the size within these limits that is nearest to `size`, and not above it if
    /// possible.
    pub(super) fn apply(self, size: u64) -> u64 {
        let size = size.min(self.most.unwrap_or(u64::MAX));
        let unit = self.granularity.unwrap_or(1).max(1);
        let whole = if size >= unit && size < u64::MAX {
            size - size % unit
        } else {
            size
        };
        whole.max(self.least.unwrap_or(1)).max(1)
    }
}

/// A reply with an error or another unexpected status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorReply {
    /// The status.
    pub status: StatusCode,
    /// The first `reason` of Google's error object.
    pub reason: Option<String>,
    /// The message of Google's error object, the detail or title of an object of problem details
    /// ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)), or a short text without markup.
    pub message: Option<String>,
}

/// Reasons of a 403 that mean a rate limit.
const RATE_LIMITS: [&str; 2] = ["rateLimitExceeded", "userRateLimitExceeded"];

/// Maximum length of a message in characters.
const MAX_MESSAGE_LEN: usize = 400;

impl ErrorReply {
    /// Reads a reply: Google's error object, problem details, a plain text, or a page, which is
    /// ignored.
    pub fn of(reply: &Reply<'_>) -> Self {
        let body: Option<Value> = serde_json::from_slice(reply.body).ok();
        let error = body.as_ref().map(|value| &value["error"]);
        let text = |value: &Value| value.as_str().map(shortened);
        let message = match &body {
            Some(body) => text(&body["error"]["message"])
                .or_else(|| text(&body["detail"]))
                .or_else(|| text(&body["title"]))
                .or_else(|| versions_of_tus(reply)),
            None => plain_text(reply.body).or_else(|| versions_of_tus(reply)),
        };
        Self {
            status: reply.status,
            reason: error.and_then(|error| text(&error["errors"][0]["reason"])),
            message: redirection(reply).or(message),
        }
    }

    /// Returns whether the same request may succeed later: the server is overloaded, has an
    /// internal error, or limits the rate.
    pub fn is_transient(&self) -> bool {
        matches!(self.status.as_u16(), 408 | 429 | 500..=599)
            || self.status == StatusCode::FORBIDDEN && self.is_rate_limit()
    }

    pub(super) fn is_rate_limit(&self) -> bool {
        self.reason
            .as_deref()
            .is_some_and(|reason| RATE_LIMITS.contains(&reason))
    }
}

impl fmt::Display for ErrorReply {
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

/// Returns the versions that a server of tus speaks, if it refuses ours.
fn versions_of_tus(reply: &Reply<'_>) -> Option<String> {
    let versions = reply.headers.get(TUS_VERSION)?.to_str().ok()?;
    let refuses = reply.status == StatusCode::PRECONDITION_FAILED;
    refuses.then(|| shortened(&format!("it speaks tus {versions}")))
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
        .take(MAX_MESSAGE_LEN)
        .collect()
}

/// Returns whether a character could manipulate a terminal or a log: control characters, line
/// separators, and characters that change the direction of the following text.
fn is_control_or_bidi(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
