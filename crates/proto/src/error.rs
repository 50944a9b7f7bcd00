//! Everything that can be wrong with a request, in the protocol's terms.
//!
//! The `Display` texts are what a client reads. Status and reason are the server's to choose.

use http::Method;

use crate::digest::{DigestMismatch, ExpectedDigestsError};
use crate::metadata::MetadataError;
use crate::parameters::{InvalidAlt, NotUtf8};
use crate::related::RelatedError;
use crate::session::SessionError;
use crate::upload_type::UploadTypeError;

/// A broken rule of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The method means nothing on this URI.
    #[error(
        "The request method is not allowed here; allowed are {}.",
        names(allowed)
    )]
    MethodNotAllowed {
        /// The methods that mean something.
        allowed: &'static [Method],
    },
    /// The path is not UTF-8 once it is decoded.
    #[error("The path is not valid UTF-8.")]
    PathNotUtf8,
    /// A parameter is not UTF-8.
    #[error(transparent)]
    ParameterNotUtf8(#[from] NotUtf8),
    /// How the media comes is missing or unknown.
    #[error(transparent)]
    UploadType(#[from] UploadTypeError),
    /// An unknown form of reply is asked for.
    #[error(transparent)]
    Alt(#[from] InvalidAlt),
    /// A request that needs a body does not say how long it is.
    #[error("The request needs a Content-Length header or chunked transfer coding.")]
    LengthRequired,
    /// The end of the body is stated in two ways.
    #[error(
        "The request has both a Transfer-Encoding and a Content-Length header, or Content-Length twice."
    )]
    AmbiguousLength,
    /// A transfer coding other than `chunked`.
    #[error("The Transfer-Encoding header names a coding other than chunked.")]
    TransferEncoding,
    /// A content coding other than `gzip`.
    #[error("The Content-Encoding header names a coding other than gzip.")]
    ContentEncoding,
    /// A header's value does not follow its grammar.
    #[error("Invalid value for header {name}.")]
    InvalidHeader {
        /// The header, as it is usually written.
        name: &'static str,
    },
    /// Data sent to the URI that starts sessions.
    #[error(
        "A request that starts an upload has a Content-Range header; send the data to the session's URI."
    )]
    DataOnStart,
    /// The multipart document is malformed.
    #[error(transparent)]
    Related(#[from] RelatedError),
    /// The metadata is not a JSON object.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The session refuses.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The digests that the client states are malformed or contradict each other.
    #[error(transparent)]
    ExpectedDigests(#[from] ExpectedDigestsError),
    /// The media has another digest than the client states.
    #[error(transparent)]
    DigestMismatch(#[from] DigestMismatch),
}

fn names(methods: &[Method]) -> String {
    methods
        .iter()
        .map(Method::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}
