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

mod delivery;
mod input;
mod refusal;
mod reply_memory;
mod settled;
mod stores;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode};
use serde_json::{Map, Value};
use windlass_digest::Digests;
use windlass_discovery::{Api, Method, PathParameters};
use windlass_engine::identifiers::new_small_media_id;
use windlass_engine::sink::MAX_SMALL_MEDIA;
use windlass_engine::{FromStore, Full, StoreError};
use windlass_proto::parameters::Parameters;
use windlass_store::{
    AddedMedia, Expected, LedgerError, MAX_ADDED_MEDIA, Media, MediaId, MediaLocation, MediaRef,
    Resource, ResourceChange, Timestamp, VaultError,
};

use crate::access::AccessError;
use crate::namespace::Namespace;
use crate::precondition::{ETag, Validators, Verdict, evaluate};
use crate::principal::Principal;

pub use delivery::{
    Conclusion, Deliver, Delivery, DeliveryPolicy, Failure, MAX_EVENT_LEN, MAX_EVENTS, OutboxEvent,
    Outcome, with_causes,
};
pub(crate) use delivery::{MAX_TOPIC, is_topic, topic_of};
pub use input::{Input, RefusedAs};
pub use refusal::{Refusal, RefusalKind};
pub use reply_memory::{ReplyMemoryPermit, SearchedRows};
pub use settled::SettledCollections;
pub use stores::StoreHandles;
pub use stores::StoreReader;
pub use stores::slice;
pub use stores::{BlockingMedia, MediaBytes, MediaSource, Uploaded};
pub use windlass_engine::Concatenation;
pub use windlass_engine::identifiers::{first_version, new_secret};

/// The behaviour of one family of resources.
#[async_trait]
pub trait ApiHandler: Send + Sync + 'static {
    /// Checks an upload before its media is received, so that a hopeless upload is refused early.
    ///
    /// The stores may change before [`ApiHandler::run`], which has to check again.
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection>;

    /// Carries out the call. `media` is durable. It was uploaded with the call, or concatenated for
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

/// The result of a call: changes, events and a reply.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Changes. The ledger applies all of them or none.
    pub changes: Vec<ResourceChange>,
    /// Events to be delivered if the changes are applied, at most [`MAX_EVENTS`].
    pub events: Vec<OutboxEvent>,
    /// Resources on which the changes depend without changing them. If a resource has another
    /// version when the changes are applied, nothing is changed and the handler is called again.
    /// Not compared for a call without media that changes nothing.
    pub expect: Vec<Expected>,
    /// Collections that must be empty after the changes, such as the content of a deleted folder.
    /// Otherwise nothing is changed and the handler is called again.
    pub expect_empty: Vec<String>,
    /// Small media of the handler's own, such as a thumbnail; see [`Answer::add_media`].
    pub added_media: Vec<AddedMedia>,
    /// Content of the reply. `None` for an empty reply.
    pub body: Option<Content>,
    /// Media that the call needs first. If a call without media sets it, the rest of the answer is
    /// ignored. The server then concatenates the media and calls the handler again with the result.
    pub concatenation: Option<Concatenation>,
}

/// The content of a reply.
#[derive(Clone)]
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

/// Hides the content, which may be a secret, such as an upload token.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Content")
    }
}

impl From<Map<String, Value>> for Content {
    fn from(object: Map<String, Value>) -> Self {
        Self::Json(object)
    }
}

impl Answer {
    /// Returns an answer that changes nothing, with this content.
    pub fn of(content: impl Into<Content>) -> Self {
        Self {
            body: Some(content.into()),
            ..Self::default()
        }
    }

    /// Adds media that the handler has made, such as a thumbnail of the uploaded picture. Returns
    /// its record for a resource of this answer. The media is committed with the changes, and is
    /// removed when no resource has it any more.
    ///
    /// The bytes stay in the ledger, so they are at most 64 KiB, and at most 16 media per answer.
    /// Beyond four times what the call has brought they count as a
    /// [copy](windlass_engine::copies).
    ///
    /// # Errors
    /// [`Rejection::InvalidArgument`] if the media is too long, or there are too many.
    pub fn add_media(
        &mut self,
        call: &Call<'_>,
        content_type: impl Into<String>,
        bytes: impl Into<Bytes>,
    ) -> Result<Media, Rejection> {
        let bytes = bytes.into();
        let too_much = |problem: String| Err(Rejection::InvalidArgument { problem });
        if bytes.len() > MAX_SMALL_MEDIA {
            let length = bytes.len();
            return too_much(format!(
                "the call would add media of {length} bytes; at most {MAX_SMALL_MEDIA} are allowed"
            ));
        }
        if self.added_media.len() == MAX_ADDED_MEDIA {
            return too_much(format!(
                "the call would add more than {MAX_ADDED_MEDIA} media"
            ));
        }
        let id = new_small_media_id(call.now);
        let media = Media {
            at: MediaRef {
                id,
                location: MediaLocation::Ledger,
            },
            length: bytes.len() as u64,
            content_type: content_type.into(),
            digests: Digests::of(&bytes),
        };
        self.added_media.push(AddedMedia::Small { id, bytes });
        Ok(media)
    }

