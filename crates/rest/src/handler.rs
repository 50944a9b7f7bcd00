//! The contract between the server and the APIs that it serves.
//!
//! An [`ApiHandler`] receives a [`Call`] and, for an upload, its media. It may read the stores, and
//! returns an [`Answer`]: a change set, events and a reply. The ledger commits the change set and
//! the events in the transaction that ends the upload. A handler therefore holds no state and
//! cannot finish a call in part. If a concurrent call has changed the same rows, the handler is
//! called again.
//!
//! Effects outside of the ledger, such as a message to a relay, are events. The server's outbox
//! passes an event to the [`Deliver`] of its topic once the event is durable.

mod answer;
mod conditions;
mod delivery;
mod input;
mod refusal;
mod rejection;
mod reply_memory;
mod settled;
mod stores;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method as HttpMethod};
use serde_json::{Map, Value};
use windlass_discovery::{Api, Method, PathParameters};
use windlass_proto::parameters::Parameters;
use windlass_store::{Resource, Timestamp};

use crate::access::AccessError;
use crate::principal::Principal;

pub use answer::{Answer, Content};
pub use conditions::Conditions;
pub use delivery::{
    Conclusion, Deliver, Delivery, DeliveryPolicy, Failure, MAX_EVENT_LEN, MAX_EVENTS, OutboxEvent,
    Outcome, with_causes,
};
pub(crate) use delivery::{MAX_TOPIC, is_topic, topic_of};
pub use input::{Input, RefusedAs};
pub use refusal::{Refusal, RefusalKind};
pub use rejection::Rejection;
pub use reply_memory::{ReplyMemoryPermit, SearchedRows};
pub use settled::SettledCollections;
pub use stores::{
    BlockingMedia, FETCHED_AT_ONCE, MediaBytes, MediaSource, StoreHandles, StoreReader, Uploaded,
    slice,
};
pub use windlass_engine::Concatenation;
pub use windlass_engine::identifiers::{first_version, new_secret};

