//! The byte streams under HTTP. [`RewindStream`] replays its first bytes after they were inspected.
//! [`LingeringStream`] closes in such a way that the client sees the last reply.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::eviction::Progress;
use super::pace::Pace;

/// A stream that replays its first bytes after they were inspected.
pub(crate) struct RewindStream<S> {
    inner: S,
    /// Inspected bytes, which are read before the bytes of the inner stream.
    begun: Vec<u8>,
}

impl<S: AsyncRead + Unpin> RewindStream<S> {
    pub(super) fn new(inner: S) -> Self {
        Self::after(Vec::new(), inner)
    }

    /// Returns a stream that first replays these bytes.
    pub(super) fn after(begun: Vec<u8>, inner: S) -> Self {
        Self { inner, begun }
    }

    /// Whether the stream begins with `word`. Reads no further than the first difference.
    pub(super) async fn starts_with(&mut self, word: &[u8]) -> io::Result<bool> {
        let mut begun = vec![0; word.len()];
        let mut len = 0;
        // Stops at the first difference. A client that sends a short HTTP/1 request waits for its
        // reply, so more bytes may never come.
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
        // Frees the memory. Otherwise the connection would hold it to its end.
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

// The drain of all connections is limited, and lingering must not use up its time.
/// Maximum time that a closing connection lingers while the server stops.
const SHUTDOWN_LINGER: Duration = Duration::from_millis(500);

/// A stream that closes in two steps. It shuts down writing, and then reads and discards bytes
/// until the client closes its side or the timeout ends.
///
/// Otherwise a client that is still sending when its request is refused would receive a TCP reset.
/// A reset can discard the reply before the client has read it.
///
/// While the server stops, an idle stream does not wait for its client. Nothing was received or
/// sent since the stop, so no reply can be lost.
///
/// Writing to a client that reads nothing fails with [`TimedOut`](io::ErrorKind::TimedOut).
pub(super) struct LingeringStream<S> {
    inner: S,
    timeouts: Timeouts,
    shutdown: CancellationToken,
    pace: Pace,
    progress: Arc<Progress>,
    /// Whether bytes were received or sent since the server began to stop.
    is_busy: bool,
    // Timers are boxed: most connections never need one, and a `Sleep` is large.
    /// Runs while a write makes no progress.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs while the stream closes.
    closing: Option<Pin<Box<Closing>>>,
}

pin_project! {
    /// The remaining time of a closing stream. It becomes shorter when the server stops.
    struct Closing {
        #[pin]
        ends: Sleep,
        // `None` once the server stops.
        #[pin]
        stop: Option<WaitForCancellationFutureOwned>,
    }
}

impl Closing {
    fn poll_end(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if let Some(stop) = this.stop.as_mut().as_pin_mut()
            && stop.poll(cx).is_ready()
        {
            this.stop.set(None);
            let soon = Instant::now() + SHUTDOWN_LINGER;
            if soon < this.ends.deadline() {
                this.ends.as_mut().reset(soon);
            }
        }
        this.ends.poll(cx)
    }
}

/// How long a connection waits for its client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Maximum time in which the client reads none of the written bytes.
    pub(super) unread: Duration,
    /// Maximum time in which a closing connection discards bytes.
    pub(super) linger: Duration,
}

impl<S> LingeringStream<S> {
    pub(super) fn new(inner: S, timeouts: Timeouts, shutdown: CancellationToken) -> Self {
        Self {
            inner,
            timeouts,
            shutdown,
            pace: Pace::default(),
            progress: Arc::default(),
            is_busy: false,
            stalled: None,
            closing: None,
        }
    }

    /// Demands a minimum rate at which the client reads written bytes, and records the progress.
    pub(super) fn watched(self, pace: Pace, progress: Arc<Progress>) -> Self {
        Self {
            pace,
            progress,
            ..self
        }
    }

    fn deadline(&self) -> Instant {
        let limit = match (self.shutdown.is_cancelled(), self.is_busy) {
            (true, false) => Duration::ZERO,
            (true, true) => self.timeouts.linger.min(SHUTDOWN_LINGER),
            (false, _) => self.timeouts.linger,
        };
        Instant::now() + limit
    }

