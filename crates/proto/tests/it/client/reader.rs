//! The media as a client has it.

use std::ops::Range;

use crate::schedule::{Schedule, Source};

/// The media as the client has it.
#[derive(Debug)]
pub(crate) struct Reader {
    len: u64,
    window: Option<u64>,
    /// The available range.
    kept: Range<u64>,
    /// Whether the reader notices the end with the last byte, and not only after it.
    sees_end: bool,
}

impl Reader {
    pub(crate) fn new(case: &Schedule) -> Self {
        let seekable = case.source == Source::Seekable;
        Self {
            len: case.len,
            window: case.window(),
            kept: 0..if seekable { case.len } else { 0 },
            sees_end: case.total_known(),
        }
    }

    /// Reads more. Returns the number of available bytes and whether the media has ended. The last
    /// requested byte arrives separately, to test that the transfer waits for it.
    pub(crate) fn fill(&mut self, upto: u64) -> (u64, bool) {
        assert!(
            upto > self.kept.end,
            "filled {:?} already, not {upto}",
            self.kept
        );
        let all_but_one = (upto - 1).max(self.kept.end + 1);
        self.kept.end = all_but_one.min(self.len);
        let ended = all_but_one > self.len || (self.sees_end && all_but_one >= self.len);
        (self.kept.end, ended)
    }

    /// Drops bytes that will not be requested again.
    pub(crate) fn release(&mut self, floor: u64) {
        if self.window.is_some() {
            self.kept.start = self.kept.start.max(floor);
        } else {
            assert_eq!(floor, 0, "all of the media is kept");
        }
    }

    pub(crate) fn check(&self, body: &Range<u64>) {
        let kept = &self.kept;
        assert!(self.has(body), "{body:?} of {kept:?}");
        if let Some(window) = self.window {
            // One more byte tells whether a chunk is the last.
            assert!(
                kept.end.saturating_sub(kept.start) <= window + 1,
                "{kept:?} is more than {window}"
            );
        }
    }

    /// Returns whether these bytes can be sent.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        range.is_empty() || (self.kept.start <= range.start && range.end <= self.kept.end)
    }
}
