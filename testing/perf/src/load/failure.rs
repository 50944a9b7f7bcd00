//! Why a load does not count.

use std::io;

/// The failure of an upload.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The connection broke.
    #[error("{request}")]
    Connection {
        /// Method and target.
        request: String,
        /// How it broke.
        source: io::Error,
    },
    /// The server replied with an unexpected status.
    #[error("{request}: unexpected status {status}: {body}")]
    Status {
        /// Method and target.
        request: String,
        /// The status of the reply.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// The server replied before it had the whole request, or closed the connection.
    #[error("{0}: an answer came, or the end, in the middle of the upload")]
    Hasty(String),
    /// A list that should be long is not.
    #[error("GET {target}: {count} entries")]
    Short {
        /// The list.
        target: String,
        /// How long it is.
        count: usize,
    },
    /// A session was opened, but the reply names no location.
    #[error("{0}: the reply names no location")]
    NoLocation(String),
    /// The table has no URL for this shape.
    #[error("there is no target for this shape of upload, or for what is asked")]
    NoTarget,
    /// The media that was read back differs from the sent media.
    #[error(
        "{target}: what was read back differs from what was sent, in the piece before byte {end}"
    )]
    Differs {
        /// Where it was read.
        target: String,
        /// The end of the piece that differs, or of the received bytes.
        end: u64,
    },
}
