//! The state machine of an upload session: which bytes of a request are stored, and when the upload
//! ends (docs/protocol.md, 2.8, 2.9, 2.12 and 4.1 to 4.21).
//!
//! [`step`] decides from the request's head how the session handles the request. For a request with
//! data it returns a [`BodyFilter`], which selects the bytes of the body to store. All offsets
//! count decoded bytes of the media. No function waits, reads a clock or opens a file, and none
//! panics because of received data.

mod body_filter;
mod content_range;
mod error;
#[cfg(test)]
mod tests;

pub use body_filter::{BodyFilter, Ending, Outcome};
pub use content_range::{CHUNK_GRANULARITY, ContentRange, ContentRangeError};
pub use error::SessionError;

use content_range::end_of;

/// A request to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRequest {
    /// The action on the session.
    pub action: SessionAction,
    /// Length of the body.
    pub body: BodyLength,
}

impl SessionRequest {
    /// Offset of the body's first byte, where the request states it; 0 otherwise.
    pub fn first(&self) -> u64 {
        match self.action {
            SessionAction::Ranged(Ok(Some(
                ContentRange::Bounded { first, .. } | ContentRange::ToEnd { first, .. },
            )))
            | SessionAction::AppendAt { first, .. } => first,
            SessionAction::Ranged(_) | SessionAction::Finish | SessionAction::Query(_) => 0,
        }
    }

    /// Fills in the offset of a request that finishes with the committed bytes.
    pub fn finish_at(&mut self, committed: u64) {
        if self.action == SessionAction::Finish {
            self.action = SessionAction::AppendAt {
                first: committed,
                overlap: Overlap::Skip,
                end: End::Always,
                length: None,
            };
        }
    }

    /// Returns whether the request is known to have bytes after this offset, and its client tells
    /// itself where the upload ends. Returns false for all other requests: their clients know that
    /// an upload ends at its length, and are told that it has ended.
    fn ends_after(&self, size: u64) -> bool {
        let is_explicit = matches!(
            self.action,
            SessionAction::AppendAt {
                end: End::Never | End::Always,
                ..
            } | SessionAction::Finish
        );
        let length = match self.body {
            BodyLength::Exact(length) => length,
            BodyLength::Unknown => 0,
        };
        is_explicit && self.first().saturating_add(length) > size
    }

    /// Returns the error for a body that must begin at the committed offset and does not.
    fn conflict(&self, snapshot: &Snapshot) -> Option<SessionError> {
        match self.action {
            SessionAction::AppendAt {
                first,
                overlap: Overlap::Conflict,
                ..
            } => no_conflict(first, snapshot).err(),
            _ => None,
        }
    }

    /// Returns whether the request has the form of a query. In Google's dialect such a request also
    /// ends an upload after all of its bytes are committed.
    pub fn is_query(&self) -> bool {
        matches!(
            self.action,
            SessionAction::Query(_) | SessionAction::Ranged(Ok(Some(ContentRange::Query { .. })))
        )
    }

    /// Returns whether the request is a query that first stops the request that appends.
    pub fn settles(&self) -> bool {
        matches!(
            self.action,
            SessionAction::Query(Query::Settled | Query::SettledAtLength)
        )
    }
}

/// The action that a request asks of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAction {
    /// The parsed `Content-Range`. Without this header (`None`), the body is the whole media. The
    /// upload ends with the byte that completes the size. The session handles a parse error,
    /// because the error ends the session.
    Ranged(Result<Option<ContentRange>, ContentRangeError>),
    /// Append the body.
    AppendAt {
        /// Offset of the body's first byte.
        first: u64,
        /// What happens if this is not the committed offset.
        overlap: Overlap,
        /// Whether the upload ends with this body.
        end: End,
        /// The length of the whole media, if this request states it. A length that was declared at
        /// the start or stated by an earlier request must not change.
        length: Option<u64>,
    },
    /// Finish with the committed bytes. The request has no body.
    Finish,
    /// Report the number of committed bytes.
    Query(Query),
}

/// What happens to a body that does not begin at the committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Its committed bytes are skipped. A body that begins after the committed bytes is refused
    /// ([`SessionError::Gap`]).
    Skip,
    /// It is refused ([`SessionError::Conflict`]).
    Conflict,
}

