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

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method as HttpMethod};
use serde_json::{Map, Value};
use windlass_discovery::{Api, Method, PathParameters};
use windlass_proto::parameters::Parameters;
use windlass_store::{Resource, ResourceChange, Timestamp};

mod conditions;
mod media;
mod rejection;
mod reply_memory;
mod store_reader;
mod worker;

pub use conditions::Conditions;
pub(crate) use media::slice;
pub use media::{BlockingMedia, MediaBytes, MediaSource, Uploaded};
pub use rejection::Rejection;
pub use reply_memory::ReplyMemoryPermit;
pub(crate) use store_reader::StoreHandles;
pub use store_reader::StoreReader;
pub use worker::{Worker, WorkerContext};

pub use crate::identifiers::first_version;

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
