//! What a transfer asks for, and what it makes of replies.

use std::fmt;
use std::time::Duration;

use super::{Cause, Failure, Request};

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
