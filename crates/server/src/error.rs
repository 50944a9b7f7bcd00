//! All errors that a request can have, and the table that maps each error to its reply. Errors of
//! the upload protocol are answered by the request's dialect.
//!
//! No arm of the table is a wildcard, so a new error does not compile before it has its reply.

mod of_engine;

use std::time::Duration;

use http::{Method, StatusCode};
use windlass_digest::{DigestMismatch, ExpectedDigestsError};
use windlass_engine::{Error as EngineError, Full, StoreError};
use windlass_proto::batch::BatchError;
use windlass_proto::dialect::{Condition, Dialect, Google};
use windlass_proto::error::ProtocolError;
use windlass_proto::metadata::MetadataError;
use windlass_proto::parameters::{InvalidAlt, QueryError};
use windlass_proto::related::RelatedError;
use windlass_proto::reply::ErrorReply;
use windlass_proto::session::SessionError;
use windlass_proto::upload_type::UnknownUploadType;
use windlass_rest::access::AccessError;
use windlass_rest::handler::{Input, Refusal, RefusalKind, RefusedAs, Rejection};
use windlass_rest::host::Host;
use windlass_rest::partial_response::{FieldMaskError, NoSuchField};
use windlass_store::{LedgerError, VaultError};

/// The error of a failed request. Its message is sent to the client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request breaks a rule of the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The sender is not allowed to send the request.
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
    /// The parameter `fields` names a field that the reply cannot have.
    #[error(transparent)]
    NoSuchField(#[from] NoSuchField),
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
    /// The body of a POST that stands for a method without a body is not a form.
    #[error(
        "the body of a POST with X-HTTP-Method-Override: {http_method} has parameters of the query; \
         send them as application/x-www-form-urlencoded in UTF-8, or send no body"
    )]
    NotAForm {
        /// The method that the POST stands for.
        http_method: Method,
    },
    /// Media, or a parameter of uploads, was sent to the plain URI.
    #[error("this path takes no media; upload it to the same path prefixed with /upload")]
    WrongUrlForUpload {
        /// The parameter that makes the request an upload. `None` if only its body does.
        parameter: Option<&'static str>,
    },
    /// A parameter of uploads was sent to a method that takes no media.
    #[error("this method takes no media; send it without the parameter {parameter}")]
    ParameterOfUploads {
        /// The parameter.
        parameter: &'static str,
    },
    /// The method of an upload takes no media.
    #[error(
        "method {method} takes no media; call it without /upload before its path, and without the headers of an upload"
    )]
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
    /// The range that a download asks for has no byte of the media.
    #[error(
        "the requested range cannot be satisfied: the media has {length} bytes; ask for bytes \
         before its end"
    )]
    RangeNotSatisfiable {
        /// Length of the media in bytes.
        length: u64,
    },
    /// The body is not a valid batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A call in a batch is an upload or a download.
    #[error("a batch takes no uploads and no downloads of media; send a request for each")]
    MediaInBatch,
    /// A call in a batch is a batch.
    #[error("a batch cannot be part of a batch")]
    BatchInBatch,
    /// A call in a batch names another host than the batch.
    #[error("the call names the host {host}, to which its batch was not sent")]
    OtherHost {
        /// The host.
        host: String,
    },
    /// The requested host serves only media.
    #[error(
        "this host has nothing but downloads of media; send other requests to the server's own host"
    )]
    MediaOnly,
    /// A page of this origin may not call the API.
    #[error(
        "pages of {origin} may not use this API; its operator can allow the origin in the server's settings for CORS"
    )]
    OriginNotAllowed {
        /// The origin, or words for an origin that is not known.
        origin: String,
    },
    /// The request does not say for which host it is.
    #[error("the request names no host; send the header Host")]
    MissingHost,
    /// The request names more than one host.
    #[error(
        "the request names more than one host; send the header Host once, with the host of the URL"
    )]
    DoubledHost,
    /// The host in the request is malformed.
    #[error(
        "the header Host is not the name or the address of a host, with a port if there is one"
    )]
    MalformedHost,
    /// The target of the request has another scheme, or over HTTP/2 no scheme or no path.
    #[error("the target of the request is no path of http or https")]
    NoTarget,
    /// The server does not answer for the host.
    #[error(
        "this server does not answer for the host {host}; its operator can add it to `hosts` in the server's settings, or state the `public_url`"
    )]
    UnknownHost {
        /// The host.
        host: Host,
    },
    /// A preflight asks for headers that are no list of names, or too long.
    #[error(
        "Access-Control-Request-Headers must be a list of names of headers, of at most {limit} bytes"
    )]
    RequestedHeaders {
        /// Maximum length in bytes.
        limit: usize,
    },
    /// A page continues a session that was started by a page of another origin.
    #[error(
        "the upload session belongs to pages of another origin, where it was started; start a new upload"
    )]
    OtherOrigin,
    /// The method does not accept the type of the media.
    #[error("media type {content_type} is not accepted; the method accepts {accepted}")]
    MediaType {
        /// Type of the media.
        content_type: String,
        /// Types that the method accepts.
        accepted: String,
    },
    /// The type of the media is too long, or no line of text.
    #[error("the media type must be at most {limit} bytes without control characters")]
    MalformedMediaType {
        /// Maximum length in bytes.
        limit: usize,
    },
    /// The signed link of the request does not allow the type of the media.
    #[error("media type {content_type} is not accepted; the signed link allows {accepted}")]
    LinkMediaType {
        /// Type of the media.
        content_type: String,
        /// Types that the link allows.
        accepted: String,
    },
    /// The media exceeds the limit that the signed link sets.
    #[error("the media exceeds the limit of {limit} bytes that the signed link sets")]
    LinkMediaSize {
        /// Maximum length in bytes.
        limit: u64,
    },
    /// The single-use signed link has been used.
    #[error("the signed link counts once and has been used; get a new one")]
    LinkUsed,
    /// The signed link is for another purpose than the request.
    #[error("the signed link is only for {purpose}; this request is something else")]
    LinkPurpose {
        /// The purpose of the link.
        purpose: &'static str,
    },
    /// The body of a request to a session did not arrive completely. The received bytes are kept.
    #[error("the request was interrupted: {0}; query the committed range and continue from there")]
    Interrupted(BodyError),
    /// The address or the principal has sent too many requests.
    #[error("too many requests; try again in {retry_after} s")]
    TooManyRequests {
        /// Seconds until the next request is admitted.
        retry_after: u32,
    },
    /// The application has not started the server.
    #[error("the server has not been started by the application that embeds it")]
    NotStarted,
    /// The engine refuses the request or has failed.
    #[error(transparent)]
    Engine(EngineError),
}

