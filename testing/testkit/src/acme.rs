//! An authority by ACME (RFC 8555) without a network: requests and replies are values, and only the
//! challenges `tls-alpn-01` (RFC 8737) reach the server under test, at the address of a test.
//!
//! It issues one certificate after another. Signatures of requests are not verified and nonces are
//! not counted: `conformance/acme` does that with a complete authority.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, Response};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, IsCa,
    KeyPair,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The URL of the directory.
pub const DIRECTORY: &str = "https://ca.example/directory";

/// The token of all challenges.
const TOKEN: &str = "a-token-of-the-authority";

/// Time limit of each read and write.
const PATIENCE: Duration = Duration::from_secs(30);

/// An authority that issues certificates for every name, if the server under test answers the
/// challenges.
#[derive(Debug)]
pub struct AcmeAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    server: SocketAddr,
    issued: AtomicUsize,
    state: Mutex<State>,
}

/// What the client has sent.
#[derive(Debug, Default)]
struct State {
    /// The thumbprint of the account's key (RFC 7638).
    thumbprint: String,
    domains: Vec<String>,
    validated: BTreeSet<String>,
    certificate: Option<String>,
}

impl AcmeAuthority {
    /// An authority that finds every name at this address.
    #[track_caller]
    pub fn new(server: SocketAddr) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate"),
            server,
            issued: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    /// Sends a request by TLS to the server under test, which must have a certificate of the
    /// authority for this name, and returns the bytes until the connection ends.
    pub fn exchange(&self, domain: &str, request: &str) -> io::Result<Vec<u8>> {
        let name = ServerName::try_from(domain.to_owned()).expect("a name");
        let tls = ClientConnection::new(self.client(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, connected(self.server)?);
        stream.write_all(request.as_bytes())?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply)?;
        Ok(reply)
    }

    /// A client that trusts the authority.
    fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }

    /// How many certificates have been issued.
    pub fn issued(&self) -> usize {
        self.issued.load(Ordering::Relaxed)
    }

    /// The reply to a request. Blocks, to validate a domain.
    #[track_caller]
    pub fn reply(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        let sent = Sent::of(request.body());
        let mut state = self.state.lock().expect("no request has panicked");
        match path.split('/').skip(1).collect::<Vec<_>>()[..] {
            ["directory"] => reply(200, &directory()),
            ["nonce"] => reply(200, &json!({})),
            ["account"] => {
                state.thumbprint = thumbprint(&sent.protected["jwk"]);
                located(reply(201, &json!({"status": "valid"})), "account/1")
            }
            ["order"] => {
                let names = sent.payload["identifiers"].as_array().into_iter().flatten();
                let names = names.filter_map(|it| it["value"].as_str().map(str::to_owned));
                *state = State {
                    thumbprint: std::mem::take(&mut state.thumbprint),
                    domains: names.collect(),
                    ..State::default()
                };
                located(reply(201, &state.order()), "order/1")
            }
            ["order", "1"] => reply(200, &state.order()),
            ["authorization", domain] => reply(200, &state.authorization(domain)),
            ["challenge", domain] => {
                if self.validates(domain, &state.thumbprint) {
                    state.validated.insert(domain.to_owned());
                }
                reply(200, &state.challenge(domain))
            }
            ["finalize"] => {
                state.certificate = Some(self.issue(&sent.payload));
                reply(200, &state.order())
            }
            ["certificate"] => {
                let pem = state.certificate.clone().expect("it is finalized");
                Response::new(pem.into())
            }
            _ => reply(
                404,
                &json!({"type": "urn:ietf:params:acme:error:malformed"}),
            ),
        }
    }

    /// Whether the server under test answers the challenge for a name (RFC 8737, section 3).
    fn validates(&self, domain: &str, thumbprint: &str) -> bool {
        let digest = Sha256::digest(format!("{TOKEN}.{thumbprint}"));
        // The extension's value is an octet string with the digest.
        let value = [&[0x04, 0x20], &digest[..]].concat();
        presented(self.server, domain).is_ok_and(|certificate| {
            let mut values = certificate.windows(value.len());
            values.any(|found| found == value)
        })
    }

    /// The certificate of a request, with its chain.
    #[track_caller]
    fn issue(&self, payload: &Value) -> String {
        let request = decoded(&payload["csr"]);
        let request = CertificateSigningRequestParams::from_der(&request.into());
        let certificate = request.expect("a request").signed_by(&self.issuer);
        self.issued.fetch_add(1, Ordering::Relaxed);
        certificate.expect("a certificate").pem() + &self.issuer.pem()
    }
}

