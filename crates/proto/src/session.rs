//! What a session does with a request (docs/protocol.md, 2.8, 2.9 and 4.1 to 4.21).
//!
//! [`step`] decides from the request's head what happens. Where bytes are taken, the [`BodyFilter`] it
//! hands out decides piece by piece which of them are stored. All offsets count decoded bytes of
//! the media.

use bytes::{Buf, Bytes};

use crate::content_range::{ContentRange, ContentRangeError, end_of};

#[cfg(test)]
mod tests;

pub use crate::content_range::CHUNK_GRANULARITY;

/// What a request to a session brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRequest {
    /// The body's place in the media. An error here is for the session to judge: it ends the
    /// session.
    pub content_range: Result<Option<ContentRange>, ContentRangeError>,
    /// Length of the body.
    pub body: BodyLength,
}

/// Length of a body in decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// Known beforehand.
    Exact(u64),
    /// Known when the body has ended: it is chunked, or it is coded.
    Unknown,
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Takes bytes.
    Active,
    /// Has all its bytes; the resource is being made.
    Finishing,
    /// Has its final reply.
    Finished,
    /// Broken for good by a bad request.
    Failed,
    /// Given up by the client.
    Cancelled,
}

/// What is known of a session when a request arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Where it is in its life.
    pub state: State,
    /// Count of committed bytes.
    pub offset: u64,
    /// Size of the media, once declared with the start (above zero) or stated by an earlier data
    /// request.
    pub total: Option<u64>,
}

/// What happens to a chunk that is not the last and not a multiple of [`CHUNK_GRANULARITY`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChunkRule {
    /// Below one multiple it ends the session; above, what exceeds the last multiple is not kept.
    #[default]
    Strict,
    /// It is stored as it is.
    Lenient,
}

/// The rules a session follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rule for the size of chunks.
    pub chunks: ChunkRule,
    /// The most bytes that the media may have.
    pub max_size: Option<u64>,
}

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The session is finished: answer with the stored reply. The body is of no interest.
    Replay,
    /// The session is finishing: drive the finish to its end, then answer with its reply.
    Resume,
    /// Answer with what is committed.
    Report,
    /// There is nothing to read: finish with the bytes that are there.
    Finish {
        /// Size of the media.
        total: u64,
    },
    /// Read the body.
    Append(BodyFilter),
}

/// Why a session refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The session was cancelled.
    #[error("The upload was cancelled.")]
    Cancelled,
    /// The session has failed for good.
    #[error("The upload session is no longer available. Start a new upload.")]
    Gone,
    /// `Content-Range` cannot be understood.
    #[error(transparent)]
    ContentRange(#[from] ContentRangeError),
    /// The body would begin behind the committed bytes.
    #[error(
        "Invalid request.  According to the Content-Range header, the upload offset is {first} byte(s), \
         which exceeds already uploaded size of {committed} byte(s)."
    )]
    Gap {
        /// Offset of the body's first byte.
        first: u64,
        /// Count of committed bytes.
        committed: u64,
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
    /// The body has another length than the range or the total calls for.
    #[error(
        "The request body has {body} byte(s), but {expected} byte(s) belong in it, \
         from offset {first} up to the end at {}.",
        first.saturating_add(*expected)
    )]
    LengthDisagrees {
        /// Length of the body; of a body that is too long, as far as it was seen.
        body: u64,
        /// Length it should have.
        expected: u64,
        /// Offset of its first byte.
        first: u64,
    },
    /// A data request states another total than was declared or stated before.
    #[error(
        "The Content-Range header states a total of {stated} byte(s), but this upload has {known} byte(s)."
    )]
    TotalChanged {
        /// The total in this request.
        stated: u64,
        /// The total known before.
        known: u64,
    },
    /// All bytes that the request wants to finish with are there, but more were declared.
    #[error("The upload cannot finish with {stated} byte(s): {known} byte(s) were declared.")]
    Truncated {
        /// The total in this request.
        stated: u64,
        /// The total known before.
        known: u64,
    },
    /// The media would end before bytes that are committed already.
    #[error("The upload cannot end at {total} byte(s): {committed} byte(s) are uploaded already.")]
    EndsBeforeCommitted {
        /// Where the media would end.
        total: u64,
        /// Count of committed bytes.
        committed: u64,
    },
    /// The range reaches past the declared size.
    #[error(
        "According to the Content-Range header the data ends at {end} byte(s), past the declared {total} byte(s)."
    )]
    PastTotal {
        /// Offset behind the range.
        end: u64,
        /// The declared size.
        total: u64,
    },
    /// The media is larger than is accepted.
    #[error("The upload is too large: at most {limit} byte(s) are accepted.")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A query carries data.
    #[error("A request with Content-Range \"bytes */...\" must not have a body.")]
    QueryWithBody,
}

