//! Media that can be read only once.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::BoxStream;
use sync_wrapper::SyncWrapper;
use tokio::io::AsyncReadExt;

use super::media::{Filled, pieces};
use super::spill::Spill;
use super::window::Window;
use super::{Reader, SourceError};

/// How much is kept of a stream, and where.
pub(super) enum Retention {
    /// The last so many bytes, in memory.
    Window(u64),
    /// Everything, in a file in this directory.
    All(PathBuf),
}

/// A reader, and what is kept of what was read.
///
/// Bytes go from the reader to `block` and from there, a block at a time, to what is kept. Between
/// two awaits every byte that the reader gave is in one of the two: that makes a dropped
/// [`fill`](Self::fill) harmless.
pub(super) struct StreamMedia {
    reader: SyncWrapper<Reader>,
    path: Option<PathBuf>,
    stated: Option<u64>,
    block: BytesMut,
    kept: Retained,
    /// Bytes that the reader gave.
    read: u64,
    /// The reader said that there are no more.
    ended: bool,
    /// The reader had more than was stated.
    exceeds_stated: bool,
}

enum Retained {
    Window(Window),
    Spill(Spill),
}

/// Memory is taken in blocks of this size.
pub(super) const BLOCK: usize = 256 << 10;

impl StreamMedia {
    pub(super) async fn new(
        reader: Reader,
        path: Option<PathBuf>,
        stated: Option<u64>,
        keep: Retention,
    ) -> Result<Self, SourceError> {
        let kept = match keep {
            Retention::Window(bytes) => Retained::Window(Window::new(bytes)),
            Retention::All(directory) => Retained::Spill(Spill::create(directory).await?),
        };
        Ok(Self {
            reader: SyncWrapper::new(reader),
            path,
            stated,
            block: BytesMut::new(),
            kept,
            read: 0,
            ended: false,
            exceeds_stated: false,
        })
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.stated.or(self.ended.then_some(self.read))
    }

    pub(super) fn window(&self) -> Option<u64> {
        match &self.kept {
            Retained::Window(window) => Some(window.size()),
            Retained::Spill(_) => None,
        }
    }

    pub(super) async fn fill(&mut self, upto: u64) -> Result<Filled, SourceError> {
        let upto = upto.min(self.fill_limit());
        while !self.ended && self.read < upto {
            if self.block.len() == self.block.capacity() {
                self.keep_block().await?;
                self.block.reserve(BLOCK);
            }
            self.read_some(upto - self.read).await?;
        }
        self.keep_block().await?;
        self.check_length().await?;
        Ok(Filled {
            end: self.read,
            ended: self.ended,
        })
    }

    pub(super) fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        match &self.kept {
            Retained::Window(window) => pieces(window.pieces(range)),
            Retained::Spill(spill) => spill.read(range),
        }
    }

    pub(super) fn release(&mut self, before: u64) {
        match &mut self.kept {
            Retained::Window(window) => window.release(before),
            Retained::Spill(_) => {}
        }
    }

    /// How far it may be read now.
    fn fill_limit(&self) -> u64 {
        let room = match &self.kept {
            Retained::Window(window) => window.reach().saturating_add(1),
            Retained::Spill(_) => u64::MAX,
        };
        room.min(self.stated.unwrap_or(u64::MAX))
    }

    /// Reads once, at most `limit` bytes, into what room the block has.
    async fn read_some(&mut self, limit: u64) -> Result<(), SourceError> {
        let room = self.block.capacity() - self.block.len();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(room);
        let mut buf = (&mut self.block).limit(limit);
        match self.reader.get_mut().read_buf(&mut buf).await {
            Ok(0) => self.ended = true,
            Ok(count) => self.read += count as u64,
            Err(source) => return Err(self.cannot_read(source)),
        }
        Ok(())
    }

    async fn keep_block(&mut self) -> Result<(), SourceError> {
        match &mut self.kept {
            Retained::Window(window) => {
                window.push(self.block.split().freeze());
                Ok(())
            }
            Retained::Spill(spill) => spill.push(&mut self.block).await,
        }
    }

    /// Holds the reader to the length that was stated: it shall end there, not before, not later.
    async fn check_length(&mut self) -> Result<(), SourceError> {
        let Some(stated) = self.stated else {
            return Ok(());
        };
        if self.read == stated && !self.ended && !self.exceeds_stated {
            match self.reader.get_mut().read(&mut [0]).await {
                Ok(0) => self.ended = true,
                Ok(_) => self.exceeds_stated = true,
                Err(source) => return Err(self.cannot_read(source)),
            }
        }
        let found = self.read + u64::from(self.exceeds_stated);
        if self.exceeds_stated || (self.ended && found < stated) {
            return Err(SourceError::LengthDisagrees { stated, found });
        }
        Ok(())
    }

    fn cannot_read(&self, source: io::Error) -> SourceError {
        match self.path.clone() {
            Some(path) => SourceError::Read { path, source },
            None => SourceError::ReadStream { source },
        }
    }
}
