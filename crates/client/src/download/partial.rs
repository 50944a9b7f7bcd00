//! The files of a download that is not complete: `TARGET.part`, the bytes that have come, and
//! `TARGET.part.json`, which media they are of.
//!
//! Bytes are gathered and written in great pieces, away from the async threads; at most two such pieces
//! are in memory. What an earlier run left stays as it is until other media has been accepted.
//!
//! Nothing is synced before the media is complete, so a power cut may leave anything in the part. The note says how
//! many bytes had come, and their digest: a later run goes on behind these bytes if they are there, else it begins
//! at the first byte.

use std::path::Path;

use bytes::Bytes;
use http::HeaderValue;
use tokio::task::spawn_blocking;
use url::Url;
use windlass_proto::digest::{Crc32c, Crc32cHasher};

use super::{DownloadError, Downloaded, Whole};
use files::{Files, Owned, Part};
use note::Received;
use sink::{Sink, Writing};

mod files;
mod note;
mod sink;

/// So much is gathered before it is written.
const GATHERED: usize = 1 << 20;

/// A note is written whenever this much has come since the last one. A process that is killed loses about as much.
const NOTED: u64 = 2 << 20;

/// What has come of the media, and what is known of it.
#[derive(Debug)]
pub(super) struct Partial {
    files: Files,
    owned: Owned,
    media: Whole,
    received: u64,
    /// Count of those that the note on the disk covers.
    noted: u64,
    /// The rest was asked for and something else came.
    asks_for_all: bool,
    gathered: Vec<Bytes>,
    gathered_len: usize,
    writing: Writing,
}

/// A place in the media that can be gone back to.
#[derive(Debug, Clone, Default)]
pub(super) struct Mark {
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
            Self::take_up(files, part)
        })
        .await
    }

    fn take_up(files: Files, part: Part) -> Result<Self, DownloadError> {
        let Part { file, owned, begun } = part;
        let mut sink = Sink::new(file);
        let begun = match begun {
            Some((media, received)) if sink.begins_with(received).map_err(files.failed())? => {
                Some((media, received))
            }
            _ => None,
        };
        let mut partial = Self::new(files, owned, sink);
        if let Some((media, received)) = begun {
            partial.received = received.length;
            partial.noted = received.length;
            partial.media = media;
        }
        Ok(partial)
    }

    fn new(files: Files, owned: Owned, sink: Sink) -> Self {
        Self {
            files,
            owned,
            media: Whole::default(),
            received: 0,
            noted: 0,
            asks_for_all: false,
            gathered: Vec::new(),
            gathered_len: 0,
            writing: Writing::idle(sink),
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
    pub(super) fn learn(&mut self, total: Option<u64>) {
        self.media.size = self.media.size.or(total);
    }

    /// The media that some bytes have come of.
    pub(super) fn begun(&self) -> Option<&Whole> {
        (self.received > 0).then_some(&self.media)
    }

    /// The tag by which the rest can be asked for.
    pub(super) fn can_go_on(&self) -> Option<&HeaderValue> {
        let media = self.begun().filter(|_| !self.asks_for_all);
        media?.etag.as_ref()
    }

    /// The rest cannot be had: the whole media is asked for next. What has come is kept until it is
    /// there.
    pub(super) fn ask_for_all(&mut self) {
        self.asks_for_all = true;
    }

    /// Begins this media from its first byte. What has come of another is dropped.
    pub(super) async fn begin(&mut self, media: Whole) -> Result<(), DownloadError> {
        self.go_back(&Mark::default()).await?;
        self.owned = Owned::PartAndNote;
        self.asks_for_all = false;
        self.media = media;
        self.write_note().await
    }

    /// Notes what has come.
    async fn write_note(&mut self) -> Result<(), DownloadError> {
        let Mark { received, hasher } = self.mark().await?;
        self.noted = received;
        let received = Received {
            length: received,
            crc32c: hasher.value(),
        };
        let (files, media) = (self.files.clone(), self.media.clone());
        blocking(move || files.write_note(&media, received).map_err(files.failed())).await
    }

    /// Where it stands, with everything written.
    pub(super) async fn mark(&mut self) -> Result<Mark, DownloadError> {
        self.start_writing().await?;
        let sink = self.sink().await?;
        let hasher = sink.hasher;
        self.writing = Writing::Idle(sink);
        Ok(Mark {
            received: self.received,
            hasher,
        })
    }

    /// Drops what has come since.
    pub(super) async fn go_back(&mut self, to: &Mark) -> Result<(), DownloadError> {
        self.gathered.clear();
        self.gathered_len = 0;
        let mut sink = self.sink().await?;
        self.received = to.received;
        self.noted = self.noted.min(to.received);
        let (to, failed) = (to.clone(), self.files.failed());
        let sink = blocking(move || {
            sink.cut(to.received, to.hasher).map_err(failed)?;
            Ok(sink)
        });
        self.writing = Writing::Idle(sink.await?);
        Ok(())
    }

    /// Takes the next bytes.
    pub(super) async fn write(&mut self, piece: Bytes) -> Result<(), DownloadError> {
        self.received += piece.len() as u64;
        self.gathered_len += piece.len();
        self.gathered.push(piece);
        if self.gathered_len >= GATHERED {
            self.start_writing().await?;
            if self.received - self.noted >= NOTED {
                self.write_note().await?;
            }
        }
        Ok(())
    }

    /// Hands everything that has come to the operating system, and notes it.
    pub(super) async fn flush(&mut self) -> Result<(), DownloadError> {
        self.write_note().await
    }

    /// Ends without the media. What has come is left for a later run; files without it are removed, if
    /// they are of this run. A failure here is not told, as it would hide what it ends with.
    pub(super) async fn leave(mut self) {
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
                let removed = files.remove(Owned::PartAndNote, &sink.file);
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
        let pieces = std::mem::take(&mut self.gathered);
        self.gathered_len = 0;
        self.writing = Writing::start(sink, pieces);
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

impl Whole {
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
