//! An HTTP/2 peer without abstractions (RFC 9113). It sends the frames of a test, opens its windows
//! only as far as the test says, and shows the received frames.
//!
//! The peer itself answers SETTINGS and PING. It sends header fields without Huffman coding and
//! without a dynamic table, and announces that the server may not use a dynamic table either.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::raw::{RawPeer, Reply};
use crate::wait::PATIENCE;

/// The first bytes of a connection.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
/// The frame type HEADERS.
pub const HEADERS: u8 = 1;
/// The frame type `RST_STREAM`.
pub const RST_STREAM: u8 = 3;
/// The frame type SETTINGS.
pub const SETTINGS: u8 = 4;
/// The frame type PING.
pub const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// The frame type CONTINUATION.
pub const CONTINUATION: u8 = 9;

/// The flag of a DATA or HEADERS frame that ends its stream; of SETTINGS and PING, that it is an
/// answer.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
/// The flag of a HEADERS or CONTINUATION frame that ends the block of header fields.
pub const END_HEADERS: u8 = 4;

/// The setting `SETTINGS_MAX_CONCURRENT_STREAMS`.
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
/// The setting `SETTINGS_INITIAL_WINDOW_SIZE`.
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// The window of a connection before the server opens it further.
const FIRST_WINDOW: u32 = 65_535;

/// The error code `NO_ERROR`.
pub const NO_ERROR: u32 = 0;
/// The error code `CANCEL`.
pub const CANCEL: u32 = 8;

/// The longest frame that a server takes unless it says something else.
const FRAME_LEN: usize = 16 * 1024;

/// One connection over HTTP/2.
#[derive(Debug)]
pub struct Http2Peer {
    peer: RawPeer,
    scheme: &'static str,
    next_stream: u32,
    patience: Duration,
    /// The settings of the server.
    settings: Vec<(u16, u32)>,
    /// The window of the connection at its beginning.
    connection_window: u32,
    /// Content of the questions that are not answered.
    unanswered: Option<[u8; 8]>,
}

/// An event on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The head of a reply.
    Head {
        /// Its stream.
        stream: u32,
        /// Its status.
        status: u16,
        /// Whether no body follows.
        is_last: bool,
    },
    /// Bytes of a body.
    Data {
        /// Its stream.
        stream: u32,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether they are the last ones.
        is_last: bool,
    },
    /// The stream was given up.
    Reset {
        /// Which one.
        stream: u32,
    },
    /// The connection takes no more streams.
    GoAway,
}

impl Http2Peer {
    /// Connects without TLS, and waits until the server has sent SETTINGS and `WINDOW_UPDATE`. On
    /// each stream the server may send `window` bytes before it is allowed more.
    #[track_caller]
    pub fn connect(address: SocketAddr, window: u32) -> Self {
        Self::over(RawPeer::connect(address), "http", window)
    }

    /// Like [`Http2Peer::connect`], under TLS. The client offers `h2` (ALPN), which the server must
    /// choose.
    #[track_caller]
    pub fn connect_tls(address: SocketAddr, client: &Arc<ClientConfig>, window: u32) -> Self {
        let raw = RawPeer::connect_tls(address, client);
        assert_eq!(raw.alpn(), Some(&b"h2"[..]), "another protocol");
        Self::over(raw, "https", window)
    }

    #[track_caller]
    fn over(mut raw: RawPeer, scheme: &'static str, window: u32) -> Self {
        // SETTINGS_HEADER_TABLE_SIZE, and SETTINGS_INITIAL_WINDOW_SIZE.
        let mut settings = vec![0, 1, 0, 0, 0, 0, 0, 4];
        settings.extend(window.to_be_bytes());
        raw.send([PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat());
        let mut peer = Self {
            peer: raw,
            scheme,
            next_stream: 1,
            patience: PATIENCE,
            settings: Vec::new(),
            connection_window: FIRST_WINDOW,
            unanswered: None,
        };
        let mut awaited = vec![SETTINGS, WINDOW_UPDATE];
        while !awaited.is_empty() {
            let (kind, flags, _, payload) = peer.frame().expect("a server says how much it takes");
            if flags & ACK == 0 {
                peer.take_note(kind, &payload);
                awaited.retain(|it| *it != kind);
            }
        }
        peer
    }

    /// Records the server's settings and windows.
    fn take_note(&mut self, kind: u8, payload: &[u8]) {
        match (kind, payload) {
            (SETTINGS, settings) => {
                let settings = settings.chunks_exact(6);
                self.settings.extend(settings.map(|it| {
                    let value = u32::from_be_bytes([it[2], it[3], it[4], it[5]]);
                    (u16::from_be_bytes([it[0], it[1]]), value)
                }));
            }
            (WINDOW_UPDATE, &[a, b, c, d]) => {
                self.connection_window += u32::from_be_bytes([a, b, c, d]);
            }
            _ => {}
        }
    }

    /// The value of a setting that the server has stated at the beginning.
    pub fn setting(&self, id: u16) -> Option<u32> {
        let of_id = self.settings.iter().find(|(it, _)| *it == id);
        of_id.map(|(_, value)| *value)
    }

    /// Bytes of bodies that may be sent on a fresh connection.
    pub fn connection_window(&self) -> u32 {
        self.connection_window
    }

    /// Sends the head of a request. Returns its stream.
    #[track_caller]
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        is_last: bool,
    ) -> u32 {
        let pseudo = self.pseudo(method, path);
        self.head(&[&pseudo, headers].concat(), is_last)
    }

