//! What a client does next to get media up (docs/protocol.md, 5.2).
//!
//! A [`Transfer`] is asked with [`poll`](Transfer::poll) and told what came of it: a
//! [reply](Transfer::replied), a [broken connection](Transfer::broke), the end of a
//! [wait](Transfer::waited). It sends nothing and knows no clock; random numbers come in as
//! arguments. It trusts nothing but the `Range` of the server: after whatever went wrong in a session it
//! asks what is committed and goes on from there.
//!
//! ```
//! use http::{HeaderMap, StatusCode};
//! use windlass_proto::transfer::{Action, Media, Plan, Reply, Request, Transfer};
//!
//! let mut transfer = Transfer::start(Plan::resumable(Media::seekable(300_000)));
//! assert_eq!(transfer.poll(), Action::Send(Request::Start));
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("location", "https://up.example.com/u?upload_id=x".parse().unwrap());
//! transfer.replied(&Reply { headers: &headers, ..Reply::empty(StatusCode::OK) }, 0);
//! let Action::Send(request) = transfer.poll() else { panic!() };
//! assert_eq!(request.content_range().unwrap().to_string(), "bytes 0-299999/300000");
//!
//! transfer.broke(500);
//! assert!(matches!(transfer.poll(), Action::Wait(wait) if wait.delay.as_millis() == 1500));
//! transfer.waited();
//! let Action::Send(request) = transfer.poll() else { panic!() };
//! assert_eq!(request.content_range().unwrap().to_string(), "bytes */300000");
//! ```

use crate::backoff::Backoff;
use crate::content_range::CHUNK_GRANULARITY;

mod action;
mod failure;
mod pace;
mod plan;
mod reply;
mod request;
mod setback;
#[cfg(test)]
mod tests;

pub use action::{Action, Event, Wait};
pub use failure::{Cause, Failure, Refusal};
pub use plan::{ChunkSize, Chunking, InvalidChunkSize, Media, Patience, Plan};
pub use reply::{Reply, Standing, retry_after};
pub use request::{Chunk, Request};

use pace::Pace;
use reply::Meaning;

/// One upload, from its first request to its end.
#[derive(Debug, Clone)]
pub struct Transfer {
    plan: Plan,
    phase: Phase,
    /// What the server said last.
    committed: u64,
    /// The most that it ever said in this session.
    furthest: u64,
    /// No request of this session reached further than this.
    sent: u64,
    /// Whether a request of this session could end the upload.
    sent_last: bool,
    /// Whether the body of the request under way was not handed over whole.
    cut_short: bool,
    ready: Ready,
    pace: Pace,
    /// The data request that broke, until it is known how much of it was kept.
    broken: Option<Chunk>,
    backoff: Backoff,
    oddities: u32,
    restarts: u32,
    renewed: bool,
}

/// How much of the media is at hand.
#[derive(Debug, Clone, Copy)]
struct Ready {
    end: u64,
    ended: bool,
}

#[derive(Debug, Clone)]
enum Phase {
    /// Under way.
    Go(Goal),
    Waiting(Wait, Goal),
    Renewing(Goal),
    Finished,
    Failed(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    OneShot,
    Start,
    Query,
    Data,
}

impl Goal {
    /// What follows when this did not work out: in a session, the question what is committed.
    fn again(self) -> Self {
        match self {
            Self::OneShot | Self::Start => self,
            Self::Query | Self::Data => Self::Query,
        }
    }
}

impl Transfer {
    /// An upload that has not begun.
    pub fn start(plan: Plan) -> Self {
        let goal = if plan.single_request {
            Goal::OneShot
        } else {
            Goal::Start
        };
        Self {
            phase: Phase::Go(goal),
            committed: 0,
            furthest: 0,
            sent: 0,
            sent_last: false,
            cut_short: false,
            ready: Ready::of(&plan.media),
            pace: Pace::new(plan.chunking),
            broken: None,
            backoff: Backoff::new(plan.patience.schedule),
            oddities: 0,
            restarts: 0,
            renewed: false,
            plan,
        }
    }

