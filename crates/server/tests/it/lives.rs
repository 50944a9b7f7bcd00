//! Lives of uploads: a client works over stores with faults, the server restarts, and the server's
//! promises are checked.
//!
//! Fault model: there is one process at a time. In the first process, calls of the ledger and the
//! vault have faults, as the [`Plan`] says. Work that is unfinished when the client has given up
//! ends with the process. The power fails ([`PoweredStores::crash`]). The second process has no
//! faults: everything that was acknowledged is present, and the client completes its work. The
//! power fails once more. The third process still knows all of it. After a sweep there is no media
//! without a row and no row without media, and each change of a resource has left its event once.
//!
//! The promises are the rules of the [oracle](windlass_testkit::oracle). This module adds the
//! results of a life without faults, and the meaning of replacing and deleting.

mod client;
mod concatenation;
mod oracle;
mod promises;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::{Sweep, SweepOptions, Timestamp};
use windlass_testkit::test_scale;

use crate::outbox::Announcer;
use crate::power::{PoweredStores, Survivors};
use crate::protocols::Protocol;
use crate::world::{ManualClock, World};
use client::Client;

/// The work of a client. Media of up to 16 bytes stays in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Media alone, in one request.
    Simple { len: u64 },
    /// Metadata and media in one request.
    Multipart { len: u64 },
    /// Chunk after chunk.
    Chunks {
        len: u64,
        chunk: u64,
        manner: Manner,
    },
    /// Some chunks, and then a cancel.
    Cancelled { len: u64, chunk: u64 },
    /// Some chunks, and then no request until the session has expired.
    Expired { len: u64, chunk: u64 },
    /// A simple upload, followed by a replacement of the media.
    Replaced { len: u64 },
    /// A simple upload, followed by a deletion of the resource.
    Deleted { len: u64 },
}

/// How chunks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    /// The total is stated only at the end, by a request without a body.
    OpenEnded,
    /// Each chunk repeats some bytes of the previous chunk.
    Overlapping,
    /// The connection breaks in the middle of each chunk. The client queries the committed offset
    /// and continues.
    Broken,
    /// In another dialect than Google's.
    In(Protocol),
}

/// The faults in the calls of the first process. The first call is number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    Calm,
    InjectedFault(InjectedFault, Trigger),
    OutageBefore(u64),
    OutageAfter(u64),
}

impl Plan {
    fn faults(self) -> Faults {
        match self {
            Self::Calm => Faults::new(Trigger::Never, InjectedFault::Fault),
            Self::InjectedFault(trouble, when) => Faults::new(when, trouble),
            Self::OutageBefore(nth) => Faults::outage_before(nth),
            Self::OutageAfter(nth) => Faults::outage_after(nth),
        }
    }

    /// The first call that it strikes, if that is chosen by its number.
    fn nth(self) -> Option<u64> {
        match self {
            Self::Calm | Self::InjectedFault(_, Trigger::Never | Trigger::CallsOf(_)) => None,
            Self::InjectedFault(_, Trigger::Once(nth) | Trigger::From(nth))
            | Self::OutageBefore(nth)
            | Self::OutageAfter(nth) => Some(nth),
        }
    }
}

/// One life over one kind of stores with one plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) life: Life,
    pub(crate) plan: Plan,
    pub(crate) survivors: Survivors,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            life,
            plan,
            survivors,
        } = self;
        write!(f, "{life:?} {plan:?} {survivors:?}")
    }
}

/// The expected and the actual number of cases.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    planned: usize,
    tried: usize,
    /// Calls in calm lives that made something durable.
    durable: usize,
}

impl Tally {
    /// Runs a life without faults. Then runs it once with each plan for each of its calls. `plans`
    /// receives a call's number and name.
    pub(crate) fn strike<S: PoweredStores>(
        &mut self,
        life: Life,
        plans: impl Fn(u64, &str) -> Vec<(Plan, Survivors)>,
    ) {
        let calm = Case {
            life,
            plan: Plan::Calm,
            survivors: Survivors::None,
        };
        let calls = live_or_tell::<S>(calm);
        self.durable += calls.iter().filter(|name| is_durable(name)).count();
        for (nth, name) in (1..).zip(calls) {
            let plans = plans(nth, name);
            self.planned += plans.len();
            for (plan, survivors) in plans {
                let case = Case {
                    life,
                    plan,
                    survivors,
                };
                self.tried += usize::from(try_case::<S>(case));
            }
        }
    }

