//! Why a handler refuses a call.

use windlass_store::{LedgerError, MediaId, VaultError};

use crate::capacity::Full;

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
