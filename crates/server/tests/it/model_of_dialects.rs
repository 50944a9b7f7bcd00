//! Random lives of a session in each dialect whose requests say where their bytes begin, against a
//! model that knows only the rules of the protocol. Requests of the other dialects come in between.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use windlass_testkit::media::Media;
use windlass_testkit::test_scale::cases;

use crate::power::{LocalStores, MemoryStores, PoweredStores, Survivors};
use crate::protocols::{Outcome, Protocol};
use crate::world::{Body, LIFETIME, ManualClock, Reply, World};

/// Larger than media that stays in the ledger, and short enough to test every byte.
const LEN: u64 = 50;

const MEDIA: Media = Media::new(51, LEN);

/// The state of a session, derived from the requests alone.
#[derive(Debug, Clone)]
struct Model {
    dialect: Protocol,
    state: State,
    committed: u64,
    length: Option<u64>,
    /// The reply to the last request.
    expected: Expected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    Finished,
    Failed,
    Cancelled,
    Expired,
}

/// The outcome of a request for its client, or the status of its refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Outcome(Outcome),
    Status(u16),
    /// The refusal of a request of another dialect.
    Refused,
    /// As before, of a session that was cancelled: it may be called so.
    RefusedOrCancelled,
    Nothing,
}

#[derive(Debug, Clone)]
enum Transition {
    Part(Part),
    /// A byte more than the length has.
    TooMuch,
    Query,
    Cancel,
    /// A request of another dialect.
    Foreign(Protocol, Foreign),
    /// The power fails and comes back.
    Crash,
    Expire,
}

/// The bytes `first..end`. If it breaks off, only this number of them arrives.
#[derive(Debug, Clone, Copy)]
struct Part {
    first: u64,
    end: u64,
    /// Whether the request says that it ends the upload. tus has no way to say so.
    ends: bool,
    breaks: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Foreign {
    Append,
    Query,
    End,
    Cancel,
}

impl Foreign {
    const ALL: [Self; 4] = [Self::Append, Self::Query, Self::End, Self::Cancel];
}

impl Model {
    fn outcome(&self) -> Outcome {
        match self.state {
            State::Finished => Outcome::Finished,
            _ => Outcome::Committed(self.committed),
        }
    }

    /// The reply of a session that takes nothing any more.
    fn gone(&self, is_cancel: bool) -> Option<Expected> {
        let is_x_goog = self.dialect == Protocol::XGoogUpload;
        match self.state {
            State::Active | State::Finished => None,
            State::Failed => Some(Expected::Status(410)),
            State::Cancelled if is_x_goog && is_cancel => Some(Expected::Status(200)),
            State::Cancelled if is_x_goog => Some(Expected::Status(400)),
            State::Cancelled | State::Expired => Some(Expected::Status(404)),
        }
    }

    fn step(&mut self, transition: &Transition) -> Expected {
        match *transition {
            Transition::Crash => Expected::Nothing,
            Transition::Expire => {
                self.state = State::Expired;
                Expected::Nothing
            }
            Transition::Foreign(dialect, foreign) => self.foreign(dialect, foreign),
            Transition::Cancel => self.cancel(),
            Transition::Query => self.gone(false).unwrap_or_else(|| self.query()),
            Transition::Part(part) => self.gone(false).unwrap_or_else(|| self.part(part)),
            Transition::TooMuch => self.gone(false).unwrap_or_else(|| self.too_much()),
        }
    }

    /// Nothing changes, whatever the reply is.
    fn foreign(&self, dialect: Protocol, foreign: Foreign) -> Expected {
        match (foreign, self.state) {
            (Foreign::Query, State::Active | State::Finished) => Expected::Outcome(self.outcome()),
            // The end of a finished upload may be repeated.
            (Foreign::End, State::Finished) => Expected::Outcome(Outcome::Finished),
            // A byte after the end is noticed where the request could have meant another end.
            (Foreign::Append, State::Finished)
                if matches!(dialect, Protocol::Google | Protocol::Tus) =>
            {
                Expected::Outcome(Outcome::Finished)
            }
            // An end without bytes is a question in Google's dialect.
            (Foreign::End, State::Active)
                if dialect == Protocol::Google
                    && self.length.is_none_or(|length| length == self.committed) =>
            {
                Expected::Outcome(self.outcome())
            }
            (_, State::Cancelled) => Expected::RefusedOrCancelled,
            _ => Expected::Refused,
        }
    }

    fn cancel(&mut self) -> Expected {
        if let Some(gone) = self.gone(true) {
            return gone;
        }
        match (self.state, self.dialect) {
            (State::Finished, Protocol::Ietf) => Expected::Status(204),
            (State::Finished, _) => Expected::Status(400),
            _ => {
                self.state = State::Cancelled;
                Expected::Outcome(Outcome::Cancelled)
            }
        }
    }

