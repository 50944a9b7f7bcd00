//! The client's side of an upload as a state machine (docs/protocol.md, 5.2).
//!
//! [`poll`](Transfer::poll) returns the next action of a [`Transfer`], and the caller reports its
//! result: a [reply](Transfer::replied), a [broken connection](Transfer::broke), the end of a
//! [wait](Transfer::waited). A transfer does no I/O and reads no clock; random numbers are
//! arguments. The only source of truth for the offset is the server: after any failure in a session,
//! the transfer queries the committed bytes and continues from there.
//!
//! A transfer speaks one [`Protocol`]. It decides the same in all of them; their wire forms write
//! the heads of its requests and read the replies.
//!
//! ```
//! use http::{HeaderMap, StatusCode};
//! use windlass_proto::transfer::{Action, Description, Media, Plan, Reply, Request, Transfer};
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

use std::time::Duration;

use http::StatusCode;

use crate::backoff::Backoff;
use crate::content_range::CHUNK_GRANULARITY;
use exchange::{ChunkLimits, Committed, ReplyClass};
use plan::ChunkSizer;

mod discovery;
mod exchange;
mod form;
mod plan;
#[cfg(test)]
mod tests;

pub use exchange::{Action, Cause, Chunk, Event, Failure, Request, Wait};
pub use exchange::{ErrorReply, Reply, retry_after};
pub use form::{Content, Description, Head, Protocol, SessionStatus, Unsupported};
pub use plan::{ChunkSize, Chunking, InvalidChunkSize, Media, Plan, RetryPolicy};

/// One upload, from its first request to its end.
#[derive(Debug, Clone)]
pub struct Transfer {
    plan: Plan,
    /// The protocol, once known.
    protocol: Option<Protocol>,
    phase: Phase,
    session: Session,
    /// Whether the body of the current request was not sent completely.
    cut_short: bool,
    buffered: Buffered,
    chunk_sizer: ChunkSizer,
    backoff: Backoff,
    unexpected_count: u32,
    restarts: u32,
    token_refreshed: bool,
}

/// What is known of the current session.
#[derive(Debug, Clone, Default)]
struct Session {
    /// Committed bytes in the server's last reply.
    committed: u64,
    /// Highest number of committed bytes that the server reported.
    furthest: u64,
    /// Highest end offset of the requests.
    sent: u64,
    /// Whether a request could finish the upload.
    sent_last: bool,
    /// Whether the server knows the size of the media.
    total_stated: bool,
    /// The limits that the server states for chunks.
    limits: ChunkLimits,
    /// The data request that broke, until the number of bytes kept of it is known.
    broken: Option<Chunk>,
}

/// The media available for sending.
#[derive(Debug, Clone, Copy)]
struct Buffered {
    end: u64,
    ended: bool,
}

#[derive(Debug, Clone)]
enum Phase {
    /// A request is being sent, or media is being read for it.
    Active(RequestKind),
    Waiting(Wait, RequestKind),
    RefreshingToken(RequestKind),
    Finished,
    Failed(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Discover,
    SingleRequest,
    Start,
    Query,
    Data,
}

impl RequestKind {
    /// Returns the request that follows a failure of this one. In a session it is a query.
    fn after_failure(self) -> Self {
        match self {
            Self::Discover | Self::SingleRequest | Self::Start => self,
            Self::Query | Self::Data => Self::Query,
        }
    }
}

impl Transfer {
    /// Starts an upload.
    pub fn start(plan: Plan) -> Self {
        Self {
            phase: Phase::Active(first_kind(&plan, plan.protocol)),
            protocol: plan.protocol,
            session: Session::default(),
            cut_short: false,
            buffered: Buffered::of(&plan.media),
            chunk_sizer: ChunkSizer::new(plan.chunking),
            backoff: Backoff::new(plan.retry_policy.schedule),
            unexpected_count: 0,
            restarts: 0,
            token_refreshed: false,
            plan,
        }
    }

    /// Continues a session that another process started. Its state is unknown until the server
    /// reports it. The protocol of the plan is the session's.
    pub fn resume(plan: Plan) -> Self {
        let whole = plan.media.total.unwrap_or(u64::MAX);
        Self {
            phase: Phase::Active(RequestKind::Query),
            session: Session {
                sent: whole,
                sent_last: true,
                total_stated: plan.media.total.is_some(),
                ..Session::default()
            },
            ..Self::start(plan)
        }
    }

    /// Returns the next action. Repeated calls return the same action.
    pub fn poll(&self) -> Action {
        match &self.phase {
            Phase::Active(kind) => match self.request(*kind) {
                Some(request) => Action::Send(request),
                None => Action::Fill {
                    upto: self
                        .session
                        .committed
                        .saturating_add(self.limit())
                        .saturating_add(1),
                },
            },
            Phase::Waiting(wait, _) => Action::Wait(wait.clone()),
            Phase::RefreshingToken(_) => Action::RefreshToken,
            Phase::Finished => Action::Finished,
            Phase::Failed(failure) => Action::Failed(failure.clone()),
        }
    }

