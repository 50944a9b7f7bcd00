//! One connection that uploads in sequence.

use std::io;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::units::KIB;

use super::ask::Ask;
use super::dialect::{Shape, name, path};
use super::http2::Http2;
use super::protocol::Transport;
use super::wire::{Reply, Wire};
use super::{Failure, Load, LoadTarget};

/// Media up to this size goes out in one write with its head.
const SMALL: u64 = 64 * KIB;

const OCTETS: &str = "application/octet-stream";

/// The version that every request of tus names.
const TUS: (&str, &str) = ("Tus-Resumable", "1.0.0");

const TUS_MEDIA: (&str, &str) = ("Content-Type", "application/offset+octet-stream");

const BOUNDARY: &str = "between-the-parts-of-a-bench";

/// The kind of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// How much a session has.
    Status,
    /// A hundred uploads.
    List,
}

/// How long a list is.
const LIST: usize = 100;

/// The data of an acknowledged upload.
#[derive(Debug)]
pub(super) struct Receipt {
    number: u64,
    location: String,
    reply: Vec<u8>,
}

/// A connection to a server, and the durations of its requests.
#[derive(Debug)]
pub(super) struct Uploader<'a> {
    load_target: LoadTarget<'a>,
    load: &'a Load,
    wire: Wire,
    /// Carries requests instead of `wire`; downloads come over `wire` all the same.
    http2: Option<Http2>,
    /// The part of a request before the media. It is kept to reuse its memory.
    head: Vec<u8>,
    laps: Vec<Duration>,
}

const DONE: &[u16] = &[200, 201, 204];

impl<'a> Uploader<'a> {
    /// Creates an uploader that has not sent anything.
    pub(super) fn new(load_target: LoadTarget<'a>, load: &'a Load) -> Self {
        let address = load_target.address;
        let (http1, http2) = match load_target.transport {
            Transport::Http1 => (None, None),
            Transport::Http1Tls(tls) => (Some(&tls.http1), None),
            Transport::Http2Tls(tls) => (Some(&tls.http1), Some(&tls.http2)),
        };
        Self {
            load_target,
            load,
            wire: Wire::to(address, http1.map(Arc::clone)),
            http2: http2.map(|tls| Http2::to(address, Arc::clone(tls))),
            head: Vec::new(),
            laps: Vec::new(),
        }
    }

    /// Bytes of each upload.
    pub(super) fn size(&self) -> u64 {
        self.load.size
    }

    /// Returns the duration of each request.
    pub(super) fn into_laps(self) -> Vec<Duration> {
        self.laps
    }

    /// Carries out the upload with this number.
    pub(super) fn upload(&mut self, number: u64) -> Result<Receipt, Failure> {
        if self.load_target.shape == Shape::Tcp {
            return self.tcp(number);
        }
        let target = self
            .load_target
            .targets
            .of(self.load_target.shape, number)?;
        match self.load_target.shape {
            Shape::Tcp | Shape::Put => self.put(number, &target),
            Shape::PutChunks => self.put_chunks(number, target),
            Shape::Simple => self.simple(number, &target),
            Shape::Multipart => self.multipart(number, &target, &name(number)),
            Shape::Session | Shape::SessionChunks => self.session(number),
            Shape::Tus | Shape::TusChunks => self.tus(number),
        }
    }

    fn tcp(&mut self, number: u64) -> Result<Receipt, Failure> {
        let start = Instant::now();
        let length = self.load.size.to_be_bytes();
        let media = self.load_target.block.pieces(number, 0..self.load.size);
        let sent = self.wire.send(iter::once(&length[..]).chain(media));
        sent.and_then(|()| self.wire.receive_byte())
            .map_err(|source| Failure::Connection {
                request: "tcp".to_owned(),
                source,
            })?;
        self.laps.push(start.elapsed());
        Ok(Receipt::of(number, String::new(), Reply::default()))
    }

