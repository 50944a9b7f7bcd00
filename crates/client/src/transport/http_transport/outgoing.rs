//! A request's body on its way to the connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};

use super::PIECE;
use super::progress::{Awaited, Progress};

/// Media, cut into small pieces without a copy; says to [`Progress`] what becomes of them.
pub(super) struct OutgoingBody {
    /// Locked by nobody: a `Mutex` of what is `Send` is `Sync`, as a body must be.
    media: Mutex<BoxStream<'static, io::Result<Bytes>>>,
    /// The rest of the last piece of the media.
    piece: Bytes,
    left: u64,
    progress: Arc<Progress>,
}

impl OutgoingBody {
    /// Media of exactly `length` bytes.
    pub(super) fn new(
        media: BoxStream<'static, io::Result<Bytes>>,
        length: u64,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            media: Mutex::new(media),
            piece: Bytes::new(),
            left: length,
            progress,
        }
    }

    fn poll_media(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.progress.moved(Awaited::Media);
        let media = self.media.get_mut();
        let media = media.unwrap_or_else(PoisonError::into_inner);
        let piece = match ready!(media.poll_next_unpin(cx)) {
            Some(piece) => piece?,
            None => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
        };
        if piece.len() as u64 > self.left {
            let error = io::Error::new(
                io::ErrorKind::InvalidData,
                "the media is longer than it was said to be",
            );
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(piece))
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.progress.is_stopped(cx.waker()) {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        while self.piece.is_empty() {
            match ready!(self.poll_media(cx)) {
                Ok(piece) => self.piece = piece,
                Err(error) => {
                    let kind = error.kind();
                    self.progress.keep_media_error(error);
                    return Poll::Ready(Some(Err(kind.into())));
                }
            }
        }
        let len = self.piece.len().min(PIECE);
        let piece = self.piece.split_to(len);
        self.left -= len as u64;
        self.progress.moved(if self.left == 0 {
            Awaited::Reply
        } else {
            Awaited::Write
        });
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