    fn pseudo<'a>(&self, method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
        [
            (":method", method),
            (":scheme", self.scheme),
            (":path", path),
            (":authority", "farm.localhost"),
        ]
    }

    /// Sends a head of these fields alone. Returns its stream.
    #[track_caller]
    pub fn head(&mut self, fields: &[(&str, &str)], is_last: bool) -> u32 {
        let sent = self.try_head(fields, is_last);
        sent.expect("the server takes it")
    }

    fn try_head(&mut self, fields: &[(&str, &str)], is_last: bool) -> io::Result<u32> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let block = header_block(fields);
        let flags = END_HEADERS | if is_last { END_STREAM } else { 0 };
        self.peer.try_send(frame(HEADERS, flags, stream, &block))?;
        Ok(stream)
    }

    /// Asks for a path. Returns the stream.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> u32 {
        self.request("GET", path, &[], true)
    }

    /// Like [`Http2Peer::get`], from a server that may have closed the connection.
    ///
    /// # Errors
    /// When it has.
    pub fn try_get(&mut self, path: &str) -> io::Result<u32> {
        self.try_head(&self.pseudo("GET", path), true)
    }

    /// Gives a stream up.
    ///
    /// # Errors
    /// When the server has closed the connection.
    pub fn reset(&mut self, stream: u32) -> io::Result<()> {
        self.reset_with(stream, CANCEL)
    }

    /// Gives a stream up, for the reason that this error code states.
    ///
    /// # Errors
    /// When the server has closed the connection.
    pub fn reset_with(&mut self, stream: u32, code: u32) -> io::Result<()> {
        let reset = frame(RST_STREAM, 0, stream, &code.to_be_bytes());
        self.peer.try_send(reset)
    }

    /// Waits until the server has read all sent bytes. Frames that come meanwhile are dropped.
    ///
    /// # Errors
    /// The server has closed the connection, or does not answer in time.
    pub fn ping(&mut self) -> io::Result<()> {
        self.peer.try_send(frame(PING, 0, 0, &[0; 8]))?;
        while !matches!(self.frame()?, (PING, flags, ..) if flags & ACK != 0) {}
        Ok(())
    }

    /// Sends bytes of a body, whatever window the server has given.
    #[track_caller]
    pub fn data(&mut self, stream: u32, bytes: &[u8], is_last: bool) {
        let mut pieces = bytes.chunks(FRAME_LEN).peekable();
        while let Some(piece) = pieces.next() {
            let ends = is_last && pieces.peek().is_none();
            self.peer
                .send(frame(DATA, u8::from(ends) * END_STREAM, stream, piece));
        }
    }

    /// Lets the server send this many more bytes: on a stream, or on the connection (0).
    #[track_caller]
    pub fn open_window(&mut self, stream: u32, bytes: u32) {
        self.peer
            .send(frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()));
    }

    /// Answers no PING with this content from now on.
    pub fn leave_unanswered(&mut self, question: [u8; 8]) {
        self.unanswered = Some(question);
    }

    /// How long the peer waits for an event, from now on.
    pub fn set_patience(&mut self, limit: Duration) {
        self.patience = limit;
        self.peer.set_patience(limit);
    }

    /// The next thing that the server sends; `None` when it has closed the connection.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` when nothing came in time. A question whether the peer is there
    /// is nothing.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        let begun = Instant::now();
        while begun.elapsed() < self.patience {
            let (kind, flags, stream, payload) = match self.frame() {
                Ok(frame) => frame,
                Err(error) if is_end(error.kind()) => return Ok(None),
                Err(error) => return Err(error),
            };
            let is_last = flags & END_STREAM != 0;
            let event = match kind {
                DATA => Event::Data {
                    stream,
                    bytes: payload,
                    is_last,
                },
                HEADERS => Event::Head {
                    stream,
                    status: status(&payload)?,
                    is_last,
                },
                RST_STREAM => Event::Reset { stream },
                GOAWAY => Event::GoAway,
                _ => continue,
            };
            return Ok(Some(event));
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// Returns the next frame: its type, its flags, its stream and its payload. SETTINGS and PING
    /// are answered.
    fn frame(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        let head = self.peer.bytes(9)?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.peer.bytes(len as usize)?;
        let is_answered = kind == SETTINGS
            || kind == PING && self.unanswered.is_none_or(|question| payload != question);
        if is_answered && flags & ACK == 0 {
            let answer = if kind == PING { &payload[..] } else { &[] };
            // It may have hung up meanwhile, which the next frame tells.
            self.peer.try_send(frame(kind, ACK, 0, answer)).ok();
        }
        Ok((kind, flags, stream, payload))
    }

    /// Whether the server closes the connection while the peer is patient. Whatever else it sends
    /// is passed by.
    pub fn is_closed(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < self.patience {
            match self.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Reads the whole reply on a stream, and drops the frames of all other streams.
    #[track_caller]
    pub fn reply(&mut self, stream: u32) -> Reply {
        let mut reply = Reply::default();
        loop {
            let event = self.next_event().expect("a frame comes in time");
            match event.expect("the connection is open") {
                Event::Head {
                    stream: of,
                    status,
                    is_last,
                } if of == stream => {
                    reply.status = status;
                    if is_last {
                        return reply;
                    }
                }
                Event::Data {
                    stream: of,
                    bytes,
                    is_last,
                } if of == stream => {
                    reply.body.extend(bytes);
                    if is_last {
                        return reply;
                    }
                }
                Event::Reset { stream: of } if of == stream => panic!("the stream was reset"),
                _ => {}
            }
        }
    }
}

fn is_end(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// Returns a frame.
///
/// # Panics
/// If the payload is longer than a length can say.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a frame is short");
    let mut frame = len.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns a block of header fields, which adds none to the dynamic table.
pub fn header_block<'a>(fields: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        push_text(&mut block, name);
        push_text(&mut block, value);
    }
    block
}

/// A text as HPACK has it, without Huffman coding (RFC 7541, 5.2).
fn push_text(block: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(len) if len < 127 => block.push(len),
        _ => {
            block.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).expect("below 128") | 128);
                rest /= 128;
            }
            block.push(u8::try_from(rest).expect("below 128"));
        }
    }
    block.extend(text.as_bytes());
}