    /// Returns the number of committed bytes in the server's last reply.
    pub fn committed(&self) -> u64 {
        self.session.committed
    }

    /// Returns the size of the media, once known.
    pub fn total(&self) -> Option<u64> {
        let seen = self.buffered.ended.then_some(self.buffered.end);
        self.plan.media.total.or(seen)
    }

    /// Returns the offset before which the transfer never sends media again, so the caller may drop
    /// that media. It is 0 if the source can provide all media again. Otherwise it is the highest
    /// offset that the server has committed in this session.
    pub fn kept_from(&self) -> u64 {
        match self.plan.media.window {
            Some(_) => self.session.furthest,
            None => 0,
        }
    }

    /// Returns the protocol of the upload; `None` until the server has said which it speaks.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Writes the head of a request of this transfer.
    ///
    /// # Errors
    /// The protocol cannot carry a part of the description.
    pub fn head(
        &self,
        request: &Request,
        description: &Description<'_>,
    ) -> Result<Head, Unsupported> {
        self.form().head(request, description)
    }

    /// Returns the protocol. A request that is not in any is the same in all.
    fn form(&self) -> Protocol {
        self.protocol.unwrap_or_default()
    }

    /// Returns how often the upload restarted in a new session.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Reports the result of [`Action::Fill`]: the media up to offset `end` is available for
    /// sending. `ended` says that the media is known to end there.
    pub fn filled(&mut self, end: u64, ended: bool) {
        self.buffered = Buffered { end, ended };
        let over = matches!(self.phase, Phase::Finished | Phase::Failed(_));
        if self.session.committed > self.reach() && !over {
            self.offset_beyond_sent(self.session.committed);
        }
    }

    /// Reports that the wait is over, or was ended early.
    pub fn waited(&mut self) {
        if let Phase::Waiting(_, kind) = self.phase {
            self.phase = Phase::Active(kind);
        }
    }

    /// Reports that a new bearer token is available.
    pub fn token_refreshed(&mut self) {
        if let Phase::RefreshingToken(kind) = self.phase {
            self.phase = Phase::Active(kind);
        }
    }

    /// Reports that the body of the current request was not sent completely, because the connection
    /// broke or the reply arrived first. The request then cannot have finished the upload, whatever
    /// the reply says. Call this before [`replied`](Self::replied) or [`broke`](Self::broke).
    pub fn cut_short(&mut self) {
        self.cut_short = true;
    }

    /// Reports that the current request got no reply: no connection was established, or it broke.
    /// Draw `random` again for each call.
    pub fn broke(&mut self, random: u32) {
        if let Some((kind, _)) = self.sent_now() {
            self.interrupted(kind, Cause::Broken, None, random);
        }
    }

    /// Reports the reply to the current request. Draw `random` again for each call.
    pub fn replied(&mut self, reply: &Reply<'_>, random: u32) -> Event {
        let cut_short = self.cut_short;
        let Some((kind, request)) = self.sent_now() else {
            return Event::Nothing;
        };
        if kind == RequestKind::Discover {
            return self.discovered(reply, random);
        }
        let class = self.form().read(&request, reply);
        // A successful query does not prove that the server accepts the token for data. Without
        // this rule, a server that refuses every token for data would be retried forever.
        self.token_refreshed &=
            matches!(class, ReplyClass::Unauthorized | ReplyClass::Incomplete(_));
        match class {
            ReplyClass::Started { location, limits } => {
                self.session.limits = limits;
                self.session.total_stated = self.total().is_some();
                // An upload of no bytes is complete at once.
                if self.total() == Some(0) && self.form().ends_at_length() {
                    self.phase = Phase::Finished;
                    return Event::Finished;
                }
                self.phase = Phase::Active(RequestKind::Data);
                Event::Started { location }
            }
            ReplyClass::Incomplete(committed) => self.incomplete(&request, committed, random),
            ReplyClass::Complete if cut_short => self.unexpected(kind, reply, random),
            ReplyClass::Complete => self.complete(kind, reply, random),
            ReplyClass::WrongOffset {
                committed: Some(bytes),
            } if bytes > self.session.furthest => self.realigned(Committed::bytes(bytes)),
            ReplyClass::Lost => self.lost(reply.status),
            ReplyClass::Unexpected | ReplyClass::WrongOffset { .. } => {
                self.unexpected(kind, reply, random)
            }
            class => self.failed(kind, &class, reply, random),
        }
    }

