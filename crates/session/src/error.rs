//! Why a session refuses a request, and what that means for the session.

use crate::content_range::{CHUNK_GRANULARITY, ContentRangeError};

/// Why a session refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The session was cancelled.
    #[error("The upload was cancelled.")]
    Cancelled,
    /// The session has failed for good.
    #[error("The upload session is no longer available. Start a new upload.")]
    Gone,
    /// `Content-Range` cannot be parsed.
    #[error(transparent)]
    ContentRange(#[from] ContentRangeError),
    /// The body would begin after the committed bytes.
    #[error(
        "Invalid request.  According to the Content-Range header, the upload offset is {first} byte(s), \
         which exceeds already uploaded size of {committed} byte(s)."
    )]
    Gap {
        /// Offset of the body's first byte.
        first: u64,
        /// Number of committed bytes.
        committed: u64,
    },
    /// The body does not begin at the committed offset, and must.
    #[error(
        "The data begins at offset {first}, but the upload has {committed} byte(s). Continue there."
    )]
    Conflict {
        /// Offset of the body's first byte.
        first: u64,
        /// Number of committed bytes.
        committed: u64,
    },
    /// The body ends after the length of the media.
    #[error("The data ends at {end} byte(s), but the upload has a length of {length} byte(s).")]
    PastLength {
        /// Offset after the last byte of the body; in a stream, of the bytes that have arrived.
        end: u64,
        /// Length of the media.
        length: u64,
    },
    /// A request states a length of the media that differs from the known one.
    #[error(
        "The request states a length of {stated} byte(s), but the upload has a length of {known} byte(s)."
    )]
    LengthChanged {
        /// The length in this request.
        stated: u64,
        /// The length declared or stated before.
        known: u64,
    },
    /// A request states a length of the media above the size limit.
    #[error("The stated length is too large: at most {limit} byte(s) are accepted.")]
    LengthTooLarge {
        /// The size limit in bytes.
        limit: u64,
    },
    /// A chunk that is not the last is smaller than [`CHUNK_GRANULARITY`].
    #[error(
        "Every request but the last must upload at least {CHUNK_GRANULARITY} bytes, best a multiple of it. \
         This request contained {length} bytes, which is too few."
    )]
    ChunkTooSmall {
        /// Length of the chunk.
        length: u64,
    },
    /// The length of the body does not match the range or the total.
    #[error(
        "The request body has {body} byte(s), but {expected} byte(s) belong in it, \
         from offset {first} up to the end at {}.",
        first.saturating_add(*expected)
    )]
    LengthDisagrees {
        /// Length of the body; for a body that is too long, the number of bytes seen.
        body: u64,
        /// Required length.
        expected: u64,
        /// Offset of its first byte.
        first: u64,
    },
    /// A data request states a total that differs from the known one.
    #[error(
        "The Content-Range header states a total of {stated} byte(s), but this upload has {known} byte(s)."
    )]
    TotalChanged {
        /// The total in this request.
        stated: u64,
        /// The total declared or stated before.
        known: u64,
    },
    /// A request finishes the upload with all committed bytes, but more bytes were declared.
    #[error("The upload cannot finish with {stated} byte(s): {known} byte(s) were declared.")]
    Truncated {
        /// The total in this request.
        stated: u64,
        /// The total declared or stated before.
        known: u64,
    },
    /// The media would end before bytes that are already committed.
    #[error("The upload cannot end at {total} byte(s): {committed} byte(s) are uploaded already.")]
    EndsBeforeCommitted {
        /// Offset at which the media would end.
        total: u64,
        /// Number of committed bytes.
        committed: u64,
    },
    /// The range reaches past the declared size.
    #[error(
        "According to the Content-Range header the data ends at {end} byte(s), past the declared {total} byte(s)."
    )]
    PastTotal {
        /// Offset after the last byte of the range.
        end: u64,
        /// The declared size.
        total: u64,
    },
    /// The media exceeds the size limit.
    #[error("The upload is too large: at most {limit} byte(s) are accepted.")]
    TooLarge {
        /// The size limit in bytes.
        limit: u64,
    },
    /// More bytes were sent than the start of the session declared.
    #[error("The upload has more bytes than the {declared} byte(s) that were declared.")]
    MoreThanDeclared {
        /// The declared size.
        declared: u64,
    },
    /// The upload is finished, and the request has bytes after its end.
    #[error("The upload is finished with {size} byte(s), and this request has bytes after them.")]
    AfterEnd {
        /// Size of the media.
        size: u64,
    },
    /// A query has a body.
    #[error("A query must not have a body.")]
    QueryWithBody,
    /// A request would end a partial upload.
    #[error("This is a partial upload, which does not end by itself. Concatenate it.")]
    NoEnd,
    /// A request has data for an upload that was concatenated.
    #[error("This upload was concatenated from partial uploads, and takes no data.")]
    NoData,
    /// An upload that is not partial is to be concatenated.
    #[error("Only partial uploads can be concatenated, and this upload is none.")]
    NotPartial,
    /// A partial upload that is to be concatenated lacks bytes.
    #[error(
        "The partial upload has {committed} byte(s) and is not complete. Upload the rest of it first."
    )]
    Incomplete {
        /// Number of committed bytes.
        committed: u64,
    },
}

impl SessionError {
    /// Returns whether this error ends the session, which becomes
    /// [`State::Failed`](crate::State::Failed).
    pub fn ends_session(&self) -> bool {
        match self {
            Self::ContentRange(_)
            | Self::ChunkTooSmall { .. }
            | Self::TotalChanged { .. }
            | Self::MoreThanDeclared { .. }
            | Self::TooLarge { .. } => true,
            Self::Cancelled
            | Self::Gone
            | Self::Gap { .. }
            | Self::Conflict { .. }
            | Self::PastLength { .. }
            | Self::LengthChanged { .. }
            | Self::LengthTooLarge { .. }
            | Self::LengthDisagrees { .. }
            | Self::Truncated { .. }
            | Self::EndsBeforeCommitted { .. }
            | Self::PastTotal { .. }
            | Self::AfterEnd { .. }
            | Self::QueryWithBody
            | Self::NoEnd
            | Self::NoData
            | Self::NotPartial
            | Self::Incomplete { .. } => false,
        }
    }

    /// Returns whether bytes that a running request has received may resolve the error, once they
    /// are committed.
    pub fn may_be_resolved(&self) -> bool {
        match self {
            Self::Gap { .. } => true,
            Self::Conflict { first, committed } => first > committed,
            _ => false,
        }
    }
}
