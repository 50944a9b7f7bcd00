//! The files of an unfinished download: the part (`TARGET.part`) with the bytes received so far,
//! and the sidecar (`TARGET.part.json`), which identifies them.
//!
//! Bytes are collected in memory, about 1 MiB at a time, and then written on the blocking pool,
//! while the next ones are collected.
//!
//! The files of an earlier run are not changed until a response with media arrives, except that
//! bytes that the sidecar does not cover are removed from the part.
//!
//! The sidecar is synced when it is created, which is before the first byte of the part is written.
//! So a part with bytes is never without its sidecar, which shows to which download it belongs.
//! Later the sidecar is overwritten in place, and nothing is synced before the media is complete.
//! After a power failure the sidecar may be an older one, and the part may have any content. The
//! sidecar therefore has the length and the CRC32C of the received bytes. A later run continues
//! after these bytes if the part begins with them. Otherwise it starts at the first byte.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use bytes::Bytes;
use http::HeaderValue;
use tokio::task::{JoinHandle, spawn_blocking};
use url::Url;
use windlass_digest::{Crc32c, Crc32cHasher, Md5, Md5Sha256Hasher, Wanted};

use super::response::{MediaHeaders, PartState};
use super::{DownloadError, Downloaded};
use files::{Files, OpenPart, Owned, ReceivedPrefix};

mod files;

/// Number of bytes that are buffered before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Number of received bytes after which the sidecar is written again. If the process is killed, a
/// later run has to receive about this many bytes again.
const SIDECAR_INTERVAL: u64 = 2 << 20;

/// The received bytes, and the headers of the response that they belong to.
#[derive(Debug)]
pub(super) struct Partial {
    files: Files,
    owned: Owned,
    /// The sidecar, once this run has created it.
    sidecar: Option<File>,
    media_headers: MediaHeaders,
    /// Number of bytes received, including those in `buffered`.
    received: u64,
    /// Number of bytes that the sidecar on disk covers.
    recorded: u64,
    /// Whether the next request is for the whole media, because the last request for the rest did
    /// not return these bytes.
    request_full: bool,
    /// Received bytes that are not being written yet.
    buffered: Vec<Bytes>,
    /// Number of bytes in `buffered`.
    buffered_len: usize,
    writing: SinkState,
}

/// A position in the media to which the part can be rewound.
#[derive(Debug, Clone)]
pub(super) struct Position {
    received: u64,
    hasher: MediaHasher,
}

