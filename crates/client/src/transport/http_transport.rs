//! The transport over TCP and TLS.
//!
//! It does not follow redirections, because a 308 asks for the next bytes in this protocol. It does
//! not retry, because the upload loop first queries the server. It does not decompress, has no
//! cookies, and sets no time limit for a whole request, but for each part of it: for the head of a
//! reply, for its body where that is no media, and for every 64 KiB of media.
//!
//! The body of a request is given to the HTTP library in slices of at most
//! [`MAX_SLICE`](super::MAX_SLICE) bytes, so that a slow connection can be told from a stalled one.
//! They share the memory of the media. Without TLS they are written to the socket by vectored
//! writes, so no byte is copied before the kernel does. With TLS they are encrypted into records.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::Verifier;
use tokio::time::{Instant, timeout};
use url::Url;

use super::{
    Body, Incoming, LoopbackResolver, Reply, Request, Timeouts, Transport, TransportError,
    host_and_port,
};
use crate::identity::ClientIdentity;
use crate::origin::is_loopback;
use body::{OutgoingBody, RequestProgress, StopOnDrop};
use failure::{
    certificate_error, find_tls_error, is_certificate_refused, is_not_http, is_not_tls,
    is_unknown_host, timed_out,
};
use pace::Pace;

mod body;
mod certificate;
mod failure;
mod pace;

/// Time after which an idle connection is closed. Many servers close theirs after 60 s or more, and
/// a request on a connection that the server is closing fails.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// The default `User-Agent`.
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION")));

/// The options that an application may set.
#[derive(Default)]
pub(crate) struct HttpTransportOptions {
    /// A certificate for servers that may receive credentials.
    pub(crate) identity: Option<ClientIdentity>,
    /// Header fields for servers that may receive credentials.
    pub(crate) headers: HeaderMap,
    pub(crate) user_agent: Option<HeaderValue>,
    /// Authorities that are trusted in addition to the system's authorities.
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// Sends the requests; it has its own TLS.
    pub(crate) http_client: Option<reqwest::Client>,
}

/// Sends requests by HTTP/1.1, or by HTTP/2 where a server offers it under TLS. Connections are
/// reused. Proxies are taken from the environment, but for hosts of this machine, and root
/// certificates from the system.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    anonymous: Arc<Connections>,
    /// Connections on which the client presents its certificate, if it has one. They are apart,
    /// because it is not meant for every server.
    identified: Option<Arc<Connections>>,
    /// Header fields for servers that may receive credentials.
    headers: HeaderMap,
    user_agent: HeaderValue,
}

/// The connection pool and its settings.
#[derive(Debug)]
struct Connections {
    timeouts: Timeouts,
    /// With which a pool is made; `None` for the application's own, which is never replaced.
    tls: Option<ClientConfig>,
    /// The pools. They are replaced after a connection was silent.
    pools: Mutex<Pools>,
}

/// Two pools. An unencrypted request to this machine must not go to a proxy, which may be another
/// machine.
#[derive(Debug, Clone)]
struct Pools {
    /// For hosts of this machine.
    local: reqwest::Client,
    /// For all other hosts.
    remote: reqwest::Client,
}

impl HttpTransport {
    /// Creates a transport with the system's root certificates and the proxies of the environment,
    /// or over the application's own client.
    ///
    /// # Errors
    ///
    /// [`TransportError::SetUp`]: the options contradict each other, or the HTTP client cannot be
    /// created.
    pub(crate) fn new(
        timeouts: Timeouts,
        mut options: HttpTransportOptions,
    ) -> Result<Self, TransportError> {
        let Some(client) = options.http_client.take() else {
            let roots = std::mem::take(&mut options.roots);
            return Self::with_tls(timeouts, tls_with_system_roots(roots)?, options);
        };
        if options.identity.is_some() || !options.roots.is_empty() {
            let reason =
                "the HTTP client of the application has its own TLS: set certificates there";
            return Err(TransportError::SetUp(reason.into()));
        }
        let own = Connections {
            timeouts,
            tls: None,
            pools: Mutex::new(Pools {
                local: client.clone(),
                remote: client,
            }),
        };
        Ok(Self::over(own, None, options))
    }

