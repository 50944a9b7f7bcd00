//! Media in a regular file, and the identity of a file, which shows whether it has changed when an
//! upload continues in another process.

use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use windlass_digest::{Crc32c, Crc32cHasher};

use super::{SourceError, positioned};

/// An open regular file and its state when it was opened.
pub(super) struct FileMedia {
    /// Path as the caller gave it.
    path: PathBuf,
    /// Absolute path without symbolic links; with them if the file has no name any more.
    canonical: PathBuf,
    file: Arc<File>,
    state: FileState,
}

/// An opened path.
pub(super) enum Opened {
    /// A regular file, any range of which can be read.
    Regular(FileMedia),
    /// A file that is read like a stream, because it is not a regular file or does not report its
    /// size.
    Other(File),
}

/// Opens a path. For a FIFO, waits until a writer opens it.
pub(super) async fn open(path: PathBuf) -> Result<Opened, SourceError> {
    let opened = path.clone();
    let opened = spawn_blocking(move || open_blocking(opened)).await;
    opened.map_err(|error| SourceError::Open {
        path,
        source: error.into(),
    })?
}

/// Returns the identity of a path.
///
/// Only a regular file is opened: a FIFO that is opened and closed would break the pipe of its
/// writer.
pub(super) async fn identify(path: PathBuf) -> Result<SourceIdentity, SourceError> {
    let metadata = match tokio::fs::metadata(&path).await {
        Ok(metadata) => metadata,
        Err(source) => return Err(SourceError::Open { path, source }),
    };
    if metadata.is_dir() {
        return Err(SourceError::IsDirectory { path });
    }
    if !metadata.is_file() {
        return Err(SourceError::NotAFile { path });
    }
    match open(path.clone()).await? {
        Opened::Regular(file) => file.identity().await,
        Opened::Other(_) => Err(SourceError::NotAFile { path }),
    }
}

fn open_blocking(path: PathBuf) -> Result<Opened, SourceError> {
    let cannot_open = |source| SourceError::Open {
        path: path.clone(),
        source,
    };
    let file = File::open(&path).map_err(cannot_open)?;
    let metadata = file.metadata().map_err(cannot_open)?;
    if metadata.is_dir() {
        return Err(SourceError::IsDirectory { path });
    }
    if !metadata.is_file() || has_unreported_content(&file, metadata.len()) {
        return Ok(Opened::Other(file));
    }
    // `/dev/stdin` may be a deleted file, which has no canonical path.
    let canonical = path
        .canonicalize()
        .or_else(|_| std::path::absolute(&path))
        .map_err(cannot_open)?;
    Ok(Opened::Regular(FileMedia {
        state: FileState::from(&metadata),
        file: Arc::new(file),
        canonical,
        path,
    }))
}

/// Returns whether a file with a reported size of zero has content, like those in `/proc`.
fn has_unreported_content(file: &File, size: u64) -> bool {
    size == 0 && matches!(file.read_at(&mut [0], 0), Ok(1))
}

impl FileMedia {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn size(&self) -> u64 {
        self.state.size
    }

    pub(super) fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        positioned::stream(Arc::clone(&self.file), range)
    }

    pub(super) async fn identity(&self) -> Result<SourceIdentity, SourceError> {
        let file = Arc::clone(&self.file);
        let (canonical, state) = (self.canonical.clone(), self.state.clone());
        spawn_blocking(move || SourceIdentity::new(canonical, state, &file))
            .await
            .map_err(io::Error::from)
            .flatten()
            .map_err(|source| self.cannot_read(source))
    }

    pub(super) async fn check_unchanged(&self) -> Result<(), SourceError> {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        let opened = self.state.clone();
        let change = spawn_blocking(move || change(&opened, &file, &path))
            .await
            .map_err(io::Error::from)
            .flatten()
            .map_err(|source| self.cannot_read(source))?;
        change.map_or(Ok(()), |change| {
            Err(SourceError::Changed {
                path: self.path.clone(),
                change,
            })
        })
    }

    pub(super) fn cannot_read(&self, source: io::Error) -> SourceError {
        SourceError::Read {
            path: self.path.clone(),
            source,
        }
    }
}

/// Returns how a file has changed since it was opened. If another file has its name, or none has,
/// that is a change, too.
fn change(opened: &FileState, file: &File, path: &Path) -> io::Result<Option<Change>> {
    let named = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Change::Removed)),
        metadata => FileState::from(&metadata?),
    };
    if !named.is_the_same_file(opened) {
        return Ok(Some(Change::Replaced));
    }
    let now = FileState::from(&file.metadata()?);
    Ok(opened.difference(&now))
}

/// The identity of a regular file when its upload begins. When the upload continues, size,
/// modification time and both ends must be the same.
///
/// It consists of the path, of size, modification time, inode and device, and of a CRC32C of the
/// first and the last 64 KiB. Its cost therefore does not depend on the size of the file. It does
/// not show a change in the middle of a file that keeps its size and modification time. Only the
/// comparison of digests at the end of the upload detects such a change.
///
/// The identity can be serialized, even if the path is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceIdentity {
    #[serde(with = "path_format")]
    path: PathBuf,
    file: FileState,
    /// CRC32C of the first [`END_BYTES`] bytes followed by the last [`END_BYTES`] bytes; of all
    /// bytes once, if these overlap.
    ends_crc32c: Crc32c,
}

