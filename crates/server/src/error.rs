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

use crate::capacity::Full;
use crate::handler::Rejection;
use crate::partial_response::FieldMaskError;

/// Why a request did not get what it asked for. The text is what the client reads.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request breaks a rule of the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The API refuses it.
    #[error(transparent)]
    Rejection(#[from] Rejection),
    /// Its body did not arrive whole.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Its `fields` parameter is malformed.
    #[error("invalid value for parameter fields: {0}")]
    FieldMask(#[from] FieldMaskError),
    /// No method has this path.
    #[error("no method of any API here has the path {path}")]
    NoSuchPath {
        /// The path.
        path: String,
    },
    /// Methods have this path, but with other verbs.
    #[error("the path takes {}", http_methods(allowed))]
    MethodNotAllowed {
        /// Their verbs.
        allowed: Vec<Method>,
    },
    /// Media was sent to the plain URI.
    #[error("media is uploaded to the same path prefixed with /upload")]
    WrongUrlForUpload,
    /// An upload was tried with a method that takes no media.
    #[error("method {method} takes no media; use its path without /upload")]
    NotUpload {
        /// The method's id.
        method: String,
    },
    /// `alt=media` on a method that has no media to give.
    #[error("method {method} has no media to download")]
    NotDownload {
        /// The method's id.
        method: String,
    },
    /// The resource has no media.
    #[error("the resource has no media")]
    NoMedia,
    /// The session does not exist, or not any more.
    #[error("the upload session does not exist or has expired; start a new upload")]
    SessionNotFound,
    /// The type of the media is not accepted.
    #[error("media type {content_type} is not accepted; accepted are {accepted}")]
    MediaType {
        /// What was declared.
        content_type: String,
        /// What the method takes.
        accepted: String,
    },
    /// The body of a request to a session did not arrive whole. What arrived is kept.
    #[error(
        "the request was interrupted: {0}; ask for the committed range and continue from there"
    )]
    Interrupted(BodyError),
    /// A newer request has taken the session over.
    #[error("a newer request to the same upload session has taken over")]
    Superseded,
    /// An older request on the session does not come to an end.
    #[error("an older request to the same upload session is still being stored; try again")]
    Busy,
    /// Too many calls want to change the same.
    #[error("too many calls change the same at once; try again")]
    Crowded,
    /// All bytes are there, the resource is not made yet.
    #[error("the upload is complete and its resource is being made; ask again")]
    FinishPending,
    /// A finished upload was to be cancelled.
    #[error("the upload is finished and cannot be cancelled; delete its resource instead")]
    AlreadyFinished,
    /// The server is stopping.
    #[error("the server is stopping; continue with the next one")]
    Draining,
    /// A limit on what clients can make the server hold is reached.
    #[error(transparent)]
    Full(#[from] Full),
    /// The disk is nearly full.
    #[error("no space is left for new uploads; try again later")]
    NoSpace,
    /// The media of a session or a resource is gone from the ledger.
    #[error("media {0} is lost")]
    MediaLost(MediaId),
    /// The ledger did not do what it was asked.
    #[error("the server cannot store anything now; try again")]
    Ledger(#[from] LedgerError),
    /// The vault did not do what it was asked.
    #[error("the server cannot store or read media now; try again")]
    Vault(#[from] VaultError),
}

/// Why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Nothing came for too long.
    #[error("the body stood still for {0:?}")]
    Stalled(Duration),
    /// The connection broke.
    #[error("the connection broke before the end of the body")]
    Broken,
    /// The chunked coding is malformed.
    #[error("the body is not valid in the chunked transfer coding that Transfer-Encoding names")]
    Malformed,
    /// It is not the gzip stream that it claims to be.
    #[error("the body is not valid gzip although Content-Encoding says so")]
    NotGzip,
    /// It expands beyond reason.
    #[error("the gzip body expands more than {limit} times")]
    Expands {
        /// The most that is allowed.
        limit: u64,
    },
    /// It is longer than what the server is willing to hold.
    #[error("the body is longer than {limit} bytes")]
    TooLong {
        /// The most that is allowed.
        limit: usize,
    },
}

fn http_methods(methods: &[Method]) -> String {
    let names: Vec<_> = methods.iter().map(Method::as_str).collect();
    names.join(", ")
}

/// The parts of a [`ProtocolError`] come from many functions; each is one all the same.
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

/// How an error is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The status.
    pub(crate) status: StatusCode,
    /// Google's `errors[].reason`, which the retry logic of client libraries reads.
    pub(crate) reason: &'static str,
    /// What in the request is wrong, where one thing is.
    pub(crate) location: Option<Location>,
    /// How the reply's body is written.
    pub(crate) form: Form,
    /// Seconds for `Retry-After`.
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

/// How an error is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Google's JSON error object.
    Json,
    /// The message alone. Errors of sessions have this form: a client library tells a gap from a
    /// passing fault by it.
    Text,
    /// Nothing.
    Empty,
}

/// Not in the registry of status codes; what Google's services answer to a cancel.
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

/// How `error` is answered.
pub(crate) fn row(error: &Error) -> Row {
    match error {
        Error::Protocol(error) => protocol(error),
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
        Error::Draining => unavailable(2),
        Error::NoSpace => unavailable(30),
        Error::MediaLost(_) => json(StatusCode::GONE, "gone"),
        Error::Ledger(error) => ledger(error),
        Error::Vault(error) => vault(error),
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

/// As for other bodies, but 503 in place of 408: all clients go on after a 503, not all after a 408.
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
