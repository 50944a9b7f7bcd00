//! How an upload fails.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use http::header::LOCATION;
use serde_json::Value;

use super::Reply;

/// Why an upload is over without a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server says no, and would say it again.
    #[error("the server refuses: {0}")]
    Refused(Refusal),
    /// The session was cancelled by somebody.
    #[error("the upload was cancelled")]
    Cancelled,
    /// Waiting and trying again did not help.
    #[error("given up after {tries} tries without progress: {cause}{}", RetryAfterNotice(*.retry_after))]
    GaveUp {
        /// What went wrong the last time.
        cause: Cause,
        /// How often it was tried.
        tries: u32,
        /// Whether there is a session, in which a later try can go on.
        session: bool,
        /// How long the server asked to wait.
        retry_after: Option<Duration>,
    },
    /// Replies that make no sense here.
    #[error("the server answers {refusal}, which makes no sense in this protocol (tries: {tries})")]
    Unexpected {
        /// The last one.
        refusal: Refusal,
        /// How often it was tried.
        tries: u32,
        /// Whether there is a session, in which a later try can go on.
        session: bool,
    },
    /// Every session was lost before the media was up.
    #[error("the server has lost the upload's session (status {}) {} times", .status.as_u16(), .restarts + 1)]
    SessionsLost {
        /// How often the upload started again.
        restarts: u32,
        /// What was answered the last time.
        status: StatusCode,
    },
    /// Media is needed again that is no longer kept.
    #[error(
        "the server has only {committed} bytes, and the media is no longer there before byte {kept_from}"
    )]
    SessionRewound {
        /// Count of committed bytes.
        committed: u64,
        /// Offset from which on media is kept.
        kept_from: u64,
    },
    /// The server has bytes that this client did not send.
    #[error(
        "the server has {committed} bytes, but only {sent} were sent: somebody else uploads to the session"
    )]
    OffsetBeyondSent {
        /// Count of committed bytes.
        committed: u64,
        /// How far this client sent.
        sent: u64,
    },
    /// The upload is finished although its last byte was not sent.
    #[error(
        "the server finished the upload before its end was sent (no more than {sent} bytes were)"
    )]
    PrematureSuccess {
        /// How far this client sent.
        sent: u64,
    },
}

impl Failure {
    /// Whether the session is still good, so that a later try can go on where this one stopped.
    pub fn session_survives(&self) -> bool {
        match self {
            Self::GaveUp { session, .. } | Self::Unexpected { session, .. } => *session,
            // What has no error object may come from something on the way, which knows nothing of the
            // session.
            Self::Refused(refusal) => {
                refusal.reason.is_none() || matches!(refusal.status.as_u16(), 401 | 403 | 407)
            }
            Self::SessionRewound { committed, .. } => *committed > 0,
            Self::Cancelled
            | Self::SessionsLost { .. }
            | Self::OffsetBeyondSent { .. }
            | Self::PrematureSuccess { .. } => false,
        }
    }

    /// The reply that it failed with, if it was one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal)
            | Self::Unexpected { refusal, .. }
            | Self::GaveUp {
                cause: Cause::Reply(refusal),
                ..
            } => Some(refusal),
            _ => None,
        }
    }
}

/// Why a request has to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The connection broke, or there was none.
    Broken,
    /// The server answered so.
    Reply(Refusal),
    /// The server took a chunk and kept nothing of it.
    Stalled,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken => f.write_str("the connection broke"),
            Self::Reply(refusal) => refusal.fmt(f),
            Self::Stalled => f.write_str("the server kept nothing of what was sent"),
        }
    }
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

/// Shows how long a server wanted a client to wait.
struct RetryAfterNotice(Option<Duration>);

impl fmt::Display for RetryAfterNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(wait) => write!(f, "; it asks to wait {} s", wait.as_secs()),
            None => Ok(()),
        }
    }
}
