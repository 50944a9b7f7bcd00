//! What follows when something did not work out.

use std::time::Duration;

use http::StatusCode;

use super::{Cause, Event, Failure, Goal, Phase, Refusal, Reply, Transfer, Wait};

impl Transfer {
    pub(super) fn beyond_sent(&mut self, committed: u64) -> Event {
        let sent = self.reach();
        self.fail(Failure::BeyondSent { committed, sent })
    }

    pub(super) fn lost(&mut self, status: StatusCode) -> Event {
        let restarts = self.restarts;
        if restarts >= self.plan.patience.restarts {
            return self.fail(Failure::SessionsLost { restarts, status });
        }
        if self.floor() > 0 {
            let kept_from = self.floor();
            return self.fail(Failure::Forgotten {
                committed: 0,
                kept_from,
            });
        }
        self.restarts += 1;
        self.committed = 0;
        self.furthest = 0;
        self.sent = 0;
        self.sent_last = false;
        self.broken = None;
        self.phase = Phase::Go(Goal::Start);
        Event::Lost
    }

    /// Backs off, or gives up.
    pub(super) fn interrupted(
        &mut self,
        goal: Goal,
        cause: Cause,
        retry_after: Option<Duration>,
        random: u32,
    ) -> Event {
        if goal == Goal::Data {
            self.broken = self.chunk();
        }
        let least = retry_after.unwrap_or_default();
        let tries = self.backoff.waited() + 1;
        let wait = self
            .backoff
            .next(random)
            .filter(|_| least <= self.plan.patience.longest_retry_after);
        let Some(delay) = wait else {
            let session = goal.again() == Goal::Query;
            return self.fail(Failure::GaveUp {
                cause,
                tries,
                session,
                retry_after,
            });
        };
        let wait = Wait {
            delay: delay.max(least),
            attempt: self.backoff.waited() + 1,
            of: self.backoff.tries(),
            cause,
        };
        self.phase = Phase::Waiting(wait, goal.again());
        Event::Nothing
    }

    /// Gives up at once.
    pub(super) fn foreign(&mut self, reply: &Reply<'_>) -> Event {
        self.fail(Failure::Odd {
            refusal: Refusal::of(reply),
            tries: 1,
            session: false,
        })
    }

    /// Tries again after a pause, a limited number of times.
    pub(super) fn odd(&mut self, goal: Goal, reply: &Reply<'_>, random: u32) -> Event {
        let refusal = Refusal::of(reply);
        if goal == Goal::Data {
            self.broken = self.chunk();
        }
        self.oddities += 1;
        let of = self.plan.patience.other_tries;
        if self.oddities >= of {
            let session = goal.again() == Goal::Query;
            return self.fail(Failure::Odd {
                refusal,
                tries: self.oddities,
                session,
            });
        }
        let wait = Wait {
            delay: self.pause(reply.retry_after, random),
            attempt: self.oddities + 1,
            of,
            cause: Cause::Reply(refusal),
        };
        self.phase = Phase::Waiting(wait, goal.again());
        Event::Nothing
    }

    /// The wait before what failed without a reason to back off is tried again.
    fn pause(&self, retry_after: Option<Duration>, random: u32) -> Duration {
        let patience = &self.plan.patience;
        let asked = retry_after.unwrap_or_default();
        let pause = patience.schedule.pause(random);
        pause.max(asked.min(patience.longest_retry_after))
    }

    pub(super) fn fail(&mut self, failure: Failure) -> Event {
        self.phase = Phase::Failed(failure);
        Event::Nothing
    }
}
