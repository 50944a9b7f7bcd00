//! The files of a download that is not complete: `TARGET.part`, the bytes that have come, and
//! `TARGET.part.json`, which media they are of.
//!
//! Bytes are gathered and written in great pieces, away from the async threads; at most two such pieces
//! are in memory. What an earlier run left stays as it is until other media has been accepted.
//!
//! Nothing is synced before the media is complete, so a power cut may leave anything in the part. The note says how
//! many bytes had come, and their digest: a later run goes on behind these bytes if they are there, else it begins
//! at the first byte.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use bytes::Bytes;
use http::HeaderValue;
use tokio::task::{JoinHandle, spawn_blocking};
use url::Url;
use windlass_proto::digest::{Crc32c, Crc32cHasher};

use super::response::{EntityInfo, Stored};
use super::{DownloadError, Downloaded};
use files::{Files, OpenPart, Owned, ReceivedPrefix};

mod files;

/// So much is gathered before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// A note is written whenever this much has come since the last one. A process that is killed loses about as much.
const METADATA_INTERVAL: u64 = 2 << 20;

/// What has come of the media, and what is known of it.
#[derive(Debug)]
pub(super) struct Partial {
    files: Files,
    owned: Owned,
    media: EntityInfo,
    received: u64,
    /// Count of those that the note on the disk covers.
    recorded: u64,
    /// The rest was asked for and something else came.
    request_full: bool,
    buffered: Vec<Bytes>,
    buffered_len: usize,
    writing: SinkState,
}

/// A place in the media that can be gone back to.
#[derive(Debug, Clone, Default)]
pub(super) struct Position {
    received: u64,
    hasher: Crc32cHasher,
}

impl Partial {
    /// Opens what is there of the same media. Nothing that is there is changed until it
    /// [begins](Self::begin).
    pub(super) async fn open(
        target: &Path,
        url: &Url,
        overwrite: bool,
    ) -> Result<Self, DownloadError> {
        let files = Files::new(target, url, overwrite);
        blocking(move || {
            let part = files.open()?;
            Self::resume(files, part)
        })
        .await
    }

    fn resume(files: Files, part: OpenPart) -> Result<Self, DownloadError> {
        let OpenPart { file, owned, begun } = part;
        let mut sink = Sink::new(file);
        let begun = match begun {
            Some((media, received)) if sink.verify_prefix(received).map_err(files.failed())? => {
                Some((media, received))
            }
            _ => None,
        };
        let mut partial = Self::new(files, owned, sink);
        if let Some((media, received)) = begun {
            partial.received = received.length;
            partial.recorded = received.length;
            partial.media = media;
        }
        Ok(partial)
    }

    fn new(files: Files, owned: Owned, sink: Sink) -> Self {
        Self {
            files,
            owned,
            media: EntityInfo::default(),
            received: 0,
            recorded: 0,
            request_full: false,
            buffered: Vec::new(),
            buffered_len: 0,
            writing: SinkState::idle(sink),
        }
    }

    /// The file that the bytes are in.
    pub(super) fn path(&self) -> &Path {
        self.files.part()
    }

    /// Count of bytes that have come.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Size of the media, if it is known.
    pub(super) fn total(&self) -> Option<u64> {
        self.media.size
    }

    /// The server has said the size, if it did.
    pub(super) fn set_total(&mut self, total: Option<u64>) {
        self.media.size = self.media.size.or(total);
    }

