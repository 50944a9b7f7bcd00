//! Sources of connections.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use super::tls::Tls;
use crate::context::Scheme;

/// A source of connections, with or without TLS. Connections are TCP connections unless another
/// implementation of [`Accept`] is given.
pub struct Listener<A = TcpListener> {
    pub(super) sockets: A,
    pub(super) tls: Option<Tls>,
    pub(super) is_behind_proxy: bool,
}

/// Accepts connections.
pub trait Accept: Send + Sync {
    /// The byte stream of a connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for a connection.
    ///
    /// # Errors
    /// No error is final: it is logged as a warning, and the server tries again after 100 ms.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    fn accept(&self) -> impl Future<Output = io::Result<Accepted<Self::Stream>>> + Send;
}

/// A connection on which nothing has been sent or received.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The byte stream.
    pub stream: S,
    /// Address of the server's end, if it is known.
    pub local: Option<SocketAddr>,
    /// Address of the client's end, if it is known.
    pub peer: Option<SocketAddr>,
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<Accepted<TcpStream>> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Nagle's algorithm could hold back the end of a reply until the client acknowledges its
        // beginning.
        stream.set_nodelay(true).ok();
        Ok(Accepted {
            local: stream.local_addr().ok(),
            peer: Some(peer),
            stream,
        })
    }
}

impl<A: Accept> Listener<A> {
    /// Returns a listener for HTTP without TLS.
    pub fn plain(sockets: A) -> Self {
        Self {
            sockets,
            tls: None,
            is_behind_proxy: false,
        }
    }

    /// Returns a listener for HTTP over TLS.
    ///
    /// The ALPN protocols of `config` decide which versions of HTTP are offered. The server speaks
    /// `h2` and `http/1.1`. If `config` asks clients for certificates, each request carries the
    /// accepted certificate as a [`ClientCertificate`](crate::ClientCertificate). A resumed
    /// connection carries the certificate of the first connection, which is not verified again. A
    /// configuration with trust anchors that are replaced, or with certificates that expire, should
    /// therefore not resume connections ([`ServerConfig::session_storage`]).
    pub fn tls(sockets: A, config: Arc<ServerConfig>) -> Self {
        Self::tls_with(sockets, move || Arc::clone(&config))
    }

    /// Returns a listener for HTTP over TLS with a replaceable configuration. `config` is called
    /// for each connection and must not block. See [`Listener::tls`].
    pub fn tls_with(
        sockets: A,
        config: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
    ) -> Self {
        Self {
            sockets,
            tls: Some(Tls::new(config)),
            is_behind_proxy: false,
        }
    }

    /// Answers connections that offer `acme-tls/1` as their only ALPN protocol with the
    /// certificates of `config`. By these certificates, a certificate authority validates that this
    /// server has the names for which it requests a certificate (the challenge `tls-alpn-01` of RFC
    /// 8737).
    ///
    /// Such a connection ends after its handshake. `config` must name the protocol in its
    /// `alpn_protocols`. The handshake fails if `config` has no certificate for the client. Without
    /// TLS this does nothing.
    #[must_use]
    pub fn answer_challenges(self, config: Arc<ServerConfig>) -> Self {
        Self {
            tls: self.tls.map(|tls| tls.with_challenges(config)),
            ..self
        }
    }

    /// Expects a header of the PROXY protocol, version 1 or 2, at the start of each connection. A
    /// proxy states its client in the header. The header comes before TLS. It has at most 4,096
    /// bytes, in version 1 at most 107, and has to arrive within
    /// [`Limits::head_timeout`](crate::config::Limits::head_timeout).
    ///
    /// [`PeerAddress`](crate::PeerAddress) is then the address of the client, and
    /// [`LocalAddress`](crate::LocalAddress) the address and the scheme by which the client has
    /// reached the proxy. A connection without the header is closed. A client that connects to the
    /// listener directly, without the proxy, can claim any address.
    #[must_use]
    pub fn behind_proxy(self) -> Self {
        Self {
            is_behind_proxy: true,
            ..self
        }
    }
}

impl<A> Listener<A> {
    /// The scheme of URLs on this listener.
    pub fn scheme(&self) -> Scheme {
        match &self.tls {
            None => Scheme::Http,
            Some(_) => Scheme::Https,
        }
    }
}

impl<A: fmt::Debug> fmt::Debug for Listener<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("sockets", &self.sockets)
            .field("scheme", &self.scheme())
            .finish_non_exhaustive()
    }
}
