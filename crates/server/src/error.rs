//! Every error that a request can have, and the one table that says how each is answered.
//!
//! No arm of the table is a wildcard, so a new error does not compile before it has its row.

use std::borrow::Cow;
use std::time::Duration;

use http::{Method, StatusCode};
use windlass_proto::digest::{DigestMismatch, ExpectedDigestsError};
use windlass_proto::error::ProtocolError;
use windlass_proto::metadata::MetadataError;
use windlass_proto::parameters::{InvalidAlt, NotUtf8};
use windlass_proto::related::RelatedError;
use windlass_proto::session::SessionError;
use windlass_proto::upload_type::UploadTypeError;
use windlass_store::{LedgerError, MediaId, VaultError};

use crate::auth::AccessError;
use crate::capacity::Full;
use crate::handler::Rejection;
use crate::partial_response::FieldMaskError;

/// Why a request failed. Clients read the message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request breaks a rule of the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Its sender may not send it.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The API refuses it.
    #[error(transparent)]
    Rejection(#[from] Rejection),
    /// The body did not arrive completely.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The parameter `fields` is malformed.
    #[error("invalid value for parameter fields: {0}")]
    FieldMask(#[from] FieldMaskError),
    /// No method has this path.
    #[error("no API of this server has a method with the path {path}")]
    NoSuchPath {
        /// The path of the request.
        path: String,
    },
    /// Methods have this path, but with other HTTP methods.
    #[error("this path allows only {}", http_methods(allowed))]
    MethodNotAllowed {
        /// Their HTTP methods.
        allowed: Vec<Method>,
    },
    /// Media was sent to the plain URI.
    #[error("this path takes no media; upload it to the same path prefixed with /upload")]
    WrongUrlForUpload,
    /// The method of an upload takes no media.
    #[error("method {method} takes no media; use its path without /upload")]
    NotUpload {
        /// Id of the method.
        method: String,
    },
    /// `alt=media` on a method without media.
    #[error("method {method} has no media to download; leave out alt=media")]
    NotDownload {
        /// Id of the method.
        method: String,
    },
    /// The resource has no media.
    #[error("the resource has no media")]
    NoMedia,
    /// The session is unknown or has expired.
    #[error("the upload session does not exist or has expired; start a new upload")]
    SessionNotFound,
    /// The method does not accept the type of the media.
    #[error("media type {content_type} is not accepted; the method accepts {accepted}")]
    MediaType {
        /// Type of the media.
        content_type: String,
        /// Types that the method accepts.
        accepted: String,
    },
    /// The body of a request to a session did not arrive completely. The received bytes are kept.
    #[error("the request was interrupted: {0}; query the committed range and continue from there")]
    Interrupted(BodyError),
    /// A newer request has taken the session over.
    #[error("a newer request to the same upload session has taken over")]
    Superseded,
    /// An older request to the session has not ended in time.
    #[error("an older request to the same upload session is still being stored; try again")]
    Busy,
    /// Too many calls change the same resource.
    #[error("too many calls change the same resource at once; try again")]
    Crowded,
    /// All bytes are committed, and the resource is not created yet.
    #[error("the upload is complete and its resource is being created; query it again")]
    FinishPending,
    /// A finished upload cannot be cancelled.
    #[error("the upload is finished and cannot be cancelled; delete its resource instead")]
    AlreadyFinished,
    /// The application has not started the server.
    #[error("the server has not been started by the application that embeds it")]
    NotStarted,
    /// The server is stopping.
    #[error("the server is stopping; try again")]
    Draining,
    /// A limit on what clients can make the server hold is reached.
    #[error(transparent)]
    Full(#[from] Full),
    /// The disk is nearly full.
    #[error("the server's disk has no space for this request; try again later")]
    NoSpace,
    /// The ledger has lost the media of a session or a resource.
    #[error("media {0} is lost; upload it again")]
    MediaLost(MediaId),
    /// The ledger failed.
    #[error("the server cannot read or store data now; try again")]
    Ledger(#[from] LedgerError),
    /// The vault failed.
    #[error("the server cannot read or store media now; try again")]
    Vault(#[from] VaultError),
}

/// Why a body could not be read completely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// No byte arrived for too long.
    #[error("no byte of the body arrived for {0:?}")]
    Stalled(Duration),
    /// The connection broke.
    #[error("the connection broke before the end of the body")]
    Broken,
    /// The chunked coding is malformed.
    #[error("the body is not in the chunked coding that Transfer-Encoding states")]
    Malformed,
    /// The body is not the gzip stream that its header states.
    #[error("the body is not the gzip stream that Content-Encoding states")]
    NotGzip,
    /// The body exceeds the limit on its compression ratio.
    #[error("the gzip body exceeds the limit of {limit} on its compression ratio")]
    Expands {
        /// Maximum ratio.
        limit: u64,
    },
    /// The body is longer than the server holds in memory.
    #[error("the body exceeds the limit of {limit} bytes")]
    TooLong {
        /// Maximum length in bytes.
        limit: usize,
    },
}

fn http_methods(methods: &[Method]) -> String {
    let names: Vec<_> = methods.iter().map(Method::as_str).collect();
    names.join(", ")
}

// The functions of the protocol crate return these parts of `ProtocolError`, so that `?` needs them.
/// Converts the parts of a [`ProtocolError`].
macro_rules! protocol_errors {
    ($($part:ty),* $(,)?) => {$(
        impl From<$part> for Error {
            fn from(error: $part) -> Self {
                Self::Protocol(error.into())
            }
        }
    )*};
}

protocol_errors!(
    DigestMismatch,
    ExpectedDigestsError,
    InvalidAlt,
    MetadataError,
    NotUtf8,
    RelatedError,
    SessionError,
    UploadTypeError,
);

/// The answer to an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Google's `errors[].reason`, which the retry logic of client libraries reads.
    pub(crate) reason: &'static str,
    /// Part of the request that is wrong, if it is a single one.
    pub(crate) location: Option<Location>,
    /// Form of the reply's body.
    pub(crate) form: Form,
    /// `Retry-After` in seconds.
    pub(crate) retry_after: Option<u32>,
}

/// The part of a request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// A header.
    Header(&'static str),
    /// A parameter of the path or the query.
    Parameter(Cow<'static, str>),
}

/// The form of an error's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Google's JSON error object.
    Json,
    /// The message as plain text. Errors of sessions have this form: a client library tells a gap
    /// from a transient fault by it.
    Text,
    /// No body.
    Empty,
}

/// The status of a cancelled upload at Google's services. IANA's registry does not have it.
fn client_closed_request() -> StatusCode {
    StatusCode::from_u16(499).expect("499 is a valid status")
}

fn json(status: StatusCode, reason: &'static str) -> Row {
    Row {
        status,
        reason,
        location: None,
        form: Form::Json,
        retry_after: None,
    }
}

fn text(status: StatusCode, reason: &'static str) -> Row {
    Row {
        form: Form::Text,
        ..json(status, reason)
    }
}

fn empty(status: StatusCode, reason: &'static str) -> Row {
    Row {
        form: Form::Empty,
        ..json(status, reason)
    }
}

fn bad(reason: &'static str) -> Row {
    json(StatusCode::BAD_REQUEST, reason)
}

fn unavailable(retry_after: u32) -> Row {
    Row {
        retry_after: Some(retry_after),
        ..json(StatusCode::SERVICE_UNAVAILABLE, "backendError")
    }
}

impl Row {
    fn header(self, name: &'static str) -> Self {
        Self {
            location: Some(Location::Header(name)),
            ..self
        }
    }

    fn parameter(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            location: Some(Location::Parameter(name.into())),
            ..self
        }
    }
}

/// Returns the answer to `error`.
pub(crate) fn row(error: &Error) -> Row {
    match error {
        Error::Protocol(error) => protocol(error),
        Error::Access(error) => access(error),
        Error::Rejection(error) => rejection(error),
        Error::Body(error) => body(error),
        Error::FieldMask(_) => bad("invalidParameter").parameter("fields"),
        Error::NoSuchPath { .. } | Error::NoMedia | Error::SessionNotFound => {
            json(StatusCode::NOT_FOUND, "notFound")
        }
        Error::MethodNotAllowed { .. } => json(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed"),
        Error::WrongUrlForUpload => bad("wrongUrlForUpload").header("Content-Type"),
        Error::NotUpload { .. } => bad("notUpload"),
        Error::NotDownload { .. } => bad("invalidAltValue").parameter("alt"),
        Error::MediaType { .. } => bad("badRequest").header("Content-Type"),
        Error::Interrupted(error) => interrupted(error),
        Error::Superseded
        | Error::Busy
        | Error::Crowded
        | Error::FinishPending
        | Error::Full(_) => unavailable(1),
        Error::AlreadyFinished => bad("badRequest"),
        Error::Draining | Error::NotStarted => unavailable(2),
        Error::NoSpace => unavailable(30),
        Error::MediaLost(_) => json(StatusCode::GONE, "gone"),
        Error::Ledger(error) => ledger(error),
        Error::Vault(error) => vault(error),
    }
}

fn access(error: &AccessError) -> Row {
    match error {
        AccessError::CredentialsMissing => {
            json(StatusCode::UNAUTHORIZED, "required").header("Authorization")
        }
        AccessError::CredentialsInvalid => {
            json(StatusCode::UNAUTHORIZED, "authError").header("Authorization")
        }
        AccessError::Forbidden { .. } => json(StatusCode::FORBIDDEN, "forbidden"),
    }
}

fn protocol(error: &ProtocolError) -> Row {
    match error {
        ProtocolError::MethodNotAllowed { .. } => {
            json(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed")
        }
        ProtocolError::PathNotUtf8 => bad("badRequest"),
        ProtocolError::ParameterNotUtf8(error) => {
            bad("invalidParameter").parameter(error.name.clone())
        }
        ProtocolError::UploadType(UploadTypeError::Missing) => {
            bad("required").parameter("uploadType")
        }
        ProtocolError::UploadType(UploadTypeError::Unknown { .. }) => {
            bad("invalidParameter").parameter("uploadType")
        }
        ProtocolError::Alt(_) => bad("invalidAltValue").parameter("alt"),
        ProtocolError::LengthRequired => empty(StatusCode::LENGTH_REQUIRED, "required"),
        ProtocolError::AmbiguousLength => bad("badRequest").header("Content-Length"),
        ProtocolError::TransferEncoding => {
            json(StatusCode::NOT_IMPLEMENTED, "notImplemented").header("Transfer-Encoding")
        }
        ProtocolError::ContentEncoding => {
            json(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupportedMediaType")
                .header("Content-Encoding")
        }
        ProtocolError::InvalidHeader { name } => bad("invalid").header(name),
        ProtocolError::DataOnStart => bad("badRequest").header("Content-Range"),
        ProtocolError::Related(error) => related(error),
        ProtocolError::Metadata(
            MetadataError::TooManyValues { .. }
            | MetadataError::NotUtf8
            | MetadataError::NotJson { .. }
            | MetadataError::NotAnObject { .. },
        ) => bad("parseError"),
        ProtocolError::Session(error) => session(error),
        ProtocolError::ExpectedDigests(
            ExpectedDigestsError::Malformed { .. } | ExpectedDigestsError::Conflict { .. },
        )
        | ProtocolError::DigestMismatch(
            DigestMismatch::Crc32c { .. }
            | DigestMismatch::Md5 { .. }
            | DigestMismatch::Sha256 { .. },
        ) => bad("invalid"),
    }
}

fn related(error: &RelatedError) -> Row {
    match error {
        RelatedError::NotRelated => bad("invalid").header("Content-Type"),
        RelatedError::NoBoundary => bad("parseError").header("Content-Type"),
        RelatedError::TransferEncoding => bad("badRequest").header("Content-Transfer-Encoding"),
        RelatedError::MetadataTooLarge { .. } => {
            json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge")
        }
        RelatedError::PreambleTooLarge { .. }
        | RelatedError::PartHeadersTooLarge { .. }
        | RelatedError::PartHeader
        | RelatedError::Base64
        | RelatedError::TooFewParts { .. }
        | RelatedError::TooManyParts
        | RelatedError::NoFinalBoundary => bad("parseError"),
    }
}

fn session(error: &SessionError) -> Row {
    match error {
        SessionError::Cancelled => empty(client_closed_request(), "clientClosedRequest"),
        SessionError::Gone => json(StatusCode::GONE, "gone"),
        SessionError::Gap { .. } => text(StatusCode::SERVICE_UNAVAILABLE, "backendError"),
        SessionError::TooLarge { .. } => json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge"),
        SessionError::ContentRange(_)
        | SessionError::ChunkTooSmall { .. }
        | SessionError::LengthDisagrees { .. }
        | SessionError::TotalChanged { .. }
        | SessionError::Truncated { .. }
        | SessionError::EndsBeforeCommitted { .. }
        | SessionError::PastTotal { .. }
        | SessionError::QueryWithBody => {
            text(StatusCode::BAD_REQUEST, "badRequest").header("Content-Range")
        }
    }
}

fn rejection(error: &Rejection) -> Row {
    match error {
        Rejection::Access(error) => access(error),
        Rejection::NotFound { .. } => json(StatusCode::NOT_FOUND, "notFound"),
        Rejection::AlreadyExists { .. } => json(StatusCode::CONFLICT, "duplicate"),
        Rejection::Conflict { .. } => json(StatusCode::CONFLICT, "conflict"),
        Rejection::InvalidField { .. } | Rejection::InvalidMedia { .. } => bad("invalid"),
        Rejection::MissingField { .. } => bad("required"),
        Rejection::InvalidArgument { .. } => bad("invalidArgument"),
        Rejection::TooLarge { .. } => json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge"),
        Rejection::FailedPrecondition { .. } => bad("failedPrecondition"),
        Rejection::InvalidParameter { parameter, .. } => {
            bad("invalidParameter").parameter(parameter.clone())
        }
        Rejection::NotImplemented { .. } => json(StatusCode::NOT_IMPLEMENTED, "notImplemented"),
        Rejection::ConditionNotMet => json(StatusCode::PRECONDITION_FAILED, "conditionNotMet"),
        Rejection::NotModified => empty(StatusCode::NOT_MODIFIED, "notModified"),
        Rejection::Busy | Rejection::Full(_) => unavailable(1),
        Rejection::MediaLost(_) => json(StatusCode::GONE, "gone"),
        Rejection::Ledger(error) => ledger(error),
        Rejection::Vault(error) => vault(error),
    }
}

fn body(error: &BodyError) -> Row {
    match error {
        BodyError::Stalled(_) | BodyError::Broken => {
            json(StatusCode::REQUEST_TIMEOUT, "uploadBrokenConnection")
        }
        BodyError::Malformed => bad("badRequest").header("Transfer-Encoding"),
        BodyError::NotGzip | BodyError::Expands { .. } => {
            bad("badRequest").header("Content-Encoding")
        }
        BodyError::TooLong { .. } => json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge"),
    }
}

/// As [`body`], with 503 instead of 408: all clients continue after a 503, not all after a 408.
fn interrupted(error: &BodyError) -> Row {
    match error {
        BodyError::Stalled(_) | BodyError::Broken => unavailable(1),
        BodyError::Malformed
        | BodyError::NotGzip
        | BodyError::Expands { .. }
        | BodyError::TooLong { .. } => body(error),
    }
}

fn ledger(error: &LedgerError) -> Row {
    match error {
        LedgerError::Fenced => unavailable(1),
        LedgerError::Conflict => json(StatusCode::CONFLICT, "conflict"),
        LedgerError::NoSpace => unavailable(30),
        LedgerError::Busy | LedgerError::Fault(_) => unavailable(5),
        LedgerError::Unreadable => json(StatusCode::INTERNAL_SERVER_ERROR, "backendError"),
    }
}

fn vault(error: &VaultError) -> Row {
    match error {
        VaultError::NoSpace { .. } => unavailable(30),
        VaultError::Fault(_) | VaultError::Unreadable { .. } => unavailable(5),
        VaultError::Missing(_) | VaultError::Damaged { .. } => {
            json(StatusCode::INTERNAL_SERVER_ERROR, "backendError")
        }
    }
}
