//! A download over a real connection.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::transport::{HttpTransport, HttpTransportOptions, Timeouts};

async fn response(listener: &TcpListener, reply: &str) -> String {
    let mut stream: TcpStream = listener.accept().await.unwrap().0;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(reply.as_bytes()).await.unwrap();
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

#[tokio::test]
async fn broken_download_continues_with_a_range_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = async {
        let reply = "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 10\r\n\r\n01234";
        let head = response(&listener, reply).await;
        assert!(head.starts_with("get /animals/17?alt=media http/1.1\r\n"));
        assert!(head.contains("\r\naccept-encoding: identity\r\n"), "{head}");
        assert!(!head.contains("\r\nrange:"), "{head}");
        let reply = "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\n\
                     Content-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\n56789";
        let head = response(&listener, reply).await;
        assert!(head.contains("\r\nrange: bytes=5-\r\n"), "{head}");
        assert!(head.contains("\r\nif-range: \"v1\"\r\n"), "{head}");
    };
    let dir = DownloadDir::new();
    let transport =
        HttpTransport::new(Timeouts::default(), HttpTransportOptions::default()).unwrap();
    let url = format!("http://{address}/animals/17?alt=media");
    let download = Download::new(url.parse().unwrap(), dir.target());
    let broken = download.clone().schedule(no_waits());
    let runs = async {
        let error = broken.run(&transport, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, DownloadError::Connection(_)), "{error:?}");
        download.run(&transport, None, |_| {}).await.unwrap();
    };
    tokio::join!(peer, runs);
    dir.assert_complete(b"0123456789");
}