    fn over(
        anonymous: Connections,
        identified: Option<Connections>,
        options: HttpTransportOptions,
    ) -> Self {
        Self {
            anonymous: Arc::new(anonymous),
            identified: identified.map(Arc::new),
            headers: options.headers,
            user_agent: options.user_agent.unwrap_or(USER_AGENT),
        }
    }

    fn with_tls(
        timeouts: Timeouts,
        tls: ClientConfig,
        mut options: HttpTransportOptions,
    ) -> Result<Self, TransportError> {
        let identified = options.identity.take().map(|identity| {
            let mut tls = tls.clone();
            tls.client_auth_cert_resolver = identity.resolver();
            // The cache is not shared: connections without the certificate must not resume a TLS
            // session that was opened with it.
            tls.resumption = Resumption::default();
            Connections::new(timeouts, tls)
        });
        let anonymous = Connections::new(timeouts, tls)?;
        Ok(Self::over(anonymous, identified.transpose()?, options))
    }

    /// Adds the header fields of the application. A field that the request has already is kept.
    fn add_headers(&self, request: &mut Request) {
        let headers = &mut request.headers;
        headers.insert(http::header::USER_AGENT, self.user_agent.clone());
        if request.may_receive_credentials {
            for (name, value) in &self.headers {
                headers.entry(name).or_insert_with(|| value.clone());
            }
        }
    }

    fn connections_for(&self, request: &Request) -> &Arc<Connections> {
        let identified = self.identified.as_ref();
        identified
            .filter(|_| request.may_receive_credentials)
            .unwrap_or(&self.anonymous)
    }

    /// Creates a transport that trusts only these root certificates.
    #[cfg(test)]
    pub(crate) fn trusting(
        timeouts: Timeouts,
        roots: rustls::RootCertStore,
        identity: Option<&ClientIdentity>,
    ) -> Self {
        let options = HttpTransportOptions {
            identity: identity.cloned(),
            ..HttpTransportOptions::default()
        };
        Self::with_tls(timeouts, tls_with_roots(roots), options).expect("the settings are good")
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: Request) -> Result<Reply, TransportError> {
        let connections = Arc::clone(self.connections_for(&request));
        let incoming = self.exchange(request, None).await?;
        let (host, limit) = (incoming.host.clone(), connections.timeouts.reply);
        let collected = timeout(limit, incoming.collect()).await;
        collected.unwrap_or_else(|_| Err(connections.classify(ExchangeError::Slow(limit), host)))
    }

    async fn open(&self, request: Request) -> Result<Incoming, TransportError> {
        self.exchange(request, Some(Pace::default())).await
    }
}

impl HttpTransport {
    /// Sends a request and returns when the head of the reply has arrived. Its body must keep a
    /// pace if it is media; the caller limits the time of any other.
    async fn exchange(
        &self,
        mut request: Request,
        pace: Option<Pace>,
    ) -> Result<Incoming, TransportError> {
        self.add_headers(&mut request);
        let connections = self.connections_for(&request);
        let host = host_and_port(&request.url);
        let has_body = request.body.length() > 0;
        let progress = Arc::new(RequestProgress::new(connections.timeouts, has_body));
        let guard = StopOnDrop(Arc::clone(&progress));
        let client = connections.client(&request.url);
        let exchange = client.execute(outgoing(request, &progress));
        let outcome = tokio::select! {
            outcome = exchange => outcome.map_err(ExchangeError::Http),
            silent_for = progress.silence() => Err(ExchangeError::Silent(silent_for)),
        };
        match (outcome, progress.take_stream_error()) {
            (Ok(response), _) if has_transfer_coding(response.headers()) => {
                Err(TransportError::TransferCoding { host })
            }
            (Ok(response), _) => Ok(Incoming {
                status: response.status(),
                headers: response.headers().clone(),
                host: host.clone(),
                body: pieces(BodyReader {
                    connections: Arc::clone(connections),
                    host,
                    response,
                    pace,
                    _guard: guard,
                }),
            }),
            (Err(_), Some(error)) => Err(TransportError::Media(error)),
            (Err(failure), None) => Err(connections.classify(failure, host)),
        }
    }
}