/// Whether an upload ends with the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// No: more is to come, also if the length of the media is reached. A byte beyond the length
    /// ends the session.
    Never,
    /// If the length of the media is reached. A byte beyond it is refused.
    AtLength,
    /// Yes. A byte beyond the length of the media ends the session.
    Always,
}

/// How a query treats the request that appends at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// It is left alone, and the reported offset may be behind it.
    Undisturbed,
    /// It is stopped first, so that the next body can begin exactly at the reported offset.
    Settled,
    /// As [`Settled`](Self::Settled). If all bytes of a known length are committed, the query also
    /// finishes the upload, as [`End::AtLength`] would have done: the request that brought the last
    /// byte has broken off after it.
    SettledAtLength,
}

/// Length of a body in decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// Known from the head.
    Exact(u64),
    /// Known at the end of the body: the body is chunked, or it has a content coding.
    Unknown,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Accepts bytes.
    Active,
    /// All bytes are committed; the resource is being made.
    Finishing,
    /// The final reply is stored.
    Finished,
    /// Ended without a resource, for example by an invalid request or by lost media.
    Failed,
    /// Cancelled by the client.
    Cancelled,
}

/// The session as stored when a request arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// State of the session.
    pub state: State,
    /// Number of committed bytes.
    pub offset: u64,
    /// Size of the media, if it was declared at the start (above zero) or stated by an earlier data
    /// request.
    pub total: Option<u64>,
}

/// How a chunk is handled that is not the last and not a multiple of [`CHUNK_GRANULARITY`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChunkRule {
    /// A chunk below one multiple ends the session. Of a larger one, the bytes after the last
    /// multiple are dropped.
    #[default]
    Strict,
    /// The chunk is stored as it is.
    Lenient,
}

/// What the media of an upload is to other uploads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UploadKind {
    /// It stands alone, and becomes a resource at its end.
    #[default]
    Whole,
    /// It is made to be concatenated with others. The upload takes data up to its length and has no
    /// end: it stays as it is until it expires or is cancelled.
    Partial,
    /// It consists of partial uploads. The upload takes no data.
    Concatenated,
}

/// The rules of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rules {
    /// What the upload is to others.
    pub kind: UploadKind,
    /// Rule for the size of chunks.
    pub chunks: ChunkRule,
    /// Maximum size of the media in bytes.
    pub max_size: Option<u64>,
}

impl Rules {
    /// Sets [`kind`](Self::kind).
    #[must_use]
    pub fn with_kind(self, kind: UploadKind) -> Self {
        Self { kind, ..self }
    }

    /// Sets [`chunks`](Self::chunks).
    #[must_use]
    pub fn with_chunks(self, chunks: ChunkRule) -> Self {
        Self { chunks, ..self }
    }

    /// Sets [`max_size`](Self::max_size).
    #[must_use]
    pub fn with_max_size(self, max_size: Option<u64>) -> Self {
        Self { max_size, ..self }
    }
}

/// How to handle a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The session is finished: send the stored reply. The body is ignored.
    Replay,
    /// The session is finishing: complete the finish, then send its reply.
    ResumeFinish,
    /// Report the number of committed bytes.
    Report,
    /// Finish with the committed bytes. The request has no body, or one of unknown length that must
    /// be empty.
    Finish {
        /// Size of the media.
        total: u64,
    },
    /// Read the body through this filter.
    Append(BodyFilter),
}

/// Decides how a session handles a request.
///
/// What the head of an appending or finishing request gives away is refused here, before its body
/// is read. The body of a query is ignored.
pub fn step(
    snapshot: &Snapshot,
    rules: &Rules,
    request: &SessionRequest,
) -> Result<Step, SessionError> {
    let has_ended = matches!(snapshot.state, State::Cancelled | State::Failed);
    if rules.kind == UploadKind::Concatenated && !has_ended && !request.is_query() {
        return Err(SessionError::NoData);
    }
    if matches!(snapshot.state, State::Finishing | State::Finished)
        && let Some(conflict) = request.conflict(snapshot)
    {
        return Err(conflict);
    }
    match snapshot.state {
        // A repeated request has no bytes after the end. A request with such bytes is refused,
        // because its client would take the bytes for stored.
        State::Finished if request.ends_after(snapshot.offset) => Err(SessionError::AfterEnd {
            size: snapshot.offset,
        }),
        State::Finished => Ok(Step::Replay),
        State::Finishing => Ok(Step::ResumeFinish),
        State::Failed => Err(SessionError::Gone),
        State::Cancelled => Err(SessionError::Cancelled),
        State::Active => active(snapshot, rules, request),
    }
}

