//! Reads of a file at a position, quickly and in little memory.
//!
//! What the kernel has in memory is read at once, in pieces that stay in the processor's cache until
//! they are sent. What it has not is read by the blocking pool, in pieces as large as the pool's
//! overhead asks for: one is read while the one before it is being sent, so at most three are there at
//! a time. All are filled by the kernel without being zeroed first.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::task::{JoinHandle, spawn_blocking};

/// How much is read at once.
pub(super) const PIECE: u64 = 1 << 20;

/// How much is read at once of what is in memory.
const CACHED_PIECE: u64 = 256 << 10;

/// Exactly these bytes of a file, in pieces.
///
/// A read that is under way when the stream is dropped ends on its own, after one piece.
pub(super) fn stream(file: Arc<File>, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
    let ahead = ReadAhead {
        file,
        rest: range,
        reading: None,
    };
    stream::unfold(ahead, |mut ahead| async {
        let piece = ahead.next().await?;
        Some((piece, ahead))
    })
    .boxed()
}

struct ReadAhead {
    file: Arc<File>,
    /// What nobody has begun to read.
    rest: Range<u64>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl ReadAhead {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.reading.is_none() {
            if let Some(cached_piece) = self.cached_piece() {
                return Some(cached_piece);
            }
            self.begin();
        }
        let piece = self.reading.as_mut()?.await;
        self.reading = None;
        match piece.map_err(io::Error::from).flatten() {
            Ok(piece) => {
                // What is in memory is read when it is wanted.
                if self.next_cached().is_none() {
                    self.begin();
                }
                Some(Ok(piece))
            }
            Err(error) => {
                self.rest = 0..0;
                Some(Err(error))
            }
        }
    }

    /// The next piece, if it takes no waiting.
    fn cached_piece(&mut self) -> Option<io::Result<Bytes>> {
        let piece = self.next_cached()?;
        self.rest.start = piece.end;
        let read = read_exact(&self.file, piece);
        if read.is_err() {
            self.rest = 0..0;
        }
        Some(read)
    }

    /// What would be read next, if it is in memory.
    fn next_cached(&self) -> Option<Range<u64>> {
        self.rest_up_to(CACHED_PIECE)
            .filter(|piece| is_cached(&self.file, piece))
    }

    fn rest_up_to(&self, limit: u64) -> Option<Range<u64>> {
        let Range { start, end } = self.rest;
        (!self.rest.is_empty()).then(|| start..end.min(start.saturating_add(limit)))
    }

    fn begin(&mut self) {
        let Some(piece) = self.rest_up_to(PIECE) else {
            return;
        };
        self.rest.start = piece.end;
        let file = Arc::clone(&self.file);
        self.reading = Some(spawn_blocking(move || read_exact(&file, piece)));
    }
}

/// Whether both ends of a range are in the kernel's memory, so that to read it takes no waiting. What
/// lies between them nearly always is then, since files are read ahead and cached in order.
#[cfg(target_os = "linux")]
fn is_cached(file: &File, range: &Range<u64>) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};

    let cached_at = |at| {
        let mut byte = [0];
        let mut buf = [io::IoSliceMut::new(&mut byte)];
        matches!(preadv2(file, &mut buf, at, ReadWriteFlags::NOWAIT), Ok(1))
    };
    cached_at(range.end - 1) && cached_at(range.start)
}

/// It cannot be told here.
#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: &Range<u64>) -> bool {
    false
}

/// Exactly these bytes. Blocks.
fn read_exact(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let wanted = range.end - range.start;
    let piece = read_available(file, range)?;
    if piece.len() as u64 == wanted {
        Ok(piece)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// These bytes, fewer at the end of the file. Blocks.
pub(super) fn read_available(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut piece = Vec::with_capacity(len);
    while piece.len() < len {
        let at = range.start + piece.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut piece), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // A vector may have more room than was asked for, and it was all filled.
    piece.truncate(len);
    Ok(piece.into())
}
