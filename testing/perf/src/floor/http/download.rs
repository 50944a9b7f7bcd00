//! A file on its way out, read and sent by one thread: the floor of downloads over HTTP.

use std::fs::File;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Number of bytes per read.
const PIECE: u64 = 256 << 10;

/// The body of a reply that shows a file.
#[derive(Debug)]
pub(super) struct Download {
    file: File,
    left: u64,
}

impl Download {
    /// All of a file.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let left = file.metadata()?.len();
        Ok(Self { file, left })
    }

    fn read(&mut self) -> io::Result<Bytes> {
        let len = self.left.min(PIECE);
        let mut piece = vec![0; usize::try_from(len).expect("a piece fits into memory")];
        self.file.read_exact(&mut piece)?;
        self.left -= len;
        Ok(piece.into())
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = (self.left > 0).then(|| self.read().map(Frame::data));
        Poll::Ready(piece)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
