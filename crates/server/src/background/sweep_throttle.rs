//! How fast the sweep goes.
//!
//! A step of it shares the ledger's writer, and its commit, with requests: what a step takes, a request may have to wait. So on a
//! disk that is slow or busy the steps become smaller, and whatever the disk, between them there is at least as much time as they took.

use std::time::Duration;

use windlass_store::Swept;

/// Pause after a sweep has come to its end.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// Pause between steps when there is little to do.
pub(super) const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Pause while a lot has to be deleted.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// A step may take so long: half of what a request may.
const STEP: Duration = Duration::from_millis(25);

/// How many sessions and entries a step may handle. Fewer than the least would save no time: the commit takes it.
const BITES: std::ops::RangeInclusive<usize> = 64..=256;

/// How much the next step handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SweepThrottle {
    batch_size: usize,
}

impl Default for SweepThrottle {
    fn default() -> Self {
        Self {
            batch_size: *BITES.start(),
        }
    }
}

impl SweepThrottle {
    /// Most sessions, and most entries of the garbage list, for the next step.
    pub(super) fn batch_size(self) -> usize {
        self.batch_size
    }

    /// The pause after a step that took so long.
    pub(super) fn after(&mut self, swept: &Swept, took: Duration) -> Duration {
        let was_full = swept.garbage + swept.expired >= self.batch_size;
        let next = match took {
            _ if took > 2 * STEP => self.batch_size / 2,
            _ if took < STEP => self.batch_size * 2,
            _ => self.batch_size,
        };
        self.batch_size = next.clamp(*BITES.start(), *BITES.end());
        if swept.is_done {
            INTERVAL
        } else if was_full {
            took.clamp(MIN_PAUSE, SWEEP_PAUSE)
        } else {
            SWEEP_PAUSE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn full(throttle: SweepThrottle) -> Swept {
        Swept {
            expired: throttle.batch_size(),
            ..Swept::default()
        }
    }

    #[test]
    fn steps_grow_while_they_are_quick_and_shrink_when_they_are_slow() {
        let mut throttle = SweepThrottle::default();
        for (took, batch_size) in [
            (1, 128),
            (1, 256),
            (1, 256),
            (30, 256),
            (51, 128),
            (90, 64),
            (90, 64),
            (30, 64),
            (24, 128),
        ] {
            throttle.after(&full(throttle), millis(took));
            assert_eq!(throttle.batch_size(), batch_size, "after {took} ms");
        }
    }

    #[test]
    fn between_steps_there_is_as_much_time_as_they_take() {
        for (took, pause) in [(1, 20), (20, 20), (35, 35), (999, 999), (30_000, 1000)] {
            let mut throttle = SweepThrottle::default();
            assert_eq!(throttle.after(&full(throttle), millis(took)), millis(pause));
        }
    }

    #[test]
    fn a_sweep_that_has_little_to_do_is_in_no_hurry() {
        let mut throttle = SweepThrottle::default();
        let walks = Swept {
            expired: throttle.batch_size() - 1,
            ..Swept::default()
        };
        assert_eq!(throttle.after(&walks, millis(1)), SWEEP_PAUSE);
        let done = Swept {
            is_done: true,
            ..Swept::default()
        };
        assert_eq!(throttle.after(&done, millis(1)), INTERVAL);
    }
}
