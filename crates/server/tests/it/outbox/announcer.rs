//! A handler that leaves events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, OutboxEvent, Rejection, Uploaded};
use windlass_server::{DefaultHandler, ServedApi};
use windlass_store::memory::MemoryLedger;
use windlass_store::{Resource, ResourceChange, Timestamp};
use windlass_testkit::farm::SHORT_FORM;

use super::{TOPIC, tally};

/// The default handler. It leaves an event for each change of a resource, with the resource's id
/// and its new version; a deletion counts as a version.
#[derive(Default)]
pub(crate) struct Announcer {
    pub(super) topics: Vec<&'static str>,
    /// Bytes to add to the payload.
    pub(super) padding: usize,
    /// Whether an event names the media of the resource.
    pub(super) names_media: bool,
    /// Time until the first attempt.
    pub(super) delay: Option<Duration>,
    /// A rival that changes the row of [`tally`] during the first call.
    pub(super) rival: Option<Arc<MemoryLedger>>,
    pub(super) calls: AtomicUsize,
}

impl Announcer {
    /// The Farm API. Each of its changes leaves an event.
    pub(crate) fn farm() -> ServedApi {
        Self::of(&[TOPIC]).serve()
    }

    pub(super) fn of(topics: &[&'static str]) -> Self {
        Self {
            topics: topics.to_vec(),
            ..Self::default()
        }
    }

    pub(super) fn serve(self) -> ServedApi {
        Self::serve_shared(Arc::new(self))
    }

    pub(super) fn serve_shared(handler: Arc<Self>) -> ServedApi {
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