impl Partial {
    /// Opens the files of an earlier run, or creates the part. Existing files are not changed
    /// before [`begin`](Self::begin), except that bytes that the sidecar does not cover are removed
    /// from a part that can be continued.
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
        let OpenPart {
            file,
            owned,
            resumable,
        } = part;
        let mut sink = Sink::new(file);
        let resumable = match resumable {
            Some((media_headers, received))
                if sink
                    .check_prefix(received, MediaHasher::of_media(&media_headers))
                    .map_err(files.file_error())? =>
            {
                Some((media_headers, received))
            }
            _ => None,
        };
        let mut partial = Self::new(files, owned, sink);
        if let Some((media_headers, received)) = resumable {
            partial.received = received.length;
            partial.recorded = received.length;
            partial.media_headers = media_headers;
        }
        Ok(partial)
    }

    fn new(files: Files, owned: Owned, sink: Sink) -> Self {
        Self {
            files,
            owned,
            sidecar: None,
            media_headers: MediaHeaders::default(),
            received: 0,
            recorded: 0,
            request_full: false,
            buffered: Vec::new(),
            buffered_len: 0,
            writing: SinkState::idle(sink),
        }
    }

    /// Returns the path of the part.
    pub(super) fn path(&self) -> &Path {
        self.files.part()
    }

    /// Returns the number of bytes received.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the size of the media, if known.
    pub(super) fn total(&self) -> Option<u64> {
        self.media_headers.size
    }

    /// Sets the size of the media, unless it is already known.
    pub(super) fn set_total(&mut self, total: Option<u64>) {
        self.media_headers.size = self.media_headers.size.or(total);
    }

    /// Returns the state with which a response is compared.
    pub(super) fn state(&self) -> PartState<'_> {
        PartState {
            received: self.received,
            total: self.media_headers.size,
            media_headers: self.media_headers(),
            resume_etag: self.resume_etag(),
        }
    }

    /// Returns the headers of the media to which the received bytes belong; `None` if no bytes have
    /// been received.
    fn media_headers(&self) -> Option<&MediaHeaders> {
        (self.received > 0).then_some(&self.media_headers)
    }

    /// Returns the `ETag` with which the rest of the media is requested; `None` if the request is
    /// for the whole media.
    pub(super) fn resume_etag(&self) -> Option<&HeaderValue> {
        let media_headers = self.media_headers().filter(|_| !self.request_full);
        media_headers?.etag.as_ref()
    }

    /// Makes the next request one for the whole media. The received bytes are kept until its
    /// response is accepted.
    pub(super) fn request_full(&mut self) {
        self.request_full = true;
    }

    /// Starts to receive the media with these headers at its first byte. Drops all bytes received
    /// before.
    pub(super) async fn begin(&mut self, media_headers: MediaHeaders) -> Result<(), DownloadError> {
        let start = Position {
            received: 0,
            hasher: MediaHasher::of_media(&media_headers),
        };
        self.rewind(&start).await?;
        self.owned = Owned::PartAndSidecar;
        self.request_full = false;
        self.media_headers = media_headers;
        self.write_sidecar().await
    }

    /// Writes the sidecar for the bytes received so far.
    async fn write_sidecar(&mut self) -> Result<(), DownloadError> {
        let Position { received, hasher } = self.position().await?;
        self.recorded = received;
        let received = ReceivedPrefix {
            length: received,
            crc32c: hasher.crc32c(),
        };
        let (files, media_headers) = (self.files.clone(), self.media_headers.clone());
        let open = self.sidecar.take();
        let written = blocking(move || {
            files
                .write_sidecar(open, &media_headers, received)
                .map_err(files.file_error())
        });
        self.sidecar = Some(written.await?);
        Ok(())
    }

    /// Writes all buffered bytes and returns the position after them.
    pub(super) async fn position(&mut self) -> Result<Position, DownloadError> {
        self.start_writing().await?;
        let sink = self.sink().await?;
        let hasher = sink.hasher.clone();
        self.writing = SinkState::Idle(sink);
        Ok(Position {
            received: self.received,
            hasher,
        })
    }

    /// Drops all bytes after a position.
    pub(super) async fn rewind(&mut self, to: &Position) -> Result<(), DownloadError> {
        self.buffered.clear();
        self.buffered_len = 0;
        let mut sink = self.sink().await?;
        self.received = to.received;
        self.recorded = self.recorded.min(to.received);
        let (to, failed) = (to.clone(), self.files.file_error());
        let sink = blocking(move || {
            sink.truncate(to.received, to.hasher).map_err(failed)?;
            Ok(sink)
        });
        self.writing = SinkState::Idle(sink.await?);
        Ok(())
    }

    /// Adds the next bytes.
    pub(super) async fn write(&mut self, piece: Bytes) -> Result<(), DownloadError> {
        self.received += piece.len() as u64;
        self.buffered_len += piece.len();
        self.buffered.push(piece);
        if self.buffered_len >= WRITE_BYTES {
            self.start_writing().await?;
            if self.received - self.recorded >= SIDECAR_INTERVAL {
                self.write_sidecar().await?;
            }
        }
        Ok(())
    }

    /// Writes all received bytes and the sidecar. Only a new sidecar is synced.
    pub(super) async fn flush(&mut self) -> Result<(), DownloadError> {
        self.write_sidecar().await
    }

    /// Ends an unfinished download. Waits for a running write. If bytes were received, the files
    /// are left for a later run. Otherwise the files that this run created or replaced are removed.
    /// An error here is only logged, because the caller already has the error that ended the
    /// download.
    pub(super) async fn abandon(self) {
        if let Err(error) = self.wait_and_remove_empty().await {
            tracing::debug!(%error, "cannot write the part, or remove an empty one");
        }
    }

    async fn wait_and_remove_empty(mut self) -> Result<(), DownloadError> {
        let sink = self.sink().await?;
        if self.received > 0 {
            return Ok(());
        }
        let Self { files, owned, .. } = self;
        blocking(move || {
            let removed = files.remove(owned, &sink.file);
            removed.map_err(files.file_error())
        })
        .await
    }

    /// Compares size and digests of the media with the stated ones, makes the media durable and
    /// renames the part to the target. Media that differs is removed.
    pub(super) async fn finish(
        mut self,
        expected: Option<Crc32c>,
    ) -> Result<Downloaded, DownloadError> {
        self.flush().await?;
        let sink = self.sink().await?;
        let md5 = sink.hasher.md5();
        let downloaded = Downloaded {
            size: self.received,
            crc32c: sink.hasher.crc32c(),
            verified: expected.or(self.media_headers.crc32c).is_some(),
            md5_verified: md5.is_some(),
        };
        let checked = self.media_headers.check(&downloaded, expected, md5);
        let files = self.files;
        blocking(move || {
            if let Err(error) = checked {
                let removed = files.remove(Owned::PartAndSidecar, &sink.file);
                removed.map_err(files.file_error())?;
                return Err(error);
            }
            files.publish(&sink.file)?;
            Ok(downloaded)
        })
        .await
    }

    /// Starts to write the buffered bytes, after the current write.
    async fn start_writing(&mut self) -> Result<(), DownloadError> {
        let sink = self.sink().await?;
        let pieces = std::mem::take(&mut self.buffered);
        self.buffered_len = 0;
        self.writing = SinkState::start(sink, pieces);
        Ok(())
    }

    /// Waits for the current write and takes the sink out; the caller puts it back.
    async fn sink(&mut self) -> Result<Box<Sink>, DownloadError> {
        let sink = self.writing.sink().await;
        sink.map_err(self.files.file_error())
    }
}

