//! The server's certificate, read from files and reloaded on SIGHUP.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::{fmt, io};

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use windlass_acme::tls::provider;
use zeroize::Zeroizing;

use super::regular_file;

/// A certificate that can be replaced while the server runs. An open connection keeps its
/// certificate.
pub(super) struct Certificate {
    files: Files,
    current: RwLock<Arc<CertifiedKey>>,
}

/// The PEM files of a certificate and its key. Both may be the same file.
#[derive(Debug, Clone)]
struct Files {
    /// The file with the certificate chain, the server's own first.
    chain: PathBuf,
    key: PathBuf,
}

/// Errors of certificates. No message contains a part of a key.
#[derive(Debug, Error)]
pub(crate) enum CertificateError {
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is damaged: it is not PEM throughout", path.display())]
    Damaged { path: PathBuf },
    #[error("{} holds no certificate in PEM", path.display())]
    NoCertificate { path: PathBuf },
    #[error("{} holds no private key in PEM", path.display())]
    NoKey { path: PathBuf },
    #[error("the certificate in {} cannot be used", path.display())]
    Certificate {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("the key in {} cannot be used", path.display())]
    Key {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("the key in {} does not belong to the certificate in {}", key.display(), chain.display())]
    Mismatch { chain: PathBuf, key: PathBuf },
}

impl Certificate {
    /// Reads a certificate with its chain, and its key.
    pub(super) fn load(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        let files = Files {
            chain: chain.to_owned(),
            key: key.to_owned(),
        };
        let current = RwLock::new(Arc::new(files.read()?));
        Ok(Self { files, current })
    }

    /// Returns the files that are read again.
    pub(super) fn files(&self) -> [&Path; 2] {
        [&self.files.chain, &self.files.key]
    }

    /// Reads it again. After an error the old one stays.
    pub(super) fn reload(&self) -> Result<(), CertificateError> {
        let fresh = Arc::new(self.files.read()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.files.chain.display())
    }
}

impl Files {
    fn read(&self) -> Result<CertifiedKey, CertificateError> {
        let chain = read_chain(&self.chain)?;
        let key = read_key(&self.key)?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| self.unusable(error))
    }

    fn unusable(&self, error: rustls::Error) -> CertificateError {
        match error {
            rustls::Error::InconsistentKeys(_) => CertificateError::Mismatch {
                chain: self.chain.clone(),
                key: self.key.clone(),
            },
            rustls::Error::InvalidCertificate(_) => CertificateError::Certificate {
                path: self.chain.clone(),
                source: error,
            },
            source => CertificateError::Key {
                path: self.key.clone(),
                source,
            },
        }
    }
}

/// Reads the certificates in a PEM file, of which there is at least one.
pub(super) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let text = read(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let path = path.to_owned();
    match chain {
        Ok(chain) if chain.is_empty() => Err(CertificateError::NoCertificate { path }),
        Ok(chain) => Ok(chain),
        Err(_) => Err(CertificateError::Damaged { path }),
    }
}

/// Returns a store of root certificates with these authorities.
pub(super) fn root_store(
    authorities: Vec<CertificateDer<'static>>,
) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority)?;
    }
    Ok(roots)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let text = read(path)?;
    let path = path.to_owned();
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => CertificateError::NoKey { path },
        // The parser's error may quote damaged text, which may be a part of the key.
        _ => CertificateError::Damaged { path },
    })
}

/// Reads a file that may have a key in it.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, CertificateError> {
    regular_file::read(path).map_err(|source| CertificateError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

impl CertificateError {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            // The error itself contains a hint.
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::InvalidInput => None,
            Self::Unreadable { .. } => Some(
                "the file must exist, and the user that the server runs as must be able to read it",
            ),
            Self::NoCertificate { .. } => Some(
                "a certificate begins with `-----BEGIN CERTIFICATE-----`; from DER it is made by \
                 `openssl x509 -inform der -in FILE`",
            ),
            Self::NoKey { .. } => Some(
                "a key begins with `-----BEGIN PRIVATE KEY-----`, or the same with RSA or EC; an \
                 encrypted one is decrypted by `openssl pkey -in FILE`",
            ),
            Self::Key { .. } => {
                Some("RSA of 2048 bits or more, ECDSA and Ed25519 keys can be used")
            }
            Self::Mismatch { .. } => Some(
                "the server's own certificate comes first in its file, before those that vouch for \
                 it",
            ),
            Self::Damaged { .. } | Self::Certificate { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
