//! The outbox: events that change sets leave, and the workers that deliver them.
//!
//! An event is a resource of the collection of its topic. It is inserted in the transaction of the
//! call that leaves it, and deleted when it is delivered or given up. Each topic has a worker, so
//! that a slow or broken receiver delays only the events of its topic.
//!
//! Several processes may work on one ledger. Before a worker delivers an event, it *claims* the
//! row ([`Ledger::claim`](windlass_store::Ledger::claim)): the row is due when the claim expires,
//! and no other process gets it until then. The claim is renewed as long as the delivery runs.
//! After a crash the event is delivered again: at once if the ledger knows that the claiming
//! process has ended, otherwise when the claim expires.

mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use windlass_engine::identifiers::{Clock, first_version, new_resource_id};
use windlass_engine::lifecycle::Lifecycle;
use windlass_store::{Resource, ResourceChange, Timestamp};

use crate::handler::{
    Call, Deliver, MAX_EVENT_LEN, MAX_EVENTS, MAX_TOPIC, OutboxEvent, Rejection, StoreHandles,
    is_topic,
};
use crate::namespace::Namespace;
use crate::principal::Principal;

pub use worker::Worker;

// No name of an API begins with a dot, so the default handler reaches no such collection.
/// Prefix of the names of all collections of events.
const PREFIX: &str = ".outbox/";

/// The fields of a row of a former collection with its time and its claim.
const FORMER_FIELDS: [&str; 2] = ["due", "claimedBy"];

/// The call that leaves events.
#[derive(Debug)]
pub struct Source<'a> {
    now: Timestamp,
    /// The namespace in which its events are delivered.
    namespace: &'a Namespace,
    /// The principal whose quota counts its events while they wait.
    principal: Option<&'a Principal>,
}

impl<'a> Source<'a> {
    /// Returns the source of the events of this call.
    pub fn of(call: &Call<'a>) -> Self {
        Self {
            now: call.now,
            namespace: call.lookup.namespace(),
            principal: call.principal,
        }
    }
}

/// Returns the changes of a call with the rows of its events.
///
/// # Errors
/// [`Rejection::InvalidArgument`] if an event or their number exceeds its bound.
pub fn with_events(
    changes: Vec<ResourceChange>,
    events: Vec<OutboxEvent>,
    source: &Source<'_>,
) -> Result<Vec<ResourceChange>, Rejection> {
    if events.is_empty() {
        return Ok(changes);
    }
    if events.len() > MAX_EVENTS {
        return Err(beyond_bounds(format!(
            "the call leaves {} events; the limit is {MAX_EVENTS}",
            events.len()
        )));
    }
    // First, so that media which moves from a resource to an event always has an owner.
    let mut all = Vec::with_capacity(events.len() + changes.len());
    for event in events {
        all.push(insertion(event, source)?);
    }
    all.extend(changes);
    Ok(all)
}

fn insertion(event: OutboxEvent, source: &Source<'_>) -> Result<ResourceChange, Rejection> {
    let now = source.now;
    if !is_topic(&event.topic) {
        return Err(beyond_bounds(format!(
            "{:?} is not the topic of an event; it needs 1 to {MAX_TOPIC} letters, digits, '.', '_' or '-'",
            event.topic
        )));
    }
    let due = event.due.unwrap_or(now);
    let principal = source.principal.map(Principal::id);
    let owner = source.namespace.owner();
    let row = Row {
        created: now.as_millis(),
        since: (due > now).then(|| due.as_millis()),
        failures: 0,
        in_root: owner.is_none() && principal.is_some(),
        payload: &event.payload,
    };
    let body = row.to_bytes().map_err(beyond_bounds)?;
    Ok(ResourceChange::Insert(Resource {
        collection: collection(&event.topic),
        id: new_resource_id(now),
        version: first_version(),
        body,
        media: event.media,
        owner: owner.or(principal).map(str::to_owned),
        created: now,
        updated: now,
        due: Some(due),
        claimed_by: None,
    }))
}

/// Returns the namespace of the call that left the event.
fn namespace_of(row: &Resource, event: &Event) -> Namespace {
    // In rows of the outbox, an owner has a namespace unless the row says that it is in the root.
    // Rows of a former collection may have a principal as their owner although their call was in
    // the root namespace.
    let is_own = row.collection.starts_with(PREFIX) && !event.in_root;
    Namespace::of(row.owner.as_deref().filter(|_| is_own))
}

