//! The certificate for handshakes.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::issued::Issued;
use super::options::Domain;

/// The current certificate. An open connection keeps the certificate of its handshake.
pub(super) struct Serving {
    domains: Vec<Domain>,
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Serving {
    /// A server of these domains, without a certificate.
    pub(super) fn new(domains: &[Domain]) -> Self {
        Self {
            domains: domains.to_vec(),
            current: RwLock::default(),
        }
    }

    /// Uses a certificate for all new connections.
    pub(super) fn replace(&self, issued: &Issued) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Arc::clone(&issued.key));
    }

    /// Returns the certificate for a client that asks for this name, or for none.
    pub(super) fn certificate_for(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let is_own = |name: &str| {
            let mut domains = self.domains.iter();
            domains.any(|domain| domain.as_str().eq_ignore_ascii_case(name))
        };
        // Clients that connect to an address send no name. The probes of load balancers are such
        // clients.
        if !name.is_none_or(is_own) {
            return None;
        }
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate_for(hello.server_name())
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving")
            .field("domains", &self.domains)
            .finish_non_exhaustive()
    }
}
