//! Why a download failed.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use http::StatusCode;
use windlass_proto::digest::Crc32c;
use windlass_proto::transfer::Refusal;

use crate::error::Kind;
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
    Line(#[source] Box<dyn StdError + Send + Sync>),
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
    pub(super) fn line(error: TransportError) -> Self {
        Self::Line(error.into())
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Exists { .. } | Self::File { .. } => Kind::Target,
            Self::InUse { .. } => Kind::Busy,
            Self::Token(_) => Kind::Token,
            Self::Line(_) => Kind::Connection,
            Self::Refused(refusal) if super::passes(refusal) => Kind::Unavailable,
            Self::Refused(_) => Kind::Refused,
            Self::TooManyRedirections | Self::BadRedirection | Self::Changed => Kind::Protocol,
            Self::Size { .. } | Self::Crc32c { .. } => Kind::Mismatch,
        }
    }

    /// The status of the reply that the download failed with, if it was one.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }
}
