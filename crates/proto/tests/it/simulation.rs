//! A simulation of a transfer and a server, connected by a network with a schedule of faults.

use std::time::{Duration, SystemTime};

use http::HeaderValue;
use http::header::RANGE;
use windlass_proto::content_range::ContentRange;
use windlass_proto::dialect::Condition;
use windlass_proto::header::X_GOOG_UPLOAD_SIZE_RECEIVED;
use windlass_proto::session::{CHUNK_GRANULARITY, State};
use windlass_proto::transfer::{
    Action, Chunk, Event, Failure, Reply, Request, RetryPolicy, Transfer, retry_after,
};

use crate::client::{Client, Outgoing};
use crate::fault::{Fault, Keep};
use crate::media::Stored;
use crate::oracle::{Next, Oracle, Verdict};
use crate::schedule::Schedule;
use crate::server::{Answer, Delivery, Server, thousandths};

const Q: u64 = CHUNK_GRANULARITY;

/// Client and server.
#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    case: &'a Schedule,
    retry_policy: RetryPolicy,
    server: Server,
    transfer: Transfer,
    client: Client<'a>,
    oracle: Oracle,
    /// The action that must follow now.
    verdict: Verdict,
    requests: usize,
    elapsed: Duration,
}

/// Result of a simulation.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) failure: Option<Failure>,
    pub(crate) requests: usize,
    pub(crate) elapsed: Duration,
}

