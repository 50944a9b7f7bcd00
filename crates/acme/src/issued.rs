//! A certificate that an authority has issued, with its key.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use instant_acme::CertificateIdentifier;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use thiserror::Error;
use x509_parser::parse_x509_certificate;

use super::options::Domain;
use super::schedule::Validity;

/// A certificate with its chain and its key, ready for use.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    /// Its `Debug` output contains no private key: the types of rustls do not print it.
    pub(super) key: Arc<CertifiedKey>,
    pub(super) validity: Validity,
}

/// A text that is not a certificate with its key. The message contains nothing of the text.
#[derive(Debug, Error)]
pub(super) enum NotACertificate {
    #[error("it is not PEM with a certificate and a key")]
    Pem,
    #[error("its times cannot be read")]
    Times,
    #[error("it cannot be used")]
    Unusable(#[source] rustls::Error),
}

impl Issued {
    /// Reads a key and a chain, the server's own certificate first.
    pub(super) fn from_pem(pem: &str) -> Result<Self, NotACertificate> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let chain = chain.map_err(|_| NotACertificate::Pem)?;
        let key =
            PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| NotACertificate::Pem)?;
        let own = chain.first().ok_or(NotACertificate::Pem)?;
        let validity = validity(own).ok_or(NotACertificate::Times)?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(NotACertificate::Unusable)?;
        Ok(Self {
            key: Arc::new(key),
            validity,
        })
    }

    /// Whether the certificate covers all of these domains.
    pub(super) fn covers(&self, domains: &[Domain]) -> bool {
        domains.iter().all(|domain| self.covers_one(domain))
    }

    /// Returns the identifier by which the authority's renewal information is requested (RFC 9773).
    /// Returns `None` if the certificate lacks a part of the identifier.
    pub(super) fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let own = self.key.end_entity_cert().ok()?;
        let identifier = CertificateIdentifier::try_from(own).ok()?;
        Some(identifier.into_owned())
    }

    fn covers_one(&self, domain: &Domain) -> bool {
        let parsed = self
            .key
            .end_entity_cert()
            .and_then(ParsedCertificate::try_from);
        let name = ServerName::try_from(domain.as_str());
        match (parsed, name) {
            (Ok(parsed), Ok(name)) => verify_server_name(&parsed, &name).is_ok(),
            _ => false,
        }
    }
}

fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    let time = |seconds| u64::try_from(seconds).ok().map(Duration::from_secs);
    let validity = parsed.validity();
    Some(Validity {
        not_before: SystemTime::UNIX_EPOCH + time(validity.not_before.timestamp())?,
        not_after: SystemTime::UNIX_EPOCH + time(validity.not_after.timestamp())?,
    })
}