    fn put(&mut self, number: u64, target: &str) -> Result<Receipt, Failure> {
        let reply = self.ask(&Ask {
            media: (number, 0..self.load.size),
            answers: DONE,
            ..Ask::new("PUT", target)
        })?;
        Ok(Receipt::of(number, target.to_owned(), reply))
    }

    fn put_chunks(&mut self, number: u64, target: String) -> Result<Receipt, Failure> {
        let reply = self.content_ranges(number, &target, self.load.chunk)?;
        Ok(Receipt::of(number, target, reply))
    }

    fn simple(&mut self, number: u64, target: &str) -> Result<Receipt, Failure> {
        let reply = self.ask(&Ask {
            headers: &[("Content-Type", OCTETS)],
            media: (number, 0..self.load.size),
            answers: DONE,
            ..Ask::new("POST", target)
        })?;
        Ok(Receipt::of(number, String::new(), reply))
    }

    fn multipart(&mut self, number: u64, target: &str, name: &str) -> Result<Receipt, Failure> {
        let kind = format!("multipart/related; boundary={BOUNDARY}");
        let metadata = metadata(name);
        let before = format!(
            "--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n\
             --{BOUNDARY}\r\nContent-Type: {OCTETS}\r\n\r\n"
        );
        let reply = self.ask(&Ask {
            headers: &[("Content-Type", &kind)],
            before: &before,
            media: (number, 0..self.load.size),
            after: &format!("\r\n--{BOUNDARY}--\r\n"),
            answers: DONE,
            ..Ask::new("POST", target)
        })?;
        Ok(Receipt::of(number, String::new(), reply))
    }

    fn session(&mut self, number: u64) -> Result<Receipt, Failure> {
        let location = self.begin(number)?;
        let chunk = match self.load_target.shape {
            Shape::SessionChunks => self.load.chunk,
            _ => self.load.size,
        };
        let reply = self.content_ranges(number, &location, chunk)?;
        Ok(Receipt::of(number, location, reply))
    }

    /// Opens a session and tells where it is.
    pub(super) fn begin(&mut self, number: u64) -> Result<String, Failure> {
        let target = self
            .load_target
            .targets
            .of(self.load_target.shape, number)?;
        let size = self.load.size.to_string();
        let google = [
            ("Content-Type", "application/json"),
            ("X-Upload-Content-Type", OCTETS),
            ("X-Upload-Content-Length", &size),
        ];
        let tus = [TUS, ("Upload-Length", &size)];
        let metadata = metadata(&name(number));
        let is_tus = matches!(self.load_target.shape, Shape::Tus | Shape::TusChunks);
        let reply = self.ask(&Ask {
            headers: if is_tus { &tus } else { &google },
            before: if is_tus { "" } else { &metadata },
            answers: &[200, 201],
            ..Ask::new("POST", &target)
        })?;
        let location = reply.location.as_deref();
        let location = location.ok_or_else(|| Failure::NoLocation(format!("POST {target}")))?;
        Ok(path(location).to_owned())
    }

    /// A PUT with its Content-Range for each chunk.
    fn content_ranges(&mut self, number: u64, target: &str, chunk: u64) -> Result<Reply, Failure> {
        let mut reply = Reply::default();
        for range in chunks(self.load.size, chunk) {
            let (last, size) = (range.end - 1, self.load.size);
            let content_range = format!("bytes {}-{last}/{size}", range.start);
            reply = self.ask(&Ask {
                headers: &[("Content-Type", OCTETS), ("Content-Range", &content_range)],
                answers: if range.end < size { &[308] } else { DONE },
                media: (number, range),
                ..Ask::new("PUT", target)
            })?;
        }
        Ok(reply)
    }