    /// What a response is compared with.
    pub(super) fn stored(&self) -> Stored<'_> {
        Stored {
            received: self.received,
            total: self.media.size,
            entity: self.entity(),
            resume_etag: self.resume_etag(),
        }
    }

    /// The media that the stored bytes are of.
    fn entity(&self) -> Option<&EntityInfo> {
        (self.received > 0).then_some(&self.media)
    }

    /// The tag by which the rest can be asked for.
    pub(super) fn resume_etag(&self) -> Option<&HeaderValue> {
        let media = self.entity().filter(|_| !self.request_full);
        media?.etag.as_ref()
    }

    /// The rest cannot be had: the whole media is asked for next. What has come is kept until it is
    /// there.
    pub(super) fn request_full(&mut self) {
        self.request_full = true;
    }

    /// Begins this media from its first byte. What has come of another is dropped.
    pub(super) async fn begin(&mut self, media: EntityInfo) -> Result<(), DownloadError> {
        self.rewind(&Position::default()).await?;
        self.owned = Owned::PartAndMetadata;
        self.request_full = false;
        self.media = media;
        self.write_metadata().await
    }

    /// Notes what has come.
    async fn write_metadata(&mut self) -> Result<(), DownloadError> {
        let Position { received, hasher } = self.position().await?;
        self.recorded = received;
        let received = ReceivedPrefix {
            length: received,
            crc32c: hasher.value(),
        };
        let (files, media) = (self.files.clone(), self.media.clone());
        blocking(move || {
            files
                .write_metadata(&media, received)
                .map_err(files.failed())
        })
        .await
    }

    /// Where it stands, with everything written.
    pub(super) async fn position(&mut self) -> Result<Position, DownloadError> {
        self.start_writing().await?;
        let sink = self.sink().await?;
        let hasher = sink.hasher;
        self.writing = SinkState::Idle(sink);
        Ok(Position {
            received: self.received,
            hasher,
        })
    }

    /// Drops what has come since.
    pub(super) async fn rewind(&mut self, to: &Position) -> Result<(), DownloadError> {
        self.buffered.clear();
        self.buffered_len = 0;
        let mut sink = self.sink().await?;
        self.received = to.received;
        self.recorded = self.recorded.min(to.received);
        let (to, failed) = (to.clone(), self.files.failed());
        let sink = blocking(move || {
            sink.truncate(to.received, to.hasher).map_err(failed)?;
            Ok(sink)
        });
        self.writing = SinkState::Idle(sink.await?);
        Ok(())
    }

    /// Takes the next bytes.
    pub(super) async fn write(&mut self, piece: Bytes) -> Result<(), DownloadError> {
        self.received += piece.len() as u64;
        self.buffered_len += piece.len();
        self.buffered.push(piece);
        if self.buffered_len >= WRITE_BYTES {
            self.start_writing().await?;
            if self.received - self.recorded >= METADATA_INTERVAL {
                self.write_metadata().await?;
            }
        }
        Ok(())
    }

    /// Hands everything that has come to the operating system, and notes it.
    pub(super) async fn flush(&mut self) -> Result<(), DownloadError> {
        self.write_metadata().await
    }

    /// Ends without the media. What has come is left for a later run; files without it are removed, if
    /// they are of this run. A failure here is not told, as it would hide what it ends with.
    pub(super) async fn abandon(mut self) {
        let Ok(sink) = self.sink().await else {
            return;
        };
        if self.received > 0 {
            return;
        }
        let Self { files, owned, .. } = self;
        let removed = blocking(move || {
            let removed = files.remove(owned, &sink.file);
            removed.map_err(files.failed())
        });
        if let Err(error) = removed.await {
            tracing::debug!(%error, "an empty part is left behind");
        }
    }

    /// Compares the media with what is stated of it, makes it durable and gives it its name. Media that
    /// is not what it should be is removed.
    pub(super) async fn finish(
        mut self,
        expected: Option<Crc32c>,
    ) -> Result<Downloaded, DownloadError> {
        self.flush().await?;
        let sink = self.sink().await?;
        let downloaded = Downloaded {
            size: self.received,
            crc32c: sink.hasher.value(),
            verified: expected.or(self.media.crc32c).is_some(),
        };
        let checked = self.media.check(&downloaded, expected);
        let files = self.files;
        blocking(move || {
            if let Err(error) = checked {
                let removed = files.remove(Owned::PartAndMetadata, &sink.file);
                removed.map_err(files.failed())?;
                return Err(error);
            }
            files.publish(&sink.file)?;
            Ok(downloaded)
        })
        .await
    }

    async fn start_writing(&mut self) -> Result<(), DownloadError> {
        let sink = self.sink().await?;
        let pieces = std::mem::take(&mut self.buffered);
        self.buffered_len = 0;
        self.writing = SinkState::start(sink, pieces);
        Ok(())
    }

    async fn sink(&mut self) -> Result<Box<Sink>, DownloadError> {
        let sink = self.writing.sink().await;
        sink.map_err(self.files.failed())
    }
}

