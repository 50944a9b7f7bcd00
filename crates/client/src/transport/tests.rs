//! The HTTP transport against peers that write and read raw bytes.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;

mod body;
mod environment;
mod options;
mod silence;
mod tls;

/// A limit that a silent peer exceeds.
const SHORT: Duration = Duration::from_millis(150);

/// A limit that no peer exceeds, however busy the machine is.
const LONG: Duration = Duration::from_secs(120);

fn long_timeouts() -> Timeouts {
    Timeouts {
        connect: LONG,
        idle: LONG,
        reply: LONG,
    }
}

fn transport(timeouts: Timeouts) -> HttpTransport {
    HttpTransport::trusting(timeouts, rustls::RootCertStore::empty(), None)
}

async fn listen() -> (TcpListener, Url) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}/upload/farm?upload_id=secret");
    (listener, url.parse().unwrap())
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

fn put(url: &Url, body: Body) -> Request {
    Request {
        method: Method::PUT,
        url: url.clone(),
        headers: HeaderMap::new(),
        body,
        may_receive_credentials: true,
    }
}

/// Returns media of `length` bytes, in pieces of 1 MiB.
fn media(length: u64) -> Body {
    let piece = Bytes::from(vec![b'm'; 1 << 20]);
    let pieces = stream::unfold(length, move |left| {
        let len = usize::try_from(left.min(1 << 20)).unwrap();
        let piece = piece.slice(..len);
        async move { (left > 0).then(|| (Ok(piece), left - len as u64)) }
    });
    streamed(length, pieces.boxed())
}

fn streamed(length: u64, stream: BoxStream<'static, io::Result<Bytes>>) -> Body {
    Body::Stream { length, stream }
}

/// Reads the head of a request byte by byte, so that no byte of the body is taken.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: impl AsRef<[u8]>) {
    stream.write_all(bytes.as_ref()).await.unwrap();
    stream.flush().await.unwrap();
}

/// Sends a request to a peer. The peer's result lives until both are done, so that a stream stays
/// open as long as the client waits.
async fn send_and<T>(
    transport: &HttpTransport,
    request: Request,
    peer: impl Future<Output = T>,
) -> Result<Reply, TransportError> {
    let exchange = async { tokio::join!(transport.send(request), peer).0 };
    timeout(LONG, exchange).await.expect("the exchange ends")
}

/// Returns all that an error would show in a log.
fn shown(error: &(dyn StdError + 'static)) -> String {
    let cause = error.source().map(shown).unwrap_or_default();
    format!("{error} {error:?} {cause}")
}

#[tokio::test]
async fn reply_is_returned_and_the_connection_reused() {
    let (listener, url) = listen().await;
    let transport = transport(long_timeouts());
    let peer = async {
        let mut stream = accept(&listener).await;
        for status in ["200 OK", "404 Not Found"] {
            let head = read_head(&mut stream).await;
            assert!(head.starts_with("put /upload/farm?upload_id=secret http/1.1\r\n"));
            let user_agent = format!("\r\nuser-agent: windlass/{}\r\n", env!("CARGO_PKG_VERSION"));
            assert!(head.contains(&user_agent), "{head}");
            assert!(!head.contains("accept-encoding"), "{head}");
            let reply = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
            );
            write(&mut stream, reply).await;
        }
    };
    let exchanges = async {
        for status in [StatusCode::OK, StatusCode::NOT_FOUND] {
            let reply = transport.send(put(&url, Body::Empty)).await.unwrap();
            assert_eq!(reply.status, status);
            assert_eq!(reply.headers[CONTENT_TYPE], "text/plain");
            assert_eq!(reply.body, "hello");
        }
    };
    timeout(LONG, async { tokio::join!(peer, exchanges) })
        .await
        .unwrap();
}

#[tokio::test]
async fn redirection_is_not_followed() {
    let (listener, url) = listen().await;
    for status in ["301 Moved", "303 See Other", "307 Moved", "308 Resume"] {
        let peer = async {
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await;
            let reply = format!(
                "HTTP/1.1 {status}\r\nLocation: /elsewhere\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            );
            write(&mut stream, reply).await;
        };
        let request = put(&url, Body::Empty);
        let reply = send_and(&transport(long_timeouts()), request, peer).await;
        let reply = reply.unwrap();
        assert!(status.starts_with(reply.status.as_str()));
        assert_eq!(reply.headers["location"], "/elsewhere");
    }
}

#[tokio::test]
async fn reply_over_the_size_limit_is_refused() {
    let (listener, url) = listen().await;
    let peer = async {
        let mut stream = accept(&listener).await;
        read_head(&mut stream).await;
        write(&mut stream, "HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 8 << 10]).await.is_ok() {}
    };
    let reply = send_and(&transport(long_timeouts()), put(&url, Body::Empty), peer).await;
    assert!(matches!(reply, Err(TransportError::ReplyTooLong { limit, .. }) if limit == MAX_REPLY));
}

#[tokio::test]
async fn refused_connection_is_a_connect_error() {
    let (listener, url) = listen().await;
    drop(listener);
    let error = transport(long_timeouts()).send(put(&url, media(5))).await;
    let error = error.unwrap_err();
    assert!(matches!(error, TransportError::Connect { .. }), "{error:?}");
    assert!(!shown(&error).contains("secret"), "{}", shown(&error));
}

#[tokio::test]
async fn broken_connection_error_hides_the_query() {
    for reply in ["", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"] {
        let (listener, url) = listen().await;
        let peer = async {
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await;
            write(&mut stream, reply).await;
        };
        let error = send_and(&transport(long_timeouts()), put(&url, Body::Empty), peer).await;
        let error = error.unwrap_err();
        assert!(matches!(error, TransportError::Broken { .. }), "{error:?}");
        assert!(!shown(&error).contains("secret"), "{}", shown(&error));
    }
}

#[tokio::test]
async fn transfer_coding_that_was_not_asked_for_is_refused() {
    for (field, is_refused) in [
        ("chunked", false),
        ("Chunked", false),
        ("gzip, chunked", true),
        ("gzip\r\nTransfer-Encoding: chunked", true),
        ("chunked, chunked", true),
        ("deflate", true),
    ] {
        let (listener, url) = listen().await;
        let peer = async {
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await;
            let reply = format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: {field}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            );
            write(&mut stream, reply).await;
        };
        let reply = send_and(&transport(long_timeouts()), put(&url, Body::Empty), peer).await;
        match reply {
            Ok(reply) => assert!(!is_refused && reply.body == "hello", "{field}"),
            Err(TransportError::TransferCoding { .. }) => assert!(is_refused, "{field}"),
            Err(error) => panic!("{field}: {error:?}"),
        }
    }
}

#[test]
fn debug_output_of_replies_hides_the_session() {
    let mut headers = HeaderMap::new();
    let location = "http://localhost/upload?upload_id=secret";
    headers.insert("location", HeaderValue::from_static(location));
    let reply = Reply {
        status: StatusCode::OK,
        headers: headers.clone(),
        body: Bytes::new(),
    };
    let incoming = Incoming {
        status: StatusCode::OK,
        headers,
        host: "localhost".to_owned(),
        body: Box::pin(stream::empty()),
    };
    for shown in [format!("{reply:?}"), format!("{incoming:?}")] {
        assert!(
            shown.contains("location") && !shown.contains("secret"),
            "{shown}"
        );
    }
}
