//! Where the parts of a multipart body begin and end (RFC 2046, 5.1.1).
//!
//! A delimiter is a line end, two hyphens and the boundary, followed by two more hyphens (the final
//! one) or by the end of its line. Its leading line end belongs to it, not to the content before;
//! bare LF is as good as CRLF. A client that ends the line of a delimiter with a bare LF leads the next
//! delimiter with a bare LF as well: a CR before that is the last byte of the content. The line end
//! behind a delimiter is left in place: it may be the one that leads the next delimiter.

use bytes::{Buf, Bytes};
use memchr::memmem;

use super::Boundary;

/// The most spaces and tabs behind a delimiter; a line with more is content. Without a bound they
/// would have to be held until their line ends.
const MAX_PADDING: usize = 64;

/// A stretch of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Content(Bytes),
    Delimiter,
    FinalDelimiter,
}

/// Cuts a body into content and delimiters as it comes.
#[derive(Debug)]
pub(super) struct Delimiters {
    pattern: Pattern,
    /// Bytes that may turn out to begin a delimiter.
    held: Vec<u8>,
}

impl Delimiters {
    /// The start of the body counts as the start of a line: there is a line end before it, so to
    /// speak.
    pub(super) fn new(boundary: Boundary) -> Self {
        Self {
            pattern: Pattern::new(boundary),
            held: vec![b'\n'],
        }
    }

    /// Takes the next token off the front of what is held and of `data`. `None` when more data is
    /// needed; all of `data` is taken then.
    pub(super) fn next(&mut self, data: &mut Bytes) -> Option<Token> {
        if !self.held.is_empty() {
            return self.next_with_held(data);
        }
        match self.pattern.scan(data) {
            Scan::Content(len) => Some(Token::Content(data.split_to(len))),
            Scan::Delimiter(Delimiter { len, token, bare }) => {
                data.advance(len);
                self.pattern.bare = bare;
                Some(token)
            }
            Scan::Undecided => {
                self.held.extend_from_slice(data);
                data.clear();
                None
            }
        }
    }

    /// Looks at what is held together with as much of `data` as can matter to it.
    fn next_with_held(&mut self, data: &mut Bytes) -> Option<Token> {
        let held = self.held.len();
        let added = data.len().min(self.pattern.max_len());
        self.held.extend_from_slice(&data[..added]);
        match self.pattern.scan(&self.held) {
            Scan::Content(len) => {
                self.held.truncate(held);
                let content = self.held.drain(..len.min(held)).collect();
                Some(Token::Content(content))
            }
            Scan::Delimiter(Delimiter { len, token, bare }) => {
                self.held.clear();
                self.pattern.bare = bare;
                // What was held was no whole delimiter.
                data.advance(len.saturating_sub(held));
                Some(token)
            }
            Scan::Undecided => {
                data.advance(added);
                None
            }
        }
    }
}

/// What stands at the front of some bytes.
enum Scan {
    /// So many bytes of content, at least one.
    Content(usize),
    /// A whole delimiter.
    Delimiter(Delimiter),
    /// What may become a delimiter, and nothing behind it; or nothing at all.
    Undecided,
}

/// A delimiter, or the rest of one.
struct Delimiter {
    len: usize,
    token: Token,
    /// Whether its line ends with a bare LF.
    bare: bool,
}

/// What follows a boundary.
enum Tail {
    /// The rest of a delimiter.
    Delimiter(Delimiter),
    /// It depends on what comes.
    Undecided,
    /// Something that makes it content.
    Other,
}

#[derive(Debug)]
struct Pattern {
    finder: memmem::Finder<'static>,
    /// Whether the line of the delimiter before ends with a bare LF.
    bare: bool,
}

impl Pattern {
    fn new(boundary: Boundary) -> Self {
        let needle = boundary.into_delimiter();
        Self {
            finder: memmem::Finder::new(&needle).into_owned(),
            bare: false,
        }
    }

    /// LF, hyphens and boundary.
    fn needle(&self) -> &[u8] {
        self.finder.needle()
    }

    /// Length of the longest delimiter, with its line ends.
    fn max_len(&self) -> usize {
        b"\r".len() + self.needle().len() + MAX_PADDING + b"\r\n".len()
    }

    fn scan(&self, bytes: &[u8]) -> Scan {
        let needle_len = self.needle().len();
        let mut from = 0;
        while let Some(found) = self.finder.find(&bytes[from..]) {
            let at = from + found;
            let start = self.before_line_end(bytes, at);
            match tail(&bytes[at + needle_len..]) {
                Tail::Other => from = at + needle_len,
                Tail::Delimiter(_) | Tail::Undecided if start > 0 => {
                    return Scan::Content(start);
                }
                Tail::Delimiter(tail) => {
                    return Scan::Delimiter(Delimiter {
                        len: at + needle_len + tail.len,
                        ..tail
                    });
                }
                Tail::Undecided => return Scan::Undecided,
            }
        }
        match self.unfinished(bytes) {
            0 => Scan::Undecided,
            start => Scan::Content(start),
        }
    }

    /// Where a delimiter begins that runs over the end of `bytes`; else their length.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        // The needle has one LF, so only the last one can begin it.
        let near_end = bytes.len().saturating_sub(self.needle().len() - 1);
        let last = memchr::memrchr(b'\n', &bytes[near_end..]).map(|at| near_end + at);
        match last {
            Some(at) if self.needle().starts_with(&bytes[at..]) => self.before_line_end(bytes, at),
            _ if bytes.ends_with(b"\r") && !self.bare => bytes.len() - 1,
            _ => bytes.len(),
        }
    }

    /// Where the line end begins whose LF is at `at`.
    fn before_line_end(&self, bytes: &[u8], at: usize) -> usize {
        if bytes[..at].ends_with(b"\r") && !self.bare {
            at - 1
        } else {
            at
        }
    }
}

fn tail(bytes: &[u8]) -> Tail {
    if bytes.starts_with(b"--") {
        return Tail::Delimiter(Delimiter {
            len: 2,
            token: Token::FinalDelimiter,
            bare: false,
        });
    }
    let padding = bytes
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    match &bytes[padding..] {
        _ if padding > MAX_PADDING => Tail::Other,
        [b'\n', ..] => Tail::Delimiter(Delimiter {
            len: padding,
            token: Token::Delimiter,
            bare: true,
        }),
        [b'\r', b'\n', ..] => Tail::Delimiter(Delimiter {
            len: padding + 1,
            token: Token::Delimiter,
            bare: false,
        }),
        [] | [b'\r'] => Tail::Undecided,
        [b'-'] if padding == 0 => Tail::Undecided,
        _ => Tail::Other,
    }
}
