//! What a method means: the contract between the server and the APIs it serves.
//!
//! A handler is a function from what happened to what shall change. It gets a [`Call`] and perhaps a
//! media, may look things up, and returns an [`Answer`]: a change set and a reply. The ledger commits the
//! change set in the same transaction that ends the upload. So a handler holds no state and cannot
//! half-finish; when somebody else was faster, it is simply asked again.
//!
//! What has to happen outside of the ledger, such as handing a message to a relay, is left to the
//! handler's [`Worker`]: the change set says what is to be done, and the worker does it once that is
//! durable.

mod stores;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method as HttpMethod};
use serde_json::{Map, Value};
use windlass_discovery::{Api, Method, PathParameters};
use windlass_proto::parameters::Parameters;
use windlass_store::{
    ChangeSet, LedgerError, MediaId, Resource, ResourceChange, Timestamp, VaultError,
};

use crate::capacity::{Capacity, Full, Permit, Pool, SHORT_REPLY, json_cost};
use crate::identifiers::Clock;
use crate::precondition::{ETag, Validators, Verdict, evaluate};

pub use crate::identifiers::first_version;
pub(crate) use stores::StoreHandles;
pub use stores::StoreReader;
pub(crate) use stores::slice;
pub use stores::{BlockingMedia, MediaBytes, MediaSource, Uploaded};

/// The behaviour of one family of resources.
#[async_trait]
pub trait ApiHandler: Send + Sync + 'static {
    /// Asked before any media is taken, so that a hopeless upload ends before it costs anything.
    /// Must not be relied on for safety: the world may change until [`ApiHandler::run`].
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection>;

    /// Carries the call out. `media` is what was uploaded with it, already durable.
    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection>;

    /// The resource that the call's path names. Its media is what a download gives.
    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection>;

    /// The name of what the call changes together with other calls, such as the counters of a
    /// mailbox. Calls of the same name take turns inside a process, so that they need not be asked
    /// again and again. Default: the path, for PUT, PATCH and DELETE.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        call.lock_key_by_path()
    }

    /// The longest JSON body that the method takes on its plain path, in bytes, where media may come
    /// inside of it; see [`ApiHandler::embedded`]. Default: none, which is the server's own limit.
    fn body_limit(&self, method: &Method) -> Option<usize> {
        let _ = method;
        None
    }

    /// Takes the media out of a JSON body, for methods whose metadata may hold it in base64. The call
    /// goes on as a simple upload of that media, with the rest of the metadata. Default: none.
    fn embedded(
        &self,
        method: &Method,
        metadata: &mut Map<String, Value>,
    ) -> Result<Option<Embedded>, Rejection> {
        let _ = (method, metadata);
        Ok(None)
    }

    /// The entity tag of the resource's media, quotes included, for APIs whose clients hold
    /// downloads against the tag of the resource. It must change whenever the bytes do. Default: a tag
    /// of the media's own.
    fn media_etag(&self, resource: &Resource) -> Option<String> {
        let _ = resource;
        None
    }

    /// Headers that a download of the resource's media carries beside the usual ones. Default: none.
    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        let _ = resource;
        HeaderMap::new()
    }

    /// Told when changes that the handler asked for are durable. Must return at once.
    fn committed(&self, changes: &[ResourceChange]) {
        let _ = changes;
    }

    /// What goes on beside requests, as long as the server runs. Default: nothing.
    fn worker(&self) -> Option<Arc<dyn Worker>> {
        None
    }
}

/// One call of a method.
#[derive(Debug)]
pub struct Call<'a> {
    /// The API.
    pub api: &'a Api,
    /// The method.
    pub method: &'a Method,
    /// The variables of its path.
    pub path: &'a PathParameters,
    /// The query.
    pub query: &'a Parameters,
    /// The JSON that came with the call; empty when there was none.
    pub metadata: &'a Map<String, Value>,
    /// When the call is carried out.
    pub now: Timestamp,
    /// An id that nobody else has, in case a resource is made; ids sort by time.
    pub fresh_id: &'a str,
    /// Where clients reach the server, without a slash at the end.
    pub base_url: &'a str,
    /// What is already there.
    pub lookup: StoreReader<'a>,
    /// What the request is conditional on.
    pub conditions: Conditions<'a>,
    /// Memory for a reply that is large.
    pub reply_memory: &'a ReplyMemoryPermit,
}

