//! TLS servers, over HTTP/1.1 and HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::identity::ClientIdentity;

/// A server with a certificate for 127.0.0.1 from its own authority.
pub(super) struct TlsServer {
    pub(super) issuer: CertifiedIssuer<'static, KeyPair>,
    acceptor: TlsAcceptor,
    listener: TcpListener,
    pub(super) url: Url,
}

impl TlsServer {
    pub(super) async fn with_alpn(alpn: &str) -> Self {
        Self::asking(alpn, |_| WebPkiClientVerifier::no_client_auth()).await
    }

    /// A server that asks clients for certificates; `clients` gets the certificate of the
    /// authority.
    async fn asking(
        alpn: &str,
        clients: impl FnOnce(&CertificateDer<'static>) -> Arc<dyn ClientCertVerifier>,
    ) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();

        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients(issuer.der()))
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];

        let (listener, url) = listen().await;
        let url = url.as_str().replace("http://", "https://");
        Self {
            issuer,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            listener,
            url: url.parse().unwrap(),
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }

    /// A certificate of the authority for a client.
    fn identity(&self) -> ClientIdentity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["camera-7".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = key.serialize_pem();
        ClientIdentity::from_pem(certificate.pem().as_bytes(), key.as_bytes()).unwrap()
    }

    pub(super) async fn accept(&self) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(accept(&self.listener).await).await
    }
}

#[tokio::test]
async fn http_1_is_used_where_the_server_offers_it() {
    let server = TlsServer::with_alpn("http/1.1").await;
    let length = (1 << 20) + 7;
    let peer = async {
        let mut stream = server.accept().await.unwrap();
        assert!(read_head(&mut stream).await.ends_with("\r\n\r\n"));
        let mut received = vec![0; length];
        stream.read_exact(&mut received).await.unwrap();
        write(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    };
    let transport = HttpTransport::trusting(long_timeouts(), server.roots(), None);
    let reply = send_and(&transport, put(&server.url, media(length as u64)), peer).await;
    assert_eq!(reply.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn reply_that_is_no_http_is_told_from_a_broken_connection() {
    // A TLS alert, and the first line of an SSH server.
    for reply in [
        &b"\x15\x03\x03\0\x02\x02\x32"[..],
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        let (listener, url) = listen().await;
        let peer = async {
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await;
            write(&mut stream, reply).await;
            stream
        };
        let error = send_and(&transport(long_timeouts()), put(&url, Body::Empty), peer).await;
        let error = error.unwrap_err();
        assert!(matches!(error, TransportError::NotHttp { .. }), "{error:?}");
    }
}

async fn reply_with_the_length(
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.version(), http::Version::HTTP_2);
    let declared = request.headers()["content-length"].clone();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(declared, body.len().to_string());
    Ok(http::Response::new(Full::from(body.len().to_string())))
}

#[tokio::test]
async fn http_2_is_used_where_the_server_offers_it() {
    let server = TlsServer::with_alpn("h2").await;
    let peer = async {
        let stream = TokioIo::new(server.accept().await.unwrap());
        http2::Builder::new(TokioExecutor::new())
            .serve_connection(stream, service_fn(reply_with_the_length))
            .await
    };
    let transport = HttpTransport::trusting(long_timeouts(), server.roots(), None);
    let exchanges = async {
        for length in [0, 5, (3 << 20) + 7] {
            let reply = transport.send(put(&server.url, media(length))).await;
            assert_eq!(reply.unwrap().body, length.to_string());
        }
    };
    tokio::select! {
        end = peer => panic!("more than one connection was made: {end:?}"),
        () = exchanges => {}
    }
}

#[tokio::test]
async fn silent_http_2_connection_is_not_reused() {
    let server = TlsServer::with_alpn("h2").await;
    let connections = AtomicUsize::new(0);
    let peer = async {
        loop {
            let stream = TokioIo::new(server.accept().await.unwrap());
            let is_silent = connections.fetch_add(1, Ordering::Relaxed) == 0;
            let service = service_fn(move |request| async move {
                if is_silent {
                    // The body is never read, so its window does not open again.
                    std::future::pending::<()>().await;
                }
                reply_with_the_length(request).await
            });
            let connection =
                http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service);
            tokio::spawn(connection);
        }
    };
    let timeouts = Timeouts {
        idle: SHORT,
        ..long_timeouts()
    };
    let transport = HttpTransport::trusting(timeouts, server.roots(), None);
    let exchanges = async {
        let error = transport.send(put(&server.url, media(1 << 30))).await;
        let error = error.unwrap_err();
        assert!(matches!(error, TransportError::Silent { .. }), "{error:?}");
        let reply = transport.send(put(&server.url, media(5))).await;
        assert_eq!(reply.unwrap().body, "5");
    };
    tokio::select! {
        () = peer => {}
        () = exchanges => {}
    }
    assert_eq!(connections.into_inner(), 2);
}

#[tokio::test]
async fn server_with_an_unknown_authority_gets_no_request() {
    let server = TlsServer::with_alpn("http/1.1").await;
    let peer = async {
        assert!(server.accept().await.is_err());
    };
    let error = send_and(
        &transport(long_timeouts()),
        put(&server.url, media(5)),
        peer,
    )
    .await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, TransportError::Untrusted { .. }),
        "{error:?}"
    );
    let shown = shown(&error);
    assert!(
        shown.contains("an authority that is not known here"),
        "{shown}"
    );
    assert!(!shown.contains("UnknownIssuer"), "{shown}");
}

/// Returns a verifier that demands certificates of this authority, or asks for them.
fn verifier(authority: &CertificateDer<'static>, is_demanded: bool) -> Arc<dyn ClientCertVerifier> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if is_demanded {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    builder.build().unwrap()
}

#[tokio::test]
async fn certificate_is_presented_where_credentials_may_go_and_nowhere_else() {
    let server = TlsServer::asking("http/1.1", |authority| verifier(authority, false)).await;
    let identity = server.identity();
    let transport = HttpTransport::trusting(long_timeouts(), server.roots(), Some(&identity));
    for may_receive_credentials in [true, false, true] {
        let peer = async {
            let mut stream = server.accept().await.unwrap();
            read_head(&mut stream).await;
            let presented = stream.get_ref().1.peer_certificates().is_some();
            assert_eq!(presented, may_receive_credentials);
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            )
            .await;
        };
        let request = Request {
            may_receive_credentials,
            ..put(&server.url, Body::Empty)
        };
        let reply = send_and(&transport, request, peer).await;
        assert_eq!(reply.unwrap().status, StatusCode::OK);
    }
}

#[tokio::test]
async fn demand_of_a_certificate_is_an_error_that_no_retry_helps() {
    for alpn in ["http/1.1", "h2"] {
        let server = TlsServer::asking(alpn, |authority| verifier(authority, true)).await;
        let transport = HttpTransport::trusting(long_timeouts(), server.roots(), None);
        let peer = async {
            let accept = server.acceptor.accept(accept(&server.listener).await);
            let (_, mut stream) = accept.into_fallible().await.unwrap_err();
            // A reset could discard the alert.
            tokio::io::copy(&mut stream, &mut tokio::io::sink())
                .await
                .ok();
        };
        let error = send_and(&transport, put(&server.url, media(5)), peer).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, TransportError::CertificateRefused { .. }),
            "{alpn}: {error:?}"
        );
    }
}