/// Why a body could not be read completely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// No byte arrived for too long.
    #[error("no byte of the body arrived for {0:?}")]
    Stalled(Duration),
    /// The client sends more slowly than the limit.
    #[error("the body arrives more slowly than {min_rate} bytes a second")]
    Slow {
        /// Minimum number of bytes per second.
        min_rate: u64,
    },
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

impl Error {
    /// Whether the request is refused because of its credentials.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(
            self,
            Self::Access(_)
                | Self::Rejection(Rejection::Access(_))
                | Self::LinkUsed
                | Self::LinkPurpose { .. }
        )
    }

    /// Chooses the error for a refused caller that may read public resources. An error about a
    /// public resource's state or about the server is returned unchanged. Any other error is
    /// replaced by the refusal, because it would reveal which resources exist.
    pub(crate) fn or_refusal(self, refusal: &AccessError) -> Self {
        let status = error_reply(&Google, &self).status;
        let is_of_public = [
            StatusCode::NOT_MODIFIED,
            StatusCode::PRECONDITION_FAILED,
            StatusCode::RANGE_NOT_SATISFIABLE,
        ];
        // An unimplemented input or method says nothing about the server's state.
        let is_state = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
        if is_state || is_of_public.contains(&status) {
            return self;
        }
        Self::Access(refusal.clone())
    }

    /// Whether the principal has reached its quota, or the caller its limit on copies.
    pub(crate) fn is_over_quota(&self) -> bool {
        matches!(self, Self::Engine(error) if error.is_over_quota())
    }

    /// Whether the work must wait for the quota of a principal: the quota has no room, or its source
    /// does not answer.
    pub(crate) fn waits_for_quota(&self) -> bool {
        self.is_over_quota() || matches!(self, Self::Engine(EngineError::QuotaUnknown))
    }

    /// Returns the problem with the request's body, if this error is about the body.
    pub(crate) fn of_body(&self) -> Option<&BodyError> {
        match self {
            Self::Body(error) | Self::Interrupted(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the client has broken off the body of the request, so that it reads no reply.
    pub(crate) fn is_broken_off(&self) -> bool {
        matches!(self.of_body(), Some(BodyError::Broken))
    }

    /// Whether the body of the request broke off or stalled, so that its client has probably gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(
            self.of_body(),
            Some(BodyError::Stalled(_) | BodyError::Slow { .. } | BodyError::Broken)
        )
    }
}

