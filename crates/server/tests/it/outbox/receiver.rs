//! A receiver of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;
use windlass_server::handler::{
    Conclusion, Deliver, Delivery, DeliveryPolicy, Failure, Outcome, Rejection,
};
use windlass_store::memory::MemoryLedger;
use windlass_store::{LedgerError, ResourceChange, Timestamp};

use super::{TOPIC, tally};

/// An attempt to deliver an event, as its receiver sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attempt {
    pub(super) id: String,
    pub(super) payload: Value,
    pub(super) failures: u32,
    pub(super) at: Timestamp,
    pub(super) media: Option<Vec<u8>>,
}

type Conclude =
    Box<dyn Fn(u32) -> BoxFuture<'static, Result<Vec<ResourceChange>, Rejection>> + Send + Sync>;

type Script = Box<dyn Fn(&Attempt) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// A receiver that reports each attempt, and then follows its script.
pub(super) struct Receiver {
    pub(super) topic: &'static str,
    pub(super) policy: DeliveryPolicy,
    attempts: UnboundedSender<Attempt>,
    script: Script,
    /// Counts events that are given up. The first time, a rival is faster.
    pub(super) ledger: Option<Arc<MemoryLedger>>,
    conclusions: AtomicUsize,
    /// Concludes events after this number of failures, instead of the tally.
    pub(super) conclude: Option<Conclude>,
    /// Whether attempts with the payload `"?"` fail with an error about a row of the ledger.
    pub(super) reads_badly: bool,
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

pub(super) type Attempts = UnboundedReceiver<Attempt>;

/// A receiver for [`TOPIC`] with this script.
pub(super) fn receiver(
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
pub(super) fn willing() -> (Receiver, Attempts) {
    receiver(|_| Box::pin(ready(Outcome::Delivered)))
}

/// A receiver that takes every event after a delay.
pub(super) fn slow(delay: Duration) -> (Receiver, Attempts) {
    receiver(move |_| {
        Box::pin(async move {
            sleep(delay).await;
            Outcome::Delivered
        })
    })
}

/// A receiver for which this number of attempts at each event fails.
pub(super) fn failing(times: u32) -> (Receiver, Attempts) {
    receiver(move |attempt| {
        let outcome = if attempt.failures < times {
            Outcome::Retry(Failure::new("not now"))
        } else {
            Outcome::Delivered
        };
        Box::pin(ready(outcome))
    })
}
