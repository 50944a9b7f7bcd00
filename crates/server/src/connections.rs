//! Connections: accepted, served, and closed so that the client sees the last reply.

mod eviction;
mod http2;
pub(crate) mod interim;
mod listener;
mod pace;
mod place;
pub(crate) mod proxy_protocol;
mod stop;
mod streams;
mod tls;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::{BoxFuture, Either};
use futures_util::{FutureExt as _, TryFutureExt as _};
use http::header::COOKIE;
use http::{Extensions, HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower_service::Service;
use windlass_engine::{Permit, Pool};

use crate::callers::{AddressLimits, CallerLimit, CallerMetrics, ConnectionPermit};
use crate::client_certificate::ClientCertificate;
use crate::config::Limits;
use crate::context::{LocalAddress, PeerAddress, Scheme};
use crate::reply::{self, ReplyBody};

use eviction::{Entry, OpenConnections};
use http2::{GivenUp, Streams};
pub use interim::{InterimHead, InterimReplies};
use interim::{InterimQueue, Sending};
pub use listener::{Accept, Accepted, Listener};
use pace::{Pace, Rate};
use place::Places;
use streams::{LingeringStream, RewindStream, Timeouts};
use tls::Tls;

/// The least of [`Limits::head`], in bytes: the size of hyper's read buffer at the beginning of a connection.
const MIN_HEAD: usize = 8 * 1024;

/// Maximum number of fields in a head; hyper's limit for HTTP/1.
const MAX_FIELDS: usize = 100;

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4).
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// hyper's first read buffer: a longer body takes more than one read.
/// Length in bytes above which the head of a request is detached from the read buffer.
const LONG_BODY: u64 = 8 * 1024;

/// Pause between two connections that are ended while no place is left.
const FULL_PAUSE: Duration = Duration::from_millis(100);

// A connection then has 200 ms for its request, or for its end after the reply, and a hundred that
// wait before a scrape take less than three seconds.
/// As [`FULL_PAUSE`], of a listener whose connections are for one request each.
const BRIEF_FULL_PAUSE: Duration = Duration::from_millis(25);

// `accept` fails mostly because no file descriptor is left, and would fail again at once.
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A service for connections. It is cloned for each request and always replies.
///
/// Implemented by every suitable type, such as [`UploadService`](crate::UploadService) inside
/// layers of `tower` that keep the type of the reply's body.
pub trait HttpService<R>:
    Service<R, Response = Response<ReplyBody>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<R, S> HttpService<R> for S where
    S: Service<R, Response = Response<ReplyBody>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Serves the connections of one listener.
