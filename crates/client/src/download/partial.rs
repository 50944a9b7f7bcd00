//! The files of a download that is not complete: `TARGET.part`, the bytes that have come, and
//! `TARGET.part.json`, which media they are of.
//!
//! Bytes are gathered and written in great pieces, away from the async threads; at most two such pieces
//! are in memory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use tempfile::{NamedTempFile, TempPath};
use tokio::task::{JoinHandle, spawn_blocking};
use url::Url;
use windlass_proto::digest::{Crc32c, Crc32cHasher, Sha256, SlowHasher, Wanted};

use super::answer::is_strong;
use super::{DownloadError, Downloaded, Whole, beside};

/// So much is gathered before it is written.
const GATHERED: usize = 1 << 20;

/// What has come of the media, and what is known of it.
#[derive(Debug)]
pub(super) struct Partial {
    files: Files,
    media: Whole,
    received: u64,
    gathered: Vec<Bytes>,
    gathered_len: usize,
    writing: Writing,
}

/// Where things are.
#[derive(Debug, Clone)]
struct Files {
    target: PathBuf,
    part: PathBuf,
    note: PathBuf,
    url: Sha256,
}

/// The file, here or with the thread that writes it.
#[derive(Debug)]
enum Writing {
    Idle(Box<Sink>),
    Busy(JoinHandle<io::Result<Box<Sink>>>),
    /// Writing failed.
    Broken,
}

#[derive(Debug)]
struct Sink {
    file: File,
    hasher: Crc32cHasher,
}

/// What `TARGET.part.json` holds.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// Of the URL, which may be secret.
    url_sha256: Sha256,
    etag: Option<String>,
    size: Option<u64>,
    crc32c: Option<Crc32c>,
}

