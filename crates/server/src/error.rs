//! Everything that can go wrong with a request, and the one table that says how it is answered.

use std::time::Duration;

use http::Method;
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

mod table;

pub(crate) use table::{Form, Location, Row, row};

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
