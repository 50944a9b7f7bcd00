//! An HTTP/1.1 peer that hides nothing: the bytes that a test says go out, the bytes that come back
//! are shown as they are.
//!
//! ```no_run
//! use windlass_testkit::raw::{RawPeer, Request};
//!
//! let mut peer = RawPeer::connect("127.0.0.1:8080".parse().unwrap());
//! peer.send("GET /healthz HTTP/1.1\r\nHost: farm\r\n\r\n");
//! assert_eq!(peer.reply().reason, "OK");
//! assert_eq!(peer.exchange(&Request::new("GET", "/healthz")).text(), "ok\n");
//! ```

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{self, AddressFamily, SocketType};

use crate::wait::PATIENCE;

mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use reply::Reply;
pub use request::Request;

/// How much is read from the socket at once.
const READ: usize = 64 * 1024;

/// The longest line of a reply's head.
const MAX_LINE_LEN: usize = 64 * 1024;

/// One connection to a server.
#[derive(Debug)]
pub struct RawPeer {
    stream: TcpStream,
    /// The TLS layer between the test and the wire.
    tls: Option<Box<ClientConnection>>,
    /// Received bytes that were not read yet.
    unread: Vec<u8>,
}

impl RawPeer {
    /// Connects.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// Connects to a server that may not be there.
    ///
    /// # Errors
    /// The connection cannot be opened.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    /// Connects from another address of this machine, such as 127.0.0.2.
    #[track_caller]
    pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let connect = || {
            let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
            net::bind(&socket, &SocketAddr::from((source, 0)))?;
            net::connect(&socket, &address)?;
            Self::over(socket.into())
        };
        connect().unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let peer = Self {
            stream,
            tls: None,
            unread: Vec::new(),
        };
        peer.set_patience(PATIENCE);
        Ok(peer)
    }

    /// Connects, and shakes hands under TLS.
    ///
    /// # Errors
    /// The connection cannot be opened, or one side refuses the handshake.
    pub fn try_connect_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let mut peer = Self::try_connect(address)?;
        let name = address.ip().into();
        let tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let tls = peer.tls.insert(Box::new(tls));
        while tls.is_handshaking() {
            tls.complete_io(&mut peer.stream)?;
        }
        Ok(peer)
    }

    /// Connects, and shakes hands under TLS.
    #[track_caller]
    pub fn connect_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> Self {
        Self::try_connect_tls(address, config)
            .unwrap_or_else(|error| panic!("no TLS with {address}: {error}"))
    }

    /// The protocol that was chosen in the handshake (ALPN), if it was any.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }

    /// Whether the TLS handshake continued an earlier connection, so that no certificate was sent.
    pub fn is_resumed(&self) -> bool {
        let kind = self.tls.as_ref().and_then(|tls| tls.handshake_kind());
        kind == Some(HandshakeKind::Resumed)
    }

    /// The server's own certificate.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// How long the peer waits for a reply, or for room to send, from now on.
    pub fn set_patience(&self, limit: Duration) {
        let set = self.stream.set_read_timeout(Some(limit));
        let set = set.and_then(|()| self.stream.set_write_timeout(Some(limit)));
        set.expect("the limit is above zero");
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes)
            .unwrap_or_else(|error| panic!("cannot send: {error}"));
    }

    /// Sends bytes as they are, to a server that may have hung up.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes.as_ref()),
            Some(tls) => {
                rustls::Stream::new(&mut **tls, &mut self.stream).write_all(bytes.as_ref())
            }
        }
    }

    /// Sends a request and reads the reply to it. Interim replies are ignored.
    #[track_caller]
    pub fn exchange(&mut self, request: &Request) -> Reply {
        self.send(request.to_bytes());
        if request.verb() == "HEAD" {
            self.head_reply()
        } else {
            self.reply()
        }
    }

    /// Reads the next final reply.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        self.try_reply()
            .unwrap_or_else(|error| panic!("no reply: {error}"))
    }

    /// Reads the next final reply, which has no body since it answers a HEAD.
    #[track_caller]
    pub fn head_reply(&mut self) -> Reply {
        self.head()
            .unwrap_or_else(|error| panic!("no reply: {error}"))
    }

    /// Reads the next final reply; interim replies are ignored.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection was closed instead, `WouldBlock` if nothing came in time,
    /// `InvalidData` if the received bytes are not HTTP.
    pub fn try_reply(&mut self) -> io::Result<Reply> {
        loop {
            let reply = self.next_reply()?;
            if reply.status / 100 != 1 {
                return Ok(reply);
            }
        }
    }

    /// Reads the next reply, interim replies included.
    ///
    /// # Errors
    /// As [`RawPeer::try_reply`].
    pub fn next_reply(&mut self) -> io::Result<Reply> {
        let mut reply = self.head()?;
        if reply.status / 100 != 1 {
            reply.body = self.body(&reply)?;
        }
        Ok(reply)
    }

    /// Reads the final reply to a request: that to a HEAD has no body, whatever its length.
    ///
    /// # Errors
    /// The same as of [`RawPeer::try_reply`].
    pub fn try_reply_to(&mut self, request: &Request) -> io::Result<Reply> {
        if request.verb() == "HEAD" {
            self.head()
        } else {
            self.try_reply()
        }
    }

    /// Reads the next reply to a request, interim replies included. The reply to a HEAD has no body,
    /// whatever its length.
    ///
    /// # Errors
    /// The same as of [`RawPeer::try_reply`].
    pub fn next_reply_to(&mut self, request: &Request) -> io::Result<Reply> {
        if request.verb() == "HEAD" {
            self.head()
        } else {
            self.next_reply()
        }
    }

    /// Reads the next head of a reply, be it an interim one, such as `100 Continue`.
    pub fn head(&mut self) -> io::Result<Reply> {
        let mut reply = Reply::from_status_line(&self.line()?)?;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(reply);
            }
            reply.push_header(&line)?;
        }
    }

    /// Ends the sending side of the connection. Replies can still be read.
    pub fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).ok();
    }

    /// Cuts the connection with a reset, as a crashing machine or a middlebox does.
    pub fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("a socket takes options");
    }

    /// Whether the server has closed the connection, or does so while the peer is patient. When
    /// more bytes come instead, it has not.
    pub fn is_closed(&mut self) -> bool {
        if !self.unread.is_empty() {
            return false;
        }
        match self.receive() {
            Ok(read) => read == 0,
            Err(error) => !is_timeout(error.kind()),
        }
    }

    /// Whether the server has ended its side as it should be: under TLS with a word
    /// (`close_notify`), without which nobody knows whether something was cut off.
    pub fn is_ended(&mut self) -> bool {
        self.unread.is_empty() && matches!(self.receive(), Ok(0))
    }

    /// Reads exactly `len` bytes.
    ///
    /// # Errors
    /// The same as of [`RawPeer::try_reply`].
    pub fn bytes(&mut self, len: usize) -> io::Result<Vec<u8>> {
        self.take(len)
    }

    fn body(&mut self, reply: &Reply) -> io::Result<Vec<u8>> {
        if matches!(reply.status, 204 | 304) {
            return Ok(Vec::new());
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            return self.chunked();
        }
        match reply.header("content-length") {
            Some(length) => self.take(length.parse().map_err(io::Error::other)?),
            None => self.rest(),
        }
    }

    fn chunked(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).map_err(io::Error::other)?;
            body.extend(self.take(size)?);
            // After the last chunk, this is the line that ends the trailers. Trailers themselves
            // are not expected.
            if !self.line()?.is_empty() {
                return Err(ErrorKind::InvalidData.into());
            }
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.unread[searched..]
                .windows(2)
                .position(|end| end == b"\r\n")
            {
                let mut line: Vec<_> = self.unread.drain(..searched + at + 2).collect();
                line.truncate(searched + at);
                return String::from_utf8(line).map_err(io::Error::other);
            }
            if self.unread.len() > MAX_LINE_LEN {
                return Err(ErrorKind::InvalidData.into());
            }
            searched = self.unread.len().saturating_sub(1);
            self.receive_more()?;
        }
    }

    fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < len {
            self.receive_more()?;
        }
        Ok(self.unread.drain(..len).collect())
    }

    fn rest(&mut self) -> io::Result<Vec<u8>> {
        while self.receive()? > 0 {}
        Ok(std::mem::take(&mut self.unread))
    }

    fn receive_more(&mut self) -> io::Result<()> {
        match self.receive()? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut piece = vec![0; READ];
        let len = match &mut self.tls {
            None => self.stream.read(&mut piece)?,
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).read(&mut piece)?,
        };
        self.unread.extend_from_slice(&piece[..len]);
        Ok(len)
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Sends one request on a new connection.
#[track_caller]
pub fn exchange(address: SocketAddr, request: &Request) -> Reply {
    RawPeer::connect(address).exchange(request)
}
