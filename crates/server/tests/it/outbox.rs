//! Events of a handler that wraps the default one, and their deliveries: repetitions, crashes, and
//! several servers on one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, pending, ready};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep};
use windlass_discovery::Api;
use windlass_server::handler::{
    Answer, ApiHandler, Call, Conclusion, Deliver, Delivery, DeliveryPolicy, Failure,
    MAX_EVENT_LEN, OutboxEvent, Outcome, Rejection, StoreReader, Uploaded,
};
use windlass_server::{
    Clock as _, DefaultHandler, Ended, Registry, ServedApi, Stores, TopicCounts,
};
use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{ChangeSet, Ledger as _, LedgerError, Resource, ResourceChange, Timestamp};
use windlass_testkit::farm::{ANIMALS, SHORT_FORM, UPLOADS};
use windlass_testkit::media::Media;

use crate::world::{Body, ManualClock, Reply, World, limits};

/// The topic of all events but those of [`OTHER`].
pub(crate) const TOPIC: &str = "animals";

/// Another topic.
const OTHER: &str = "barns";

/// Where the ledger has the events of [`TOPIC`].
pub(crate) const EVENTS: &str = ".outbox/animals";

/// How long an event is claimed.
const CLAIM: Duration = Duration::from_secs(5 * 60);

const MEDIA: Media = Media::new(1, 40);

/// The default handler. It leaves an event for each change of a resource, with the resource's id and its
/// new version; a deletion counts as a version.
#[derive(Default)]
pub(crate) struct Announcer {
    topics: Vec<&'static str>,
    /// Bytes to add to the payload.
    padding: usize,
    /// Whether an event names the media of the resource.
    names_media: bool,
    /// Time until the first attempt.
    delay: Option<Duration>,
    /// Changes the row of [`tally`] behind the back of the first call.
    rival: Option<Arc<MemoryLedger>>,
    calls: AtomicUsize,
}

impl Announcer {
    /// The Farm API, each of whose changes leaves an event.
    pub(crate) fn farm() -> ServedApi {
        Self::of(&[TOPIC]).serve()
    }

    fn of(topics: &[&'static str]) -> Self {
        Self {
            topics: topics.to_vec(),
            ..Self::default()
        }
    }

    fn serve(self) -> ServedApi {
        Self::serve_shared(Arc::new(self))
    }

    fn serve_shared(handler: Arc<Self>) -> ServedApi {
        let farm = Api::from_toml(SHORT_FORM).expect("it is valid");
        ServedApi {
            handler,
            ..ServedApi::with_default_handler(farm)
        }
    }

    fn events(&self, change: &ResourceChange, now: Timestamp) -> Vec<OutboxEvent> {
        let (id, version) = match change {
            ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. } => {
                (&resource.id, resource.version)
            }
            ResourceChange::Delete { id, expected, .. } => (id, expected + 1),
        };
        let padding = "x".repeat(self.padding);
        let payload = json!({"id": id, "version": version, "padding": padding});
        let media = match change {
            ResourceChange::Insert(resource) if self.names_media => resource.media.clone(),
            _ => None,
        };
        let event = |topic: &&'static str| OutboxEvent {
            media: media.clone(),
            due: self.delay.map(|delay| now.saturating_add(delay)),
            ..OutboxEvent::new(*topic, payload.clone())
        };
        self.topics.iter().map(event).collect()
    }
}

#[async_trait]
impl ApiHandler for Announcer {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        DefaultHandler.admit(call).await
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let mut answer = DefaultHandler.run(call, media).await?;
        answer.events = answer
            .changes
            .iter()
            .flat_map(|it| self.events(it, call.now))
            .collect();
        if let Some(ledger) = &self.rival {
            let is_first = self.calls.fetch_add(1, Ordering::Relaxed) == 0;
            let rival = is_first.then_some(&**ledger);
            answer.changes.push(tally(call.lookup, rival).await?);
        }
        Ok(answer)
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        DefaultHandler.find(call).await
    }
}

