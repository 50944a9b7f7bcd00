//! A minimal HTTP/1.1 connection, with or without TLS.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// A peer that sends nothing for this long counts as dead.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of bytes per read from the socket.
const READ: usize = 64 * 1024;

/// A connection that is opened when it is needed, and opened again after the server has closed it.
/// A server that serves one connection at a time would otherwise keep all further connections
/// waiting.
#[derive(Debug)]
pub(super) struct Wire {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    stream: Option<BufReader<Socket>>,
    is_closed: bool,
}

/// The stream of a connection.
#[derive(Debug)]
enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A server's reply.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) body: Vec<u8>,
}

/// How a body ends.
enum End {
    After(u64),
    Chunked,
    Close,
}

impl Wire {
    /// A connection to be opened, under TLS when there is a configuration of it.
    pub(super) fn to(address: SocketAddr, tls: Option<Arc<ClientConfig>>) -> Self {
        Self {
            address,
            tls,
            stream: None,
            is_closed: false,
        }
    }

    /// The address as a Host.
    pub(super) fn host(&self) -> SocketAddr {
        self.address
    }

    /// Sends pieces, and reads the whole reply. That to a HEAD has no body, whatever it says.
    pub(super) fn exchange<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
        has_body: bool,
    ) -> io::Result<Reply> {
        let sent = self.send(pieces);
        let mut body = Vec::new();
        let reply = if has_body {
            self.receive(&mut |piece| body.extend_from_slice(piece))
        } else {
            self.head().map(|(reply, _)| reply)
        };
        match (sent, reply) {
            // A server that refuses early may not read the rest. Its reply says more than the error
            // of the broken connection.
            (_, Ok(reply)) => Ok(Reply { body, ..reply }),
            (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(error),
        }
    }

    /// Sends pieces in order.
    pub(super) fn send<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        if self.is_closed {
            *self = Self::to(self.address, self.tls.take());
        }
        let stream = self.stream()?.get_mut();
        pieces
            .into_iter()
            .try_for_each(|piece| stream.write_all(piece))?;
        stream.flush()
    }

    /// Reads a reply. Its body goes into `sink`.
    pub(super) fn receive(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<Reply> {
        loop {
            let (reply, end) = self.head()?;
            if (100..200).contains(&reply.status) {
                continue;
            }
            match end {
                _ if matches!(reply.status, 204 | 304) => {}
                End::After(len) => self.pass(len, sink)?,
                End::Chunked => self.chunks(sink)?,
                End::Close => self.pass_rest(sink)?,
            }
            return Ok(reply);
        }
    }

    /// Whether nothing has come, and the connection is there.
    pub(super) fn is_silent(&mut self) -> io::Result<bool> {
        let stream = self.stream()?.get_ref().tcp();
        stream.set_nonblocking(true)?;
        let looked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        Ok(matches!(looked, Err(error) if error.kind() == ErrorKind::WouldBlock))
    }

    /// The one byte that a floor answers with.
    pub(super) fn receive_byte(&mut self) -> io::Result<()> {
        self.stream()?.read_exact(&mut [0])
    }

    fn stream(&mut self) -> io::Result<&mut BufReader<Socket>> {
        match &mut self.stream {
            Some(stream) => Ok(stream),
            closed => Ok(closed.insert(open(self.address, self.tls.as_ref())?)),
        }
    }

    fn head(&mut self) -> io::Result<(Reply, End)> {
        let mut line = String::new();
        self.line(&mut line)?;
        let status = line.get(9..12).and_then(|digits| digits.parse().ok());
        let mut reply = Reply {
            status: status.ok_or(ErrorKind::InvalidData)?,
            ..Reply::default()
        };
        // HTTP/1.0 closes unless it says otherwise.
        self.is_closed = line.starts_with("HTTP/1.0");
        let mut end = End::Close;
        loop {
            self.line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                return Ok((reply, end));
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                end = End::After(value.parse().map_err(|_| ErrorKind::InvalidData)?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                end = End::Chunked;
            } else if name.eq_ignore_ascii_case("location") {
                reply.location = Some(value.to_owned());
            } else if name.eq_ignore_ascii_case("connection") {
                self.is_closed = value.eq_ignore_ascii_case("close");
            }
        }
    }

    fn line(&mut self, line: &mut String) -> io::Result<()> {
        line.clear();
        match self.stream()?.read_line(line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn chunks(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut line = String::new();
        loop {
            self.line(&mut line)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let len = u64::from_str_radix(digits, 16).map_err(|_| ErrorKind::InvalidData)?;
            self.pass(len, sink)?;
            self.line(&mut line)?;
            if len == 0 {
                return Ok(());
            }
        }
    }

    fn pass(&mut self, len: u64, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let piece = self.stream()?.fill_buf()?;
            if piece.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let taken = usize::try_from(left).unwrap_or(READ).min(piece.len());
            sink(&piece[..taken]);
            self.stream()?.consume(taken);
            left -= taken as u64;
        }
        Ok(())
    }

    fn pass_rest(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.is_closed = true;
        loop {
            let piece = self.stream()?.fill_buf()?;
            let len = piece.len();
            if len == 0 {
                return Ok(());
            }
            sink(piece);
            self.stream()?.consume(len);
        }
    }
}

impl Socket {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => &tls.sock,
        }
    }
}

impl io::Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl io::Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

fn open(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> io::Result<BufReader<Socket>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let socket = match tls {
        None => Socket::Plain(stream),
        Some(config) => {
            let name = address.ip().into();
            let connection = ClientConnection::new(Arc::clone(config), name);
            let connection = connection.map_err(io::Error::other)?;
            Socket::Tls(Box::new(StreamOwned::new(connection, stream)))
        }
    };
    Ok(BufReader::with_capacity(READ, socket))
}
