//! Private readers of foreign input, opened for fuzz targets by the feature `fuzzing`.
//!
//! No part of the API: it changes without notice, and no other crate turns the feature on.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue, Version};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::body::{self, RequestBody};
use crate::config::Limits;
use crate::connections::interim::{InterimHead, InterimQueue, InterimStream, Sending};
use crate::connections::proxy_protocol;
use crate::{download, reply};

pub use windlass_rest::default_handler::ListQuery;

/// Number of decoded bytes below which the limit on the ratio does not apply.
pub const GZIP_GRACE: u64 = body::GZIP_GRACE;

/// The result of decoding a gzip body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The bytes before the end or the error.
    pub bytes: Vec<u8>,
    /// Whether the body has come to its end without an error.
    pub is_whole: bool,
}

/// Decodes a gzip body that arrives in these packets, with a limit on its compression ratio. Needs
/// a runtime of Tokio with time.
pub async fn gunzip(packets: Vec<Bytes>, ratio: u64) -> Decoded {
    let frames = packets
        .into_iter()
        .map(Frame::data)
        .map(Ok::<_, std::io::Error>);
    let body = StreamBody::new(stream::iter(frames));
    let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
    let limits = Limits {
        gzip_ratio: ratio,
        ..Limits::default()
    };
    let mut body = RequestBody::new(body, Version::HTTP_11, &headers, &limits);
    let mut bytes = Vec::new();
    loop {
        match body.next().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            end => {
                let is_whole = end.is_ok();
                return Decoded { bytes, is_whole };
            }
        }
    }
}

/// The beginning of a connection behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxied {
    /// The client and the address that it has connected to; `None` for a connection of the proxy
    /// itself.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The bytes after the header.
    pub rest: Vec<u8>,
}

/// Reads the header of the PROXY protocol from a connection on which at most `piece` bytes arrive
/// at once; `None` if it has none. Needs a runtime of Tokio.
///
/// # Panics
/// If `piece` is 0.
pub async fn proxied(bytes: &[u8], piece: usize) -> Option<Proxied> {
    let (mut proxy, stream) = tokio::io::duplex(piece);
    let sending = async move {
        // Fails when the header is refused.
        proxy.write_all(bytes).await.ok();
    };
    let reading = async move {
        let (proxied, mut stream) = proxy_protocol::read(stream).await.ok()?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok()?;
        Some(Proxied {
            addresses: proxied.map(|it| (it.client, it.server)),
            rest,
        })
    };
    tokio::join!(sending, reading).1
}

/// The part of a media that a download asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requested {
    /// All of it.
    Whole,
    /// These bytes, and the `Content-Range` of the reply.
    Part(Range<u64>, HeaderValue),
    /// Bytes that it does not have, and the `Content-Range` of the reply.
    NotSatisfiable(HeaderValue),
}

impl Requested {
    /// Reads the `Range` header of a request for a media of `length` bytes.
    pub fn parse(range: &HeaderValue, length: u64) -> Self {
        match download::Requested::parse(Some(range), length) {
            download::Requested::Whole => Self::Whole,
            download::Requested::Part(bytes) => {
                let header = download::content_range(&bytes, length);
                Self::Part(bytes, header)
            }
            download::Requested::NotSatisfiable => {
                Self::NotSatisfiable(reply::unsatisfied_range(length))
            }
        }
    }
}

/// A connection over HTTP/1.1 with interim replies, of which a target plays the HTTP library and
/// the socket.
pub struct InterimConnection {
    queue: InterimQueue,
    stream: InterimStream<Socket>,
    /// What the library holds.
    held: Vec<u8>,
    running: Option<Sending>,
}

impl std::fmt::Debug for InterimConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterimConnection").finish_non_exhaustive()
    }
}

/// A socket that takes so many bytes more.
struct Socket {
    taken: Vec<u8>,
    room: usize,
}

impl InterimConnection {
    /// Returns a connection with a socket that takes nothing yet.
    #[expect(clippy::new_without_default, reason = "a connection has no default")]
    pub fn new() -> Self {
        let queue = InterimQueue::default();
        let socket = Socket {
            taken: Vec::new(),
            room: 0,
        };
        Self {
            stream: queue.stream(socket),
            queue,
            held: Vec::new(),
            running: None,
        }
    }

    /// Lets the socket take more bytes.
    pub fn make_room(&mut self, bytes: usize) {
        self.stream.inner_mut().room += bytes;
    }

    /// Begins a request, if none is running.
    pub fn begin(&mut self) -> bool {
        let begins = self.running.is_none();
        if begins {
            self.running = Some(self.queue.begin());
        }
        begins
    }

    /// Sends an interim reply to the running request.
    pub fn send(&mut self, head: &InterimHead) {
        if let Some(running) = &self.running {
            running.replies().send(head);
        }
    }

    /// Returns the reply to the running request.
    pub fn end(&mut self, reply: &[u8]) -> bool {
        let ends = self.running.take().is_some();
        if ends {
            self.held.extend_from_slice(reply);
        }
        ends
    }

    /// Writes what the library holds, and flushes the stream when nothing is left, as hyper does.
    pub fn flush(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while !self.held.is_empty() {
            match Pin::new(&mut self.stream).poll_write(&mut cx, &self.held) {
                Poll::Ready(Ok(written)) => drop(self.held.drain(..written)),
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
        drop(Pin::new(&mut self.stream).poll_flush(&mut cx));
    }

    /// Returns all bytes that the socket has taken.
    pub fn taken(&mut self) -> &[u8] {
        &self.stream.inner_mut().taken
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let len = buf.len().min(self.room);
        if len == 0 {
            return Poll::Pending;
        }
        self.room -= len;
        self.taken.extend_from_slice(&buf[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