/// Why a request, or the reading of its reply, failed.
enum ExchangeError {
    Http(reqwest::Error),
    /// There was no progress for this time.
    Silent(Duration),
    /// Too little of a body arrived in this time.
    Slow(Duration),
}

impl Connections {
    fn new(timeouts: Timeouts, tls: ClientConfig) -> Result<Self, TransportError> {
        let pools = Pools::new(timeouts, &tls)
            .map_err(|error| TransportError::SetUp(error.without_url().into()))?;
        Ok(Self {
            timeouts,
            tls: Some(tls),
            pools: Mutex::new(pools),
        })
    }

    /// Returns the client for requests to this URL.
    fn client(&self, url: &Url) -> reqwest::Client {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if is_loopback(url) {
            pools.local.clone()
        } else {
            pools.remote.clone()
        }
    }

    /// Makes later requests use new connections. A silent HTTP/2 connection would otherwise be
    /// reused until TCP closes it.
    fn replace_client(&self) {
        let Some(tls) = &self.tls else { return };
        if let Ok(fresh) = Pools::new(self.timeouts, tls) {
            *self.pools.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
    }

    /// Converts an error. After a silent connection, replaces the pool.
    fn classify(&self, failure: ExchangeError, host: String) -> TransportError {
        let error = match failure {
            ExchangeError::Silent(limit) => return self.silent(host, limit),
            ExchangeError::Slow(limit) => {
                self.replace_client();
                let seconds = limit.as_secs();
                return TransportError::Slow { host, seconds };
            }
            ExchangeError::Http(error) => error,
        };
        let connected = !error.is_connect() && !error.is_builder();
        if connected && timed_out(&error) {
            return self.silent(host, self.timeouts.idle);
        }
        if is_certificate_refused(&error) {
            return TransportError::CertificateRefused { host };
        }
        if is_not_tls(&error) {
            return TransportError::NotTls { host };
        }
        if is_not_http(&error) {
            return TransportError::NotHttp { host };
        }
        if let Some(problem) = certificate_error(&error) {
            let source = problem.into();
            return TransportError::Untrusted { host, source };
        }
        if !connected && is_unknown_host(&error) {
            return TransportError::UnknownHost { host };
        }
        // The texts of the TLS library are the names of its types.
        let source = match find_tls_error(&error, &|error| Some(certificate::tls_problem(error))) {
            Some(problem) => problem.into(),
            None => error.without_url().into(),
        };
        if connected {
            TransportError::Broken { host, source }
        } else {
            TransportError::Connect { host, source }
        }
    }

    fn silent(&self, host: String, limit: Duration) -> TransportError {
        self.replace_client();
        let seconds = limit.as_secs();
        TransportError::Silent { host, seconds }
    }
}

/// Reads the body of a reply.
struct BodyReader {
    connections: Arc<Connections>,
    host: String,
    response: reqwest::Response,
    /// The pace that media must keep; `None` for other bodies.
    pace: Option<Pace>,
    /// Stops the body of the request when this reader is dropped.
    _guard: StopOnDrop,
}

impl BodyReader {
    async fn next(&mut self) -> Result<Option<Bytes>, TransportError> {
        let idle = self.connections.timeouts.idle;
        let began = Instant::now();
        let left = self.pace.as_ref().map_or(idle, |pace| pace.left(idle));
        let failure = match timeout(left, self.response.chunk()).await {
            Ok(Ok(piece)) => {
                let len = piece.as_ref().map_or(0, Bytes::len);
                if let Some(pace) = &mut self.pace {
                    pace.arrived(len, began.elapsed());
                }
                return Ok(piece);
            }
            Ok(Err(error)) => ExchangeError::Http(error),
            Err(_) if self.pace.as_ref().is_some_and(Pace::has_begun) => ExchangeError::Slow(idle),
            Err(_) => ExchangeError::Silent(idle),
        };
        Err(self.connections.classify(failure, self.host.clone()))
    }
}

/// Returns the pieces of a reply's body.
fn pieces(reading: BodyReader) -> BoxStream<'static, Result<Bytes, TransportError>> {
    let next = async |mut reading: BodyReader| {
        let piece = reading.next().await?;
        Ok(piece.map(|piece| (piece, reading)))
    };
    stream::try_unfold(reading, next).boxed()
}

