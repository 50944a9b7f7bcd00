use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Answers each connection with this text, after the head of a request. An empty one is no answer.
async fn server(reply: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut silent = Vec::new();
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            if reply.is_empty() {
                silent.push(socket);
            } else {
                socket.write_all(reply.as_bytes()).await.unwrap();
            }
        }
    });
    address
}

fn limits() -> OutboundLimits {
    OutboundLimits {
        timeout: Duration::from_secs(60),
        reply: 5,
        addresses: OutboundAddresses::Any,
    }
}

fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

async fn send(url: &str, limits: OutboundLimits) -> Result<Response<Bytes>, OutboundError> {
    HttpOutbound::default().send(get(url), limits).await
}

#[tokio::test]
async fn reply_within_the_limit_is_returned_whole() {
    let address = server("HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\n\r\nhello".into()).await;
    let reply = send(&format!("http://{address}/"), limits()).await.unwrap();
    assert_eq!(
        (reply.status().as_u16(), &reply.body()[..]),
        (200, &b"hello"[..])
    );
    assert_eq!(reply.headers()["x"], "y");
}

#[tokio::test]
async fn longer_reply_is_refused() {
    for head in ["content-length: 6", "connection: close"] {
        let address = server(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nhello!")).await;
        let refused = send(&format!("http://{address}/"), limits()).await;
        assert!(
            matches!(refused, Err(OutboundError::TooLong { limit: 5, .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let target = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()).await;
    let head = format!("HTTP/1.1 302 Found\r\nlocation: http://{target}/\r\ncontent-length: 0");
    let address = server(format!("{head}\r\n\r\n")).await;
    let reply = send(&format!("http://{address}/"), limits()).await.unwrap();
    assert_eq!(reply.status(), 302);
}

#[tokio::test]
async fn silent_server_is_given_up_after_the_timeout() {
    let address = server(String::new()).await;
    let limits = OutboundLimits {
        timeout: Duration::from_millis(50),
        ..limits()
    };
    let given_up = send(&format!("http://{address}/?secret"), limits)
        .await
        .unwrap_err();
    assert!(
        matches!(given_up, OutboundError::Timeout { .. }),
        "{given_up:?}"
    );
    assert!(!format!("{given_up:?} {given_up}").contains("secret"));
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_in_every_form() {
    let address = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()).await;
    let port = address.port();
    let public = OutboundLimits {
        addresses: OutboundAddresses::Public,
        ..limits()
    };
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "localhost",
        "[::ffff:127.0.0.1]",
    ] {
        let refused = send(&format!("http://{host}:{port}/"), public).await;
        assert!(
            matches!(refused, Err(OutboundError::Refused { .. })),
            "{host}: {refused:?}"
        );
    }
}

#[test]
fn hosts_of_this_machine_are_told_apart_in_every_form() {
    for (host, expected) in [
        ("localhost", true),
        ("LOCALHOST", true),
        ("127.0.0.1", true),
        ("127.255.0.9", true),
        ("127.1", true),
        ("0x7f000001", true),
        ("[::1]", true),
        ("[::ffff:127.0.0.1]", true),
        ("a.localhost", false),
        ("localhost.example", false),
        ("10.0.0.1", false),
        ("128.0.0.1", false),
        ("[::2]", false),
        ("issuer.example", false),
    ] {
        let url = Url::parse(&format!("http://{host}:8080/")).unwrap();
        assert_eq!(is_this_machine(&url), expected, "{host}");
    }
}

#[tokio::test]
async fn localhost_is_this_machine_whatever_names_resolve_to() {
    let address = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()).await;
    let url = format!("http://LOCALHOST:{}/", address.port());
    assert_eq!(send(&url, limits()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn other_schemes_are_refused() {
    for url in ["ftp://127.0.0.1/", "/path", "data://x/"] {
        let refused = send(url, limits()).await;
        assert!(
            matches!(refused, Err(OutboundError::Unsupported { .. })),
            "{url}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn error_of_a_connection_hides_the_url() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let failed = send(&format!("http://{closed}/secret?secret"), limits())
        .await
        .unwrap_err();
    assert!(matches!(failed, OutboundError::Failed { .. }), "{failed:?}");
    assert!(
        !format!("{failed:?} {failed}").contains("secret"),
        "{failed:?}"
    );
}
