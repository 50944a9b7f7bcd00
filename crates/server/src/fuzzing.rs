//! Private readers of foreign input, opened for fuzz targets by the feature `fuzzing`.
//!
//! No part of the API: it changes without notice, and no other crate turns the feature on.

use std::net::SocketAddr;
use std::ops::Range;

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue, Version};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::body::{self, RequestBody};
use crate::config::Limits;
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
