//! Media that can be read only once, and what is kept of it: a window in memory, or everything in a
//! file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use sync_wrapper::SyncWrapper;
use tokio::io::AsyncReadExt;
use tokio::task::spawn_blocking;

use super::{Reader, SourceError, positioned};

/// How far a stream was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Number of bytes read. They can be sent unless they were released.
    pub(crate) end: u64,
    /// Whether the media is known to end there.
    pub(crate) ended: bool,
}

/// How much of a stream is kept, and where.
pub(super) enum Retention {
    /// The last bytes, up to this number, in memory.
    Window(u64),
    /// All bytes, in a file in this directory.
    All(PathBuf),
}

/// A reader and the kept bytes.
///
/// Bytes go from the reader to `block`, and a block at a time from there to the kept bytes. At
/// every await point each byte from the reader is in one of the two, so dropping
/// [`fill`](Self::fill) loses nothing.
pub(super) struct StreamMedia {
    reader: SyncWrapper<Reader>,
    path: Option<PathBuf>,
    stated: Option<u64>,
    block: BytesMut,
    kept: Retained,
    /// Number of bytes read.
    read: u64,
    /// Whether the reader has ended.
    ended: bool,
    /// Whether the reader had more bytes than stated.
    exceeds_stated: bool,
}

enum Retained {
    Window(Window),
    Spill(Spill),
}

/// Size of memory blocks.
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

    /// Returns the offset up to which the stream may be read now.
    fn fill_limit(&self) -> u64 {
        let room = match &self.kept {
            Retained::Window(window) => window.reach().saturating_add(1),
            Retained::Spill(_) => u64::MAX,
        };
        room.min(self.stated.unwrap_or(u64::MAX))
    }

    /// Reads once, at most `limit` bytes, into the spare capacity of the block.
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

    /// Checks that the reader ends at the stated length.
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

/// The last bytes of a stream in memory, from `first` to `end`: at most `size` bytes and one byte
/// read ahead. Memory use exceeds this by one or two blocks, because blocks are freed as a whole.
pub(super) struct Window {
    size: u64,
    first: u64,
    end: u64,
    pieces: VecDeque<Bytes>,
}

impl Window {
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            first: 0,
            end: 0,
            pieces: VecDeque::new(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the end of the window if it were full.
    pub(super) fn reach(&self) -> u64 {
        self.first.saturating_add(self.size)
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.end += piece.len() as u64;
            self.pieces.push_back(piece);
        }
    }

    /// Drops the bytes before this offset.
    pub(super) fn release(&mut self, before: u64) {
        let before = before.min(self.end);
        while self.first < before {
            let Some(piece) = self.pieces.front_mut() else {
                return;
            };
            let gone = (before - self.first).min(piece.len() as u64);
            self.first += gone;
            if gone == piece.len() as u64 {
                self.pieces.pop_front();
            } else {
                piece.advance(slice_len(gone));
            }
        }
    }

    /// Returns exactly these bytes.
    pub(super) fn pieces(&self, range: Range<u64>) -> io::Result<Vec<Bytes>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if range.start < self.first {
            return Err(io::Error::other(SourceError::NoLongerBuffered {
                wanted: range.start,
                kept_from: self.first,
            }));
        }
        if range.end > self.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut wanted = Vec::new();
        let mut offset = self.first;
        for piece in &self.pieces {
            let end = offset + piece.len() as u64;
            let (from, to) = (range.start.max(offset), range.end.min(end));
            if from < to {
                wanted.push(piece.slice(slice_len(from - offset)..slice_len(to - offset)));
            }
            offset = end;
        }
        Ok(wanted)
    }
}

fn slice_len(len: u64) -> usize {
    usize::try_from(len).expect("it is within a piece, which is in memory")
}

/// All bytes of a stream in a file without a name.
pub(super) struct Spill {
    directory: PathBuf,
    file: Arc<File>,
    written: u64,
    /// Bytes to be written after `written`. They may be written twice if a future is dropped, even
    /// while the first write still runs; a positioned write of the same bytes does no harm.
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

    /// Writes a whole block. If the future is dropped, the unwritten bytes are in the block or in
    /// `pending`.
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

/// Returns a stream of these pieces, or of the error.
pub(super) fn pieces(pieces: io::Result<Vec<Bytes>>) -> BoxStream<'static, io::Result<Bytes>> {
    match pieces {
        Ok(pieces) => stream::iter(pieces.into_iter().map(Ok)).boxed(),
        Err(error) => stream::iter([Err(error)]).boxed(),
    }
}