    /// Returns the result of a write, or `TimedOut` if the client has read nothing for too long, or
    /// too slowly.
    fn watch_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.pace.begin_wait(),
            Poll::Ready(Ok(bytes)) => {
                self.progress.record_moved(*bytes);
                self.pace.end_wait(*bytes)?;
            }
            Poll::Ready(Err(_)) => {}
        }
        self.watch(cx, written)
    }

    /// Returns the result of a step, or `TimedOut` if the client has read nothing for too long.
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
        // Polled after the write. The write has registered the waker too, so the first of both
        // wakes the task.
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
        let (before, stops) = (buf.filled().len(), self.shutdown.is_cancelled());
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        let received = buf.filled().len() - before;
        self.progress.record_moved(received);
        self.is_busy |= stops && received > 0;
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Read before the write. After it, a client may have the last reply and stop the server
        // before this thread continues.
        let stops = self.shutdown.is_cancelled();
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.is_busy |= stops && written.is_ready();
        self.watch_write(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Read before the write. After it, a client may have the last reply and stop the server
        // before this thread continues.
        let stops = self.shutdown.is_cancelled();
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.is_busy |= stops && written.is_ready();
        self.watch_write(cx, written)
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
            self.progress.record_closing();
            // Under TLS this writes `close_notify`, which the client has to take as well.
            let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
            ready!(self.watch(cx, shut))?;
            // One deadline for all bytes: a client that sends on and on must not keep the
            // connection.
            let closing = Closing {
                ends: tokio::time::sleep_until(self.deadline()),
                stop: (!self.shutdown.is_cancelled())
                    .then(|| self.shutdown.clone().cancelled_owned()),
            };
            self.closing = Some(Box::pin(closing));
        }
        let this = &mut *self;
        let closing = this.closing.as_mut().expect("set above");
        let mut scratch = [0; 16 * 1024];
        // Tokio's cooperative budget makes the socket return `Pending` now and then, so that this
        // loop yields although a fast client always has bytes.
        loop {
            // Read first: bytes that are not read when the socket is closed are a reset for the
            // client.
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut this.inner).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {}
                // The end, or an error that concerns nobody any more: the reply has been written.
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    ready!(closing.as_mut().poll_end(cx));
                    return Poll::Ready(Ok(()));
                }
            }
            if closing.as_mut().poll_end(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::super::pace::Rate;
    use super::*;
    use crate::callers::CallerMetrics;

    #[tokio::test]
    async fn inspected_bytes_are_read_again() {
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
    async fn closing_ends_after_the_linger_timeout() {
        let (_client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let begun = Instant::now();
        server.shutdown().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 60);
    }

    async fn write_vectored(server: &mut LingeringStream<DuplexStream>, bytes: &[u8]) {
        let written = server.write_vectored(&[io::IoSlice::new(bytes)]).await;
        assert_eq!(written.unwrap(), bytes.len());
    }

    /// Returns how long a stream lingers after this sequence: a request, its reply, the stop of the
    /// server, and then the action `since`.
    async fn linger_after_stop(
        since: impl AsyncFnOnce(&mut LingeringStream<DuplexStream>),
    ) -> Duration {
        let (mut client, server) = tokio::io::duplex(1024);
        let shutdown = CancellationToken::new();
        let mut server = LingeringStream::new(server, TIMEOUTS, shutdown.clone());
        client.write_all(b"request").await.unwrap();
        server.read_exact(&mut [0; 7]).await.unwrap();
        server.write_all(b"rep").await.unwrap();
        write_vectored(&mut server, b"ly").await;
        shutdown.cancel();
        since(&mut server).await;
        let begun = Instant::now();
        server.shutdown().await.unwrap();
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn idle_stream_of_a_stopping_server_does_not_linger() {
        let lingered = linger_after_stop(async |_| {}).await;
        assert_eq!(lingered, Duration::ZERO);
        let write =
            async |server: &mut LingeringStream<_>| server.write_all(b"last").await.unwrap();
        assert_eq!(linger_after_stop(write).await, SHUTDOWN_LINGER);
        let write = async |server: &mut LingeringStream<_>| write_vectored(server, b"last").await;
        assert_eq!(linger_after_stop(write).await, SHUTDOWN_LINGER);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_stream_lingers_no_longer_than_a_stopping_server() {
        let (_client, server) = tokio::io::duplex(1024);
        let shutdown = CancellationToken::new();
        let mut server = LingeringStream::new(server, TIMEOUTS, shutdown.clone());
        let begun = Instant::now();
        let stop = async {
            tokio::time::sleep(TIMEOUTS.linger / 2).await;
            shutdown.cancel();
        };
        tokio::join!(stop, async { server.shutdown().await.unwrap() });
        assert_eq!(begun.elapsed(), TIMEOUTS.linger / 2 + SHUTDOWN_LINGER);
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_a_client_that_reads_nothing_times_out() {
        let (_client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let begun = Instant::now();
        let error = server.write_all(&[0; 2000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), TIMEOUTS.unread);
    }

    /// A stream with a shutdown that never completes.
    struct StuckShutdown;

    impl AsyncRead for StuckShutdown {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for StuckShutdown {
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
    async fn shutdown_that_the_client_does_not_take_times_out() {
        let mut server = lingering(StuckShutdown);
        let begun = Instant::now();
        let error = server.shutdown().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), TIMEOUTS.unread);
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_a_slow_client_completes() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let writing = tokio::spawn(async move { server.write_all(&[0; 10 * 1024]).await });
        for _ in 0..10 {
            tokio::time::sleep(TIMEOUTS.unread * 2 / 3).await;
            client.read_exact(&mut [0; 1024]).await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_takes_less_than_the_least_rate_is_given_up() {
        for (is_hurried, per_second, given_up) in [
            (false, 400, Some(60)),
            (true, 400, Some(10)),
            (false, 1024, None),
            (true, 1024, None),
        ] {
            let rate = Rate {
                min: 512,
                is_hurried,
            };
            let (mut client, server) = tokio::io::duplex(1);
            let pace = Pace::new(rate, CallerMetrics::default());
            let mut server = lingering(server).watched(pace, Arc::default());
            let begun = Instant::now();
            let writing = tokio::spawn(async move {
                let written = server.write_all(&vec![0; 256 * 1024]).await;
                (written, begun.elapsed())
            });
            let reading = async {
                let mut piece = vec![0; per_second];
                while client.read_exact(&mut piece).await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            let (writing, ()) = tokio::join!(writing, reading);
            let (written, took) = writing.unwrap();
            let error = written.err().map(|error| (error.kind(), took.as_secs()));
            let expected = given_up.map(|seconds| (io::ErrorKind::TimedOut, seconds));
            assert_eq!(error, expected);
        }
    }
}
