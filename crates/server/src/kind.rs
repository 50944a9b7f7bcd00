//! What a method means: the contract between the server and the APIs it serves.
//!
//! A kind is a function from what happened to what shall change. It gets a [`Call`] and perhaps a
//! media, may look things up, and returns an [`Answer`]: a change set and a reply. The ledger commits the
//! change set in the same transaction that ends the upload. So a kind holds no state and cannot
//! half-finish; when somebody else was faster, it is simply asked again.

use crate::precondition::{ETag, Validators, Verdict, evaluate};
use async_trait::async_trait;
use serde_json::{Map, Value};
use windlass_discovery::{Api, Method, PathParameters};
use windlass_proto::parameters::Parameters;
use windlass_store::{Ledger, LedgerError, Media, Resource, ResourceChange, Timestamp};

/// The behaviour of one family of resources.
#[async_trait]
pub trait Kind: Send + Sync + 'static {
    /// Asked before any media is taken, so that a hopeless upload ends before it costs anything.
    /// Must not be relied on for safety: the world may change until [`Kind::run`].
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection>;

    /// Carries the call out. `media` is what was uploaded with it, already durable.
    async fn run(&self, call: &Call<'_>, media: Option<Media>) -> Result<Answer, Rejection>;

    /// The resource that the call's path names.
    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection>;
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
    pub lookup: Lookup<'a>,
    /// What the request is conditional on.
    pub conditions: Conditions<'a>,
}

impl Call<'_> {
    /// Holds the request's conditions (`If-Match` and `If-None-Match`) against the resource that it
    /// names. `etag` is the tag of the resource as it is now, quotes included.
    pub fn check_conditions(&self, etag: &str) -> Result<(), Rejection> {
        let Some((verb, headers)) = self.conditions.0 else {
            return Ok(());
        };
        let validators = ETag::parse(etag).map(|etag| Validators {
            etag,
            modified: None,
        });
        match evaluate(headers, verb, validators.as_ref()) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified => Err(Rejection::NotModified),
            Verdict::Failed => Err(Rejection::ConditionNotMet),
        }
    }
}

/// What a request is conditional on.
#[derive(Clone, Copy, Default)]
pub struct Conditions<'a>(Option<(&'a http::Method, &'a http::HeaderMap)>);

impl<'a> Conditions<'a> {
    /// The conditions in the head of a request.
    pub(crate) fn of(verb: &'a http::Method, headers: &'a http::HeaderMap) -> Self {
        Self(Some((verb, headers)))
    }
}

impl std::fmt::Debug for Conditions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Conditions")
    }
}

/// A look at the ledger that changes nothing.
#[derive(Clone, Copy)]
pub struct Lookup<'a>(&'a dyn Ledger);

impl std::fmt::Debug for Lookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

impl<'a> Lookup<'a> {
    /// A look at `ledger`.
    pub fn new(ledger: &'a dyn Ledger) -> Self {
        Self(ledger)
    }

    /// One resource.
    pub async fn resource(
        &self,
        collection: &str,
        id: &str,
    ) -> Result<Option<Resource>, Rejection> {
        Ok(self.0.resource(collection, id).await?)
    }

    /// Resources of a collection in the order of their ids; see [`Ledger::resources`].
    pub async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, Rejection> {
        Ok(self.0.resources(collection, after, limit).await?)
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

/// Why a kind refuses a call.
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
    /// A field of the metadata is wrong.
    #[error("invalid value for field {field}: {problem}")]
    InvalidField {
        /// Its name.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A parameter of the path or the query is wrong.
    #[error("invalid value for parameter {parameter}: {problem}")]
    InvalidParameter {
        /// Its name.
        parameter: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The media is not what the method takes.
    #[error("the media is not acceptable: {problem}")]
    InvalidMedia {
        /// What is wrong with it.
        problem: String,
    },
    /// The kind does not know the method.
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
    /// The ledger could not be asked.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}
