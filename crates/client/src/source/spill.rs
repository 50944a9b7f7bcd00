//! All bytes of a stream, in a file without a name.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use tokio::task::spawn_blocking;

use super::{SourceError, positioned};

/// What was written to the file, and what is on its way.
pub(super) struct Spill {
    directory: PathBuf,
    file: Arc<File>,
    written: u64,
    /// Being written behind `written`, or to be written again: the write is at a position, so it
    /// does no harm twice, not even while a write whose future was dropped still runs.
    pending: Bytes,
}

impl Spill {
    pub(super) async fn create(directory: PathBuf) -> Result<Self, SourceError> {
        let within = directory.clone();
        let created = spawn_blocking(move || tempfile::tempfile_in(within)).await;
        match created.map_err(io::Error::from).flatten() {
            Ok(file) => Ok(Self {
                directory,
                file: Arc::new(file),
                written: 0,
                pending: Bytes::new(),
            }),
            Err(source) => Err(SourceError::Spill { directory, source }),
        }
    }

    /// Writes all of a block. What is left when the future is dropped is in the block or pending.
    pub(super) async fn push(&mut self, block: &mut BytesMut) -> Result<(), SourceError> {
        while !(self.pending.is_empty() && block.is_empty()) {
            if self.pending.is_empty() {
                self.pending = block.split().freeze();
            }
            self.write_pending().await?;
        }
        Ok(())
    }

    pub(super) fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        positioned::stream(Arc::clone(&self.file), range)
    }

    async fn write_pending(&mut self) -> Result<(), SourceError> {
        let (file, piece, at) = (Arc::clone(&self.file), self.pending.clone(), self.written);
        let wrote = spawn_blocking(move || file.write_all_at(&piece, at)).await;
        match wrote.map_err(io::Error::from).flatten() {
            Ok(()) => {
                self.written += self.pending.len() as u64;
                self.pending = Bytes::new();
                Ok(())
            }
            Err(source) => Err(SourceError::Spill {
                directory: self.directory.clone(),
                source,
            }),
        }
    }
}
