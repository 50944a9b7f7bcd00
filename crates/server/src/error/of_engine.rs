//! Errors of the server as errors of the engine, and back: the server's completion and its streams
//! of media refuse by errors of the server.

use windlass_engine::{Error as EngineError, FromStore, Refusal, StoreError};
use windlass_rest::access::AccessError;
use windlass_rest::handler::Rejection;

use super::Error;

impl FromStore for Error {
    fn store_error(&self) -> Option<StoreError<'_>> {
        match self {
            Self::Engine(error) => error.store_error(),
            Self::Rejection(rejection) => rejection.store_error(),
            _ => None,
        }
    }
}

impl Refusal for Error {
    fn is_permanent(&self) -> bool {
        match self {
            Self::Protocol(_)
            | Self::MediaType { .. }
            | Self::MalformedMediaType { .. }
            | Self::FieldMask(_)
            | Self::LinkMediaType { .. }
            | Self::LinkMediaSize { .. }
            | Self::LinkUsed => true,
            Self::Rejection(rejection) => !matches!(
                rejection,
                Rejection::Ledger(_)
                    | Rejection::Vault(_)
                    | Rejection::Busy
                    | Rejection::Full(_)
                    // Not caused by the uploaded media: a later attempt succeeds once the handler
                    // accepts the principal.
                    | Rejection::Access(
                        AccessError::CredentialsMissing
                            | AccessError::CredentialsInvalid
                            | AccessError::CredentialsExpired
                            | AccessError::ForeignPage
                            | AccessError::Unverifiable
                    )
            ),
            _ => false,
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Session(error) => error.into(),
            EngineError::DigestMismatch(error) => error.into(),
            EngineError::ExpectedDigests(error) => error.into(),
            EngineError::Interrupted(error) => match Self::from(*error) {
                Self::Body(error) => Self::Interrupted(error),
                error => error,
            },
            error => error.into_refusal().unwrap_or_else(Self::Engine),
        }
    }
}

/// What the server refuses on behalf of the engine: as a completion, or as a stream of media.
impl From<Error> for EngineError {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(error) => error,
            error => Self::Refused(Box::new(error)),
        }
    }
}