impl SessionError {
    /// Whether the session cannot go on after this; it becomes [`State::Failed`].
    pub fn ends_session(&self) -> bool {
        match self {
            Self::ContentRange(_)
            | Self::ChunkTooSmall { .. }
            | Self::TotalChanged { .. }
            | Self::TooLarge { .. } => true,
            Self::Cancelled
            | Self::Gone
            | Self::Gap { .. }
            | Self::LengthDisagrees { .. }
            | Self::Truncated { .. }
            | Self::EndsBeforeCommitted { .. }
            | Self::PastTotal { .. }
            | Self::QueryWithBody => false,
        }
    }
}

/// Decides what a session does with a request.
///
/// Whatever can be refused is refused here, before the body is read.
pub fn step(
    snapshot: &Snapshot,
    rules: &Rules,
    request: &SessionRequest,
) -> Result<Step, SessionError> {
    match snapshot.state {
        State::Finished => Ok(Step::Replay),
        State::Finishing => Ok(Step::Resume),
        State::Failed => Err(SessionError::Gone),
        State::Cancelled => Err(SessionError::Cancelled),
        State::Active => active(snapshot, rules, request),
    }
}

/// A request without `Content-Range` brings the whole media.
const WHOLE: ContentRange = ContentRange::ToEnd {
    first: 0,
    total: None,
};

fn active(
    snapshot: &Snapshot,
    rules: &Rules,
    request: &SessionRequest,
) -> Result<Step, SessionError> {
    match request.content_range?.unwrap_or(WHOLE) {
        ContentRange::Query { total } => query(snapshot, total, request.body),
        ContentRange::Bounded { first, last, total } => {
            let chunk = Chunk {
                first,
                end: end_of(first, last)?,
                total: agreed_total(snapshot, total)?,
            };
            chunk
                .filter(snapshot, rules, request.body)
                .map(Step::Append)
        }
        ContentRange::ToEnd { first, total } => {
            let rest = Rest {
                first,
                total: agreed_total(snapshot, total)?,
            };
            rest.filter(snapshot, rules, request.body).map(Step::Append)
        }
    }
}

/// A request without data finishes the upload when the total it names is what is committed, and
/// else only asks.
fn query(snapshot: &Snapshot, total: Option<u64>, body: BodyLength) -> Result<Step, SessionError> {
    if matches!(body, BodyLength::Exact(1..)) {
        return Err(SessionError::QueryWithBody);
    }
    match (total.or(snapshot.total), snapshot.total) {
        (Some(stated), _) if stated != snapshot.offset => Ok(Step::Report),
        (Some(stated), Some(known)) if stated != known => {
            Err(SessionError::Truncated { stated, known })
        }
        (Some(total), _) => Ok(Step::Finish { total }),
        (None, _) => Ok(Step::Report),
    }
}

/// The first total that is stated holds; a data request with another one contradicts the upload.
fn agreed_total(snapshot: &Snapshot, stated: Option<u64>) -> Result<Option<u64>, SessionError> {
    match (stated, snapshot.total) {
        (Some(stated), Some(known)) if stated != known => {
            Err(SessionError::TotalChanged { stated, known })
        }
        (stated, known) => Ok(stated.or(known)),
    }
}

/// The body is the bytes `first..end`.
struct Chunk {
    first: u64,
    end: u64,
    total: Option<u64>,
}

