//! Connections: accepted, served, and closed so that the client sees the last reply.

mod beginning;
mod detached;
mod http2;
mod lingering;

use std::convert;
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either};
use http::Request;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::capacity::Permit;
use crate::config::Limits;
use crate::listener::{Accept, Accepted, Listener};
use crate::origin::{LocalAddress, Scheme};
use crate::service::answer;
use crate::uploads::ServerState;

use beginning::RewindStream;
use detached::detach;
use http2::Streams;
use lingering::{LingeringStream, Timeouts};

/// The longest request head over HTTP/1, and the most that is read from a socket at once. The HTTP library begins with 8 KiB
/// and takes more for a client that fills it.
const READ_BUFFER: usize = 32 * 1024;

/// What an HTTP/2 connection begins with (RFC 9113, 3.4).
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A body that is longer takes more than one read.
const LONG_BODY: u64 = 8 * 1024;

/// Pause after a failed accept, which mostly means that no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the connections of one listener.
pub(crate) struct Connections {
    server: Arc<ServerState>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Connections {
    pub(crate) fn new(server: Arc<ServerState>) -> Self {
        Self {
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            server,
        }
    }

    /// Accepts until the future is dropped.
    pub(crate) async fn accept<A: Accept>(&self, listener: &Listener<A>) {
        loop {
            let place = self.server.capacity.connections.acquire(1).await;
            match listener.accept().await {
                Ok(arrival) => self.serve(arrival, listener.scheme(), place),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Lets running requests come to their end, at most until `limit`, and nothing new begin.
    pub(crate) async fn drain(self, limit: Duration) {
        self.shutdown.cancel();
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.ok();
    }

    fn serve<S>(&self, arrival: Accepted<S>, scheme: Scheme, place: Permit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Accepted { stream, local, tls } = arrival;
        let connection = Connection {
            server: Arc::clone(&self.server),
            tasks: self.tasks.clone(),
            shutdown: self.shutdown.clone(),
            local: local.map(|address| LocalAddress { address, scheme }),
            deadline: Instant::now() + self.server.settings.limits.head_timeout,
        };
        // Boxed apart: a beginning takes room that nobody needs afterwards.
        let begun = Box::pin(connection.begin(stream, tls));
        self.tasks.spawn(async move {
            if let Some(served) = begun.await {
                served.await;
            }
            drop(place);
        });
    }
}

/// The server has come to its end.
#[derive(Debug, thiserror::Error)]
#[error("the server has stopped")]
struct Closed;

/// One connection, from its opening on.
struct Connection {
    server: Arc<ServerState>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    local: Option<LocalAddress>,
    /// When it must have shown which version of HTTP it speaks. The handshake of TLS comes before.
    deadline: Instant,
}

impl Connection {
    /// Finds out what a connection speaks. Returns what then serves it to its end; `None` when that has come
    /// already.
    async fn begin<S>(self, stream: S, tls: Option<TlsAcceptor>) -> Option<BoxFuture<'static, ()>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match tls {
            None => self.serve(stream).await,
            Some(tls) => {
                let stream = Box::pin(self.tls_handshake(tls, stream)).await?;
                self.serve(stream).await
            }
        }
    }

    /// The stream within TLS.
    async fn tls_handshake<S>(&self, tls: TlsAcceptor, stream: S) -> Option<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.within_deadline("the TLS handshake", tls.accept(stream))
            .await
    }

    /// Serves the requests that come on a stream; see [`Connection::begin`].
    async fn serve<S>(self, stream: S) -> Option<BoxFuture<'static, ()>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = &self.server.settings.limits;
        let timeouts = Timeouts {
            unread: limits.body_timeout,
            linger: limits.linger,
        };
        let stream = LingeringStream::new(stream, timeouts, self.shutdown.clone());
        let mut stream = RewindStream::new(stream);
        let begins = stream.starts_with(H2_PREFACE);
        let is_http2 = self.within_deadline("the first request", begins).await?;
        // A reply that its client does not take must not keep a server that has closed.
        let (server, local) = (Arc::downgrade(&self.server), self.local);
        let service = service_fn(move |mut request: Request<Incoming>| {
            // For HTTP/2 this runs in the task of the connection, what it returns in one of the stream.
            let Some(server) = server.upgrade() else {
                return Either::Left(ready(Err(Closed)));
            };
            let len = request.body().size_hint().upper();
            if len.is_none_or(|len| len > LONG_BODY) {
                detach(&mut request);
            }
            if let Some(local) = local {
                request.extensions_mut().insert(local);
            }
            let watch = if is_http2 {
                http2::watch
            } else {
                convert::identity
            };
            Either::Right(answer(server, request).map(watch).map(Ok))
        });
        Some(if is_http2 {
            let streams = Streams::new(limits, &self.tasks);
            let connection = streams
                .builder()
                .serve_connection(TokioIo::new(stream), service);
            self.run(
                connection,
                hyper::server::conn::http2::Connection::graceful_shutdown,
                Some(streams),
            )
        } else {
            let connection = http1(limits).serve_connection(TokioIo::new(stream), service);
            self.run(connection, http1::Connection::graceful_shutdown, None)
        })
    }

    /// Serves a connection until it ends, the server stops, or its streams stand still. `graceful` lets it end by itself.
    fn run<C, E>(
        self,
        connection: C,
        graceful: fn(Pin<&mut C>),
        streams: Option<Streams>,
    ) -> BoxFuture<'static, ()>
    where
        C: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send,
    {
        let (shutdown, linger) = (self.shutdown, self.server.settings.limits.linger);
        // Boxed already while it is moved about: it is large.
        let mut connection = Box::pin(connection);
        async move {
            let stalled = async {
                match &streams {
                    Some(streams) => streams.stalled().await,
                    None => std::future::pending().await,
                }
            };
            let ended = tokio::select! {
                biased;
                ended = &mut connection => ended,
                () = shutdown.cancelled() => {
                    graceful(connection.as_mut());
                    connection.await
                }
                () = stalled => {
                    graceful(connection.as_mut());
                    tokio::time::timeout(linger, connection).await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        }
        .boxed()
    }

    /// What a connection begins with; `None` when that fails, takes too long, or the server stops. Anybody
    /// can send anything to a port, so a failure is no trouble of ours.
    async fn within_deadline<T>(
        &self,
        what: &str,
        beginning: impl Future<Output = io::Result<T>>,
    ) -> Option<T> {
        tokio::select! {
            begun = beginning => match begun {
                Ok(begun) => return Some(begun),
                Err(error) => tracing::debug!(%error, "{what} failed"),
            },
            () = tokio::time::sleep_until(self.deadline) => {
                tracing::debug!("connection closed: {what} did not come in time");
            }
            () = self.shutdown.cancelled() => {}
        }
        None
    }
}

/// How HTTP/1 is served.
fn http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .half_close(true)
        .max_buf_size(READ_BUFFER);
    builder
}
