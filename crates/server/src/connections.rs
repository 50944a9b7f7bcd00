//! Connections: accepted, served, and closed so that the client sees the last reply.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::config::Limits;
use crate::origin::LocalAddress;
use crate::service::answer;
use crate::uploads::House;

/// The most that is read from a socket at once, and the longest request head. A connection can hold
/// this much before its request is known.
const READ_BUFFER: usize = 128 * 1024;

/// How much a client may send on HTTP/2 before the server has taken it: of one body, and of all
/// bodies of a connection.
const H2_WINDOW: u32 = 1024 * 1024;

/// How many requests an HTTP/2 connection carries at once.
const H2_STREAMS: u32 = 32;

/// The longest request head on HTTP/2, unpacked.
const H2_HEAD: u32 = 64 * 1024;

/// What an HTTP/2 connection begins with has this length (RFC 9113, 3.4).
const H2_PREFACE_LEN: usize = 24;

/// How long a closing connection lingers while the server stops.
const HASTY_LINGER: Duration = Duration::from_millis(500);

/// Pause after a failed accept, which mostly means that no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the connections of one listener.
pub(crate) struct Connections {
    house: Arc<House>,
    builder: auto::Builder<TokioExecutor>,
    graceful: GracefulShutdown,
    permits: Arc<Semaphore>,
    hurry: CancellationToken,
}

impl Connections {
    pub(crate) fn new(house: Arc<House>) -> Self {
        let limits = &house.settings.limits;
        Self {
            builder: builder(limits),
            graceful: GracefulShutdown::new(),
            permits: Arc::new(Semaphore::new(
                limits.connections.min(Semaphore::MAX_PERMITS),
            )),
            hurry: CancellationToken::new(),
            house,
        }
    }

    /// Accepts until the future is dropped.
    pub(crate) async fn accept(&self, listener: &TcpListener) {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let permit = permit.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok((stream, _)) => self.serve(stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Lets running requests come to their end, at most until `limit`, and nothing new begin.
    pub(crate) async fn drain(self, limit: Duration) {
        self.hurry.cancel();
        tokio::time::timeout(limit, self.graceful.shutdown())
            .await
            .ok();
    }

    fn serve(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        stream.set_nodelay(true).ok();
        let local = stream.local_addr().ok().map(LocalAddress);
        let limits = &self.house.settings.limits;
        let patience = Patience {
            unread: limits.body_timeout,
            linger: limits.linger,
        };
        let stream = Lingering::new(stream, patience, self.hurry.clone());
        let silence = silence(Arc::clone(&stream.received), limits.head_timeout);
        let house = Arc::clone(&self.house);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let house = Arc::clone(&house);
            async move {
                if let Some(local) = local {
                    request.extensions_mut().insert(local);
                }
                Ok::<_, std::convert::Infallible>(answer(house, request).await)
            }
        });
        let connection = self
            .builder
            .serve_connection(TokioIo::new(stream), service)
            .into_owned();
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(error = %error, "connection ended");
                    }
                }
                () = silence => tracing::debug!("connection closed: no request came"),
            }
            drop(permit);
        });
    }
}

/// Resolves when a connection has not even shown within `limit` which version of HTTP it speaks; never
/// otherwise. The HTTP stack's own timeout begins only after that.
async fn silence(received: Arc<AtomicUsize>, limit: Duration) {
    tokio::time::sleep(limit).await;
    if received.load(Ordering::Relaxed) >= H2_PREFACE_LEN {
        std::future::pending::<()>().await;
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .half_close(true)
        .max_buf_size(READ_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(H2_WINDOW)
        .initial_connection_window_size(H2_WINDOW)
        .max_concurrent_streams(H2_STREAMS)
        .max_header_list_size(H2_HEAD)
        .keep_alive_interval(limits.head_timeout);
    builder
}

/// A stream that is closed in two steps: it stops writing, then reads and throws away what still
/// comes, until the other side is done or the patience is used up.
///
/// Without this a client that is still sending when its request has been refused gets a reset,
/// which can destroy the reply before it was read.
///
/// A client that does not read what is written to it is given up with
/// [`TimedOut`](io::ErrorKind::TimedOut).
struct Lingering<S> {
    inner: S,
    /// How many bytes have come.
    received: Arc<AtomicUsize>,
    patience: Patience,
    hurry: CancellationToken,
    /// Runs while a write makes no progress.
    stalled: Option<Pin<Box<Sleep>>>,
    closing: Option<Pin<Box<Sleep>>>,
}

/// How long a connection waits for its client.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// To take some of what is written to it.
    unread: Duration,
    /// To be done when the connection closes.
    linger: Duration,
}

impl<S> Lingering<S> {
    fn new(inner: S, patience: Patience, hurry: CancellationToken) -> Self {
        Self {
            inner,
            received: Arc::default(),
            patience,
            hurry,
            stalled: None,
            closing: None,
        }
    }

    fn deadline(&self) -> Instant {
        let limit = if self.hurry.is_cancelled() {
            self.patience.linger.min(HASTY_LINGER)
        } else {
            self.patience.linger
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
        let unread = self.patience.unread;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(unread)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.received
            .fetch_add(buf.filled().len() - before, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
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
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
            let deadline = self.deadline();
            self.closing = Some(Box::pin(tokio::time::sleep_until(deadline)));
        }
        let this = &mut *self;
        let patience = this.closing.as_mut().expect("set above");
        let mut scratch = [0; 16 * 1024];
        // The cooperative budget of the socket makes the loop yield.
        loop {
            if patience.as_mut().poll(cx).is_ready() {
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

    const PATIENCE: Patience = Patience {
        unread: Duration::from_secs(30),
        linger: Duration::from_secs(60),
    };

    fn lingering<S>(inner: S) -> Lingering<S> {
        Lingering::new(inner, PATIENCE, CancellationToken::new())
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
        assert_eq!(begun.elapsed(), PATIENCE.unread);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_waited_for() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut server = lingering(server);
        let writing = tokio::spawn(async move { server.write_all(&[0; 10 * 1024]).await });
        for _ in 0..10 {
            tokio::time::sleep(PATIENCE.unread * 2 / 3).await;
            client.read_exact(&mut [0; 1024]).await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }
}
