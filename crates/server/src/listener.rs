//! Where connections come in.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::origin::Scheme;

/// Where connections come in, ready to accept; and what is spoken there.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// HTTP in the clear.
    pub fn plain(tcp: TcpListener) -> Self {
        Self { tcp, tls: None }
    }

    /// HTTP under TLS.
    ///
    /// Which versions of HTTP clients are offered is up to the configuration's ALPN protocols: `h2`
    /// and `http/1.1` are spoken.
    pub fn tls(tcp: TcpListener, config: Arc<ServerConfig>) -> Self {
        Self {
            tcp,
            tls: Some(TlsAcceptor::from(config)),
        }
    }

    /// What the URLs of its server begin with.
    pub fn scheme(&self) -> Scheme {
        match &self.tls {
            None => Scheme::Http,
            Some(_) => Scheme::Https,
        }
    }

    /// Waits for a connection. What under TLS comes first is left to its [`Arrival`].
    pub(crate) async fn accept(&self) -> io::Result<Arrival> {
        let (tcp, _) = self.tcp.accept().await?;
        Ok(Arrival {
            tcp,
            tls: self.tls.clone(),
        })
    }
}

/// A connection on which nothing was said yet.
pub(crate) struct Arrival {
    pub(crate) tcp: TcpStream,
    /// Who shakes hands first.
    pub(crate) tls: Option<TlsAcceptor>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("tcp", &self.tcp)
            .field("scheme", &self.scheme())
            .finish_non_exhaustive()
    }
}
