//! The expected behaviour of a client, by docs/protocol.md, 5.2, and independent of the
//! implementation.
//!
//! It judges the client. The five rules of docs/durability.md bind servers; the server of this
//! simulation breaks them whenever its schedule says so.

use std::time::Duration;

use http::header::{CONTENT_TYPE, LOCATION, RANGE, RETRY_AFTER};
use windlass_proto::content_range::CHUNK_GRANULARITY;
use windlass_proto::header::X_HTTP_STATUS_CODE_OVERRIDE;
use windlass_proto::transfer::{Action, Failure, Request, RetryPolicy};

use crate::server::Answer;

/// The action that must follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Next(Next),
    /// A wait of exactly this length.
    Wait(Duration),
    RefreshToken,
    Finished,
    Fails(Why),
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    SingleRequest,
    Start,
    Query,
    Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    GaveUp,
    Unexpected,
    SessionsLost,
    SessionRewound,
    Cancelled,
    Refused,
}

/// Observes all that the client gets.
#[derive(Debug)]
pub(crate) struct Oracle {
    retry_policy: RetryPolicy,
    forgets: bool,
    refreshable: bool,
    /// Committed bytes in the server's last reply.
    pub(crate) reported: u64,
    furthest: u64,
    breaks: u32,
    unexpected_count: u32,
    lost: u32,
    token_refused: bool,
}

impl Oracle {
    pub(crate) fn new(retry_policy: RetryPolicy, forgets: bool, refreshable: bool) -> Self {
        Self {
            retry_policy,
            forgets,
            refreshable,
            reported: 0,
            furthest: 0,
            breaks: 0,
            unexpected_count: 0,
            lost: 0,
            token_refused: false,
        }
    }

    /// Records that the connection broke.
    pub(crate) fn broke(&mut self, random: u32) -> Verdict {
        self.back_off(0, random)
    }

    pub(crate) fn heard(&mut self, request: Request, answer: &Answer, random: u32) -> Verdict {
        let status = answer.status.as_u16();
        let in_session = matches!(request, Request::Query { .. } | Request::Data(_));
        let incomplete = in_session
            && (status == 308 || answer.headers.contains_key(X_HTTP_STATUS_CODE_OVERRIDE));
        if status != 401 && !incomplete {
            self.token_refused = false;
        }
        let page = answer
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/html"));
        match status {
            _ if incomplete => self.incomplete(request, answer, random),
            200..=299 if request == Request::Start => {
                if answer.headers.contains_key(LOCATION) {
                    Verdict::Next(Next::Data)
                } else {
                    Verdict::Fails(Why::Unexpected)
                }
            }
            200 | 201 if !page => Verdict::Finished,
            200..=399 if matches!(request, Request::Start | Request::SingleRequest) => {
                Verdict::Fails(Why::Unexpected)
            }
            404 | 410 if in_session => self.session_lost(),
            401 if self.refreshable && !self.token_refused => {
                self.token_refused = true;
                Verdict::RefreshToken
            }
            401 => Verdict::Fails(Why::Refused),
            499 => Verdict::Fails(Why::Cancelled),
            403 | 408 | 429 | 500..=599 => {
                let retry_after = answer.headers.get(RETRY_AFTER);
                let seconds = retry_after.map(|value| value.to_str().expect("ASCII"));
                let seconds = seconds.map(|text| text.parse().expect("seconds"));
                self.back_off(seconds.unwrap_or(0), random)
            }
            _ => self.unexpected(random),
        }
    }

    fn incomplete(&mut self, request: Request, answer: &Answer, random: u32) -> Verdict {
        let committed = match answer.headers.get(RANGE) {
            None => 0,
            Some(range) => {
                let text = range.to_str().expect("ASCII");
                let last = text.strip_prefix("bytes=").unwrap_or(text);
                let Some(last) = last.strip_prefix("0-") else {
                    return self.unexpected(random);
                };
                last.parse::<u64>().expect("digits") + 1
            }
        };
        if self.forgets && committed < self.furthest {
            return Verdict::Fails(Why::SessionRewound);
        }
        self.reported = committed;
        if committed > self.furthest {
            self.furthest = committed;
            self.breaks = 0;
            self.unexpected_count = 0;
            self.token_refused = false;
        }
        match request {
            // No, or almost no, bytes are committed.
            Request::Data(chunk)
                if committed < chunk.first + chunk.len().clamp(1, CHUNK_GRANULARITY) =>
            {
                self.back_off(0, random)
            }
            _ => Verdict::Next(Next::Data),
        }
    }

    fn session_lost(&mut self) -> Verdict {
        self.lost += 1;
        if self.lost > self.retry_policy.restarts {
            return Verdict::Fails(Why::SessionsLost);
        }
        if self.forgets && self.furthest > 0 {
            return Verdict::Fails(Why::SessionRewound);
        }
        self.reported = 0;
        self.furthest = 0;
        Verdict::Next(Next::Start)
    }

    fn back_off(&mut self, retry_after: u64, random: u32) -> Verdict {
        self.breaks += 1;
        let least = Duration::from_secs(retry_after);
        if self.breaks > self.retry_policy.schedule.waits
            || least > self.retry_policy.longest_retry_after
        {
            return Verdict::Fails(Why::GaveUp);
        }
        let seconds = 1 << (self.breaks - 1).min(5);
        Verdict::Wait((Duration::from_secs(seconds) + milliseconds(random)).max(least))
    }

    fn unexpected(&mut self, random: u32) -> Verdict {
        self.token_refused = false;
        self.unexpected_count += 1;
        if self.unexpected_count == self.retry_policy.other_tries {
            return Verdict::Fails(Why::Unexpected);
        }
        Verdict::Wait(Duration::from_secs(1) + milliseconds(random))
    }
}

fn milliseconds(random: u32) -> Duration {
    Duration::from_millis(u64::from(random % 1001))
}

impl Verdict {
    /// Returns whether the verdict expects this action.
    pub(crate) fn allows(&self, action: &Action) -> bool {
        match (self, action) {
            (Self::Next(next), Action::Send(request)) => *next == Next::of(*request),
            (Self::Next(Next::Data), Action::Fill { .. })
            | (Self::RefreshToken, Action::RefreshToken)
            | (Self::Finished, Action::Finished) => true,
            (Self::Wait(delay), Action::Wait(wait)) => *delay == wait.delay,
            (Self::Fails(why), Action::Failed(failure)) => Why::of(failure) == Some(*why),
            _ => false,
        }
    }
}

impl Next {
    pub(crate) fn of(request: Request) -> Self {
        match request {
            Request::Discover => unreachable!("the plan states the protocol"),
            Request::SingleRequest => Self::SingleRequest,
            Request::Start => Self::Start,
            Request::Query { .. } => Self::Query,
            Request::Data(_) => Self::Data,
        }
    }
}

impl Why {
    /// `None` for failures that no schedule explains: no other client uploads to these sessions,
    /// and they do not finish without their last byte.
    fn of(failure: &Failure) -> Option<Self> {
        match failure {
            Failure::GaveUp { .. } => Some(Self::GaveUp),
            Failure::Unexpected { .. } => Some(Self::Unexpected),
            Failure::SessionsLost { .. } => Some(Self::SessionsLost),
            Failure::SessionRewound { .. } => Some(Self::SessionRewound),
            Failure::Cancelled => Some(Self::Cancelled),
            Failure::Refused(_) => Some(Self::Refused),
            Failure::Rejected(_)
            | Failure::OffsetBeyondSent { .. }
            | Failure::PrematureSuccess { .. } => None,
        }
    }
}