/// The next version of a row that counts something. If there is a rival, it is faster.
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
    }
}

async fn apply(ledger: &MemoryLedger, change: ResourceChange) {
    let changes = ChangeSet {
        resources: vec![change],
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.expect("nobody else does");
}

/// An attempt to deliver an event, as its receiver sees it.
#[derive(Debug, Clone, PartialEq)]
struct Attempt {
    id: String,
    payload: Value,
    failures: u32,
    at: Timestamp,
    media: Option<Vec<u8>>,
}

type Conclude =
    Box<dyn Fn(u32) -> BoxFuture<'static, Result<Vec<ResourceChange>, Rejection>> + Send + Sync>;

type Script = Box<dyn Fn(&Attempt) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// A receiver that reports each attempt, and then does as its script says.
struct Receiver {
    topic: &'static str,
    policy: DeliveryPolicy,
    attempts: UnboundedSender<Attempt>,
    script: Script,
    /// Tallies given up events; the first time, a rival is faster.
    ledger: Option<Arc<MemoryLedger>>,
    conclusions: AtomicUsize,
    /// Concludes events after this number of failures, instead of the tally.
    conclude: Option<Conclude>,
    /// Whether attempts whose payload is `"?"` fail with an error about a row of the ledger.
    reads_badly: bool,
}

#[async_trait]
impl Deliver for Receiver {
    fn topic(&self) -> &str {
        self.topic
    }

    fn policy(&self) -> DeliveryPolicy {
        self.policy.clone()
    }

    async fn deliver(&self, delivery: &Delivery<'_>) -> Result<Outcome, Rejection> {
        let media = match delivery.media {
            Some(media) => Some(
                delivery
                    .lookup
                    .media(media)
                    .read(0..u64::MAX)
                    .await?
                    .to_vec(),
            ),
            None => None,
        };
        let attempt = Attempt {
            media,
            id: delivery.id.to_owned(),
            payload: delivery.payload.clone(),
            failures: delivery.failures,
            at: delivery.now,
        };
        // A test may have ended.
        self.attempts.send(attempt.clone()).ok();
        if self.reads_badly && attempt.payload == "?" {
            return Err(Rejection::Ledger(LedgerError::Unreadable));
        }
        Ok((self.script)(&attempt).await)
    }

    async fn conclude(
        &self,
        delivery: &Delivery<'_>,
        conclusion: Conclusion<'_>,
    ) -> Result<Vec<ResourceChange>, Rejection> {
        if let Some(conclude) = &self.conclude {
            return conclude(delivery.failures).await;
        }
        let (Some(ledger), Conclusion::GivenUp(_)) = (&self.ledger, conclusion) else {
            return Ok(Vec::new());
        };
        let is_first = self.conclusions.fetch_add(1, Ordering::Relaxed) == 0;
        let rival = is_first.then_some(&**ledger);
        Ok(vec![tally(delivery.lookup, rival).await?])
    }
}

type Attempts = UnboundedReceiver<Attempt>;

/// A receiver for [`TOPIC`] with this script.
fn receiver(
    script: impl Fn(&Attempt) -> BoxFuture<'static, Outcome> + Send + Sync + 'static,
) -> (Receiver, Attempts) {
    let (attempts, seen) = mpsc::unbounded_channel();
    let receiver = Receiver {
        topic: TOPIC,
        policy: DeliveryPolicy::default(),
        attempts,
        script: Box::new(script),
        ledger: None,
        conclusions: AtomicUsize::new(0),
        conclude: None,
        reads_badly: false,
    };
    (receiver, seen)
}

/// A receiver that takes every event.
fn willing() -> (Receiver, Attempts) {
    receiver(|_| Box::pin(ready(Outcome::Delivered)))
}

/// A receiver that takes every event after a delay.
fn slow(delay: Duration) -> (Receiver, Attempts) {
    receiver(move |_| {
        Box::pin(async move {
            sleep(delay).await;
            Outcome::Delivered
        })
    })
}

/// Stores in memory, and a clock that goes with that of the timers.
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
        let clock = Arc::new(ManualClock::default());
        let ticking = Arc::clone(&clock);
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(1)).await;
                ticking.advance(Duration::from_secs(1));
            }
        });
        Self {
            ledger,
            stores,
            clock,
        }
    }

    /// The same place, with a ledger that counts its calls.
    fn counted(self) -> (Self, Arc<Faults>) {
        let faults = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
        let ledger = FaultyLedger::new(Arc::clone(&self.stores.ledger), Arc::clone(&faults));
        let stores = Stores {
            ledger: Arc::new(ledger),
            ..self.stores
        };
        (Self { stores, ..self }, faults)
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
    let deleted = world
        .send("DELETE", &uri, &[], Body::Whole(Vec::new()))
        .await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
}