impl Call<'_> {
    /// The turn of the resource that the path names, for a call that changes it.
    fn lock_key_by_path(&self) -> Option<String> {
        let changes = [HttpMethod::PUT, HttpMethod::PATCH, HttpMethod::DELETE]
            .contains(&self.method.http_method);
        let path = self.method.template.expand(self.path).ok();
        path.filter(|_| changes)
    }

    /// What a handler answers to a method that it does not know.
    pub fn not_implemented(&self) -> Rejection {
        Rejection::NotImplemented {
            method: self.method.id.clone(),
        }
    }

    /// Holds the request's conditions (`If-Match` and `If-None-Match`) against the resource that it
    /// names. `etag` is the tag of the resource as it is now, quotes included.
    pub fn check_conditions(&self, etag: &str) -> Result<(), Rejection> {
        self.conditions.check(etag)
    }
}

/// What a call changes and what it is answered.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Changes, applied together.
    pub changes: Vec<ResourceChange>,
    /// The reply's JSON object; `None` for a reply without a body.
    pub body: Option<Map<String, Value>>,
}

/// Media that came inside of a JSON body.
#[derive(Debug, Clone)]
pub struct Embedded {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its media type.
    pub content_type: String,
}

/// What a request is conditional on.
#[derive(Clone, Copy, Default)]
pub struct Conditions<'a>(Option<(&'a http::Method, &'a http::HeaderMap)>);

impl<'a> Conditions<'a> {
    /// The conditions in the head of a request.
    pub(crate) fn of(http_method: &'a http::Method, headers: &'a http::HeaderMap) -> Self {
        Self(Some((http_method, headers)))
    }