pub(crate) struct Connections<S> {
    service: S,
    /// The limit on the number of connections.
    places: Places,
    /// The limits on the connections of one address.
    addresses: AddressLimits,
    limits: Arc<Limits>,
    /// The limits of connections that are accepted while few permits are left.
    hurried: Arc<Limits>,
    metrics: CallerMetrics,
    /// Whether each connection ends with its first request.
    are_brief: bool,
    open: OpenConnections,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// The maximum wait for a head while few connections are left. Otherwise many silent connections
/// would lock out all other clients for [`Limits::head_timeout`].
const HURRIED_HEAD: Duration = Duration::from_secs(10);

impl<S: HttpService<Request<Incoming>>> Connections<S> {
    pub(crate) fn new(
        service: S,
        pool: Pool,
        addresses: AddressLimits,
        limits: Limits,
        metrics: CallerMetrics,
    ) -> Self {
        let hurried = Limits {
            head_timeout: limits.head_timeout.min(HURRIED_HEAD),
            ..limits.clone()
        };
        Self {
            service,
            places: Places::new(pool),
            addresses,
            limits: Arc::new(limits),
            hurried: Arc::new(hurried),
            metrics,
            are_brief: false,
            open: OpenConnections::default(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        }
    }

    /// Ends each connection with its first request, and each connection without a request after
    /// [`HURRIED_HEAD`]. For listeners with few connections, which a client must not keep by
    /// sending requests. HTTP/2 is not offered, because it has no way to end a connection like
    /// this.
    pub(crate) fn brief(self) -> Self {
        Self {
            limits: Arc::clone(&self.hurried),
            are_brief: true,
            ..self
        }
    }

    /// Returns a guard. Dropping the guard ends idle connections at once and all other connections
    /// after their request.
    pub(crate) fn shutdown_on_drop(&self) -> DropGuard {
        self.shutdown.clone().drop_guard()
    }

    /// Accepts connections until the future is dropped.
    pub(crate) async fn accept<A: Accept>(&self, listener: &Listener<A>) {
        loop {
            // Before the accept: connections above the limit wait in the kernel's queue, where they
            // take no memory of the server.
            let permit = self.next_place().await;
            match listener.sockets.accept().await {
                Ok(accepted) => self.serve(accepted, listener, permit),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Waits for a place. While there is none, ends connections that keep others out.
    async fn next_place(&self) -> Permit {
        let pause = if self.are_brief {
            BRIEF_FULL_PAUSE
        } else {
            FULL_PAUSE
        };
        loop {
            let place = tokio::time::timeout(pause, self.places.next()).await;
            if let Ok(permit) = place {
                return permit;
            }
            let is_ended = if self.are_brief {
                self.open.end_oldest_idle()
            } else {
                self.open.end_slowest()
            };
            if is_ended {
                self.metrics.count(CallerLimit::Connections);
                tracing::debug!("a connection was ended: others wait for its place");
            }
        }
    }

    /// Ends idle connections, and waits for running requests.
    pub(crate) async fn drain(self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn serve<A: Accept>(
        &self,
        accepted: Accepted<A::Stream>,
        listener: &Listener<A>,
        permit: Permit,
    ) {
        let Accepted {
            stream,
            local,
            peer,
        } = accepted;
        // A connection from a proxy counts for the proxy's client, which the PROXY header states
        // later.
        let client = peer.filter(|_| !listener.is_behind_proxy);
        let address_permit = client.map(|client| self.addresses.admit(client.ip()));
        let Ok(address_permit) = address_permit.transpose() else {
            // Closed without a reply, because writing a reply could wait for the client.
            return;
        };
        let limits = if self.places.are_short() {
            &self.hurried
        } else {
            &self.limits
        };
        let entry = self.open.enter();
        let end = entry.end.clone();
        let connection = Connection {
            service: self.service.clone(),
            entry,
            limits: Arc::clone(limits),
            metrics: self.metrics.clone(),
            is_brief: self.are_brief,
            places: self.places.clone(),
            tasks: self.tasks.clone(),
            shutdown: self.shutdown.clone(),
            local: local.map(|address| LocalAddress {
                address,
                scheme: listener.scheme(),
            }),
            peer: peer.map(PeerAddress),
            address_permit: address_permit.unwrap_or_default(),
            certificate: None,
            deadline: Instant::now() + limits.head_timeout,
        };
        let tls = listener.tls.clone();
        // Boxed separately, and freed when the protocol is known. Otherwise the task of a slow
        // connection would hold the memory of its TLS handshake for hours.
        let begun = if listener.is_behind_proxy {
            let addresses = self.addresses.clone();
            connection
                .begin_behind_proxy(stream, tls, addresses)
                .boxed()
        } else {
            connection.begin(stream, tls).boxed()
        };
        self.tasks.spawn(async move {
            let served = async {
                if let Some(served) = begun.await {
                    served.await;
                }
            };
            tokio::select! {
                () = served => {}
                () = end.cancelled() => {}
            }
            drop(permit);
        });
    }
}

/// One accepted connection.
struct Connection<S> {
    service: S,
    /// Its entry among the open connections of the listener.
    entry: Entry,
    limits: Arc<Limits>,
    metrics: CallerMetrics,
    is_brief: bool,
    places: Places,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    local: Option<LocalAddress>,
    peer: Option<PeerAddress>,
    /// Its permit from the limit of its address.
    address_permit: ConnectionPermit,
    /// The certificate of the client, once the TLS handshake has verified one.
    certificate: Option<ClientCertificate>,
    /// Deadline for the TLS handshake and the first bytes of a request.
    deadline: Instant,
}

impl<S: HttpService<Request<Incoming>>> Connection<S> {
    /// Reads the header in which the proxy states its client, and then continues like
    /// [`Connection::begin`].
    async fn begin_behind_proxy<T>(
        mut self,
        stream: T,
        tls: Option<Tls>,
        addresses: AddressLimits,
    ) -> Option<BoxFuture<'static, ()>>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let header = proxy_protocol::read(stream);
        let (proxied, stream) = self
            .within_deadline("the header of the PROXY protocol", header)
            .await?;
        if let Some(proxied) = proxied {
            self.address_permit = addresses.admit(proxied.client.ip()).ok()?;
            self.peer = Some(PeerAddress(proxied.client));
            let own_scheme = self.local.map_or(Scheme::Http, |local| local.scheme);
            self.local = Some(LocalAddress {
                address: proxied.server,
                scheme: if proxied.is_encrypted {
                    Scheme::Https
                } else {
                    own_scheme
                },
            });
        }
        self.begin(stream, tls).await
    }

    /// Performs the TLS handshake, if any, and detects the version of HTTP. Returns the future that
    /// serves the connection, or `None` if the connection has ended.
    async fn begin<T>(mut self, stream: T, tls: Option<Tls>) -> Option<BoxFuture<'static, ()>>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match tls {
            None => self.serve(stream).await,
            Some(tls) => {
                let stream = Box::pin(self.tls_handshake(tls, stream)).await?;
                self.certificate = ClientCertificate::of(stream.get_ref().1);
                self.serve(stream).await
            }
        }
    }

    /// Returns the stream inside TLS. `None` if the connection has ended.
    async fn tls_handshake<T>(&self, tls: Tls, stream: T) -> Option<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let mut refused = None;
        let handshake = tls.accept(stream).map_err(|(error, stream)| {
            refused = stream;
            error
        });
        let accepted = self.within_deadline("the TLS handshake", handshake).await;
        if let Some(stream) = refused {
            self.close(stream).await;
        }
        accepted.flatten()
    }

    /// Closes a connection after its TLS handshake has failed. In TLS 1.3 the client may already
    /// have sent its request. A reset would then keep the alert from the client.
    async fn close<T: AsyncRead + AsyncWrite + Unpin>(&self, stream: T) {
        let mut stream = self.lingering(stream);
        stream.shutdown().await.ok();
    }

    fn lingering<T>(&self, stream: T) -> LingeringStream<T> {
        let timeouts = Timeouts {
            unread: self.limits.body_timeout,
            linger: self.limits.linger,
        };
        let pace = Pace::new(self.rate(), self.metrics.clone());
        let stream = LingeringStream::new(stream, timeouts, self.shutdown.clone());
        stream.watched(pace, Arc::clone(&self.entry.progress))
    }

    /// The minimum rate at which the client has to read replies.
    fn rate(&self) -> Rate {
        Rate {
            min: self.limits.min_rate,
            is_hurried: self.places.are_short(),
        }
    }

    /// Detects the version of HTTP; see [`Connection::begin`].
    async fn serve<T>(self, stream: T) -> Option<BoxFuture<'static, ()>>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = &self.limits;
        self.entry.set_share(self.address_permit.share().as_ref());
        let stream = self.lingering(stream);
        // Detected before hyper begins: each version has its own connection type and its own
        // graceful shutdown.
        let mut stream = RewindStream::new(stream);
        let begins = stream.starts_with(H2_PREFACE);
        let is_http2 = self.within_deadline("the first request", begins).await?;
        if is_http2 && self.is_brief {
            return None;
        }
        let (local, peer, certificate) = (self.local, self.peer, self.certificate.clone());
        let place = self.places.of_connection(self.address_permit.share());
        let service = TowerToHyperService::new(self.service.clone());
        let place_of_requests = place.clone();
        let progress = Arc::clone(&self.entry.progress);
        let metrics = self.metrics.clone();
        let interim = InterimQueue::default();
        let interim_of_requests = interim.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            progress.record_request();
            // Over HTTP/1, hyper itself refuses more fields.
            if is_http2 && count_fields(request.headers()) > MAX_FIELDS {
                metrics.count(CallerLimit::Head);
                let refused = reply::empty(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
                return Either::Left(async { Ok(http2::watch(refused)) });
            }
            // hyper calls this on the connection's task. Over HTTP/2 the returned future runs on
            // the stream's task, where `http2::watch` finds its stream.
            let len = request.body().size_hint().upper();
            // Only for a long body, because detaching copies the head.
            if len.is_none_or(|len| len > LONG_BODY) {
                detach(&mut request);
            }
            let takes_interim = request.version() == Version::HTTP_11;
            let extensions = request.extensions_mut();
            add(extensions, local);
            add(extensions, peer);
            add(extensions, certificate.clone());
            let sending = takes_interim.then(|| interim_of_requests.begin());
            add(extensions, sending.as_ref().map(Sending::replies));
            let place = place_of_requests.clone();
            Either::Right(service.call(request).map_ok(move |reply| {
                drop(sending);
                if is_http2 {
                    http2::watch(reply)
                } else {
                    place.make_room(reply)
                }
            }))
        });
        Some(if is_http2 {
            let resets = self.address_permit.resets.clone();
            let reply_pace = Pace::new(self.rate(), self.metrics.clone());
            let streams = Streams::new(limits, &self.tasks, resets, place, reply_pace);
            let connection = streams
                .builder(limits)
                .serve_connection(TokioIo::new(stream), service);
            self.run(
                connection,
                hyper::server::conn::http2::Connection::graceful_shutdown,
                Some(streams),
            )
        } else {
            let mut builder = http1(limits);
            builder.keep_alive(!self.is_brief);
            let stream = TokioIo::new(interim.stream(stream));
            let connection = builder.serve_connection(stream, service);
            self.run(connection, http1::Connection::graceful_shutdown, None)
        })
    }