#[cfg(test)]
impl Partial {
    /// Creates a part that is written to an open file.
    pub(super) fn into_file(target: &Path, url: &Url, file: std::fs::File) -> Self {
        let files = Files::new(target, url, false);
        Self::new(files, Owned::Nothing, Sink::new(file))
    }
}

impl MediaHeaders {
    /// Compares a complete download with the size and digests in these headers, and with the CRC32C
    /// that the caller expects. `md5` is the MD5 of the received bytes, if it was computed.
    fn check(
        &self,
        downloaded: &Downloaded,
        expected: Option<Crc32c>,
        md5: Option<Md5>,
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
        if let Some(expected) = stated.into_iter().find(|expected| *expected != received) {
            return Err(DownloadError::Crc32c { expected, received });
        }
        match self.md5.zip(md5) {
            Some((expected, received)) if expected != received => {
                Err(DownloadError::Md5 { expected, received })
            }
            _ => Ok(()),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DownloadError> + Send + 'static,
) -> Result<T, DownloadError> {
    spawn_blocking(work).await.expect("the work does not panic")
}

/// Size in bytes of the reads of the part.
const READ_LEN: usize = 1 << 20;

/// Computes the digests of the received bytes: CRC32C, and MD5 if the server states one.
#[derive(Debug, Clone)]
struct MediaHasher {
    crc32c: Crc32cHasher,
    md5: Md5Sha256Hasher,
}

impl MediaHasher {
    /// Starts at the first byte of the media with these headers.
    fn of_media(media_headers: &MediaHeaders) -> Self {
        Self {
            crc32c: Crc32cHasher::default(),
            md5: Md5Sha256Hasher::new(Wanted {
                md5: media_headers.md5.is_some(),
                sha256: false,
            }),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.crc32c.update(bytes);
        self.md5.update(bytes);
    }

    fn crc32c(&self) -> Crc32c {
        self.crc32c.value()
    }

    /// Returns the MD5 if the server states one.
    fn md5(&self) -> Option<Md5> {
        self.md5.clone().finish().0
    }
}

/// The open part, with the digests of its bytes.
#[derive(Debug)]
struct Sink {
    file: File,
    /// Digests of all bytes before the position of the file.
    hasher: MediaHasher,
}

/// Where the sink is.
#[derive(Debug)]
enum SinkState {
    Idle(Box<Sink>),
    /// In a task that writes to it.
    Busy(JoinHandle<io::Result<Box<Sink>>>),
    /// [`sink`](Self::sink) has taken the sink out. This is permanent after a failed write, which
    /// loses the sink.
    Taken,
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

    /// Waits for the current write and takes the sink out; the caller puts it back. Returns the
    /// error of a failed write once, and later `BrokenPipe`.
    async fn sink(&mut self) -> io::Result<Box<Sink>> {
        // Awaited by reference: if this future is dropped, the task stays in `self`.
        let sink = match self {
            Self::Busy(writing) => Some(writing.await.expect("writing does not panic")),
            Self::Idle(_) | Self::Taken => None,
        };
        match (std::mem::replace(self, Self::Taken), sink) {
            (Self::Idle(sink), _) => Ok(sink),
            (_, Some(written)) => written,
            (_, None) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Sink {
    /// Creates a sink at the first byte of the file. Existing bytes are not read.
    fn new(file: File) -> Self {
        let hasher = MediaHasher::of_media(&MediaHeaders::default());
        Self { file, hasher }
    }

    /// Returns whether the file begins with bytes of this length and CRC32C. If so, removes the
    /// bytes after them and moves the position to their end. `hasher` starts at the first byte.
    fn check_prefix(
        &mut self,
        received: ReceivedPrefix,
        mut hasher: MediaHasher,
    ) -> io::Result<bool> {
        let mut buf = vec![0; READ_LEN];
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
                crc32c: hasher.crc32c(),
            };
        if is_there {
            self.truncate(length, hasher)?;
        }
        Ok(is_there)
    }

    /// Truncates the file to `length` bytes. `hasher` has the digests of these bytes.
    fn truncate(&mut self, length: u64, hasher: MediaHasher) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.hasher = hasher;
        Ok(())
    }
}
