//! The contract between the server and the APIs that it serves.
//!
//! An [`ApiHandler`] gets a [`Call`] and, for an upload, its media. It may read the stores, and
//! returns an [`Answer`]: a change set, events and a reply. The ledger commits the change set and
//! the events in the transaction that ends the upload. A handler therefore holds no state and cannot
//! finish a call in part; if another call was faster, it is asked again.
//!
//! # Events
//!
//! Effects outside of the ledger, such as a message to a relay, are events. A call cannot send a
//! message itself: if it sent the message before the commit, a call that fails would have sent it,
//! and if it sent the message afterwards, a crash would lose it. It leaves an [`OutboxEvent`] in its
//! answer instead. The event is written in the transaction of the call's changes, so it exists if and
//! only if they do. The server's outbox then passes it to the [`Deliver`] of its topic, until that has
//! delivered it or given it up.
//!
//! Delivery is *at least once*: an event whose receiver has accepted it is delivered again if the
//! process ends before that is recorded. Receivers recognise the repetition by [`Delivery::id`].
//! Events have no order. They are delivered while [`Server::run`](crate::Server::run) runs.

mod stores;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method as HttpMethod};
use serde_json::{Map, Value};
use windlass_discovery::{Api, Method, PathParameters};
use windlass_proto::parameters::Parameters;
use windlass_store::{
    Expected, LedgerError, Media, MediaId, Resource, ResourceChange, Timestamp, VaultError,
};

use crate::auth::AccessError;
use crate::capacity::{Capacity, Full, Permit, Pool, SHORT_REPLY, json_cost};
use crate::context::Principal;
use crate::precondition::{ETag, Validators, Verdict, evaluate};

pub use crate::identifiers::first_version;
pub(crate) use stores::StoreHandles;
pub use stores::StoreReader;
pub(crate) use stores::slice;
pub use stores::{BlockingMedia, MediaBytes, MediaSource, Uploaded};

/// The behaviour of one family of resources.
#[async_trait]
pub trait ApiHandler: Send + Sync + 'static {
    /// Checks an upload before its media is taken, so that a hopeless one is refused early.
    ///
    /// The stores may change until [`ApiHandler::run`], which has to check again.
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection>;

    /// Carries out the call. `media` was uploaded with it and is durable.
    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection>;

    /// Returns the resource that the path of the call names. A download gives its media.
    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection>;

    /// Returns a key for what the call changes together with other calls, such as the counters of a
    /// mailbox. The server serialises calls of one key, so that they do not conflict. Default: the
    /// path, for PUT, PATCH and DELETE.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        call.lock_key_by_path()
    }

    /// Returns the maximum length in bytes of a JSON body on the plain path, for methods whose JSON
    /// may contain media; see [`ApiHandler::embedded`]. Default: none, so that
    /// [`Limits::metadata`](crate::config::Limits::metadata) applies.
    fn body_limit(&self, method: &Method) -> Option<usize> {
        let _ = method;
        None
    }

    /// Takes the media out of a JSON body, for methods whose JSON may contain it in base64. The call
    /// continues as a simple upload of this media, with the rest of the metadata. Default: none.
    fn embedded(
        &self,
        method: &Method,
        metadata: &mut Map<String, Value>,
    ) -> Result<Option<Embedded>, Rejection> {
        let _ = (method, metadata);
        Ok(None)
    }

    /// Returns the entity tag of the resource's media, quotes included, for APIs whose clients compare
    /// downloads with the tag of the resource. It must change whenever the bytes do. Default: none, so
    /// that the media gets a tag of its own.
    fn media_etag(&self, resource: &Resource) -> Option<String> {
        let _ = resource;
        None
    }

    /// Returns additional headers for a download of the resource's media. Default: none.
    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        let _ = resource;
        HeaderMap::new()
    }

    /// Returns the path of a method of `api` that a GET or HEAD of `path` stands for, where no method
    /// of any API has it. For APIs whose clients read media at other paths, too. Default: none.
    fn alias(&self, api: &Api, path: &str) -> Option<String> {
        let _ = (api, path);
        None
    }

    /// Returns the deliveries of the events that the handler leaves. Called once. Default: none.
    fn deliveries(&self) -> Vec<Arc<dyn Deliver>> {
        Vec::new()
    }
}