fn http_methods(methods: &[Method]) -> String {
    let names: Vec<_> = methods.iter().map(Method::as_str).collect();
    names.join(", ")
}

// The protocol crate's functions return these parts of `ProtocolError`, so `?` needs these
// conversions.
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
    QueryError,
    RelatedError,
    SessionError,
    UnknownUploadType,
);

// The stores and the pools return these parts of `EngineError`.
/// Converts the parts of an [`EngineError`].
macro_rules! engine_errors {
    ($($part:ty),* $(,)?) => {$(
        impl From<$part> for Error {
            fn from(error: $part) -> Self {
                Self::Engine(error.into())
            }
        }
    )*};
}

engine_errors!(Full, LedgerError, VaultError);

/// Returns the reply to `error` in a dialect.
pub(crate) fn error_reply(dialect: &dyn Dialect, error: &Error) -> ErrorReply {
    let other = |reply| dialect.other_error(reply);
    match error {
        Error::Protocol(error) => dialect.protocol_error(error),
        Error::Access(error) => other(access(error)),
        Error::Rejection(error) => other(rejection(error)),
        Error::Body(error) => other(body(error)),
        Error::FieldMask(_) | Error::NoSuchField(_) => {
            other(bad("invalidParameter").parameter("fields"))
        }
        Error::NoSuchPath { .. } | Error::NoMedia | Error::MediaOnly => {
            other(ErrorReply::json(StatusCode::NOT_FOUND, "notFound"))
        }
        Error::RangeNotSatisfiable { .. } => other(range_not_satisfiable()),
        Error::MethodNotAllowed { .. } => other(ErrorReply::json(
            StatusCode::METHOD_NOT_ALLOWED,
            "methodNotAllowed",
        )),
        Error::WrongUrlForUpload { parameter } => other(match parameter {
            Some(parameter) => bad("wrongUrlForUpload").parameter(*parameter),
            None => bad("wrongUrlForUpload").header("Content-Type"),
        }),
        Error::ParameterOfUploads { parameter } => other(bad("notUpload").parameter(*parameter)),
        Error::NotUpload { .. } => other(bad("notUpload")),
        Error::NotDownload { .. } => other(bad("invalidAltValue").parameter("alt")),
        Error::NotAForm { .. }
        | Error::MediaType { .. }
        | Error::MalformedMediaType { .. }
        | Error::LinkMediaType { .. } => other(bad("badRequest").header("Content-Type")),
        Error::LinkMediaSize { limit } => {
            dialect.protocol_error(&SessionError::TooLarge { limit: *limit }.into())
        }
        Error::LinkUsed | Error::LinkPurpose { .. } => other(forbidden()),
        Error::Batch(error) => other(batch(error)),
        Error::MediaInBatch | Error::BatchInBatch | Error::OtherHost { .. } => {
            other(bad("badRequest"))
        }
        Error::OriginNotAllowed { .. } | Error::OtherOrigin => other(forbidden().header("Origin")),
        Error::MissingHost | Error::DoubledHost | Error::MalformedHost => {
            other(bad("badRequest").header("Host"))
        }
        Error::NoTarget => other(bad("badRequest")),
        Error::UnknownHost { .. } => other(
            ErrorReply::json(StatusCode::MISDIRECTED_REQUEST, "misdirectedRequest").header("Host"),
        ),
        Error::RequestedHeaders { .. } => {
            other(bad("badRequest").header("Access-Control-Request-Headers"))
        }
        Error::Interrupted(error) => interrupted(dialect, error),
        Error::TooManyRequests { retry_after } => other(ErrorReply::too_many(*retry_after)),
        Error::NotStarted => unavailable(dialect, 2),
        Error::Engine(error) => engine(dialect, error),
    }
}

