//! Sources of media: files, bytes in memory, and streams that can be read only once.
//!
//! The caller creates a [`Source`]. An upload opens it and gets a [`Media`], from which it reads
//! ranges of bytes. It reads a range again if the server did not commit the sent bytes. Any range
//! of a file, or of bytes in memory, can be read again. Of a stream, only the last bytes are kept
//! (the *window*, 8 MiB by default), unless all its bytes are copied to a
//! [file](Source::spilled_to) (the *spill*).

use std::ops::Range;
use std::path::PathBuf;
use std::{fmt, io};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::AsyncRead;
use windlass_proto::session::CHUNK_GRANULARITY;

use file::{FileMedia, Opened};
use stream::{Retention, StreamMedia, pieces};

mod file;
mod positioned;
mod stream;
#[cfg(test)]
mod tests;

pub use file::{Change, SourceIdentity};
pub(crate) use stream::Filled;

/// A source of media.
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
    kind: SourceKind,
    length: Option<u64>,
    window: u64,
    spill: Option<PathBuf>,
}

enum SourceKind {
    Path(PathBuf),
    Bytes(Bytes),
    Reader(Reader),
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Default size of a window in bytes. It is also the default maximum of a stream's chunks.
const DEFAULT_WINDOW: u64 = 8 << 20;

impl Source {
    /// Reads a file.
    ///
    /// A path that is not a regular file (a FIFO, a terminal, a device) is read like a
    /// [`reader`](Self::reader). So is a file that reports a size of zero but has content, like
    /// those in `/proc`. Opening a FIFO occupies a thread of the runtime's blocking pool until a
    /// writer opens it, even if the upload is dropped or its time limit is over.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::new(SourceKind::Path(path.into()))
    }

    /// Reads bytes in memory.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::new(SourceKind::Bytes(bytes.into()))
    }

    /// Reads a stream once, from its beginning to its end: standard input, a pipe, the body of a
    /// download.
    ///
    /// Its length is unknown until its end, unless [`with_length`](Self::with_length) states it.
    /// Only the last bytes are kept, in a [window](Self::with_window), unless they are
    /// [spilled](Self::spilled_to).
    pub fn reader(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self::new(SourceKind::Reader(Box::new(reader)))
    }

    /// States the length of the media in bytes. An upload of media with another length fails
    /// ([`SourceError::LengthDisagrees`]).
    ///
    /// To detect longer media, one byte more is read from a reader, so the last bytes are sent only
    /// when the reader has ended.
    #[must_use]
    pub fn with_length(mut self, length: u64) -> Self {
        self.length = Some(length);
        self
    }

    /// Sets the size in bytes of the window: the last bytes of a reader, which are kept in memory
    /// so that they can be sent again. Chunks are never larger than the window. Default: 8 MiB.
    /// Rounded up to a multiple of 256 KiB. Ignored for sources that can be read again.
    ///
    /// There is no upper bound. Memory is allocated as the window fills, and freed as bytes are
    /// committed.
    #[must_use]
    pub fn with_window(mut self, bytes: u64) -> Self {
        self.window = bytes
            .max(CHUNK_GRANULARITY)
            .checked_next_multiple_of(CHUNK_GRANULARITY)
            .unwrap_or(u64::MAX - u64::MAX % CHUNK_GRANULARITY);
        self
    }

    /// Keeps all bytes of a reader in an unnamed file in `directory` (the *spill file*), instead of
    /// a window in memory. An upload can then restart at the first byte if its session is lost. The
    /// file takes as much space as the media. It exists as long as the upload runs; the operating
    /// system also removes it when the process is killed.
    #[must_use]
    pub fn spilled_to(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spill = Some(directory.into());
        self
    }

    fn new(kind: SourceKind) -> Self {
        Self {
            kind,
            length: None,
            window: DEFAULT_WINDOW,
            spill: None,
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SourceKind::Path(path) => f.debug_tuple("Source").field(path).finish(),
            SourceKind::Bytes(_) => f.write_str("Source(bytes)"),
            SourceKind::Reader(_) => f.write_str("Source(stream)"),
        }
    }
}

/// An open source, from which ranges of bytes can be read: of a stream, those in its window or
/// spill.
pub(crate) struct Media(Inner);

