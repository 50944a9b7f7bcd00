//! How requests reach a server. The upload's logic is elsewhere: a transport sends one request and
//! brings back what came of it.
//!
//! [`Client::new`](crate::Client::new) brings one over TCP and TLS;
//! [`Client::with_transport`](crate::Client::with_transport) takes any other.

use std::time::Duration;
use std::{fmt, io};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

mod http_transport;
#[cfg(test)]
mod tests;

pub(crate) use http_transport::HttpTransport;

/// No reply of the protocol is longer.
const MAX_REPLY: u64 = 4 << 20;

/// A request on its way.
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its fields, but for `Host` and `Content-Length`, which are the transport's to write.
    pub headers: HeaderMap,
    /// What it carries.
    pub body: Body,
}

/// What a request carries.
pub enum Body {
    /// Nothing, and it says so: `Content-Length: 0`.
    Empty,
    /// Bytes that are there.
    Bytes(Bytes),
    /// Exactly so many bytes, as they come. An error of the stream breaks the request off.
    Stream {
        /// How many they are.
        length: u64,
        /// They themselves.
        stream: BoxStream<'static, io::Result<Bytes>>,
    },
}

/// A reply whose head is there and whose body is on its way.
pub struct Incoming {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// Who replies, as errors show it.
    pub host: String,
    /// Ends after as many bytes as the reply said. What is left of the request's body is not sent
    /// when this is dropped.
    pub body: BoxStream<'static, Result<Bytes, TransportError>>,
}

/// A reply, read to its end.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// What it carries.
    pub body: Bytes,
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// There is nothing to send requests with.
    #[error("the HTTP client cannot be set up")]
    SetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No connection came about. Nothing was sent.
    #[error("cannot connect to {host}")]
    Connect {
        /// Host and port.
        host: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Who answers cannot prove to be who was asked for. Trying again does not help.
    #[error("{host} is not trusted")]
    Untrusted {
        /// Host and port.
        host: String,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke.
    #[error("the connection to {host} broke")]
    Broken {
        /// Host and port.
        host: String,
        /// How.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing moved for too long.
    #[error("nothing came from {host} for {seconds} s")]
    Silent {
        /// Host and port.
        host: String,
        /// For how long it was waited.
        seconds: u64,
    },
    /// The media could not be read on.
    #[error("the media cannot be read")]
    Media(#[source] io::Error),
    /// The reply is longer than any reply of the protocol.
    #[error("the reply of {host} is longer than {limit} bytes")]
    ReplyTooLong {
        /// Host and port.
        host: String,
        /// The most that is read.
        limit: u64,
    },
}

/// Sends requests. Redirections are never followed.
///
/// # Cancel safety
///
/// Dropping a future or an [`Incoming`] closes the connection; how much of the request arrived is
/// not known then.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    /// Sends a request and reads the reply, which is no longer than 4 MiB. A reply may come
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
    ///
    /// # Errors
    ///
    /// It breaks off, or is longer than 4 MiB.
    pub async fn collect(mut self) -> Result<Reply, TransportError> {
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
    pub fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stream { length, .. } => *length,
        }
    }
}

/// Shows neither the query of the URL, which may hold a key, nor the fields, which may hold a token.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("host", &authority(&self.url))
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

/// Shows its length.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.length())
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

/// When a connection counts as dead.
///
/// Time that passes while the *source* of the media has nothing to send is never counted: a slow
/// pipe is no dead line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole way to a connection: name, TCP, proxy, TLS. 10 s unless set.
    pub connect: Duration,
    /// For one piece of a body, of at most 64 KiB, to be taken by the connection, and for one piece
    /// of a reply to come. 60 s unless set: a line that carries some KiB in a second is alive, and
    /// a server that sleeps for a minute in the middle of a body is better asked again. On Linux a
    /// connection whose peer acknowledges nothing for so long is closed as well.
    pub idle: Duration,
    /// From the end of the request to the beginning of its reply. 120 s unless set, longer than
    /// `idle`: what the operating system has buffered still drains, and then the server finishes
    /// its work.
    pub reply: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            reply: Duration::from_secs(120),
        }
    }
}