#[cfg(test)]
impl Partial {
    /// Writes to `file` whatever comes.
    pub(super) fn into_file(target: &Path, url: &Url, file: std::fs::File) -> Self {
        let files = Files::new(target, url, false);
        Self::new(files, Owned::Nothing, Sink::new(file))
    }
}

impl EntityInfo {
    fn check(
        &self,
        downloaded: &Downloaded,
        expected: Option<Crc32c>,
    ) -> Result<(), DownloadError> {
        let received = downloaded.size;
        match self.size {
            Some(expected) if expected != received => {
                return Err(DownloadError::Size { expected, received });
            }
            _ => {}
        }
        let received = downloaded.crc32c;
        let stated = [expected, self.crc32c].into_iter().flatten();
        match stated.into_iter().find(|expected| *expected != received) {
            Some(expected) => Err(DownloadError::Crc32c { expected, received }),
            None => Ok(()),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DownloadError> + Send + 'static,
) -> Result<T, DownloadError> {
    spawn_blocking(work).await.expect("the work does not panic")
}

/// So much is read at once.
const READ: usize = 1 << 20;

#[derive(Debug)]
struct Sink {
    file: File,
    /// Of all bytes before the place in the file.
    hasher: Crc32cHasher,
}

/// The file, here or with the thread that writes it.
#[derive(Debug)]
enum SinkState {
    Idle(Box<Sink>),
    Busy(JoinHandle<io::Result<Box<Sink>>>),
    /// Writing failed.
    Broken,
}

impl SinkState {
    fn idle(sink: Sink) -> Self {
        Self::Idle(Box::new(sink))
    }

    fn start(mut sink: Box<Sink>, pieces: Vec<Bytes>) -> Self {
        Self::Busy(spawn_blocking(move || {
            for piece in pieces {
                sink.file.write_all(&piece)?;
                sink.hasher.update(&piece);
            }
            Ok(sink)
        }))
    }

    /// The file, when it is written; the caller gives it back. Says once why writing failed.
    async fn sink(&mut self) -> io::Result<Box<Sink>> {
        // Awaited where it is: should this future be dropped, nothing is lost.
        let sink = match self {
            Self::Busy(writing) => Some(writing.await.expect("writing does not panic")),
            Self::Idle(_) | Self::Broken => None,
        };
        match (std::mem::replace(self, Self::Broken), sink) {
            (Self::Idle(sink), _) => Ok(sink),
            (_, Some(written)) => written,
            (_, None) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Sink {
    /// Begins at the file's first byte, whatever is behind it.
    fn new(file: File) -> Self {
        let hasher = Crc32cHasher::default();
        Self { file, hasher }
    }

    /// Whether the file begins with these bytes. If so, the place in the file is behind them, and what follows is cut
    /// off.
    fn verify_prefix(&mut self, received: ReceivedPrefix) -> io::Result<bool> {
        let mut hasher = Crc32cHasher::default();
        let mut buf = vec![0; READ];
        let mut first = (&self.file).take(received.length);
        let mut length = 0;
        loop {
            match first.read(&mut buf)? {
                0 => break,
                len => {
                    hasher.update(&buf[..len]);
                    length += len as u64;
                }
            }
        }
        let is_there = received
            == ReceivedPrefix {
                length,
                crc32c: hasher.value(),
            };
        if is_there {
            self.truncate(length, hasher)?;
        }
        Ok(is_there)
    }

    /// Drops what is behind `length`, of whose bytes `hasher` has the digest.
    fn truncate(&mut self, length: u64, hasher: Crc32cHasher) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.hasher = hasher;
        Ok(())
    }
}