    fn query(&mut self) -> Expected {
        if self.dialect == Protocol::Tus && self.length == Some(self.committed) {
            self.state = State::Finished;
        }
        Expected::Outcome(self.outcome())
    }

    /// The status for bytes that do not begin where they have to.
    fn misplaced(&self, first: u64) -> Option<Expected> {
        match self.dialect {
            Protocol::XGoogUpload if first > self.committed => Some(Expected::Status(400)),
            Protocol::XGoogUpload => None,
            _ if first != self.committed => Some(Expected::Status(409)),
            _ => None,
        }
    }

    fn part(&mut self, part: Part) -> Expected {
        let Part {
            first, end, breaks, ..
        } = part;
        let is_tus = self.dialect == Protocol::Tus;
        if self.state == State::Finished {
            // A request that breaks off has not stated how many bytes it has.
            let end = if breaks.is_some() { first } else { end };
            return match self.misplaced(first) {
                Some(misplaced) => misplaced,
                None if end > self.committed && !is_tus => Expected::Status(400),
                None => Expected::Outcome(Outcome::Finished),
            };
        }
        if let Some(misplaced) = self.misplaced(first) {
            return misplaced;
        }
        let length = self.length.or_else(|| part.states().filter(|_| is_tus));
        let ends = match self.dialect {
            Protocol::Tus => length == Some(end),
            _ => part.ends,
        };
        if let Some(arrived) = breaks {
            self.committed = self.committed.max(first + arrived);
            self.length = length;
            return Expected::Status(503);
        }
        let is_short = length.is_some_and(|length| end < length) || end < self.committed;
        if ends && is_short {
            return Expected::Status(400);
        }
        self.committed = self.committed.max(end);
        self.length = length;
        if ends {
            self.state = State::Finished;
        }
        Expected::Outcome(self.outcome())
    }

    fn too_much(&mut self) -> Expected {
        match (self.state, self.dialect) {
            (State::Finished, Protocol::Tus) => Expected::Outcome(Outcome::Finished),
            (State::Finished, _) => Expected::Status(400),
            (_, Protocol::Tus) => Expected::Status(413),
            _ => {
                self.state = State::Failed;
                Expected::Status(400)
            }
        }
    }
}

impl Part {
    /// The length that the client states with its last bytes, where the dialect can state it.
    fn states(&self) -> Option<u64> {
        (self.ends && self.end == LEN).then_some(LEN)
    }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<Self> {
        let dialect = select(&[Protocol::XGoogUpload, Protocol::Tus, Protocol::Ietf][..]);
        let length = select(&[None, Some(LEN)][..]);
        (dialect, length)
            .prop_map(|(dialect, length)| Self {
                dialect,
                state: State::Active,
                committed: 0,
                length,
                expected: Expected::Nothing,
            })
            .boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Transition> {
        // Mostly the offset at which a well-behaved client continues.
        let first = prop_oneof![
            8 => Just(model.committed),
            1 => 0..=model.committed,
            1 => 0..=LEN,
        ];
        let breaks = proptest::option::weighted(0.3, 1..=LEN);
        let part = (first, 0..=LEN, any::<bool>(), breaks);
        let part = part.prop_map(|(first, len, ends, breaks)| {
            let end = (first + len).min(LEN);
            let breaks = breaks.map(|arrived| arrived.min(end - first));
            Transition::Part(Part {
                first,
                end,
                ends,
                breaks: breaks.filter(|arrived| *arrived > 0),
            })
        });
        let too_much = match model.length {
            Some(_) => Transition::TooMuch,
            None => Transition::Query,
        };
        let own = model.dialect;
        let others = Protocol::ALL.into_iter().filter(|other| *other != own);
        let others: Vec<_> = others.collect();
        let foreign = (select(others), select(&Foreign::ALL[..]));
        prop_oneof![
            14 => part,
            4 => Just(Transition::Query),
            4 => foreign.prop_map(|(dialect, foreign)| Transition::Foreign(dialect, foreign)),
            4 => Just(Transition::Crash),
            1 => Just(too_much),
            1 => Just(Transition::Cancel),
            1 => Just(Transition::Expire),
        ]
        .boxed()
    }

    fn apply(mut model: Self, transition: &Transition) -> Self {
        model.expected = model.step(transition);
        model
    }
}

/// A server under test with one session.
struct Subject<S> {
    stores: S,
    world: Option<World>,
    dialect: Protocol,
    session: String,
    /// How many bytes are committed.
    committed: u64,
    runtime: tokio::runtime::Runtime,
    /// The first final reply that has a body.
    final_reply: Option<Reply>,
}

impl<S: PoweredStores> Subject<S> {
    fn world(&self) -> &World {
        self.world.as_ref().expect("up but for a moment")
    }

