//! The protocols that carry requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use windlass_testkit::tls::Authority;

/// The protocol of a scenario's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 in the clear, or whatever a shape has instead.
    Http1,
    /// HTTP/1.1 under TLS.
    Http1Tls,
    /// HTTP/2 under TLS.
    Http2Tls,
}

impl Protocol {
    /// Whether a server needs a certificate.
    pub(crate) fn has_tls(self) -> bool {
        self != Self::Http1
    }

    /// The protocol for clients.
    pub(crate) fn with(self, tls: &Tls) -> Transport<'_> {
        match self {
            Self::Http1 => Transport::Http1,
            Self::Http1Tls => Transport::Http1Tls(tls),
            Self::Http2Tls => Transport::Http2Tls(tls),
        }
    }
}

/// A protocol, and whom clients trust.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Transport<'a> {
    /// HTTP/1.1 in the clear, or whatever a shape has instead.
    Http1,
    /// HTTP/1.1 under TLS.
    Http1Tls(&'a Tls),
    /// HTTP/2 under TLS.
    Http2Tls(&'a Tls),
}

/// The certificate of all servers under TLS, and clients that trust it.
#[derive(Debug)]
pub(crate) struct Tls {
    authority: Authority,
    pub(super) http1: Arc<ClientConfig>,
    pub(super) http2: Arc<ClientConfig>,
}

impl Tls {
    /// A new certificate, in files below this directory that are removed at the end.
    pub(crate) fn new(scratch: &Path) -> Self {
        let authority = Authority::new(scratch);
        Self {
            http1: authority.client(&["http/1.1"]),
            http2: authority.client(&["h2"]),
            authority,
        }
    }

    /// Where the certificate and its key are, in PEM.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        [self.authority.certificate(), self.authority.key()]
    }
}
