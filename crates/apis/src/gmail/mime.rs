//! Mail messages as the trees that the Gmail API shows.
//!
//! [`parse`] turns a message into a [`Structure`]: its parts, their headers, and the range and
//! encoding of each body. Bodies are not part of the structure, so it is small enough to be stored
//! in the row of the message. They are read by range later, and [`Structure::payload`] combines
//! both. A mailbox sorts and searches messages by their [`Summary`].
//!
//! No function here does I/O. On a hostile message none panics or uses unbounded memory.
//!
//! Addresses, dates, message ids, charsets and HTML are parsed by the crate `mail-parser`. The tree
//! of parts is parsed here. For that tree, `mail-parser` decodes every body, accepts delimiters
//! within lines, searches for a missing delimiter once for each part that names one, and drops
//! nested messages recursively. Here a message is read once, line by line, and all numbers and
//! sizes are bounded.
//!
//! # Conventions
//!
//! - Part ids are the same as in Gmail: empty for the root, then `0`, `1`, `0.0`.
//! - An attached `message/rfc822` is an attachment (its bytes can be fetched) and has one child,
//!   the root of the attached message with its own headers. A base64-encoded message has no child,
//!   because there are no ranges to point at.
//! - Header values are unfolded as in RFC 5322 (line breaks are removed, blanks kept), and encoded
//!   words are decoded. Names are as written.
//! - Inline text is UTF-8 whatever its charset was, and its size is counted in UTF-8. Gmail also
//!   converts the text and leaves the original charset in the header. Clients that decode the text
//!   again by that header report garbled text, e.g. for ISO-2022-JP. An attachment keeps its bytes.
//!
//! ```
//! use windlass_apis::gmail::mime;
//!
//! let raw = b"From: a@example.com\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n\r\nHello\r\n";
//! let message = mime::parse(raw)?;
//! assert_eq!(message.header("subject"), Some("café"));
//! assert_eq!(message.summary(raw).snippet, "Hello");
//! # Ok::<(), mime::Malformed>(())
//! ```

mod encoding;
mod headers;
mod structure;
mod summary;

use std::ops::Range;

pub use encoding::{TransferEncoding, decode};
pub use headers::{DefaultHeaders, missing_headers, without_bcc};
pub use structure::{Bodies, Content, Header, Part, Structure};
pub use summary::{Address, Summary, words};

use headers::{Field, Params};

/// Maximum number of parts of a message, including the parts of attached messages.
pub const MAX_PARTS: usize = 1000;

/// Maximum nesting of parts. An attached message takes two levels. In JSON a level takes two, and
/// readers commonly stop at 128.
pub const MAX_DEPTH: usize = 50;

/// Maximum number of bytes of all headers of all parts.
pub const MAX_HEADER_BYTES: usize = 512 * 1024;

/// Maximum number of header fields of all parts.
pub const MAX_FIELDS: usize = 5000;

/// Maximum number of addresses in the header fields of the message that name people.
pub const MAX_ADDRESSES: usize = 10_000;

/// Maximum number of bytes of one body that is shown inline. A larger body has to be fetched as an
/// attachment.
pub const MAX_INLINE_BYTES: u64 = 1024 * 1024;

/// Maximum number of bytes of all bodies that are shown inline. The remaining parts have to be
/// fetched.
pub const MAX_INLINE_TOTAL: u64 = 8 * 1024 * 1024;

/// The reason why bytes are not a message, or not an accepted message.
///
/// A message that is merely odd is accepted. A boundary that never ends or never comes, bad base64,
/// an unknown charset, bare line feeds and a missing `MIME-Version` are read as mail readers read
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message is empty.
    #[error("the message is empty")]
    Empty,
    /// The message does not begin with a header field.
    #[error("the message has no header")]
    NoHeader,
    /// There are more than [`MAX_PARTS`] parts.
    #[error("the message has more than {MAX_PARTS} parts")]
    TooManyParts,
    /// Parts are nested deeper than [`MAX_DEPTH`].
    #[error("the parts of the message are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// Headers take more than [`MAX_HEADER_BYTES`].
    #[error("the headers of the message take more than {MAX_HEADER_BYTES} bytes")]
    HeadersTooLarge,
    /// There are more than [`MAX_FIELDS`] header fields.
    #[error("the message has more than {MAX_FIELDS} header fields")]
    TooManyFields,
    /// There are more than [`MAX_ADDRESSES`] addresses in the message's header.
    #[error("the header of the message names more than {MAX_ADDRESSES} addresses")]
    TooManyAddresses,
}

