//! One request, and the expectation about its reply.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::ops::Range;

use super::Failure;
use super::wire::Reply;

/// One request.
pub(super) struct Ask<'a> {
    pub(super) method: &'static str,
    pub(super) target: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// The part of the body before the media.
    pub(super) before: &'a str,
    /// The number of an upload, and a range of its media.
    pub(super) media: (u64, Range<u64>),
    pub(super) after: &'a str,
    /// Statuses that are expected.
    pub(super) answers: &'a [u16],
}

impl<'a> Ask<'a> {
    pub(super) fn new(method: &'static str, target: &'a str) -> Self {
        Self {
            method,
            target,
            headers: &[],
            before: "",
            media: (0, 0..0),
            after: "",
            answers: &[200],
        }
    }

    /// Bytes of the body.
    pub(super) fn len(&self) -> u64 {
        let (_, range) = &self.media;
        (self.before.len() + self.after.len()) as u64 + (range.end - range.start)
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    pub(super) fn broken(&self, source: io::Error) -> Failure {
        Failure::Connection {
            request: self.name(),
            source,
        }
    }

    /// Everything that goes out before the media.
    pub(super) fn write_head(&self, head: &mut Vec<u8>, host: SocketAddr) {
        head.clear();
        self.try_write_head(head, host)
            .expect("memory takes what is written to it");
    }

    fn try_write_head(&self, head: &mut Vec<u8>, host: SocketAddr) -> io::Result<()> {
        let Self { method, target, .. } = self;
        write!(head, "{method} {target} HTTP/1.1\r\nHost: {host}\r\n")?;
        for (name, value) in self.headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        if !matches!(*method, "GET" | "HEAD") {
            write!(head, "Content-Length: {}\r\n", self.len())?;
        }
        write!(head, "\r\n{}", self.before)
    }

    /// Refuses a reply that was not expected.
    pub(super) fn expect(&self, reply: &Reply) -> Result<(), Failure> {
        if self.answers.contains(&reply.status) {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&reply.body);
        Err(Failure::Status {
            request: self.name(),
            status: reply.status,
            body: body.chars().take(300).collect(),
        })
    }
}
