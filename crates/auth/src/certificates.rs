//! Principals of client certificates, which the TLS handshake has verified.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use windlass_server::{ClientCertificate, Principal};

use crate::secrets::hexadecimal;

/// The principals of client certificates, by name or by fingerprint.
///
/// The TLS configuration of the server's listener has already decided whether a certificate is
/// valid.
#[derive(Debug, Clone, Default)]
pub struct CertificateTable {
    by_fingerprint: HashMap<Fingerprint, Principal>,
    by_name: HashMap<CertificateName, Principal>,
    /// Whether a certificate without an entry is a principal by its first name.
    names_are_principals: bool,
}

/// The SHA-256 of a certificate in DER, written as 64 hexadecimal digits, with or without colons
/// between the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Fingerprint([u8; 32]);

/// A name in a certificate: a URI, or a DNS name, which has no case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct CertificateName(String);

/// A text that is not a [`Fingerprint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fingerprint has 64 hexadecimal digits, as \
     `openssl x509 -in CERTIFICATE -noout -fingerprint -sha256` prints them after the ="
)]
pub struct UnreadableFingerprint;

/// A text that is not a [`CertificateName`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a certificate is a URI or a DNS name of its subjectAltName, without a wildcard"
)]
pub struct NotACertificateName;

impl FromStr for Fingerprint {
    type Err = UnreadableFingerprint;

    fn from_str(text: &str) -> Result<Self, UnreadableFingerprint> {
        let bytes = hexadecimal(&text.replace(':', "")).ok_or(UnreadableFingerprint)?;
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| UnreadableFingerprint)
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = UnreadableFingerprint;

    fn try_from(text: String) -> Result<Self, UnreadableFingerprint> {
        text.parse()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for CertificateName {
    type Err = NotACertificateName;

    /// Reads a name in the form that [`ClientCertificate::names`] has.
    fn from_str(text: &str) -> Result<Self, NotACertificateName> {
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || !is_visible || text.contains('*') {
            return Err(NotACertificateName);
        }
        let is_uri = text.contains(':');
        Ok(Self(if is_uri {
            text.to_owned()
        } else {
            text.to_ascii_lowercase()
        }))
    }
}

impl TryFrom<String> for CertificateName {
    type Error = NotACertificateName;

    fn try_from(text: String) -> Result<Self, NotACertificateName> {
        text.parse()
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CertificateTable {
    /// Sets whether a certificate without an entry stands for a principal with the certificate's
    /// first name as id. Default: such a certificate has no principal.
    #[must_use]
    pub fn with_names_as_principals(self, names_are_principals: bool) -> Self {
        Self {
            names_are_principals,
            ..self
        }
    }

    /// Adds the principal of the certificate with this fingerprint. Returns the replaced principal.
    pub fn insert_fingerprint(
        &mut self,
        fingerprint: Fingerprint,
        principal: Principal,
    ) -> Option<Principal> {
        self.by_fingerprint.insert(fingerprint, principal)
    }

    /// Adds the principal of all certificates with this name. Returns the replaced principal.
    pub fn insert_name(
        &mut self,
        name: CertificateName,
        principal: Principal,
    ) -> Option<Principal> {
        self.by_name.insert(name, principal)
    }

    /// Returns the principal of a certificate. The entry of the fingerprint wins, then the entry of
    /// the first name that has one. Without an entry, the first name itself is the principal if
    /// names are principals.
    pub fn find(&self, certificate: &ClientCertificate) -> Option<Principal> {
        let fingerprint = Fingerprint(*certificate.sha256());
        if let Some(principal) = self.by_fingerprint.get(&fingerprint) {
            return Some(principal.clone());
        }
        let names = certificate.names();
        let mut parsed = names.iter().filter_map(|name| name.parse().ok());
        let listed = parsed.find_map(|name| self.by_name.get::<CertificateName>(&name).cloned());
        let first = || names.first().filter(|_| self.names_are_principals);
        let found = listed.or_else(|| first().map(Principal::new));
        if found.is_none() {
            tracing::debug!(sha256 = %fingerprint, "a client certificate is that of no principal");
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "spiffe://example.com/Camera/7";

    fn certificate(names: &[&str], byte: u8) -> ClientCertificate {
        ClientCertificate::new(names.iter().map(ToString::to_string), [byte; 32])
    }

    fn table() -> CertificateTable {
        let mut table = CertificateTable::default();
        table.insert_name(URI.parse().unwrap(), Principal::new("by-uri"));
        let dns = "Camera-7.example.com".parse().unwrap();
        table.insert_name(dns, Principal::new("by-dns"));
        let seven = "07".repeat(32).parse().unwrap();
        table.insert_fingerprint(seven, Principal::new("by-fingerprint"));
        table
    }

    #[track_caller]
    fn check(table: &CertificateTable, certificate: &ClientCertificate, id: Option<&str>) {
        let found = table.find(certificate);
        assert_eq!(found.as_ref().map(Principal::id), id, "{certificate:?}");
    }

    #[test]
    fn principal_is_that_of_the_fingerprint_then_of_the_first_known_name() {
        let table = table();
        let dns = "camera-7.example.com";
        check(&table, &certificate(&[URI, dns], 7), Some("by-fingerprint"));
        check(&table, &certificate(&[URI, dns], 8), Some("by-uri"));
        check(&table, &certificate(&["urn:x", dns], 8), Some("by-dns"));
        for other in [
            "spiffe://example.com/camera/7",
            "example.com",
            "x.camera-7.example.com",
        ] {
            check(&table, &certificate(&[other], 8), None);
        }
        check(&table, &certificate(&[], 8), None);
    }

    #[test]
    fn names_are_principals_only_where_that_is_set() {
        let table = table().with_names_as_principals(true);
        check(
            &table,
            &certificate(&["urn:x", "a.example"], 8),
            Some("urn:x"),
        );
        check(&table, &certificate(&["a.example"], 8), Some("a.example"));
        check(&table, &certificate(&["urn:x", URI], 8), Some("by-uri"));
        check(&table, &certificate(&[], 8), None);
    }

    #[test]
    fn fingerprint_has_64_hexadecimal_digits_with_or_without_colons() {
        let plain: Fingerprint = "aB".repeat(32).parse().unwrap();
        let with_colons = vec!["AB"; 32].join(":");
        assert_eq!(with_colons.parse(), Ok(plain));
        assert_eq!(plain.to_string(), "ab".repeat(32));
        for wrong in ["", "ab", "sha256 Fingerprint=AB", &"ab".repeat(33)] {
            let read = wrong.parse::<Fingerprint>();
            assert_eq!(read, Err(UnreadableFingerprint), "{wrong}");
        }
    }

    #[test]
    fn name_that_no_certificate_can_match_is_refused() {
        for wrong in ["", "*.example.com", "CN=a b", "na\u{ef}ve.example"] {
            let read = wrong.parse::<CertificateName>();
            assert_eq!(read, Err(NotACertificateName), "{wrong}");
        }
    }
}