/// Returns the length of a partial upload that is to be concatenated.
///
/// # Errors
/// [`SessionError::NotPartial`], [`SessionError::Incomplete`], or the error for a session that has
/// ended.
pub fn partial_length(snapshot: &Snapshot, rules: &Rules) -> Result<u64, SessionError> {
    let committed = snapshot.offset;
    match snapshot.state {
        State::Cancelled => Err(SessionError::Cancelled),
        State::Failed => Err(SessionError::Gone),
        _ if rules.kind != UploadKind::Partial => Err(SessionError::NotPartial),
        _ if snapshot.total != Some(committed) => Err(SessionError::Incomplete { committed }),
        _ => Ok(committed),
    }
}

/// A request without `Content-Range` carries the whole media.
const WHOLE: ContentRange = ContentRange::ToEnd {
    first: 0,
    total: None,
};

fn active(
    snapshot: &Snapshot,
    rules: &Rules,
    request: &SessionRequest,
) -> Result<Step, SessionError> {
    if rules.kind == UploadKind::Partial {
        return partial(snapshot, rules, request);
    }
    match request.action {
        SessionAction::Ranged(range) => {
            ranged(snapshot, rules, range?.unwrap_or(WHOLE), request.body)
        }
        SessionAction::AppendAt {
            first,
            overlap,
            end,
            length,
        } => {
            not_elsewhere(first, overlap, snapshot)?;
            let part = Part {
                first,
                end,
                length: part_length(snapshot, rules, length)?,
            };
            part.filter(snapshot, rules, request.body).map(Step::Append)
        }
        SessionAction::Finish => {
            let part = Part {
                first: snapshot.offset,
                end: End::Always,
                length: snapshot.total,
            };
            // The body begins nowhere: the filter refuses the first byte of it.
            part.filter(snapshot, rules, BodyLength::Exact(0))
                .map(Step::Append)
        }
        SessionAction::Query(Query::SettledAtLength) if snapshot.total == Some(snapshot.offset) => {
            Ok(Step::Finish {
                total: snapshot.offset,
            })
        }
        SessionAction::Query(_) => Ok(Step::Report),
    }
}

/// Handles a request to a partial upload, which nothing ends.
fn partial(
    snapshot: &Snapshot,
    rules: &Rules,
    request: &SessionRequest,
) -> Result<Step, SessionError> {
    match request.action {
        _ if request.is_query() => Ok(Step::Report),
        SessionAction::AppendAt {
            first,
            overlap,
            end: end @ (End::Never | End::AtLength),
            length,
        } => {
            not_elsewhere(first, overlap, snapshot)?;
            let part = Part {
                first,
                end,
                length: part_length(snapshot, rules, length)?,
            };
            let filter = part.filter(snapshot, rules, request.body)?;
            Ok(Step::Append(filter.without_end()))
        }
        _ => Err(SessionError::NoEnd),
    }
}

fn ranged(
    snapshot: &Snapshot,
    rules: &Rules,
    range: ContentRange,
    body: BodyLength,
) -> Result<Step, SessionError> {
    match range {
        ContentRange::Query { total } => query(snapshot, total, body),
        ContentRange::Bounded { first, last, total } => {
            let chunk = Chunk {
                first,
                end: end_of(first, last)?,
                total: agreed_total(snapshot, total)?,
            };
            chunk.filter(snapshot, rules, body).map(Step::Append)
        }
        ContentRange::ToEnd { first, total } => {
            let rest = Rest {
                first,
                total: agreed_total(snapshot, total)?,
            };
            rest.filter(snapshot, rules, body).map(Step::Append)
        }
    }
}

/// Handles a request without data. It finishes the upload if the total it states equals the
/// committed bytes; otherwise it is a query.
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

/// Returns the total of the upload. The first stated total is binding; a data request with another
/// one is an error.
fn agreed_total(snapshot: &Snapshot, stated: Option<u64>) -> Result<Option<u64>, SessionError> {
    match (stated, snapshot.total) {
        (Some(stated), Some(known)) if stated != known => {
            Err(SessionError::TotalChanged { stated, known })
        }
        (stated, known) => Ok(stated.or(known)),
    }
}

