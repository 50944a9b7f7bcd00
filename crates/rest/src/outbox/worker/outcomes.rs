//! The outcomes of deliveries, recorded in the ledger.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use serde_json::Value;
use windlass_store::{ChangeSet, LedgerError, Resource, ResourceChange};

use super::{Round, concerns_all, count};
use crate::handler::{Conclusion, Failure};
use crate::outbox::{Event, deletion, namespace_of, parts, rescheduled};

/// Maximum number of attempts to record an outcome.
const ATTEMPTS: usize = 8;

/// Pause between two attempts to record an outcome while the ledger is busy or full.
const RECORD_PAUSE: Duration = Duration::from_secs(1);

impl Round {
    /// Deletes an event that is delivered or given up, together with the changes of the delivery.
    pub(super) async fn conclude(
        &self,
        mut claim: Resource,
        event: &Event,
        conclusion: Conclusion<'_>,
    ) -> Result<(), LedgerError> {
        let topic = &self.topic.name;
        let counter = match conclusion {
            Conclusion::Delivered => &self.topic.delivered,
            Conclusion::GivenUp(failure) => {
                tracing::warn!(
                    topic,
                    id = claim.id,
                    error = failure.text,
                    "an event is given up"
                );
                &self.topic.given_up
            }
        };
        let namespace = namespace_of(&claim, event);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let row = claim.clone();
            let delivery = self.delivery(&row, event, &namespace);
            let concluding = self.topic.deliver.conclude(&delivery, conclusion);
            let concluding = self.with_claim(&mut claim, "conclusion", concluding);
            let Some(concluded) = concluding.await? else {
                return Ok(());
            };
            let recorded = match concluded {
                Ok(mut changes) => {
                    namespace.qualify_changes(&mut changes);
                    changes.push(deletion(&claim));
                    match self.commit(&claim, changes, attempt).await {
                        Err(error) if !concerns_all(&error) => Err(Failure::new(format!(
                            "the changes of the conclusion could not be made: {error}"
                        ))),
                        recorded => Ok(recorded?),
                    }
                }
                Err(failure) => Err(failure),
            };
            match recorded {
                Ok(Recorded::Committed) => {
                    count(counter);
                    tracing::debug!(topic, id = claim.id, ?conclusion, "an event is done");
                    return Ok(());
                }
                Ok(Recorded::Lost) => return Ok(()),
                Ok(Recorded::Refused) => {}
                Err(failure) => {
                    let concluded = self.conclude_without_changes(&claim, event, &failure, counter);
                    return concluded.await;
                }
            }
        }
    }

    /// Postpones an event after its conclusion has failed. Deletes an event that is too old for
    /// another attempt.
    async fn conclude_without_changes(
        &self,
        claim: &Resource,
        event: &Event,
        failure: &Failure,
        counter: &AtomicU64,
    ) -> Result<(), LedgerError> {
        let max_age = self.topic.deliver.policy().max_age.saturating_mul(2);
        if !event.is_older_than(max_age, self.now()) {
            count(&self.topic.failed);
            return self.postpone(claim, event, failure).await;
        }
        let (topic, id, error) = (&self.topic.name, &claim.id, &failure.text);
        tracing::error!(
            topic,
            id,
            error,
            "an event is deleted without the changes that conclude it"
        );
        let recorded = self.record(claim, &[deletion(claim)]).await?;
        if recorded {
            count(counter);
        }
        Ok(())
    }

    /// Postpones an event after a failed attempt. Gives up an event that is too old for another
    /// attempt.
    pub(super) async fn retry(
        &self,
        claim: Resource,
        event: &Event,
        failure: &Failure,
    ) -> Result<(), LedgerError> {
        count(&self.topic.failed);
        let max_age = self.topic.deliver.policy().max_age;
        if event.is_older_than(max_age, self.now()) {
            let conclusion = Conclusion::GivenUp(failure);
            return self.conclude(claim, event, conclusion).await;
        }
        self.postpone(&claim, event, failure).await
    }

    async fn postpone(
        &self,
        claim: &Resource,
        event: &Event,
        failure: &Failure,
    ) -> Result<(), LedgerError> {
        let failures = event.failures.saturating_add(1);
        let (topic, id, error) = (&self.topic.name, &claim.id, &failure.text);
        tracing::warn!(
            topic,
            id,
            failures,
            error,
            "an event was not delivered; it is tried again"
        );
        let now = self.now();
        let delay = self.topic.deliver.policy().delay(event.failures);
        let due = now.saturating_add(delay);
        let postponed = ResourceChange::Replace {
            resource: rescheduled(claim, due, failures, now),
            expected: claim.version,
        };
        self.record(claim, &[postponed]).await.map(drop)
    }

    pub(super) async fn split(
        &self,
        claim: Resource,
        event: &Event,
        payloads: Vec<Value>,
    ) -> Result<(), LedgerError> {
        let now = self.now();
        let mut changes = match parts(&claim, event, &payloads, now) {
            Ok(changes) => changes,
            Err(problem) => return self.retry(claim, event, &Failure::new(problem)).await,
        };
        changes.push(deletion(&claim));
        self.record(&claim, &changes).await.map(drop)
    }

    /// Commits changes that replace the claimed row. Returns whether the claim still held.
    async fn record(
        &self,
        claim: &Resource,
        changes: &[ResourceChange],
    ) -> Result<bool, LedgerError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.commit(claim, changes.to_vec(), attempt).await? {
                Recorded::Committed => return Ok(true),
                Recorded::Lost => return Ok(false),
                Recorded::Refused => {}
            }
        }
    }

    /// Commits the outcome of a delivery. Retries for a moment while the ledger is busy or full,
    /// because an unrecorded outcome means another delivery.
    async fn commit(
        &self,
        claim: &Resource,
        changes: Vec<ResourceChange>,
        attempt: usize,
    ) -> Result<Recorded, LedgerError> {
        match self.apply(changes).await {
            Ok(()) => Ok(Recorded::Committed),
            Err(LedgerError::Conflict) if !self.holds(claim).await? => {
                self.warn_of_lost_claim(claim);
                Ok(Recorded::Lost)
            }
            Err(LedgerError::Conflict) if attempt < ATTEMPTS => Ok(Recorded::Refused),
            Err(LedgerError::Unavailable(_) | LedgerError::NoSpace) if attempt < ATTEMPTS => {
                tokio::time::sleep(RECORD_PAUSE).await;
                Ok(Recorded::Refused)
            }
            Err(error) => Err(error),
        }
    }

    async fn holds(&self, claim: &Resource) -> Result<bool, LedgerError> {
        let ledger = &self.store_handles.ledger;
        let row = ledger.resource(&claim.collection, &claim.id).await?;
        Ok(row.is_some_and(|row| row.version == claim.version))
    }

    pub(super) async fn apply(&self, resources: Vec<ResourceChange>) -> Result<(), LedgerError> {
        let changes = ChangeSet {
            resources,
            ..ChangeSet::default()
        };
        self.store_handles.ledger.apply(changes).await
    }
}

/// The result of committing the changes that record an outcome.
enum Recorded {
    Committed,
    /// Another process has claimed or deleted the row.
    Lost,
    /// Nothing has changed, and another attempt may succeed.
    Refused,
}