/// One call of a method.
#[derive(Debug)]
pub struct Call<'a> {
    /// The API.
    pub api: &'a Api,
    /// The method.
    pub method: &'a Method,
    /// Variables of the path.
    pub path: &'a PathParameters,
    /// Parameters of the query.
    pub query: &'a Parameters,
    /// JSON of the call; empty if there was none.
    pub metadata: &'a Map<String, Value>,
    /// Time at which the call is carried out.
    pub now: Timestamp,
    /// A unique id, in case the call creates a resource. Ids sort by time.
    pub fresh_id: &'a str,
    /// URL under which clients reach the server, without a slash at its end.
    pub base_url: &'a str,
    /// Who calls, if that was established. For a resumable upload: who started it.
    pub principal: Option<&'a Principal>,
    /// Read access to the stores.
    pub lookup: StoreReader<'a>,
    /// Conditions of the request.
    pub conditions: Conditions<'a>,
    /// Memory for a large reply.
    pub reply_memory: &'a ReplyMemoryPermit,
}

impl Call<'_> {
    /// The path, if the call changes the resource that it names.
    fn lock_key_by_path(&self) -> Option<String> {
        let changes = [HttpMethod::PUT, HttpMethod::PATCH, HttpMethod::DELETE]
            .contains(&self.method.http_method);
        let path = self.method.template.expand(self.path).ok();
        path.filter(|_| changes)
    }

    /// Returns the owner of a resource that the call makes. Inserted resources without an owner get
    /// this one by themselves; a handler sets it where an upload takes the place of another one's.
    pub fn owner(&self) -> Option<String> {
        self.principal.map(Principal::to_string)
    }

    /// Returns the rejection of a method that the handler does not implement.
    pub fn not_implemented(&self) -> Rejection {
        Rejection::NotImplemented {
            method: self.method.id.clone(),
        }
    }

    /// Checks the request's conditions (`If-Match`, `If-None-Match`) against the current entity tag of
    /// the resource, quotes included.
    ///
    /// # Errors
    /// [`Rejection::ConditionNotMet`] or [`Rejection::NotModified`].
    pub fn check_conditions(&self, etag: &str) -> Result<(), Rejection> {
        self.conditions.check(etag)
    }
}

/// The result of a call: changes, events and a reply.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Changes, of which all or none are applied.
    pub changes: Vec<ResourceChange>,
    /// Events to be delivered if the changes are applied, at most [`MAX_EVENTS`].
    pub events: Vec<OutboxEvent>,
    /// Resources on which the changes rely without changing them. If one is not as the handler has
    /// read it when the changes are applied, nothing is changed and the handler is asked again. Not
    /// compared for a call without media that changes nothing.
    pub expect: Vec<Expected>,
    /// Collections that must be empty after the changes, such as the content of a deleted folder.
    /// Otherwise nothing is changed and the handler is asked again.
    pub expect_empty: Vec<String>,
    /// Content of the reply; `None` for a reply without any.
    pub body: Option<Content>,
}

/// The content of a reply.
#[derive(Debug, Clone)]
pub enum Content {
    /// A JSON object. The parameters `fields` and `prettyPrint` of the request apply to it, and its
    /// field `etag` becomes the header `ETag`.
    Json(Map<String, Value>),
    /// Bytes of another type, such as the upload token of Google Photos, which is text.
    Bytes {
        /// Media type.
        content_type: HeaderValue,
        /// The bytes.
        bytes: Bytes,
    },
}

impl From<Map<String, Value>> for Content {
    fn from(object: Map<String, Value>) -> Self {
        Self::Json(object)
    }
}

