//! When a change is worth a line, and when an event.

use std::time::{Duration, Instant};

use super::text::percent;
use super::{Activity, View};

/// What was shown last, and when.
#[derive(Debug)]
pub(super) struct ReportThrottle {
    /// How long until it is time again.
    every: Duration,
    /// How many percent are worth it too.
    step: Option<u64>,
    /// What is over sooner is not worth a word, unless something goes wrong.
    grace: Duration,
    begin: Option<Instant>,
    last: Option<LastReport>,
}

#[derive(Debug)]
struct LastReport {
    at: Instant,
    activity: Activity,
    percent: Option<u64>,
}

impl ReportThrottle {
    /// Lines of a log: every ten seconds or ten percent, after the first second.
    pub(super) fn for_lines() -> Self {
        Self {
            every: Duration::from_secs(10),
            step: Some(10),
            grace: Duration::from_secs(1),
            begin: None,
            last: None,
        }
    }

    /// Events: every second.
    pub(super) fn for_events() -> Self {
        Self {
            every: Duration::from_secs(1),
            step: None,
            grace: Duration::ZERO,
            begin: None,
            last: None,
        }
    }

    /// Whether it is time to show this; if so, it counts as shown. A change of what is going on always is.
    pub(super) fn is_due(&mut self, view: &View, now: Instant) -> bool {
        let percent = view.total.map(|total| percent(view.sent, total));
        let lasts = now.duration_since(*self.begin.get_or_insert(now));
        let due = match &self.last {
            _ if lasts < self.grace && !matches!(view.activity, Activity::Waiting(_)) => false,
            None => true,
            Some(last) => {
                last.activity != view.activity
                    || now.duration_since(last.at) >= self.every
                    || self.has_stepped(last.percent, percent)
            }
        };
        if due {
            self.last = Some(LastReport {
                at: now,
                activity: view.activity.clone(),
                percent,
            });
        }
        due
    }

    fn has_stepped(&self, from: Option<u64>, to: Option<u64>) -> bool {
        match (self.step, from, to) {
            (Some(step), Some(from), Some(to)) => to / step > from / step,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::{Direction, Waiting};

    fn view(sent: u64, activity: Activity) -> View {
        View {
            direction: Direction::Up,
            committed: 0,
            sent,
            total: Some(100),
            rate: 0,
            left: None,
            activity,
            upload: None,
        }
    }

    /// Milliseconds, bytes of a hundred, what goes on, whether it is shown.
    fn check(mut throttle: ReportThrottle, steps: &[(u64, u64, Activity, bool)]) {
        let start = Instant::now();
        for (millis, sent, activity, due) in steps {
            let now = start + Duration::from_millis(*millis);
            assert_eq!(
                throttle.is_due(&view(*sent, activity.clone()), now),
                *due,
                "at {millis}"
            );
        }
    }

    #[test]
    fn a_line_is_due_at_a_change_after_ten_percent_and_after_ten_seconds() {
        check(
            ReportThrottle::for_lines(),
            &[
                (0, 0, Activity::Starting, false),
                (1, 0, Activity::Sending, false),
                (1500, 9, Activity::Sending, true),
                (1600, 10, Activity::Sending, true),
                (1700, 19, Activity::Sending, false),
                (11_599, 19, Activity::Sending, false),
                (11_600, 19, Activity::Sending, true),
                (11_700, 100, Activity::Finishing, true),
            ],
        );
    }

    #[test]
    fn trouble_in_the_first_second_is_worth_a_line() {
        let wait = Waiting {
            delay: Duration::from_secs(1),
            tries: None,
            cause: "the connection broke".to_owned(),
        };
        check(
            ReportThrottle::for_lines(),
            &[
                (0, 0, Activity::Starting, false),
                (1, 0, Activity::Waiting(wait.clone()), true),
                (2, 0, Activity::Waiting(wait), false),
            ],
        );
    }

    #[test]
    fn an_event_is_due_at_a_change_and_after_a_second() {
        check(
            ReportThrottle::for_events(),
            &[
                (0, 0, Activity::Sending, true),
                (999, 90, Activity::Sending, false),
                (1000, 90, Activity::Sending, true),
                (1001, 90, Activity::Asking, true),
                (1002, 90, Activity::Asking, false),
            ],
        );
    }
}