impl State {
    fn order(&self) -> Value {
        let is_validated = |domain| self.validated.contains(domain);
        let status = match &self.certificate {
            Some(_) => "valid",
            None if self.domains.iter().all(is_validated) => "ready",
            None => "pending",
        };
        let domains = self.domains.iter();
        let authorizations = domains.map(|domain| url(&format!("authorization/{domain}")));
        json!({
            "status": status,
            "authorizations": authorizations.collect::<Vec<_>>(),
            "finalize": url("finalize"),
            "certificate": self.certificate.as_ref().map(|_| url("certificate")),
        })
    }

    fn authorization(&self, domain: &str) -> Value {
        json!({
            "status": self.status(domain),
            "identifier": {"type": "dns", "value": domain},
            "challenges": [self.challenge(domain)],
        })
    }

    fn challenge(&self, domain: &str) -> Value {
        json!({
            "type": "tls-alpn-01",
            "url": url(&format!("challenge/{domain}")),
            "token": TOKEN,
            "status": self.status(domain),
        })
    }

    fn status(&self, domain: &str) -> &'static str {
        if self.validated.contains(domain) {
            "valid"
        } else {
            "pending"
        }
    }
}

/// The body of a request, a JWS (RFC 8555, section 6.2).
struct Sent {
    protected: Value,
    payload: Value,
}

impl Sent {
    fn of(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let json = |member: &Value| serde_json::from_slice(&decoded(member)).unwrap_or_default();
        Self {
            protected: json(&body["protected"]),
            payload: json(&body["payload"]),
        }
    }
}

fn decoded(member: &Value) -> Vec<u8> {
    let text = member.as_str().unwrap_or_default();
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(text);
    decoded.expect("it is base64url")
}

/// The thumbprint of an elliptic curve's key (RFC 7638, section 3).
fn thumbprint(key: &Value) -> String {
    let [crv, kty, x, y] = ["crv", "kty", "x", "y"].map(|name| &key[name]);
    let canonical = format!(r#"{{"crv":{crv},"kty":{kty},"x":{x},"y":{y}}}"#);
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(canonical))
}

fn directory() -> Value {
    json!({
        "newNonce": url("nonce"),
        "newAccount": url("account"),
        "newOrder": url("order"),
    })
}

fn url(path: &str) -> String {
    format!("https://ca.example/{path}")
}

fn reply(status: u16, body: &Value) -> Response<Bytes> {
    let reply = Response::builder()
        .status(status)
        .header("replay-nonce", "a-nonce");
    reply.body(body.to_string().into()).expect("a reply")
}

fn located(mut reply: Response<Bytes>, path: &str) -> Response<Bytes> {
    let location = url(path).parse().expect("a URL is a value");
    reply.headers_mut().insert(LOCATION, location);
    reply
}

fn connected(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The certificate that a server presents to a validation.
fn presented(server: SocketAddr, domain: &str) -> io::Result<CertificateDer<'static>> {
    const PROTOCOL: &[u8] = b"acme-tls/1";
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Anything(provider.signature_verification_algorithms));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring knows both versions")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let name = ServerName::try_from(domain.to_owned()).expect("a name");
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = connected(server)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut stream)?;
    }
    let chain = tls.peer_certificates().unwrap_or_default();
    match (chain, tls.alpn_protocol()) {
        ([certificate], Some(PROTOCOL)) => Ok(certificate.clone().into_owned()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Accepts every certificate and every signature: the certificate of a challenge is signed by
/// itself, and only its digest counts.
#[derive(Debug)]
struct Anything(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // rustls reads the certificate to verify a signature, and does not know its critical extension.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