fn beyond_bounds(problem: String) -> Rejection {
    Rejection::InvalidArgument { problem }
}

fn collection(topic: &str) -> String {
    format!("{PREFIX}{topic}")
}

/// The body of a new row.
#[derive(Serialize)]
struct Row<'a> {
    created: u64,
    /// Time of the first attempt, if it is later than `created`.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    failures: u32,
    /// Whether the row is in the root namespace although it has an owner.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_root: bool,
    payload: &'a Value,
}

impl Row<'_> {
    /// # Errors
    /// The message, if the payload is too long, or nested so deeply that no process could read the
    /// row.
    fn to_bytes(&self) -> Result<Bytes, String> {
        let body = serde_json::to_vec(self).expect("rows can be written");
        if body.len() > MAX_EVENT_LEN {
            return Err(format!(
                "an event of {} bytes exceeds the limit of {MAX_EVENT_LEN} bytes",
                body.len()
            ));
        }
        // JSON is written at any depth, and parsed only up to a maximum depth.
        if Event::parse(&body).is_none() {
            return Err(
                "an event is nested too deeply; its payload may have at most 126 levels".to_owned(),
            );
        }
        Ok(body.into())
    }
}

/// A parsed row.
#[derive(Debug, PartialEq)]
struct Event {
    created: Timestamp,
    /// Time from which the age counts.
    since: Timestamp,
    failures: u32,
    /// Whether the event is delivered in the root namespace, although its row has an owner.
    in_root: bool,
    payload: Value,
}

impl Event {
    fn parse(body: &[u8]) -> Option<Self> {
        let mut fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let number = |name: &str| fields.get(name).and_then(Value::as_u64);
        let created = Timestamp::from_millis(number("created")?);
        let failures = u32::try_from(number("failures")?).unwrap_or(u32::MAX);
        let since = number("since").map(Timestamp::from_millis);
        let in_root = fields.get("in_root").and_then(Value::as_bool);
        let payload = fields.shift_remove("payload");
        Some(Self {
            created,
            // A row of a former collection may use this field's name for its own data.
            since: since.filter(|_| payload.is_some()).unwrap_or(created),
            failures,
            in_root: in_root.unwrap_or(false),
            // The payload of a row of a former collection is the whole object around these fields.
            payload: payload.unwrap_or(Value::Object(fields)),
        })
    }

    /// Whether a failed event of this age is given up. An event without a failure is tried again,
    /// however late its first attempt was.
    fn is_older_than(&self, max_age: Duration, now: Timestamp) -> bool {
        self.failures > 0 && now >= self.since.saturating_add(max_age)
    }
}

/// Returns the next version of a claimed row, with a claim that expires later.
fn renewed(claim: &Resource, until: Timestamp, now: Timestamp) -> Resource {
    Resource {
        version: claim.version + 1,
        due: Some(until),
        updated: now,
        ..claim.clone()
    }
}

/// Returns the next version of a row that is not claimed any more, with another time. Fields that
/// this version does not know are kept.
fn rescheduled(row: &Resource, due: Timestamp, failures: u32, now: Timestamp) -> Resource {
    let fields: Option<Map<String, Value>> = serde_json::from_slice(&row.body).ok();
    let mut fields = fields.expect("only rows that were parsed are rescheduled");
    fields.insert("failures".to_owned(), failures.into());
    let body = serde_json::to_vec(&fields).expect("rows can be written");
    Resource {
        body: body.into(),
        claimed_by: None,
        ..renewed(row, due, now)
    }
}

/// Returns the next version of a row of a former collection, whose time was in its body, and which
/// may be claimed. `None` if it is no such row.
fn adopted(row: &Resource, now: Timestamp) -> Option<Resource> {
    let mut fields: Map<String, Value> = serde_json::from_slice(&row.body).ok()?;
    let [due, claimed_by] = FORMER_FIELDS.map(|name| fields.shift_remove(name));
    let due = due.as_ref().and_then(Value::as_u64)?;
    // The process that has claimed it has ended, since it knew no other way to claim it.
    let due = if claimed_by.is_some() { 0 } else { due };
    let body = serde_json::to_vec(&fields).expect("rows can be written");
    Some(Resource {
        body: body.into(),
        ..renewed(row, Timestamp::from_millis(due), now)
    })
}

fn deletion(row: &Resource) -> ResourceChange {
    ResourceChange::Delete {
        collection: row.collection.clone(),
        id: row.id.clone(),
        expected: row.version,
    }
}

