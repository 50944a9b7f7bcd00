//! The table: error to status, reason, place and form.
//!
//! No arm is a wildcard, so that a new error does not compile before it has its row.

use std::borrow::Cow;

use http::StatusCode;
use windlass_proto::digest::{DigestMismatch, ExpectedDigestsError};
use windlass_proto::error::ProtocolError;
use windlass_proto::metadata::MetadataError;
use windlass_proto::related::RelatedError;
use windlass_proto::session::SessionError;
use windlass_proto::upload_type::UploadTypeError;
use windlass_store::{LedgerError, VaultError};

use super::{BodyError, Error};
use crate::handler::Rejection;

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