impl Pools {
    fn new(timeouts: Timeouts, tls: &ClientConfig) -> reqwest::Result<Self> {
        let local = client_builder(timeouts, tls.clone())
            .no_proxy()
            .dns_resolver(Arc::new(LoopbackResolver));
        Ok(Self {
            local: local.build()?,
            remote: client_builder(timeouts, tls.clone()).build()?,
        })
    }
}

/// Returns the settings of an HTTP client with a new connection pool.
fn client_builder(timeouts: Timeouts, tls: ClientConfig) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(timeouts.connect)
        .pool_idle_timeout(POOL_IDLE);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let builder = builder.tcp_user_timeout(timeouts.idle);
    builder
}

fn outgoing(request: Request, progress: &Arc<RequestProgress>) -> reqwest::Request {
    let length = request.body.length();
    let body = match request.body {
        _ if length == 0 => reqwest::Body::from(Bytes::new()),
        Body::Empty => reqwest::Body::from(Bytes::new()),
        Body::Bytes(bytes) => {
            let stream = stream::iter([Ok(bytes)]).boxed();
            reqwest::Body::wrap(OutgoingBody::new(stream, length, Arc::clone(progress)))
        }
        Body::Stream { stream, .. } => {
            reqwest::Body::wrap(OutgoingBody::new(stream, length, Arc::clone(progress)))
        }
    };
    let mut outgoing = reqwest::Request::new(request.method, request.url);
    *outgoing.headers_mut() = request.headers;
    outgoing
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(length));
    *outgoing.body_mut() = Some(body);
    outgoing
}

/// Returns whether the body of a reply has a transfer coding other than `chunked`. This client asks
/// for no other coding, and the HTTP library would return the body without decoding it.
fn has_transfer_coding(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(TRANSFER_ENCODING).iter();
    let codings: Vec<_> = fields
        .flat_map(|field| field.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty())
        .collect();
    match codings[..] {
        [] => false,
        [only] => !only.eq_ignore_ascii_case(b"chunked"),
        _ => true,
    }
}

/// Returns a TLS configuration that trusts the system's root certificates and the roots in `more`.
/// On Linux, `SSL_CERT_FILE` and `SSL_CERT_DIR` select the system's root certificates. On a system
/// without root certificates, for instance in a small container, it trusts only `more`.
///
/// The configuration has its own cryptography provider. It neither uses nor sets rustls's provider
/// for the process, which only the program may choose.
fn tls_with_system_roots(
    more: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, TransportError> {
    let provider = Arc::new(ring::default_provider());
    match Verifier::new_with_extra_roots(more.clone(), provider) {
        Ok(verifier) => {
            let builder = tls_builder().dangerous();
            Ok(configure(
                builder.with_custom_certificate_verifier(Arc::new(verifier)),
            ))
        }
        Err(error) => {
            tracing::warn!(%error, "the system's root certificates cannot be loaded, so none of them is trusted");
            let mut roots = RootCertStore::empty();
            for certificate in more {
                let added = roots.add(certificate);
                added.map_err(|error| TransportError::SetUp(error.into()))?;
            }
            Ok(tls_with_roots(roots))
        }
    }
}

/// Returns a TLS configuration that trusts only these root certificates.
pub(super) fn tls_with_roots(roots: RootCertStore) -> ClientConfig {
    configure(tls_builder().with_root_certificates(roots))
}

fn tls_builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring offers the cipher suites of TLS 1.2 and 1.3")
}

fn configure(builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig {
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