async fn upload(world: &World) -> String {
    let made = world.simple("POST", UPLOADS, MEDIA).await;
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

/// The counts of [`TOPIC`]: delivered, failed, given up.
fn counts(world: &World) -> (u64, u64, u64) {
    let counts = world.server.outbox();
    let counts = counts.iter().find(|counts| counts.topic == TOPIC);
    let counts: &TopicCounts = counts.expect("the topic has a receiver");
    (counts.delivered, counts.failed, counts.given_up)
}

const A_WHILE: Duration = Duration::from_secs(20 * 60);

#[tokio::test(start_paused = true)]
async fn events_of_uploads_and_calls_are_delivered_at_once_and_only_once() {
    let place = Place::new();
    let (receiver, mut attempts) = willing();
    let world = place.world([receiver]);
    let serving = world.serve().await;
    let begun = Instant::now();
    let simple = upload(&world).await;
    assert_eq!(next(&mut attempts).await.payload["id"], simple);
    let session = world.start(Some(40)).await.expect("it begins");
    let whole = Body::Whole(MEDIA.whole());
    let resumable = world
        .put(&session, "bytes 0-39/40", whole)
        .await
        .field("id");
    assert_eq!(next(&mut attempts).await.payload["id"], resumable);
    delete(&world, &simple).await;
    assert_eq!(next(&mut attempts).await.payload["id"], simple);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err(), "each is delivered once");
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    assert_eq!(counts(&world), (3, 0, 0));
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn event_is_delivered_again_after_a_crash_between_delivery_and_deletion() {
    let place = Place::new();
    // It takes the event, and the server dies before it knows.
    let (receiver, mut attempts) = receiver(|_| Box::pin(pending()));
    let world = place.world([receiver]);
    let serving = world.serve().await;
    upload(&world).await;
    let first = next(&mut attempts).await;
    serving.crash().await;
    drop(world);

    let (receiver, mut attempts) = willing();
    let world = place.world([receiver]);
    let serving = world.serve().await;
    let again = next(&mut attempts).await;
    assert_eq!((&again.id, &again.payload), (&first.id, &first.payload));
    let between = again.at.as_millis() - first.at.as_millis();
    assert!(u128::from(between) >= CLAIM.as_millis(), "{between} ms");
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    serving.stop().await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn servers_on_one_store_deliver_each_event_once() {
    let place = Place::new();
    let second = Duration::from_secs(1);
    let ((one, mut of_one), (other, mut of_other)) = (slow(second), slow(second));
    let (one, other) = (place.world([one]), place.world([other]));
    let mut expected = Vec::new();
    for _ in 0..50 {
        expected.push(upload(&one).await);
    }
    let serving = [one.serve().await, other.serve().await];
    sleep(A_WHILE).await;
    let mut delivered = Vec::new();
    for attempts in [&mut of_one, &mut of_other] {
        let before = delivered.len();
        while let Ok(attempt) = attempts.try_recv() {
            delivered.push(attempt.payload["id"].as_str().expect("text").to_owned());
        }
        assert!(delivered.len() > before, "both deliver");
    }
    delivered.sort();
    expected.sort();
    assert_eq!(delivered, expected);
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    for serving in serving {
        serving.stop().await.expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn long_delivery_keeps_its_claim() {
    let place = Place::new();
    let (one, mut of_one) = slow(3 * CLAIM);
    let (other, mut of_other) = willing();
    let (one, other) = (place.world([one]), place.world([other]));
    let _one = one.serve().await;
    upload(&one).await;
    next(&mut of_one).await;
    let _other = other.serve().await;
    sleep(4 * CLAIM).await;
    assert!(of_one.try_recv().is_err() && of_other.try_recv().is_err());
    assert_eq!((counts(&one), counts(&other)), ((1, 0, 0), (0, 0, 0)));
}

#[tokio::test(start_paused = true)]
async fn failed_delivery_is_retried_with_growing_delays() {
    let place = Place::new();
    let (receiver, mut attempts) = receiver(|attempt| {
        let outcome = match attempt.failures {
            0..3 => Outcome::Retry(Failure::new("not now")),
            // A panic is a failure like any other.
            3 => panic!("on purpose"),
            _ => Outcome::Delivered,
        };
        Box::pin(ready(outcome))
    });
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let mut last = next(&mut attempts).await;
    for minutes in [1, 2, 4, 8] {
        let attempt = next(&mut attempts).await;
        assert_eq!(
            (&attempt.id, attempt.failures),
            (&last.id, last.failures + 1)
        );
        let delay = Duration::from_millis(attempt.at.as_millis() - last.at.as_millis());
        let expected = Duration::from_secs(minutes * 60);
        let late = delay.checked_sub(expected);
        assert!(late.is_some_and(|late| late.as_secs() < 3), "{delay:?}");
        last = attempt;
    }
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    assert_eq!(counts(&world), (1, 4, 0));
}

#[tokio::test(start_paused = true)]
async fn old_event_is_given_up_together_with_the_changes_of_its_delivery() {
    let place = Place::new();
    let (mut receiver, mut attempts) =
        receiver(|_| Box::pin(ready(Outcome::Retry(Failure::new("never")))));
    receiver.policy.max_age = Duration::from_secs(5 * 60);
    // Its first change set conflicts.
    receiver.ledger = Some(Arc::clone(&place.ledger));
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    sleep(A_WHILE).await;
    let mut tries = 0;
    while attempts.try_recv().is_ok() {
        tries += 1;
    }
    // After 0, 1, 3 and 7 minutes.
    assert_eq!((tries, counts(&world)), (4, (0, 4, 1)));
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    let tally = place.ledger.resource("tallies", "1").await;
    let tally = tally.expect("the ledger is well").expect("it was made");
    assert_eq!(tally.version, 2, "that of the rival, and one more");
}

/// Number of attempts so far.
fn tries(attempts: &mut Attempts) -> usize {
    std::iter::from_fn(|| attempts.try_recv().ok()).count()
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test(start_paused = true)]
async fn event_whose_conclusion_always_conflicts_is_deleted_at_twice_the_maximum_age() {
    let place = Place::new();
    let (mut receiver, mut attempts) = willing();
    receiver.policy.max_age = Duration::from_secs(5 * 60);
    receiver.conclude = Some(Box::new(|_| {
        let missing = ResourceChange::Delete {
            collection: "tallies".to_owned(),
            id: "none".to_owned(),
            expected: 1,
        };
        Box::pin(ready(Ok(vec![missing])))
    }));
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    sleep(DAY).await;
    // After 0, 1, 3, 7 and 15 minutes.
    assert_eq!((tries(&mut attempts), counts(&world)), (5, (1, 4, 0)));
    assert_eq!(place.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn event_about_an_unreadable_row_is_given_up_and_delays_no_other() {
    let place = Place::new();
    let (mut receiver, mut attempts) = willing();
    receiver.policy.max_age = Duration::from_secs(5 * 60);
    receiver.policy.concurrency = 1;
    receiver.reads_badly = true;
    let now = place.clock.now().as_millis();
    let strange = json!({"created": now, "due": now, "failures": 0, "payload": "?"});
    let strange = resource(EVENTS, "0", &strange);
    apply(&place.ledger, ResourceChange::Insert(strange)).await;
    let world = place.world([receiver]);
    // Rows of several pages follow it.
    for _ in 0..50 {
        upload(&world).await;
    }
    let _serving = world.serve().await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!((tries(&mut attempts), counts(&world)), (51, (50, 1, 0)));
    sleep(DAY).await;
    // After 1, 3 and 7 minutes.
    assert_eq!((tries(&mut attempts), counts(&world)), (3, (50, 4, 1)));
    assert_eq!(place.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn conclusion_that_takes_too_long_is_a_failure() {
    let place = Place::new();
    let (mut receiver, mut attempts) = willing();
    receiver.policy.timeout = Duration::from_secs(10 * 60);
    receiver.conclude = Some(Box::new(|failures| match failures {
        0 => Box::pin(pending()),
        _ => Box::pin(ready(Ok(Vec::new()))),
    }));
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let (first, second) = (next(&mut attempts).await, next(&mut attempts).await);
    let between = second.at.as_millis() - first.at.as_millis();
    // The timeout, and the first delay. The clock moves once a second.
    assert!((659_000..663_000).contains(&between), "{between} ms");
    sleep(A_WHILE).await;
    assert_eq!(counts(&world), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn long_conclusion_keeps_its_claim() {
    let place = Place::new();
    let (mut one, mut of_one) = willing();
    one.conclude = Some(Box::new(|_| {
        Box::pin(async {
            sleep(3 * CLAIM).await;
            Ok(Vec::new())
        })
    }));
    let (other, mut of_other) = willing();
    let (one, other) = (place.world([one]), place.world([other]));
    let _one = one.serve().await;
    upload(&one).await;
    next(&mut of_one).await;
    let _other = other.serve().await;
    sleep(4 * CLAIM).await;
    assert!(of_one.try_recv().is_err() && of_other.try_recv().is_err());
    assert_eq!((counts(&one), counts(&other)), ((1, 0, 0), (0, 0, 0)));
}

#[tokio::test(start_paused = true)]
async fn event_that_is_due_late_has_its_whole_age_for_attempts() {
    let place = Place::new();
    let api = Announcer {
        delay: Some(4 * DAY),
        ..Announcer::of(&[TOPIC])
    };
    let (receiver, mut attempts) = receiver(|attempt| {
        Box::pin(ready(match attempt.failures {
            0..3 => Outcome::Retry(Failure::new("not now")),
            _ => Outcome::Delivered,
        }))
    });
    assert!(receiver.policy.max_age < 4 * DAY);
    let world = place.world_of(api.serve(), [receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    sleep(5 * DAY).await;
    assert_eq!((tries(&mut attempts), counts(&world)), (4, (1, 3, 0)));
}

#[tokio::test(start_paused = true)]
async fn event_whose_first_attempt_is_late_is_not_given_up_at_its_first_failure() {
    let place = Place::new();
    upload(&place.world([])).await;
    sleep(4 * DAY).await;
    let (receiver, mut attempts) = receiver(|attempt| {
        Box::pin(ready(match attempt.failures {
            0 => Outcome::Retry(Failure::new("not now")),
            _ => Outcome::Delivered,
        }))
    });
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    sleep(A_WHILE).await;
    assert_eq!((tries(&mut attempts), counts(&world)), (2, (1, 1, 0)));
}

#[tokio::test(start_paused = true)]
async fn new_events_cause_no_scans_while_the_receiver_is_down() {
    let (place, faults) = Place::new().counted();
    let (receiver, mut attempts) =
        receiver(|_| Box::pin(ready(Outcome::Retry(Failure::new("down")))));
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    for _ in 0..300 {
        upload(&world).await;
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(tries(&mut attempts), 300);
    let scans = faults.calls_of("resources");
    assert!(scans <= 10, "{scans} reads of many rows");
}

#[tokio::test(start_paused = true)]
async fn drain_ends_the_scan_of_many_events() {
    let (place, faults) = Place::new().counted();
    let (mut receiver, mut attempts) = slow(Duration::from_secs(1));
    receiver.policy.concurrency = 1;
    let world = place.world([receiver]);
    for _ in 0..100 {
        upload(&world).await;
    }
    let serving = world.serve().await;
    next(&mut attempts).await;
    let before = faults.calls_of("resources");
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
    assert_eq!(faults.calls_of("resources"), before);
}

#[tokio::test(start_paused = true)]
async fn split_event_is_delivered_in_parts() {
    let place = Place::new();
    let (receiver, mut attempts) = receiver(|attempt| {
        let outcome = if attempt.payload.is_object() {
            Outcome::Split(vec!["a".into(), "b".into()])
        } else {
            Outcome::Delivered
        };
        Box::pin(ready(outcome))
    });
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let whole = next(&mut attempts).await;
    let mut parts = [next(&mut attempts).await, next(&mut attempts).await];
    parts.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(
        (&parts[0].payload, &parts[1].payload),
        (&"a".into(), &"b".into())
    );
    assert!(parts.iter().all(|part| part.id.starts_with(&whole.id)));
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    assert_eq!(place.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn topic_that_hangs_does_not_delay_another() {
    let place = Place::new();
    let (stuck, mut of_stuck) = receiver(|_| Box::pin(pending()));
    let (mut other, mut of_other) = willing();
    other.topic = OTHER;
    let api = Announcer::of(&[TOPIC, OTHER]).serve();
    let world = place.world_of(api, [stuck, other]);
    let _serving = world.serve().await;
    for _ in 0..10 {
        upload(&world).await;
    }
    for _ in 0..10 {
        next(&mut of_other).await;
    }
    sleep(Duration::from_secs(1)).await;
    let mut tried = 0;
    while of_stuck.try_recv().is_ok() {
        tried += 1;
    }
    assert_eq!(tried, DeliveryPolicy::default().concurrency);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_takes_too_long_is_a_failure() {
    let place = Place::new();
    let (mut receiver, mut attempts) = receiver(|attempt| match attempt.failures {
        0 => Box::pin(pending()),
        _ => Box::pin(ready(Outcome::Delivered)),
    });
    receiver.policy.timeout = Duration::from_secs(10 * 60);
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let (first, second) = (next(&mut attempts).await, next(&mut attempts).await);
    let between = second.at.as_millis() - first.at.as_millis();
    // The timeout, and the first delay. The clock moves once a second.
    assert!((659_000..663_000).contains(&between), "{between} ms");
    sleep(A_WHILE).await;
    assert_eq!(counts(&world), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_claimed_is_not_delivered() {
    let place = Place::new();
    upload(&place.world([])).await;
    let full = Arc::new(Faults::new(Trigger::From(1), InjectedFault::NoSpace));
    let full_place = Place {
        stores: Stores {
            ledger: Arc::new(FaultyLedger::new(
                place.stores.ledger.clone(),
                Arc::clone(&full),
            )),
            ..place.stores.clone()
        },
        ledger: Arc::clone(&place.ledger),
        clock: Arc::clone(&place.clock),
    };
    let (receiver, mut attempts) = willing();
    let world = full_place.world([receiver]);
    let serving = world.serve().await;
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    let claims = full.calls_of("apply");
    assert!((20..=22).contains(&claims), "one each minute: {claims}");
    serving.stop().await.expect("no panic");
    assert_eq!(place.waiting().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn event_keeps_its_media_until_it_is_delivered() {
    let place = Place::new();
    let api = Announcer {
        names_media: true,
        ..Announcer::of(&[TOPIC])
    };
    let (receiver, mut attempts) = willing();
    let world = place.world_of(api.serve(), [receiver]);
    let id = upload(&world).await;
    delete(&world, &id).await;
    let garbage = async || {
        place
            .ledger
            .garbage(None, 10)
            .await
            .expect("it is well")
            .len()
    };
    assert_eq!(garbage().await, 0);
    let _serving = world.serve().await;
    let attempts = [next(&mut attempts).await, next(&mut attempts).await];
    assert!(attempts.iter().any(|it| it.media == Some(MEDIA.whole())));
    sleep(A_WHILE).await;
    let listed = place.stores.vault.list(None, 10).await;
    assert_eq!(listed.expect("the vault is well").media, []);
}

#[tokio::test(start_paused = true)]
async fn event_of_another_process_is_found_within_a_minute_though_own_events_keep_coming() {
    let place = Place::new();
    let (receiver, mut attempts) = willing();
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    next(&mut attempts).await;
    // An id of long ago, as that of an event that another process has postponed.
    let foreign = json!({"created": 0, "due": 0, "failures": 0, "payload": "foreign"});
    let foreign = resource(EVENTS, "0", &foreign);
    apply(&place.ledger, ResourceChange::Insert(foreign)).await;
    let begun = Instant::now();
    loop {
        sleep(Duration::from_secs(10)).await;
        upload(&world).await;
        if next(&mut attempts).await.payload == "foreign" {
            break;
        }
        assert!(begun.elapsed() <= Duration::from_secs(70));
    }
}

#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_read_is_left_and_delays_no_other() {
    let place = Place::new();
    for body in [json!({"due": "now"}), json!([]), json!({})] {
        let id = format!("0-{body}");
        apply(
            &place.ledger,
            ResourceChange::Insert(resource(EVENTS, &id, &body)),
        )
        .await;
    }
    let (receiver, mut attempts) = receiver(|attempt| {
        let outcome = if attempt.payload == "?" {
            Outcome::Unreadable("what is it?".to_owned())
        } else {
            Outcome::Delivered
        };
        Box::pin(ready(outcome))
    });
    let strange = json!({"created": 0, "due": 0, "failures": 0, "payload": "?"});
    let strange = resource(EVENTS, "1", &strange);
    apply(&place.ledger, ResourceChange::Insert(strange)).await;
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    let id = upload(&world).await;
    let mut payloads = [next(&mut attempts).await, next(&mut attempts).await].map(|it| it.payload);
    payloads.sort_by_key(Value::is_object);
    assert_eq!(
        (&payloads[0], &payloads[1]["id"]),
        (&"?".into(), &id.into())
    );
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err(), "it is tried once");
    assert_eq!(place.waiting().await.len(), 4);
    assert_eq!(world.server.outbox()[0].waiting, 4);
}

#[tokio::test(start_paused = true)]
async fn call_that_conflicts_and_runs_again_leaves_its_events_once() {
    let place = Place::new();
    let changed = async |method: &str, uri: &str, headers: &[_], body: &[u8]| {
        let handler = Arc::new(Announcer {
            rival: Some(Arc::clone(&place.ledger)),
            ..Announcer::of(&[TOPIC])
        });
        let api = Announcer::serve_shared(Arc::clone(&handler));
        let world = place.world_of(api, []);
        let reply = world
            .send(method, uri, headers, Body::Whole(body.to_vec()))
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(handler.calls.load(Ordering::Relaxed), 2);
        reply.field("id")
    };
    let uri = format!("{UPLOADS}?uploadType=media");
    let made = changed("POST", &uri, &[("content-type", "image/png")], b"media").await;
    let uri = format!("{ANIMALS}/{made}");
    let json = [("content-type", "application/json")];
    changed("PUT", &uri, &json, br#"{"name": "ox"}"#).await;
    let waiting = place.waiting().await;
    let mut versions: Vec<_> = waiting.iter().map(|it| it["version"].as_u64()).collect();
    // Their ids are of the same millisecond, and have no order.
    versions.sort_unstable();
    let [Some(first), Some(second)] = versions[..] else {
        panic!("{waiting:?}");
    };
    assert_eq!(first + 1, second);
}

#[tokio::test]
async fn upload_whose_event_is_too_long_is_refused_and_leaves_neither() {
    let place = Place::new();
    let api = Announcer {
        padding: MAX_EVENT_LEN,
        ..Announcer::of(&[TOPIC])
    };
    let world = place.world_of(api.serve(), []);
    let refused = world.simple("POST", UPLOADS, MEDIA).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!((world.count().await, place.waiting().await.len()), (0, 0));
}

#[tokio::test]
async fn no_request_reaches_an_event() {
    let place = Place::new();
    let world = place.world([]);
    upload(&world).await;
    let row = place.ledger.resources(EVENTS, None, 1).await;
    let id = row.expect("the ledger is well").remove(0).id;
    let places = [
        ".outbox/animals",
        "farm/v1/.outbox/animals",
        "farm/v1/animals/..%2F.outbox%2Fanimals",
        "farm/v1/animals/%2E%2E/%2E%2E/.outbox/animals",
        "farm/.outbox/animals",
    ];
    for place in places {
        for uri in [
            format!("/{place}"),
            format!("/{place}/{id}"),
            format!("/{place}%2F{id}"),
        ] {
            let reply = get(&world, &uri).await;
            assert_eq!(reply.status, 404, "{uri}: {reply:?}");
        }
    }
    assert_eq!(get(&world, &format!("{ANIMALS}/{id}")).await.status, 404);
}

async fn get(world: &World, uri: &str) -> Reply {
    world.send("GET", uri, &[], Body::Whole(Vec::new())).await
}

#[tokio::test(start_paused = true)]
async fn dropped_server_keeps_no_store_open() {
    let place = Place::new();
    let (receiver, mut attempts) = willing();
    let registry = Registry::new([Announcer::farm()]).expect("there is one API");
    let clock = Arc::clone(&place.clock);
    let world = World::of_registry(
        registry.with_delivery(Arc::new(receiver)),
        place.stores.clone(),
        clock,
        |_| (),
    );
    world.server.start().await;
    upload(&world).await;
    next(&mut attempts).await;
    sleep(Duration::from_secs(1)).await;
    drop(world);
    // Without a turn for the tasks that end. The references left are those of the place.
    assert_eq!(Arc::strong_count(&place.ledger), 2);
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_running_delivery_and_begins_no_other() {
    let place = Place::new();
    let (mut receiver, mut attempts) = slow(Duration::from_secs(1));
    receiver.policy.concurrency = 1;
    let world = place.world([receiver]);
    let serving = world.serve().await;
    upload(&world).await;
    upload(&world).await;
    next(&mut attempts).await;
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
    assert!(attempts.try_recv().is_err());
    assert_eq!(
        (counts(&world), place.waiting().await.len()),
        ((1, 0, 0), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn drain_drops_a_delivery_that_takes_too_long() {
    let place = Place::new();
    let (receiver, mut attempts) = receiver(|_| Box::pin(pending()));
    let world = place.world([receiver]);
    let serving = world.serve().await;
    upload(&world).await;
    next(&mut attempts).await;
    let begun = Instant::now();
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
    assert!(begun.elapsed() <= limits().drain);
    assert_eq!(place.waiting().await.len(), 1);
}