    /// An upload that another process began: the session exists, and nothing is known of it but what the
    /// server says.
    pub fn resume(plan: Plan) -> Self {
        let whole = plan.media.total.unwrap_or(u64::MAX);
        Self {
            phase: Phase::Go(Goal::Query),
            sent: whole,
            sent_last: true,
            ..Self::start(plan)
        }
    }

    /// What to do now. Asked again, it says the same.
    pub fn poll(&self) -> Action {
        match &self.phase {
            Phase::Go(Goal::OneShot) => Action::Send(Request::OneShot),
            Phase::Go(Goal::Start) => Action::Send(Request::Start),
            Phase::Go(Goal::Query) => Action::Send(Request::Query {
                total: self.total(),
            }),
            Phase::Go(Goal::Data) => match self.chunk() {
                Some(chunk) => Action::Send(Request::Data(chunk)),
                None => Action::Fill {
                    upto: self
                        .committed
                        .saturating_add(self.limit())
                        .saturating_add(1),
                },
            },
            Phase::Waiting(wait, _) => Action::Wait(wait.clone()),
            Phase::Renewing(_) => Action::Renew,
            Phase::Finished => Action::Finished,
            Phase::Failed(failure) => Action::Failed(failure.clone()),
        }
    }

    /// Count of committed bytes, as the server said it last.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Size of the media, once known.
    pub fn total(&self) -> Option<u64> {
        let seen = self.ready.ended.then_some(self.ready.end);
        self.plan.media.total.or(seen)
    }

    /// Media before this offset will not be asked for again.
    pub fn floor(&self) -> u64 {
        match self.plan.media.window {
            Some(_) => self.furthest,
            None => 0,
        }
    }

    /// How often the upload started again.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// So much of the media is at hand; `ended`: and there is no more.
    pub fn filled(&mut self, end: u64, ended: bool) {
        self.ready = Ready { end, ended };
        let over = matches!(self.phase, Phase::Finished | Phase::Failed(_));
        if self.committed > self.reach() && !over {
            self.beyond_sent(self.committed);
        }
    }

    /// The wait is over, or was cut short.
    pub fn waited(&mut self) {
        if let Phase::Waiting(_, goal) = self.phase {
            self.phase = Phase::Go(goal);
        }
    }

    /// There is another bearer token.
    pub fn renewed(&mut self) {
        if let Phase::Renewing(goal) = self.phase {
            self.phase = Phase::Go(goal);
        }
    }

    /// Not all of the body of the request under way was handed over: so it cannot have ended the upload.
    /// To be called before [`replied`](Self::replied) or [`broke`](Self::broke).
    pub fn cut_short(&mut self) {
        self.cut_short = true;
    }

    /// The request that [`poll`](Self::poll) asked for has no reply: no connection came about, or it
    /// broke. `random` is drawn again for each call.
    pub fn broke(&mut self, random: u32) {
        if let Some(goal) = self.sent_now() {
            self.interrupted(goal, Cause::Broken, None, random);
        }
    }

    /// The request that [`poll`](Self::poll) asked for has a reply. `random` is drawn again for each
    /// call.
    pub fn replied(&mut self, reply: &Reply<'_>, random: u32) -> Event {
        let cut_short = self.cut_short;
        let Some(goal) = self.sent_now() else {
            return Event::Nothing;
        };
        let meaning = Meaning::of(goal, reply);
        // A question that is answered is no sign that data would be taken: else a server that refuses
        // every token for data would be asked for ever.
        self.renewed &= matches!(meaning, Meaning::Unauthorized | Meaning::Incomplete { .. });
        match meaning {
            Meaning::Started { location } => {
                self.phase = Phase::Go(Goal::Data);
                Event::Started { location }
            }
            Meaning::Incomplete { committed } => self.incomplete(goal, committed, random),
            Meaning::Complete if cut_short => self.odd(goal, reply, random),
            Meaning::Complete => self.complete(goal, reply, random),
            Meaning::Lost => self.lost(reply.status),
            Meaning::Later => {
                let cause = Cause::Reply(Refusal::of(reply));
                self.interrupted(goal, cause, reply.retry_after, random)
            }
            Meaning::Odd => self.odd(goal, reply, random),
            Meaning::Foreign => self.foreign(reply),
            Meaning::Unauthorized if self.plan.renewable && !self.renewed => {
                self.renewed = true;
                self.phase = Phase::Renewing(goal.again());
                Event::Nothing
            }
            Meaning::Unauthorized | Meaning::Refused => {
                self.fail(Failure::Refused(Refusal::of(reply)))
            }
            Meaning::Cancelled => self.fail(Failure::Cancelled),
        }
    }

