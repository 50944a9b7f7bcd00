//! The worker of a topic: it claims events that are due, delivers them and records the outcomes.

mod outcomes;

use std::collections::HashSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::Instant;
use windlass_engine::identifiers::Clock;
use windlass_engine::lifecycle::Lifecycle;
use windlass_store::{LedgerError, Resource, ResourceChange, Timestamp};

use super::{Event, Topic, collection, namespace_of, rescheduled};
use crate::handler::{
    Conclusion, Delivery, Failure, Outcome, Rejection, StoreHandles, StoreReader,
};
use crate::namespace::Namespace;

// Other processes compare it with their own clocks, which may differ by seconds.
/// Time for which an event is claimed. It is renewed after half of it.
const CLAIM: Duration = Duration::from_secs(5 * 60);

/// Maximum pause of a worker, and its pause after an error of the ledger. The events of other
/// processes are found after the pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Minimum pause between two scans of all rows, for each row.
const SCAN_PAUSE: Duration = Duration::from_micros(100);

/// Number of rows that are read from the ledger at a time.
const BATCH: usize = 20;

/// Maximum number of unreadable rows of a topic that a worker remembers.
const MAX_UNREADABLE: usize = 1000;

/// Due time of rows with an unknown next attempt.
const UNKNOWN: Timestamp = Timestamp::from_millis(u64::MAX);

/// Returns the stores, or `None` once the server has been dropped.
type OpenStores = Box<dyn Fn() -> Option<StoreHandles> + Send + Sync>;

/// The worker of a topic. Between two scans it does not keep the stores open.
pub struct Worker {
    topic: Arc<Topic>,
    stores: OpenStores,
    clock: Arc<dyn Clock>,
    lifecycle: Arc<Lifecycle>,
    unreadable: Arc<Mutex<Unreadable>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Worker").field(&self.topic.name).finish()
    }
}

/// Collections and ids of rows that cannot be read. Each is logged once.
type Unreadable = HashSet<(String, String)>;

impl Worker {
    pub(super) fn new(
        topic: Arc<Topic>,
        stores: impl Fn() -> Option<StoreHandles> + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
        lifecycle: Arc<Lifecycle>,
    ) -> Self {
        Self {
            topic,
            stores: Box::new(stores),
            clock,
            lifecycle,
            unreadable: Arc::default(),
        }
    }

    /// Delivers events until the server drains or is dropped. A delivery that is running when the
    /// server drains is finished.
    pub async fn run(&self) {
        let mut scan = Scan::All;
        // Time of the next scan of all rows, by both clocks, because the wall clock may be set
        // back.
        let (mut next_scan, mut deadline) = (UNKNOWN, Instant::now());
        while !self.lifecycle.is_draining() {
            let Some(round) = self.round() else {
                return;
            };
            let scanned = round.deliver_due(scan).await.unwrap_or_else(|error| {
                self.lifecycle.examine_ledger(&error);
                tracing::warn!(topic = self.topic.name, %error, "the outbox waits for the ledger");
                self.now().saturating_add(MAX_PAUSE)
            });
            drop(round);
            let pause = scanned.as_millis().saturating_sub(self.now().as_millis());
            let scanned_until = Instant::now() + Duration::from_millis(pause);
            (next_scan, deadline) = match scan {
                Scan::All => (scanned, scanned_until),
                Scan::New => (next_scan.min(scanned), deadline.min(scanned_until)),
            };
            tokio::select! {
                () = self.topic.changed.notified() => {
                    let is_due = next_scan <= self.now() || deadline <= Instant::now();
                    scan = if is_due { Scan::All } else { Scan::New };
                }
                () = tokio::time::sleep_until(deadline) => scan = Scan::All,
                () = self.lifecycle.drain_now.cancelled() => {}
            }
        }
    }