/// Returns the reply to an error of the engine. Its times come from [`EngineError::retry_after`].
fn engine(dialect: &dyn Dialect, error: &EngineError) -> ErrorReply {
    let other = |reply| dialect.other_error(reply);
    match error {
        EngineError::Superseded => dialect.condition(Condition::Superseded),
        EngineError::MediaLost(_) => dialect.condition(Condition::MediaLost),
        EngineError::NotFound => dialect.condition(Condition::SessionNotFound),
        EngineError::OtherDialect => dialect.condition(Condition::OtherDialect),
        EngineError::FinishPending => dialect.condition(Condition::FinishPending),
        EngineError::AlreadyCancelled => dialect.condition(Condition::AlreadyCancelled),
        EngineError::AlreadyFinished => dialect.condition(Condition::AlreadyFinished),
        EngineError::Session(error) => dialect.protocol_error(&(*error).into()),
        EngineError::DigestMismatch(error) => dialect.protocol_error(&(*error).into()),
        EngineError::ExpectedDigests(error) => dialect.protocol_error(&(*error).into()),
        EngineError::Interrupted(error) => engine(dialect, error),
        EngineError::Stream(_) => dialect.condition(Condition::Interrupted),
        // The server's own refusals have become errors of the server again.
        EngineError::Refused(_) => other(ErrorReply::json(
            StatusCode::INTERNAL_SERVER_ERROR,
            "backendError",
        )),
        EngineError::TooManyCopies { retry_after, .. } => other(ErrorReply::too_many(*retry_after)),
        EngineError::Busy
        | EngineError::Crowded
        | EngineError::Full(_)
        | EngineError::QuotaUnknown
        | EngineError::Draining
        | EngineError::NoSpace => unavailable(dialect, seconds(error.retry_after())),
        EngineError::Ledger(error) => other(ledger(error)),
        EngineError::Vault(error) => other(vault(error)),
    }
}

fn bad(reason: &'static str) -> ErrorReply {
    ErrorReply::json(StatusCode::BAD_REQUEST, reason)
}

fn forbidden() -> ErrorReply {
    ErrorReply::json(StatusCode::FORBIDDEN, "forbidden")
}

fn range_not_satisfiable() -> ErrorReply {
    let (status, reason) = (
        StatusCode::RANGE_NOT_SATISFIABLE,
        "requestedRangeNotSatisfiable",
    );
    ErrorReply::json(status, reason).header("Range")
}

fn unavailable(dialect: &dyn Dialect, retry_after: u32) -> ErrorReply {
    dialect.condition(Condition::Unavailable { retry_after })
}

fn batch(error: &BatchError) -> ErrorReply {
    match error {
        BatchError::NotMixed => bad("badRequest").header("Content-Type"),
        BatchError::NoCalls | BatchError::TooManyCalls => bad("badRequest"),
        BatchError::Multipart(_) | BatchError::Call { .. } => bad("parseError"),
    }
}

fn access(error: &AccessError) -> ErrorReply {
    match error {
        AccessError::CredentialsMissing => {
            ErrorReply::json(StatusCode::UNAUTHORIZED, "required").header("Authorization")
        }
        AccessError::CredentialsInvalid | AccessError::CredentialsExpired => {
            ErrorReply::json(StatusCode::UNAUTHORIZED, "authError").header("Authorization")
        }
        AccessError::CredentialsMisplaced { .. } => bad("badRequest").header("Authorization"),
        AccessError::Unverifiable => ErrorReply::unavailable(5),
        AccessError::InsufficientScope { .. } => {
            ErrorReply::json(StatusCode::FORBIDDEN, "insufficientPermissions")
        }
        AccessError::ForeignPage => forbidden().header("Origin"),
        AccessError::Forbidden { .. } => forbidden(),
    }
}

fn rejection(error: &Rejection) -> ErrorReply {
    match error {
        Rejection::Access(error) => access(error),
        Rejection::NotFound { .. } | Rejection::NoSuch { .. } => {
            ErrorReply::json(StatusCode::NOT_FOUND, "notFound")
        }
        Rejection::AlreadyExists { .. } => ErrorReply::json(StatusCode::CONFLICT, "duplicate"),
        Rejection::Conflict { .. } => ErrorReply::json(StatusCode::CONFLICT, "conflict"),
        Rejection::InvalidField { .. } | Rejection::InvalidMedia { .. } => bad("invalid"),
        Rejection::MissingField { .. } => bad("required"),
        Rejection::InvalidArgument { .. } => bad("invalidArgument"),
        Rejection::TooLarge { .. } => {
            ErrorReply::json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge")
        }
        Rejection::FailedPrecondition { .. } => bad("failedPrecondition"),
        Rejection::InvalidParameter { parameter, .. }
        | Rejection::UnknownParameter { parameter, .. } => {
            bad("invalidParameter").parameter(parameter.clone())
        }
        Rejection::InvalidHeader { header, .. } => bad("invalid").header(header.clone()),
        Rejection::RefusedInput {
            input, refused_as, ..
        } => {
            let reply = match refused_as {
                RefusedAs::Invalid => bad("invalidParameter"),
                RefusedAs::NotImplemented => {
                    ErrorReply::json(StatusCode::NOT_IMPLEMENTED, "notImplemented")
                }
            };
            match input {
                Input::Parameter(name) => reply.parameter(name.clone()),
                Input::Header(name) => reply.header(name.clone()),
            }
        }
        Rejection::Backend { status, .. } => ErrorReply::json(*status, reason_of(*status)),
        Rejection::BackendFailed { .. } => ErrorReply::unavailable(5),
        Rejection::NotImplemented { .. } => {
            ErrorReply::json(StatusCode::NOT_IMPLEMENTED, "notImplemented")
        }
        Rejection::Refused(refusal) => refused(refusal),
        Rejection::ConditionNotMet => {
            ErrorReply::json(StatusCode::PRECONDITION_FAILED, "conditionNotMet")
        }
        Rejection::NotModified => ErrorReply::empty(StatusCode::NOT_MODIFIED, "notModified"),
        Rejection::Busy | Rejection::Full(_) => ErrorReply::unavailable(1),
        Rejection::MediaLost(_) => ErrorReply::json(StatusCode::GONE, "gone"),
        Rejection::Ledger(error) => ledger(error),
        Rejection::Vault(error) => vault(error),
    }
}

