//! When a change is worth a line, and when an event.

use std::time::{Duration, Instant};

use super::text::percent;
use super::{Doing, View};

/// What was shown last, and when.
#[derive(Debug)]
pub(super) struct Pace {
    /// How long until it is time again.
    every: Duration,
    /// How many percent are worth it too.
    step: Option<u64>,
    /// What is over sooner is not worth a word, unless something goes wrong.
    grace: Duration,
    begin: Option<Instant>,
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    at: Instant,
    doing: Doing,
    percent: Option<u64>,
}

impl Pace {
    /// Lines of a log: every ten seconds or ten percent, after the first second.
    pub(super) fn of_lines() -> Self {
        Self {
            every: Duration::from_secs(10),
            step: Some(10),
            grace: Duration::from_secs(1),
            begin: None,
            shown: None,
        }
    }

    /// Events: every second.
    pub(super) fn of_events() -> Self {
        Self {
            every: Duration::from_secs(1),
            step: None,
            grace: Duration::ZERO,
            begin: None,
            shown: None,
        }
    }

    /// Whether it is time to show this; if so, it counts as shown. A change of what is going on always is.
    pub(super) fn is_due(&mut self, view: &View, now: Instant) -> bool {
        let percent = view.total.map(|total| percent(view.sent, total));
        let lasts = now.duration_since(*self.begin.get_or_insert(now));
        let due = match &self.shown {
            _ if lasts < self.grace && !matches!(view.doing, Doing::Waiting(_)) => false,
            None => true,
            Some(shown) => {
                shown.doing != view.doing
                    || now.duration_since(shown.at) >= self.every
                    || self.has_stepped(shown.percent, percent)
            }
        };
        if due {
            self.shown = Some(Shown {
                at: now,
                doing: view.doing.clone(),
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
    use crate::display::{Waiting, Way};

    fn view(sent: u64, doing: Doing) -> View {
        View {
            way: Way::Up,
            committed: 0,
            sent,
            total: Some(100),
            rate: 0,
            left: None,
            doing,
            upload: None,
        }
    }

    /// Milliseconds, bytes of a hundred, what goes on, whether it is shown.
    fn check(mut pace: Pace, steps: &[(u64, u64, Doing, bool)]) {
        let start = Instant::now();
        for (millis, sent, doing, due) in steps {
            let now = start + Duration::from_millis(*millis);
            assert_eq!(
                pace.is_due(&view(*sent, doing.clone()), now),
                *due,
                "at {millis}"
            );
        }
    }

    #[test]
    fn a_line_is_due_at_a_change_after_ten_percent_and_after_ten_seconds() {
        check(
            Pace::of_lines(),
            &[
                (0, 0, Doing::Starting, false),
                (1, 0, Doing::Sending, false),
                (1500, 9, Doing::Sending, true),
                (1600, 10, Doing::Sending, true),
                (1700, 19, Doing::Sending, false),
                (11_599, 19, Doing::Sending, false),
                (11_600, 19, Doing::Sending, true),
                (11_700, 100, Doing::Finishing, true),
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
            Pace::of_lines(),
            &[
                (0, 0, Doing::Starting, false),
                (1, 0, Doing::Waiting(wait.clone()), true),
                (2, 0, Doing::Waiting(wait), false),
            ],
        );
    }

    #[test]
    fn an_event_is_due_at_a_change_and_after_a_second() {
        check(
            Pace::of_events(),
            &[
                (0, 0, Doing::Sending, true),
                (999, 90, Doing::Sending, false),
                (1000, 90, Doing::Sending, true),
                (1001, 90, Doing::Asking, true),
                (1002, 90, Doing::Asking, false),
            ],
        );
    }
}
