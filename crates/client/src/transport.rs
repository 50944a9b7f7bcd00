//! How requests reach a server. The upload's logic is elsewhere: a transport sends one request and
//! brings back what came of it.

use std::fmt;
use std::io;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

mod http_transport;
#[cfg(test)]
mod tests;
mod timeouts;

pub(crate) use http_transport::HttpTransport;
pub use timeouts::Timeouts;

/// No reply of the protocol is longer.
const MAX_REPLY: u64 = 4 << 20;

/// A request on its way.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// What a request carries.
pub(crate) enum Body {
    /// Nothing, and it says so: `Content-Length: 0`.
    Empty,
    /// Bytes that are there.
    Bytes(Bytes),
    /// Exactly so many bytes, as they come. An error of the stream breaks the request off.
    Stream {
        length: u64,
        stream: BoxStream<'static, io::Result<Bytes>>,
    },
}

/// A reply whose head is there and whose body is on its way.
pub(crate) struct Incoming {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Who replies, as errors show it.
    pub(crate) host: String,
    /// Ends after as many bytes as the reply said. What is left of the request's body is not sent
    /// when this is dropped.
    pub(crate) body: BoxStream<'static, Result<Bytes, TransportError>>,
}

/// A reply, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// There is nothing to send requests with.
    #[error("the HTTP client cannot be set up")]
    SetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No connection came about. Nothing was sent.
    #[error("cannot connect to {host}")]
    Connect {
        host: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Who answers cannot prove to be who was asked for. Trying again does not help.
    #[error("{host} is not trusted")]
    Untrusted {
        host: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke.
    #[error("the connection to {host} broke")]
    Broken {
        host: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing moved for too long.
    #[error("nothing came from {host} for {seconds} s")]
    Silent { host: String, seconds: u64 },
    /// The media could not be read on.
    #[error("the media cannot be read")]
    Media(#[source] io::Error),
    /// The reply is longer than any reply of the protocol.
    #[error("the reply of {host} is longer than {limit} bytes")]
    ReplyTooLong { host: String, limit: u64 },
}

/// Sends requests. Redirections are never followed.
///
/// # Cancel safety
///
/// Dropping a future or an [`Incoming`] closes the connection; how much of the request arrived is
/// not known then.
#[async_trait]
pub(crate) trait Transport: Send + Sync + fmt::Debug {
    /// Sends a request and reads the reply, which is no longer than [`MAX_REPLY`]. A reply may come
    /// before the body is sent; the rest of the body is not sent then.
    async fn send(&self, request: Request) -> Result<Reply, TransportError>;

    /// Sends a request; returns when the head of the reply is there, if the transport can tell that
    /// from the end.
    async fn open(&self, request: Request) -> Result<Incoming, TransportError> {
        let host = authority(&request.url);
        let reply = self.send(request).await?;
        Ok(Incoming {
            status: reply.status,
            headers: reply.headers,
            host,
            body: stream::iter([Ok(reply.body)]).boxed(),
        })
    }
}

impl Incoming {
    /// Reads the reply to its end.
    pub(crate) async fn whole(mut self) -> Result<Reply, TransportError> {
        let mut body = BytesMut::new();
        while let Some(piece) = self.body.try_next().await? {
            if (body.len() + piece.len()) as u64 > MAX_REPLY {
                return Err(TransportError::ReplyTooLong {
                    host: self.host,
                    limit: MAX_REPLY,
                });
            }
            body.extend_from_slice(&piece);
        }
        Ok(Reply {
            status: self.status,
            headers: self.headers,
            body: body.freeze(),
        })
    }
}

impl Body {
    /// How many bytes it is.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stream { length, .. } => *length,
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Host and port, which errors may show.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
