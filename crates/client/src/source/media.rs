//! An opened source.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};

use super::file::{self, FileMedia, Opened};
use super::stream::{Retention, StreamMedia};
use super::{Change, Origin, Reader, Source, SourceError, SourceIdentity};

/// Media that is open: ranges of it can be read, as far as they are kept.
pub(crate) struct Media(Inner);

enum Inner {
    File(FileMedia),
    Bytes(Bytes),
    Stream(StreamMedia),
}

/// How far a stream was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Bytes that were read, all of which can be sent if they were not released.
    pub(crate) end: u64,
    /// Whether the media is known to end there.
    pub(crate) ended: bool,
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

/// A stream of pieces that are there, or of what is wrong with them.
pub(super) fn pieces(pieces: io::Result<Vec<Bytes>>) -> BoxStream<'static, io::Result<Bytes>> {
    match pieces {
        Ok(pieces) => stream::iter(pieces.into_iter().map(Ok)).boxed(),
        Err(error) => stream::iter([Err(error)]).boxed(),
    }
}