/// The result of a request for the client.
enum ClientResult {
    Nothing,
    Answer(Answer),
    /// The client was killed.
    Killed,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(case: &'a Schedule, retry_policy: RetryPolicy) -> Self {
        let first = if case.single_request {
            Next::SingleRequest
        } else {
            Next::Start
        };
        Self {
            case,
            retry_policy,
            server: Server::new(case.dialect),
            transfer: Transfer::start(case.plan(retry_policy)),
            client: Client::new(case),
            oracle: oracle(case, retry_policy),
            verdict: Verdict::Next(first),
            requests: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Runs to the end, with at most `most` requests.
    pub(crate) fn run(mut self, most: usize) -> End {
        loop {
            let action = self.transfer.poll();
            assert_eq!(self.transfer.poll(), action, "asked again");
            assert!(
                self.verdict.allows(&action),
                "{:?} must follow, not {action:?}",
                self.verdict
            );
            match action {
                Action::Send(request) => {
                    assert!(self.requests < most, "{most} requests did not do");
                    self.send(request);
                }
                Action::Fill { upto } => {
                    let (end, ended) = self.client.reader.fill(upto);
                    self.transfer.filled(end, ended);
                }
                Action::Wait(wait) => {
                    self.elapsed += wait.delay;
                    self.transfer.waited();
                    self.verdict = self.after_failure();
                }
                Action::RefreshToken => {
                    self.transfer.token_refreshed();
                    self.verdict = self.after_failure();
                }
                Action::Finished => return self.finished(),
                Action::Failed(failure) => return self.over(Some(failure)),
            }
        }
    }

    /// Returns the action that must follow a failure: in a session, a query.
    fn after_failure(&self) -> Verdict {
        Verdict::Next(match (self.case.single_request, self.client.session()) {
            (true, _) => Next::SingleRequest,
            (false, None) => Next::Start,
            (false, Some(_)) => Next::Query,
        })
    }

    fn send(&mut self, request: Request) {
        let outgoing = self.client.write(request, self.transfer.total());
        self.check(request, &outgoing);
        let fault = self.case.fault(self.requests);
        self.requests += 1;
        let random = self.random();
        match self.deliver(&outgoing, fault) {
            ClientResult::Killed => self.restart_client(),
            ClientResult::Nothing => {
                self.verdict = self.oracle.broke(random);
                self.transfer.broke(random);
            }
            ClientResult::Answer(answer) => {
                let answer = self.client.read(&outgoing, answer);
                let session = self.server.session(&outgoing.query);
                let stored = session.map(|session| session.media.len());
                // Without an offset the client may know of less.
                let stored = stored.filter(|_| fault != Fault::NoRange);
                self.hear(request, &answer, stored, random);
            }
        }
    }

    /// Returns another number for every wait, the same in every run.
    fn random(&self) -> u32 {
        let requests = u32::try_from(self.requests).expect("not that many");
        requests.wrapping_mul(2_654_435_761)
    }

    fn check(&self, request: Request, outgoing: &Outgoing) {
        let len = self.case.len;
        let range = request.content_range();
        self.client.reader.check(&outgoing.body);
        match request {
            Request::Discover | Request::SingleRequest | Request::Start => assert_eq!(range, None),
            Request::Query { total } => assert!(total.is_none_or(|total| total == len)),
            Request::Data(chunk) => self.check_chunk(chunk, range.expect("data has a place")),
        }
    }

    fn check_chunk(&self, chunk: Chunk, range: ContentRange) {
        let case = self.case;
        let Chunk {
            first, end, total, ..
        } = chunk;
        assert_eq!(first, self.oracle.reported, "where the server is");
        assert!(first <= end && end <= case.len, "{chunk:?}");
        assert!(total.is_none_or(|total| total == case.len), "{chunk:?}");
        if end == case.len {
            assert_eq!(total, Some(case.len), "the last chunk carries the total");
        } else {
            let len = chunk.len();
            assert!(len > 0 && len.is_multiple_of(Q), "{chunk:?}");
        }
        let most = case.chunk.map_or(u64::MAX, |chunk| chunk * Q);
        assert!(chunk.len() <= most.min(case.window().unwrap_or(u64::MAX)));
        let expected = if chunk.is_empty() {
            ContentRange::Query { total }
        } else {
            let last = end - 1;
            ContentRange::Bounded { first, last, total }
        };
        assert_eq!(range, expected);
    }

    fn deliver(&mut self, outgoing: &Outgoing, fault: Fault) -> ClientResult {
        let whole = Delivery::WHOLE;
        match fault {
            Fault::Fine => ClientResult::Answer(self.server.serve(outgoing, whole)),
            Fault::Lost => ClientResult::Nothing,
            Fault::Torn { after, keep, late } => {
                self.tear(outgoing, after, keep, late);
                ClientResult::Nothing
            }
            Fault::ReplyLost { late } => {
                self.server.serve(outgoing, Delivery { late, ..whole });
                ClientResult::Nothing
            }
            Fault::Kill { effect } => {
                self.serve_if(effect, outgoing);
                ClientResult::Killed
            }
            Fault::Restart { left } => {
                self.server.restart(left);
                ClientResult::Nothing
            }
            _ => ClientResult::Answer(self.answer(outgoing, fault)),
        }
    }

    /// Returns the reply, if the client gets one.
    fn answer(&mut self, outgoing: &Outgoing, fault: Fault) -> Answer {
        match fault {
            Fault::Overload {
                status,
                effect,
                retry_after,
                page,
            } => {
                self.serve_if(effect, outgoing);
                let answer = if page {
                    Answer::page(status)
                } else {
                    Answer::new(status, "busy")
                };
                answer.with_retry_after(retry_after)
            }
            Fault::RateLimit => Answer::new(
                403,
                r#"{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}"#,
            ),
            Fault::Unauthorized => Answer::new(401, ""),
            Fault::Unexpected { status, effect } => {
                self.serve_if(effect, outgoing);
                Answer::page(status)
            }
            _ => self.answer_of_server(outgoing, fault),
        }
    }

    fn answer_of_server(&mut self, outgoing: &Outgoing, fault: Fault) -> Answer {
        if let Some(session) = self.server.session(&outgoing.query) {
            match fault {
                Fault::SessionDies { status: 404 } => {
                    session.lost = Some(Condition::SessionNotFound);
                }
                Fault::SessionDies { .. } => session.lost = Some(Condition::MediaLost),
                Fault::Cancel => self.cancel(&outgoing.query),
                _ => {}
            }
        }
        let mut answer = self.server.serve(outgoing, Delivery::WHOLE);
        for name in [RANGE, X_GOOG_UPLOAD_SIZE_RECEIVED] {
            match fault {
                Fault::NoRange => {
                    answer.headers.remove(name);
                }
                Fault::OddRange if answer.headers.contains_key(&name) => {
                    let unexpected = HeaderValue::from_static("bytes=1-5");
                    answer.headers.insert(name, unexpected);
                }
                _ => {}
            }
        }
        answer
    }

    /// Another client cancels the session, unless that is lost or finished.
    fn cancel(&mut self, query: &str) {
        let outgoing = self.client.cancel(query);
        let answer = self.server.serve(&outgoing, Delivery::WHOLE);
        let session = self.server.session(query).expect("a URI of this server");
        if session.lost.is_none() && !session.is_finished() {
            assert_eq!(session.state, State::Cancelled);
            assert_eq!(self.client.read(&outgoing, answer).status, 499);
        }
    }

    fn serve_if(&mut self, effect: bool, outgoing: &Outgoing) {
        if effect {
            self.server.serve(outgoing, Delivery::WHOLE);
        }
    }

    /// Breaks a request. A request without a body breaks in its head.
    fn tear(&mut self, outgoing: &Outgoing, after: u16, keep: Keep, late: u8) {
        let len = outgoing.body.end - outgoing.body.start;
        if len > 0 {
            let breaks = Some(thousandths(len, after).min(len - 1));
            self.server.serve(outgoing, Delivery { breaks, keep, late });
        }
    }

    /// Passes a reply on. `stored` is the number of bytes that it must report, if it reports any.
    fn hear(&mut self, request: Request, answer: &Answer, stored: Option<u64>, random: u32) {
        self.verdict = self.oracle.heard(request, answer, random);
        let reply = Reply {
            status: answer.status,
            headers: &answer.headers,
            body: answer.body.as_bytes(),
            retry_after: retry_after(&answer.headers, SystemTime::UNIX_EPOCH),
        };
        match self.transfer.replied(&reply, random) {
            Event::Started { location } => {
                let (_, query) = location.split_once('?').expect("it names the session");
                self.client.set_session(Some(query.to_owned()));
            }
            Event::Lost => self.client.set_session(None),
            Event::Committed { offset } => {
                assert_eq!(offset, self.oracle.reported);
                assert_eq!(
                    offset,
                    stored.unwrap_or(offset),
                    "the server has another number"
                );
            }
            Event::Finished => assert_eq!(self.verdict, Verdict::Finished),
            Event::Nothing => {}
        }
        self.client.reader.release(self.transfer.kept_from());
    }

    /// Restarts the client, which continues in the session if there is one. A stream starts at its
    /// beginning.
    fn restart_client(&mut self) {
        let plan = self.case.plan(self.retry_policy);
        self.transfer = if self.client.session().is_some() {
            Transfer::resume(plan)
        } else {
            Transfer::start(plan)
        };
        self.client.restart();
        self.oracle = oracle(self.case, self.retry_policy);
        self.verdict = self.after_failure();
    }

    fn finished(self) -> End {
        if self.case.single_request {
            let media = self.server.one_shots().last().expect("a resource");
            assert_eq!(media.len(), self.case.len);
        } else {
            let query = self.client.session().expect("a session has finished");
            let last = self.server.sessions().last().expect("a session");
            assert!(query.ends_with(&format!("={}", self.server.sessions().len() - 1)));
            assert!(last.is_finished(), "{:?}", last.state);
        }
        self.over(None)
    }

    /// Checks that every byte is at its offset and that every resource is the whole media.
    fn over(self, failure: Option<Failure>) -> End {
        let sessions = self.server.sessions();
        for session in sessions {
            assert!(session.media.is_right());
            assert!(!session.is_finished() || session.media.len() == self.case.len);
        }
        assert!(self.server.one_shots().iter().all(Stored::is_right));
        // A second resource requires a session that was lost when it was finished.
        let finished = |lost| {
            sessions
                .iter()
                .filter(move |session| session.is_finished() && session.lost.is_some() == lost)
        };
        assert!(finished(false).count() <= 1);
        End {
            failure,
            requests: self.requests,
            elapsed: self.elapsed,
        }
    }
}

fn oracle(case: &Schedule, retry_policy: RetryPolicy) -> Oracle {
    Oracle::new(retry_policy, case.window().is_some(), case.refreshable)
}
