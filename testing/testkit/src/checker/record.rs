//! What happened to an upload, and what the server is bound by because of it.

use std::ops::Range;
use std::time::Duration;

/// Something that happened to an upload, as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A request with these bytes of the media is about to be sent.
    Sent(Range<u64>),
    /// The server has started a session; its target is kept with the upload.
    Started,
    /// The server has said that so many bytes are committed.
    Committed(u64),
    /// The server has said that the upload is complete, with this body.
    Finished(Vec<u8>),
    /// A cancel is about to be sent.
    CancelSent,
    /// The server has said that the session was cancelled.
    Cancelled,
    /// The server has said: not now.
    Refused(u16),
    /// The connection broke, or nothing came in time.
    Broken(std::io::ErrorKind),
    /// What the test did meanwhile.
    Fault(String),
}

/// An event, and when it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Since the fleet was made.
    pub at: Duration,
    /// What the fleet's stamp said then, e.g. the length of a log of block writes.
    pub stamp: u64,
    /// What happened.
    pub event: Event,
}

/// What a server is bound by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// A session was started.
    pub started: bool,
    /// The highest offset that was acknowledged.
    pub offset: u64,
    /// How far the media was ever sent: more cannot be committed.
    pub sent: u64,
    /// The body of the first final reply.
    pub finished: Option<Vec<u8>>,
    /// A cancel was on its way: the session may be gone.
    pub may_be_cancelled: bool,
    /// The cancel was acknowledged: the session must be gone.
    pub cancelled: bool,
}

impl Known {
    /// What follows from records in their order.
    pub fn of(records: &[Record]) -> Self {
        let mut known = Self::default();
        for record in records {
            known.note(&record.event);
        }
        known
    }

    /// Takes in one more event.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Sent(range) => self.sent = self.sent.max(range.end),
            Event::Started => self.started = true,
            Event::Committed(offset) => self.offset = self.offset.max(*offset),
            Event::Finished(body) => {
                self.finished.get_or_insert_with(|| body.clone());
            }
            Event::CancelSent => self.may_be_cancelled = true,
            Event::Cancelled => self.cancelled = true,
            Event::Refused(_) | Event::Broken(_) | Event::Fault(_) => {}
        }
    }

    /// So many bytes the server has to keep. Of what was cancelled it is none any more.
    pub fn acknowledged(&self) -> u64 {
        match self.finished {
            _ if self.cancelled => 0,
            Some(_) => self.sent,
            None => self.offset,
        }
    }

    /// Whether the upload has come to an end.
    pub fn is_over(&self) -> bool {
        self.finished.is_some() || self.cancelled
    }
}
