//! TLS of a server by rustls with ring, with a certificate that can change while the server runs.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};

/// The ALPN protocols, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Returns a configuration for TLS 1.2 and 1.3, and for HTTP/2 and HTTP/1.1 by ALPN. `certificates`
/// is asked for the certificate of each handshake. `clients` decides whether clients are asked for
/// a certificate; [`WebPkiClientVerifier::no_client_auth`] asks none.
///
/// [`WebPkiClientVerifier::no_client_auth`]: rustls::server::WebPkiClientVerifier::no_client_auth
pub fn server_config(
    certificates: Arc<dyn ResolvesServerCert>,
    clients: Arc<dyn ClientCertVerifier>,
) -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring knows both versions")
        .with_client_cert_verifier(clients)
        .with_cert_resolver(certificates);
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    config
}

/// Disables TLS session resumption in this configuration: each connection does a full handshake.
pub fn resume_nothing(config: &mut ServerConfig) {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
}

/// Returns the cryptography of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
