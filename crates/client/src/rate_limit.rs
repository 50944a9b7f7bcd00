//! A limit on how fast media leaves.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many bytes per second. Uploads that share one (it is cheap to clone) share the rate.
#[derive(Debug, Clone)]
pub struct RateLimit(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    bytes_per_second: u64,
    /// When what was let through is gone at the rate.
    free_at: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// A limit of so many bytes per second.
    pub fn new(bytes_per_second: NonZeroU64) -> Self {
        Self(Arc::new(Bucket {
            bytes_per_second: bytes_per_second.get(),
            free_at: Mutex::new(None),
        }))
    }

    /// The most that may go at once: a tenth of a second's worth.
    pub(crate) fn max_piece(&self) -> usize {
        let piece = (self.0.bytes_per_second / 10).max(1);
        usize::try_from(piece).unwrap_or(usize::MAX)
    }

    /// Books bytes and says how long to wait before they may go.
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
    async fn bytes_leave_at_the_rate_and_an_idle_time_is_not_saved_up() {
        let limit = RateLimit::new(NonZeroU64::new(1000).expect("it is not zero"));
        assert_eq!(limit.reserve(500), Duration::ZERO);
        assert_eq!(limit.clone().reserve(500), Duration::from_millis(500));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(limit.reserve(1000), Duration::ZERO);
        assert_eq!(limit.reserve(1), Duration::from_secs(1));
    }
}