impl Partial {
    /// Opens what is there of the same media, or begins.
    pub(super) async fn open(
        target: &Path,
        url: &Url,
        overwrite: bool,
    ) -> Result<Self, DownloadError> {
        let files = Files {
            target: target.to_owned(),
            part: beside(target, ".part"),
            note: beside(target, ".part.json"),
            url: sha256(url),
        };
        blocking(move || {
            if !overwrite && files.target.symlink_metadata().is_ok() {
                return Err(DownloadError::Exists { path: files.target });
            }
            let mut file = files.lock()?;
            let media = files.note().unwrap_or_default();
            let (received, hasher) = take_up(&mut file, &media).map_err(files.failed())?;
            Ok(Self {
                files,
                media,
                received,
                gathered: Vec::new(),
                gathered_len: 0,
                writing: Writing::Idle(Box::new(Sink { file, hasher })),
            })
        })
        .await
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

    /// The tag by which the rest can be asked for.
    pub(super) fn can_go_on(&self) -> Option<&HeaderValue> {
        self.media.etag.as_ref().filter(|_| self.received > 0)
    }

    /// Begins this media from its first byte.
    pub(super) async fn begin(&mut self, media: Whole) -> Result<(), DownloadError> {
        self.discard().await?;
        self.media = media.clone();
        let files = self.files.clone();
        blocking(move || files.write_note(&media).map_err(files.failed())).await
    }

    /// Forgets what has come.
    pub(super) async fn discard(&mut self) -> Result<(), DownloadError> {
        self.gathered.clear();
        self.gathered_len = 0;
        let mut sink = self.sink().await?;
        self.media = Whole::default();
        self.received = 0;
        let files = self.files.clone();
        let sink = blocking(move || {
            let emptied = files.remove_note().and_then(|()| empty(&mut sink.file));
            emptied.map_err(files.failed())?;
            sink.hasher = Crc32cHasher::default();
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
        }
        Ok(())
    }

    /// Hands everything that has come to the operating system.
    pub(super) async fn flush(&mut self) -> Result<(), DownloadError> {
        self.start_writing().await?;
        let sink = self.sink().await?;
        self.writing = Writing::Idle(sink);
        Ok(())
    }

    /// Ends without the media. What has come is left for a later run, if anything has.
    pub(super) async fn leave(mut self) -> Result<(), DownloadError> {
        let _sink = self.sink().await?;
        if self.received > 0 {
            return Ok(());
        }
        let files = self.files;
        blocking(move || files.remove().map_err(files.failed())).await
    }

    /// Compares the media with what is stated of it, makes it durable and gives it its name. Media that
    /// is not what it should be is removed.
    pub(super) async fn finish(
        mut self,
        expected: Option<Crc32c>,
        overwrite: bool,
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
                files.remove().map_err(files.failed())?;
                return Err(error);
            }
            files.publish(&sink.file, overwrite)?;
            Ok(downloaded)
        })
        .await
    }

    async fn start_writing(&mut self) -> Result<(), DownloadError> {
        let mut sink = self.sink().await?;
        let pieces = std::mem::take(&mut self.gathered);
        self.gathered_len = 0;
        self.writing = Writing::Busy(spawn_blocking(move || {
            for piece in pieces {
                sink.file.write_all(&piece)?;
                sink.hasher.update(&piece);
            }
            Ok(sink)
        }));
        Ok(())
    }

    /// The file, when it is written.
    async fn sink(&mut self) -> Result<Box<Sink>, DownloadError> {
        // Awaited where it is: should this future be dropped, nothing is lost.
        let sink = match &mut self.writing {
            Writing::Busy(writing) => Some(writing.await.expect("writing does not panic")),
            Writing::Idle(_) | Writing::Broken => None,
        };
        match (std::mem::replace(&mut self.writing, Writing::Broken), sink) {
            (Writing::Idle(sink), _) | (_, Some(Ok(sink))) => Ok(sink),
            (_, Some(Err(error))) => Err(self.files.failed()(error)),
            (_, None) => Err(self.files.failed()(io::ErrorKind::BrokenPipe.into())),
        }
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

impl Files {
    /// Opens the part; nobody else writes it as long as it is open.
    fn lock(&self) -> Result<File, DownloadError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&self.part).map_err(self.failed())?;
        let is_locked = match file.try_lock() {
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => true,
            Err(TryLockError::WouldBlock) => false,
        };
        // Between opening and locking, another process may have given it the target's name.
        if is_locked && is_at(&file, &self.part).map_err(self.failed())? {
            return Ok(file);
        }
        Err(DownloadError::InUse {
            path: self.part.clone(),
        })
    }

    /// What is known of the part, if it is of the same URL and can be gone on with.
    fn note(&self) -> Option<Whole> {
        let note: Note = serde_json::from_slice(&std::fs::read(&self.note).ok()?).ok()?;
        let etag = HeaderValue::try_from(note.etag?).ok()?;
        let is_good = note.url_sha256 == self.url && is_strong(&etag);
        is_good.then_some(Whole {
            etag: Some(etag),
            size: note.size,
            crc32c: note.crc32c,
        })
    }

    /// A note is replaced as a whole, and nobody else can read it.
    fn write_note(&self, media: &Whole) -> io::Result<()> {
        let etag = media.etag.as_ref().and_then(|etag| etag.to_str().ok());
        let note = Note {
            url_sha256: self.url,
            etag: etag.map(str::to_owned),
            size: media.size,
            crc32c: media.crc32c,
        };
        let mut file = NamedTempFile::new_in(self.directory())?;
        serde_json::to_writer(&mut file, &note)?;
        file.persist(&self.note)?;
        Ok(())
    }

    fn remove_note(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.note) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(&self.part)?;
        self.remove_note()
    }

    /// Gives the media its name. It is durable before.
    fn publish(&self, file: &File, overwrite: bool) -> Result<(), DownloadError> {
        file.sync_all().map_err(self.failed())?;
        let part = TempPath::try_from_path(&self.part).map_err(self.failed())?;
        let persisted = if overwrite {
            part.persist(&self.target)
        } else {
            part.persist_noclobber(&self.target)
        };
        if let Err(failure) = persisted {
            // What was so long in coming is not deleted.
            let _ = failure.path.keep();
            return Err(match failure.error.kind() {
                io::ErrorKind::AlreadyExists => DownloadError::Exists {
                    path: self.target.clone(),
                },
                _ => self.failed()(failure.error),
            });
        }
        self.remove_note().map_err(self.failed())?;
        // Directories cannot be opened everywhere; the name is then as durable as it gets.
        match File::open(self.directory()) {
            Ok(directory) => directory.sync_all().map_err(self.failed()),
            Err(_) => Ok(()),
        }
    }

    fn directory(&self) -> &Path {
        match self.target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    fn failed(&self) -> impl Fn(io::Error) -> DownloadError + use<> {
        let path = self.part.clone();
        move |source| DownloadError::File {
            path: path.clone(),
            source,
        }
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let opened = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Files that are open cannot be renamed here.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Reads what is there, if it is worth anything, and stands behind it.
fn take_up(file: &mut File, media: &Whole) -> io::Result<(u64, Crc32cHasher)> {
    let length = file.metadata()?.len();
    let is_good = media.etag.is_some() && media.size.is_none_or(|size| length <= size);
    if !is_good {
        empty(file)?;
        return Ok((0, Crc32cHasher::default()));
    }
    let mut hasher = Crc32cHasher::default();
    let mut buf = vec![0; GATHERED];
    let mut received = 0;
    loop {
        match file.read(&mut buf)? {
            0 => return Ok((received, hasher)),
            len => {
                hasher.update(&buf[..len]);
                received += len as u64;
            }
        }
    }
}

fn empty(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0)).map(drop)
}

fn sha256(url: &Url) -> Sha256 {
    let mut hasher = SlowHasher::new(Wanted {
        md5: false,
        sha256: true,
    });
    hasher.update(url.as_str().as_bytes());
    hasher.finish().1.expect("it was wanted")
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DownloadError> + Send + 'static,
) -> Result<T, DownloadError> {
    spawn_blocking(work).await.expect("the work does not panic")
}
