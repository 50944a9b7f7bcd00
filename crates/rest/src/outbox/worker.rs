//! The worker of a topic: it claims events that are due, delivers them and records the outcomes.

mod outcomes;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;
use windlass_engine::identifiers::Clock;
use windlass_engine::lifecycle::Lifecycle;
use windlass_store::{LedgerError, Resource, ResourceChange, Timestamp};

use super::{Event, Topic, adopted, collection, namespace_of, renewed};
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

/// Minimum pause before the worker looks again for events that are due at a known time. New events
/// of this process do not wait for it.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Number of rows of a former collection that are read at a time.
const BATCH: usize = 20;

/// Time for which an unreadable event is left alone by this process. After a restart, which may be
/// an upgrade, it is tried again at once if the ledger knows of the restart.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

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
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Worker").field(&self.topic.name).finish()
    }
}

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
        }
    }

    /// Delivers events until the server drains or is dropped. A delivery that is running when the
    /// server drains is finished.
    pub async fn run(&self) {
        let mut scan = Scan::All;
        // Time of the next scan, by both clocks, because the wall clock may be set
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
}

impl Round {
    /// Tries the events that are due. Returns the time at which the worker looks again.
    async fn deliver_due(&self, scan: Scan) -> Result<Timestamp, LedgerError> {
        let own = collection(&self.topic.name);
        let mut next = self.deliver_due_of(&own).await?;
        if scan == Scan::All {
            let ledger = &self.store_handles.ledger;
            let mut waiting = ledger.count_due(&own).await?;
            if let Some(former) = self.topic.deliver.former_collection() {
                self.adopt(former).await?;
                next = next.min(self.deliver_due_of(former).await?);
                waiting += ledger.count_due(former).await?;
            }
            self.topic.waiting.store(waiting, Ordering::Relaxed);
        }
        let now = self.now();
        let [earliest, latest] = [MIN_PAUSE, MAX_PAUSE].map(|pause| now.saturating_add(pause));
        Ok(next.clamp(earliest, latest))
    }

    /// Gives the rows of a former collection a time to be claimed at.
    async fn adopt(&self, former: &str) -> Result<(), LedgerError> {
        let mut after: Option<String> = None;
        loop {
            let ledger = &self.store_handles.ledger;
            let rows = ledger.resources(former, after.as_deref(), BATCH).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.id.clone());
            for row in rows.iter().filter(|row| row.due.is_none()) {
                let Some(adopted) = adopted(row, self.now()) else {
                    continue;
                };
                match self.replace(adopted).await {
                    // Another process has adopted it.
                    Ok(_) | Err(LedgerError::Conflict) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Claims and delivers the events of a collection that are due, several at a time, until none is
    /// left or the server drains. Returns the time from which the next event is due.
    ///
    /// After an error no more events are claimed. The deliveries that run are finished, because a
    /// dropped delivery would be repeated.
    async fn deliver_due_of(&self, collection: &str) -> Result<Timestamp, LedgerError> {
        let most = self.topic.deliver.policy().concurrency.max(1);
        let mut running = FuturesUnordered::new();
        let mut failed = None;
        loop {
            let begins = failed.is_none() && !self.lifecycle.is_draining();
            if begins && running.len() < most {
                match self.claim(collection, most - running.len()).await {
                    Ok(rows) => running.extend(rows.into_iter().map(|row| self.process(row))),
                    Err(error) => failed = Some(error),
                }
            }
            if running.is_empty() {
                break;
            }
            let is_free = failed.is_none() && running.len() < most;
            tokio::select! {
                Some(processed) = running.next() => failed = failed.or(processed.err()),
                // A slow delivery does not delay a new event.
                () = self.topic.changed.notified(), if is_free => {}
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let next = self.store_handles.ledger.next_due(collection).await?;
        Ok(next.unwrap_or(UNKNOWN))
    }

    async fn claim(&self, collection: &str, limit: usize) -> Result<Vec<Resource>, LedgerError> {
        let now = self.now();
        let ledger = &self.store_handles.ledger;
        ledger
            .claim(collection, now, now.saturating_add(CLAIM), limit)
            .await
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Tries a claimed event.
    ///
    /// # Errors
    /// Errors that concern the ledger as a whole.
    async fn process(&self, claim: Resource) -> Result<(), LedgerError> {
        let id = claim.id.clone();
        let processed = match Event::parse(&claim.body) {
            Some(event) => self.deliver(claim, &event).await,
            None => {
                self.leave_unreadable(claim, "it is not a row of the outbox")
                    .await
            }
        };
        match processed {
            // This error concerns only one event, so other events may succeed.
            Err(error) if !concerns_all(&error) => {
                tracing::warn!(
                    topic = self.topic.name,
                    id,
                    %error,
                    "the outcome of an event could not be recorded; it is tried again later"
                );
                Ok(())
            }
            processed => processed,
        }
    }

    async fn deliver(&self, mut claim: Resource, event: &Event) -> Result<(), LedgerError> {
        let Some(outcome) = self.attempt(&mut claim, event).await? else {
            return Ok(());
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
            Outcome::Unreadable(problem) => self.leave_unreadable(claim, &problem).await,
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
        let attempted = self.with_claim(claim, "delivery", delivering);
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
            match self.renew(claim, CLAIM).await {
                Ok(renewed) => *claim = renewed,
                Err(LedgerError::Conflict) => {
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

    /// Lets a claim last for this time from now. Returns the next version of the row.
    ///
    /// # Errors
    /// [`LedgerError::Conflict`] if another process has changed the row.
    async fn renew(&self, claim: &Resource, time: Duration) -> Result<Resource, LedgerError> {
        let now = self.now();
        let next = renewed(claim, now.saturating_add(time), now);
        self.replace(next).await
    }

    /// Writes the next version of a row.
    async fn replace(&self, next: Resource) -> Result<Resource, LedgerError> {
        let change = ResourceChange::Replace {
            resource: next.clone(),
            expected: next.version - 1,
        };
        self.apply(vec![change]).await?;
        Ok(next)
    }

    fn warn_of_lost_claim(&self, claim: &Resource) {
        tracing::warn!(
            topic = self.topic.name,
            id = claim.id,
            "the claim of an event ran out during its delivery; another process may deliver it again"
        );
    }

    /// Logs a claimed row that cannot be read, and keeps it claimed. It is not deleted, because a
    /// later version may read it.
    async fn leave_unreadable(&self, claim: Resource, problem: &str) -> Result<(), LedgerError> {
        tracing::error!(
            topic = self.topic.name,
            id = claim.id,
            problem,
            "an event cannot be read; it is left in the outbox"
        );
        self.renew(&claim, UNREADABLE_PAUSE).await.map(drop)
    }
}

/// Why a worker looks for events that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// It is time. The events that wait are counted, too.
    All,
    /// This process has committed an event.
    New,
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
