//! Requests, as far as the protocol decides them.

use crate::content_range::ContentRange;

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
