//! A stream that is read no faster than its client sends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};

use super::large_reads::{LargeReads, Pass};

/// What is read at once of a client that is not known to be fast. The HTTP library begins with a buffer of
/// 8 KiB for each connection, and takes a larger one as soon as a read has filled it.
const MODEST_READ: usize = 8 * 1024 - 1;

/// A client that has sent this much by the time the server looks is fast.
const MUCH: usize = 2 * MODEST_READ;

/// A stream whose reads are modest until its client turns out to be fast, and large then as long as there is a
/// place for that: a thousand clients, slow or fast, do not take a thousand large buffers. What was read of its
/// beginning can be put back.
pub(super) struct Measured<S> {
    inner: Take<S>,
    /// Comes before what the stream still brings.
    begun: Vec<u8>,
    /// What has come since the stream had nothing last.
    burst: usize,
    is_fast: bool,
    /// For large reads. `None` if all may be.
    pass: Option<Pass>,
}

impl<S: AsyncRead + Unpin> Measured<S> {
    pub(super) fn new(inner: S, large_reads: &LargeReads) -> Self {
        Self {
            inner: inner.take(0),
            begun: Vec::new(),
            burst: 0,
            is_fast: false,
            pass: Some(large_reads.pass()),
        }
    }

    /// The stream for a reader that bounds its buffer itself: as much is read as it asks for.
    pub(super) fn unmeasured(self) -> Self {
        Self { pass: None, ..self }
    }

    /// Whether the stream begins with `word`. No more of it is read than tells.
    pub(super) async fn begins_with(&mut self, word: &[u8]) -> io::Result<bool> {
        let mut begun = vec![0; word.len()];
        let mut len = 0;
        while len < word.len() && begun[..len] == word[..len] {
            match self.read(&mut begun[len..]).await? {
                0 => break,
                more => len += more,
            }
        }
        begun.truncate(len);
        let begins = begun == word;
        self.begun = begun;
        Ok(begins)
    }

    /// The most that is to be read now.
    fn limit(&mut self) -> usize {
        let is_fast = self.is_fast;
        let is_large = |pass: &mut Pass| is_fast && pass.admits();
        if self.pass.as_mut().is_none_or(is_large) {
            usize::MAX
        } else {
            MODEST_READ
        }
    }

    fn note(&mut self, came: Option<usize>) {
        match came {
            Some(came) => {
                self.burst = self.burst.saturating_add(came);
                self.is_fast |= self.burst >= MUCH;
            }
            // Who looks once more before anything has come learns nothing about the client.
            None if self.burst == 0 => {}
            None => self.is_fast = std::mem::take(&mut self.burst) >= MUCH,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Measured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let put_back = self.begun.len().min(buf.remaining());
        buf.put_slice(&self.begun[..put_back]);
        self.begun.drain(..put_back);
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let limit = self.limit().saturating_sub(put_back).max(1);
        self.inner.set_limit(limit as u64);
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.note(read.is_ready().then(|| buf.filled().len() - before));
        match read {
            // What was put back comes first, whatever became of the stream.
            Poll::Pending | Poll::Ready(Err(_)) if put_back > 0 => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Measured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.inner.get_mut()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.inner.get_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.inner.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.inner.get_mut()).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, DuplexStream};

    use super::*;

    fn measured<S: AsyncRead + Unpin>(stream: S) -> Measured<S> {
        Measured::new(stream, &LargeReads::new(1))
    }

    /// How much one read brings.
    async fn read<S: AsyncRead + Unpin>(stream: &mut Measured<S>) -> usize {
        let mut buf = vec![0; 64 * 1024];
        stream.read(&mut buf).await.unwrap()
    }

    /// Whether there is nothing to be read. What there is may be taken out.
    async fn is_empty<S: AsyncRead + Unpin>(stream: &mut Measured<S>) -> bool {
        let look = |cx: &mut Context<'_>| {
            let mut scratch = [0; 10];
            let mut buf = ReadBuf::new(&mut scratch);
            Poll::Ready(Pin::new(&mut *stream).poll_read(cx, &mut buf).is_pending())
        };
        std::future::poll_fn(look).await
    }

