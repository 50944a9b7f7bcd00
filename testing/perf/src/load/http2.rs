//! One HTTP/2 connection under TLS, on the thread of its user.

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, LOCATION};
use http::{HeaderValue, Request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use super::ask::Ask;
use super::media::Block;
use super::wire::Reply;

/// Bytes of a body that the library takes before they are sent.
const SEND_BUFFER: usize = 4 << 20;

/// A connection that is opened when it is needed. It moves only during [`Http2::exchange`].
#[derive(Debug)]
pub(super) struct Http2 {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    runtime: Runtime,
    requests: SendRequest<Media>,
}

/// The body of a request.
struct Media {
    pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    left: u64,
}

impl Http2 {
    pub(super) fn to(address: SocketAddr, tls: Arc<ClientConfig>) -> Self {
        Self {
            address,
            tls,
            open: None,
        }
    }

    /// Sends a request and reads the whole reply.
    pub(super) fn exchange(&mut self, ask: &Ask<'_>, block: &Block) -> io::Result<Reply> {
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(open(self.address, &self.tls)?),
        };
        let request = request(ask, block, self.address)?;
        open.runtime.block_on(async {
            open.requests.ready().await.map_err(io::Error::other)?;
            let reply = open.requests.send_request(request).await;
            let (head, body) = reply.map_err(io::Error::other)?.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?;
            let location = head.headers.get(LOCATION).map(HeaderValue::to_str);
            Ok(Reply {
                status: head.status.as_u16(),
                location: location
                    .transpose()
                    .map_err(io::Error::other)?
                    .map(str::to_owned),
                body: body.to_bytes().into(),
            })
        })
    }
}

fn open(address: SocketAddr, tls: &Arc<ClientConfig>) -> io::Result<Open> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let requests = runtime.block_on(async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::clone(tls));
        let stream = connector.connect(address.ip().into(), stream).await?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_send_buf_size(SEND_BUFFER);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (requests, connection) = handshake.map_err(io::Error::other)?;
        // A connection that breaks fails the request that is on it.
        tokio::spawn(connection);
        Ok::<_, io::Error>(requests)
    })?;
    Ok(Open { runtime, requests })
}

fn request(ask: &Ask<'_>, block: &Block, host: SocketAddr) -> io::Result<Request<Media>> {
    let own = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let (number, range) = ask.media.clone();
    let pieces = iter::once(own(ask.before))
        .chain(block.shared_pieces(number, range))
        .chain(iter::once(own(ask.after)))
        .filter(|piece| !piece.is_empty());
    let mut request = Request::builder()
        .method(ask.method)
        .uri(format!("https://{host}{}", ask.target))
        .header(CONTENT_LENGTH, ask.len());
    for (name, value) in ask.headers {
        request = request.header(*name, *value);
    }
    let media = Media {
        pieces: Box::new(pieces),
        left: ask.len(),
    };
    request.body(media).map_err(io::Error::other)
}

impl Body for Media {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = self.pieces.next();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