    fn round(&self) -> Option<Round> {
        Some(Round {
            topic: Arc::clone(&self.topic),
            store_handles: (self.stores)()?,
            clock: Arc::clone(&self.clock),
            lifecycle: Arc::clone(&self.lifecycle),
            unreadable: Arc::clone(&self.unreadable),
        })
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// One scan of a worker.
struct Round {
    topic: Arc<Topic>,
    store_handles: StoreHandles,
    clock: Arc<dyn Clock>,
    lifecycle: Arc<Lifecycle>,
    unreadable: Arc<Mutex<Unreadable>>,
}

impl Round {
    /// Tries the events that are due. Returns the time of the next scan of all rows.
    async fn deliver_due(&self, scan: Scan) -> Result<Timestamp, LedgerError> {
        let own = collection(&self.topic.name);
        let found = match scan {
            Scan::New => {
                let mut found = self.deliver_new(&own).await?;
                // All other events still wait.
                let others = self.topic.waiting.load(Ordering::Relaxed);
                let others = u32::try_from(others).unwrap_or(u32::MAX);
                found.waiting = found.waiting.saturating_add(others);
                found
            }
            Scan::All => {
                // Before the first read, which finds the rows of these ids.
                self.topic.take_new();
                let mut found = self.deliver_due_of(&own).await?;
                if let Some(former) = self.topic.deliver.former_collection() {
                    let other = self.deliver_due_of(former).await?;
                    found.next = found.next.min(other.next);
                    found.waiting += other.waiting;
                }
                let waiting = u64::from(found.waiting);
                self.topic.waiting.store(waiting, Ordering::Relaxed);
                found
            }
        };
        // If very many events wait, an event is due nearly all the time.
        let now = self.now();
        let earliest = now.saturating_add(SCAN_PAUSE * found.waiting);
        Ok(found.next.max(earliest).min(now.saturating_add(MAX_PAUSE)))
    }

    /// Tries those events that this process has committed since the last scan and that are due.
    async fn deliver_new(&self, collection: &str) -> Result<Found, LedgerError> {
        let mut found = Found::new();
        let ids = self.topic.take_new().into_iter();
        let attempts = ids.map(|id| self.process_new(collection, id));
        self.run_all(attempts, &mut found).await?;
        Ok(found)
    }

    async fn process_new(
        &self,
        collection: &str,
        id: String,
    ) -> Result<Option<Timestamp>, LedgerError> {
        if self.lifecycle.is_draining() {
            return Ok(Some(UNKNOWN));
        }
        let ledger = &self.store_handles.ledger;
        match ledger.resource(collection, &id).await? {
            Some(row) => self.process(row).await,
            None => Ok(None),
        }
    }

    /// Tries the due events of a collection.
    async fn deliver_due_of(&self, collection: &str) -> Result<Found, LedgerError> {
        let mut found = Found::new();
        let mut after: Option<String> = None;
        loop {
            // There can be many pages, and no event is begun after the start of a drain.
            if self.lifecycle.is_draining() {
                return Ok(found);
            }
            let ledger = &self.store_handles.ledger;
            let rows = ledger
                .resources(collection, after.as_deref(), BATCH)
                .await?;
            let Some(last) = rows.last() else {
                return Ok(found);
            };
            after = Some(last.id.clone());
            let attempts = rows.into_iter().map(|row| self.process(row));
            self.run_all(attempts, &mut found).await?;
        }
    }

    /// Runs attempts, several at a time, and adds their results to `found`.
    async fn run_all<F>(
        &self,
        attempts: impl Iterator<Item = F>,
        found: &mut Found,
    ) -> Result<(), LedgerError>
    where
        F: Future<Output = Result<Option<Timestamp>, LedgerError>>,
    {
        let concurrency = self.topic.deliver.policy().concurrency.max(1);
        let attempts = stream::iter(attempts).buffer_unordered(concurrency);
        // Collected first: an error must not drop the deliveries that still run.
        let processed: Vec<_> = attempts.collect().await;
        for due in processed {
            if let Some(due) = due? {
                found.next = found.next.min(due);
                found.waiting = found.waiting.saturating_add(1);
            }
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Tries an event if it is due. Returns the time of the next attempt, or `None` if the event is
    /// done.
    async fn process(&self, row: Resource) -> Result<Option<Timestamp>, LedgerError> {
        if self.is_unreadable(&row) {
            return Ok(Some(UNKNOWN));
        }
        let Some(event) = Event::parse(&row.body) else {
            self.leave_unreadable(&row, "it is not a row of the outbox");
            return Ok(Some(UNKNOWN));
        };
        let is_due =
            event.due <= self.now() || event.is_abandoned(self.store_handles.ledger.opening());
        if !is_due || self.lifecycle.is_draining() {
            return Ok(Some(event.due));
        }
        match self.deliver(&row, &event).await {
            // This error concerns only one event, so other events may succeed.
            Err(error) if !concerns_all(&error) => {
                tracing::warn!(
                    topic = self.topic.name,
                    id = row.id,
                    %error,
                    "the outcome of an event could not be recorded; it is tried again later"
                );
                Ok(Some(UNKNOWN))
            }
            due => due,
        }
    }

    async fn deliver(
        &self,
        row: &Resource,
        event: &Event,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let claimed_until = self.now().saturating_add(CLAIM);
        let Some(mut claim) = self.replace(row, claimed_until, event.failures).await? else {
            return Ok(Some(UNKNOWN));
        };
        let Some(outcome) = self.attempt(&mut claim, event).await? else {
            return Ok(Some(UNKNOWN));
        };
        match outcome {
            Outcome::Delivered => self.conclude(claim, event, Conclusion::Delivered).await,
            Outcome::GiveUp(failure) => {
                count(&self.topic.failed);
                self.conclude(claim, event, Conclusion::GivenUp(&failure))
                    .await
            }
            Outcome::Retry(failure) => self.retry(claim, event, &failure).await,
            Outcome::Split(payloads) => self.split(claim, event, payloads).await,
            Outcome::Unreadable(problem) => {
                self.leave_unreadable(&claim, &problem);
                Ok(Some(UNKNOWN))
            }
        }
    }

    /// Delivers a claimed event. Returns `None` if the claim is lost.
    async fn attempt(
        &self,
        claim: &mut Resource,
        event: &Event,
    ) -> Result<Option<Outcome>, LedgerError> {
        let row = claim.clone();
        let namespace = namespace_of(&row, event);
        let delivery = self.delivery(&row, event, &namespace);
        let delivering = self.topic.deliver.deliver(&delivery);
        let attempted = self.with_claim(claim, event, "delivery", delivering);
        Ok(attempted.await?.map(|it| it.unwrap_or_else(Outcome::Retry)))
    }

    /// Runs a delivery or a conclusion with a time limit, and renews the claim in the meantime.
    /// Returns `None` if the claim is lost.
    ///
    /// # Errors
    /// Errors that concern the ledger as a whole.
    async fn with_claim<T>(
        &self,
        claim: &mut Resource,
        event: &Event,
        task: &str,
        work: impl Future<Output = Result<T, Rejection>>,
    ) -> Result<Option<Result<T, Failure>>, LedgerError> {
        let timeout = self.topic.deliver.policy().timeout;
        let mut working = pin!(tokio::time::timeout(
            timeout,
            AssertUnwindSafe(work).catch_unwind()
        ));
        let finished = loop {
            tokio::select! {
                // The outcome comes first, because a renewal would only delay it.
                biased;
                finished = &mut working => break finished,
                () = tokio::time::sleep(CLAIM / 2) => {}
            }
            let until = self.now().saturating_add(CLAIM);
            match self.replace(claim, until, event.failures).await {
                Ok(Some(renewed)) => *claim = renewed,
                Ok(None) => {
                    self.warn_of_lost_claim(claim);
                    return Ok(None);
                }
                // The delivery continues: dropping it would certainly lead to a second delivery.
                Err(error) => {
                    self.lifecycle.examine_ledger(&error);
                    tracing::warn!(topic = self.topic.name, id = claim.id, %error, "a claim could not be renewed");
                }
            }
        };
        let failure = match finished {
            Ok(Ok(Ok(done))) => return Ok(Some(Ok(done))),
            Ok(Ok(Err(Rejection::Ledger(error)))) if concerns_all(&error) => return Err(error),
            Ok(Ok(Err(rejection))) => self.failure_of(&rejection),
            Ok(Err(_panic)) => self.failure_of_panic(claim),
            Err(_elapsed) => Failure::new(format!("the {task} did not end within {timeout:?}")),
        };
        Ok(Some(Err(failure)))
    }

    fn delivery<'a>(
        &'a self,
        row: &'a Resource,
        event: &'a Event,
        namespace: &'a Namespace,
    ) -> Delivery<'a> {
        Delivery {
            id: &row.id,
            payload: &event.payload,
            media: row.media.as_ref(),
            created: event.created,
            failures: event.failures,
            now: self.now(),
            lookup: StoreReader::new(&self.store_handles, namespace),
        }
    }

    fn failure_of(&self, rejection: &Rejection) -> Failure {
        self.lifecycle.examine(rejection);
        Failure::new(rejection.to_string())
    }

    fn failure_of_panic(&self, claim: &Resource) -> Failure {
        let (topic, id) = (&self.topic.name, &claim.id);
        tracing::error!(topic, id, "a delivery panicked, which is a bug");
        Failure::new("the delivery panicked")
    }

    /// Replaces a row by its next version. Returns `None` if another process has changed the row.
    async fn replace(
        &self,
        row: &Resource,
        due: Timestamp,
        failures: u32,
    ) -> Result<Option<Resource>, LedgerError> {
        let opening = self.store_handles.ledger.opening();
        let next = rescheduled(row, due, failures, opening, self.now());
        let change = ResourceChange::Replace {
            resource: next.clone(),
            expected: row.version,
        };
        match self.apply(vec![change]).await {
            Ok(()) => Ok(Some(next)),
            Err(LedgerError::Conflict) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn warn_of_lost_claim(&self, claim: &Resource) {
        tracing::warn!(
            topic = self.topic.name,
            id = claim.id,
            "the claim of an event ran out during its delivery; another process may deliver it again"
        );
    }

    fn is_unreadable(&self, row: &Resource) -> bool {
        let unreadable = self.unreadable.lock();
        let unreadable = unreadable.unwrap_or_else(PoisonError::into_inner);
        !unreadable.is_empty() && unreadable.contains(&(row.collection.clone(), row.id.clone()))
    }

    /// Remembers and logs a row that cannot be parsed. The row is kept, because a later version may
    /// read it.
    fn leave_unreadable(&self, row: &Resource, problem: &str) {
        let unreadable = self.unreadable.lock();
        let mut unreadable = unreadable.unwrap_or_else(PoisonError::into_inner);
        if unreadable.len() < MAX_UNREADABLE {
            unreadable.insert((row.collection.clone(), row.id.clone()));
            tracing::error!(
                topic = self.topic.name,
                id = row.id,
                problem,
                "an event cannot be read; it is left in the outbox"
            );
        }
    }
}

/// The rows that a worker examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    All,
    /// Events that this process has committed since the last scan. A new event is found at once and
    /// with one read, however many events wait.
    New,
}

/// The result of a scan.
struct Found {
    /// Time of the earliest next attempt.
    next: Timestamp,
    /// Number of events that wait.
    waiting: u32,
}

impl Found {
    fn new() -> Self {
        Self {
            next: UNKNOWN,
            waiting: 0,
        }
    }
}

/// Whether an error concerns all events, and not only the current event.
fn concerns_all(error: &LedgerError) -> bool {
    match error {
        LedgerError::Fault(_)
        | LedgerError::Unavailable(_)
        | LedgerError::Unknown(_)
        | LedgerError::NoSpace
        | LedgerError::OverQuota => true,
        LedgerError::Fenced
        | LedgerError::Held
        | LedgerError::Conflict
        | LedgerError::TooMuchMedia
        | LedgerError::KeyTooLong
        | LedgerError::Unreadable => false,
    }
}

fn count(counter: &AtomicU64) {
    // Relaxed: the counters guard no other data.
    counter.fetch_add(1, Ordering::Relaxed);
}