    /// Reads the reply to the question which protocol the server speaks.
    fn discovered(&mut self, reply: &Reply<'_>, random: u32) -> Event {
        match discovery::read(reply) {
            Ok(protocol) => {
                self.protocol = Some(protocol);
                self.phase = Phase::Active(first_kind(&self.plan, Some(protocol)));
                Event::Nothing
            }
            Err(class) => self.failed(RequestKind::Discover, &class, reply, random),
        }
    }

    /// Returns the current request and its kind, and records the request as sent.
    fn sent_now(&mut self) -> Option<(RequestKind, Request)> {
        let Phase::Active(kind) = self.phase else {
            return None;
        };
        let request = self.request(kind)?;
        if let Request::Data(chunk) = request {
            self.session.sent = self.session.sent.max(chunk.end);
            self.session.sent_last |= chunk.total == Some(chunk.end) && !self.cut_short;
        }
        self.cut_short = false;
        Some((kind, request))
    }

    /// Returns the request of this kind; `None` if its media is not available.
    fn request(&self, kind: RequestKind) -> Option<Request> {
        Some(match kind {
            RequestKind::Discover => Request::Discover,
            RequestKind::SingleRequest => Request::SingleRequest,
            RequestKind::Start => Request::Start,
            RequestKind::Query => Request::Query {
                total: self.total(),
            },
            RequestKind::Data => Request::Data(self.chunk()?),
        })
    }

    /// Returns the next chunk, if its media is available.
    fn chunk(&self) -> Option<Chunk> {
        let (first, limit) = (self.session.committed, self.limit());
        let at_hand = self.buffered.end.saturating_sub(first);
        let total = self.total();
        let chunk = |end| Chunk {
            first,
            end,
            total,
            states_total: total.is_some() && !self.session.total_stated,
        };
        if self.buffered.ended && at_hand <= limit {
            return Some(chunk(self.buffered.end));
        }
        // One byte after the chunk must be available, so that the last chunk is known to be the
        // last.
        (at_hand > limit).then(|| chunk(first + limit))
    }

    /// Returns the maximum size of a chunk.
    fn limit(&self) -> u64 {
        let media = &self.plan.media;
        let most = match self.plan.chunking {
            Chunking::Adaptive if media.streamed => plan::STREAM_CHUNK,
            Chunking::Adaptive | Chunking::Fixed(_) => u64::MAX,
        };
        let window = media.window.unwrap_or(u64::MAX);
        let limit = self.chunk_sizer.limit().unwrap_or(most);
        self.session
            .limits
            .apply(limit.min(most).min(window))
            .min(window)
    }

    /// Returns the highest offset that the requests of this session can have reached. A request of
    /// another process did not exceed the end of the media.
    fn reach(&self) -> u64 {
        if self.buffered.ended {
            self.session.sent.min(self.buffered.end)
        } else {
            self.session.sent
        }
    }

    fn incomplete(&mut self, request: &Request, committed: Committed, random: u32) -> Event {
        let chunk = match request {
            Request::Data(chunk) => Some(*chunk),
            Request::Discover | Request::SingleRequest | Request::Start | Request::Query { .. } => {
                None
            }
        };
        let event = self.realigned(committed);
        let Some(chunk) = chunk.filter(|_| matches!(event, Event::Committed { .. })) else {
            return event;
        };
        self.session.total_stated |= chunk.states_total;
        let committed = committed.bytes;
        if committed < chunk.first + chunk.len().clamp(1, CHUNK_GRANULARITY) {
            // Almost no progress: without a wait this could continue byte by byte.
            self.interrupted(RequestKind::Query, Cause::Stalled, None, random);
        } else {
            self.chunk_sizer.completed(chunk, committed);
        }
        event
    }

    /// Continues at the offset that the server has stated.
    fn realigned(&mut self, committed: Committed) -> Event {
        let bytes = committed.bytes;
        if bytes > self.reach() {
            return self.offset_beyond_sent(bytes);
        }
        if bytes < self.kept_from() {
            let kept_from = self.kept_from();
            return self.fail(Failure::SessionRewound {
                committed: bytes,
                kept_from,
            });
        }
        self.session.limits = committed.limits.unwrap_or(self.session.limits);
        self.session.total_stated = committed.knows_total.unwrap_or(self.session.total_stated);
        if let Some(broken) = self.session.broken.take() {
            self.chunk_sizer.broke(broken, bytes);
        }
        self.session.committed = bytes;
        if bytes > self.session.furthest {
            self.session.furthest = bytes;
            self.backoff.reset();
            self.unexpected_count = 0;
            self.token_refreshed = false;
        }
        self.phase = Phase::Active(RequestKind::Data);
        Event::Committed { offset: bytes }
    }

