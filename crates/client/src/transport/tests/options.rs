//! The options of an application: header fields, a user agent, root certificates, an HTTP client.

use super::tls::TlsServer;
use super::*;
use crate::transport::http_transport::tls_with_roots;

const REPLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Sends a request over a transport with these options, and returns its head.
async fn head_of(options: HttpTransportOptions, may_receive_credentials: bool) -> String {
    let (listener, url) = listen().await;
    let transport = HttpTransport::new(long_timeouts(), options).unwrap();
    let mut request = Request {
        may_receive_credentials,
        ..put(&url, Body::Empty)
    };
    let taken = HeaderValue::from_static("of the request");
    request.headers.insert("x-taken", taken);
    let exchange = async {
        let peer = async {
            let mut stream = accept(&listener).await;
            let head = read_head(&mut stream).await;
            write(&mut stream, REPLY).await;
            (head, stream)
        };
        let (reply, (head, _stream)) = tokio::join!(transport.send(request), peer);
        assert_eq!(reply.unwrap().status, StatusCode::OK);
        head
    };
    timeout(LONG, exchange).await.expect("the exchange ends")
}

fn with_headers() -> HttpTransportOptions {
    let mut options = HttpTransportOptions::default();
    let key = HeaderValue::from_static("k-42");
    options.headers.insert("x-api-key", key);
    let other = HeaderValue::from_static("of the application");
    options.headers.insert("x-taken", other);
    options
}

#[tokio::test]
async fn header_fields_go_where_credentials_may_go_and_nowhere_else() {
    let head = head_of(with_headers(), true).await;
    assert!(head.contains("\r\nx-api-key: k-42\r\n"), "{head}");
    assert!(head.contains("\r\nx-taken: of the request\r\n"), "{head}");
    let agent = format!("\r\nuser-agent: windlass/{}\r\n", env!("CARGO_PKG_VERSION"));
    assert!(head.contains(&agent), "{head}");
    let head = head_of(with_headers(), false).await;
    assert!(!head.contains("k-42"), "{head}");
}

#[tokio::test]
async fn every_server_gets_the_user_agent() {
    for may_receive_credentials in [true, false] {
        let options = HttpTransportOptions {
            user_agent: Some(HeaderValue::from_static("album/1.0")),
            ..HttpTransportOptions::default()
        };
        let head = head_of(options, may_receive_credentials).await;
        assert!(head.contains("\r\nuser-agent: album/1.0\r\n"), "{head}");
    }
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted() {
    let server = TlsServer::with_alpn("http/1.1").await;
    let options = HttpTransportOptions {
        roots: vec![server.issuer.der().clone()],
        ..HttpTransportOptions::default()
    };
    let transport = HttpTransport::new(long_timeouts(), options).unwrap();
    let peer = async {
        let mut stream = server.accept().await.unwrap();
        read_head(&mut stream).await;
        write(&mut stream, REPLY).await;
        stream
    };
    let reply = send_and(&transport, put(&server.url, Body::Empty), peer).await;
    assert_eq!(reply.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn requests_go_over_the_http_client_of_the_application() {
    let mut marks = HeaderMap::new();
    marks.insert("x-own-client", HeaderValue::from_static("yes"));
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls_with_roots(rustls::RootCertStore::empty()))
        .default_headers(marks)
        .build()
        .unwrap();
    let options = HttpTransportOptions {
        http_client: Some(client.clone()),
        ..with_headers()
    };
    let head = head_of(options, true).await;
    assert!(head.contains("\r\nx-own-client: yes\r\n"), "{head}");
    assert!(head.contains("\r\nx-api-key: k-42\r\n"), "{head}");

    let server = TlsServer::with_alpn("http/1.1").await;
    let options = HttpTransportOptions {
        http_client: Some(client),
        roots: vec![server.issuer.der().clone()],
        ..HttpTransportOptions::default()
    };
    let error = HttpTransport::new(long_timeouts(), options).unwrap_err();
    assert!(matches!(error, TransportError::SetUp(_)), "{error:?}");
}
