//! Errors of requests, in the protocol's terms.
//!
//! The `Display` texts are sent to clients. The server chooses status and reason.

use http::Method;
use windlass_digest::{Algorithm, DigestMismatch, ExpectedDigestsError};

use crate::concat::ConcatError;
use crate::metadata::MetadataError;
use crate::parameters::{InvalidAlt, QueryError};
use crate::related::RelatedError;
use crate::session::SessionError;
use crate::upload_command::UploadCommandError;
use crate::upload_type::UnknownUploadType;

/// A request that breaks a rule of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The method is not allowed on this URI.
    #[error(
        "The request method is not allowed here; allowed are {}.",
        names(allowed)
    )]
    MethodNotAllowed {
        /// The allowed methods.
        allowed: &'static [Method],
    },
    /// The decoded path is not UTF-8.
    #[error("The path is not valid UTF-8.")]
    PathNotUtf8,
    /// A parameter is not UTF-8, or there are too many.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The upload type is unknown.
    #[error(transparent)]
    UploadType(#[from] UnknownUploadType),
    /// The header `X-Goog-Upload-Command` is missing, unknown or not for this URI.
    #[error(transparent)]
    UploadCommand(#[from] UploadCommandError),
    /// The parameter `alt` has an unknown value.
    #[error(transparent)]
    Alt(#[from] InvalidAlt),
    /// A request that needs a body does not state its length.
    #[error("The request needs a Content-Length header or chunked transfer coding.")]
    LengthRequired,
    /// The length of the body is stated in two ways.
    #[error(
        "The request has both a Transfer-Encoding and a Content-Length header, or Content-Length twice."
    )]
    AmbiguousLength,
    /// The transfer coding is not `chunked`.
    #[error("The Transfer-Encoding header names a coding other than chunked.")]
    TransferEncoding,
    /// The content coding is not `gzip`.
    #[error("The Content-Encoding header names a coding other than gzip.")]
    ContentEncoding,
    /// A header's value does not follow its grammar.
    #[error("Invalid value for header {name}.")]
    InvalidHeader {
        /// Name of the header in its usual spelling.
        name: &'static str,
    },
    /// A header that the request needs is missing.
    #[error("The header {name} is missing.")]
    MissingHeader {
        /// Name of the header in its usual spelling.
        name: &'static str,
    },
    /// The request states no version of the protocol, or one that the server does not speak.
    #[error("The header {header} must name a version that this server speaks: {supported}.")]
    UnsupportedVersion {
        /// Name of the header in its usual spelling.
        header: &'static str,
        /// The version.
        supported: &'static str,
    },
    /// The body of a request to a session has another type than a part of the media has.
    #[error("The Content-Type of a request that uploads must be {expected}.")]
    PartType {
        /// The type.
        expected: &'static str,
    },
    /// Data was sent to the URI that starts sessions.
    #[error(
        "A request that starts an upload has a Content-Range header; send the data to the session's URI."
    )]
    DataOnStart,
    /// A request that concatenates partial uploads is malformed.
    #[error(transparent)]
    Concat(#[from] ConcatError),
    /// The multipart document is malformed.
    #[error(transparent)]
    Related(#[from] RelatedError),
    /// The metadata is not a JSON object.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A request to a session cannot be read. The session is as it was.
    #[error(transparent)]
    ToSession(Box<ProtocolError>),
    /// The session refuses the request.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The stated digests are malformed or contradict each other.
    #[error(transparent)]
    ExpectedDigests(#[from] ExpectedDigestsError),
    /// The body of the request is not what its digests say, or they cannot be checked.
    #[error(transparent)]
    BodyDigest(#[from] BodyDigestError),
    /// The media does not have the stated digest.
    #[error(transparent)]
    DigestMismatch(#[from] DigestMismatch),
}

/// Why a body does not count, or cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyDigestError {
    /// The field cannot be parsed.
    #[error("The {field} is malformed.")]
    Malformed {
        /// Name of the field.
        field: &'static str,
    },
    /// The field states only digests by unknown algorithms.
    #[error("The {field} has none of the algorithms that can be checked: {known}.")]
    Unsupported {
        /// Name of the field.
        field: &'static str,
        /// Names of the known algorithms.
        known: &'static str,
    },
    /// The body has a content coding.
    #[error("The {field} covers compressed bytes, which are not stored.")]
    OfCodedBytes {
        /// Name of the field.
        field: &'static str,
    },
    /// The field was announced for the trailer section, and is not there.
    #[error("The {field} that the Trailer header announces did not come.")]
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// The body has another digest.
    #[error("The body does not have the {algorithm} digest that the {field} states.")]
    Mismatch {
        /// Name of the field.
        field: &'static str,
        /// The algorithm of the digest.
        algorithm: Algorithm,
    },
}

impl BodyDigestError {
    /// Name of the field.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Malformed { field }
            | Self::Unsupported { field, .. }
            | Self::OfCodedBytes { field }
            | Self::Missing { field }
            | Self::Mismatch { field, .. } => field,
        }
    }
}

fn names(methods: &[Method]) -> String {
    methods
        .iter()
        .map(Method::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}
