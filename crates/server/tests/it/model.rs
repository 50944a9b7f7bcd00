//! Random lives of a session against a model that knows only the rules of the protocol.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use windlass_testkit::media::Media;
use windlass_testkit::test_scale::cases;

use crate::power::{LocalStores, MemoryStores, ObjectStores, PoweredStores, Survivors};
use crate::world::{Body, LIFETIME, ManualClock, Peer as _, Reply, World};

/// Larger than media that stays in the ledger, and short enough to test every byte.
const LEN: u64 = 50;

const MEDIA: Media = Media::new(50, LEN);

/// The state of a session, derived from the replies alone.
#[derive(Debug, Clone)]
struct Model {
    state: State,
    committed: u64,
    total: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    Finished,
    Failed,
    Cancelled,
    Expired,
}

#[derive(Debug, Clone)]
enum Transition {
    /// The bytes `first..end`; `states_total` says that the media has `LEN`; after `breaks` bytes
    /// the connection breaks.
    Chunk {
        first: u64,
        end: u64,
        states_total: bool,
        breaks: Option<u64>,
    },
    /// The bytes from `first` on, to the end of the body; `breaks` as above.
    Rest {
        first: u64,
        breaks: Option<u64>,
    },
    Query,
    /// `bytes */LEN`
    Finish,
    /// Another total than the media has.
    WrongTotal,
    Cancel,
    /// The power fails and comes back.
    Crash,
    Expire,
}

/// The expected reply to a request.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Committed(u64),
    Final,
    Status(u16),
}

impl Model {
    /// The reply of a session that accepts nothing any more.
    fn ended(&self) -> Option<Expected> {
        match self.state {
            State::Active => None,
            State::Finished => Some(Expected::Final),
            State::Failed => Some(Expected::Status(410)),
            State::Cancelled => Some(Expected::Status(499)),
            State::Expired => Some(Expected::Status(404)),
        }
    }

    fn apply(&mut self, transition: &Transition) -> Option<Expected> {
        match *transition {
            Transition::Crash => return None,
            Transition::Expire => {
                self.state = State::Expired;
                return None;
            }
            Transition::Cancel if self.state == State::Finished => {
                return Some(Expected::Status(400));
            }
            _ => {}
        }
        if let Some(expected) = self.ended() {
            return Some(expected);
        }
        Some(match *transition {
            Transition::Chunk {
                first,
                end,
                states_total,
                breaks,
            } => {
                let total = if states_total { Some(LEN) } else { self.total };
                self.data(first, end, total, breaks, total == Some(end))
            }
            Transition::Rest { first, breaks } => self.data(first, LEN, self.total, breaks, true),
            Transition::Query => self.query(self.total),
            Transition::Finish => self.query(Some(LEN)),
            Transition::WrongTotal if self.total.is_some() => {
                self.state = State::Failed;
                Expected::Status(400)
            }
            Transition::WrongTotal => unreachable!("only generated with a known total"),
            Transition::Cancel => {
                self.state = State::Cancelled;
                Expected::Status(499)
            }
            Transition::Crash | Transition::Expire => unreachable!("handled above"),
        })
    }

    fn query(&mut self, total: Option<u64>) -> Expected {
        if total == Some(self.committed) {
            self.state = State::Finished;
            return Expected::Final;
        }
        Expected::Committed(self.committed)
    }

    fn data(
        &mut self,
        first: u64,
        end: u64,
        total: Option<u64>,
        breaks: Option<u64>,
        last: bool,
    ) -> Expected {
        if first > self.committed {
            return Expected::Status(503);
        }
        let arrived = breaks.map_or(end, |after| first + after);
        self.committed = self.committed.max(arrived);
        self.total = total;
        if breaks.is_some() {
            return Expected::Status(503);
        }
        if last {
            self.state = State::Finished;
            return Expected::Final;
        }
        Expected::Committed(self.committed)
    }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<Self> {
        let total = prop_oneof![Just(None), Just(Some(LEN))];
        total
            .prop_map(|total| Self {
                state: State::Active,
                committed: 0,
                total,
            })
            .boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Transition> {
        // Mostly the offset at which a well-behaved client continues.
        let first = prop_oneof![
            6 => Just(model.committed.min(LEN - 1)),
            2 => 0..=model.committed.min(LEN - 1),
            1 => 0..LEN,
        ];
        let chunk = (
            first.clone(),
            1..=LEN,
            any::<bool>(),
            proptest::option::weighted(0.3, 0..LEN),
        );
        let chunk = chunk.prop_map(|(first, len, states_total, breaks)| {
            let end = (first + len).min(LEN);
            Transition::Chunk {
                first,
                end,
                states_total,
                breaks: breaks.map(|after| after % (end - first)),
            }
        });
        let rest = (first, proptest::option::weighted(0.5, 0..LEN));
        let rest = rest.prop_map(|(first, breaks)| Transition::Rest {
            first,
            breaks: breaks.map(|after| after % (LEN - first)),
        });
        let wrong_total = if model.total.is_some() {
            Transition::WrongTotal
        } else {
            Transition::Query
        };
        prop_oneof![
            12 => chunk,
            2 => rest,
            4 => Just(Transition::Query),
            2 => Just(Transition::Finish),
            4 => Just(Transition::Crash),
            1 => Just(wrong_total),
            1 => Just(Transition::Cancel),
            1 => Just(Transition::Expire),
        ]
        .boxed()
    }

    fn apply(mut model: Self, transition: &Transition) -> Self {
        Model::apply(&mut model, transition);
        model
    }
}

/// A server under test with one session.
struct Subject<S> {
    stores: S,
    world: Option<World>,
    session: String,
    runtime: tokio::runtime::Runtime,
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

