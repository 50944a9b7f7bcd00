//! Why a download failed.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use http::StatusCode;
use windlass_proto::digest::Crc32c;
use windlass_proto::transfer::Refusal;

use crate::token::TokenError;
use crate::transport::TransportError;

/// Why a download failed. No variant shows the query of a URL, which may hold credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The target exists and is not to be replaced.
    #[error("{} exists already", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// Another process downloads to the same target.
    #[error("another process is writing {}", path.display())]
    InUse {
        /// The file that it writes.
        path: PathBuf,
    },
    /// A file of unknown origin is where the bytes, or what is known of them, would go.
    #[error("{} is in the way: no download has left it", path.display())]
    UnknownOrigin {
        /// The file, which is as it was.
        path: PathBuf,
    },
    /// What an earlier download of another URL left is where the bytes would go.
    #[error("{} is in the way: it is a part of what another URL has", path.display())]
    OtherUrl {
        /// The file, which is as it was.
        path: PathBuf,
    },
    /// A link, a directory or the like is where the bytes would go. It is never replaced.
    #[error("{} is in the way: it is not a regular file", path.display())]
    NotAFile {
        /// What is there, as it was.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// No connection, or none that lasts.
    #[error("{0}")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
    /// The server says no.
    #[error("the server refuses: {0}")]
    Refused(Box<Refusal>),
    /// One redirection after the other.
    #[error("the server redirects too often")]
    TooManyRedirections,
    /// A redirection to nowhere, to another scheme than HTTP, or out of TLS.
    #[error("the server redirects to where it is not followed")]
    BadRedirection,
    /// The media is another one than the one that was begun, each time it is asked for.
    #[error("the server has other media each time")]
    Changed,
    /// What came is no later state of the media either: a page, or without the tag that it had.
    #[error(
        "the reply is not the media that was begun, but perhaps the login page of a network; {} has what came before",
        path.display()
    )]
    NotTheMedia {
        /// The file with what came of the media.
        path: PathBuf,
    },
    /// The media is in an encoding that was not asked for, and it would not be what the digests are of.
    #[error("the server encodes the media ({encoding}), though it was asked not to")]
    Encoded {
        /// What the server says.
        encoding: String,
    },
    /// More than the head of the reply announces.
    #[error("the server sends more than it announces")]
    TooLong,
    /// Other than the size that was stated.
    #[error("{received} bytes came of {expected}")]
    Size {
        /// The size that the server states.
        expected: u64,
        /// The size of what came.
        received: u64,
    },
    /// Other than the digest that was stated.
    #[error("the media has the CRC32C {received} instead of {expected}")]
    Crc32c {
        /// The digest that the server, or the caller, states.
        expected: Crc32c,
        /// The digest of what came.
        received: Crc32c,
    },
}

impl DownloadError {
    pub(super) fn connection(error: TransportError) -> Self {
        Self::Connection(error.into())
    }

    /// Whether another run may succeed, because the server refused the download for the moment.
    pub(crate) fn is_transient_refusal(&self) -> bool {
        matches!(self, Self::Refused(refusal) if super::is_transient(refusal))
    }

    /// The status of the reply that the download failed with, if it was one.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// The `reason` of Google's error object, if the server gave one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.reason.as_deref(),
            _ => None,
        }
    }
}
