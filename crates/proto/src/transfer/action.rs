//! Actions, requests and failures of a transfer.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::Refusal;
use crate::content_range::ContentRange;

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
        /// `Location`, possibly relative to the URL of the request.
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
    /// The whole media in one request, simple or multipart.
    SingleRequest,
    /// The start of a session.
    Start,
    /// A query for the committed bytes: an empty PUT to the session URI.
    Query {
        /// Size of the media, if known.
        total: Option<u64>,
    },
    /// Media: a PUT to the session URI.
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
    /// Returns the `Content-Range` of a request to a session; `None` for other requests.
    pub fn content_range(&self) -> Option<ContentRange> {
        match *self {
            Self::SingleRequest | Self::Start => None,
            Self::Query { total } => Some(ContentRange::Query { total }),
            Self::Data(Chunk { first, end, total }) => Some(if first == end {
                ContentRange::Query { total }
            } else {
                ContentRange::Bounded {
                    first,
                    last: end - 1,
                    total,
                }
            }),
        }
    }
}

/// Why an upload failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server refuses the request, and would refuse it again.
    #[error("the server refused the request: {0}")]
    Refused(Refusal),
    /// The session was cancelled.
    #[error("the upload was cancelled")]
    Cancelled,
    /// The retries are used up.
    #[error("given up after {tries} attempts without progress: {cause}{}", RetryAfterNotice(*.retry_after))]
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
    #[error("the server does not follow the upload protocol: {refusal} (attempts: {tries})")]
    Unexpected {
        /// The last reply.
        refusal: Refusal,
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

    /// Returns the reply that caused the failure, if any.
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

/// Why a request is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The connection broke, or could not be established.
    Broken,
    /// The server replied with an error.
    Reply(Refusal),
    /// The server accepted a chunk and committed almost nothing of it.
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
