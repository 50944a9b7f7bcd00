//! How far the request may go, and how fast.

use std::io;
use std::time::Instant;

use super::super::fault::Fault;
use super::super::framing::Framing;
use super::super::head::Head;

/// The request on its way upstream.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) framing: Framing,
    /// How many bytes of the inbox may go, and how many bytes of the body these are.
    pub(super) cleared: usize,
    cleared_body: u64,
    /// How much of the body was cleared in all.
    passed: u64,
    /// Where a fault stops it; nowhere any more once the upstream has answered.
    pub(super) stops_after: Option<u64>,
    slowness: Option<Slowness>,
    /// The upstream takes no more bytes. Its reply may still come.
    pub(super) is_refused: bool,
    /// The upstream knows that the client will send no more.
    pub(super) end_is_known: bool,
}

/// A body's speed.
#[derive(Debug)]
struct Slowness {
    since: Instant,
    bytes_per_second: u64,
}

impl Sending {
    pub(super) fn new(head: &Head, fault: Option<Fault>) -> Self {
        let slowness = match fault {
            Some(Fault::Throttle { bytes_per_second }) => Some(Slowness {
                since: Instant::now(),
                bytes_per_second: bytes_per_second.max(1),
            }),
            _ => None,
        };
        Self {
            framing: Framing::of_request(head),
            cleared: head.len,
            cleared_body: 0,
            passed: 0,
            stops_after: fault.and_then(Fault::stops_request_after),
            slowness,
            is_refused: false,
            end_is_known: false,
        }
    }

    /// Clears the bytes in the inbox, as far as no fault keeps them back.
    pub(super) fn clear(&mut self, inbox: &[u8]) -> io::Result<()> {
        let slowly = self.slowness.as_ref().map(Slowness::allowed);
        let limits = [self.stops_after, slowly];
        let limit = limits.into_iter().flatten().min().unwrap_or(u64::MAX);
        let stretch = self
            .framing
            .advance(&inbox[self.cleared..], limit.saturating_sub(self.passed))?;
        self.cleared += stretch.wire;
        self.cleared_body += stretch.body;
        self.passed += stretch.body;
        Ok(())
    }

    /// Returns the number of body bytes in the first `len` cleared bytes, which were sent. Coding
    /// is counted first: between chunks the count runs late, and is right after all bytes were
    /// sent.
    pub(super) fn sent(&mut self, len: usize) -> u64 {
        self.cleared -= len;
        let left = self.cleared_body.min(self.cleared as u64);
        let gone = self.cleared_body - left;
        self.cleared_body = left;
        gone
    }

    /// Whether a fault lets nothing more of it through, and the rest has gone.
    pub(super) fn has_stopped(&self) -> bool {
        let is_reached = |after| self.passed >= after || self.framing.is_complete();
        self.cleared == 0 && self.stops_after.is_some_and(is_reached)
    }

    /// Whether more may go after a while.
    pub(super) fn is_kept_back(&self) -> bool {
        self.slowness.is_some() && self.cleared == 0 && !self.framing.is_complete()
    }
}

impl Slowness {
    /// How much of the body may have passed by now.
    fn allowed(&self) -> u64 {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        millis.saturating_mul(self.bytes_per_second) / 1000
    }
}
