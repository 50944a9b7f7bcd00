//! A certificate by which the client identifies itself to servers that ask for one (mutual TLS).

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

/// A certificate and its private key. Cheap to clone. `Debug` shows neither.
///
/// It is presented to servers that ask for one in the TLS handshake, under the same condition as a
/// token: only to the origin (scheme, host and port) that the user named.
#[derive(Clone)]
pub struct ClientIdentity(Arc<CertifiedKey>);

/// Why a certificate and a key are no [`ClientIdentity`]. No message contains a part of the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIdentity {
    /// There is no certificate.
    #[error("there is no certificate in PEM")]
    NoCertificate,
    /// There is no private key, or it is encrypted.
    #[error("there is no unencrypted private key in PEM")]
    NoKey,
    /// The text is not PEM throughout.
    #[error("the certificate or its key is damaged: it is not PEM throughout")]
    Damaged,
    /// The certificate or the key cannot be used, or they do not belong together.
    #[error("the certificate cannot be used with this key")]
    Unusable(#[source] rustls::Error),
}

impl ClientIdentity {
    /// Reads a certificate chain, the client's own certificate first, and its key (PKCS#8, PKCS#1
    /// or SEC1), both in PEM. The same text may hold both.
    ///
    /// # Errors
    ///
    /// [`InvalidIdentity`].
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, InvalidIdentity> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|_| InvalidIdentity::Damaged)?;
        if chain.is_empty() {
            return Err(InvalidIdentity::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => InvalidIdentity::NoKey,
            // The error may quote damaged text, which may be a part of the key.
            _ => InvalidIdentity::Damaged,
        })?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let certified = certified.map_err(InvalidIdentity::Unusable)?;
        Ok(Self(Arc::new(certified)))
    }

    /// Returns a resolver that always presents the certificate. The transport uses it for permitted
    /// origins alone.
    pub(crate) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(Arc::clone(&self.0)))
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentity")
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["camera-7".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn certificate_and_key_are_read_from_one_text_or_two() {
        let (certificate, key) = pair();
        let both = format!("{key}{certificate}");
        for (chain, key) in [(&certificate, &key), (&both, &both)] {
            ClientIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_told_without_the_key() {
        let (certificate, key) = pair();
        let (_, other) = pair();
        let cut = &key[..key.len() - 30];
        for (chain, secret, said) in [
            ("", key.as_str(), "no certificate"),
            (&certificate, "", "no unencrypted private key"),
            (&certificate, cut, "damaged"),
            (&certificate, &other, "cannot be used with this key"),
        ] {
            let error = ClientIdentity::from_pem(chain.as_bytes(), secret.as_bytes());
            let error = error.unwrap_err();
            assert!(error.to_string().contains(said), "{said}: {error}");
            let line = secret.lines().nth(1).unwrap_or("none");
            let all = format!("{error}{error:?}{:?}", error.source());
            assert!(!all.contains(line), "{all}");
        }
    }
}