/// The behaviour of one family of resources.
#[async_trait]
pub trait ApiHandler: Send + Sync + 'static {
    /// Checks an upload before its media is received, so that a hopeless upload is refused early.
    ///
    /// The stores may change before [`ApiHandler::run`], which has to check again.
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection>;

    /// Carries out the call. `media` is complete: it is durable, or small and committed together
    /// with the answer. It was uploaded with the call, or concatenated for
    /// it because an earlier answer has requested that ([`Answer::concatenation`]).
    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection>;

    /// Returns the resource that the path of the call names. A download gives its media.
    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection>;

    /// Returns a key for the state that the call changes together with other calls, such as the
    /// counters of a mailbox. The server serialises calls with the same key, so that they do not
    /// conflict. Default: the path, for PUT, PATCH and DELETE.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        call.lock_key_by_path()
    }

    /// Like [`ApiHandler::lock_key`], for a call that is run again because another call has changed
    /// a row on which it depends. Default: the same key.
    fn retry_lock_key(&self, call: &Call<'_>) -> Option<String> {
        self.lock_key(call)
    }

    /// Returns the maximum length in bytes of a JSON body on the plain path, for methods with JSON
    /// that may contain media; see [`ApiHandler::embedded`]. Default: `None`, so that
    /// [`JsonLimits::length`] applies.
    fn body_limit(&self, method: &Method) -> Option<usize> {
        let _ = method;
        None
    }

    /// Takes the media out of a JSON body, for methods with JSON that may contain media in base64.
    /// The call continues as a simple upload of this media, with the rest of the metadata. Default:
    /// no media.
    fn embedded(
        &self,
        method: &Method,
        metadata: &mut Map<String, Value>,
    ) -> Result<Option<Embedded>, Rejection> {
        let _ = (method, metadata);
        Ok(None)
    }

    /// Returns the entity tag of the resource's media, quotes included. For APIs with clients that
    /// compare downloads with the tag of the resource. The tag must change whenever the bytes do.
    /// Default: `None`, so that the server derives a tag from the media.
    fn media_etag(&self, resource: &Resource) -> Option<String> {
        let _ = resource;
        None
    }

    /// Returns additional headers for a download of the resource's media. Default: none.
    ///
    /// `Content-Encoding: gzip` says that the media is stored in gzip. The server unpacks it for
    /// clients that do not accept gzip, unless there is a `Cache-Control` with `no-transform`.
    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        let _ = resource;
        HeaderMap::new()
    }

    /// Like [`ApiHandler::media_headers`], for a download at an alias of the method's path
    /// ([`ApiHandler::alias`]). Default: the same headers.
    ///
    /// # Errors
    /// If a parameter of the call asks for a header that it cannot have.
    fn media_headers_at_alias(
        &self,
        call: &Call<'_>,
        resource: &Resource,
    ) -> Result<HeaderMap, Rejection> {
        let _ = call;
        Ok(self.media_headers(resource))
    }

    /// Returns the path of the method of `api` that answers a GET or HEAD of `path`. The server
    /// asks only if no method has the path and no API of the host has methods with the same first
    /// segment. For APIs with clients that read media at additional paths. Default: none.
    fn alias(&self, api: &Api, path: &str) -> Option<String> {
        let _ = (api, path);
        None
    }

    /// Returns the id of a method that the original service has at this path, if no served API has
    /// one there. A call of it is answered 501. Default: none, so that the call is answered 404.
    fn not_served(&self, http_method: &HttpMethod, path: &str) -> Option<String> {
        let _ = (http_method, path);
        None
    }

    /// Whether the handler itself separates the resources of different owners. This is for an API
    /// with [`Access::Owner`](windlass_discovery::Access) and calls that reach from one owner to
    /// another, such as the delivery of a message. The handler then reads and writes the resources
    /// of all principals, and [`Call::separate_owner`] names the principal that the call may act
    /// for. Default: false. A call then reaches only the resources of its principal, without any
    /// work of the handler.
    ///
    /// A handler that wraps another handler returns the wrapped handler's value.
    fn separates_owners(&self) -> bool {
        false
    }

    /// Whether the rows of a collection count against the quota of the principal that creates them.
    /// Return false for rows that several principals write, such as the list of the messages of a
    /// conversation: these writes would be refused when the first principal's quota is full. The
    /// number of such rows must be bounded by rows that count. Default: all rows count.
    fn counts(&self, collection: &str) -> bool {
        let _ = collection;
        true
    }

    /// Whether the handler itself decides who may read with this method, so that the server does
    /// not refuse a call that authorization does not allow. For APIs with public resources.
    /// Default: no method.
    ///
    /// This applies only to GET and HEAD, and only to an API with
    /// [`Access::Shared`](windlass_discovery::Access). A call without credentials, or with valid
    /// credentials that do not allow the method, then reaches the handler with [`Call::refusal`].
    /// The handler must refuse to read anything that is not public by [`Call::check_public`],
    /// before it looks at the conditions of the call. Invalid credentials are still refused. An
    /// error of the handler for such a call is replaced by the refusal, except for errors of the
    /// server and for 304, 412 and 416.
    fn guards(&self, method: &Method) -> bool {
        let _ = method;
        false
    }

    /// Whether a download that [`ApiHandler::find`] has allowed is of public media, so that caches
    /// may share it. Return true only if this is certain; otherwise the media is private. Default:
    /// whether the call was let through without credentials that allow it.
    fn is_public(&self, call: &Call<'_>) -> bool {
        call.refusal.is_some()
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
    /// JSON of the call. Empty if the call has no JSON.
    pub metadata: &'a Map<String, Value>,
    /// Time at which the call is carried out.
    pub now: Timestamp,
    /// A unique id, in case the call creates a resource. Ids sort by time.
    pub fresh_id: &'a str,
    /// URL under which clients reach the server, without a slash at its end.
    pub base_url: &'a str,
    /// The principal of the caller, if it is known. For a resumable upload, the principal that
    /// started it.
    pub principal: Option<&'a Principal>,
    /// The principal, if its resources are kept apart from other principals' resources. `None` for
    /// an API with [`Access::Shared`](windlass_discovery::Access), for a call without a principal,
    /// and for the principal that owns resources without an owner. Only handlers
    /// that [separate owners](ApiHandler::separates_owners) themselves need this.
    pub separate_owner: Option<&'a Principal>,
    /// Why authorization refuses the call. `None` if the call is allowed. Only methods that the
    /// handler guards ([`ApiHandler::guards`]) are called with a refusal.
    pub refusal: Option<&'a AccessError>,
    /// Read access to the stores.
    pub lookup: StoreReader<'a>,
    /// Conditions of the request.
    pub conditions: Conditions<'a>,
    /// Name of the file that an upload states in `X-Goog-Upload-File-Name`. The client chooses it.
    pub file_name: Option<&'a str>,
    /// Memory for a large reply.
    pub reply_memory: &'a ReplyMemoryPermit,
    /// Limits on the JSON of a resource.
    pub limits: JsonLimits,
    /// The address of the client, if it is known.
    pub client: Option<IpAddr>,
}