impl Chunk {
    fn filter(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        body: BodyLength,
    ) -> Result<BodyFilter, SessionError> {
        let &Self { first, end, total } = self;
        if let Some(total) = total.filter(|total| end > *total) {
            return Err(SessionError::PastTotal { end, total });
        }
        within_limit(total.unwrap_or(end), rules)?;
        not_before_committed(total, snapshot)?;
        body_reaches(first, end, body)?;
        no_gap(first, snapshot)?;
        let filter = BodyFilter::new(first, snapshot.offset)
            .with_total(total)
            .with_limit(rules.max_size)
            .with_end(end);
        if total == Some(end) {
            return Ok(filter);
        }
        Ok(filter.not_last(self.kept_end(snapshot, rules)?))
    }

    /// How far a chunk that is not the last is stored. The rule looks at the chunk's length, since
    /// an offset may be anything after a broken connection (4.3). A chunk that brings nothing new
    /// is harmless whatever its size.
    fn kept_end(&self, snapshot: &Snapshot, rules: &Rules) -> Result<u64, SessionError> {
        let length = self.end - self.first;
        match rules.chunks {
            ChunkRule::Strict if self.end <= snapshot.offset => Ok(self.end),
            ChunkRule::Strict if length < CHUNK_GRANULARITY => {
                Err(SessionError::ChunkTooSmall { length })
            }
            ChunkRule::Strict => Ok(self.end - length % CHUNK_GRANULARITY),
            ChunkRule::Lenient => Ok(self.end),
        }
    }
}

/// The body is everything from `first` on.
struct Rest {
    first: u64,
    total: Option<u64>,
}

impl Rest {
    fn filter(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        body: BodyLength,
    ) -> Result<BodyFilter, SessionError> {
        let &Self { first, total } = self;
        no_gap(first, snapshot)?;
        let end = match (total, body) {
            (Some(total), _) => Some(total),
            (None, BodyLength::Exact(length)) => {
                let end = first.checked_add(length);
                Some(end.ok_or(ContentRangeError::Overflow)?)
            }
            (None, BodyLength::Unknown) => None,
        };
        let filter = BodyFilter::new(first, snapshot.offset)
            .with_total(total)
            .with_limit(rules.max_size);
        let Some(end) = end else { return Ok(filter) };
        within_limit(end, rules)?;
        not_before_committed(Some(end), snapshot)?;
        body_reaches(first, end, body)?;
        Ok(filter.with_end(end))
    }
}

fn within_limit(end: u64, rules: &Rules) -> Result<(), SessionError> {
    match rules.max_size {
        Some(limit) if end > limit => Err(SessionError::TooLarge { limit }),
        _ => Ok(()),
    }
}

fn not_before_committed(total: Option<u64>, snapshot: &Snapshot) -> Result<(), SessionError> {
    let committed = snapshot.offset;
    match total {
        Some(total) if total < committed => {
            Err(SessionError::EndsBeforeCommitted { total, committed })
        }
        _ => Ok(()),
    }
}

fn no_gap(first: u64, snapshot: &Snapshot) -> Result<(), SessionError> {
    let committed = snapshot.offset;
    if first > committed {
        Err(SessionError::Gap { first, committed })
    } else {
        Ok(())
    }
}

fn body_reaches(first: u64, end: u64, body: BodyLength) -> Result<(), SessionError> {
    let expected = end.saturating_sub(first);
    match body {
        BodyLength::Exact(body) if body != expected => Err(SessionError::LengthDisagrees {
            body,
            expected,
            first,
        }),
        _ => Ok(()),
    }
}

/// Decides of the bytes of one body which are stored: those before the committed offset are
/// skipped, those that are not kept by the chunk rule are dropped, those that may not be there are
/// refused.
///
/// What [`accept`](Self::accept) returned stays valid when a later call fails, so it can be
/// committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFilter {
    /// Offset of the next byte of the body.
    position: u64,
    /// Offset of the body's first byte.
    first: u64,
    /// Bytes before this offset are there already.
    committed: u64,
    /// Where the body has to end; `None` when its end decides.
    end: Option<u64>,
    /// Bytes from this offset on are not kept.
    kept_end: u64,
    limit: Option<u64>,
    total: Option<u64>,
    last: bool,
}

/// How a body came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The framing says that it is complete.
    Complete,
    /// The connection or the coding broke before that.
    Broken,
}

