//! A certificate authority for a test, a server's certificate, and clients that trust the authority
//! and may have certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa,
    KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// An authority, and a server's certificate for 127.0.0.1 from it, in files that are removed when
/// this is dropped.
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A client's certificate and its key.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
    serial: SerialNumber,
    file: PathBuf,
}

impl Authority {
    /// An authority with files in a new directory below this one.
    #[track_caller]
    pub fn new(scratch: &Path) -> Self {
        fs::create_dir_all(scratch).expect("the scratch directory can be made");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = Self {
            directory: TempDir::with_prefix_in("authority-", scratch)
                .expect("the scratch directory is writable"),
            issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate"),
        };
        fs::write(authority.root(), authority.issuer.pem()).expect("it is writable");
        authority.renew();
        authority
    }

    /// The authority's own certificate, in PEM.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }

    /// The server's certificate, in PEM.
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }

    /// The key of the server's certificate, in PEM.
    pub fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    /// The flags by which a server gets its certificate.
    pub fn flags(&self) -> [String; 4] {
        let path = |path: PathBuf| path.display().to_string();
        let [cert, key] = ["--tls-cert", "--tls-key"].map(str::to_owned);
        [cert, path(self.certificate()), key, path(self.key())]
    }

    /// Replaces the server's certificate and its key by others.
    #[track_caller]
    pub fn renew(&self) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        let certificate = params.signed_by(&key, &self.issuer);
        let certificate = certificate.expect("a certificate").pem();
        fs::write(self.certificate(), certificate).expect("it is writable");
        fs::write(self.key(), key.serialize_pem()).expect("it is writable");
    }

    /// A client's certificate with this name. The name is a URI if it has a colon, otherwise a DNS
    /// name.
    #[track_caller]
    pub fn identity(&self, name: &str) -> Identity {
        self.issue(name, CertificateParams::default())
    }

    /// A client's certificate that expired long ago.
    #[track_caller]
    pub fn expired_identity(&self, name: &str) -> Identity {
        let mut params = CertificateParams::default();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.issue(name, params)
    }

    #[track_caller]
    fn issue(&self, name: &str, mut params: CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let san = name.to_owned().try_into().expect("ASCII");
        params.subject_alt_names = vec![if name.contains(':') {
            SanType::URI(san)
        } else {
            SanType::DnsName(san)
        }];
        let hash = Sha256::digest(key.public_key_raw());
        // A serial number is a positive integer.
        let serial = SerialNumber::from([&[1], &hash[..8]].concat());
        params.serial_number = Some(serial.clone());
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = format!("client-{}.pem", hexadecimal(&hash[..8]));
        let file = self.directory.path().join(file);
        fs::write(&file, certificate.pem() + &key.serialize_pem()).expect("it is writable");
        Identity {
            certificate: certificate.der().clone(),
            key,
            serial,
            file,
        }
    }

    /// Writes the list of all certificates that are revoked, and returns its file.
    #[track_caller]
    pub fn revoke(&self, identities: &[&Identity]) -> PathBuf {
        let revoked = identities.iter().map(|identity| RevokedCertParams {
            serial_number: identity.serial.clone(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list");
        let file = self.directory.path().join("revoked.pem");
        fs::write(&file, list.pem().expect("PEM")).expect("it is writable");
        file
    }

    /// A client that trusts the authority and speaks these protocols (ALPN).
    #[track_caller]
    pub fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        Arc::new(self.configuration(protocols))
    }

    /// A client with a certificate, which may be another authority's.
    #[track_caller]
    pub fn client_with(&self, protocols: &[&str], identity: &Identity) -> Arc<ClientConfig> {
        let mut config = self.configuration(protocols);
        let key = PrivateKeyDer::try_from(identity.key.serialize_der()).expect("PKCS#8");
        let chain = vec![identity.certificate.clone()];
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let resolver = SingleCertAndKey::from(certified.expect("a pair"));
        config.client_auth_cert_resolver = Arc::new(resolver);
        Arc::new(config)
    }

    fn configuration(&self, protocols: &[&str]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a certificate");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
        config.alpn_protocols = protocols.collect();
        config
    }
}

impl Identity {
    /// The certificate and its key, in PEM.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The SHA-256 of the certificate, as hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        hexadecimal(&Sha256::digest(&self.certificate))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
    bytes.iter().flat_map(digits).flatten().collect()
}