/// Reads the structure of a message. The time it takes is linear in its length; at most one decoded
/// body is in memory at a time.
pub fn parse(raw: &[u8]) -> Result<Structure, Malformed> {
    if raw.is_empty() {
        return Err(Malformed::Empty);
    }
    let entities = scan(raw)?;
    let root = &entities[0].fields;
    if root.is_empty() {
        return Err(Malformed::NoHeader);
    }
    summary::check_addresses(raw, root)?;
    Ok(Structure::new(raw, &entities))
}

/// A part of a message, as ranges of it.
#[derive(Debug)]
struct Entity {
    id: String,
    fields: Vec<Field>,
    content_type: Params,
    encoding: TransferEncoding,
    body: Range<usize>,
    children: usize,
}

impl Entity {
    /// Returns the media type in lower case.
    fn mime_type(&self) -> &str {
        &self.content_type.value
    }

    fn is_message(&self) -> bool {
        matches!(self.mime_type(), "message/rfc822" | "message/global")
    }

    /// Returns the boundary of a multipart. An empty or blank one is ignored: it would be found
    /// everywhere.
    fn boundary(&self) -> Option<String> {
        let is_multipart = self.mime_type().starts_with("multipart/");
        let boundary = self
            .content_type
            .param("boundary")
            .filter(|_| is_multipart)?;
        let boundary = boundary.trim_end();
        (!boundary.is_empty()).then(|| boundary.to_owned())
    }
}

/// Returns the parts of a message in the order in which they begin; the first is the root.
fn scan(raw: &[u8]) -> Result<Vec<Entity>, Malformed> {
    let mut scan = Scan {
        raw,
        at: 0,
        entities: Vec::new(),
        open: Vec::new(),
        header_bytes: 0,
        fields: 0,
    };
    scan.begin()?;
    while scan.at < raw.len() {
        scan.line()?;
    }
    scan.end();
    Ok(scan.entities)
}

struct Scan<'a> {
    raw: &'a [u8],
    at: usize,
    entities: Vec<Entity>,
    /// The parts around the current line, from the root to the innermost.
    open: Vec<Open>,
    header_bytes: usize,
    fields: usize,
}

struct Open {
    entity: usize,
    /// Gone once the last delimiter has been seen.
    boundary: Option<String>,
}

struct Delimiter {
    level: usize,
    is_last: bool,
}

