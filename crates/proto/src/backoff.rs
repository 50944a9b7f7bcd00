//! How long a client waits before it tries again (docs/protocol.md, 5.1).

use std::time::Duration;

#[cfg(test)]
mod tests;

/// The waits between tries: `2^n` seconds plus up to 1,000 random milliseconds, `n` from 0 on.
///
/// By default five waits, of 1, 2, 4, 8 and 16 seconds, so 31 to 36 seconds in all. More waits grow up
/// to [`longest`](Self::longest) and stay there. No wait is longer than
/// [`LONGEST_WAIT`](Self::LONGEST_WAIT), whatever is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// The first wait, which the others are doubled from, and the most that is added at random. 1 s
    /// unless set.
    pub unit: Duration,
    /// How often it is waited without progress before the client gives up. 5 unless set.
    pub waits: u32,
    /// The longest that a wait may become before something is added at random. 32 s unless set.
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
    /// "Under a minute", say the documents.
    pub const LONGEST_WAIT: Duration = Duration::from_secs(59);

    /// The wait number `n`, from 0, with a random number drawn for it.
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
        wait.min(Self::LONGEST_WAIT)
    }

    /// The wait before something that failed without a reason to back off is tried again.
    pub(crate) fn pause(&self, random: u32) -> Duration {
        self.wait(0, random)
    }

    /// Out of any random number: 0 to 1,000 thousandths of the unit, both included.
    fn jitter(&self, random: u32) -> Duration {
        let part = random % 1001;
        self.unit / 1000 * part
    }
}

/// Counts the waits since there was progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    schedule: Schedule,
    waited: u32,
}

impl Backoff {
    /// Nothing has failed yet.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            waited: 0,
        }
    }

    /// The wait after one more failure; `None` when it is time to give up. `random` must be drawn again
    /// for each wait.
    pub fn next(&mut self, random: u32) -> Option<Duration> {
        if self.waited == self.schedule.waits {
            return None;
        }
        let wait = self.schedule.wait(self.waited, random);
        self.waited += 1;
        Some(wait)
    }

    /// There was progress: the next failure is the first again.
    pub fn reset(&mut self) {
        self.waited = 0;
    }

    /// How many waits there were since there was progress.
    pub fn waited(&self) -> u32 {
        self.waited
    }

    /// How many tries there are without progress: one more than waits.
    pub fn tries(&self) -> u32 {
        self.schedule.waits.saturating_add(1)
    }
}
