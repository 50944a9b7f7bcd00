//! Errors of downloads.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use http::StatusCode;
use windlass_proto::digest::{Crc32c, Md5};
use windlass_proto::transfer::Refusal;

use crate::token::TokenError;
use crate::transport::TransportError;

/// Why a download failed. No variant shows the query of a URL, which may hold credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The target exists and must not be replaced.
    #[error("{} already exists", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// Another process downloads to the same target.
    #[error("another process is writing {}", path.display())]
    InUse {
        /// The file that the process writes.
        path: PathBuf,
    },
    /// A file that no download created has the name `TARGET.part` or `TARGET.part.json`. A download
    /// writes the received bytes to the former, and to the latter what it needs to continue later.
    #[error("{} is in the way: no download created it", path.display())]
    UnrelatedFile {
        /// The file, which was not changed.
        path: PathBuf,
    },
    /// `TARGET.part` belongs to a download of another URL.
    #[error("{} is in the way: it belongs to a download of another URL", path.display())]
    OtherUrl {
        /// The file, which was not changed.
        path: PathBuf,
    },
    /// A link, a directory or another special file has the name `TARGET.part` or
    /// `TARGET.part.json`. It is never replaced.
    #[error("{} is in the way: it is not a regular file", path.display())]
    NotAFile {
        /// The path, which was not changed.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        source: io::Error,
    },
    /// No token is available.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The connection cannot be established, or breaks repeatedly.
    #[error("{0}")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
    /// The server refuses the request.
    #[error("the server refused the request: {0}")]
    Refused(Box<Refusal>),
    /// The server redirects too often.
    #[error("the server redirects too often")]
    TooManyRedirections,
    /// A redirection has no valid target, a target that is neither HTTP nor HTTPS, or leads from
    /// HTTPS to HTTP.
    #[error("the server redirects to an address that is not followed")]
    BadRedirection,
    /// The media differs from that of the previous request, each time it is requested.
    #[error("the media changes each time that it is requested")]
    Changed,
    /// The response is neither the media nor a newer version of it: it is an HTML page, or it lacks
    /// an `ETag`, which the media had.
    #[error(
        "the response is not the media, but perhaps the login page of a network; {} has the bytes received before",
        path.display()
    )]
    NotTheMedia {
        /// The file with the bytes received so far.
        path: PathBuf,
    },
    /// The media is encoded although no encoding was requested. The digests that the server states
    /// would not match the received bytes.
    #[error("the server encodes the media ({encoding}) although no encoding was requested")]
    Encoded {
        /// The encoding that the server states.
        encoding: String,
    },
    /// The body is longer than the head announces.
    #[error("the server sent more bytes than it announced")]
    TooLong,
    /// The media does not have the stated size.
    #[error("received {received} bytes instead of {expected}")]
    Size {
        /// Size that the server states.
        expected: u64,
        /// Number of bytes received.
        received: u64,
    },
    /// The media does not have the stated CRC32C.
    #[error("the media has the CRC32C {received} instead of {expected}")]
    Crc32c {
        /// CRC32C that the server or the caller states.
        expected: Crc32c,
        /// CRC32C of the received bytes.
        received: Crc32c,
    },
    /// The media does not have the stated MD5.
    #[error("the media has the MD5 {received} instead of {expected}")]
    Md5 {
        /// MD5 that the server states.
        expected: Md5,
        /// MD5 of the received bytes.
        received: Md5,
    },
}

impl DownloadError {
    pub(super) fn connection(error: TransportError) -> Self {
        Self::Connection(error.into())
    }

    /// Returns whether the error is a refusal that may be temporary.
    pub(crate) fn is_transient_refusal(&self) -> bool {
        matches!(self, Self::Refused(refusal) if super::is_transient(refusal))
    }

    /// Returns the status of the response that the download failed with, if any.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// Returns the `reason` of Google's error object, if the server sent one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.reason.as_deref(),
            _ => None,
        }
    }
}