/// A body that is the bytes `first..end`.
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

    /// Returns the offset up to which a chunk that is not the last is stored. The rule uses the
    /// chunk's length, because the committed offset may be arbitrary after a broken connection
    /// (4.3). A chunk without new bytes is harmless whatever its size.
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

/// A body whose request says itself where it begins and whether it ends the upload.
struct Part {
    first: u64,
    end: End,
    /// Length of the media, if it is known.
    length: Option<u64>,
}

impl Part {
    fn filter(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        body: BodyLength,
    ) -> Result<BodyFilter, SessionError> {
        match self.end {
            End::Never => self.middle(snapshot, rules, body),
            End::AtLength => self.up_to_length(snapshot, rules, body),
            End::Always => self.last(snapshot, rules, body),
        }
    }

    /// Filters a body that does not end the upload.
    fn middle(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        body: BodyLength,
    ) -> Result<BodyFilter, SessionError> {
        let filter = self
            .open(snapshot, rules)
            .ends_session_beyond_total()
            .not_last(u64::MAX);
        let BodyLength::Exact(length) = body else {
            return Ok(filter);
        };
        let end = end_of_body(self.first, length)?;
        within_declared(end, self.length)?;
        within_limit(end, rules)?;
        Ok(filter.with_end(end))
    }

    /// Filters a body that ends the upload if it reaches the length of the media.
    fn up_to_length(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        body: BodyLength,
    ) -> Result<BodyFilter, SessionError> {
        let filter = self.open(snapshot, rules).last_at_total();
        let BodyLength::Exact(length) = body else {
            return Ok(filter);
        };
        let end = end_of_body(self.first, length)?;
        if let Some(length) = self.length.filter(|length| end > *length) {
            return Err(SessionError::PastLength { end, length });
        }
        within_limit(end, rules)?;
        Ok(filter.with_end(end))
    }

    /// Filters a body that ends the upload.
    fn last(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        body: BodyLength,
    ) -> Result<BodyFilter, SessionError> {
        if let BodyLength::Exact(length) = body {
            within_declared(end_of_body(self.first, length)?, self.length)?;
        }
        let rest = Rest {
            first: self.first,
            total: self.length,
        };
        let filter = rest.filter(snapshot, rules, body)?;
        Ok(filter.ends_session_beyond_total())
    }

    fn open(&self, snapshot: &Snapshot, rules: &Rules) -> BodyFilter {
        BodyFilter::new(self.first, snapshot.offset)
            .with_total(self.length)
            .with_limit(rules.max_size)
    }
}

/// Returns the length of the media, if it is known. A request may state a length that is not known
/// yet.
fn part_length(
    snapshot: &Snapshot,
    rules: &Rules,
    stated: Option<u64>,
) -> Result<Option<u64>, SessionError> {
    let Some(stated) = stated else {
        return Ok(snapshot.total);
    };
    match (snapshot.total, rules.max_size) {
        (Some(known), _) if stated != known => {
            return Err(SessionError::LengthChanged { stated, known });
        }
        (None, Some(limit)) if stated > limit => {
            return Err(SessionError::LengthTooLarge { limit });
        }
        _ => {}
    }
    not_before_committed(Some(stated), snapshot)?;
    Ok(Some(stated))
}

/// A body that is all bytes from `first` on.
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
            (None, BodyLength::Exact(length)) => Some(end_of_body(first, length)?),
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

fn end_of_body(first: u64, length: u64) -> Result<u64, SessionError> {
    let end = first.checked_add(length);
    Ok(end.ok_or(ContentRangeError::Overflow)?)
}

fn within_declared(end: u64, declared: Option<u64>) -> Result<(), SessionError> {
    match declared {
        Some(declared) if end > declared => Err(SessionError::MoreThanDeclared { declared }),
        _ => Ok(()),
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

/// Refuses a body that begins where it must not.
fn not_elsewhere(first: u64, overlap: Overlap, snapshot: &Snapshot) -> Result<(), SessionError> {
    match overlap {
        Overlap::Skip => no_gap(first, snapshot),
        Overlap::Conflict => no_conflict(first, snapshot),
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

fn no_conflict(first: u64, snapshot: &Snapshot) -> Result<(), SessionError> {
    let committed = snapshot.offset;
    if first == committed {
        Ok(())
    } else {
        Err(SessionError::Conflict { first, committed })
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
