//! A certificate authority of a test's own, a server's certificate, and clients that trust it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

/// An authority, and a server's certificate for 127.0.0.1 from it, in files that are removed when this
/// is dropped.
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// An authority with files in a directory of its own, somewhere in this one.
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

    /// A client that trusts the authority and speaks these protocols (ALPN).
    #[track_caller]
    pub fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a certificate");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
        config.alpn_protocols = protocols.collect();
        Arc::new(config)
    }
}