    /// The request that is on its way, noted as sent.
    fn sent_now(&mut self) -> Option<Goal> {
        let Phase::Go(goal) = self.phase else {
            return None;
        };
        if goal == Goal::Data {
            let chunk = self.chunk()?;
            self.sent = self.sent.max(chunk.end);
            self.sent_last |= chunk.total == Some(chunk.end) && !self.cut_short;
        }
        self.cut_short = false;
        Some(goal)
    }

    /// The next piece to send, if it is at hand.
    fn chunk(&self) -> Option<Chunk> {
        let (first, limit) = (self.committed, self.limit());
        let at_hand = self.ready.end.saturating_sub(first);
        let total = self.total();
        if self.ready.ended && at_hand <= limit {
            let end = self.ready.end;
            return Some(Chunk { first, end, total });
        }
        // A byte more than goes now, so that the last chunk is known to be the last.
        (at_hand > limit).then(|| Chunk {
            first,
            end: first + limit,
            total,
        })
    }

    /// The most that goes in one request.
    fn limit(&self) -> u64 {
        let media = &self.plan.media;
        let most = match self.plan.chunking {
            Chunking::Adaptive if media.streamed => plan::STREAM_CHUNK,
            Chunking::Adaptive | Chunking::Fixed(_) => u64::MAX,
        };
        let window = media.window.unwrap_or(u64::MAX);
        self.pace.limit().unwrap_or(most).min(most).min(window)
    }

    /// How far a request of this session can have reached. One that another process sent did not reach
    /// past the end of the media.
    fn reach(&self) -> u64 {
        if self.ready.ended {
            self.sent.min(self.ready.end)
        } else {
            self.sent
        }
    }

    fn incomplete(&mut self, goal: Goal, committed: u64, random: u32) -> Event {
        if committed > self.reach() {
            return self.beyond_sent(committed);
        }
        if committed < self.floor() {
            let kept_from = self.floor();
            return self.fail(Failure::Forgotten {
                committed,
                kept_from,
            });
        }
        let chunk = self.chunk().filter(|_| goal == Goal::Data);
        if let Some(broken) = self.broken.take() {
            self.pace.broke(broken, committed);
        }
        self.committed = committed;
        if committed > self.furthest {
            self.furthest = committed;
            self.backoff.reset();
            self.oddities = 0;
            self.renewed = false;
        }
        match chunk {
            // Hardly anything: without a wait this could go on byte by byte.
            Some(chunk) if committed < chunk.first + chunk.len().clamp(1, CHUNK_GRANULARITY) => {
                self.interrupted(Goal::Query, Cause::Stalled, None, random);
            }
            Some(chunk) => {
                self.pace.completed(chunk, committed);
                self.phase = Phase::Go(Goal::Data);
            }
            None => self.phase = Phase::Go(Goal::Data),
        }
        Event::Committed { offset: committed }
    }

    fn complete(&mut self, goal: Goal, reply: &Reply<'_>, random: u32) -> Event {
        if goal == Goal::OneShot || self.sent_last {
            self.phase = Phase::Finished;
            return Event::Finished;
        }
        match goal {
            // It may come from something on the way. Asked, the session will tell.
            Goal::Data => self.odd(goal, reply, random),
            _ => self.fail(Failure::FinishedEarly { sent: self.sent }),
        }
    }
}

impl Ready {
    fn of(media: &Media) -> Self {
        match media.total {
            Some(end) if !media.streamed => Self { end, ended: true },
            _ => Self {
                end: 0,
                ended: false,
            },
        }
    }
}