    /// Checks that no case was left out, and that something was durable.
    pub(crate) fn check(&self) {
        if test_scale::is_single() {
            return;
        }
        assert_eq!(self.tried, self.planned);
        assert!(self.durable > 0 && self.planned > 0, "{self:?}");
    }
}

/// Whether a call makes something durable when it succeeds.
pub(crate) fn is_durable(name: &str) -> bool {
    let changes = [
        "start",
        "commit_offset",
        "end",
        "apply",
        "expire",
        "deleted",
    ];
    let vault = ["create", "sync", "delete"];
    changes.contains(&name) || vault.contains(&name)
}

/// Tries a case if it is wanted, and says how to try it again when it fails.
fn try_case<S: PoweredStores>(case: Case) -> bool {
    let name = name::<S>(case);
    if !test_scale::is_wanted(&name) {
        return false;
    }
    let calls = live_or_tell::<S>(case);
    let nth = case.plan.nth().unwrap_or(0);
    assert!(
        calls.len() as u64 >= nth,
        "{name} met no trouble: {calls:?}"
    );
    true
}

fn name<S: PoweredStores>(case: Case) -> String {
    format!("{} {case}", S::NAME)
}

#[expect(clippy::print_stderr, reason = "it is shown with the failure")]
fn live_or_tell<S: PoweredStores>(case: Case) -> Vec<&'static str> {
    let lived = catch_unwind(AssertUnwindSafe(|| live::<S>(case)));
    lived.unwrap_or_else(|panic| {
        let (variable, name) = (test_scale::CASE, name::<S>(case));
        eprintln!("this case again: {variable}='{name}' cargo test -p windlass-server --test it");
        resume_unwind(panic)
    })
}

/// Lives one life. Returns the names of the calls to the stores in trouble.
fn live<S: PoweredStores>(case: Case) -> Vec<&'static str> {
    let (mut stores, clock) = (S::new(), Arc::default());
    let mut client = Client::new(case.life);
    let faults = Arc::new(case.plan.faults());
    in_process(
        &in_trouble(stores.stores(), &faults),
        &clock,
        async |world, stores| {
            client.live(world).await;
            sweep(stores, world).await;
        },
    );
    if case.plan == Plan::Calm {
        client.assert_complete();
    }
    stores.crash(case.survivors);
    in_process(&stores.stores(), &clock, async |world, _| {
        client.come_to_an_end(world).await;
    });
    stores.crash(Survivors::None);
    in_process(&stores.stores(), &clock, async |world, stores| {
        client.check(world).await;
        promises::check_media(world, stores).await;
        promises::check_events(stores).await;
    });
    faults.names()
}

/// Runs work as if in a separate process: unfinished work ends with it.
fn in_process(stores: &Stores, clock: &Arc<ManualClock>, work: impl AsyncFnOnce(&World, &Stores)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("threads can be started");
    let world = World::of(Announcer::farm(), stores.clone(), Arc::clone(clock));
    runtime.block_on(work(&world, stores));
}

fn in_trouble(stores: Stores, faults: &Arc<Faults>) -> Stores {
    Stores {
        ledger: Arc::new(FaultyLedger::new(stores.ledger, Arc::clone(faults))),
        vault: Arc::new(FaultyVault::new(stores.vault, Arc::clone(faults))),
    }
}

/// Sweeps as far as that is possible.
async fn sweep(stores: &Stores, world: &World) {
    let now = world.now();
    let mut sweep = Sweep::new(SweepOptions::default());
    for _ in 0..10 {
        match sweep.step(&*stores.ledger, &*stores.vault, now).await {
            Ok(swept) if swept.is_done => return,
            // The next step tries again, as the server's does.
            Ok(_) | Err(_) => {}
        }
    }
}

/// A time after the end of every session and every grace period.
pub(crate) const FAR: Timestamp = Timestamp::from_millis(4_000_000_000_000);
