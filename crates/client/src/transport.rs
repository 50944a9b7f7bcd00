//! The interface of a transport, which sends an HTTP request and returns its reply.
//!
//! [`ClientBuilder::build`](crate::ClientBuilder::build) uses a transport over TCP and TLS.
//! [`Client::with_transport`](crate::Client::with_transport) takes any implementation of
//! [`Transport`].

use std::time::Duration;
use std::{fmt, io};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use url::Url;
use windlass_proto::header::{X_GOOG_UPLOAD_CONTROL_URL, X_GOOG_UPLOAD_URL};

mod http_transport;
mod loopback;
#[cfg(test)]
mod tests;

pub(crate) use http_transport::{HttpTransport, HttpTransportOptions};
use loopback::LoopbackResolver;

/// Maximum size of a reply's body in bytes.
const MAX_REPLY: u64 = 4 << 20;

/// Maximum size in bytes of the slices in which a body is given to the connection.
pub(crate) const MAX_SLICE: usize = 64 << 10;

/// An HTTP request.
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// URL, possibly with credentials in its query.
    pub url: Url,
    /// Header fields, without `Host` and `Content-Length`: the transport adds these.
    pub headers: HeaderMap,
    /// Body.
    pub body: Body,
    /// Whether the user named the origin of the URL, so that it may receive credentials. A client
    /// certificate is presented there alone.
    pub may_receive_credentials: bool,
}

/// The body of a request.
pub enum Body {
    /// An empty body with `Content-Length: 0`.
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// A stream of exactly `length` bytes. An error of the stream aborts the request, and
    /// [`TransportError::Media`] returns the error.
    Stream {
        /// Number of bytes.
        length: u64,
        /// The bytes.
        stream: BoxStream<'static, io::Result<Bytes>>,
    },
}

/// A reply. Its head has arrived.
pub struct Incoming {
    /// Status.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    /// Host of the server, with the port if the URL has one. For errors.
    pub host: String,
    /// Body. If the connection ends before the announced number of bytes, the last item is an
    /// error. If this stream is dropped, the rest of the request's body is not sent.
    pub body: BoxStream<'static, Result<Bytes, TransportError>>,
}

