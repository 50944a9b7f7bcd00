//! What follows when something did not work out.

use std::time::Duration;

use http::StatusCode;

use super::{Cause, Event, Failure, Phase, Refusal, Reply, RequestKind, Transfer, Wait};

impl Transfer {
    pub(super) fn offset_beyond_sent(&mut self, committed: u64) -> Event {
        let sent = self.reach();
        self.fail(Failure::OffsetBeyondSent { committed, sent })
    }

    pub(super) fn lost(&mut self, status: StatusCode) -> Event {
        let restarts = self.restarts;
        if restarts >= self.plan.retry_policy.restarts {
            return self.fail(Failure::SessionsLost { restarts, status });
        }
        if self.floor() > 0 {
            let kept_from = self.floor();
            return self.fail(Failure::SessionRewound {
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
        self.phase = Phase::Active(RequestKind::Start);
        Event::Lost
    }

    /// Backs off, or gives up.
    pub(super) fn interrupted(
        &mut self,
        kind: RequestKind,
        cause: Cause,
        retry_after: Option<Duration>,
        random: u32,
    ) -> Event {
        if kind == RequestKind::Data {
            self.broken = self.chunk();
        }
        let least = retry_after.unwrap_or_default();
        let tries = self.backoff.waited() + 1;
        let wait = self
            .backoff
            .next(random)
            .filter(|_| least <= self.plan.retry_policy.longest_retry_after);
        let Some(delay) = wait else {
            let session = kind.after_failure() == RequestKind::Query;
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
        self.phase = Phase::Waiting(wait, kind.after_failure());
        Event::Nothing
    }

    /// Gives up at once.
    pub(super) fn not_the_protocol(&mut self, reply: &Reply<'_>) -> Event {
        self.fail(Failure::Unexpected {
            refusal: Refusal::of(reply),
            tries: 1,
            session: false,
        })
    }

    /// Tries again after a pause, a limited number of times.
    pub(super) fn unexpected(
        &mut self,
        kind: RequestKind,
        reply: &Reply<'_>,
        random: u32,
    ) -> Event {
        let refusal = Refusal::of(reply);
        if kind == RequestKind::Data {
            self.broken = self.chunk();
        }
        self.unexpected_count += 1;
        let of = self.plan.retry_policy.other_tries;
        if self.unexpected_count >= of {
            let session = kind.after_failure() == RequestKind::Query;
            return self.fail(Failure::Unexpected {
                refusal,
                tries: self.unexpected_count,
                session,
            });
        }
        let wait = Wait {
            delay: self.pause(reply.retry_after, random),
            attempt: self.unexpected_count + 1,
            of,
            cause: Cause::Reply(refusal),
        };
        self.phase = Phase::Waiting(wait, kind.after_failure());
        Event::Nothing
    }

    /// The wait before what failed without a reason to back off is tried again.
    fn pause(&self, retry_after: Option<Duration>, random: u32) -> Duration {
        let retry_policy = &self.plan.retry_policy;
        let asked = retry_after.unwrap_or_default();
        let pause = retry_policy.schedule.pause(random);
        pause.max(asked.min(retry_policy.longest_retry_after))
    }

    pub(super) fn fail(&mut self, failure: Failure) -> Event {
        self.phase = Phase::Failed(failure);
        Event::Nothing
    }
}
