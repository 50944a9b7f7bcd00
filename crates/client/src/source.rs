//! Where media comes from: a file, bytes in memory, or a stream that can be read only once.
//!
//! A caller names a [`Source`]. Opened, it is a [`Media`], of which an upload asks for ranges of
//! bytes, and asks again for what the server did not commit. What differs is how far back it can
//! ask: anywhere in a file, and only in the last few mebibytes of a stream, unless the stream is
//! [spilled](Source::spilled_to) to a disk.
//!
//! What is absent: any look at what the bytes mean, and any knowledge of requests.

use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;
use tokio::io::AsyncRead;
use windlass_proto::session::CHUNK_GRANULARITY;

mod error;
mod file;
mod identity;
mod media;
mod positioned;
mod spill;
mod stream;
mod window;

#[cfg(test)]
mod tests;

pub use error::SourceError;
pub use identity::{Change, SourceIdentity};
pub(crate) use media::Media;

/// Where media comes from.
///
/// ```
/// use windlass_client::Source;
///
/// let file = Source::path("llama.jpg");
/// let memory = Source::bytes("a llama");
/// let piped = Source::reader(&b"a llama"[..]).with_window(64 << 20);
/// assert_eq!(format!("{file:?} {memory:?} {piped:?}"), r#"Source("llama.jpg") Source(bytes) Source(stream)"#);
/// ```
pub struct Source {
    from: Origin,
    length: Option<u64>,
    window: u64,
    spill: Option<PathBuf>,
}

enum Origin {
    Path(PathBuf),
    Bytes(Bytes),
    Reader(Reader),
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Enough for a few chunks in flight; little beside what a program takes anyway.
const DEFAULT_WINDOW: u64 = 8 << 20;

impl Source {
    /// A file, by its path.
    ///
    /// What is no regular file (a FIFO, `/dev/stdin`, a device) is read as a
    /// [`reader`](Self::reader), and so is a file that says it is empty and is not, as those of
    /// `/proc`. A FIFO opens when its other end does.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::new(Origin::Path(path.into()))
    }

    /// Bytes in memory.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::new(Origin::Bytes(bytes.into()))
    }

    /// A stream that is read once, front to back: standard input, a pipe, the body of a download.
    ///
    /// Its length is not known before its end, unless [`with_length`](Self::with_length) says it,
    /// and of what was read only a [window](Self::with_window) is kept.
    pub fn reader(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self::new(Origin::Reader(Box::new(reader)))
    }

    /// States how many bytes there are. Media that turns out to be shorter or longer is an error;
    /// to find that out, a reader is read to its end.
    #[must_use]
    pub fn with_length(mut self, length: u64) -> Self {
        self.length = Some(length);
        self
    }

    /// How many bytes of a reader are kept to be sent again: what is in flight and not committed
    /// fits in here. 8 MiB by default; rounded up to a multiple of 256 KiB. Ignored where
    /// everything can be read again.
    ///
    /// There is no upper limit: how much memory it may cost is the caller's to say. It is taken as
    /// the window fills, and given back as bytes are committed.
    #[must_use]
    pub fn with_window(mut self, bytes: u64) -> Self {
        self.window = bytes
            .max(CHUNK_GRANULARITY)
            .checked_next_multiple_of(CHUNK_GRANULARITY)
            .unwrap_or(u64::MAX - u64::MAX % CHUNK_GRANULARITY);
        self
    }

    /// Keeps all that is read of a reader in an unnamed file in `directory`, in place of a window
    /// in memory, so that an upload can even start again. It costs as much room there as the media
    /// is long, and is gone with the process.
    #[must_use]
    pub fn spilled_to(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spill = Some(directory.into());
        self
    }

    fn new(from: Origin) -> Self {
        Self {
            from,
            length: None,
            window: DEFAULT_WINDOW,
            spill: None,
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Origin::Path(path) => f.debug_tuple("Source").field(path).finish(),
            Origin::Bytes(_) => f.write_str("Source(bytes)"),
            Origin::Reader(_) => f.write_str("Source(stream)"),
        }
    }
}
