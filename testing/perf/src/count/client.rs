//! A client that sends what it is told to, and fails where the status is another one.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is sent at once, as far as there is as much. A request that is not longer goes out in one piece, so that the server finds all of
/// it at its first read.
const PIECE: usize = 1 << 20;

/// Room for what comes before the media in a request.
const HEAD: usize = 4 * 1024;

/// Room for a reply.
const REPLY: usize = 16 * 1024;

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    /// A request's head, and its body as far as it goes out with it.
    request: Vec<u8>,
    /// What media is made of.
    media: Vec<u8>,
    reply: Vec<u8>,
}

/// A request but for its media.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    /// Method and target.
    pub(crate) line: (&'static str, &'a str),
    /// Headers, each with its line end.
    pub(crate) headers: std::fmt::Arguments<'a>,
    /// What comes before the media in the body, and behind it.
    pub(crate) around: (&'static str, &'static str),
    /// How much media.
    pub(crate) media: u64,
    /// The status that must come.
    pub(crate) status: u16,
}

/// The head of a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply<'a>(&'a str);

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // No two neighbours are alike, so that nothing is mistaken for a boundary.
        let media = (0u8..251).cycle().take(PIECE).collect();
        Ok(Self {
            stream,
            request: Vec::with_capacity(HEAD + PIECE),
            media,
            reply: vec![0; REPLY],
        })
    }

    /// Sends a request and reads the reply.
    ///
    /// # Errors
    /// When the connection breaks, or the status is another one.
    pub(crate) fn ask(&mut self, ask: &Ask<'_>) -> anyhow::Result<Reply<'_>> {
        self.send(ask)?;
        let head = self.receive()?;
        let text = std::str::from_utf8(&self.reply[head]).context("a reply's head is text")?;
        let reply = Reply(text);
        let (verb, target) = ask.line;
        ensure!(
            reply.status() == Some(ask.status),
            "{verb} {target}: {text}"
        );
        Ok(reply)
    }

    fn send(&mut self, ask: &Ask<'_>) -> anyhow::Result<()> {
        let (verb, target) = ask.line;
        let (before, behind) = ask.around;
        let length = ask.media + (before.len() + behind.len()) as u64;
        self.request.clear();
        write!(
            self.request,
            "{verb} {target} HTTP/1.1\r\nHost: farm.example\r\nContent-Length: {length}\r\n{}\r\n{before}",
            ask.headers,
        )?;
        let mut left = ask.media;
        let first = piece(left);
        self.request.extend_from_slice(&self.media[..first]);
        left -= first as u64;
        if left == 0 {
            self.request.extend_from_slice(behind.as_bytes());
            return Ok(self.stream.write_all(&self.request)?);
        }
        self.stream.write_all(&self.request)?;
        while left > 0 {
            let next = piece(left);
            self.stream.write_all(&self.media[..next])?;
            left -= next as u64;
        }
        Ok(self.stream.write_all(behind.as_bytes())?)
    }

    /// Reads a reply to its end and returns where its head is.
    fn receive(&mut self) -> anyhow::Result<Range<usize>> {
        let mut filled = 0;
        let mut whole = None;
        while whole.is_none_or(|(_, end)| filled < end) {
            ensure!(filled < REPLY, "a reply of more than {REPLY} bytes");
            match self.stream.read(&mut self.reply[filled..])? {
                0 => bail!("the server hung up"),
                read => filled += read,
            }
            whole = whole.or_else(|| extent(&self.reply[..filled]));
        }
        let (head, end) = whole.context("it has come")?;
        ensure!(filled == end, "more has come than a reply");
        Ok(0..head)
    }
}

impl<'a> Reply<'a> {
    fn status(self) -> Option<u16> {
        self.0.split(' ').nth(1)?.parse().ok()
    }

    /// The value of a header.
    pub(crate) fn header(self, name: &str) -> Option<&'a str> {
        let lines = self.0.split("\r\n").skip(1);
        let mut fields = lines.filter_map(|line| line.split_once(':'));
        let found = fields.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }
}

fn piece(left: u64) -> usize {
    usize::try_from(left).map_or(PIECE, |left| left.min(PIECE))
}

/// Where the head of a reply ends, and the reply, once the head is there.
fn extent(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let length = Reply(text).header("content-length");
    let body: usize = length.map_or(Some(0), |length| length.parse().ok())?;
    Some((head, head + 4 + body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_ends_where_its_head_says() {
        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        assert_eq!(extent(reply), Some((34, reply.len())));
        assert_eq!(extent(&reply[..37]), None);
        assert_eq!(extent(b"HTTP/1.1 204 No Content\r\n\r\n"), Some((23, 27)));
    }
}
