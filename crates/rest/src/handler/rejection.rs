//! Why a handler refuses a call.

use http::StatusCode;
use windlass_engine::{FromStore, Full, StoreError};
use windlass_store::{LedgerError, MediaId, VaultError};

use super::{Input, Refusal, RefusedAs};
use crate::access::AccessError;

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