/// A complete reply. `Debug` does not show its `Location` and other fields that may be a session
/// URI.
#[derive(Clone)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    SetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No connection could be established. Nothing was sent.
    #[error("cannot connect to {host}")]
    Connect {
        /// Host and port.
        host: String,
        /// Cause of the error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No host has the name in the URL. Nothing was sent.
    #[error("cannot connect to {host}: no such host")]
    UnknownHost {
        /// Host and port.
        host: String,
    },
    /// The server's certificate is invalid: for instance it has expired, is for another host, or is
    /// from an unknown authority. No request was sent. A retry does not help, and
    /// [`Error::is_retryable`](crate::Error::is_retryable) returns `false`.
    #[error("{host} is not trusted")]
    Untrusted {
        /// Host and port.
        host: String,
        /// Cause of the error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server at an `https` URL replies without TLS. No request was sent. A retry does not
    /// help.
    #[error("{host} does not speak TLS")]
    NotTls {
        /// Host and port.
        host: String,
    },
    /// The server's reply is not HTTP, for instance because the server expects TLS. If no server
    /// was reached at this address before, a retry does not help.
    #[error("{host} does not speak HTTP")]
    NotHttp {
        /// Host and port.
        host: String,
    },
    /// The server demands a client certificate, or refuses the certificate that it received. No
    /// request was carried out. A retry does not help.
    #[error("{host} demands a client certificate, or refuses the one that it got")]
    CertificateRefused {
        /// Host and port.
        host: String,
    },
    /// The connection broke.
    #[error("the connection to {host} broke")]
    Broken {
        /// Host and port.
        host: String,
        /// Cause of the error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection made no progress within a limit of [`Timeouts`].
    #[error("the connection to {host} made no progress for {seconds} s")]
    Silent {
        /// Host and port.
        host: String,
        /// The time limit in seconds, rounded down.
        seconds: u64,
    },
    /// The body of a reply arrives more slowly than [`Timeouts`] allow.
    #[error("the reply of {host} arrives too slowly: it was waited for {seconds} s")]
    Slow {
        /// Host and port.
        host: String,
        /// The time limit in seconds, rounded down.
        seconds: u64,
    },
    /// The stream of the request's body failed, or has another length than stated: the media cannot
    /// be read.
    #[error("the media cannot be read")]
    Media(#[source] io::Error),
    /// The reply has a transfer coding that was not asked for, such as `gzip`. Its body is not
    /// read, because it is not decoded.
    #[error("the reply of {host} has a transfer coding that was not asked for")]
    TransferCoding {
        /// Host and port.
        host: String,
    },
    /// The body of the reply exceeds the maximum size.
    #[error("the reply of {host} exceeds the limit of {limit} bytes")]
    ReplyTooLong {
        /// Host and port.
        host: String,
        /// The maximum size in bytes.
        limit: u64,
    },
}

impl TransportError {
    /// Says in a few words why there is no reply, without the host: `cannot connect: connection
    /// refused`.
    pub(crate) fn summary(&self) -> String {
        match self {
            Self::UnknownHost { .. } => "cannot connect: no such host".to_owned(),
            Self::Connect { source, .. } => format!("cannot connect: {}", root_cause(&**source)),
            Self::Broken { source, .. } => {
                format!("the connection broke: {}", root_cause(&**source))
            }
            other => other.to_string(),
        }
    }
}

/// Returns the text of the innermost cause of an error, as a part of a sentence.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    let text = text
        .strip_prefix("failed to lookup address information: ")
        .unwrap_or(&text);
    let text = match text.find(" (os error ") {
        Some(end) => &text[..end],
        None => text,
    };
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

/// Sends HTTP requests. An implementation does not follow redirections and does not retry.
///
/// # Cancel safety
///
/// If a future of this trait is dropped, or an [`Incoming`] before its body was read to the end,
/// the exchange is aborted. How much of the request has arrived is then unknown.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    /// Sends a request and reads the whole reply. A body of the reply of more than 4 MiB is an
    /// error. If the reply arrives before the whole body of the request is sent, the rest is not
    /// sent.
    async fn send(&self, request: Request) -> Result<Reply, TransportError>;

    /// Sends a request and returns when the head of the reply has arrived. Downloads use it. The
    /// default implementation calls [`send`](Self::send), so it waits for the whole reply, and
    /// downloads are limited to its maximum size.
    async fn open(&self, request: Request) -> Result<Incoming, TransportError> {
        let host = host_and_port(&request.url);
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
    /// Reads the whole reply.
    ///
    /// # Errors
    ///
    /// The connection breaks or stalls, or the body exceeds 4 MiB.
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
    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stream { length, .. } => *length,
        }
    }
}

/// Hides the path and the query of the URL, which may contain credentials, and the header fields,
/// which may contain a token.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("host", &host_and_port(&self.url))
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

/// Shows the length only.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.length())
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("status", &self.status)
            .field("headers", &without_location(&self.headers))
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("headers", &without_location(&self.headers))
            .field("body", &self.body)
            .finish()
    }
}

/// Returns header fields for `Debug`: without the values that may be a session URI, and so a
/// credential.
fn without_location(headers: &HeaderMap) -> HeaderMap {
    let mut shown = headers.clone();
    for name in [LOCATION, X_GOOG_UPLOAD_URL, X_GOOG_UPLOAD_CONTROL_URL] {
        if let Some(location) = shown.get_mut(name) {
            location.set_sensitive(true);
        }
    }
    shown
}

/// Returns the host, and the port if the URL has one. For errors.
fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The time limits of connections.
///
/// The time in which a request waits for bytes from the source of the media does not count, so a
/// slow pipe does not cause a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Limit for establishing a connection, with name resolution, proxy and TLS. Default: 10 s.
    pub connect: Duration,
    /// Limit for the time in which a connection takes no bytes of a request's body, or delivers no
    /// bytes of a reply's body. Default: 60 s.
    ///
    /// A body is given to the connection in slices of at most 64 KiB, so by default a connection
    /// counts as stalled only below about 1 KiB per second. The same holds for the media of a
    /// download: 64 KiB, or its end, must arrive within this time. On Linux, a connection is also
    /// closed if the peer acknowledges no data for this time.
    pub idle: Duration,
    /// Limit from the last byte of the request to the beginning of its reply, and from there to its
    /// end. It does not limit the media of a download. Default: 120 s.
    ///
    /// The default is longer than the default of `idle`, because in this time the operating system
    /// sends the bytes that it has buffered, and the server does its work after the last byte.
    pub reply: Duration,
}

impl Timeouts {
    /// Sets [`connect`](Self::connect).
    #[must_use]
    pub fn with_connect(self, connect: Duration) -> Self {
        Self { connect, ..self }
    }

    /// Sets [`idle`](Self::idle).
    #[must_use]
    pub fn with_idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Sets [`reply`](Self::reply).
    #[must_use]
    pub fn with_reply(self, reply: Duration) -> Self {
        Self { reply, ..self }
    }
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
