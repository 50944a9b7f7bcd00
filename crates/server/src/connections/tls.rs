//! TLS handshakes of clients, and of certificate authorities that validate names.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, LazyConfigAcceptor, TlsAcceptor};

/// The ALPN protocol of challenges (RFC 8737, section 6.2).
const CHALLENGE: &[u8] = b"acme-tls/1";

/// Performs handshakes.
#[derive(Clone)]
pub(super) struct Tls {
    /// Returns the configuration of the next connection.
    config: Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>,
    /// The configuration for connections that are challenges. It is separate, because a certificate
    /// authority has no client certificate, even where other clients need one.
    challenges: Option<Arc<ServerConfig>>,
}

/// The error of a failed handshake, and the connection unless it is broken.
type Failed<T> = (io::Error, Option<T>);

impl Tls {
    pub(super) fn new(config: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static) -> Self {
        Self {
            config: Arc::new(config),
            challenges: None,
        }
    }

    pub(super) fn with_challenges(self, config: Arc<ServerConfig>) -> Self {
        Self {
            challenges: Some(config),
            ..self
        }
    }

    /// Performs the handshake. Returns the stream inside TLS, or `None` after a challenge.
    pub(super) async fn accept<T>(self, stream: T) -> Result<Option<TlsStream<T>>, Failed<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let config = (self.config)();
        let Some(challenges) = self.challenges else {
            return finish(TlsAcceptor::from(config).accept(stream))
                .await
                .map(Some);
        };
        let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
        let start = match (&mut acceptor).await {
            Ok(start) => start,
            Err(error) => return Err((error, acceptor.take_io())),
        };
        if is_challenge(&start.client_hello()) {
            let mut answered = finish(start.into_stream(challenges)).await?;
            let ended = answered.shutdown().await;
            return ended.map(|()| None).map_err(|error| (error, None));
        }
        finish(start.into_stream(config)).await.map(Some)
    }
}

/// Completes a handshake.
async fn finish<T>(handshake: Accept<T>) -> Result<TlsStream<T>, Failed<T>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let accepted = handshake.into_fallible().await;
    accepted.map_err(|(error, stream)| (error, Some(stream)))
}

/// Whether a client's hello is a challenge. A validation offers only this protocol (RFC 8737,
/// section 3). A client that offers other protocols as well wants to use one of them.
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello
        .alpn()
        .is_some_and(|mut offered| offered.next() == Some(CHALLENGE) && offered.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::server::WebPkiClientVerifier;
    use rustls::server::danger::ClientCertVerifier;
    use rustls::{ClientConfig, RootCertStore};
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt as _, DuplexStream};
    use tokio_rustls::{TlsConnector, client};
    use windlass_testkit::tls::Authority;

    use super::*;

    /// Two authorities: by the certificate that a client trusts it is known which one it got.
    struct Bench {
        tls: Tls,
        clients: Authority,
        challenges: Authority,
        _scratch: TempDir,
    }

    fn config(authority: &Authority, protocols: &[&[u8]], demands: bool) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let certificate = CertificateDer::from_pem_file(authority.certificate()).unwrap();
        let key = PrivateKeyDer::from_pem_file(authority.key()).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if demands {
            builder.with_client_cert_verifier(demanding(&authority.root(), provider))
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        Arc::new(config)
    }

    /// Demands certificates of clients.
    fn demanding(
        root: &Path,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(root).unwrap())
            .unwrap();
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap()
    }

    fn bench(demands: bool) -> Bench {
        let scratch = tempfile::tempdir().unwrap();
        let clients = Authority::new(scratch.path());
        let challenges = Authority::new(scratch.path());
        let http: [&[u8]; 2] = [b"h2", b"http/1.1"];
        let main = config(&clients, &http, demands);
        let tls = Tls::new(move || Arc::clone(&main));
        Bench {
            tls: tls.with_challenges(config(&challenges, &[CHALLENGE], false)),
            clients,
            challenges,
            _scratch: scratch,
        }
    }

    type Client = io::Result<client::TlsStream<DuplexStream>>;
    type Server = Result<Option<TlsStream<DuplexStream>>, Failed<DuplexStream>>;

    /// Both ends of a connection after the handshake.
    async fn connect(tls: &Tls, client: Arc<ClientConfig>) -> (Client, Server) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connecting = TlsConnector::from(client).connect(name, near);
        tokio::join!(connecting, tls.clone().accept(far))
    }

    #[tokio::test]
    async fn challenge_gets_its_certificate_and_the_connection_ends() {
        let bench = bench(false);
        let client = bench.challenges.client(&["acme-tls/1"]);
        let (near, far) = connect(&bench.tls, client).await;
        assert!(far.unwrap().is_none());
        let mut near = near.unwrap();
        assert_eq!(near.get_ref().1.alpn_protocol(), Some(CHALLENGE));
        near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.ok();
        let mut reply = Vec::new();
        near.read_to_end(&mut reply).await.unwrap();
        assert!(reply.is_empty(), "{reply:?}");
    }

    #[tokio::test]
    async fn clients_of_http_are_no_challenge() {
        let bench = bench(false);
        for (offered, chosen) in [
            (&["http/1.1"][..], Some(&b"http/1.1"[..])),
            (&["acme-tls/1", "h2"], Some(b"h2")),
            (&[], None),
        ] {
            let (near, far) = connect(&bench.tls, bench.clients.client(offered)).await;
            assert!(far.unwrap().is_some(), "{offered:?}");
            assert_eq!(
                near.unwrap().get_ref().1.alpn_protocol(),
                chosen,
                "{offered:?}"
            );
        }
    }

    #[tokio::test]
    async fn challenge_needs_no_client_certificate_where_clients_need_one() {
        let bench = bench(true);
        let (_, far) = connect(&bench.tls, bench.clients.client(&["http/1.1"])).await;
        far.expect_err("the client has no certificate");
        let client = bench.challenges.client(&["acme-tls/1"]);
        let (near, far) = connect(&bench.tls, client).await;
        assert!(near.is_ok() && far.unwrap().is_none());
    }

    #[tokio::test]
    async fn without_challenges_their_protocol_is_unknown() {
        let bench = bench(false);
        let tls = Tls {
            challenges: None,
            ..bench.tls
        };
        let (near, far) = connect(&tls, bench.clients.client(&["acme-tls/1"])).await;
        assert!(near.is_err() && far.is_err());
    }
}
