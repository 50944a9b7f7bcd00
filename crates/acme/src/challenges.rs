//! Answers to challenges of the kind `tls-alpn-01` (RFC 8737).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use super::tls::{resume_nothing, server_config};

/// The ALPN protocol of challenges.
const PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates that answer the challenges of the running order, by domain.
#[derive(Default)]
pub(super) struct Challenges(RwLock<HashMap<String, Arc<CertifiedKey>>>);

/// Answers the challenges of an order as long as it is not dropped.
pub(super) struct Answering<'a>(&'a Challenges);

impl Challenges {
    /// Returns a configuration for the connections of the authority.
    pub(super) fn config(self: &Arc<Self>) -> Arc<ServerConfig> {
        let nobody = WebPkiClientVerifier::no_client_auth();
        let mut config = server_config(Arc::clone(self) as Arc<_>, nobody);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // The authority does not resume a session.
        resume_nothing(&mut config);
        Arc::new(config)
    }

    /// Begins to answer the challenges of an order.
    pub(super) fn begin(&self) -> Answering<'_> {
        Answering(self)
    }

    fn certificate_for(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let answers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(&name.to_ascii_lowercase()).cloned()
    }
}

impl Answering<'_> {
    /// Answers the challenge of a domain. `digest` is the SHA-256 of the key authorization.
    pub(super) fn answer(&self, domain: &str, digest: &[u8]) -> Result<(), rcgen::Error> {
        let key = Arc::new(certificate(domain, digest)?);
        let mut answers = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        answers.insert(domain.to_ascii_lowercase(), key);
        Ok(())
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let mut answers = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        answers.clear();
    }
}

/// Returns a certificate for the domain with the digest in its critical extension, signed by
/// itself.
fn certificate(domain: &str, digest: &[u8]) -> Result<CertifiedKey, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([domain.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = ring::sign::any_supported_type(&key).expect("ring signs with the keys that it makes");
    // Not `from_der`, which looks into the certificate: rustls does not know its extension.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

impl ResolvesServerCert for Challenges {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate_for(hello.server_name()?)
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Challenges")
    }
}
