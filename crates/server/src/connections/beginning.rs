//! A stream whose beginning can be looked at.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// A stream that gives what was read of its beginning once more.
pub(super) struct RewindStream<S> {
    inner: S,
    /// Comes before what the stream still brings.
    begun: Vec<u8>,
}

impl<S: AsyncRead + Unpin> RewindStream<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            begun: Vec::new(),
        }
    }

    /// Whether the stream begins with `word`. No more of it is read than tells.
    pub(super) async fn starts_with(&mut self, word: &[u8]) -> io::Result<bool> {
        let mut begun = vec![0; word.len()];
        let mut len = 0;
        while len < word.len() && begun[..len] == word[..len] {
            match self.inner.read(&mut begun[len..]).await? {
                0 => break,
                more => len += more,
            }
        }
        begun.truncate(len);
        let begins = begun == word;
        self.begun = begun;
        Ok(begins)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RewindStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.begun.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let len = self.begun.len().min(buf.remaining());
        buf.put_slice(&self.begun[..len]);
        self.begun.drain(..len);
        if self.begun.is_empty() {
            self.begun = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RewindStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn what_a_stream_begins_with_comes_again() {
        for (sent, begins) in [("word and more", true), ("world", false), ("wor", false)] {
            let (mut client, server) = tokio::io::duplex(1024);
            client.write_all(sent.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let mut server = RewindStream::new(server);
            assert_eq!(server.starts_with(b"word").await.unwrap(), begins, "{sent}");
            let mut first = [0; 1];
            server.read_exact(&mut first).await.unwrap();
            assert_eq!(first, b"w"[..]);
            let mut rest = String::new();
            server.read_to_string(&mut rest).await.unwrap();
            assert_eq!(rest, sent[1..]);
        }
    }
}
