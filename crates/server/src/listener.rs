//! Where connections come in.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::origin::Scheme;

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