enum Inner {
    File(FileMedia),
    Bytes(Bytes),
    Stream(StreamMedia),
}

impl Source {
    /// Opens the source. For a FIFO, waits until a writer opens it.
    pub(crate) async fn open(self) -> Result<Media, SourceError> {
        let keep = match self.spill {
            Some(directory) => Retention::All(directory),
            None => Retention::Window(self.window),
        };
        let stream = async |reader, path| {
            let media = StreamMedia::new(reader, path, self.length, keep).await?;
            Ok(Media(Inner::Stream(media)))
        };
        match self.kind {
            SourceKind::Reader(reader) => stream(reader, None).await,
            SourceKind::Bytes(bytes) => {
                check_stated_length(self.length, bytes.len() as u64)?;
                Ok(Media(Inner::Bytes(bytes)))
            }
            SourceKind::Path(path) => match file::open(path.clone()).await? {
                Opened::Regular(media) => {
                    check_stated_length(self.length, media.size())?;
                    Ok(Media(Inner::File(media)))
                }
                Opened::Other(file) => {
                    let reader: Reader = Box::new(tokio::fs::File::from_std(file));
                    stream(reader, Some(path)).await
                }
            },
        }
    }
}

impl Media {
    /// Returns the number of bytes of the media. For a stream without a stated length it is known
    /// once the stream has been read to its end.
    pub(crate) fn total(&self) -> Option<u64> {
        match &self.0 {
            Inner::File(file) => Some(file.size()),
            Inner::Bytes(bytes) => Some(bytes.len() as u64),
            Inner::Stream(stream) => stream.total(),
        }
    }

    /// Returns the size of the window in bytes; `None` if all bytes can be read again.
    pub(crate) fn window(&self) -> Option<u64> {
        match &self.0 {
            Inner::File(_) | Inner::Bytes(_) => None,
            Inner::Stream(stream) => stream.window(),
        }
    }

    /// Returns the name of a regular file, without its directories; `None` for other media and for a
    /// name that is not UTF-8.
    pub(crate) fn file_name(&self) -> Option<&str> {
        match &self.0 {
            Inner::File(file) => file.path().file_name()?.to_str(),
            Inner::Bytes(_) | Inner::Stream(_) => None,
        }
    }

