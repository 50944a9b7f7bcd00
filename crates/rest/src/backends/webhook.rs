//! Events of finished uploads, and their delivery to services.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_discovery::short_form::ServiceUrl;

use super::Backends;
use crate::handler::{
    Answer, Call, Deliver, Delivery, DeliveryPolicy, Failure, OutboxEvent, Outcome, Rejection,
    topic_of, with_causes,
};
use crate::on_uploaded;

/// Maximum time in which a service must accept an event.
const DELIVERY_TIME: Duration = Duration::from_secs(30);

/// Maximum size of the reply to an event. The reply is not used.
const MAX_RECEIPT: usize = 64 << 10;

/// Maximum number of events of a topic that are being delivered at the same time.
pub(super) const DELIVERIES: usize = 8;

/// The topic of the events of all APIs, whose receiver the server's settings name. Metrics show it
/// as the event.
pub(super) const ALL: &str = "webhooks.finished";

/// Adds the events of a finished upload to the answer: for the service of its collection, and for
/// the service `all` that receives the events of all APIs.
pub(super) fn add_events(call: &Call<'_>, answer: &mut Answer, all: Option<&ServiceUrl>) {
    let collection = call.method.collection();
    let settings = call.api.settings().collection_of(call.method);
    let of_collection = settings.and_then(|it| it.on_finished.as_deref());
    let of_collection = of_collection.map(|url| (topic(call.api, collection), url));
    let of_all = all.map(|url| (ALL.to_owned(), url.as_str()));
    let receivers: Vec<_> = of_collection.into_iter().chain(of_all).collect();
    if receivers.is_empty() {
        return;
    }
    let event = event(call, answer);
    let events = receivers.into_iter().map(|(topic, url)| {
        let payload = json!({"url": url, "event": event});
        OutboxEvent::new(topic, payload)
    });
    answer.events.extend(events);
}

fn event(call: &Call<'_>, answer: &Answer) -> Value {
    json!({
        "type": event_type(call.api, call.method.collection()),
        "timestamp": crate::default_handler::rfc3339(call.now),
        "data": {
            "method": call.method.id,
            "resource": on_uploaded::resource(answer.body.as_ref()),
            "principal": call.principal.map(ToString::to_string),
        },
    })
}

/// Returns the deliveries of an API's events, one for each collection, and the delivery of the
/// events of all APIs if a service receives them. Events of one topic wait for each other, and a
/// slow service must not delay the events of another service.
pub(super) fn deliveries(backends: &Arc<Backends>, api: &Api) -> Vec<Arc<dyn Deliver>> {
    let of_collection = |collection| (topic(api, collection), event_type(api, collection));
    let all = backends.finished.as_ref();
    let of_all = all.map(|_| (ALL.to_owned(), ALL.to_owned()));
    let webhooks = notified(api).map(of_collection).chain(of_all);
    let webhooks = webhooks.map(|(topic, event)| -> Arc<dyn Deliver> {
        Arc::new(Webhook {
            topic,
            event,
            backends: Arc::clone(backends),
        })
    });
    webhooks.collect()
}

/// Returns the collections with a service that receives notices.
pub(super) fn notified(api: &Api) -> impl Iterator<Item = &str> {
    let collections = api.settings().collections.iter();
    collections
        .filter(|(_, settings)| settings.on_finished.is_some())
        .map(|(name, _)| name.as_str())
}

/// The type of the events of a collection, such as `album.photos.finished`. Methods outside of
/// collections have `album.finished`.
fn event_type(api: &Api, collection: &str) -> String {
    match (api.name(), collection) {
        (name, "") => format!("{name}.finished"),
        (name, collection) => format!("{name}.{collection}.finished"),
    }
}

/// The topic of the events of a collection, such as `webhook.album.v1.photos`.
fn topic(api: &Api, collection: &str) -> String {
    let name = format!("{}.{}.{collection}", api.name(), api.version());
    topic_of("webhook", &name)
}

/// Sends notices about finished uploads, of a collection or of all APIs.
struct Webhook {
    topic: String,
    /// The type of its events, for metrics.
    event: String,
    backends: Arc<Backends>,
}

#[async_trait]
impl Deliver for Webhook {
    fn topic(&self) -> &str {
        &self.topic
    }

    fn policy(&self) -> DeliveryPolicy {
        DeliveryPolicy {
            first_delay: Duration::from_secs(5),
            timeout: 2 * DELIVERY_TIME,
            concurrency: DELIVERIES,
            ..DeliveryPolicy::default()
        }
    }

    async fn deliver(&self, delivery: &Delivery<'_>) -> Result<Outcome, Rejection> {
        // The URL at the time of the upload. The description may name another service by now.
        let url = delivery.payload.get("url").and_then(Value::as_str);
        let (Some(url), Some(event)) = (url, delivery.payload.get("event")) else {
            return Ok(Outcome::Unreadable("it has no URL or no event".to_owned()));
        };
        let limits = (DELIVERY_TIME, MAX_RECEIPT);
        let backends = &self.backends;
        let sent = backends.send(url, delivery.id, delivery.now, event, limits);
        let failure = match sent.await {
            Ok(reply) if reply.status().is_success() => {
                backends.metrics.delivered(&self.event, true);
                return Ok(Outcome::Delivered);
            }
            Ok(reply) => Failure {
                status: Some(reply.status().as_u16()),
                text: format!("the service answered {}", reply.status().as_u16()),
            },
            Err(error) => Failure::new(with_causes(&error)),
        };
        backends.metrics.delivered(&self.event, false);
        // 410 is how a service declines further events.
        Ok(if failure.status == Some(StatusCode::GONE.as_u16()) {
            Outcome::GiveUp(failure)
        } else {
            Outcome::Retry(failure)
        })
    }
}

/// The types of the events of an API, for metrics.
pub(super) fn event_types(api: &Api) -> impl Iterator<Item = String> {
    notified(api).map(|collection| event_type(api, collection))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::MAX_TOPIC;

    fn api(name: &str) -> Api {
        let text = format!(
            "name = \"{name}\"\nversion = \"v1\"\n[collections.photos]\nmedia = {{}}\n\
             on.finished = \"https://service.example/\"\n[collections.notes]\n"
        );
        Api::from_toml(&text).unwrap()
    }

    #[test]
    fn each_collection_with_a_service_has_a_topic_of_its_own() {
        let album = api("album");
        assert_eq!(topic(&album, "photos"), "webhook.album.v1.photos");
        assert_eq!(
            event_types(&album).collect::<Vec<_>>(),
            ["album.photos.finished"]
        );
        let long = api(&"a".repeat(60));
        let topics = [topic(&long, "photos"), topic(&long, "notes")];
        assert_ne!(topics[0], topics[1]);
        for topic in topics {
            assert!(topic.len() <= MAX_TOPIC && topic.starts_with("webhook-"));
        }
    }
}