    /// Serves a connection until it ends, the server stops, its streams are stalled, or its address
    /// is blocked. `graceful` starts hyper's graceful shutdown.
    fn run<C>(
        self,
        connection: C,
        graceful: fn(Pin<&mut C>),
        streams: Option<Streams>,
    ) -> BoxFuture<'static, ()>
    where
        C: Future<Output = hyper::Result<()>> + Send + 'static,
    {
        let (shutdown, linger) = (self.shutdown, self.limits.linger);
        let (address_permit, entry) = (self.address_permit, self.entry);
        let metrics = self.metrics;
        // Boxed at once, because the connection is large and is moved several times before it is
        // polled.
        let mut connection = Box::pin(connection);
        async move {
            let ended = loop {
                let given_up = async {
                    match &streams {
                        Some(streams) => streams.given_up().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    ended = &mut connection => break ended,
                    () = shutdown.cancelled() => {
                        graceful(connection.as_mut());
                        break stop::ended(connection, streams.as_ref()).await;
                    }
                    reason = given_up => match reason {
                        // Running requests of the connection continue.
                        GivenUp::Crowded => graceful(connection.as_mut()),
                        GivenUp::Stalled => {
                            graceful(connection.as_mut());
                            // Limited, because a client that reads no reply may not end the
                            // connection either.
                            break tokio::time::timeout(linger, connection).await.unwrap_or(Ok(()));
                        }
                        GivenUp::ShutOut => {
                            tracing::debug!(
                                "connection closed: its address exceeds limits.resets_per_address, or it goes on \
                                 although others wait for its place"
                            );
                            drop(connection);
                            break Ok(());
                        }
                    },
                }
            };
            drop((address_permit, entry));
            // Logged at debug level: clients and networks often end connections.
            if let Err(error) = ended {
                if error.is_parse_too_large() {
                    metrics.count(CallerLimit::Head);
                } else if error.is_timeout() {
                    metrics.count(CallerLimit::HeadTime);
                }
                tracing::debug!(%error, "connection ended");
            }
        }
        .boxed()
    }

    /// Awaits a first step of the connection. `None` if the step fails or misses the deadline, or
    /// if the server stops.
    async fn within_deadline<T>(
        &self,
        what: &str,
        beginning: impl Future<Output = io::Result<T>>,
    ) -> Option<T> {
        // Failures are logged at debug level: anyone can send anything to an open port.
        tokio::select! {
            begun = beginning => match begun {
                Ok(begun) => return Some(begun),
                Err(error) => tracing::debug!(%error, "{what} failed"),
            },
            () = tokio::time::sleep_until(self.deadline) => {
                self.metrics.count(CallerLimit::HeadTime);
                tracing::debug!("connection closed: {what} did not complete within limits.head_timeout");
            }
            () = self.shutdown.cancelled() => {}
        }
        None
    }
}

/// Returns the configuration of HTTP/1.
fn http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        // A client may shut down its sending side after the request and still read the reply.
        .half_close(true)
        // hyper grows the buffer for a client that fills it. An upload that is faster than the disk
        // holds two such buffers; docs/adr/0002 compares sizes.
        .max_buf_size(limits.head.max(MIN_HEAD));
    builder
}

/// Number of fields of a head over HTTP/2, where a client may send each cookie as a field of its own
/// (RFC 9113, section 8.2.3).
fn count_fields(headers: &HeaderMap) -> usize {
    let cookies = headers.get_all(COOKIE).iter().count();
    headers.len() - cookies.saturating_sub(1)
}

/// Adds a fact about the connection to a request.
fn add<T: Clone + Send + Sync + 'static>(extensions: &mut Extensions, fact: Option<T>) {
    if let Some(fact) = fact {
        extensions.insert(fact);
    }
}

/// Copies the parts of a request's head that refer to the connection's read buffer.
///
/// As long as such a part exists, hyper cannot reuse the buffer and reads the body into another
/// buffer. An upload that takes hours would hold both buffers for hours.
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
    fn detached_head_equals_the_original() {
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