    fn send(&self, transition: &Transition) -> Option<Reply> {
        let (world, session) = (self.world(), self.session.as_str());
        let body = |first: u64, end: u64, breaks: Option<u64>| match breaks {
            Some(after) => Body::Broken(MEDIA.bytes(first..first + after)),
            None => Body::Whole(MEDIA.bytes(first..end)),
        };
        let request = async {
            match *transition {
                Transition::Chunk {
                    first,
                    end,
                    states_total,
                    breaks,
                } => {
                    let total = if states_total {
                        LEN.to_string()
                    } else {
                        "*".to_owned()
                    };
                    let range = format!("bytes {first}-{}/{total}", end - 1);
                    Some(world.put(session, &range, body(first, end, breaks)).await)
                }
                Transition::Rest { first, breaks } => {
                    let range = format!("bytes {first}-*/*");
                    Some(world.put(session, &range, body(first, LEN, breaks)).await)
                }
                Transition::Query => Some(world.query(session).await),
                Transition::Finish => {
                    let range = format!("bytes */{LEN}");
                    Some(world.put(session, &range, "").await)
                }
                Transition::WrongTotal => {
                    let range = format!("bytes 0-0/{}", LEN + 1);
                    Some(world.put(session, &range, MEDIA.bytes(0..1)).await)
                }
                Transition::Cancel => Some(world.call("DELETE", session).await),
                Transition::Crash | Transition::Expire => None,
            }
        };
        self.runtime.block_on(request)
    }

    fn check(&mut self, reply: Reply, expected: &Expected) {
        match expected {
            Expected::Committed(offset) => assert_eq!(reply.committed(), *offset),
            Expected::Status(status) => assert_eq!(reply.status.as_u16(), *status, "{reply:?}"),
            Expected::Final => {
                assert_eq!(reply.status.as_u16(), 201, "{reply:?}");
                match &self.final_reply {
                    Some(first) => assert_eq!(first.body, reply.body, "the final reply changed"),
                    None => self.final_reply = Some(reply),
                }
            }
        }
    }

    /// A finished session has one resource with the right bytes, any other has none.
    fn check_resources(&self, model: &Model) {
        self.runtime.block_on(async {
            let world = self.world();
            assert_eq!(world.count().await, usize::from(self.final_reply.is_some()));
            if let Some(reply) = &self.final_reply {
                assert_eq!(world.media(reply).await, MEDIA.whole());
                assert!(matches!(model.state, State::Finished | State::Expired));
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
        let session = runtime
            .block_on(world.start(model.total))
            .expect("it starts");
        Self {
            stores,
            world: Some(world),
            session,
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
                let reply = subject.send(&transition).expect("a request has a reply");
                let expected = expected_after(after, &transition, &reply);
                subject.check(reply, &expected);
            }
        }
        subject.check_resources(after);
        subject
    }
}

/// Returns the expected reply. The model has already changed when the reply comes. Its state
/// determines the reply, together with the request if the state leaves a choice.
fn expected_after(after: &Model, transition: &Transition, reply: &Reply) -> Expected {
    match (after.state, transition) {
        (State::Finished, Transition::Cancel) => Expected::Status(400),
        (State::Finished, _) => Expected::Final,
        (State::Cancelled, _) => Expected::Status(499),
        (State::Expired, _) => Expected::Status(404),
        // The request that broke the session receives the reason. All later requests learn that the
        // session has failed.
        (State::Failed, Transition::WrongTotal) if reply.status.as_u16() == 400 => {
            Expected::Status(400)
        }
        (State::Failed, _) => Expected::Status(410),
        (State::Active, Transition::Chunk { first, .. } | Transition::Rest { first, .. })
            if *first > after.committed =>
        {
            Expected::Status(503)
        }
        (
            State::Active,
            Transition::Chunk {
                breaks: Some(_), ..
            }
            | Transition::Rest {
                breaks: Some(_), ..
            },
        ) => Expected::Status(503),
        (State::Active, _) => Expected::Committed(after.committed),
    }
}

prop_state_machine! {
    #![proptest_config(Config { cases: cases(300), failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_session_over_the_memory_store_follows_the_model(sequential 1..25 => Subject<MemoryStores>);
}

prop_state_machine! {
    #![proptest_config(Config { cases: cases(40), failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_session_over_the_local_store_follows_the_model(sequential 1..25 => Subject<LocalStores>);
}

/// Objects that are shorter than most requests.
type SmallObjects = ObjectStores<16>;

prop_state_machine! {
    #![proptest_config(Config { cases: cases(100), failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_session_over_objects_follows_the_model(sequential 1..25 => Subject<SmallObjects>);
}
