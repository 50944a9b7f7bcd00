//! Events with effects outside of the ledger, and the contract for their delivery.
//!
//! A call cannot send a message itself. If it sent the message before the commit, the message would
//! be sent even if the call then fails. If it sent the message afterwards, a crash would lose the
//! message. A call leaves an [`OutboxEvent`] in its answer instead. The event is written in the
//! transaction of the call's changes, so it exists if and only if they do. The server's outbox then
//! passes the event to the [`Deliver`] of its topic, until it is delivered or given up.
//!
//! Delivery is *at least once*: if the process ends after the receiver has accepted an event and
//! before this is recorded, the event is delivered again. Receivers recognise the repetition by
//! [`Delivery::id`]. Events have no order. They are delivered while the
//! server runs.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use ring::digest;
use serde_json::Value;
use windlass_store::{Media, ResourceChange, Timestamp};

use super::{Rejection, StoreReader};

/// Maximum length of an event in bytes: its payload as JSON, and less than 100 bytes of the row.
pub const MAX_EVENT_LEN: usize = 1024 * 1024;

/// Maximum number of events of an answer, and of parts that an event is split into.
pub const MAX_EVENTS: usize = 512;

/// An event to be delivered once the call's changes are durable.
#[derive(Debug, Clone)]
pub struct OutboxEvent {
    /// Topic, which selects the [`Deliver`]: up to 64 ASCII letters, digits, `.`, `_` and `-`.
    ///
    /// If this process has no delivery for the topic, the event is kept until a process has one.
    pub topic: Cow<'static, str>,
    /// Content. The whole event may have at most [`MAX_EVENT_LEN`] bytes. Arrays and objects may be
    /// nested up to 126 levels.
    pub payload: Value,
    /// Media that the event needs. It is kept as long as the event, even if its resource is
    /// deleted.
    pub media: Option<Media>,
    /// Time of the first attempt. Default: `None`, for an immediate attempt.
    pub due: Option<Timestamp>,
}

impl OutboxEvent {
    /// Returns an event without media that is due at once.
    pub fn new(topic: impl Into<Cow<'static, str>>, payload: Value) -> Self {
        Self {
            topic: topic.into(),
            payload,
            media: None,
            due: None,
        }
    }
}

/// The delivery of the events of one topic, such as to an SMTP relay or to a webhook.
#[async_trait]
pub trait Deliver: Send + Sync + 'static {
    /// Returns the topic. If several deliveries of a server have the same topic, the first delivery
    /// receives all of its events.
    fn topic(&self) -> &str;

    /// Returns when an event is tried again, and when it is given up.
    fn policy(&self) -> DeliveryPolicy {
        DeliveryPolicy::default()
    }

    /// Returns another collection from which events are read. Versions before the outbox wrote
    /// events there. Default: none.
    ///
    /// Such a row is a JSON object with the integers `created`, `due` (both in milliseconds since
    /// the epoch) and `failures`. The payload is the whole object.
    fn former_collection(&self) -> Option<&str> {
        None
    }

    /// Tries to deliver an event. No other process on the same stores tries it at the same time,
    /// unless the claim of this process has run out because it could not be renewed.
    ///
    /// A panic and an error count as [`Outcome::Retry`]. If the ledger as a whole has failed, is
    /// busy or is full, the event is tried again when its claim expires, a few minutes later.
    ///
    /// # Cancel safety
    /// The future is dropped at any `await` when the server stops and the drain has taken too long,
    /// or after [`DeliveryPolicy::timeout`]. The event is then delivered again.
    async fn deliver(&self, delivery: &Delivery<'_>) -> Result<Outcome, Rejection>;

    /// Returns the changes to commit together with the deletion of an event that was delivered or
    /// given up, such as a bounce. Called again if another call has changed the same resources.
    /// Default: no changes.
    ///
    /// If this call fails, takes longer than [`DeliveryPolicy::timeout`], or its changes conflict
    /// repeatedly, the event is delivered again later, as after a failed attempt. At twice
    /// [`DeliveryPolicy::max_age`] the event is deleted without changes.
    ///
    /// # Cancel safety
    /// The same as for [`deliver`](Self::deliver).
    async fn conclude(
        &self,
        delivery: &Delivery<'_>,
        conclusion: Conclusion<'_>,
    ) -> Result<Vec<ResourceChange>, Rejection> {
        let _ = (delivery, conclusion);
        Ok(Vec::new())
    }
}

