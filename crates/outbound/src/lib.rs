//! The requests that a server sends itself, over TCP and TLS: the implementation of
//! [`windlass_rest::outbound`].
//!
//! Redirects are not followed and nothing is repeated. Proxies are taken from the environment,
//! except for requests that may go to public addresses alone, because a proxy would resolve the
//! name by itself, and for requests to this machine. Services here are asked over plain HTTP for
//! keys and about tokens, so these requests never leave the machine.
//!
//! ```
//! use std::sync::Arc;
//!
//! use windlass_outbound::HttpOutbound;
//! use windlass_rest::outbound::Outbound;
//!
//! let outbound: Arc<dyn Outbound> = Arc::new(HttpOutbound::default());
//! ```

use std::error::Error as StdError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::uri::Scheme;
use http::{Request, Response};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::time::timeout;
use url::{Host, Url};
use windlass_rest::outbound::{
    Outbound, OutboundAddresses, OutboundError, OutboundLimits, is_public,
};

/// Time after which an idle connection is closed.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// Maximum number of idle connections to a host.
const POOL_SIZE: usize = 8;

/// The name of this machine that is not looked up.
const LOCALHOST: &str = "localhost";

/// The addresses of [`LOCALHOST`]. Port 0 stands for the port of the URL.
const THIS_MACHINE: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];

const USER_AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

/// Sends the requests of a server. The connections of all requests share a pool.
///
/// An HTTPS server needs a certificate that the system's root certificates vouch for (the default),
/// or given ones ([`HttpOutbound::trusting`]). The roots are read at the first request.
#[derive(Default)]
pub struct HttpOutbound {
    clients: OnceLock<Option<Clients>>,
    /// Root certificates that replace the system's root certificates.
    roots: Option<Arc<RootCertStore>>,
}

struct Clients {
    /// For hosts of this machine.
    local: reqwest::Client,
    /// For all other hosts.
    any: reqwest::Client,
    public: reqwest::Client,
}

impl HttpOutbound {
    /// Sends requests to HTTPS servers that these roots vouch for, and to no others.
    pub fn trusting(roots: RootCertStore) -> Self {
        Self {
            clients: OnceLock::new(),
            roots: Some(Arc::new(roots)),
        }
    }

    /// Returns the client for a request to this URL.
    fn client(
        &self,
        url: &Url,
        addresses: OutboundAddresses,
    ) -> Result<&reqwest::Client, OutboundError> {
        let tls = || tls(self.roots.clone());
        let clients = self.clients.get_or_init(|| Clients::new(tls()).ok());
        let clients = clients.as_ref().ok_or(OutboundError::Unsupported {
            problem: "the HTTP client cannot be set up",
        })?;
        Ok(match addresses {
            OutboundAddresses::Public => &clients.public,
            OutboundAddresses::Any if is_this_machine(url) => &clients.local,
            OutboundAddresses::Any => &clients.any,
        })
    }
}

impl Clients {
    fn new(tls: ClientConfig) -> reqwest::Result<Self> {
        // A server of DNS could lead the name elsewhere (RFC 6761, 6.3).
        let local = builder(tls.clone())
            .no_proxy()
            .resolve_to_addrs(LOCALHOST, &THIS_MACHINE);
        let public = builder(tls.clone())
            .no_proxy()
            .dns_resolver(Arc::new(PublicResolver));
        Ok(Self {
            local: local.build()?,
            any: builder(tls).build()?,
            public: public.build()?,
        })
    }
}

fn builder(tls: ClientConfig) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_SIZE)
}

/// Returns a TLS configuration that trusts these roots, or without them the system's root
/// certificates. On Linux, `SSL_CERT_FILE` and `SSL_CERT_DIR` select the system's root
/// certificates.
fn tls(roots: Option<Arc<RootCertStore>>) -> ClientConfig {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring offers the cipher suites of TLS 1.2 and 1.3")
    };
    let verified = match roots {
        Some(roots) => builder().with_root_certificates(roots),
        None => builder().with_platform_verifier().unwrap_or_else(|error| {
            tracing::warn!(%error, "no HTTPS server will be trusted, because the system's root certificates cannot be loaded");
            builder().with_root_certificates(RootCertStore::empty())
        }),
    };
    let mut config = verified.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

#[async_trait]
impl Outbound for HttpOutbound {
    async fn send(
        &self,
        request: Request<Bytes>,
        limits: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        let scheme = request.uri().scheme();
        if scheme != Some(&Scheme::HTTP) && scheme != Some(&Scheme::HTTPS) {
            return Err(OutboundError::Unsupported {
                problem: "its URI is not an absolute one of http or https",
            });
        }
        let request = reqwest::Request::try_from(request.map(reqwest::Body::from));
        let request = request.map_err(|_| OutboundError::Unsupported {
            problem: "its URI is not a URL",
        })?;
        let host = request.url().host_str().unwrap_or_default().to_owned();
        // Checks the parsed URL, because its parser also knows addresses like `127.1` and
        // `0x7f000001`.
        if limits.addresses == OutboundAddresses::Public && is_other_literal(request.url()) {
            return Err(OutboundError::Refused { host });
        }
        let client = self.client(request.url(), limits.addresses)?;
        let exchange = exchange(client, request, limits.reply, &host);
        timeout(limits.timeout, exchange)
            .await
            .unwrap_or(Err(OutboundError::Timeout {
                host: host.clone(),
                timeout: limits.timeout,
            }))
    }
}

impl fmt::Debug for HttpOutbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpOutbound")
    }
}

/// Whether the host is a loopback address or `localhost`.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == LOCALHOST,
        None => false,
    }
}

/// Whether the host is an address that is not public. Names are resolved later; addresses never
/// are.
fn is_other_literal(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        Some(Host::Domain(_)) | None => false,
    }
}

async fn exchange(
    client: &reqwest::Client,
    request: reqwest::Request,
    limit: usize,
    host: &str,
) -> Result<Response<Bytes>, OutboundError> {
    let failed = |error| failure(error, host);
    let mut response = client.execute(request).await.map_err(failed)?;
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if body.len() + piece.len() > limit {
            return Err(OutboundError::TooLong {
                host: host.to_owned(),
                limit,
            });
        }
        body.extend_from_slice(&piece);
    }
    let mut reply = Response::new(body.freeze());
    *reply.status_mut() = response.status();
    *reply.headers_mut() = std::mem::take(response.headers_mut());
    Ok(reply)
}

fn failure(error: reqwest::Error, host: &str) -> OutboundError {
    let host = host.to_owned();
    if is_caused_by_refusal(&error) {
        return OutboundError::Refused { host };
    }
    // The URL may have credentials in its path or its query.
    let source = error.without_url().into();
    OutboundError::Failed { host, source }
}

fn is_caused_by_refusal(error: &(dyn StdError + 'static)) -> bool {
    error.is::<NotPublic>() || error.source().is_some_and(is_caused_by_refusal)
}

/// None of the addresses of a name is public.
#[derive(Debug, thiserror::Error)]
#[error("it has no address of the public internet")]
struct NotPublic;

/// Resolves names to public addresses only. The connection is opened to the addresses returned
/// here, so a name cannot have one address for the check and another for the connection.
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found.map_err(Box::<dyn StdError + Send + Sync>::from)?;
            let public: Vec<_> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(NotPublic.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