    fn tus(&mut self, number: u64) -> Result<Receipt, Failure> {
        let location = self.begin(number)?;
        let chunk = match self.load_target.shape {
            Shape::TusChunks => self.load.chunk,
            _ => self.load.size,
        };
        for range in chunks(self.load.size, chunk) {
            let offset = range.start.to_string();
            self.ask(&Ask {
                headers: &[TUS, TUS_MEDIA, ("Upload-Offset", &offset)],
                media: (number, range),
                answers: &[204],
                ..Ask::new("PATCH", &location)
            })?;
        }
        Ok(Receipt::of(number, location, Reply::default()))
    }

    /// Carries out a request and takes its time.
    fn ask(&mut self, ask: &Ask<'_>) -> Result<Reply, Failure> {
        let start = Instant::now();
        let reply = match &mut self.http2 {
            Some(http2) => http2.exchange(ask, self.load_target.block),
            None => self.exchange(ask),
        };
        let reply = reply.map_err(|source| ask.broken(source))?;
        self.laps.push(start.elapsed());
        ask.expect(&reply)?;
        Ok(reply)
    }

    /// Sends a request over HTTP/1.1 and reads the whole reply.
    fn exchange(&mut self, ask: &Ask<'_>) -> io::Result<Reply> {
        ask.write_head(&mut self.head, self.wire.host());
        let (number, range) = ask.media.clone();
        let is_small = range.end - range.start <= SMALL;
        let media = self.load_target.block.pieces(number, range);
        if is_small {
            media.for_each(|piece| self.head.extend_from_slice(piece));
            self.head.extend_from_slice(ask.after.as_bytes());
            let has_body = ask.method != "HEAD";
            self.wire.exchange(iter::once(&self.head[..]), has_body)
        } else {
            let head = iter::once(&self.head[..]);
            let after = iter::once(ask.after.as_bytes());
            self.wire.exchange(head.chain(media).chain(after), true)
        }
    }
}

impl Receipt {
    fn of(number: u64, location: String, reply: Reply) -> Self {
        Self {
            number,
            location,
            reply: reply.body,
        }
    }
}

fn chunks(size: u64, chunk: u64) -> impl Iterator<Item = Range<u64>> {
    let chunk = chunk.max(1);
    let starts = (0..size.div_ceil(chunk)).map(move |index| index * chunk);
    starts.map(move |start| start..(start + chunk).min(size))
}

fn metadata(name: &str) -> String {
    format!(r#"{{"name":"{name}"}}"#)
}

impl Uploader<'_> {
    /// Asks for anything that gets an answer.
    pub(super) fn greet(&mut self) -> Result<(), Failure> {
        if self.load_target.shape == Shape::Tcp {
            return self.upload(0).map(drop);
        }
        let ask = Ask::new("GET", "/");
        ask.write_head(&mut self.head, self.wire.host());
        let reply = self.wire.exchange(iter::once(&self.head[..]), true);
        reply.map(drop).map_err(|source| ask.broken(source))
    }

    /// Asks how much a session has, which is nothing.
    pub(super) fn status(&mut self, location: &str) -> Result<(), Failure> {
        let content_range = format!("bytes */{}", self.load.size);
        let ask = match self.load_target.shape {
            Shape::Tus | Shape::TusChunks => &Ask {
                headers: &[TUS],
                answers: &[200, 204],
                ..Ask::new("HEAD", location)
            },
            _ => &Ask {
                headers: &[("Content-Range", &content_range)],
                answers: &[308],
                ..Ask::new("PUT", location)
            },
        };
        self.ask(ask).map(drop)
    }

    /// Asks for a list. Returns the reply.
    pub(super) fn list(&mut self) -> Result<Vec<u8>, Failure> {
        let target = self.load_target.targets.list()?;
        Ok(self.ask(&Ask::new("GET", target))?.body)
    }

    /// Looks into a list, which has to be a whole one.
    pub(super) fn check_list(&mut self) -> Result<(), Failure> {
        let list: Value = serde_json::from_slice(&self.list()?).unwrap_or_default();
        let count = list["items"].as_array().map_or(0, Vec::len);
        if count == LIST {
            return Ok(());
        }
        let target = self.load_target.targets.list()?.to_owned();
        Err(Failure::Short { target, count })
    }
}