    /// Returns whether media must be [filled](Self::fill) before it can be read.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Inner::Stream(_))
    }

    /// Reads from a stream into its window or spill, up to offset `upto` of the media. Other media
    /// needs no filling: all of it is available at once.
    ///
    /// Returns earlier if the stream ends. Also returns earlier if the window is full. One byte
    /// beyond it is then read ahead, which shows whether the media continues after a chunk as large
    /// as the window. More can then be read only after bytes were [released](Self::release).
    ///
    /// # Cancel safety
    ///
    /// No bytes are lost when the future is dropped; the next call continues.
    pub(crate) async fn fill(&mut self, upto: u64) -> Result<Filled, SourceError> {
        let end = match &mut self.0 {
            Inner::File(file) => file.size(),
            Inner::Bytes(bytes) => bytes.len() as u64,
            Inner::Stream(stream) => return stream.fill(upto).await,
        };
        Ok(Filled { end, ended: true })
    }

    /// Returns a stream of exactly these bytes. It must be polled inside a tokio runtime, and reads
    /// a file only when it is polled.
    ///
    /// It ends with an error if the bytes are not available. The error is `UnexpectedEof` if some
    /// bytes are beyond the end of the media or have not been [filled](Self::fill). It contains a
    /// [`SourceError::NoLongerBuffered`] if some bytes were [released](Self::release).
    /// [`cannot_read`](Self::cannot_read) converts it.
    pub(crate) fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        match &self.0 {
            Inner::File(file) => file.read(range),
            Inner::Bytes(bytes) => pieces(slice(bytes, &range).map(|piece| vec![piece])),
            Inner::Stream(stream) => stream.read(range),
        }
    }

    /// Drops the bytes before offset `before` from the window of a stream. They cannot be read
    /// again. Has no effect on other media.
    pub(crate) fn release(&mut self, before: u64) {
        if let Inner::Stream(stream) = &mut self.0 {
            stream.release(before);
        }
    }

    /// Returns whether the media is a regular file, which has an [identity](Self::identity).
    pub(crate) fn has_identity(&self) -> bool {
        matches!(self.0, Inner::File(_))
    }

    /// Returns the identity of a regular file, by which it is recognised later; `None` for other
    /// media.
    pub(crate) async fn identity(&self) -> Result<Option<SourceIdentity>, SourceError> {
        match &self.0 {
            Inner::File(file) => file.identity().await.map(Some),
            Inner::Bytes(_) | Inner::Stream(_) => Ok(None),
        }
    }

    /// Checks that a regular file has not changed since it was opened: compares its size, its
    /// modification time, and the file that now has its name. Takes two `stat` calls. Other media
    /// is not checked.
    ///
    /// Does not detect a write after which a program has restored the modification time.
    /// [`SourceIdentity::difference`] detects such a write in the first or last 64 KiB.
    pub(crate) async fn check_unchanged(&self) -> Result<(), SourceError> {
        match &self.0 {
            Inner::File(file) => file.check_unchanged().await,
            Inner::Bytes(_) | Inner::Stream(_) => Ok(()),
        }
    }

    /// Checks that this is the file with this identity, which was recorded when the upload began.
    pub(crate) async fn check_identity(
        &self,
        recorded: &SourceIdentity,
    ) -> Result<(), SourceError> {
        let now = self.identity().await?;
        let change = match now {
            Some(now) => recorded.difference(&now),
            None => Some(Change::Replaced),
        };
        match change {
            Some(change) => Err(SourceError::Changed {
                path: recorded.path().to_owned(),
                change,
            }),
            None => Ok(()),
        }
    }

    /// Converts an error from the stream of [`read`](Self::read).
    pub(crate) fn cannot_read(&self, error: io::Error) -> SourceError {
        let source = match error.downcast::<SourceError>() {
            Ok(inner) => return inner,
            Err(error) => error,
        };
        match &self.0 {
            Inner::File(file) => file.cannot_read(source),
            Inner::Bytes(_) => SourceError::ReadStream { source },
            Inner::Stream(stream) => stream.cannot_read_kept(source),
        }
    }
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::File(file) => f.debug_tuple("Media").field(&file.path()).finish(),
            Inner::Bytes(_) => f.write_str("Media(bytes)"),
            Inner::Stream(_) => f.write_str("Media(stream)"),
        }
    }
}

fn check_stated_length(stated: Option<u64>, found: u64) -> Result<(), SourceError> {
    match stated {
        Some(stated) if stated != found => Err(SourceError::LengthDisagrees { stated, found }),
        _ => Ok(()),
    }
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> io::Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let start = usize::try_from(range.start);
    let end = usize::try_from(range.end);
    match (start, end) {
        (Ok(start), Ok(end)) if end <= bytes.len() => Ok(bytes.slice(start..end)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Why media cannot be read, or an upload of it cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A path cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The path is a directory.
    #[error("{} is a directory", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The path is not a regular file, so it has no [identity](SourceIdentity).
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A path was opened, but cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A reader failed.
    #[error("cannot read the media")]
    ReadStream {
        /// Cause of the error.
        source: io::Error,
    },
    /// The bytes of a reader cannot be written to, or read from, the spill file.
    #[error("cannot use a spill file in {}", directory.display())]
    Spill {
        /// Directory of the spill file.
        directory: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A file has changed since its upload began.
    #[error("{} has changed since the upload began: {change}", path.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// The change.
        change: Change,
    },
    /// The media is shorter or longer than stated.
    #[error("the stated length of the media is {stated} bytes, but {}", actual_length(*stated, *found))]
    LengthDisagrees {
        /// Stated length in bytes.
        stated: u64,
        /// Actual length in bytes; for a reader that continues, one more than stated.
        found: u64,
    },
    /// Bytes of a stream must be sent again, but were dropped from its window.
    #[error(
        "the media is needed again from byte {wanted}, but it is buffered only from byte {kept_from}"
    )]
    NoLongerBuffered {
        /// Offset of the first byte needed.
        wanted: u64,
        /// Offset of the first byte available.
        kept_from: u64,
    },
}

fn actual_length(stated: u64, found: u64) -> String {
    if found < stated {
        format!("it ended after {found}")
    } else {
        "it continues".to_owned()
    }
}