/// How a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// No file has its name.
    Removed,
    /// Another file has its name.
    Replaced,
    /// Its size has changed.
    Resized {
        /// Previous size in bytes.
        was: u64,
        /// Current size in bytes.
        is: u64,
    },
    /// Its modification time has changed, and its size has not.
    Modified,
    /// Its first or last 64 KiB have changed, and its size and modification time have not.
    Content,
}

/// The `stat` fields that are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    modified: ModificationTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ModificationTime {
    seconds: i64,
    nanoseconds: u32,
}

/// Number of bytes at each end of a file that the CRC32C covers.
const END_BYTES: u64 = 64 << 10;

impl SourceIdentity {
    /// Returns the identity of a file. A path that is not a regular file is not opened, because
    /// that would disturb the writer of a FIFO.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read, or the path is not a regular file.
    pub async fn of(path: impl Into<PathBuf>) -> Result<Self, SourceError> {
        identify(path.into()).await
    }

    pub(super) fn new(path: PathBuf, file: FileState, opened: &Arc<File>) -> io::Result<Self> {
        Ok(Self {
            path,
            ends_crc32c: ends_crc32c(opened, file.size)?,
            file,
        })
    }

    /// Returns the absolute path. It has no symbolic links, unless the file had no name any more
    /// when it was opened, like a deleted file at `/dev/stdin`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.file.size
    }

    /// Returns the modification time; 1970 if the system's clock cannot represent it.
    pub fn modified(&self) -> SystemTime {
        let ModificationTime {
            seconds,
            nanoseconds,
        } = self.file.modified;
        let whole_seconds = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 {
            UNIX_EPOCH.checked_sub(whole_seconds)
        } else {
            UNIX_EPOCH.checked_add(whole_seconds)
        };
        time.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds.into())))
            .unwrap_or(UNIX_EPOCH)
    }

    /// Returns the device number. It may change at a reboot.
    pub fn device(&self) -> u64 {
        self.file.device
    }

    /// Returns the inode number.
    pub fn inode(&self) -> u64 {
        self.file.inode
    }

    /// Returns the CRC32C of the first 64 KiB followed by the last 64 KiB; of all bytes once, if
    /// these overlap.
    pub fn ends_crc32c(&self) -> Crc32c {
        self.ends_crc32c
    }

    /// Returns whether the file is still there with the same size and modification time. Blocks the
    /// thread for a `stat` call.
    pub(crate) fn is_still_there(&self) -> bool {
        let metadata = self.path.metadata();
        metadata.is_ok_and(|now| self.file.difference(&FileState::from(&now)).is_none())
    }

    /// Returns how the file with the identity `now` differs from the one with this identity; `None`
    /// if an upload may continue with it.
    ///
    /// Size, modification time and CRC32C are compared. A file that differs and has another inode
    /// was [replaced](Change::Replaced). Another inode or device alone is no difference: devices
    /// are renumbered at a reboot or a mount, and inodes at a mount of some network file systems
    /// and by a restored backup. The path is not compared either: it is part of the
    /// [key](crate::UploadKey) by which the journal finds an upload.
    pub fn difference(&self, now: &Self) -> Option<Change> {
        let ends = (self.ends_crc32c != now.ends_crc32c).then_some(Change::Content);
        let change = self.file.difference(&now.file).or(ends)?;
        if self.file.inode == now.file.inode {
            Some(change)
        } else {
            Some(Change::Replaced)
        }
    }
}

impl FileState {
    /// Returns whether two states are of the same file. One of them must be of an open file: the
    /// inode of a deleted file can be reused.
    pub(super) fn is_the_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Returns the change of size or modification time between this state and `now`.
    pub(super) fn difference(&self, now: &Self) -> Option<Change> {
        if self.size != now.size {
            return Some(Change::Resized {
                was: self.size,
                is: now.size,
            });
        }
        (self.modified != now.modified).then_some(Change::Modified)
    }
}

impl From<&Metadata> for FileState {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: ModificationTime {
                seconds: metadata.mtime(),
                nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or_default(),
            },
        }
    }
}

impl fmt::Display for Change {
    /// Completes the sentence "PATH has changed since the upload began: ".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("it is gone"),
            Self::Replaced => f.write_str("another file is in its place"),
            Self::Resized { was, is } => write!(f, "it had {was} bytes and has {is} now"),
            Self::Modified => f.write_str("it was written to"),
            Self::Content => f.write_str("its first or last bytes are different"),
        }
    }
}

/// Computes the CRC32C of a file's ends. If the file is truncated meanwhile, the CRC32C covers
/// fewer bytes; the changed size shows that.
fn ends_crc32c(file: &Arc<File>, size: u64) -> io::Result<Crc32c> {
    let head = 0..END_BYTES.min(size);
    let tail = size.saturating_sub(END_BYTES).max(head.end)..size;
    let mut hasher = Crc32cHasher::default();
    for end in [head, tail] {
        hasher.update(&positioned::read_available(file, end)?);
    }
    Ok(hasher.value())
}

/// Serializes a path as text if it is UTF-8, and otherwise its bytes as `{"base64": ...}`.
mod path_format {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes { base64: String },
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match path.to_str() {
            Some(text) => Written::Text(text.to_owned()),
            None => Written::Bytes {
                base64: STANDARD.encode(path.as_os_str().as_bytes()),
            },
        };
        written.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(text.into()),
            Written::Bytes { base64 } => {
                let bytes = STANDARD.decode(base64).map_err(de::Error::custom)?;
                Ok(OsString::from_vec(bytes).into())
            }
        }
    }
}
