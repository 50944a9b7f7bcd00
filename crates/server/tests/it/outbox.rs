//! Events of a handler that wraps the default handler, and their deliveries.

mod announcer;
mod calls;
mod deliveries;
mod failures;
mod processes;
mod receiver;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_server::handler::{Rejection, StoreReader};
use windlass_server::{Registry, ServedApi, Stores, TopicCounts};
use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{ChangeSet, Ledger as _, Resource, ResourceChange, Timestamp};
use windlass_testkit::farm::ANIMALS;
use windlass_testkit::media::Media;

use crate::world::{ManualClock, Peer as _, World, limits};

pub(crate) use announcer::Announcer;
use receiver::{Attempt, Attempts, Receiver};

/// The topic of all events except events of [`OTHER`].
pub(crate) const TOPIC: &str = "animals";

/// Another topic.
const OTHER: &str = "barns";

/// Where the ledger has the events of [`TOPIC`].
pub(crate) const EVENTS: &str = ".outbox/animals";

/// How long an event is claimed.
const CLAIM: Duration = Duration::from_secs(5 * 60);

const A_WHILE: Duration = Duration::from_secs(20 * 60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const MEDIA: Media = Media::new(1, 40);

/// Stores in memory, and a clock that follows the timers.
struct Place {
    ledger: Arc<MemoryLedger>,
    stores: Stores,
    clock: Arc<ManualClock>,
}

impl Place {
    fn new() -> Self {
        let ledger = Arc::new(MemoryLedger::default());
        let stores = Stores {
            ledger: Arc::clone(&ledger) as Arc<_>,
            vault: Arc::new(MemoryVault::new()),
        };
        Self {
            ledger,
            stores,
            clock: ManualClock::with_timers(),
        }
    }

    /// The same place, with a ledger that has these faults and counts its calls.
    fn faulty(&self, trigger: Trigger, fault: InjectedFault) -> (Self, Arc<Faults>) {
        let faults = Arc::new(Faults::new(trigger, fault));
        let ledger = FaultyLedger::new(Arc::clone(&self.stores.ledger), Arc::clone(&faults));
        let place = Self {
            ledger: Arc::clone(&self.ledger),
            stores: Stores {
                ledger: Arc::new(ledger),
                ..self.stores.clone()
            },
            clock: Arc::clone(&self.clock),
        };
        (place, faults)
    }

    /// The same place, with a ledger that counts its calls.
    fn counted(&self) -> (Self, Arc<Faults>) {
        self.faulty(Trigger::Never, InjectedFault::Fault)
    }

    /// A server of the Farm API with these receivers.
    fn world(&self, receivers: impl IntoIterator<Item = Receiver>) -> World {
        self.world_of(Announcer::farm(), receivers)
    }

    fn world_of(&self, api: ServedApi, receivers: impl IntoIterator<Item = Receiver>) -> World {
        let registry = Registry::new([api]).expect("there is one API");
        let receivers = receivers.into_iter();
        let registry = receivers.fold(registry, |it, receiver| {
            it.with_delivery(Arc::new(receiver))
        });
        let clock = Arc::clone(&self.clock);
        World::of_registry(registry, self.stores.clone(), clock, |settings| {
            settings.limits = limits();
        })
    }

    /// Adds a row as another process may have left it.
    async fn insert_row(&self, id: &str, body: &Value) {
        let row = Resource {
            due: Some(Timestamp::from_millis(body["due"].as_u64().unwrap_or(0))),
            ..resource(EVENTS, id, body)
        };
        apply(&self.ledger, ResourceChange::Insert(row)).await;
    }

    /// The payloads of all events that wait.
    async fn waiting(&self) -> Vec<Value> {
        let rows = self.ledger.resources(EVENTS, None, 1000).await;
        let rows = rows.expect("the ledger is well").into_iter();
        let body = |row: Resource| serde_json::from_slice::<Value>(&row.body).expect("JSON");
        rows.map(|row| body(row)["payload"].clone()).collect()
    }
}

async fn delete(world: &World, id: &str) {
    let uri = format!("{ANIMALS}/{id}");
    let deleted = world.call("DELETE", &uri).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
}

async fn upload(world: &World) -> String {
    let made = world.simple(ANIMALS, "image/png", &MEDIA.whole()).await;
    assert_eq!(made.status, 200, "{made:?}");
    made.field("id")
}

/// The next attempt, which must come within an hour.
async fn next(attempts: &mut Attempts) -> Attempt {
    let hour = Duration::from_secs(60 * 60);
    let attempt = tokio::time::timeout(hour, attempts.recv()).await;
    attempt
        .expect("the event is tried")
        .expect("the server runs")
}

/// The next version of a row with a count. If there is a rival, the rival changes the row first.
async fn tally(
    lookup: StoreReader<'_>,
    rival: Option<&MemoryLedger>,
) -> Result<ResourceChange, Rejection> {
    let old = lookup.resource("tallies", "1").await?;
    let next = |version| Resource {
        version,
        ..resource("tallies", "1", &json!({}))
    };
    let change = match old {
        None => ResourceChange::Insert(next(1)),
        Some(old) => ResourceChange::Replace {
            resource: next(old.version + 1),
            expected: old.version,
        },
    };
    if let Some(rival) = rival {
        apply(rival, change.clone()).await;
    }
    Ok(change)
}

fn resource(collection: &str, id: &str, body: &Value) -> Resource {
    Resource {
        collection: collection.to_owned(),
        id: id.to_owned(),
        version: 1,
        body: body.to_string().into(),
        media: None,
        owner: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
    }
}

async fn apply(ledger: &MemoryLedger, change: ResourceChange) {
    let changes = ChangeSet {
        resources: vec![change],
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.expect("nobody else does");
}

/// The counts of [`TOPIC`]: delivered, failed, given up.
fn counts(world: &World) -> (u64, u64, u64) {
    let counts = world.server.outbox();
    let counts = counts.iter().find(|counts| counts.topic == TOPIC);
    let counts: &TopicCounts = counts.expect("the topic has a receiver");
    (counts.delivered, counts.failed, counts.given_up)
}

/// Number of attempts so far.
fn tries(attempts: &mut Attempts) -> usize {
    std::iter::from_fn(|| attempts.try_recv().ok()).count()
}
