//! Reads of a file at a position, quickly and in little memory.
//!
//! A piece is read while the one before it is being sent, so at most three are there at a time:
//! the one that is sent, the one that waits, and the one that is read. They are as large as the
//! blocking pool's overhead asks for, and are filled by the kernel without being zeroed first.

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
            self.begin();
        }
        let piece = self.reading.as_mut()?.await;
        self.reading = None;
        match piece.map_err(io::Error::from).flatten() {
            Ok(piece) => {
                self.begin();
                Some(Ok(piece))
            }
            Err(error) => {
                self.rest = 0..0;
                Some(Err(error))
            }
        }
    }

    fn begin(&mut self) {
        if self.rest.is_empty() {
            return;
        }
        let piece = self.rest.start..self.rest.end.min(self.rest.start.saturating_add(PIECE));
        self.rest.start = piece.end;
        let file = Arc::clone(&self.file);
        self.reading = Some(spawn_blocking(move || read_exact(&file, piece)));
    }
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