    /// Holds them against the resource whose entity tag this is, quotes included.
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
    /// The resource that the path names does not exist.
    #[error("{what} {id} was not found")]
    NotFound {
        /// What kind of thing, e.g. `animal`.
        what: String,
        /// The id that was asked for.
        id: String,
    },
    /// A resource with this id exists already.
    #[error("{what} {id} exists already")]
    AlreadyExists {
        /// What kind of thing.
        what: String,
        /// The id.
        id: String,
    },
    /// What the call asks for collides with what is there.
    #[error("{problem}")]
    Conflict {
        /// What stands in the way.
        problem: String,
    },
    /// A field of the metadata is wrong.
    #[error("invalid value for field {field}: {problem}")]
    InvalidField {
        /// Its name.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A field of the metadata is missing.
    #[error("field {field} is required")]
    MissingField {
        /// Its name.
        field: String,
    },
    /// A parameter of the path or the query is wrong.
    #[error("invalid value for parameter {parameter}: {problem}")]
    InvalidParameter {
        /// Its name.
        parameter: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something in the call is wrong that is no single field or parameter.
    #[error("{problem}")]
    InvalidArgument {
        /// What is wrong.
        problem: String,
    },
    /// The media is not what the method takes.
    #[error("the media is not acceptable: {problem}")]
    InvalidMedia {
        /// What is wrong with it.
        problem: String,
    },
    /// The media is larger than what it is to be may be.
    #[error("the media is {length} bytes long; at most {limit} are taken")]
    TooLarge {
        /// Its length in bytes.
        length: u64,
        /// The most that is taken.
        limit: u64,
    },
    /// The call asks for something that the present state does not allow.
    #[error("{problem}")]
    FailedPrecondition {
        /// What stands in the way.
        problem: String,
    },
    /// The handler does not know the method.
    #[error("method {method} is described but not implemented by this server")]
    NotImplemented {
        /// Its id.
        method: String,
    },
    /// The resource is not in the state that the request is conditional on.
    #[error("the resource is not in the state that the request is conditional on")]
    ConditionNotMet,
    /// The client has this version of the resource already.
    #[error("the resource has not changed")]
    NotModified,
    /// Too much media is looked into at once.
    #[error("the server looks into too much media at once; try again")]
    Busy,
    /// A limit on what clients can make the server hold is reached.
    #[error(transparent)]
    Full(#[from] Full),
    /// The media of a resource is gone from the ledger.
    #[error("media {0} is lost")]
    MediaLost(MediaId),
    /// The ledger could not be asked.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Media could not be read.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl Rejection {
    /// That this field of the metadata is wrong, and what is wrong with it.
    pub fn invalid_field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidField {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// What goes on beside requests, such as handing messages to a relay.
///
/// It works on what is in the ledger: a handler's change set leaves a resource that says what is to be
/// done, and the worker takes it away when it is done. So nothing is forgotten by a crash, and what
/// was under way when it came may be done twice.
#[async_trait]
pub trait Worker: Send + Sync {
    /// Works as long as the server runs.
    ///
    /// # Cancel safety
    /// Is dropped at any `await` when the server stops.
    async fn run(&self, context: WorkerContext);
}

/// Where a [`Worker`] works.
#[derive(Clone)]
pub struct WorkerContext {
    store_handles: StoreHandles,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for WorkerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WorkerContext")
    }
}

impl WorkerContext {
    pub(crate) fn new(store_handles: StoreHandles, clock: Arc<dyn Clock>) -> Self {
        Self {
            store_handles,
            clock,
        }
    }

    /// A look at the stores.
    pub fn lookup(&self) -> StoreReader<'_> {
        StoreReader::new(&self.store_handles)
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Makes changes, all or none.
    ///
    /// # Errors
    /// [`Rejection::Ledger`], with a conflict when somebody else has changed the same meanwhile.
    pub async fn apply(&self, resources: Vec<ResourceChange>) -> Result<(), Rejection> {
        let changes = ChangeSet {
            resources,
            ..ChangeSet::default()
        };
        Ok(self.store_handles.ledger.apply(changes).await?)
    }
}

/// The memory that a call's reply may take, while it is made and until it is sent.
#[derive(Debug)]
pub struct ReplyMemoryPermit {
    /// For media inside of the reply. Calls hold media that they read at the same time, so that counts elsewhere.
    large: Pool,
    timeout: Duration,
    held: Mutex<Permits>,
}

#[derive(Debug)]
struct Permits {
    /// What the rows take that the reply shows.
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

    /// Takes memory for media inside of the reply: text and values of it together. To be asked for once in a call,
    /// before media is read.
    ///
    /// # Errors
    /// [`Rejection::Full`] when memory was not to be had in time.
    pub async fn reserve(&self, bytes: u64) -> Result<(), Rejection> {
        // Two calls that wait with a share might wait for each other.
        self.permits().large = None;
        let permit = self.large.wait(bytes, self.timeout).await;
        self.permits().large = Some(permit?);
        Ok(())
    }

    /// Takes memory for a row that the reply shows, and for the JSON that is read from it.
    ///
    /// # Errors
    /// [`Rejection::Full`] when other replies have the memory.
    pub fn hold_row(&self, row: &[u8]) -> Result<(), Rejection> {
        let mut permits = self.permits();
        permits.row_bytes += row.len() as u64 + json_cost(row);
        let bytes = permits.row_bytes;
        Ok(permits.rows.resize(bytes)?)
    }

    /// The text of the reply, which keeps the memory that it takes until it is sent.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::LimitedResource;
    use crate::config::Limits;

    #[tokio::test(start_paused = true)]
    async fn a_reply_holds_its_memory_until_it_is_sent() {
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
    fn rows_count_until_the_text_is_made_and_the_text_until_it_is_sent() {
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
}
