//! Where media comes from: a file, bytes in memory, or a stream that can be read only once.
//!
//! A caller names a [`Source`]. Opened, it is a [`Media`], of which an upload asks for ranges of
//! bytes, and asks again for what the server did not commit. What differs is how far back it can
//! ask: anywhere in a file, and only in the last few mebibytes of a stream, unless the stream is
//! [spilled](Source::spilled_to) to a disk.
//!
//! What is absent: any look at what the bytes mean, and any knowledge of requests.

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

/// Media that is open: ranges of it can be read, as far as they are kept.
pub(crate) struct Media(Inner);

enum Inner {
    File(FileMedia),
    Bytes(Bytes),
    Stream(StreamMedia),
}

impl Source {
    /// Opens the source. A FIFO waits for its other end.
    pub(crate) async fn open(self) -> Result<Media, SourceError> {
        let keep = match self.spill {
            Some(directory) => Retention::All(directory),
            None => Retention::Window(self.window),
        };
        let stream = async |reader, path| {
            let media = StreamMedia::new(reader, path, self.length, keep).await?;
            Ok(Media(Inner::Stream(media)))
        };
        match self.from {
            Origin::Reader(reader) => stream(reader, None).await,
            Origin::Bytes(bytes) => {
                check_stated_length(self.length, bytes.len() as u64)?;
                Ok(Media(Inner::Bytes(bytes)))
            }
            Origin::Path(path) => match file::open(path.clone()).await? {
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
    /// How many bytes there are, where that is known. A stream of unknown length tells it at its
    /// end.
    pub(crate) fn total(&self) -> Option<u64> {
        match &self.0 {
            Inner::File(file) => Some(file.size()),
            Inner::Bytes(bytes) => Some(bytes.len() as u64),
            Inner::Stream(stream) => stream.total(),
        }
    }

    /// How many bytes are kept to be sent again. `None` when everything can be.
    pub(crate) fn window(&self) -> Option<u64> {
        match &self.0 {
            Inner::File(_) | Inner::Bytes(_) => None,
            Inner::Stream(stream) => stream.window(),
        }
    }

    /// Whether media must be [filled](Self::fill) before it can be read.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Inner::Stream(_))
    }

    /// Reads a stream until `upto` bytes of the media were read or it ended. Other media is all
    /// there, always.
    ///
    /// It goes no further than a byte beyond the window: by that byte the caller knows that the
    /// media goes on behind a chunk as large as the window. So [`Filled::end`] may be less than
    /// `upto`, until something is [released](Self::release).
    ///
    /// # Cancel safety
    ///
    /// Nothing that was read is lost when the future is dropped; the next call goes on.
    pub(crate) async fn fill(&mut self, upto: u64) -> Result<Filled, SourceError> {
        let end = match &mut self.0 {
            Inner::File(file) => file.size(),
            Inner::Bytes(bytes) => bytes.len() as u64,
            Inner::Stream(stream) => return stream.fill(upto).await,
        };
        Ok(Filled { end, ended: true })
    }

    /// Reads exactly these bytes.
    ///
    /// The stream ends in an error when they are not there: `UnexpectedEof` behind the end of the
    /// media or of what was filled, a [`SourceError::NoLongerBuffered`] inside when they were released.
    /// A file is read a piece ahead of what is taken; nothing is read before the first poll, which
    /// must happen inside a tokio runtime.
    pub(crate) fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        match &self.0 {
            Inner::File(file) => file.read(range),
            Inner::Bytes(bytes) => pieces(slice(bytes, &range).map(|piece| vec![piece])),
            Inner::Stream(stream) => stream.read(range),
        }
    }

    /// Says that the bytes before this offset will not be asked for again. A window forgets them.
    pub(crate) fn release(&mut self, before: u64) {
        if let Inner::Stream(stream) = &mut self.0 {
            stream.release(before);
        }
    }

    /// What a file is recognised by later. `None` for what is not a file.
    pub(crate) async fn identity(&self) -> Result<Option<SourceIdentity>, SourceError> {
        match &self.0 {
            Inner::File(file) => file.identity().await.map(Some),
            Inner::Bytes(_) | Inner::Stream(_) => Ok(None),
        }
    }

    /// Looks whether a file is still the one that was opened, as far as two `stat` calls tell.
    /// They do not tell a write that put the time of modification back;
    /// [`SourceIdentity::difference`] does, at the ends of the file.
    pub(crate) async fn check_unchanged(&self) -> Result<(), SourceError> {
        match &self.0 {
            Inner::File(file) => file.check_unchanged().await,
            Inner::Bytes(_) | Inner::Stream(_) => Ok(()),
        }
    }

    /// Looks whether this is the file that an upload began with.
    pub(crate) async fn check_identity(
        &self,
        began_with: &SourceIdentity,
    ) -> Result<(), SourceError> {
        let now = self.identity().await?;
        let change = match now {
            Some(now) => began_with.difference(&now),
            None => Some(Change::Replaced),
        };
        match change {
            Some(change) => Err(SourceError::Changed {
                path: began_with.path().to_owned(),
                change,
            }),
            None => Ok(()),
        }
    }

    /// What an error of [`read`](Self::read) says.
    pub(crate) fn cannot_read(&self, error: io::Error) -> SourceError {
        let source = match error.downcast::<SourceError>() {
            Ok(inner) => return inner,
            Err(error) => error,
        };
        match self.path() {
            Some(path) => SourceError::Read { path, source },
            None => SourceError::ReadStream { source },
        }
    }

    fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            Inner::File(file) => Some(file.path().to_owned()),
            Inner::Bytes(_) => None,
            Inner::Stream(stream) => stream.path().map(ToOwned::to_owned),
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

/// Why media cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It does not open.
    #[error("cannot open {}", path.display())]
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A directory has no bytes to upload.
    #[error("{} is a directory", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Only a regular file can be recognised later.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What it is the path of.
        path: PathBuf,
    },
    /// A path stopped being readable.
    #[error("cannot read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A reader failed.
    #[error("cannot read the media")]
    ReadStream {
        /// What it said.
        source: io::Error,
    },
    /// What was read cannot be kept, or not be read back.
    #[error("cannot keep the media in {}", directory.display())]
    Spill {
        /// Where it was to be kept.
        directory: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The media is no longer what the upload began with.
    #[error("{} has changed since the upload began: {change}", path.display())]
    Changed {
        /// The media.
        path: PathBuf,
        /// What is different.
        change: Change,
    },
    /// The media is shorter or longer than stated.
    #[error("the media was said to have {stated} bytes, but {}", actual_length(*stated, *found))]
    LengthDisagrees {
        /// What was stated.
        stated: u64,
        /// What it has; of a reader that goes on, one byte more than stated.
        found: u64,
    },
    /// Bytes are wanted again that are no longer kept.
    #[error(
        "the media is wanted again from byte {wanted}, but only what follows byte {kept_from} is kept"
    )]
    NoLongerBuffered {
        /// The first byte that is wanted.
        wanted: u64,
        /// The first byte that is there.
        kept_from: u64,
    },
}

fn actual_length(stated: u64, found: u64) -> String {
    if found < stated {
        format!("it ended after {found}")
    } else {
        "it goes on".to_owned()
    }
}