    /// Records the principal as the owner of resources that are inserted without an owner.
    /// Resources that receive new media get the principal as their owner too, because the quota of
    /// the sender counts the media. Rows that do not count have no owner.
    fn set_owner(
        &mut self,
        handler: &dyn ApiHandler,
        principal: Option<&Principal>,
        new_media: Option<MediaRef>,
    ) {
        for change in &mut self.changes {
            let added = self.added_media.iter().map(AddedMedia::media);
            let has_new_media = new_media
                .into_iter()
                .chain(added)
                .any(|media| change.references(media));
            match change {
                ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. }
                    if !handler.counts(&resource.collection) =>
                {
                    resource.owner = None;
                }
                ResourceChange::Insert(resource) if resource.owner.is_none() => {
                    resource.owner = principal.map(Principal::to_string);
                }
                ResourceChange::Replace { resource, .. } if has_new_media => {
                    resource.owner = principal.map(Principal::to_string);
                }
                _ => {}
            }
        }
    }

    /// Replaces the handler's names of collections by the ledger's names.
    fn qualify(&mut self, namespace: &Namespace) {
        namespace.qualify_changes(&mut self.changes);
        namespace.qualify_expected(&mut self.expect);
        for collection in &mut self.expect_empty {
            namespace.qualify(collection);
        }
        if let Some(wanted) = &mut self.concatenation {
            namespace.qualify_expected(&mut wanted.expect);
        }
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
    let are_asked = AtomicBool::new(false);
    let conditions = Conditions {
        are_asked: Some(&are_asked),
        ..call.conditions
    };
    let call = &Call {
        conditions,
        ..*call
    };
    let mut answer = handler.run(call, media).await?;
    call.conditions.check_unasked()?;
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

/// The conditional headers of a request.
#[derive(Clone, Copy, Default)]
pub struct Conditions<'a> {
    head: Option<(&'a http::Method, &'a http::HeaderMap)>,
    /// Whether the handler has checked `If-Match` and similar headers.
    are_asked: Option<&'a AtomicBool>,
    /// Whether `If-Match` and similar headers apply to media. The download then checks them.
    are_of_media: bool,
}

impl<'a> Conditions<'a> {
    /// Returns the conditions in the head of a request.
    pub fn of(http_method: &'a http::Method, headers: &'a http::HeaderMap) -> Self {
        Self {
            head: Some((http_method, headers)),
            are_asked: None,
            are_of_media: false,
        }
    }

    /// Returns the conditions of a download. `If-Match` and similar headers then apply to the
    /// media, and only API-specific conditions apply to the resource.
    #[must_use]
    pub fn of_media(self) -> Self {
        Self {
            are_of_media: true,
            ..self
        }
    }