/// What has become of a request that carried data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A chunk is there: commit it and report the offset.
    Committed,
    /// The media is complete: commit and finish.
    Finished {
        /// Size of the media.
        total: u64,
    },
    /// The connection broke: commit what came. Nobody waits for an answer.
    Interrupted,
}

impl BodyFilter {
    /// Takes a body that is the whole media: of a simple upload, or the media part of a multipart
    /// upload.
    ///
    /// `length` is the length of the media, not of a multipart document around it.
    pub fn single_request(max_size: Option<u64>, length: BodyLength) -> Result<Self, SessionError> {
        let filter = Self::new(0, 0).with_limit(max_size);
        match (length, max_size) {
            (BodyLength::Exact(length), Some(limit)) if length > limit => {
                Err(SessionError::TooLarge { limit })
            }
            (BodyLength::Exact(length), _) => Ok(filter.with_end(length)),
            (BodyLength::Unknown, _) => Ok(filter),
        }
    }

    /// Takes a last body that begins at `first`, which is not behind `committed`, and ends where it
    /// ends.
    fn new(first: u64, committed: u64) -> Self {
        Self {
            position: first,
            first,
            committed,
            end: None,
            kept_end: u64::MAX,
            limit: None,
            total: None,
            last: true,
        }
    }

    fn with_total(self, total: Option<u64>) -> Self {
        Self { total, ..self }
    }

    fn with_limit(self, limit: Option<u64>) -> Self {
        Self { limit, ..self }
    }

    fn with_end(self, end: u64) -> Self {
        Self {
            end: Some(end),
            ..self
        }
    }

    /// More follows in other requests; of this one, what lies before `kept_end` is stored.
    fn not_last(self, kept_end: u64) -> Self {
        Self {
            kept_end,
            last: false,
            ..self
        }
    }

    /// The size of the media, if this request or an earlier one states it. Stored with the session
    /// at the commit.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// How many bytes are still to be stored if the request completes, where that is known.
    pub fn remaining_hint(&self) -> Option<u64> {
        let end = self.end?.min(self.kept_end);
        Some(end.saturating_sub(self.position.max(self.committed)))
    }

    /// Takes the next bytes of the body and returns those to store, in order, behind what was
    /// stored before.
    ///
    /// # Errors
    ///
    /// [`LengthDisagrees`](SessionError::LengthDisagrees) when the body runs past its end,
    /// [`TooLarge`](SessionError::TooLarge) when the media outgrows the limit. Nothing of `data` is
    /// taken then.
    pub fn accept(&mut self, data: Bytes) -> Result<Bytes, SessionError> {
        let start = self.position;
        let position = start.saturating_add(data.len() as u64);
        if let Some(end) = self.end.filter(|end| position > *end) {
            return Err(self.disagreement(position, end));
        }
        if let Some(limit) = self.limit.filter(|limit| position > *limit) {
            return Err(SessionError::TooLarge { limit });
        }
        self.position = position;
        Ok(window(data, start, self.committed, self.kept_end))
    }

    /// Ends the request.
    pub fn end(self, ending: Ending) -> Result<Outcome, SessionError> {
        let (position, committed) = (self.position, self.committed);
        match (ending, self.end) {
            (Ending::Broken, _) => Ok(Outcome::Interrupted),
            (Ending::Complete, Some(end)) if position < end => {
                Err(self.disagreement(position, end))
            }
            (Ending::Complete, _) if !self.last => Ok(Outcome::Committed),
            (Ending::Complete, _) if position < committed => {
                Err(SessionError::EndsBeforeCommitted {
                    total: position,
                    committed,
                })
            }
            (Ending::Complete, _) => Ok(Outcome::Finished { total: position }),
        }
    }

    fn disagreement(&self, position: u64, end: u64) -> SessionError {
        let first = self.first;
        SessionError::LengthDisagrees {
            body: position - first,
            expected: end - first,
            first,
        }
    }
}

/// Of bytes that begin at `start`, those with offsets in `from..to`.
fn window(mut data: Bytes, start: u64, from: u64, to: u64) -> Bytes {
    let within = |data: &Bytes, offset: u64| {
        let index = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
        index.min(data.len())
    };
    data.truncate(within(&data, to));
    data.advance(within(&data, from));
    data
}
