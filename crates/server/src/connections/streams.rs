//! The byte streams under HTTP: one whose first bytes can be inspected, and one that closes so that
//! the client sees the last reply.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

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

/// How long a closing connection lingers while the server stops.
const SHUTDOWN_LINGER: Duration = Duration::from_millis(500);

/// A stream that is closed in two steps: it stops writing, then reads and throws away what still
/// comes, until the other side is done or the patience is used up.
///
/// Without this a client that is still sending when its request has been refused gets a reset,
/// which can destroy the reply before it was read.
///
/// A client that does not read what is written to it is given up with
/// [`TimedOut`](io::ErrorKind::TimedOut).
pub(super) struct LingeringStream<S> {
    inner: S,
    timeouts: Timeouts,
    shutdown: CancellationToken,
    /// Runs while a write makes no progress.
    stalled: Option<Pin<Box<Sleep>>>,
    closing: Option<Pin<Box<Sleep>>>,
}

/// How long a connection waits for its client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// To take some of what is written to it.
    pub(super) unread: Duration,
    /// To be done when the connection closes.
    pub(super) linger: Duration,
}

impl<S> LingeringStream<S> {
    pub(super) fn new(inner: S, timeouts: Timeouts, shutdown: CancellationToken) -> Self {
        Self {
            inner,
            timeouts,
            shutdown,
            stalled: None,
            closing: None,
        }
    }

    fn deadline(&self) -> Instant {
        let limit = if self.shutdown.is_cancelled() {
            self.timeouts.linger.min(SHUTDOWN_LINGER)
        } else {
            self.timeouts.linger
        };
        Instant::now() + limit
    }

    /// Passes on how a write went, or gives it up when nothing has been taken for too long.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let unread = self.timeouts.unread;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(unread)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            // TLS has a last word to say, which the client has to take too.
            let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
            ready!(self.watch(cx, shut))?;
            let deadline = self.deadline();
            self.closing = Some(Box::pin(tokio::time::sleep_until(deadline)));
        }
        let this = &mut *self;
        let timeouts = this.closing.as_mut().expect("set above");
        let mut scratch = [0; 16 * 1024];
        // The cooperative budget of the socket makes the loop yield.
        loop {
            if timeouts.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buf = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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

    const TIMEOUTS: Timeouts = Timeouts {
        unread: Duration::from_secs(30),
        linger: Duration::from_secs(60),
    };

    fn lingering<S>(inner: S) -> LingeringStream<S> {
        LingeringStream::new(inner, TIMEOUTS, CancellationToken::new())
    }

    #[tokio::test]
    async fn closing_reads_what_the_client_still_sends() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let closing = tokio::spawn(async move {
            server.write_all(b"reply").await.unwrap();
            server.shutdown().await.unwrap();
        });
        client.write_all(&vec![0; 100_000]).await.unwrap();
        client.shutdown().await.unwrap();
        closing.await.unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, b"reply");
    }

    #[tokio::test(start_paused = true)]
    async fn closing_does_not_wait_for_ever() {
        let (_client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let begun = Instant::now();
        server.shutdown().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (_client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let begun = Instant::now();
        let error = server.write_all(&[0; 2000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), TIMEOUTS.unread);
    }

    /// A stream that has a last word to say, which is never taken.
    struct Unheard;

    impl AsyncRead for Unheard {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Unheard {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_the_last_word_is_given_up() {
        let mut server = lingering(Unheard);
        let begun = Instant::now();
        let error = server.shutdown().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), TIMEOUTS.unread);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_waited_for() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let writing = tokio::spawn(async move { server.write_all(&[0; 10 * 1024]).await });
        for _ in 0..10 {
            tokio::time::sleep(TIMEOUTS.unread * 2 / 3).await;
            client.read_exact(&mut [0; 1024]).await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }
}