impl Answer {
    /// Records the principal as the owner of resources that are inserted without one.
    pub(crate) fn set_owner(&mut self, principal: Option<&Principal>) {
        for change in &mut self.changes {
            if let ResourceChange::Insert(resource) = change
                && resource.owner.is_none()
            {
                resource.owner = principal.map(Principal::to_string);
            }
        }
    }
}

/// Media that came inside a JSON body.
#[derive(Debug, Clone)]
pub struct Embedded {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its media type.
    pub content_type: String,
}

/// The conditional headers of a request.
#[derive(Clone, Copy, Default)]
pub struct Conditions<'a>(Option<(&'a http::Method, &'a http::HeaderMap)>);

impl<'a> Conditions<'a> {
    /// Returns the conditions in the head of a request.
    pub(crate) fn of(http_method: &'a http::Method, headers: &'a http::HeaderMap) -> Self {
        Self(Some((http_method, headers)))
    }

    /// Checks the conditions against an entity tag, quotes included.
    fn check(&self, etag: &str) -> Result<(), Rejection> {
        let Some((http_method, headers)) = self.0 else {
            return Ok(());
        };
        let validators = ETag::parse(etag).map(|etag| Validators {
            etag,
            modified: None,
        });
        match evaluate(headers, http_method, validators.as_ref()) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified => Err(Rejection::NotModified),
            Verdict::Failed => Err(Rejection::ConditionNotMet),
        }
    }
}

impl std::fmt::Debug for Conditions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Conditions")
    }
}