    fn complete(&mut self, kind: RequestKind, reply: &Reply<'_>, random: u32) -> Event {
        if kind == RequestKind::SingleRequest || self.session.sent_last {
            self.phase = Phase::Finished;
            return Event::Finished;
        }
        match kind {
            // The reply may come from a proxy. A query will tell.
            RequestKind::Data => self.unexpected(kind, reply, random),
            _ => self.fail(Failure::PrematureSuccess {
                sent: self.session.sent,
            }),
        }
    }
}

/// Returns the kind of the first request of an upload in this protocol.
fn first_kind(plan: &Plan, protocol: Option<Protocol>) -> RequestKind {
    match protocol {
        None => RequestKind::Discover,
        Some(protocol) if plan.single_request && protocol.has_single_requests() => {
            RequestKind::SingleRequest
        }
        Some(_) => RequestKind::Start,
    }
}

impl Buffered {
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

impl Transfer {
    fn offset_beyond_sent(&mut self, committed: u64) -> Event {
        let sent = self.reach();
        self.fail(Failure::OffsetBeyondSent { committed, sent })
    }

    fn lost(&mut self, status: StatusCode) -> Event {
        let restarts = self.restarts;
        if restarts >= self.plan.retry_policy.restarts {
            return self.fail(Failure::SessionsLost { restarts, status });
        }
        if self.kept_from() > 0 {
            let kept_from = self.kept_from();
            return self.fail(Failure::SessionRewound {
                committed: 0,
                kept_from,
            });
        }
        self.restarts += 1;
        self.session = Session::default();
        self.phase = Phase::Active(RequestKind::Start);
        Event::Lost
    }

    /// Handles a reply without success that says nothing of the committed bytes.
    fn failed(
        &mut self,
        kind: RequestKind,
        class: &ReplyClass,
        reply: &Reply<'_>,
        random: u32,
    ) -> Event {
        match class {
            ReplyClass::Transient => {
                let cause = Cause::Reply(self.form().error_reply(reply));
                self.interrupted(kind, cause, reply.retry_after, random)
            }
            ReplyClass::Unauthorized if self.plan.refreshable && !self.token_refreshed => {
                self.token_refreshed = true;
                self.phase = Phase::RefreshingToken(kind.after_failure());
                Event::Nothing
            }
            ReplyClass::Unauthorized | ReplyClass::Refused => {
                self.fail(Failure::Refused(self.form().error_reply(reply)))
            }
            ReplyClass::Rejected => self.fail(Failure::Rejected(self.form().error_reply(reply))),
            ReplyClass::Cancelled => self.fail(Failure::Cancelled),
            ReplyClass::NotTheProtocol => self.not_the_protocol(reply),
            ReplyClass::Started { .. }
            | ReplyClass::Incomplete(_)
            | ReplyClass::Complete
            | ReplyClass::WrongOffset { .. }
            | ReplyClass::Lost
            | ReplyClass::Unexpected => self.unexpected(kind, reply, random),
        }
    }

    /// Backs off, or gives up when no waits are left.
    fn interrupted(
        &mut self,
        kind: RequestKind,
        cause: Cause,
        retry_after: Option<Duration>,
        random: u32,
    ) -> Event {
        if kind == RequestKind::Data {
            self.session.broken = self.chunk();
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
    fn not_the_protocol(&mut self, reply: &Reply<'_>) -> Event {
        self.fail(Failure::Unexpected {
            reply: self.form().error_reply(reply),
            tries: 1,
            session: false,
        })
    }

    /// Retries after a pause, up to `other_tries` times.
    fn unexpected(&mut self, kind: RequestKind, reply: &Reply<'_>, random: u32) -> Event {
        let error_reply = self.form().error_reply(reply);
        if kind == RequestKind::Data {
            self.session.broken = self.chunk();
        }
        self.unexpected_count += 1;
        let of = self.plan.retry_policy.other_tries;
        if self.unexpected_count >= of {
            let session = kind.after_failure() == RequestKind::Query;
            return self.fail(Failure::Unexpected {
                reply: error_reply,
                tries: self.unexpected_count,
                session,
            });
        }
        let wait = Wait {
            delay: self.pause(reply.retry_after, random),
            attempt: self.unexpected_count + 1,
            of,
            cause: Cause::Reply(error_reply),
        };
        self.phase = Phase::Waiting(wait, kind.after_failure());
        Event::Nothing
    }

    /// Returns the wait before a retry that does not back off.
    fn pause(&self, retry_after: Option<Duration>, random: u32) -> Duration {
        let retry_policy = &self.plan.retry_policy;
        let asked = retry_after.unwrap_or_default();
        let pause = retry_policy.schedule.pause(random);
        pause.max(asked.min(retry_policy.longest_retry_after))
    }

    fn fail(&mut self, failure: Failure) -> Event {
        self.phase = Phase::Failed(failure);
        Event::Nothing
    }
}