impl Scan<'_> {
    fn line(&mut self) -> Result<(), Malformed> {
        let line = headers::line(self.raw, self.at);
        self.at = line.end;
        let text = headers::without_end(&self.raw[line.clone()]);
        let Some(delimiter) = delimiter(&self.open, text) else {
            return Ok(());
        };
        self.close(delimiter.level + 1, self.before_line_end(line.start));
        if delimiter.is_last {
            self.open[delimiter.level].boundary = None;
            return Ok(());
        }
        self.begin()
    }

    /// Reads the header of the part that begins here, as a child of the innermost open part. If the
    /// part is a message, its header is read, too.
    fn begin(&mut self) -> Result<(), Malformed> {
        loop {
            let entity = self.header()?;
            let holds_message =
                entity.is_message() && entity.encoding == TransferEncoding::Identity;
            let boundary = entity.boundary();
            self.open.push(Open {
                entity: self.entities.len(),
                boundary,
            });
            self.entities.push(entity);
            if !holds_message {
                return Ok(());
            }
        }
    }

    fn header(&mut self) -> Result<Entity, Malformed> {
        let is_delimiter = |line: &[u8]| delimiter(&self.open, line).is_some();
        let (fields, body) = headers::read(self.raw, self.at, MAX_FIELDS, is_delimiter);
        self.count(fields.len(), body - self.at)?;
        self.at = body;
        let default_type = self.default_type();
        let content_type = content_type(self.raw, &fields, default_type);
        let encoding = headers::value(self.raw, &fields, "content-transfer-encoding");
        Ok(Entity {
            id: self.next_id(),
            encoding: encoding.map_or_else(Default::default, |it| TransferEncoding::named(&it)),
            content_type,
            fields,
            body: body..body,
            children: 0,
        })
    }

    fn count(&mut self, fields: usize, header_bytes: usize) -> Result<(), Malformed> {
        self.fields += fields;
        self.header_bytes += header_bytes;
        if self.entities.len() >= MAX_PARTS {
            Err(Malformed::TooManyParts)
        } else if self.open.len() >= MAX_DEPTH {
            Err(Malformed::TooDeep)
        } else if self.header_bytes > MAX_HEADER_BYTES {
            Err(Malformed::HeadersTooLarge)
        } else if self.fields > MAX_FIELDS {
            Err(Malformed::TooManyFields)
        } else {
            Ok(())
        }
    }

    fn default_type(&self) -> &'static str {
        match self.open.last() {
            Some(open) if self.entities[open.entity].mime_type() == "multipart/digest" => {
                "message/rfc822"
            }
            _ => "text/plain",
        }
    }

    fn next_id(&mut self) -> String {
        let Some(open) = self.open.last() else {
            return String::new();
        };
        let parent = &mut self.entities[open.entity];
        let number = parent.children;
        parent.children += 1;
        if parent.id.is_empty() {
            number.to_string()
        } else {
            format!("{}.{number}", parent.id)
        }
    }

    /// Ends all open parts at the end of the message, as if the missing delimiters were there.
    fn end(&mut self) {
        let awaited = self.open.iter().position(|open| open.boundary.is_some());
        if let Some(level) = awaited {
            self.close(level + 1, self.before_line_end(self.raw.len()));
        }
        self.close(0, self.raw.len());
    }

    /// Ends the open parts from `level` inwards.
    fn close(&mut self, level: usize, end: usize) {
        for open in self.open.drain(level..) {
            let body = &mut self.entities[open.entity].body;
            // The line end before a delimiter belongs to the delimiter. If it is also the line end
            // of the header, the body is empty and begins where the part ends.
            *body = body.start.min(end)..end;
        }
    }

    /// Returns the end of a body before a delimiter, to which the preceding line end belongs.
    fn before_line_end(&self, at: usize) -> usize {
        headers::without_end(&self.raw[..at]).len()
    }
}

/// Returns the delimiter of a line. The innermost open part is checked first, so that a boundary
/// used twice does not lose the parts after the inner end. A delimiter takes its whole line: one
/// boundary may be the beginning of another.
fn delimiter(open: &[Open], line: &[u8]) -> Option<Delimiter> {
    let line = line.strip_prefix(b"--")?.trim_ascii_end();
    let levels = open.iter().enumerate().rev();
    levels
        .filter_map(|(level, open)| Some((level, open.boundary.as_ref()?)))
        .find_map(|(level, boundary)| {
            let rest = line.strip_prefix(boundary.as_bytes())?;
            let is_last = rest == b"--";
            (is_last || rest.is_empty()).then_some(Delimiter { level, is_last })
        })
}

/// Returns the content type. An invalid one is read as text, as RFC 2045 (5.2) suggests.
fn content_type(raw: &[u8], fields: &[Field], default: &str) -> Params {
    let value = headers::value(raw, fields, "content-type");
    let mut params = Params::parse(value.as_deref().unwrap_or(default));
    let is_token = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic());
    let mut halves = params.value.split('/');
    let is_type = halves.next().is_some_and(is_token)
        && halves.next().is_some_and(is_token)
        && halves.next().is_none();
    if !is_type {
        "text/plain".clone_into(&mut params.value);
    }
    params
}

#[cfg(test)]
mod tests;
