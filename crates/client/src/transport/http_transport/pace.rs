//! The pace of a reply's body, so that a body which drips ends.

use std::time::Duration;

use crate::transport::MAX_SLICE;

/// How much of a body has arrived, and how long it was waited for, since the last [`MAX_SLICE`]
/// bytes. The time in which the reader of the body is busy does not count.
#[derive(Debug, Default)]
pub(super) struct Pace {
    bytes: usize,
    waited: Duration,
}

impl Pace {
    /// Returns how long the next piece may be waited for, if [`MAX_SLICE`] bytes may take `limit`.
    pub(super) fn left(&self, limit: Duration) -> Duration {
        limit.saturating_sub(self.waited)
    }

    /// Returns whether bytes have arrived since the last [`MAX_SLICE`] ones.
    pub(super) fn has_begun(&self) -> bool {
        self.bytes > 0
    }

    /// Records a piece, and how long it was waited for.
    pub(super) fn arrived(&mut self, len: usize, waited: Duration) {
        self.bytes += len;
        self.waited += waited;
        if self.bytes >= MAX_SLICE {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn body_at_the_least_pace_goes_on_for_ever() {
        let mut pace = Pace::default();
        for _ in 0..1000 {
            pace.arrived(MAX_SLICE - 1, LIMIT * 2 / 5);
            assert_eq!(pace.left(LIMIT), LIMIT * 3 / 5);
            pace.arrived(1, LIMIT * 2 / 5);
            assert_eq!(pace.left(LIMIT), LIMIT);
        }
    }

    #[test]
    fn pieces_that_are_too_small_use_up_the_time() {
        let mut pace = Pace::default();
        for left in (0..60).rev() {
            pace.arrived(1, Duration::from_secs(1));
            assert_eq!(pace.left(LIMIT), Duration::from_secs(left));
        }
        assert!(pace.has_begun());
    }
}