/// Limits on the JSON of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// Maximum length in bytes.
    pub length: usize,
    /// Maximum number of values.
    pub values: usize,
}

impl Call<'_> {
    /// Returns the path if the call changes the resource that it names.
    pub fn lock_key_by_path(&self) -> Option<String> {
        let changes = [HttpMethod::PUT, HttpMethod::PATCH, HttpMethod::DELETE]
            .contains(&self.method.http_method);
        let path = self.method.template.expand(self.path).ok();
        path.filter(|_| changes)
    }

    /// Returns the owner of a resource that the call creates. Inserted resources without an owner
    /// get this owner automatically. A handler sets the owner if an upload replaces another
    /// principal's resource.
    pub fn owner(&self) -> Option<String> {
        self.principal.map(Principal::to_string)
    }

    /// Refuses a call that authorization does not allow, unless the call reads something public.
    ///
    /// # Errors
    /// [`Rejection::Access`] with [`Call::refusal`].
    pub fn check_public(&self, is_public: bool) -> Result<(), Rejection> {
        match self.refusal {
            // The same refusal whether the resource is private or missing, so that it reveals
            // nothing.
            Some(refusal) if !is_public => Err(Rejection::Access(refusal.clone())),
            _ => Ok(()),
        }
    }

    /// Returns the rejection of a method that the handler does not implement.
    pub fn not_implemented(&self) -> Rejection {
        Rejection::NotImplemented {
            method: self.method.id.clone(),
        }
    }

    /// Checks the request's conditions (`If-Match`, `If-None-Match`) against the current entity tag
    /// of the resource, quotes included. If a handler does not call this, the resource has no tag,
    /// and the server refuses a call with an `If-Match` other than `*`.
    ///
    /// # Errors
    /// [`Rejection::ConditionNotMet`] or [`Rejection::NotModified`].
    pub fn check_conditions(&self, etag: &str) -> Result<(), Rejection> {
        self.conditions.check(Some(etag))
    }

    /// Checks the request's conditions for a resource that does not exist yet and that the call
    /// creates. `If-Match` is then false (RFC 9110, section 13.1.1).
    ///
    /// # Errors
    /// [`Rejection::ConditionNotMet`].
    pub fn check_conditions_of_new(&self) -> Result<(), Rejection> {
        self.conditions.check(None)
    }

    /// Checks the request's conditions against a resource without an entity tag. The server does
    /// the same after a call if the handler has not checked conditions. For handlers that act
    /// before they return.
    ///
    /// # Errors
    /// [`Rejection::ConditionNotMet`].
    pub(crate) fn check_conditions_without_tag(&self) -> Result<(), Rejection> {
        self.conditions.check_unasked()
    }

    /// Returns the value of a condition in an API-specific header. The header's name is in lower
    /// case and begins with `x-goog-if-`. A resumable upload has the conditions of the request that
    /// started it.
    ///
    /// # Errors
    /// [`Rejection::InvalidHeader`] if the header is present twice or is not text.
    pub fn condition_header(&self, name: &str) -> Result<Option<&str>, Rejection> {
        self.conditions.own(name)
    }
}

/// Calls the handler, and completes its answer: created resources have their owner, and collections
/// have the ledger's names.
// Only this function calls `ApiHandler::run`, so that no change leaves the call's namespace.
pub async fn run(
    handler: &dyn ApiHandler,
    call: &Call<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let new_media = media.as_ref().map(|uploaded| uploaded.media.at);
    // Atomic, because the call is shared across the awaits of a handler that may change threads.
    let are_asked = AtomicBool::new(false);
    let call = &Call {
        conditions: call.conditions.noting_checks(&are_asked),
        ..*call
    };
    let mut answer = handler.run(call, media).await?;
    // After the handler, because only the handler knows whether its resource has an entity tag.
    // Nothing is changed yet: the answer's changes are applied later.
    call.conditions.check_unasked()?;
    answer.check_added_media()?;
    // Before the names change: `ApiHandler::counts` expects the handler's names of collections.
    answer.set_owner(handler, call.principal, new_media);
    answer.qualify(call.lookup.namespace());
    Ok(answer)
}

/// Media that came inside a JSON body.
#[derive(Debug, Clone)]
pub struct Embedded {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its media type.
    pub content_type: String,
}
