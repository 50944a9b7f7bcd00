//! The bytes of one request on their way into the media.

use bytes::{Buf, Bytes};

use super::SessionError;
use crate::command::BodyLength;

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
    pub(super) fn new(first: u64, committed: u64) -> Self {
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

    /// More follows in other requests; of this one, what lies before `kept_end` is stored.
    pub(super) fn not_last(self, kept_end: u64) -> Self {
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
