//! Which certificates of clients are accepted: the authorities that they must come from and the
//! revocation lists, read from files and reloaded on SIGHUP.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use windlass_acme::tls::{provider, resume_nothing, server_config};

use super::certificate::{self, CertificateError, root_store};
use crate::settings::{ClientCertificates, Settings};

/// The trust in certificates of clients, which can be replaced while the server runs. An open
/// connection keeps the certificate that was accepted when it was opened.
pub(super) struct ClientTrust {
    sources: Sources,
    /// The server's own certificates.
    certificates: Arc<dyn ResolvesServerCert>,
    current: RwLock<Arc<ServerConfig>>,
}

#[derive(Debug, Clone)]
struct Sources {
    /// The PEM file with the certificates of the authorities.
    authorities: PathBuf,
    /// The PEM file with the revocation lists of the authorities.
    revoked: Option<PathBuf>,
    demand: ClientCertificates,
}

/// Errors of the files.
#[derive(Debug, Error)]
pub(crate) enum ClientTrustError {
    #[error(transparent)]
    File(#[from] CertificateError),
    #[error("a certificate in {} is not the certificate of an authority", path.display())]
    Authority {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("{} is damaged: it is not PEM throughout", path.display())]
    Damaged { path: PathBuf },
    #[error("{} holds no revocation list in PEM", path.display())]
    NoList { path: PathBuf },
    #[error("the revocation lists in {} cannot be used", path.display())]
    List {
        path: PathBuf,
        source: VerifierBuilderError,
    },
}

impl ClientTrust {
    /// Reads the files. Returns `None` if the settings ask no client for a certificate.
    /// `certificates` are the server's own certificates. Without them there is no TLS, so `None` is
    /// returned as well.
    pub(super) fn load(
        settings: &Settings,
        certificates: Option<&Arc<dyn ResolvesServerCert>>,
    ) -> Result<Option<Self>, ClientTrustError> {
        let (Some(authorities), Some(certificates)) = (&settings.tls_client_ca, certificates)
        else {
            return Ok(None);
        };
        let sources = Sources {
            authorities: authorities.clone(),
            revoked: settings.tls_client_crl.clone(),
            demand: settings.tls_client_certificates,
        };
        let current = RwLock::new(sources.config(certificates)?);
        Ok(Some(Self {
            sources,
            certificates: Arc::clone(certificates),
            current,
        }))
    }

    /// Returns the configuration for the next connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// Returns the files that are read again.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let revoked = self.sources.revoked.as_deref();
        std::iter::once(&*self.sources.authorities).chain(revoked)
    }

    /// Reads the files again. After an error the old ones stay.
    pub(super) fn reload(&self) -> Result<(), ClientTrustError> {
        let fresh = self.sources.config(&self.certificates)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

impl fmt::Debug for ClientTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sources.fmt(f)
    }
}

impl Sources {
    fn config(
        &self,
        certificates: &Arc<dyn ResolvesServerCert>,
    ) -> Result<Arc<ServerConfig>, ClientTrustError> {
        let mut config = server_config(Arc::clone(certificates), self.verifier()?);
        // A resumed connection would keep the certificate of its first handshake without another
        // verification. The certificate would outlive its expiry, its revocation and the trust in
        // its authority.
        resume_nothing(&mut config);
        Ok(Arc::new(config))
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, ClientTrustError> {
        let roots = Arc::new(self.roots()?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
        let builder = match self.demand {
            ClientCertificates::Optional => builder.allow_unauthenticated(),
            ClientCertificates::Required => builder,
        };
        let Some(path) = &self.revoked else {
            return builder.build().map_err(|source| self.unusable(source));
        };
        let builder = builder.with_crls(read_lists(path)?);
        builder.build().map_err(|source| self.unusable(source))
    }

    fn roots(&self) -> Result<RootCertStore, ClientTrustError> {
        let roots = root_store(certificate::read_chain(&self.authorities)?);
        roots.map_err(|source| ClientTrustError::Authority {
            path: self.authorities.clone(),
            source,
        })
    }

    /// Only a revocation list can be unusable here, because there is at least one authority.
    fn unusable(&self, source: VerifierBuilderError) -> ClientTrustError {
        let path = self.revoked.as_ref().unwrap_or(&self.authorities).clone();
        ClientTrustError::List { path, source }
    }
}

fn read_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, ClientTrustError> {
    let text = certificate::read(path)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let path = path.to_owned();
    match lists {
        Ok(lists) if lists.is_empty() => Err(ClientTrustError::NoList { path }),
        Ok(lists) => Ok(lists),
        Err(_) => Err(ClientTrustError::Damaged { path }),
    }
}

impl ClientTrustError {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File(error) => error.hint(),
            Self::NoList { .. } => Some(
                "a list begins with `-----BEGIN X509 CRL-----`; from DER it is made by \
                 `openssl crl -inform der -in FILE`",
            ),
            Self::Authority { .. } | Self::Damaged { .. } | Self::List { .. } => None,
        }
    }
}
