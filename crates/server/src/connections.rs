//! Connections: accepted, served, and closed so that the client sees the last reply.

mod lingering;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::config::Limits;
use crate::listener::{Accept, Arrival, Listener};
use crate::origin::{LocalAddress, Scheme};
use crate::service::answer;
use crate::uploads::House;

use lingering::{Lingering, Patience};

/// The most that is read from a socket at once, and the longest request head, as on HTTP/2. A connection
/// can hold this much before its request is known, and an upload whose client is faster than the disk
/// as much again.
const READ_BUFFER: usize = 64 * 1024;

/// How much a client may send on HTTP/2 before the server has taken it: of one body, and of all
/// bodies of a connection.
const H2_WINDOW: u32 = 1024 * 1024;

/// How many requests an HTTP/2 connection carries at once.
const H2_STREAMS: u32 = 32;

/// The longest request head on HTTP/2, unpacked.
const H2_HEAD: u32 = 64 * 1024;

/// What an HTTP/2 connection begins with has this length (RFC 9113, 3.4).
const H2_PREFACE_LEN: usize = 24;

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
    pub(crate) async fn accept<A: Accept>(&self, listener: &Listener<A>) {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let permit = permit.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok(arrival) => self.serve(arrival, listener.scheme(), permit),
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

    fn serve<S>(&self, arrival: Arrival<S>, scheme: Scheme, permit: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Arrival { stream, local, tls } = arrival;
        let connection = Connection {
            house: Arc::clone(&self.house),
            builder: self.builder.clone(),
            watcher: self.graceful.watcher(),
            hurry: self.hurry.clone(),
            local: local.map(|address| LocalAddress { address, scheme }),
            deadline: Instant::now() + self.house.settings.limits.head_timeout,
        };
        tokio::spawn(async move {
            match tls {
                None => Box::pin(connection.run(stream)).await,
                Some(tls) => {
                    if let Some(stream) = connection.shake_hands(tls, stream).await {
                        Box::pin(connection.run(stream)).await;
                    }
                }
            }
            drop(permit);
        });
    }
}

/// One connection, from its opening on.
struct Connection {
    house: Arc<House>,
    builder: auto::Builder<TokioExecutor>,
    watcher: Watcher,
    hurry: CancellationToken,
    local: Option<LocalAddress>,
    /// When it must have shown which version of HTTP it speaks. The handshake of TLS comes before.
    deadline: Instant,
}

impl Connection {
    /// The stream within TLS. Anybody can send anything to a port, so a failure is no trouble of ours.
    async fn shake_hands<S>(&self, tls: TlsAcceptor, stream: S) -> Option<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        tokio::select! {
            shaken = tls.accept(stream) => match shaken {
                Ok(stream) => return Some(stream),
                Err(error) => tracing::debug!(%error, "the TLS handshake failed"),
            },
            () = tokio::time::sleep_until(self.deadline) => {
                tracing::debug!("connection closed: the TLS handshake did not end");
            }
            () = self.hurry.cancelled() => {}
        }
        None
    }

    async fn run<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = &self.house.settings.limits;
        let patience = Patience {
            unread: limits.body_timeout,
            linger: limits.linger,
        };
        let stream = Lingering::new(stream, patience, self.hurry);
        let silence = silence(Arc::clone(&stream.received), self.deadline);
        let (house, local) = (self.house, self.local);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let house = Arc::clone(&house);
            async move {
                if let Some(local) = local {
                    request.extensions_mut().insert(local);
                }
                Ok::<_, Infallible>(answer(house, request).await)
            }
        });
        // It holds a request with all that is done for it. Boxed, it is not kept twice when it is moved.
        let connection = Box::pin(
            self.watcher.watch(
                self.builder
                    .serve_connection(TokioIo::new(stream), service)
                    .into_owned(),
            ),
        );
        tokio::select! {
            ended = connection => {
                if let Err(error) = ended {
                    tracing::debug!(error = %error, "connection ended");
                }
            }
            () = silence => tracing::debug!("connection closed: no request came"),
        }
    }
}

/// Resolves when a connection has not even shown at the deadline which version of HTTP it speaks; never
/// otherwise. The HTTP stack's own timeout begins only after that.
async fn silence(received: Arc<AtomicUsize>, deadline: Instant) {
    tokio::time::sleep_until(deadline).await;
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