/// Why a handler refuses a call.
#[derive(Debug, thiserror::Error)]
pub enum Rejection {
    /// The principal may not call the method, or must say first who they are.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The resource that the path names does not exist.
    #[error("{what} {id} was not found")]
    NotFound {
        /// Type of the resource, such as `animal`.
        what: String,
        /// Id of the resource.
        id: String,
    },
    /// A resource with this id exists already.
    #[error("{what} {id} exists already")]
    AlreadyExists {
        /// Type of the resource.
        what: String,
        /// Id of the resource.
        id: String,
    },
    /// The call conflicts with existing resources.
    #[error("{problem}")]
    Conflict {
        /// Message: the conflict.
        problem: String,
    },
    /// A field of the metadata has an invalid value.
    #[error("invalid value for field {field}: {problem}")]
    InvalidField {
        /// Path of the field.
        field: String,
        /// Message: the rule that the value breaks.
        problem: String,
    },
    /// A field of the metadata is missing.
    #[error("field {field} is required")]
    MissingField {
        /// Name of the field.
        field: String,
    },
    /// A parameter of the path or the query has an invalid value.
    #[error("invalid value for parameter {parameter}: {problem}")]
    InvalidParameter {
        /// Name of the parameter.
        parameter: String,
        /// Message: the rule that the value breaks.
        problem: String,
    },
    /// The call is invalid, though no single field or parameter is.
    #[error("{problem}")]
    InvalidArgument {
        /// Message: what is invalid.
        problem: String,
    },
    /// The method does not accept the media.
    #[error("the media is not accepted: {problem}")]
    InvalidMedia {
        /// Message: the rule that the media breaks.
        problem: String,
    },
    /// The media exceeds the size limit of its target type.
    #[error("the media of {length} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Length of the media in bytes.
        length: u64,
        /// Maximum length in bytes.
        limit: u64,
    },
    /// The state of the resources does not allow the call.
    #[error("{problem}")]
    FailedPrecondition {
        /// Message: the state that is missing.
        problem: String,
    },
    /// The handler does not implement the method.
    #[error("method {method} is described but not implemented by this server")]
    NotImplemented {
        /// Id of the method.
        method: String,
    },
    /// A condition of the request, such as `If-Match`, is false.
    #[error("a condition of the request is not met: the resource has changed or does not exist")]
    ConditionNotMet,
    /// The client has this version of the resource already.
    #[error("the resource has not changed")]
    NotModified,
    /// Handlers read too much media at once.
    #[error("the server reads too much media at once; try again")]
    Busy,
    /// A limit on what clients can make the server hold is reached.
    #[error(transparent)]
    Full(#[from] Full),
    /// The ledger has lost the media of a resource.
    #[error("media {0} is lost; upload it again")]
    MediaLost(MediaId),
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Media could not be read.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl Rejection {
    /// Returns a [`Rejection::InvalidField`].
    pub fn invalid_field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidField {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Permits for the memory of a reply, from its sources until it is sent.
#[derive(Debug)]
pub struct ReplyMemoryPermit {
    /// Pool for replies with media inside. Not the pool of media that is read, which the call may hold
    /// at the same time: waiting with a permit of the same pool could deadlock.
    large: Pool,
    timeout: Duration,
    held: Mutex<Permits>,
}

#[derive(Debug)]
struct Permits {
    /// Memory of the rows that the reply shows.
    rows: Permit,
    row_bytes: u64,
    large: Option<Permit>,
}

impl ReplyMemoryPermit {
    pub(crate) fn new(capacity: &Capacity) -> Self {
        Self {
            large: capacity.large_replies.clone(),
            timeout: capacity.timeout,
            held: Mutex::new(Permits {
                rows: capacity.replies.permit(),
                row_bytes: 0,
                large: None,
            }),
        }
    }

    /// Waits for memory for media inside the reply, its text and its values together. To be called
    /// once in a call, before media is read.
    ///
    /// # Errors
    /// [`Rejection::Full`] if the memory was not free in time.
    pub async fn reserve(&self, bytes: u64) -> Result<(), Rejection> {
        // Two calls that hold a permit and wait could wait for each other.
        self.permits().large = None;
        let permit = self.large.wait(bytes, self.timeout).await;
        self.permits().large = Some(permit?);
        Ok(())
    }

    /// Takes memory for a row that the reply shows, and for its parsed JSON. Does not wait.
    ///
    /// # Errors
    /// [`Rejection::Full`] if other replies have the memory.
    pub fn hold_row(&self, row: &[u8]) -> Result<(), Rejection> {
        let mut permits = self.permits();
        permits.row_bytes += row.len() as u64 + json_cost(row);
        let bytes = permits.row_bytes;
        Ok(permits.rows.resize(bytes)?)
    }

    /// Attaches the permits to the text of the reply, until it is sent.
    pub(crate) fn into_reply(self, text: Bytes) -> Result<Bytes, Full> {
        let permits = self.held.into_inner();
        let mut permits = permits.unwrap_or_else(PoisonError::into_inner);
        if let Some(large) = permits.large {
            return Ok(large.with(text));
        }
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        permits.rows.resize(text.len() as u64)?;
        Ok(permits.rows.with(text))
    }

    fn permits(&self) -> MutexGuard<'_, Permits> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum length of an event in bytes: its payload as JSON, and less than 100 bytes of the row.
pub const MAX_EVENT_LEN: usize = 1024 * 1024;

/// Maximum number of events of an answer, and of parts that an event is split into.
pub const MAX_EVENTS: usize = 512;

/// An event to be delivered once the call's changes are durable.
#[derive(Debug, Clone)]
pub struct OutboxEvent {
    /// Topic, which selects the [`Deliver`]: up to 64 letters, digits, `.`, `_` and `-` of ASCII.
    ///
    /// An event whose topic no delivery of this process has is kept until a process has one.
    pub topic: Cow<'static, str>,
    /// Content. With it the event may have at most [`MAX_EVENT_LEN`] bytes. Arrays and objects may be
    /// nested up to 126 levels.
    pub payload: Value,
    /// Media that the event needs. It is kept as long as the event, also if its resource is deleted.
    pub media: Option<Media>,
    /// Time of the first attempt. Default: none, for an attempt at once.
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
    /// Returns the topic. If several deliveries of a server have the same one, the first gets all
    /// of its events.
    fn topic(&self) -> &str;

    /// Returns when an event is tried again, and when it is given up.
    fn policy(&self) -> DeliveryPolicy {
        DeliveryPolicy::default()
    }

    /// Returns another collection to read events from, in which a version before the outbox wrote
    /// them. Default: none.
    ///
    /// Such a row is a JSON object with the integers `created`, `due` (both in milliseconds since
    /// the epoch) and `failures`. All of it is the payload.
    fn former_collection(&self) -> Option<&str> {
        None
    }

    /// Tries to deliver an event. No other process on the same stores tries it meanwhile.
    ///
    /// A panic and an error count as [`Outcome::Retry`]. If the ledger as a whole has failed, is busy
    /// or is full, the event is tried again when its claim has run out, a few minutes later.
    ///
    /// # Cancel safety
    /// The future is dropped at any `await` when the server stops and the drain has taken too long,
    /// or after [`DeliveryPolicy::timeout`]. The event is then delivered again.
    async fn deliver(&self, delivery: &Delivery<'_>) -> Result<Outcome, Rejection>;

    /// Returns the changes to commit together with the deletion of an event that is delivered or
    /// given up, such as a bounce. Called again if another call has changed the same resources.
    /// Default: none.
    ///
    /// If it fails, takes longer than [`DeliveryPolicy::timeout`], or its changes conflict repeatedly,
    /// the event is delivered again later, as after a failed attempt. At twice
    /// [`DeliveryPolicy::max_age`] the event is deleted without changes.
    ///
    /// # Cancel safety
    /// As that of [`deliver`](Self::deliver).
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
    /// Read access to the stores.
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
    /// The event is replaced by events with these payloads, at least one and at most [`MAX_EVENTS`].
    /// They have the event's media, its age and its failures, and are due at once.
    Split(Vec<Value>),
    /// The delivery cannot read the payload; a later version may. The event is left, and not tried
    /// again by this process.
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

/// How an event has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion<'a> {
    /// The receiver has accepted it.
    Delivered,
    /// It is given up after this failure, the last one.
    GivenUp(&'a Failure),
}

/// When the events of a topic are tried again, and when they are given up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryPolicy {
    /// Delay after the first failure. It doubles with each further one. Default: 1 min.
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
    /// Returns the delay after an attempt that failed, of an event with `failures` earlier ones.
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
    use crate::capacity::LimitedResource;
    use crate::config::Limits;

    #[tokio::test(start_paused = true)]
    async fn reply_holds_its_memory_until_it_is_sent() {
        let limits = Limits {
            reading_memory: 1024 * 1024,
            ..Limits::default()
        };
        let capacity = Capacity::new(&limits);
        let reply_memory = ReplyMemoryPermit::new(&capacity);
        reply_memory.reserve(700 * 1024).await.unwrap();
        let text = reply_memory.into_reply(Bytes::from_static(b"{}")).unwrap();
        assert_eq!(&text[..], b"{}");
        let other = ReplyMemoryPermit::new(&capacity);
        assert!(matches!(
            other.reserve(700 * 1024).await,
            Err(Rejection::Full(_))
        ));
        drop(text);
        other.reserve(700 * 1024).await.unwrap();
    }

    #[test]
    fn rows_count_until_the_text_is_written_and_the_text_until_it_is_sent() {
        let capacity = Capacity::new(&Limits::default());
        let usage = || capacity.usage().into_iter();
        let used = || {
            usage()
                .find(|usage| usage.resource == LimitedResource::Replies)
                .map(|usage| usage.used)
        };
        let reply_memory = ReplyMemoryPermit::new(&capacity);
        for _ in 0..10 {
            reply_memory.hold_row(&[b' '; 1000]).unwrap();
        }
        assert_eq!(used(), Some(20 * 1024));
        let text = reply_memory
            .into_reply(Bytes::from(vec![b' '; 5000]))
            .unwrap();
        assert_eq!(used(), Some(5 * 1024));
        drop(text);
        assert_eq!(used(), Some(0));
    }

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
