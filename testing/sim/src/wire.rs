//! HTTP over the simulated network: the transport of the client and the listener of the server.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{CONTENT_LENGTH, HOST};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use turmoil::net::{TcpListener, TcpStream};
use windlass_client::transport::{Body, Reply, Request, Transport, TransportError};
use windlass_server::{Accept, Accepted};

use crate::oracle::Oracle;
use crate::os::files;
use crate::os::trace::{digest, note};

/// Where the server listens.
pub(crate) const PORT: u16 = 80;

/// How long a client waits for a connection.
const CONNECT: Duration = Duration::from_secs(1);

/// How long a client waits for the end of a reply.
const EXCHANGE: Duration = Duration::from_secs(6);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sends the requests of the real client, each over a separate connection, and passes the replies
/// to the oracle.
pub(crate) struct Wire {
    who: String,
    oracle: Oracle,
}

impl Wire {
    pub(crate) fn new(who: impl Into<String>, oracle: Oracle) -> Self {
        Self {
            who: who.into(),
            oracle,
        }
    }

    async fn exchange(&self, request: Request) -> Result<Reply, TransportError> {
        let server = (request.url.host_str().unwrap_or_default().to_owned(), PORT);
        let connected = timeout(CONNECT, TcpStream::connect(server)).await;
        let stream = connected
            .map_err(io::Error::from)
            .flatten()
            .map_err(connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        // Whatever is wrong with the connection, the request tells.
        let connection = tokio::spawn(connection);
        let reply = async {
            let response = sender.send_request(outgoing(request)).await?;
            let (head, body) = response.into_parts();
            Ok((head, body.collect().await?.to_bytes()))
        };
        let reply = timeout(EXCHANGE, reply).await;
        connection.abort();
        let (head, body) = reply.map_err(|_| silent())?.map_err(broken)?;
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, request: Request) -> Result<Reply, TransportError> {
        let (method, uri) = (request.method.clone(), request.url.to_string());
        let range = request.headers.get("content-range").cloned();
        note!("{:<8} {method} {uri} {range:?}", self.who);
        let asked = self.oracle.request(&method, &uri, &request.headers);
        let reply = self.exchange(request).await;
        match &reply {
            Ok(reply) => {
                let (status, range) = (reply.status, reply.headers.get("range"));
                note!(
                    "{:<8} {status} {range:?} {:016x}",
                    self.who,
                    digest(&reply.body)
                );
                self.oracle
                    .reply(&asked, status, &reply.headers, &reply.body);
            }
            Err(error) => note!("{:<8} {error}", self.who),
        }
        reply
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({})", self.who)
    }
}

fn outgoing(request: Request) -> http::Request<UnsyncBoxBody<Bytes, BoxError>> {
    let length = request.body.length();
    let body = match request.body {
        Body::Empty => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        Body::Bytes(bytes) => Full::new(bytes)
            .map_err(|never| match never {})
            .boxed_unsync(),
        Body::Stream { stream, .. } => {
            let frames = stream.map(|piece| Ok(Frame::data(piece.map_err(BoxError::from)?)));
            StreamBody::new(frames).boxed_unsync()
        }
    };
    let target = &request.url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut outgoing = http::Request::new(body);
    *outgoing.method_mut() = request.method;
    *outgoing.uri_mut() = target.parse().expect("the target of a URL");
    *outgoing.headers_mut() = request.headers;
    let host = request.url.host_str().unwrap_or_default();
    let host = host.parse().expect("the host of a URL");
    outgoing.headers_mut().insert(HOST, host);
    outgoing.headers_mut().insert(CONTENT_LENGTH, length.into());
    outgoing
}

const SERVER: &str = "server";

fn connect(error: io::Error) -> TransportError {
    TransportError::Connect {
        host: SERVER.into(),
        source: error.into(),
    }
}

fn broken(error: hyper::Error) -> TransportError {
    TransportError::Broken {
        host: SERVER.into(),
        source: error.into(),
    }
}

fn silent() -> TransportError {
    TransportError::Silent {
        host: SERVER.into(),
        seconds: EXCHANGE.as_secs(),
    }
}

/// The server's end of the network. A host without power sends nothing more.
pub(crate) struct SimListener(TcpListener);

impl SimListener {
    pub(crate) async fn open() -> io::Result<Self> {
        Ok(Self(TcpListener::bind(("0.0.0.0", PORT)).await?))
    }
}

impl Accept for SimListener {
    type Stream = Outlet;

    async fn accept(&self) -> io::Result<Accepted<Outlet>> {
        let (stream, peer) = self.0.accept().await?;
        Ok(Accepted {
            local: stream.local_addr().ok(),
            peer: Some(peer),
            stream: Outlet(stream),
        })
    }
}

/// A connection as the server has it.
pub(crate) struct Outlet(TcpStream);

impl AsyncRead for Outlet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.0).poll_read(cx, buf);
        let bytes = &buf.filled()[before..];
        if !bytes.is_empty() {
            note!("server   reads {} {:016x}", bytes.len(), digest(bytes));
        }
        read
    }
}

impl AsyncWrite for Outlet {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if files::is_over() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.0).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = written {
            note!("server   writes {count} {:016x}", digest(&buf[..count]));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