impl Uploader<'_> {
    /// Reads an upload back and compares it with the sent media. Returns false if there is no way
    /// to read it.
    pub(super) fn compare(&mut self, receipt: &Receipt) -> Result<bool, Failure> {
        let Some(target) = self.download_target(receipt) else {
            return Ok(false);
        };
        let (mut end, mut is_same) = (0, true);
        let block = self.load_target.block;
        self.fetch(&target, &mut |piece| {
            let range = end..end + piece.len() as u64;
            let mut rest = piece;
            for part in block.pieces(receipt.number, range.clone()) {
                let (now, later) = rest.split_at(part.len());
                is_same &= now == part;
                rest = later;
            }
            if is_same {
                end = range.end;
            }
        })?;
        if is_same && end == self.load.size {
            return Ok(true);
        }
        Err(Failure::Differs { target, end })
    }

    /// Downloads an upload, and looks at nothing of it but its length.
    pub(super) fn download(&mut self, receipt: &Receipt) -> Result<(), Failure> {
        let target = self.download_target(receipt).ok_or(Failure::NoTarget)?;
        let start = Instant::now();
        let mut end = 0;
        self.fetch(&target, &mut |piece| end += piece.len() as u64)?;
        self.laps.push(start.elapsed());
        if end == self.load.size {
            return Ok(());
        }
        Err(Failure::Differs { target, end })
    }

    fn download_target(&self, receipt: &Receipt) -> Option<String> {
        let Receipt {
            number,
            location,
            reply,
        } = receipt;
        self.load_target.targets.download(*number, location, reply)
    }

    /// Gets a body, which goes into `sink`.
    fn fetch(&mut self, target: &str, sink: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        let ask = Ask::new("GET", target);
        ask.write_head(&mut self.head, self.wire.host());
        let sent = self.wire.send(iter::once(&self.head[..]));
        let reply = sent.and_then(|()| self.wire.receive(sink));
        ask.expect(&reply.map_err(|source| ask.broken(source))?)
    }
}

impl Uploader<'_> {
    /// Begins the upload with this number, and its one request with media, of which `first` bytes
    /// are sent.
    pub(super) fn leave_off(&mut self, number: u64, first: u64) -> Result<(), Failure> {
        let size = self.load.size;
        let content_range = format!("bytes 0-{}/{size}", size.saturating_sub(1));
        let google = [("Content-Type", OCTETS), ("Content-Range", &content_range)];
        let tus = [TUS, TUS_MEDIA, ("Upload-Offset", "0")];
        let (method, headers, target): (_, &[_], _) = match self.load_target.shape {
            Shape::Session => ("PUT", &google, self.begin(number)?),
            Shape::Tus => ("PATCH", &tus, self.begin(number)?),
            _ => ("PUT", &[], self.load_target.targets.of(Shape::Put, number)?),
        };
        let ask = Ask {
            headers,
            media: (number, 0..size),
            ..Ask::new(method, &target)
        };
        ask.write_head(&mut self.head, self.wire.host());
        let media = self.load_target.block.pieces(number, 0..first);
        let sent = self.wire.send(iter::once(&self.head[..]).chain(media));
        sent.map_err(|source| ask.broken(source))
    }

    /// Sends more of its media. The server must not have said anything yet.
    pub(super) fn go_on(&mut self, number: u64, range: Range<u64>) -> Result<(), Failure> {
        let name = || format!("upload {number}, bytes {range:?}");
        let broken = |source| Failure::Connection {
            request: name(),
            source,
        };
        if !self.wire.is_silent().map_err(broken)? {
            return Err(Failure::Hasty(name()));
        }
        let media = self.load_target.block.pieces(number, range.clone());
        self.wire.send(media).map_err(broken)
    }
}
