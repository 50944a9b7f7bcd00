//! Positioned reads of a file, fast and with little memory.
//!
//! Bytes in the page cache are read on the current thread, in pieces so small that they stay in the
//! CPU cache until they are sent. Other bytes are read on the blocking pool, in pieces so large
//! that the overhead of the pool does not matter. While one of these pieces is being sent, the next
//! one is read, so at most three pieces are in memory. Buffers are not filled with zeros before a
//! read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::task::{JoinHandle, spawn_blocking};

/// Size of reads on the blocking pool in bytes.
pub(super) const PIECE: u64 = 1 << 20;

/// Size of reads from the page cache in bytes.
const CACHED_PIECE: u64 = 256 << 10;

/// Returns exactly these bytes of a file, in pieces.
///
/// If the stream is dropped during a read, that read completes on its own.
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
    /// The bytes whose read has not started.
    rest: Range<u64>,
    /// The running read of the next piece.
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
                // A cached piece is read when it is needed, since that takes no wait.
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

    /// Reads the next piece if it is in the page cache.
    fn cached_piece(&mut self) -> Option<io::Result<Bytes>> {
        let piece = self.next_cached()?;
        self.rest.start = piece.end;
        let read = read_exact(&self.file, piece);
        if read.is_err() {
            self.rest = 0..0;
        }
        Some(read)
    }

    /// Returns the range of the next piece if it is in the page cache.
    fn next_cached(&self) -> Option<Range<u64>> {
        self.rest_up_to(CACHED_PIECE)
            .filter(|piece| is_cached(&self.file, piece))
    }

    fn rest_up_to(&self, limit: u64) -> Option<Range<u64>> {
        let Range { start, end } = self.rest;
        (!self.rest.is_empty()).then(|| start..end.min(start.saturating_add(limit)))
    }

    /// Starts to read the next piece on the blocking pool.
    fn begin(&mut self) {
        let Some(piece) = self.rest_up_to(PIECE) else {
            return;
        };
        self.rest.start = piece.end;
        let file = Arc::clone(&self.file);
        self.reading = Some(spawn_blocking(move || read_exact(&file, piece)));
    }
}

/// Returns whether both ends of a range are in the page cache. The bytes between them then almost
/// always are, too, because the kernel reads files ahead and caches them in order.
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

/// Returns `false`, because other systems than Linux cannot tell. All reads use the blocking pool.
#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: &Range<u64>) -> bool {
    false
}

/// Reads exactly these bytes. Blocks.
fn read_exact(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let wanted = range.end - range.start;
    let piece = read_available(file, range)?;
    if piece.len() as u64 == wanted {
        Ok(piece)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Reads these bytes, or fewer at the end of the file. Blocks.
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
    // The capacity of the vector, and so the read, may be larger than requested.
    piece.truncate(len);
    Ok(piece.into())
}
