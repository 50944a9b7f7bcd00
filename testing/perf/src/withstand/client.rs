//! A client that uploads small media over HTTP/1 from a separate address.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

/// The path of a simple upload.
pub(super) const UPLOAD: &str = "/upload/farm/v1/animals?uploadType=media";

/// Bytes of each upload.
const SIZE: usize = 4096;

/// An upload that is not acknowledged within this time has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    server: SocketAddr,
    requests: SendRequest<Full<Bytes>>,
}

/// The reply to an upload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) has_retry_after: bool,
    /// From the first byte of the request to the last one of the reply.
    pub(super) took: Duration,
}

impl Answer {
    /// Whether the upload was acknowledged.
    pub(super) fn is_success(self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the server has no room for the upload.
    pub(super) fn is_refusal(self) -> bool {
        matches!(self.status, 429 | 503)
    }
}

impl Connection {
    /// Connects from an address of this machine.
    ///
    /// # Errors
    /// When there is no connection within [`PATIENCE`].
    pub(super) async fn open(from: Ipv4Addr, server: SocketAddr) -> anyhow::Result<Self> {
        let stream = timeout(PATIENCE, connect(from, server)).await??;
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Its end shows in the next request.
        tokio::spawn(connection);
        Ok(Self { server, requests })
    }

    /// Uploads and reads the whole reply.
    ///
    /// # Errors
    /// When the connection breaks, or there is no reply within [`PATIENCE`].
    pub(super) async fn upload(&mut self) -> anyhow::Result<Answer> {
        let start = Instant::now();
        let request = Request::post(UPLOAD)
            .header(HOST, self.server.to_string())
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(Full::new(Bytes::from_static(&[b'w'; SIZE])))?;
        let exchange = async {
            self.requests.ready().await?;
            let reply = self.requests.send_request(request).await?;
            let (head, body) = reply.into_parts();
            body.collect().await?;
            hyper::Result::Ok(head)
        };
        let head = timeout(PATIENCE, exchange).await??;
        Ok(Answer {
            status: head.status.as_u16(),
            has_retry_after: head.headers.contains_key(RETRY_AFTER),
            took: start.elapsed(),
        })
    }

    /// Whether the server has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// Connects from an address of this machine.
///
/// # Errors
/// The connection cannot be opened.
pub(super) async fn connect(from: Ipv4Addr, server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
