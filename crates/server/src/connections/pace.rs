//! The minimum rate at which a client has to read replies.
//!
//! The rule is the same as for request bodies. Only the time during which the server has waited for
//! the client counts. Fewer than [`Limits::min_rate`](crate::config::Limits::min_rate) bytes per
//! second over a window of this time are too slow. Otherwise a client could hold a connection by
//! reading a byte per minute.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use crate::body::{HURRIED_WINDOW, RATE_WINDOW};
use crate::callers::{CallerLimit, CallerMetrics};

/// The minimum rate of replies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    /// Bytes per second. 0 is no limit.
    pub(super) min: u64,
    /// Whether few connections were left when the connection began.
    pub(super) is_hurried: bool,
}

/// The rate at which a client reads replies.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    rate: Rate,
    metrics: CallerMetrics,
    /// Time for which the server has waited for the client, in the current window.
    waited: Duration,
    /// Bytes that the client has read in this window.
    taken: u64,
    /// When the current wait began.
    waiting: Option<Instant>,
}

impl Pace {
    pub(super) fn new(rate: Rate, metrics: CallerMetrics) -> Self {
        Self {
            rate,
            metrics,
            ..Self::default()
        }
    }

    /// Records that the server waits for the client.
    pub(super) fn begin_wait(&mut self) {
        self.waiting.get_or_insert_with(Instant::now);
    }

    /// Records that the client has read bytes.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if it has read too few bytes in a window.
    pub(super) fn end_wait(&mut self, bytes: usize) -> io::Result<()> {
        self.taken += bytes as u64;
        let Some(begun) = self.waiting.take() else {
            return Ok(());
        };
        self.waited += begun.elapsed();
        let window = if self.rate.is_hurried {
            HURRIED_WINDOW
        } else {
            RATE_WINDOW
        };
        if self.waited < window {
            return Ok(());
        }
        let waited = std::mem::take(&mut self.waited);
        let taken = std::mem::take(&mut self.taken);
        if taken >= self.rate.min.saturating_mul(waited.as_secs()) {
            return Ok(());
        }
        self.metrics.count(CallerLimit::BodyRate);
        Err(io::ErrorKind::TimedOut.into())
    }
}