/// An event that is due.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// Id of the event, the same at each attempt. Receivers can use it as an idempotency key.
    pub id: &'a str,
    /// Content of the event.
    pub payload: &'a Value,
    /// Media of the event.
    pub media: Option<&'a Media>,
    /// Time of the call that left the event.
    pub created: Timestamp,
    /// Number of failed attempts.
    pub failures: u32,
    /// Current time.
    pub now: Timestamp,
    /// Read access to the stores, with the same scope as the call that left the event.
    pub lookup: StoreReader<'a>,
}

/// The result of an attempt to deliver an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The receiver has accepted the event.
    Delivered,
    /// The attempt failed, and a later one may succeed. If the event is too old, it is given up.
    Retry(Failure),
    /// The receiver will never accept the event.
    GiveUp(Failure),
    /// The event is replaced by events with these payloads, at least one and at most
    /// [`MAX_EVENTS`]. The new events have the event's media, age and failures, and are due at
    /// once.
    Split(Vec<Value>),
    /// The delivery cannot read the payload, but a later version may. The event is kept, and not
    /// tried again by this process.
    Unreadable(String),
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Status of the receiver's reply, such as one of HTTP or SMTP, if there was a reply.
    pub status: Option<u16>,
    /// Message, for logs and notifications.
    pub text: String,
}

impl Failure {
    /// Returns a failure without a reply.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            status: None,
            text: text.into(),
        }
    }
}

/// Returns the messages of an error and its causes, for [`Failure::text`] and logs.
pub fn with_causes(error: &dyn Error) -> String {
    let errors = std::iter::successors(Some(error), |error: &&dyn Error| (*error).source());
    let texts: Vec<_> = errors.map(ToString::to_string).collect();
    texts.join(": ")
}

/// Maximum length of the name of a topic in bytes.
pub(crate) const MAX_TOPIC: usize = 64;

/// Whether a text is the name of a topic.
pub(crate) fn is_topic(name: &str) -> bool {
    // No slash: the events of a topic are one collection of the ledger, `.outbox/TOPIC`.
    let topic_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_TOPIC).contains(&name.len()) && name.bytes().all(topic_byte)
}

/// Returns the topic of this kind and name, such as `webhook.album.v1.photos`. A name that is not
/// valid in a topic is replaced by its digest.
pub(crate) fn topic_of(kind: &str, name: &str) -> String {
    let plain = format!("{kind}.{name}");
    if is_topic(&plain) {
        return plain;
    }
    let digest = digest::digest(&digest::SHA256, name.as_bytes());
    // A hyphen where a plain name has a dot, so that no plain topic equals a digest.
    let mut topic = format!("{kind}-");
    // Half of the digest, because all 64 digits would exceed `MAX_TOPIC`.
    for byte in &digest.as_ref()[..16] {
        let _ = write!(topic, "{byte:02x}");
    }
    topic
}

/// How an event has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion<'a> {
    /// The receiver has accepted it.
    Delivered,
    /// It is given up after this last failure.
    GivenUp(&'a Failure),
}

/// When the events of a topic are tried again, and when they are given up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryPolicy {
    /// Delay after the first failure. It doubles with each further failure. Default: 1 min.
    pub first_delay: Duration,
    /// Maximum delay between two attempts. Default: 4 h.
    pub max_delay: Duration,
    /// Age at which a failed event is given up, counted from the time at which it was first due. An
    /// event is not given up at its first failure. Default: 3 days.
    pub max_age: Duration,
    /// Maximum duration of an attempt, and of a conclusion. Default: 30 min.
    pub timeout: Duration,
    /// Maximum number of events that a process delivers at the same time. Default: 4.
    pub concurrency: usize,
}

impl Default for DeliveryPolicy {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_secs(60),
            max_delay: Duration::from_secs(4 * 60 * 60),
            max_age: Duration::from_secs(3 * 24 * 60 * 60),
            timeout: Duration::from_secs(30 * 60),
            concurrency: 4,
        }
    }
}

impl DeliveryPolicy {
    /// Returns the delay after a failed attempt of an event with `failures` earlier failures.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        let doubled = self
            .first_delay
            .saturating_mul(2_u32.saturating_pow(failures));
        doubled.min(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_four_hours() {
        let policy = DeliveryPolicy::default();
        let delays: Vec<_> = (0..10)
            .map(|failures| policy.delay(failures).as_secs() / 60)
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 240, 240]);
        assert_eq!(policy.delay(u32::MAX), policy.max_delay);
    }
}