/// The status in a block of header fields, where it comes first: a whole field of the static table,
/// or a field that has its name from there (RFC 7541, 6.1 and 6.2, appendix A).
fn status(block: &[u8]) -> io::Result<u16> {
    const WHOLE: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    let mut bytes = block.iter().copied();
    // The encoder may say first that it has no dynamic table.
    let first = bytes.find(|byte| byte & 0xe0 != 0x20).unwrap_or_default();
    if first & 0x80 != 0 {
        let index = usize::from(first & 0x7f);
        return index
            .checked_sub(8)
            .and_then(|index| WHOLE.get(index).copied())
            .ok_or_else(|| io::Error::other(format!("no status: {block:02x?}")));
    }
    let length = bytes.next().unwrap_or_default();
    let text: Vec<_> = bytes.take(usize::from(length & 0x7f)).collect();
    let digits = if length & 0x80 == 0 {
        text
    } else {
        huffman_digits(&text)
    };
    String::from_utf8_lossy(&digits)
        .parse()
        .map_err(io::Error::other)
}

/// Digits in Huffman coding: 0, 1 and 2 have five bits, which identify them; all further digits
/// have six bits (RFC 7541, appendix B).
fn huffman_digits(text: &[u8]) -> Vec<u8> {
    let mut bits = text
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let mut digits = Vec::new();
    loop {
        let Some(mut code) = (0..5).try_fold(0, |code, _| Some(code << 1 | bits.next()?)) else {
            return digits;
        };
        if code > 2 {
            let Some(bit) = bits.next() else {
                return digits;
            };
            code = code << 1 | bit;
            if code == 0b11_1111 {
                return digits;
            }
            // The code of 3 is 011001, and the codes of the further digits follow in sequence.
            match code.checked_sub(0b01_1001 - 3) {
                Some(digit) => code = digit,
                None => return digits,
            }
        }
        digits.push(b'0' + code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_whichever_way_it_is_written() {
        let blocks: [(&[u8], u16); 5] = [
            (&[0x88], 200),
            (&[0x20, 0x8d], 404),
            (&[0x08, 3, b'5', b'0', b'3'], 503),
            (&[0x48, 0x82, 0x64, 0x02], 302),
            (&[0x08, 0x83, 0x6c, 0x0c, 0xff], 503),
        ];
        for (block, expected) in blocks {
            assert_eq!(status(block).unwrap(), expected, "{block:02x?}");
        }
    }

    #[test]
    fn long_texts_have_long_lengths() {
        for len in [0, 126, 127, 128, 254, 255, 20_000] {
            let mut block = Vec::new();
            push_text(&mut block, &"x".repeat(len));
            let prefix = block.len() - len;
            let rest = block[1..prefix].iter().rev();
            let rest = rest.fold(0, |rest, byte| rest << 7 | usize::from(byte & 127));
            assert_eq!(usize::from(block[0]) + rest, len);
        }
    }
}
