//! Media that can be read only once, and the bytes of it that are kept to be sent again: the last
//! ones in memory (the window), or all of them in a file (the spill).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use sync_wrapper::SyncWrapper;
use tokio::io::AsyncReadExt;
use tokio::task::spawn_blocking;

use super::{Reader, SourceError, positioned};

/// How far media was read by [`Media::fill`](super::Media::fill).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Offset after the last byte that was read.
    pub(crate) end: u64,
    /// Whether the media ends there. `false` if that is not known yet.
    pub(crate) ended: bool,
}

/// Which bytes of a stream are kept, and where.
pub(super) enum Retention {
    /// The last bytes, at most this number, in memory.
    Window(u64),
    /// All bytes, in a file in this directory.
    All(PathBuf),
}

/// A reader and its kept bytes.
///
/// Bytes are read into `block`. When it is full, and at the end of [`fill`](Self::fill), they are
/// moved to `kept`. At every await point each byte that was read is in `block` or in `kept`, so
/// dropping `fill` loses no bytes.
pub(super) struct StreamMedia {
    reader: SyncWrapper<Reader>,
    /// Path of the reader, if the caller gave a path. For errors.
    path: Option<PathBuf>,
    /// Length in bytes that the caller stated.
    stated: Option<u64>,
    /// Bytes that were read and not yet moved to `kept`.
    block: BytesMut,
    kept: Retained,
    /// Number of bytes read in total.
    read: u64,
    /// Whether the reader has ended.
    ended: bool,
    /// Whether the reader has more bytes than stated.
    exceeds_stated: bool,
}

enum Retained {
    Window(Window),
    Spill(Spill),
}

/// Size of a block in bytes.
const BLOCK: usize = 256 << 10;

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

    pub(super) fn total(&self) -> Option<u64> {
        self.stated.or(self.ended.then_some(self.read))
    }

    pub(super) fn window(&self) -> Option<u64> {
        match &self.kept {
            Retained::Window(window) => Some(window.size()),
            Retained::Spill(_) => None,
        }
    }

    /// See [`Media::fill`](super::Media::fill).
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

    /// Returns the offset up to which the stream may be read before more bytes are released.
    fn fill_limit(&self) -> u64 {
        let end_of_window = match &self.kept {
            Retained::Window(window) => window.reach().saturating_add(1),
            Retained::Spill(_) => u64::MAX,
        };
        end_of_window.min(self.stated.unwrap_or(u64::MAX))
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

    /// Moves the bytes of the block to the kept ones.
    async fn keep_block(&mut self) -> Result<(), SourceError> {
        match &mut self.kept {
            Retained::Window(window) => {
                window.push(self.block.split().freeze());
                Ok(())
            }
            Retained::Spill(spill) => spill.push(&mut self.block).await,
        }
    }

    /// Checks that the reader has the stated length. After that many bytes, reads one byte more.
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

    /// Converts an error of the kept bytes, which [`read`](Self::read) returned.
    pub(super) fn cannot_read_kept(&self, source: io::Error) -> SourceError {
        match &self.kept {
            Retained::Window(_) => self.cannot_read(source),
            Retained::Spill(spill) => spill.failed(source),
        }
    }

    fn cannot_read(&self, source: io::Error) -> SourceError {
        match self.path.clone() {
            Some(path) => SourceError::Read { path, source },
            None => SourceError::ReadStream { source },
        }
    }
}

/// The last bytes of a stream in memory: at most `size` bytes, and one byte read ahead. The memory
/// use is higher by one or two blocks, because a block is freed as a whole.
struct Window {
    size: u64,
    /// Offset of the first byte.
    first: u64,
    /// Offset after the last byte.
    end: u64,
    /// The bytes. Each piece is a block or a part of one.
    pieces: VecDeque<Bytes>,
}

impl Window {
    fn new(size: u64) -> Self {
        Self {
            size,
            first: 0,
            end: 0,
            pieces: VecDeque::new(),
        }
    }

    fn size(&self) -> u64 {
        self.size
    }

    /// Returns the offset at which the window is full.
    fn reach(&self) -> u64 {
        self.first.saturating_add(self.size)
    }

    fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.end += piece.len() as u64;
            self.pieces.push_back(piece);
        }
    }

    /// Drops the bytes before this offset.
    fn release(&mut self, before: u64) {
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

    /// Returns exactly these bytes, in pieces.
    fn pieces(&self, range: Range<u64>) -> io::Result<Vec<Bytes>> {
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

/// All bytes of a stream, in a file without a name (the spill file).
struct Spill {
    directory: PathBuf,
    file: Arc<File>,
    /// Number of bytes written.
    written: u64,
    /// Bytes to be written at offset `written`. If [`push`](Self::push) is dropped while it writes
    /// them, they are written again, perhaps while the first write still runs. That does no harm,
    /// because both write the same bytes at the same offset.
    pending: Bytes,
}

impl Spill {
    async fn create(directory: PathBuf) -> Result<Self, SourceError> {
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

    /// Writes the bytes of `block`. If the future is dropped, the unwritten bytes stay in `block`
    /// or in `pending`.
    async fn push(&mut self, block: &mut BytesMut) -> Result<(), SourceError> {
        while !(self.pending.is_empty() && block.is_empty()) {
            if self.pending.is_empty() {
                self.pending = block.split().freeze();
            }
            self.write_pending().await?;
        }
        Ok(())
    }

    fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
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
            Err(source) => Err(self.failed(source)),
        }
    }

    fn failed(&self, source: io::Error) -> SourceError {
        SourceError::Spill {
            directory: self.directory.clone(),
            source,
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