    /// Checks the conditions against the entity tag of a resource, quotes included. `None` if the
    /// resource does not exist.
    fn check(&self, etag: Option<&str>) -> Result<(), Rejection> {
        if let Some(are_asked) = self.are_asked {
            // Relaxed: the flag is read by the same task.
            are_asked.store(true, Ordering::Relaxed);
        }
        let Some((http_method, headers)) = self.head.filter(|_| !self.are_of_media) else {
            return Ok(());
        };
        let etag = etag.and_then(ETag::parse);
        let validators = etag.map(|etag| Validators {
            etag,
            modified: None,
        });
        match evaluate(headers, http_method, validators.as_ref()) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified => Err(Rejection::NotModified),
            Verdict::Failed => Err(Rejection::ConditionNotMet),
        }
    }

    /// Checks the conditions of a call whose handler has not checked them. The target has no entity
    /// tag but exists, so `*` matches it and no tag does.
    fn check_unasked(&self) -> Result<(), Rejection> {
        let Some((http_method, headers)) = self.head.filter(|_| !self.are_of_media) else {
            return Ok(());
        };
        if self.are_asked.is_some_and(|it| it.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let is_any = |value: &http::HeaderValue| value.as_bytes().trim_ascii() == b"*";
        let any_of = |name| headers.get_all(name).iter().any(is_any);
        // A POST creates a resource, which does not exist yet.
        let changes =
            [HttpMethod::PUT, HttpMethod::PATCH, HttpMethod::DELETE].contains(http_method);
        let is_other = headers.contains_key(IF_MATCH) && !any_of(IF_MATCH);
        if is_other || (changes && any_of(IF_NONE_MATCH)) {
            return Err(Rejection::ConditionNotMet);
        }
        Ok(())
    }

    fn own(&self, name: &str) -> Result<Option<&'a str>, Rejection> {
        let Some((_, headers)) = self.head else {
            return Ok(None);
        };
        let mut values = headers.get_all(name).into_iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        match (value.to_str(), values.next()) {
            (Ok(text), None) => Ok(Some(text.trim_ascii())),
            _ => Err(Rejection::InvalidHeader {
                header: name.to_owned(),
                problem: "must be there once".to_owned(),
            }),
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
    /// The principal may not call the method, or the call needs credentials.
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
    /// Like [`Rejection::NotFound`], with the text of Cloud Storage, by which some of its clients
    /// distinguish this error from other 404s.
    #[error("No such {what}: {id}")]
    NoSuch {
        /// Type of the resource, such as `object`.
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
        /// Message that describes the conflict.
        problem: String,
    },
    /// A field of the metadata has an invalid value.
    #[error("invalid value for field {field}: {problem}")]
    InvalidField {
        /// Path of the field.
        field: String,
        /// Message with the rule that the value breaks.
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
        /// Message with the rule that the value breaks.
        problem: String,
    },
    /// A header has an invalid value.
    #[error("invalid value for header {header}: {problem}")]
    InvalidHeader {
        /// Name of the header.
        header: String,
        /// Message with the rule that the value breaks.
        problem: String,
    },
    /// The query has a parameter that the method does not have.
    #[error("unknown parameter {parameter}: {method} has {known}")]
    UnknownParameter {
        /// Name of the parameter.
        parameter: String,
        /// Id of the method.
        method: String,
        /// Names of the query parameters of the method, or a text that says that it has none.
        known: String,
    },
    /// The call has an input that restricts, protects or decides something, and that this server
    /// does not implement.
    #[error("{input} {reason}")]
    RefusedInput {
        /// The input.
        input: Input,
        /// The status of the refusal.
        refused_as: RefusedAs,
        /// Message that gives the reason of the refusal and the remedy.
        reason: String,
    },
    /// The call is invalid, though no single field or parameter is.
    #[error("{problem}")]
    InvalidArgument {
        /// Message that names the problem.
        problem: String,
    },
    /// The method does not accept the media.
    #[error("the media is not accepted: {problem}")]
    InvalidMedia {
        /// Message with the rule that the media breaks.
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
        /// Message that describes the missing state.
        problem: String,
    },
    /// The service behind the method refuses the call.
    #[error("{message}")]
    Backend {
        /// Status of the reply: 4xx.
        status: StatusCode,
        /// Message of the service.
        message: String,
    },
    /// The service behind the method did not answer, or its answer is unusable.
    #[error("the service behind {method} failed; try again later")]
    BackendFailed {
        /// Id of the method.
        method: String,
        /// The problem, for the log.
        problem: String,
    },
    /// The handler does not implement the method.
    #[error("method {method} is described but not implemented by this server")]
    NotImplemented {
        /// Id of the method.
        method: String,
    },
    /// The service has its own reason for the refusal.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// A condition of the request, such as `If-Match`, is false.
    #[error("a condition of the request is not met: the resource has changed or does not exist")]
    ConditionNotMet,
    /// The client has this version of the resource already.
    #[error("the resource has not changed")]
    NotModified,
    /// Handlers read too much media at once.
    #[error("the server reads too much media at once; try again")]
    Busy,
    /// A limit on the resources that clients can make the server hold is reached.
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

impl FromStore for Rejection {
    fn store_error(&self) -> Option<StoreError<'_>> {
        match self {
            Self::Ledger(error) => Some(StoreError::Ledger(error)),
            Self::Vault(error) => Some(StoreError::Vault(error)),
            _ => None,
        }
    }
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

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_hidden_from_debug() {
        let answer = Answer::of(Content::Bytes {
            content_type: HeaderValue::from_static("text/plain"),
            bytes: Bytes::from_static(b"token"),
        });
        assert!(!format!("{answer:?}").contains("token"), "{answer:?}");
    }
}
