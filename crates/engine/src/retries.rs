//! The pauses between attempts to commit a change that others keep changing.

use std::time::Duration;

use tokio::time::Instant;

use crate::identifiers::random_number;

/// The longest first pause. Each further one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_millis(320);

/// Decides whether a change is tried again, and when.
///
/// Requests with the same lock are serialised in their process, so conflicts within one process are
/// rare. Between processes nothing but the pauses keeps several callers from meeting again.
#[derive(Debug)]
pub struct Retries {
    /// `None` for a time beyond what a clock can tell.
    until: Option<Instant>,
    pause: Duration,
}

impl Retries {
    /// Allows attempts that begin within `at_most` from now.
    pub fn within(at_most: Duration) -> Self {
        Self {
            until: Instant::now().checked_add(at_most),
            pause: FIRST_PAUSE,
        }
    }

    /// Pauses before the next attempt. Returns false, without a pause, if the time is over.
    ///
    /// The pause is random, between half of its maximum and its maximum, which grows from 5 ms to
    /// 320 ms.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn pause(&mut self) -> bool {
        let half = self.pause / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        let pause = half + Duration::from_nanos(random_number() % span);
        if self
            .until
            .is_some_and(|until| Instant::now() + pause >= until)
        {
            return false;
        }
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        tokio::time::sleep(pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_the_maximum_and_end_in_time() {
        let start = Instant::now();
        let mut retries = Retries::within(Duration::from_secs(10));
        let mut pauses = Vec::new();
        let mut before = start;
        while retries.pause().await {
            pauses.push(before.elapsed());
            before = Instant::now();
        }
        assert!(
            pauses[0] < FIRST_PAUSE + Duration::from_millis(1),
            "{pauses:?}"
        );
        // Tokio's timers have a resolution of one millisecond.
        let longest = pauses.iter().max().unwrap();
        let bounds = MAX_PAUSE / 2..=MAX_PAUSE + Duration::from_millis(1);
        assert!(bounds.contains(longest), "{pauses:?}");
        assert!((30..75).contains(&pauses.len()), "{}", pauses.len());
        let spent = start.elapsed();
        assert!(
            spent < Duration::from_secs(10) && spent > Duration::from_secs(9),
            "{spent:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_an_end_is_no_error() {
        assert!(Retries::within(Duration::MAX).pause().await);
    }

    #[tokio::test(start_paused = true)]
    async fn without_time_nothing_is_tried_again() {
        assert!(!Retries::within(Duration::ZERO).pause().await);
    }
}
