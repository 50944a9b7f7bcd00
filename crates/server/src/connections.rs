//! Connections: accepted, served, and closed so that the client sees the last reply.

mod http2;
mod streams;

use std::future::{Future, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use std::{convert, fmt, io};

use bytes::BytesMut;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either};
use http::{HeaderValue, Request, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::capacity::Permit;
use crate::config::Limits;
use crate::origin::{LocalAddress, Scheme};
use crate::service::answer;
use crate::uploads::ServerState;

use http2::Streams;
use streams::{LingeringStream, RewindStream, Timeouts};

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

/// Where connections come in, ready to accept; and what is spoken there. Sockets are TCP's unless
/// something else is given that [accepts](Accept).
pub struct Listener<A = TcpListener> {
    sockets: A,
    tls: Option<TlsAcceptor>,
}

/// What connections come out of.
pub trait Accept: Send + Sync {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for a connection. With it comes the address that it was made to, if that is known.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    fn accept(&self)
    -> impl Future<Output = io::Result<(Self::Stream, Option<SocketAddr>)>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<SocketAddr>)> {
        let (stream, _) = TcpListener::accept(self).await?;
        stream.set_nodelay(true).ok();
        let local = stream.local_addr().ok();
        Ok((stream, local))
    }
}

impl<A: Accept> Listener<A> {
    /// HTTP in the clear.
    pub fn plain(sockets: A) -> Self {
        Self { sockets, tls: None }
    }

    /// HTTP under TLS.
    ///
    /// Which versions of HTTP clients are offered is up to the configuration's ALPN protocols: `h2`
    /// and `http/1.1` are spoken.
    pub fn tls(sockets: A, config: Arc<ServerConfig>) -> Self {
        Self {
            sockets,
            tls: Some(TlsAcceptor::from(config)),
        }
    }

    /// Waits for a connection. What under TLS comes first is left to its [`Accepted`].
    pub(crate) async fn accept(&self) -> io::Result<Accepted<A::Stream>> {
        let (stream, local) = self.sockets.accept().await?;
        Ok(Accepted {
            stream,
            local,
            tls: self.tls.clone(),
        })
    }
}

impl<A> Listener<A> {
    /// What the URLs of its server begin with.
    pub fn scheme(&self) -> Scheme {
        match &self.tls {
            None => Scheme::Http,
            Some(_) => Scheme::Https,
        }
    }
}

/// A connection on which nothing was said yet.
pub(crate) struct Accepted<S> {
    pub(crate) stream: S,
    /// The address that it was made to.
    pub(crate) local: Option<SocketAddr>,
    /// Who shakes hands first.
    pub(crate) tls: Option<TlsAcceptor>,
}

impl<A: fmt::Debug> fmt::Debug for Listener<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("sockets", &self.sockets)
            .field("scheme", &self.scheme())
            .finish_non_exhaustive()
    }
}

/// Copies what in a request's head is a piece of the connection's buffer. As long as there is such a piece,
/// the HTTP library has to read the body into another buffer; for an upload that takes hours that is one
/// more for hours.
fn detach<B>(request: &mut Request<B>) {
    let len = request.headers().values().map(HeaderValue::len).sum();
    let mut copies = BytesMut::with_capacity(len);
    for value in request.headers_mut().values_mut() {
        copies.extend_from_slice(value.as_bytes());
        if let Ok(mut copy) = HeaderValue::from_maybe_shared(copies.split().freeze()) {
            copy.set_sensitive(value.is_sensitive());
            *value = copy;
        }
    }
    if let Ok(copy) = Uri::try_from(request.uri().to_string()) {
        *request.uri_mut() = copy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_the_same() {
        for uri in ["/upload?a=%20b&c", "http://[::1]:80/x", "*", "host:443"] {
            let mut request = Request::post(uri).header("a", "1").header("a", "2");
            let secret = HeaderValue::from_bytes(b"\xfc \t b").unwrap();
            request
                .headers_mut()
                .unwrap()
                .insert("authorization", secret);
            let value = request.headers_mut().unwrap().get_mut("authorization");
            value.unwrap().set_sensitive(true);
            let mut request = request.body(()).unwrap();
            let before = (request.uri().clone(), request.headers().clone());
            detach(&mut request);
            assert_eq!((request.uri(), request.headers()), (&before.0, &before.1));
            assert!(request.headers()["authorization"].is_sensitive());
        }
    }
}
