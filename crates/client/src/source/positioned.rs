//! Positioned reads of a file, fast and with little memory.
//!
//! Bytes in the page cache are read on the current thread, by reads so small that the bytes stay in
//! the CPU cache until they are sent. Other bytes are read on the blocking pool, by reads so large
//! that the overhead of the pool does not matter.
//!
//! While the result of a read on the pool is being sent, the next read runs. The results of at most
//! three reads are therefore in memory: the running read, the result from which the connection
//! takes bytes, and the end of an earlier result in the connection's buffer.
//!
//! Buffers are not filled with zeros before a read.

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
pub(super) const UNCACHED_READ: u64 = 1 << 20;

/// Size of reads from the page cache in bytes.
const CACHED_READ: u64 = 256 << 10;

/// Returns exactly these bytes of a file. Each item of the stream is the result of one read.
///
/// If the stream is dropped during a read on the blocking pool, that read completes in the
/// background.
pub(super) fn stream(file: Arc<File>, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
    let ahead = ReadAhead {
        file,
        rest: range,
        reading: None,
    };
    stream::unfold(ahead, |mut ahead| async {
        let read = ahead.next().await?;
        Some((read, ahead))
    })
    .boxed()
}

struct ReadAhead {
    file: Arc<File>,
    /// The bytes that are not being read yet.
    rest: Range<u64>,
    /// The read that is running on the blocking pool.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl ReadAhead {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.reading.is_none() {
            if let Some(cached) = self.read_cached() {
                return Some(cached);
            }
            self.begin();
        }
        let read = self.reading.as_mut()?.await;
        self.reading = None;
        match read.map_err(io::Error::from).flatten() {
            Ok(bytes) => {
                // Cached bytes are read when they are needed, since that takes no wait.
                if self.next_cached().is_none() {
                    self.begin();
                }
                Some(Ok(bytes))
            }
            Err(error) => {
                self.rest = 0..0;
                Some(Err(error))
            }
        }
    }

    /// Reads the next bytes if they are in the page cache.
    fn read_cached(&mut self) -> Option<io::Result<Bytes>> {
        let range = self.next_cached()?;
        self.rest.start = range.end;
        let read = read_exact(&self.file, range);
        if read.is_err() {
            self.rest = 0..0;
        }
        Some(read)
    }

    /// Returns the range of the next [`CACHED_READ`] bytes if they are in the page cache.
    fn next_cached(&self) -> Option<Range<u64>> {
        self.rest_up_to(CACHED_READ)
            .filter(|range| is_cached(&self.file, range))
    }

    fn rest_up_to(&self, limit: u64) -> Option<Range<u64>> {
        let Range { start, end } = self.rest;
        (!self.rest.is_empty()).then(|| start..end.min(start.saturating_add(limit)))
    }

    /// Starts to read the next bytes on the blocking pool.
    fn begin(&mut self) {
        let Some(range) = self.rest_up_to(UNCACHED_READ) else {
            return;
        };
        self.rest.start = range.end;
        let file = Arc::clone(&self.file);
        self.reading = Some(spawn_blocking(move || read_exact(&file, range)));
    }
}

/// Returns whether both ends of a range are in the page cache. The bytes between them then almost
/// always are, too, because the kernel reads files ahead and caches them in order. If they are not,
/// the read blocks the thread until the disk has delivered them.
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

/// Returns `false`: other systems than Linux cannot tell. All reads then use the blocking pool.
#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: &Range<u64>) -> bool {
    false
}

/// Reads exactly these bytes. Blocks the thread until they are read.
fn read_exact(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let wanted = range.end - range.start;
    let bytes = read_available(file, range)?;
    if bytes.len() as u64 == wanted {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Reads these bytes, or fewer at the end of the file. Blocks the thread until they are read.
pub(super) fn read_available(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let at = range.start + bytes.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // The capacity of the vector, and so the read, may be larger than requested.
    bytes.truncate(len);
    Ok(bytes.into())
}
