//! Where a body ends.

use std::io::{self, ErrorKind};

use super::head::Head;

#[cfg(test)]
mod tests;

/// The rest of a body that is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Framing {
    /// This number of bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(Chunked),
    /// All that comes.
    UntilClose,
}

/// The next part of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunked {
    /// The line with a chunk's size, of which this much was read.
    Size(u64),
    /// The rest of that line: an extension.
    Extension(u64),
    /// This number of bytes of a chunk.
    Data(u64),
    /// The end of the line behind a chunk.
    DataEnd,
    /// A line of the trailers; the empty one is the last.
    Trailer { is_empty: bool },
    /// Nothing.
    Done,
}

/// A stretch of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its bytes on the wire.
    pub(super) wire: usize,
    /// How many of them are not transfer coding.
    pub(super) body: u64,
}

impl Framing {
    pub(super) fn of_request(head: &Head) -> Self {
        if head.is_chunked() {
            return Self::Chunked(Chunked::Size(0));
        }
        Self::Length(head.content_length().unwrap_or(0))
    }

    /// The body of the reply to a request with this verb. A 308 without a length has none: that is
    /// how the protocol uses it.
    pub(super) fn of_reply(verb: &str, status: u16, head: &Head) -> Self {
        if verb == "HEAD" || matches!(status, 100..200 | 204 | 304) {
            return Self::Length(0);
        }
        match head.content_length() {
            _ if head.is_chunked() => Self::Chunked(Chunked::Size(0)),
            Some(length) => Self::Length(length),
            None if status == 308 => Self::Length(0),
            None => Self::UntilClose,
        }
    }

    /// Whether nothing is left. A body that ends with the connection is never complete.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunked::Done))
    }

    /// Skips the body's part of `bytes`, up to `limit` bytes without transfer coding.
    ///
    /// # Errors
    /// `InvalidData` when a chunk's size is no number.
    pub(super) fn advance(&mut self, bytes: &[u8], limit: u64) -> io::Result<Stretch> {
        match self {
            Self::Length(left) => {
                let taken = (bytes.len() as u64).min(*left).min(limit);
                *left -= taken;
                Ok(plain(taken))
            }
            Self::UntilClose => Ok(plain((bytes.len() as u64).min(limit))),
            Self::Chunked(state) => state.advance(bytes, limit),
        }
    }
}

/// At most as many bytes as there are in a slice.
fn plain(taken: u64) -> Stretch {
    Stretch {
        wire: usize::try_from(taken).expect("no longer than a slice"),
        body: taken,
    }
}

impl Chunked {
    fn advance(&mut self, bytes: &[u8], limit: u64) -> io::Result<Stretch> {
        let mut passed = Stretch::default();
        while passed.wire < bytes.len() && passed.body < limit && *self != Self::Done {
            let rest = &bytes[passed.wire..];
            if let Self::Data(left) = *self {
                let taken = left.min(rest.len() as u64).min(limit - passed.body);
                passed.wire += plain(taken).wire;
                passed.body += taken;
                *self = match left - taken {
                    0 => Self::DataEnd,
                    left => Self::Data(left),
                };
            } else {
                *self = self.coding(rest[0])?;
                passed.wire += 1;
            }
        }
        Ok(passed)
    }

    /// Returns the state after a byte that is not data.
    fn coding(self, byte: u8) -> io::Result<Self> {
        Ok(match (self, byte) {
            (Self::Size(0) | Self::Extension(0), b'\n') => Self::Trailer { is_empty: true },
            (Self::Size(size) | Self::Extension(size), b'\n') => Self::Data(size),
            (Self::Size(size), b'\r' | b';' | b' ' | b'\t') => Self::Extension(size),
            (Self::Size(size), digit) => Self::Size(with_digit(size, digit)?),
            (Self::DataEnd, b'\n') => Self::Size(0),
            (Self::Trailer { is_empty: true }, b'\n') => Self::Done,
            (Self::Trailer { .. }, b'\n') => Self::Trailer { is_empty: true },
            (Self::Trailer { .. }, byte) if byte != b'\r' => Self::Trailer { is_empty: false },
            (unchanged, _) => unchanged,
        })
    }
}

fn with_digit(size: u64, digit: u8) -> io::Result<u64> {
    let digit = char::from(digit).to_digit(16);
    digit
        .and_then(|digit| size.checked_mul(16)?.checked_add(u64::from(digit)))
        .ok_or_else(|| ErrorKind::InvalidData.into())
}
