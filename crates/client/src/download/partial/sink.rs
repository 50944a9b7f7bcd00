//! The file that bytes go to, written away from the async threads.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use bytes::Bytes;
use tokio::task::{JoinHandle, spawn_blocking};
use windlass_proto::digest::Crc32cHasher;

use super::part_metadata::ReceivedPrefix;

/// So much is read at once.
const READ: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Sink {
    pub(super) file: File,
    /// Of all bytes before the place in the file.
    pub(super) hasher: Crc32cHasher,
}

/// The file, here or with the thread that writes it.
#[derive(Debug)]
pub(super) enum SinkState {
    Idle(Box<Sink>),
    Busy(JoinHandle<io::Result<Box<Sink>>>),
    /// Writing failed.
    Broken,
}

impl SinkState {
    pub(super) fn idle(sink: Sink) -> Self {
        Self::Idle(Box::new(sink))
    }

    pub(super) fn start(mut sink: Box<Sink>, pieces: Vec<Bytes>) -> Self {
        Self::Busy(spawn_blocking(move || {
            for piece in pieces {
                sink.file.write_all(&piece)?;
                sink.hasher.update(&piece);
            }
            Ok(sink)
        }))
    }

    /// The file, when it is written; the caller gives it back. Says once why writing failed.
    pub(super) async fn sink(&mut self) -> io::Result<Box<Sink>> {
        // Awaited where it is: should this future be dropped, nothing is lost.
        let sink = match self {
            Self::Busy(writing) => Some(writing.await.expect("writing does not panic")),
            Self::Idle(_) | Self::Broken => None,
        };
        match (std::mem::replace(self, Self::Broken), sink) {
            (Self::Idle(sink), _) => Ok(sink),
            (_, Some(written)) => written,
            (_, None) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Sink {
    /// Begins at the file's first byte, whatever is behind it.
    pub(super) fn new(file: File) -> Self {
        let hasher = Crc32cHasher::default();
        Self { file, hasher }
    }

    /// Whether the file begins with these bytes. If so, the place in the file is behind them, and what follows is cut
    /// off.
    pub(super) fn verify_prefix(&mut self, received: ReceivedPrefix) -> io::Result<bool> {
        let mut hasher = Crc32cHasher::default();
        let mut buf = vec![0; READ];
        let mut first = (&self.file).take(received.length);
        let mut length = 0;
        loop {
            match first.read(&mut buf)? {
                0 => break,
                len => {
                    hasher.update(&buf[..len]);
                    length += len as u64;
                }
            }
        }
        let is_there = received
            == ReceivedPrefix {
                length,
                crc32c: hasher.value(),
            };
        if is_there {
            self.truncate(length, hasher)?;
        }
        Ok(is_there)
    }

    /// Drops what is behind `length`, of whose bytes `hasher` has the digest.
    pub(super) fn truncate(&mut self, length: u64, hasher: Crc32cHasher) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.hasher = hasher;
        Ok(())
    }
}
