//! Whom a client trusts, and by which cryptography. Nothing here touches the process-wide default
//! of rustls, which belongs to the program.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::ring;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Trusts what the system trusts; on Linux, `SSL_CERT_FILE` and `SSL_CERT_DIR` say what that is.
///
/// A system without roots, as a small container is, can still be used with plain HTTP.
pub(super) fn system() -> ClientConfig {
    match builder().with_platform_verifier() {
        Ok(builder) => configure(builder),
        Err(error) => {
            tracing::warn!(%error, "no server will be trusted: the system has no root certificates");
            trusting(RootCertStore::empty())
        }
    }
}

/// Trusts these roots alone.
pub(super) fn trusting(roots: RootCertStore) -> ClientConfig {
    configure(builder().with_root_certificates(roots))
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring offers the cipher suites of TLS 1.2 and 1.3")
}

fn configure(builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig {
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
