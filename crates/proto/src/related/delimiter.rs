//! Boundaries and delimiters of a multipart body (RFC 2046, 5.1.1).
//!
//! A delimiter is a line end, two hyphens and the boundary, followed by two more hyphens (the final
//! delimiter) or by a line end. The leading line end belongs to the delimiter, not to the content
//! before it. A bare LF is accepted in place of CRLF. A client that ends the line of a delimiter
//! with a bare LF also starts the next delimiter with a bare LF, so a CR before that LF is the last
//! byte of the content. The line end after a delimiter is not consumed, because it may start the
//! next delimiter.

use bytes::{Buf, Bytes};
use memchr::memmem;

use super::RelatedError;

/// Maximum number of spaces and tabs after a delimiter. A line with more is content. Without this
/// bound the splitter would have to buffer them up to the line end.
const MAX_PADDING: usize = 64;

/// A token of the body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Content(Bytes),
    Delimiter,
    FinalDelimiter,
}

/// Splits a body into content and delimiters incrementally.
#[derive(Debug)]
pub(crate) struct Delimiters {
    pattern: Pattern,
    /// Bytes that may be the beginning of a delimiter.
    held: Vec<u8>,
}

impl Delimiters {
    /// The start of the body counts as the start of a line, so a line end is assumed before it.
    pub(crate) fn new(boundary: Boundary) -> Self {
        Self {
            pattern: Pattern::new(boundary),
            held: vec![b'\n'],
        }
    }

    /// Takes the next token from the front of the held bytes and `data`. Returns `None` when more
    /// data is needed; all of `data` has been taken then.
    pub(crate) fn next(&mut self, data: &mut Bytes) -> Option<Token> {
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

    /// Scans the held bytes together with the part of `data` that can complete a delimiter.
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
                // The held bytes alone were not a whole delimiter, so `len` exceeds their number.
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

/// The token at the front of some bytes.
enum Scan {
    /// Number of bytes of content, at least one.
    Content(usize),
    /// A whole delimiter.
    Delimiter(Delimiter),
    /// A possible beginning of a delimiter without anything after it, or no bytes.
    Undecided,
}

/// A delimiter, or the rest of one after the boundary.
struct Delimiter {
    len: usize,
    token: Token,
    /// Whether its line ends with a bare LF.
    bare: bool,
}

/// The bytes after a boundary.
enum Tail {
    /// The rest of a delimiter.
    Delimiter(Delimiter),
    /// More bytes are needed.
    Undecided,
    /// The boundary is part of the content.
    Other,
}

#[derive(Debug)]
struct Pattern {
    finder: memmem::Finder<'static>,
    /// Whether the previous delimiter's line ended with a bare LF.
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

    /// Returns LF, hyphens and boundary.
    fn needle(&self) -> &[u8] {
        self.finder.needle()
    }

    /// Length of the longest delimiter with its line ends.
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

    /// Returns where a delimiter begins that may continue after the end of `bytes`; otherwise their
    /// length.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        // The needle contains a single LF, so only the last LF can start an unfinished one.
        let near_end = bytes.len().saturating_sub(self.needle().len() - 1);
        let last = memchr::memrchr(b'\n', &bytes[near_end..]).map(|at| near_end + at);
        match last {
            Some(at) if self.needle().starts_with(&bytes[at..]) => self.before_line_end(bytes, at),
            _ if bytes.ends_with(b"\r") && !self.bare => bytes.len() - 1,
            _ => bytes.len(),
        }
    }

    /// Returns the start of the line end with its LF at `at`.
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

/// The delimiter of a multipart body's parts, from the `boundary` parameter of its `Content-Type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary(String);

impl Boundary {
    /// Maximum length. RFC 2046 allows 70 characters; longer boundaries of some generators are
    /// accepted.
    pub const MAX_LEN: usize = 256;

    /// Parses the boundary of a `multipart/related` or `multipart/form-data` content type: bare, in
    /// double quotes, or in single quotes. Single quotes are not part of the boundary, although RFC
    /// 2046 says they are (docs/protocol.md, 2.6).
    ///
    /// ```
    /// use windlass_proto::related::Boundary;
    ///
    /// let boundary = Boundary::from_content_type(b"multipart/related;boundary=\"==42==\"").unwrap();
    /// assert_eq!(boundary.as_str(), "==42==");
    /// ```
    pub fn from_content_type(value: &[u8]) -> Result<Self, RelatedError> {
        // Forms of browsers have the same parts in the same order.
        Self::of_type(value, &["multipart/related", "multipart/form-data"])
    }

    /// As [`from_content_type`](Self::from_content_type), for one of these types; another is
    /// [`RelatedError::NotRelated`].
    pub(crate) fn of_type(value: &[u8], types: &[&str]) -> Result<Self, RelatedError> {
        let value = std::str::from_utf8(value).map_err(|_| RelatedError::NotRelated)?;
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        let is_known = |known: &&str| essence.trim_ascii().eq_ignore_ascii_case(known);
        if !types.iter().any(is_known) {
            return Err(RelatedError::NotRelated);
        }
        let boundary = parameter(parameters, "boundary").ok_or(RelatedError::NoBoundary)?;
        if is_valid(&boundary) {
            Ok(Self(boundary))
        } else {
            Err(RelatedError::NoBoundary)
        }
    }

    /// The boundary without quotes and without the hyphens that precede it in the body.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the common beginning of all delimiters: LF, two hyphens and the boundary.
    pub(super) fn into_delimiter(self) -> String {
        format!("\n--{}", self.0)
    }
}

fn is_valid(boundary: &str) -> bool {
    let printable = boundary
        .bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (1..=Boundary::MAX_LEN).contains(&boundary.len()) && printable && !boundary.ends_with(' ')
}

/// Returns the first parameter of this name in `; name=value; name="value"`.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        let at = rest.find(['=', ';'])?;
        let (name, tail) = (&rest[..at], &rest[at + 1..]);
        if rest[at..].starts_with(';') {
            rest = tail;
            continue;
        }
        let (value, tail) = parameter_value(tail.trim_ascii_start())?;
        if name.trim_ascii().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = tail;
    }
}

/// Returns the value at the start of `text`, and the text after it.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted_string(quoted);
    }
    let (value, rest) = text.split_once(';').unwrap_or((text, ""));
    let value = value.trim_ascii_end();
    let inner = value
        .strip_prefix('\'')
        .and_then(|value| value.strip_suffix('\''));
    Some((inner.unwrap_or(value).to_owned(), rest))
}

/// Returns the rest of a quoted string (RFC 9110, 5.6.4) after its opening quote, and the text
/// after it.
fn quoted_string(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(character),
        }
    }
    None
}
