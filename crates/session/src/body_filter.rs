//! Which bytes of a body a session stores.

use bytes::{Buf, Bytes};

use super::{BodyLength, SessionError};

/// Selects the bytes of one body to store. It skips bytes before the committed offset, drops bytes
/// that the chunk rule does not keep, and refuses bytes that exceed the range or the limit.
///
/// The bytes that [`accept`](Self::accept) returned stay valid after a later error, so they can be
/// committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFilter {
    /// Offset of the next byte of the body.
    position: u64,
    /// Offset of the body's first byte.
    first: u64,
    /// Bytes before this offset are already committed.
    committed: u64,
    /// Required end of the body; `None` when the framing decides.
    end: Option<u64>,
    /// Bytes from this offset on are dropped.
    kept_end: u64,
    limit: Option<u64>,
    total: Option<u64>,
    last: Last,
    /// Whether a byte beyond the total ends the session.
    total_is_final: bool,
}

/// Whether a body is the last one of its upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Yes,
    No,
    /// If it reaches the total.
    AtTotal,
    /// Also if it reaches the total it is not.
    Never,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The framing reports a complete body.
    Complete,
    /// The connection or the coding broke before the end.
    Broken,
}

/// Result of a request that carried data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A chunk is complete: commit it and report the offset.
    Committed,
    /// The media is complete: commit and finish.
    Finished {
        /// Size of the media.
        total: u64,
    },
    /// The connection broke: commit the received bytes. No reply is awaited.
    Interrupted,
}

impl BodyFilter {
    /// Filters a body that is the whole media: of a simple upload, or the media part of a multipart
    /// upload.
    ///
    /// `length` is the length of the media, not of the multipart document that contains it.
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

    /// Filters a last body of open end that begins at `first`, at or before `committed`.
    pub(super) fn new(first: u64, committed: u64) -> Self {
        Self {
            position: first,
            first,
            committed,
            end: None,
            kept_end: u64::MAX,
            limit: None,
            total: None,
            last: Last::Yes,
            total_is_final: false,
        }
    }

    /// Makes a byte beyond the total an error that ends the session.
    pub(super) fn ends_session_beyond_total(self) -> Self {
        Self {
            total_is_final: true,
            ..self
        }
    }

    pub(super) fn with_total(self, total: Option<u64>) -> Self {
        Self { total, ..self }
    }

    pub(super) fn with_limit(self, limit: Option<u64>) -> Self {
        Self { limit, ..self }
    }

    pub(super) fn with_end(self, end: u64) -> Self {
        Self {
            end: Some(end),
            ..self
        }
    }

    /// Marks the body as not the last one. Its bytes before `kept_end` are stored.
    pub(super) fn not_last(self, kept_end: u64) -> Self {
        Self {
            kept_end,
            last: Last::No,
            ..self
        }
    }

    /// Marks the body as the last one if it reaches the total. A byte beyond the total is an error
    /// that does not end the session.
    pub(super) fn last_at_total(self) -> Self {
        Self {
            last: Last::AtTotal,
            ..self
        }
    }

    /// Makes a body that would be the last one at the total one that is not.
    pub(super) fn without_end(self) -> Self {
        let last = match self.last {
            Last::AtTotal => Last::Never,
            last => last,
        };
        Self { last, ..self }
    }

    /// Returns the offset of the next byte of the body.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the size of the media, if this request or an earlier one states it. It is stored
    /// with the session at the commit.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Returns whether it is known beforehand that the request brings new bytes, or that the end of
    /// its streamed body ends the upload. Such a request makes a commit if it completes.
    pub fn commits(&self) -> bool {
        match self.remaining_hint() {
            Some(remaining) => remaining > 0,
            None => self.last == Last::Yes,
        }
    }

    /// Returns the number of bytes still to be stored if the request completes, where it is known.
    pub fn remaining_hint(&self) -> Option<u64> {
        let end = self.end?.min(self.kept_end);
        Some(end.saturating_sub(self.position.max(self.committed)))
    }

    /// Takes the next bytes of the body and returns those to store, which follow the bytes returned
    /// before.
    ///
    /// # Errors
    ///
    /// [`LengthDisagrees`](SessionError::LengthDisagrees) when the body exceeds its range,
    /// [`PastLength`](SessionError::PastLength) and
    /// [`MoreThanDeclared`](SessionError::MoreThanDeclared) when it exceeds the declared size,
    /// [`TooLarge`](SessionError::TooLarge) when the media exceeds the size limit. Nothing of
    /// `data` is taken then.
    pub fn accept(&mut self, data: Bytes) -> Result<Bytes, SessionError> {
        let start = self.position;
        let position = start.saturating_add(data.len() as u64);
        if let Some(length) = self.total.filter(|total| position > *total)
            && matches!(self.last, Last::AtTotal | Last::Never)
        {
            let end = position;
            return Err(SessionError::PastLength { end, length });
        }
        let declared = self.total.filter(|_| self.total_is_final);
        if let Some(declared) = declared.filter(|declared| position > *declared) {
            return Err(SessionError::MoreThanDeclared { declared });
        }
        if let Some(end) = self.end.filter(|end| position > *end) {
            return Err(self.disagreement(position, end));
        }
        if let Some(limit) = self.limit.filter(|limit| position > *limit) {
            return Err(SessionError::TooLarge { limit });
        }
        self.position = position;
        Ok(window(data, start, self.committed, self.kept_end))
    }

    /// Ends the body and returns the result of the request.
    pub fn end(self, ending: Ending) -> Result<Outcome, SessionError> {
        let (position, committed) = (self.position, self.committed);
        match (ending, self.end) {
            (Ending::Broken, _) => Ok(Outcome::Interrupted),
            (Ending::Complete, Some(end)) if position < end => {
                Err(self.disagreement(position, end))
            }
            (Ending::Complete, _) if !self.is_last() => Ok(Outcome::Committed),
            (Ending::Complete, _) if position < committed => {
                Err(SessionError::EndsBeforeCommitted {
                    total: position,
                    committed,
                })
            }
            (Ending::Complete, _) => Ok(Outcome::Finished { total: position }),
        }
    }

    /// Whether the upload ends at the current position.
    fn is_last(&self) -> bool {
        match self.last {
            Last::Yes => true,
            Last::No | Last::Never => false,
            Last::AtTotal => self.total == Some(self.position),
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

/// Returns the part of `data`, which begins at offset `start`, with offsets in `from..to`.
fn window(mut data: Bytes, start: u64, from: u64, to: u64) -> Bytes {
    let within = |data: &Bytes, offset: u64| {
        let index = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
        index.min(data.len())
    };
    data.truncate(within(&data, to));
    data.advance(within(&data, from));
    data
}
