//! Work of the application after an upload has become a resource.
//!
//! The event is committed with the resource, so a crash cannot lose it. The outbox calls the
//! application until it succeeds, for three days: at least once.

use std::error::Error as StdError;
use std::fmt;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_store::Media;

use crate::handler::{
    Content, Deliver, Delivery, Failure, MediaSource, OutboxEvent, Outcome, Rejection, topic_of,
};
use crate::principal::Principal;

/// Maximum length in bytes of a resource in an event. Metadata may be longer, and an event has room
/// for more.
const MAX_RESOURCE: usize = 512 * 1024;

/// Maximum depth of a resource in an event. JSON is parsed only up to a maximum depth, and the
/// event itself adds levels.
const MAX_DEPTH: usize = 100;

/// An upload that has become a resource.
#[derive(Debug)]
#[non_exhaustive]
pub struct UploadedResource {
    /// Id of the event, the same for each delivery. The application can recognise repeated
    /// deliveries by it.
    pub id: String,
    /// Id of the API method, such as `album.photos.insert`.
    pub method: String,
    /// The resource as the reply to the upload shows it. A resource longer than 512 KiB, or nested
    /// more than 100 levels deep, has only `kind`, `id` and `selfLink`.
    pub resource: Value,
    /// The principal that uploaded, if it is known.
    pub principal: Option<String>,
    /// The media. It can be read until the callback has succeeded, even if the resource has been
    /// deleted in the meantime.
    pub media: Option<MediaSource>,
}

type Callback = Box<
    dyn Fn(UploadedResource) -> BoxFuture<'static, Result<(), Box<dyn StdError + Send + Sync>>>
        + Send
        + Sync,
>;

/// A callback for the uploads of an API; see
/// [`ServedApi::on_uploaded`](crate::ServedApi::on_uploaded).
pub struct UploadCallback {
    topic: String,
    callback: Callback,
}

impl UploadCallback {
    pub(crate) fn new<F, Done, E>(api: &Api, callback: F) -> Self
    where
        F: Fn(UploadedResource) -> Done + Send + Sync + 'static,
        Done: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self {
            topic: topic_of("uploaded", &format!("{}.{}", api.name(), api.version())),
            callback: Box::new(move |uploaded| {
                let done = callback(uploaded);
                Box::pin(async move { done.await.map_err(Into::into) })
            }),
        }
    }

    /// The event of an upload.
    pub fn event(
        &self,
        method: &str,
        principal: Option<&Principal>,
        body: Option<&Content>,
        media: Media,
    ) -> OutboxEvent {
        let payload = json!({
            "method": method,
            "resource": resource(body),
            "principal": principal.map(ToString::to_string),
        });
        let mut event = OutboxEvent::new(self.topic.clone(), payload);
        event.media = Some(media);
        event
    }
}

impl fmt::Debug for UploadCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UploadCallback({})", self.topic)
    }
}

/// Returns the resource of a reply for an event. A resource that is too large is reduced to its
/// names.
pub(crate) fn resource(body: Option<&Content>) -> Value {
    let Some(Content::Json(fields)) = body else {
        return Value::Null;
    };
    let whole = Value::Object(fields.clone());
    if whole.to_string().len() <= MAX_RESOURCE && is_shallow(&whole, MAX_DEPTH) {
        return whole;
    }
    let names = ["kind", "id", "selfLink"].into_iter();
    names
        .filter_map(|name| Some((name.to_owned(), fields.get(name)?.clone())))
        .collect()
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    let is_inside = |value| is_shallow(value, depth - 1);
    match value {
        Value::Array(elements) => depth > 0 && elements.iter().all(is_inside),
        Value::Object(fields) => depth > 0 && fields.values().all(is_inside),
        _ => true,
    }
}

#[async_trait]
impl Deliver for UploadCallback {
    fn topic(&self) -> &str {
        &self.topic
    }

    async fn deliver(&self, delivery: &Delivery<'_>) -> Result<Outcome, Rejection> {
        let text = |name: &str| Some(delivery.payload.get(name)?.as_str()?.to_owned());
        let Some(method) = text("method") else {
            return Ok(Outcome::Unreadable("it names no method".to_owned()));
        };
        let uploaded = UploadedResource {
            id: delivery.id.to_owned(),
            method,
            resource: delivery
                .payload
                .get("resource")
                .cloned()
                .unwrap_or_default(),
            principal: text("principal"),
            media: delivery.media.map(|media| delivery.lookup.media(media)),
        };
        Ok(match (self.callback)(uploaded).await {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::Retry(Failure::new(error.to_string())),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn shown(fields: Value) -> Value {
        let Value::Object(fields) = fields else {
            panic!("an object is expected");
        };
        resource(Some(&Content::Json(fields)))
    }

    #[test]
    fn an_event_has_the_resource_or_what_names_it() {
        let small = json!({"kind": "a#b", "id": "1", "title": "cow"});
        assert_eq!(shown(small.clone()), small);
        let named = json!({"kind": "a#b", "id": "1"});
        let mut long = small.clone();
        long["title"] = "x".repeat(MAX_RESOURCE).into();
        assert_eq!(shown(long), named);
        let mut deep = small;
        let nested = (0..MAX_DEPTH).fold(json!(1), |inner, _| json!([inner]));
        deep["title"] = nested;
        assert_eq!(shown(deep), named);
        assert_eq!(resource(None), Value::Null);
        assert_eq!(resource(Some(&Content::Json(Map::new()))), json!({}));
    }
}
