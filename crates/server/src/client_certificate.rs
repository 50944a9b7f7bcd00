//! The certificate by which a client has identified itself on its connection.

use std::sync::Arc;

use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use webpki::EndEntityCert;

/// A client's certificate, as an extension of each request on its connection. Cheap to clone.
///
/// The server inserts it where the TLS configuration of the [`Listener`](crate::Listener) asks for
/// certificates and its verifier has accepted one. An application that serves TLS itself inserts
/// its own:
///
/// ```
/// use windlass_server::ClientCertificate;
///
/// let mut request = http::Request::new(());
/// let names = ["camera-7.example.com".to_owned()];
/// request.extensions_mut().insert(ClientCertificate::new(names, [7; 32]));
/// ```
///
/// An [`Authorize`](crate::Authorize) finds it in
/// [`AccessRequest::certificate`](crate::AccessRequest::certificate). It is missing if the request
/// may change something and a page of another origin made a browser send it, unless the policy for
/// [CORS](crate::CorsPolicy) allows that origin to send credentials. Browsers send a certificate
/// wherever they have one, like cookies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate(Arc<Identity>);

#[derive(Debug, PartialEq, Eq)]
struct Identity {
    names: Vec<String>,
    sha256: [u8; 32],
}

impl ClientCertificate {
    /// Returns a certificate with these names, and the SHA-256 of its DER form.
    pub fn new(names: impl IntoIterator<Item = String>, sha256: [u8; 32]) -> Self {
        let names = names.into_iter().collect();
        Self(Arc::new(Identity { names, sha256 }))
    }

    /// Returns the names in the extension `subjectAltName`: the URIs, then the DNS names in lower
    /// case. URIs with characters other than visible ASCII are left out. Names with a wildcard are
    /// left out too, because they do not identify a single client.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Returns the SHA-256 of the certificate in DER.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.0.sha256
    }

    /// Returns the certificate that the client of a connection has proved to own. `None` if the
    /// client has not presented a certificate.
    pub(crate) fn of(connection: &ServerConnection) -> Option<Self> {
        connection.peer_certificates()?.first().map(Self::read)
    }

    fn read(der: &CertificateDer<'_>) -> Self {
        // A verifier has parsed the certificate before. If webpki cannot parse a certificate that
        // the verifier accepts, the certificate gets no names.
        let names = EndEntityCert::try_from(der).map(|certificate| names(&certificate));
        Self::new(names.unwrap_or_default(), Sha256::digest(der).into())
    }
}

fn names(certificate: &EndEntityCert<'_>) -> Vec<String> {
    // With a colon, so that no URI can be taken for a DNS name.
    let is_uri =
        |name: &&str| name.contains(':') && name.bytes().all(|byte| byte.is_ascii_graphic());
    let uris = certificate.valid_uri_names().filter(is_uri);
    let dns = certificate.valid_dns_names();
    let dns = dns.filter(|name| !name.starts_with("*."));
    uris.map(str::to_owned)
        .chain(dns.map(str::to_ascii_lowercase))
        .collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn read(names: &[SanType]) -> ClientCertificate {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        let key = KeyPair::generate().unwrap();
        ClientCertificate::read(params.self_signed(&key).unwrap().der())
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    fn uri(name: &str) -> SanType {
        SanType::URI(name.try_into().unwrap())
    }

    #[test]
    fn names_are_the_uris_then_the_dns_names() {
        let names = [
            dns("Camera-7.example.com"),
            dns("*.example.com"),
            uri("spiffe://example.com/camera/7"),
            uri("alice"),
            uri("urn:a b"),
            SanType::Rfc822Name("alice@example.com".try_into().unwrap()),
            SanType::IpAddress([127, 0, 0, 1].into()),
            uri("urn:Camera"),
        ];
        let expected = [
            "spiffe://example.com/camera/7",
            "urn:Camera",
            "camera-7.example.com",
        ];
        assert_eq!(read(&names).names(), expected);
        assert_eq!(read(&[]).names(), [""; 0]);
    }

    #[test]
    fn unreadable_certificate_has_a_fingerprint_and_no_names() {
        let read = ClientCertificate::read(&CertificateDer::from(b"abc".as_slice()));
        assert_eq!(read.names(), [""; 0]);
        // Of `abc`: FIPS 180-2, appendix B.1.
        assert_eq!(read.sha256()[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
