//! Media in a regular file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::task::spawn_blocking;

use super::identity::FileState;
use super::{Change, SourceError, SourceIdentity, positioned};

/// A regular file, open, and what was known of it then.
pub(super) struct FileMedia {
    path: PathBuf,
    canonical: PathBuf,
    file: Arc<File>,
    state: FileState,
}

/// What a path turned out to be.
pub(super) enum Opened {
    Regular(FileMedia),
    /// It can be read, but only once.
    Other(File),
}

/// Opens a path.
pub(super) async fn open(path: PathBuf) -> Result<Opened, SourceError> {
    let opened = path.clone();
    let opened = spawn_blocking(move || open_blocking(opened)).await;
    opened.map_err(|error| SourceError::Open {
        path,
        source: error.into(),
    })?
}

/// Looks at a path for what it will be recognised by.
///
/// Only a regular file is opened: to open a FIFO and close it again cuts off who writes to it.
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
    // `/dev/stdin` may be a file whose name is gone, and that has no canonical path.
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

    fn cannot_read(&self, source: io::Error) -> SourceError {
        SourceError::Read {
            path: self.path.clone(),
            source,
        }
    }
}

/// What happened to a file since it was opened, or to its name.
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