    #[tokio::test]
    async fn what_a_stream_begins_with_comes_again() {
        for (sent, begins) in [("word and more", true), ("world", false), ("wor", false)] {
            let (mut client, server) = tokio::io::duplex(1024);
            client.write_all(sent.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let mut server = measured(server);
            assert_eq!(server.begins_with(b"word").await.unwrap(), begins, "{sent}");
            let mut all = String::new();
            server.read_to_string(&mut all).await.unwrap();
            assert_eq!(all, sent);
        }
    }

    #[tokio::test]
    async fn what_comes_again_comes_with_what_is_new() {
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(b"GET / HTTP/1.1").await.unwrap();
        let mut server = measured(server);
        assert!(!server.begins_with(b"PRI").await.unwrap());
        assert_eq!(read(&mut server).await, 14);
        client.write_all(b"PRI").await.unwrap();
        assert!(server.begins_with(b"PRI").await.unwrap());
        assert_eq!(read(&mut server).await, 3, "nothing new has to come");
    }

    #[tokio::test]
    async fn only_a_fast_client_is_read_in_large_pieces() {
        let (mut client, server) = tokio::io::duplex(1024 * 1024);
        let mut server = measured(server);
        client.write_all(&[0; 10_000]).await.unwrap();
        assert_eq!(read(&mut server).await, MODEST_READ);
        assert_eq!(read(&mut server).await, 10_000 - MODEST_READ);
        assert!(is_empty(&mut server).await);
        client.write_all(&vec![0; 100_000]).await.unwrap();
        assert_eq!(read(&mut server).await, MODEST_READ);
        assert_eq!(read(&mut server).await, MODEST_READ);
        assert_eq!(read(&mut server).await, 64 * 1024);
    }

    #[tokio::test]
    async fn a_client_stays_as_fast_as_it_was_however_often_it_is_looked_for() {
        for (sent, next) in [(MUCH, 64 * 1024), (MUCH - 1, MODEST_READ)] {
            let (mut client, server) = tokio::io::duplex(1024 * 1024);
            let mut server = measured(server);
            client.write_all(&vec![0; sent]).await.unwrap();
            let mut read_so_far = 0;
            while read_so_far < sent {
                read_so_far += read(&mut server).await;
            }
            assert!(is_empty(&mut server).await);
            assert!(is_empty(&mut server).await, "as when a reply is written");
            client.write_all(&vec![0; 64 * 1024]).await.unwrap();
            assert_eq!(read(&mut server).await, next);
        }
    }

    /// A stream whose client turns out to be fast, if that is at all possible.
    async fn fast(large_reads: &LargeReads) -> (DuplexStream, Measured<DuplexStream>) {
        let (mut client, server) = tokio::io::duplex(1024 * 1024);
        let mut server = Measured::new(server, large_reads);
        client.write_all(&vec![0; MUCH]).await.unwrap();
        for _ in 0..2 {
            assert_eq!(read(&mut server).await, MODEST_READ);
        }
        client.write_all(&vec![0; 64 * 1024]).await.unwrap();
        (client, server)
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_clients_are_read_in_large_pieces_at_once() {
        let large_reads = LargeReads::new(1);
        let (_one, mut first) = fast(&large_reads).await;
        assert_eq!(read(&mut first).await, 64 * 1024);
        let (mut other, mut second) = fast(&large_reads).await;
        assert_eq!(read(&mut second).await, MODEST_READ);
        drop(first);
        other.write_all(&[0; MODEST_READ]).await.unwrap();
        assert_eq!(read(&mut second).await, 64 * 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_clients_take_no_place_for_large_reads() {
        let large_reads = LargeReads::new(1);
        let (mut client, server) = tokio::io::duplex(1024);
        let mut slow = Measured::new(server, &large_reads);
        client.write_all(&[0; 10]).await.unwrap();
        assert_eq!(read(&mut slow).await, 10);
        let (_client, mut server) = fast(&large_reads).await;
        assert_eq!(read(&mut server).await, 64 * 1024);
    }

    #[tokio::test]
    async fn what_is_not_measured_is_read_in_large_pieces_at_once() {
        let (mut client, server) = tokio::io::duplex(1024 * 1024);
        let mut server = Measured::new(server, &LargeReads::new(0)).unmeasured();
        client.write_all(&vec![0; 64 * 1024]).await.unwrap();
        assert_eq!(read(&mut server).await, 64 * 1024);
    }
}