    fn crash(&mut self) {
        let clock = Arc::clone(&self.world().clock);
        self.world = None;
        self.stores.crash(Survivors::None);
        self.world = Some(World::new(self.stores.stores(), clock));
    }

    /// Sends a request. Returns the reply, and its meaning in the dialect of the request.
    fn send(&self, transition: &Transition) -> Option<(Reply, Outcome)> {
        let (own, session) = (self.dialect, self.session.as_str());
        let from = self.committed;
        let (dialect, sent) = match *transition {
            Transition::Part(part) => {
                let range = part.first..part.end;
                let body = match part.breaks {
                    Some(arrived) => Body::Broken(MEDIA.bytes(part.first..part.first + arrived)),
                    None => Body::Whole(MEDIA.bytes(range.clone())),
                };
                let ends = match own {
                    Protocol::Tus => part.states().is_some(),
                    _ => part.ends,
                };
                if ends {
                    (own, own.end(session, range, body))
                } else {
                    (own, own.append(session, range, body))
                }
            }
            Transition::TooMuch => {
                let bytes = vec![7; usize::try_from(LEN + 1 - from).expect("it is short")];
                (own, own.append(session, from..LEN + 1, bytes))
            }
            Transition::Query => (own, own.query(session)),
            Transition::Cancel => (own, own.cancel(session)),
            Transition::Foreign(other, foreign) => {
                let session = &other.readdressed(session);
                let sent = match foreign {
                    Foreign::Append => other.append(session, from..from + 1, "x"),
                    Foreign::Query => other.query(session),
                    Foreign::End => other.end(session, from..from, ""),
                    Foreign::Cancel => other.cancel(session),
                };
                (other, sent)
            }
            Transition::Crash | Transition::Expire => return None,
        };
        let reply = self.runtime.block_on(sent.to(self.world()));
        let outcome = dialect.read(&reply);
        Some((reply, outcome))
    }

    fn check(&mut self, (reply, outcome): (Reply, Outcome), expected: Expected) {
        match expected {
            Expected::Outcome(expected) => assert_eq!(outcome, expected, "{reply:?}"),
            Expected::Status(status) => assert_eq!(reply.status.as_u16(), status, "{reply:?}"),
            Expected::Refused => assert_eq!(outcome, Outcome::Refused, "{reply:?}"),
            Expected::RefusedOrCancelled => {
                assert!(
                    matches!(outcome, Outcome::Refused | Outcome::Cancelled),
                    "{reply:?}"
                );
            }
            Expected::Nothing => unreachable!("it is a reply to no request"),
        }
        if outcome != Outcome::Finished || reply.body.is_empty() {
            return;
        }
        match &self.final_reply {
            Some(first) => assert_eq!(first.body, reply.body, "the final reply changed"),
            None => self.final_reply = Some(reply),
        }
    }

    /// A finished session has one resource with the right bytes, any other has none.
    fn check_resources(&self, model: &Model) {
        self.runtime.block_on(async {
            let ids = self.world().ids().await;
            let is_finished = model.state == State::Finished;
            if model.state != State::Expired {
                assert_eq!(ids.len(), usize::from(is_finished));
            }
            for id in ids {
                let media = self.world().download(&id).await;
                assert_eq!(media.body, MEDIA.bytes(0..model.committed));
            }
        });
    }
}

impl<S: PoweredStores> StateMachineTest for Subject<S> {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(model: &Model) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be started");
        let stores = S::new();
        let world = World::new(stores.stores(), Arc::new(ManualClock::default()));
        let dialect = model.dialect;
        let started = runtime.block_on(dialect.start(model.length).to(&world));
        Self {
            stores,
            world: Some(world),
            dialect,
            session: dialect.session(&started),
            committed: 0,
            runtime,
            final_reply: None,
        }
    }

    fn apply(mut subject: Self, after: &Model, transition: Transition) -> Self {
        match transition {
            Transition::Crash => subject.crash(),
            Transition::Expire => subject
                .world()
                .clock
                .advance(LIFETIME + Duration::from_secs(1)),
            _ => {
                let reply = subject.send(&transition);
                let reply = reply.expect("a request has a reply");
                subject.check(reply, after.expected);
            }
        }
        subject.committed = after.committed;
        subject.check_resources(after);
        subject
    }
}

prop_state_machine! {
    #![proptest_config(Config { cases: cases(300), failure_persistence: None, ..Config::default() })]

    #[test]
    fn each_dialect_over_the_memory_store_follows_the_model(sequential 1..25 => Subject<MemoryStores>);
}

prop_state_machine! {
    #![proptest_config(Config { cases: cases(30), failure_persistence: None, ..Config::default() })]

    #[test]
    fn each_dialect_over_the_local_store_follows_the_model(sequential 1..25 => Subject<LocalStores>);
}
