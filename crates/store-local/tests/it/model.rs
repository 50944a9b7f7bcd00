//! Random steps of a reference model and of a ledger. The observable state is compared after each.

mod reference;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use windlass_digest::{Crc32c, Digests};
use windlass_store::memory::MemoryLedger;
use windlass_store::{
    AddedMedia, ChangeSet, EndSession, Epoch, Expected, ExtentChanges, FinishSession, Lease,
    LeaseId, Ledger, LedgerError, Media, MediaId, MediaRef, NewSession, OffsetCommit, Progress,
    Resource, ResourceChange, SessionId, SessionState, StoredName, Timestamp,
};
use windlass_store_local::LocalLedger;
use windlass_testkit::test_scale::cases;

use crate::directory;
use reference::{Change, End, From, Holder, Named, Reference, Step};

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_ledger_does_what_the_model_does(sequential 1..60 => Comparison<MemorySubject>);
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: cases(48), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_local_ledger_does_what_the_model_does(sequential 1..60 => Comparison<LocalSubject>);
}

/// A ledger that can be started again.
trait Subject: Sized {
    fn new() -> Self;
    fn ledger(&self) -> &dyn Ledger;
    fn restart(self) -> Self;
}

struct MemorySubject(MemoryLedger);

impl Subject for MemorySubject {
    fn new() -> Self {
        Self(MemoryLedger::new())
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.0
    }

    fn restart(self) -> Self {
        self.0.crash();
        self
    }
}

struct LocalSubject {
    ledger: LocalLedger,
    dir: TempDir,
}

impl Subject for LocalSubject {
    fn new() -> Self {
        let dir = directory::new();
        Self {
            ledger: directory::open(&dir).ledger,
            dir,
        }
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.ledger
    }

    fn restart(self) -> Self {
        let Self { ledger, dir } = self;
        drop(ledger);
        Self {
            ledger: directory::open(&dir).ledger,
            dir,
        }
    }
}

impl ReferenceStateMachine for Reference {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        let open = prop_oneof![3 => Just(SessionState::Active), 1 => Just(SessionState::Finishing)];
        let ended = prop_oneof![Just(SessionState::Cancelled), Just(SessionState::Failed)];
        let from = prop_oneof![5 => Just(From::Offset), 1 => Just(From::Elsewhere)];
        let finish = proptest::option::of((holder(), media()));
        let small = proptest::option::of(0..MEDIA);
        let new = proptest::option::of(0..MEDIA);
        let added = proptest::collection::vec(named(), 0..3);
        let changes = proptest::collection::vec(change(), 0..4);
        let version = proptest::option::of(1..3_u64);
        let expect = proptest::collection::vec((0..RESOURCES, version), 0..2);
        let expect_empty = proptest::bool::weighted(0.1);
        prop_oneof![
            3 => (0..SESSIONS, 0..100_u64)
                .prop_map(|(session, expires)| Step::Start { session, expires }),
            3 => (0..SESSIONS).prop_map(|session| Step::Lease { session }),
            6 => (holder(), from, 0..5_u8, media(), open).prop_map(
                |(holder, from, more, media, state)| {
                    Step::OffsetCommit { holder, from, more, media, state }
                }
            ),
            1 => (holder(), ended).prop_map(|(holder, state)| Step::End { holder, state }),
            6 => (finish, small, new, added, changes, expect, expect_empty).prop_map(
                |(finish, small, new, added, changes, expect, expect_empty)| {
                    Step::Apply { finish, small, new, added, changes, expect, expect_empty }
                }
            ),
            1 => (0..100_u64).prop_map(|now| Step::Expire { now }),
            1 => Just(Step::ForgetGarbage),
            1 => Just(Step::Restart),
        ]
        .boxed()
    }

    fn apply(mut state: Self, step: &Step) -> Self {
        state.take(step);
        state
    }
}

const SESSIONS: u8 = 4;
const RESOURCES: u8 = 3;
const MEDIA: u8 = 5;

fn holder() -> impl Strategy<Value = Holder> {
    (0..SESSIONS, proptest::bool::weighted(0.15))
        .prop_map(|(session, is_late)| Holder { session, is_late })
}

fn media() -> impl Strategy<Value = Option<Named>> {
    proptest::option::of(named())
}

fn named() -> impl Strategy<Value = Named> {
    (0..MEDIA, any::<bool>()).prop_map(|(media, is_small)| Named { media, is_small })
}

fn change() -> impl Strategy<Value = Change> {
    let (id, expected) = (0..RESOURCES, 1..3_u64);
    prop_oneof![
        2 => (id.clone(), media()).prop_map(|(id, media)| Change::Insert { id, media }),
        2 => (id.clone(), media(), expected.clone())
            .prop_map(|(id, media, expected)| Change::Replace { id, media, expected }),
        1 => (id, expected).prop_map(|(id, expected)| Change::Delete { id, expected }),
    ]
}

/// Drives a ledger and the model in parallel.
struct Comparison<S>(PhantomData<S>);

struct Driven<S> {
    subject: S,
    model: Reference,
    leases: Leases,
    runtime: Runtime,
}

