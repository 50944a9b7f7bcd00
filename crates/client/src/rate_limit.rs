//! A limit on the rate at which media is sent and received.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A rate limit in bytes per second. Uploads and downloads that use clones of it share the rate.
#[derive(Debug, Clone)]
pub struct RateLimit(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    bytes_per_second: u64,
    /// When all bytes reserved so far will have been transferred at the rate.
    free_at: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// Creates a limit in bytes per second.
    pub fn new(bytes_per_second: NonZeroU64) -> Self {
        Self(Arc::new(Bucket {
            bytes_per_second: bytes_per_second.get(),
            free_at: Mutex::new(None),
        }))
    }

    /// Returns the maximum length of a piece in bytes: the bytes of a tenth of a second, at least
    /// one.
    pub(crate) fn max_piece(&self) -> usize {
        let piece = (self.0.bytes_per_second / 10).max(1);
        usize::try_from(piece).unwrap_or(usize::MAX)
    }

    /// Reserves the transfer of `bytes` bytes, and returns the wait before it may begin.
    pub(crate) fn reserve(&self, bytes: usize) -> Duration {
        let now = Instant::now();
        let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.0.bytes_per_second);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut free_at = self
            .0
            .free_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let begin = free_at.unwrap_or(now).max(now);
        *free_at = Some(begin + takes);
        begin - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_and_idle_time_is_not_accumulated() {
        let limit = RateLimit::new(NonZeroU64::new(1000).expect("it is not zero"));
        assert_eq!(limit.reserve(500), Duration::ZERO);
        assert_eq!(limit.clone().reserve(500), Duration::from_millis(500));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(limit.reserve(1000), Duration::ZERO);
        assert_eq!(limit.reserve(1), Duration::from_secs(1));
    }
}