/// The reply to a call that an API refuses with a reason of its service.
fn refused(refusal: &Refusal) -> ErrorReply {
    let status = match refusal.kind {
        RefusalKind::Invalid => StatusCode::BAD_REQUEST,
        RefusalKind::Forbidden => StatusCode::FORBIDDEN,
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::Exists => StatusCode::CONFLICT,
        RefusalKind::NotImplemented => StatusCode::NOT_IMPLEMENTED,
    };
    ErrorReply {
        domain: refusal.domain,
        location: refusal.location.clone(),
        ..ErrorReply::json(status, refusal.reason)
    }
}

/// The reason for a status that a service of the operator has chosen.
fn reason_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "notFound",
        StatusCode::CONFLICT => "conflict",
        StatusCode::GONE => "gone",
        StatusCode::PRECONDITION_FAILED => "conditionNotMet",
        StatusCode::TOO_MANY_REQUESTS => "rateLimitExceeded",
        _ => "badRequest",
    }
}

fn body(error: &BodyError) -> ErrorReply {
    match error {
        BodyError::Stalled(_) | BodyError::Slow { .. } | BodyError::Broken => {
            ErrorReply::json(StatusCode::REQUEST_TIMEOUT, "uploadBrokenConnection")
        }
        BodyError::Malformed => bad("badRequest").header("Transfer-Encoding"),
        BodyError::NotGzip | BodyError::Expands { .. } => {
            bad("badRequest").header("Content-Encoding")
        }
        BodyError::TooLong { .. } => {
            ErrorReply::json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge")
        }
    }
}

/// Like [`body`], but with 503 instead of 408: all clients continue after a 503, but not all after
/// a 408.
fn interrupted(dialect: &dyn Dialect, error: &BodyError) -> ErrorReply {
    match error {
        BodyError::Stalled(_) | BodyError::Slow { .. } | BodyError::Broken => {
            dialect.condition(Condition::Interrupted)
        }
        BodyError::Malformed
        | BodyError::NotGzip
        | BodyError::Expands { .. }
        | BodyError::TooLong { .. } => body(error),
    }
}

fn ledger(error: &LedgerError) -> ErrorReply {
    let retry_after = seconds(StoreError::Ledger(error).retry_after());
    match error {
        LedgerError::Conflict => ErrorReply::json(StatusCode::CONFLICT, "conflict"),
        LedgerError::OverQuota => ErrorReply::over_quota(retry_after),
        LedgerError::KeyTooLong => bad("invalid"),
        LedgerError::Fenced
        | LedgerError::Held
        | LedgerError::NoSpace
        | LedgerError::Unavailable(_)
        | LedgerError::Unknown(_)
        | LedgerError::Fault(_) => ErrorReply::unavailable(retry_after),
        LedgerError::TooMuchMedia | LedgerError::Unreadable => {
            ErrorReply::json(StatusCode::INTERNAL_SERVER_ERROR, "backendError")
        }
    }
}

fn vault(error: &VaultError) -> ErrorReply {
    match error {
        VaultError::NoSpace { .. } | VaultError::Fault(_) | VaultError::Unavailable { .. } => {
            ErrorReply::unavailable(seconds(StoreError::Vault(error).retry_after()))
        }
        VaultError::Missing(_) | VaultError::Damaged { .. } => {
            ErrorReply::json(StatusCode::INTERNAL_SERVER_ERROR, "backendError")
        }
    }
}

/// Returns a time of the engine for `Retry-After`: at least one second.
fn seconds(retry_after: Option<Duration>) -> u32 {
    let seconds = retry_after.map_or(1, |time| time.as_secs());
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}