/// The leases that the ledger has given out since its last start: for each session the newest one,
/// and the one before.
#[derive(Default)]
struct Leases(HashMap<u8, (Lease, Option<Lease>)>);

impl Leases {
    /// Forgets the leases of an earlier session with the same id, which no real session has.
    fn start(&mut self, session: u8, lease: Lease) {
        self.0.insert(session, (lease, None));
    }

    fn add(&mut self, session: u8, lease: Lease) {
        let before = self.0.get(&session).map(|(newest, _)| *newest);
        self.0.insert(session, (lease, before));
    }

    /// Returns the lease of a holder. Without one, returns a lease that no ledger has given out.
    fn of(&self, holder: Holder) -> Lease {
        let found = match self.0.get(&holder.session) {
            Some((_, before)) if holder.is_late => *before,
            Some((newest, _)) => Some(*newest),
            None => None,
        };
        found.unwrap_or(Lease {
            id: LeaseId::from_bytes([0xAA; 16]),
            epoch: Epoch(1),
        })
    }
}

impl<S: Subject> StateMachineTest for Comparison<S> {
    type SystemUnderTest = Driven<S>;
    type Reference = Reference;

    fn init_test(_: &Reference) -> Driven<S> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        Driven {
            subject: S::new(),
            model: Reference::default(),
            leases: Leases::default(),
            runtime,
        }
    }

    fn apply(mut driven: Driven<S>, _: &Reference, step: Step) -> Driven<S> {
        let before = driven.model.clone();
        let expected = driven.model.take(&step);
        if let Step::Restart = step {
            driven.subject = driven.subject.restart();
            driven.leases = Leases::default();
        } else {
            let ledger = driven.subject.ledger();
            let took = take(ledger, &before, &mut driven.leases, step);
            let took = driven.runtime.block_on(took);
            assert_eq!(took, expected);
        }
        driven
    }

    fn check_invariants(driven: &Driven<S>, _: &Reference) {
        driven
            .runtime
            .block_on(compare(driven.subject.ledger(), &driven.model));
    }
}

fn added_media(named: Named) -> AddedMedia {
    let id = media_id(named.media);
    if named.is_small {
        let bytes = Reference::small_bytes(0).into();
        AddedMedia::Small { id, bytes }
    } else {
        AddedMedia::Vault(StoredName::of(id))
    }
}

/// Takes a step with a ledger in the same state as `model`.
#[expect(
    clippy::too_many_lines,
    reason = "one arm for each transition of the model"
)]
async fn take(ledger: &dyn Ledger, model: &Reference, leases: &mut Leases, step: Step) -> End {
    let result = match step {
        Step::Start { session, expires } => {
            let started = ledger.start(new_session(session, expires)).await;
            started.map(|lease| leases.start(session, lease))
        }
        Step::Lease { session } => {
            let taken = ledger.lease(session_id(session)).await.unwrap();
            return End::Leased(taken.map(|taken| {
                leases.add(session, taken.lease);
                taken.session.epoch.0
            }));
        }
        Step::OffsetCommit {
            holder,
            from,
            more,
            media,
            state,
        } => {
            let offset = model
                .sessions
                .get(&holder.session)
                .map_or(0, |session| session.offset);
            let from = if from == From::Offset {
                offset
            } else {
                offset + 1
            };
            let small = media.is_some_and(|media| media.is_small);
            let advance = OffsetCommit {
                extents: ExtentChanges::default(),
                from,
                progress: progress(from + u64::from(more), media),
                small_media: small.then(|| Reference::small_bytes(from + u64::from(more)).into()),
                state,
                expires: None,
                releases: true,
            };
            ledger
                .commit_offset(session_id(holder.session), leases.of(holder), advance)
                .await
        }
        Step::End { holder, state } => {
            let end = match state {
                SessionState::Failed => EndSession::Failed,
                _ => EndSession::Cancelled,
            };
            ledger
                .end(session_id(holder.session), leases.of(holder), end)
                .await
        }
        Step::Apply {
            finish,
            small,
            new,
            added,
            changes,
            expect,
            expect_empty,
        } => {
            let offset = |of: u8| model.sessions.get(&of).map_or(0, |session| session.offset);
            let finish = finish.map(|(holder, media)| FinishSession {
                handle: Bytes::new(),
                left: Vec::new(),
                id: session_id(holder.session),
                lease: leases.of(holder),
                progress: progress(offset(holder.session), media),
                reply: b"done".to_vec(),
            });
            let resources = changes.into_iter().map(resource_change).collect();
            let small_media = small.map(|id| (media_id(id), Reference::small_bytes(0).into()));
            ledger
                .apply(ChangeSet {
                    expect: expect.into_iter().map(expected).collect(),
                    expect_empty: expect_empty
                        .then(|| COLLECTION.to_owned())
                        .into_iter()
                        .collect(),
                    resources,
                    small_media,
                    new_media: new.map(media_id).map(StoredName::of),
                    added_media: added.into_iter().map(added_media).collect(),
                    finish,
                    not_after: None,
                })
                .await
        }
        Step::Expire { now } => {
            return End::Count(
                ledger
                    .expire(Timestamp::from_millis(now), 1_000)
                    .await
                    .unwrap(),
            );
        }
        Step::ForgetGarbage => {
            let garbage = ledger.garbage(None, 1_000).await.unwrap();
            let ids: Vec<_> = garbage.into_iter().map(|entry| entry.id).collect();
            ledger.deleted(&ids, None).await
        }
        Step::Restart => unreachable!("the subject restarts itself"),
    };
    match result {
        Ok(()) => End::Done,
        Err(LedgerError::Fenced) => End::Fenced,
        Err(LedgerError::Conflict) => End::Conflict,
        Err(error) => panic!("{error}"),
    }
}

