//! The client's waits between attempts (docs/protocol.md, 5.1).

use std::time::Duration;

#[cfg(test)]
mod tests;

/// Truncated exponential backoff: wait `n` (from 0) takes `2^n` seconds plus 0 to 1,000 random
/// milliseconds.
///
/// The default is five waits of 1, 2, 4, 8 and 16 seconds, 31 to 36 seconds in all. Further waits
/// grow up to [`longest`](Self::longest) and stay there. No wait exceeds
/// [`MAX_WAIT`](Self::MAX_WAIT), whatever the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schedule {
    /// Length of the first wait, which each further wait doubles, and upper bound of the random
    /// part. Default: 1 s.
    pub unit: Duration,
    /// Number of waits without progress before the client gives up. Default: 5.
    pub waits: u32,
    /// Upper bound of a wait without its random part. Default: 32 s.
    pub longest: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            unit: Duration::from_secs(1),
            waits: 5,
            longest: Duration::from_secs(32),
        }
    }
}

impl Schedule {
    /// Upper bound of every wait. Google's documents ask for "under a minute".
    pub const MAX_WAIT: Duration = Duration::from_secs(59);

    /// Sets [`unit`](Self::unit).
    #[must_use]
    pub fn with_unit(self, unit: Duration) -> Self {
        Self { unit, ..self }
    }

    /// Sets [`waits`](Self::waits).
    #[must_use]
    pub fn with_waits(self, waits: u32) -> Self {
        Self { waits, ..self }
    }

    /// Sets [`longest`](Self::longest).
    #[must_use]
    pub fn with_longest(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// Returns wait number `n`, from 0. `random` is a random number drawn for this wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_proto::backoff::Schedule;
    ///
    /// let wait = Schedule::default().wait(4, 250);
    /// assert_eq!(wait, Duration::from_millis(16_250));
    /// ```
    pub fn wait(&self, n: u32, random: u32) -> Duration {
        let doubled = self.unit.saturating_mul(2u32.saturating_pow(n));
        let wait = doubled
            .min(self.longest)
            .saturating_add(self.jitter(random));
        wait.min(Self::MAX_WAIT)
    }

    /// Returns the wait before a retry that does not back off.
    pub(crate) fn pause(&self, random: u32) -> Duration {
        self.wait(0, random)
    }

    /// Maps any random number to 0 to 1,000 thousandths of the unit, both included.
    fn jitter(&self, random: u32) -> Duration {
        let part = random % 1001;
        self.unit / 1000 * part
    }
}

/// Counts the waits since the last progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    schedule: Schedule,
    waited: u32,
}

impl Backoff {
    /// Starts without a failure.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            waited: 0,
        }
    }

    /// Returns the wait after one more failure, or `None` when the client should give up. Draw
    /// `random` again for each wait.
    pub fn next(&mut self, random: u32) -> Option<Duration> {
        if self.waited == self.schedule.waits {
            return None;
        }
        let wait = self.schedule.wait(self.waited, random);
        self.waited += 1;
        Some(wait)
    }

    /// Records progress: the next failure counts as the first one again.
    pub fn reset(&mut self) {
        self.waited = 0;
    }

    /// Number of waits since the last progress.
    pub fn waited(&self) -> u32 {
        self.waited
    }

    /// Number of attempts without progress: one more than waits.
    pub fn tries(&self) -> u32 {
        self.schedule.waits.saturating_add(1)
    }
}