/// Returns the rows that replace a split event.
///
/// # Errors
/// The bound that they exceed.
fn parts(
    claim: &Resource,
    event: &Event,
    payloads: &[Value],
    now: Timestamp,
) -> Result<Vec<ResourceChange>, String> {
    if !(1..=MAX_EVENTS).contains(&payloads.len()) {
        return Err(format!(
            "an event is split into {} parts; it needs at least one, and the limit is {MAX_EVENTS}",
            payloads.len()
        ));
    }
    let part = |(number, payload): (usize, &Value)| {
        let row = Row {
            created: event.created.as_millis(),
            since: (event.since > event.created).then(|| event.since.as_millis()),
            failures: event.failures,
            in_root: event.in_root,
            payload,
        };
        Ok(ResourceChange::Insert(Resource {
            id: format!("{}.{number:03}", claim.id),
            version: first_version(),
            body: row.to_bytes()?,
            created: now,
            updated: now,
            due: Some(now),
            claimed_by: None,
            ..claim.clone()
        }))
    };
    payloads.iter().enumerate().map(part).collect()
}

/// Counts of the events of a topic, since the start of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicCounts {
    /// The topic.
    pub topic: String,
    /// Number of delivered events.
    pub delivered: u64,
    /// Number of attempts that failed.
    pub failed: u64,
    /// Number of events that were given up.
    pub given_up: u64,
    /// Number of waiting events when the worker last looked, including events of other processes.
    pub waiting: u64,
}

/// The topics of a server.
pub struct Outbox {
    topics: Vec<Arc<Topic>>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.topics.iter().map(|topic| &topic.name);
        f.debug_list().entries(names).finish()
    }
}

/// A topic and its delivery.
struct Topic {
    deliver: Arc<dyn Deliver>,
    name: String,
    /// Notified when this process has committed an event.
    changed: Notify,
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    waiting: AtomicU64,
}

impl Outbox {
    /// Returns an outbox with these deliveries. If several deliveries have the same topic, the
    /// first delivery is used.
    pub fn new(deliveries: impl IntoIterator<Item = Arc<dyn Deliver>>) -> Self {
        let mut topics: Vec<Arc<Topic>> = Vec::new();
        for deliver in deliveries {
            let name = deliver.topic().to_owned();
            if topics.iter().any(|topic| topic.name == name) {
                tracing::debug!(
                    topic = name,
                    "a topic has several deliveries; the first is used"
                );
                continue;
            }
            topics.push(Arc::new(Topic {
                deliver,
                name,
                changed: Notify::new(),
                delivered: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                given_up: AtomicU64::new(0),
                waiting: AtomicU64::new(0),
            }));
        }
        Self { topics }
    }

    /// Returns the worker of each topic. `stores` returns `None` once the server is gone.
    pub fn workers(
        &self,
        stores: impl Fn() -> Option<StoreHandles> + Clone + Send + Sync + 'static,
        clock: &Arc<dyn Clock>,
        lifecycle: &Arc<Lifecycle>,
    ) -> Vec<Worker> {
        let worker = |topic| {
            let (clock, lifecycle) = (Arc::clone(clock), Arc::clone(lifecycle));
            Worker::new(topic, stores.clone(), clock, lifecycle)
        };
        self.topics.iter().map(Arc::clone).map(worker).collect()
    }

    /// Wakes the workers of the events among these durable changes.
    pub fn wake(&self, changes: &[ResourceChange]) {
        for change in changes {
            let ResourceChange::Insert(row) = change else {
                continue;
            };
            let Some(name) = row.collection.strip_prefix(PREFIX) else {
                continue;
            };
            if let Some(topic) = self.topics.iter().find(|topic| topic.name == name) {
                topic.changed.notify_one();
            } else {
                tracing::warn!(
                    topic = name,
                    "this process has no delivery for an event; the event is kept for one that has"
                );
            }
        }
    }

    /// Returns what has become of the events of each topic.
    pub fn counts(&self) -> Vec<TopicCounts> {
        self.topics.iter().map(|topic| topic.counts()).collect()
    }
}

impl Topic {
    fn counts(&self) -> TopicCounts {
        // Relaxed: the counters guard no other data.
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TopicCounts {
            topic: self.name.clone(),
            delivered: load(&self.delivered),
            failed: load(&self.failed),
            given_up: load(&self.given_up),
            waiting: load(&self.waiting),
        }
    }
}

#[cfg(test)]
mod tests;