/// Compares the observable state.
async fn compare(ledger: &dyn Ledger, model: &Reference) {
    for n in 0..SESSIONS {
        let seen = ledger.session(session_id(n)).await.unwrap();
        let seen = seen.map(|session| {
            let Progress { offset, media, .. } = session.progress;
            (session.state, session.expires, offset, session.epoch, media)
        });
        let expected = model.sessions.get(&n).map(|session| {
            let expires = Timestamp::from_millis(session.expires);
            let media = session.media.map(media_ref);
            (
                session.state,
                expires,
                session.offset,
                Epoch(session.epoch),
                media,
            )
        });
        assert_eq!(seen, expected, "session {n}");
    }
    let finishing = |n: &u8| model.sessions[n].state == SessionState::Finishing;
    let finishing: Vec<_> = model
        .sessions
        .keys()
        .copied()
        .filter(finishing)
        .map(session_id)
        .collect();
    assert_eq!(
        ledger.finishing(None, 1_000, Duration::ZERO).await.unwrap(),
        finishing
    );

    let seen = ledger.resources(COLLECTION, None, 1_000).await.unwrap();
    let expected: Vec<Resource> = model
        .resources
        .iter()
        .map(|(id, (version, media))| resource(*id, *version, *media))
        .collect();
    assert_eq!(seen, expected);

    let mut small_media = BTreeMap::new();
    for n in 0..MEDIA {
        if let Some(bytes) = ledger.small_media(media_id(n)).await.unwrap() {
            small_media.insert(n, bytes);
        }
    }
    let expected = model.small_media.iter();
    let expected: BTreeMap<u8, Bytes> = expected
        .map(|(n, offset)| (*n, Reference::small_bytes(*offset).into()))
        .collect();
    assert_eq!(small_media, expected);

    let garbage: Vec<_> = model.garbage.iter().copied().map(media_id).collect();
    let listed = ledger.garbage(None, 1_000).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|entry| entry.name.media).collect();
    assert_eq!(listed, garbage);
    let ids: Vec<_> = (0..MEDIA).map(media_id).collect();
    let named = model.names();
    let is_known = |n: u8| named.iter().any(|named| named.media == n) || model.garbage.contains(&n);
    let unknown: Vec<_> = (0..MEDIA).filter(|n| !is_known(*n)).map(media_id).collect();
    let looked_up: Vec<_> = ids.iter().copied().map(StoredName::of).collect();
    let found = ledger.unknown_names(&looked_up).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|name| name.media).collect();
    assert_eq!(found, unknown);
}

const COLLECTION: &str = "farm/v1/animals";

fn session_id(n: u8) -> SessionId {
    SessionId::from_bytes([n; 32])
}

fn media_id(n: u8) -> MediaId {
    MediaId::from_bytes([n; 16])
}

fn media_ref(named: Named) -> MediaRef {
    MediaRef {
        id: media_id(named.media),
        location: named.place(),
    }
}

fn new_session(n: u8, expires: u64) -> NewSession {
    NewSession {
        id: session_id(n),
        context: vec![n],
        created: Timestamp::from_millis(0),
        expires: Timestamp::from_millis(expires),
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    }
}

fn progress(offset: u64, media: Option<Named>) -> Progress {
    Progress {
        offset,
        media: media.map(media_ref),
        ..Progress::none(None)
    }
}

fn resource_change(change: Change) -> ResourceChange {
    match change {
        Change::Insert { id, media } => ResourceChange::Insert(resource(id, 1, media)),
        Change::Replace {
            id,
            media,
            expected,
        } => ResourceChange::Replace {
            resource: resource(id, expected + 1, media),
            expected,
        },
        Change::Delete { id, expected } => {
            let collection = COLLECTION.to_owned();
            ResourceChange::Delete {
                collection,
                id: id.to_string(),
                expected,
            }
        }
    }
}

fn expected((id, version): (u8, Option<u64>)) -> Expected {
    Expected {
        version,
        ..Expected::absent(COLLECTION, id.to_string())
    }
}

fn resource(id: u8, version: u64, media: Option<Named>) -> Resource {
    Resource {
        collection: COLLECTION.to_owned(),
        id: id.to_string(),
        version,
        body: Bytes::from(format!("{version}")),
        media: media.map(|named| Media {
            handle: Bytes::new(),
            at: media_ref(named),
            length: 1,
            content_type: "image/png".to_owned(),
            digests: Digests {
                crc32c: Crc32c(1),
                md5: None,
                sha256: None,
            },
        }),
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
        owner: None,
    }
}
