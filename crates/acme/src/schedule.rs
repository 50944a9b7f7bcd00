//! When a certificate is renewed, and when a failed attempt is repeated: pure functions.

use std::time::{Duration, SystemTime};

// Let's Encrypt allows five failed validations of a domain per hour, and gives one back every
// twelve minutes: these delays stay within that. The first ones are short for an authority, or an
// address of this server, that is about to be there.
/// Upper bound of the delay after the first failure.
const FIRST_DELAY: Duration = Duration::from_secs(10);

/// Factor by which the delay grows at each further failure.
const GROWTH: u32 = 4;

/// Upper bound of the delay after any failure.
const MAX_DELAY: Duration = Duration::from_secs(4 * 60 * 60);

/// Upper bound of the delay that an authority can ask for. Let's Encrypt asks for a week if too
/// many certificates were issued. One attempt a day is harmless, and soon notices that the limit is
/// lifted.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The times between which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
}

impl Validity {
    /// Returns the time of the renewal: when a third of the lifetime is left.
    pub(super) fn renewal(self) -> SystemTime {
        let lifetime = self.not_after.duration_since(self.not_before);
        self.not_after - lifetime.unwrap_or_default() / 3
    }

    /// Returns the time of the renewal within a window that the authority suggests (RFC 9773,
    /// section 4.2). `random` is between 0 and 1. The time is at most the moment at which a tenth
    /// of the lifetime is left, even if the window is later.
    pub(super) fn renewal_within(self, window: Window, random: f64) -> SystemTime {
        let length = window.end.duration_since(window.start).unwrap_or_default();
        let chosen = window.start + length.mul_f64(random);
        let lifetime = self.not_after.duration_since(self.not_before);
        chosen.min(self.not_after - lifetime.unwrap_or_default() / 10)
    }

    /// Whether it can be used at this time.
    pub(super) fn holds_at(self, now: SystemTime) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

/// When an authority wants a certificate to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
}

/// Returns the delay before the next attempt, after this number of failures in a row. `random` is
/// between 0 and 1. `retry_after` is the least delay that the authority has asked for.
pub(super) fn delay(failures: u32, random: f64, retry_after: Option<Duration>) -> Duration {
    let factor = GROWTH.saturating_pow(failures.saturating_sub(1));
    let longest = FIRST_DELAY.saturating_mul(factor).min(MAX_DELAY);
    // A random delay between half of it and all of it, so that servers that failed together do not
    // retry together.
    let own = longest.mul_f64(0.5 + random / 2.0);
    let asked = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
    // A little more than asked for, for the same reason.
    own.max(asked + asked.mul_f64(random / 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn certificate_is_renewed_when_a_third_of_its_lifetime_is_left() {
        for (from, to, renewal) in [
            (0, 30, 20),
            (1000, 1900, 1600),
            (0, 90 * 86_400, 60 * 86_400),
        ] {
            let validity = Validity {
                not_before: at(from),
                not_after: at(to),
            };
            assert_eq!(validity.renewal(), at(renewal), "{from} to {to}");
        }
        let backwards = Validity {
            not_before: at(10),
            not_after: at(5),
        };
        assert_eq!(backwards.renewal(), at(5));
    }

    #[test]
    fn suggested_window_is_followed_within_the_lifetime() {
        let validity = Validity {
            not_before: at(0),
            not_after: at(1000),
        };
        for (start, end, random, renewal) in [
            (500, 600, 0.0, 500),
            (500, 600, 0.25, 525),
            (500, 600, 1.0, 600),
            (0, 10, 0.5, 5),
            (600, 500, 0.5, 600),
            (850, 950, 1.0, 900),
            (5000, 6000, 0.5, 900),
        ] {
            let window = Window {
                start: at(start),
                end: at(end),
            };
            let found = validity.renewal_within(window, random);
            assert_eq!(found, at(renewal), "{start} to {end}, {random}");
        }
    }

    #[test]
    fn certificate_is_used_from_its_first_to_its_last_second() {
        let validity = Validity {
            not_before: at(10),
            not_after: at(20),
        };
        for (now, expected) in [(9, false), (10, true), (20, true), (21, false)] {
            assert_eq!(validity.holds_at(at(now)), expected, "{now}");
        }
    }

    #[test]
    fn delays_grow_to_hours_and_no_further() {
        let longest = [10, 40, 160, 640, 2560, 10_240, 14_400, 14_400];
        for (failures, longest) in (1..).zip(longest) {
            assert_eq!(delay(failures, 1.0, None), seconds(longest), "{failures}");
            assert_eq!(
                delay(failures, 0.0, None),
                seconds(longest) / 2,
                "{failures}"
            );
        }
        assert_eq!(delay(u32::MAX, 1.0, None), MAX_DELAY);
    }

    #[test]
    fn authority_can_ask_for_a_longer_delay_but_not_for_an_endless_one() {
        for (asked, expected) in [
            (seconds(1), seconds(10)),
            (seconds(3600), seconds(3600).mul_f64(1.1)),
            (DAY, DAY.mul_f64(1.1)),
            (7 * DAY, DAY.mul_f64(1.1)),
            (Duration::MAX, DAY.mul_f64(1.1)),
        ] {
            assert_eq!(delay(1, 1.0, Some(asked)), expected, "{asked:?}");
            assert!(delay(1, 0.0, Some(asked)) >= asked.min(DAY), "{asked:?}");
        }
    }
}
