//! What a transfer asks for, and what it makes of replies.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::Refusal;
use crate::content_range::ContentRange;

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a request, then call [`replied`](super::Transfer::replied) or [`broke`](super::Transfer::broke).
    Send(Request),
    /// Read media until there are so many bytes of it, counted from its beginning, or it ends; then
    /// call [`filled`](super::Transfer::filled).
    Fill {
        /// The count.
        upto: u64,
    },
    /// Wait, then call [`waited`](super::Transfer::waited).
    Wait(Wait),
    /// Get another bearer token, then call [`token_refreshed`](super::Transfer::token_refreshed).
    RefreshToken,
    /// The media is up. The last reply shows the resource.
    Finished,
    /// It is over.
    Failed(Failure),
}

/// A wait before the next try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// How long.
    pub delay: Duration,
    /// Which try comes then; the first is 1.
    pub attempt: u32,
    /// How many tries there are without progress.
    pub of: u32,
    /// Why.
    pub cause: Cause,
}

/// What a reply has brought.
#[derive(Clone, PartialEq, Eq)]
pub enum Event {
    /// A session has started. Its URI is a credential. Keep it before the first byte goes.
    Started {
        /// `Location`, possibly relative to the URL of the request.
        location: String,
    },
    /// So many bytes are committed.
    Committed {
        /// The count.
        offset: u64,
    },
    /// The upload is finished.
    Finished,
    /// The session is lost; the upload starts again.
    Lost,
    /// It did not work out. [`poll`](super::Transfer::poll) tells what follows.
    Nothing,
}

/// A session's URI is a credential, so it is not shown.
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
    /// The media in one request, simple or multipart.
    SingleRequest,
    /// The start of a session.
    Start,
    /// The question what is committed: an empty PUT to the session URI.
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
    /// Offset behind the last byte; `first` when nothing is left but to say so.
    pub end: u64,
    /// Size of the media, if known.
    pub total: Option<u64>,
}

impl Chunk {
    /// Count of bytes.
    pub fn len(&self) -> u64 {
        self.end - self.first
    }

    /// Whether it has no bytes, and only says that the media is complete.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Request {
    /// The `Content-Range` of a request to a session. Every one has it.
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
