//! One pass over a message, line by line: which parts there are, and where.

use std::ops::Range;

use super::encoding::TransferEncoding;
use super::headers::{Field, Params};
use super::{MAX_DEPTH, MAX_FIELDS, MAX_HEADER_BYTES, MAX_PARTS, Malformed, headers};

/// A part of a message, as ranges of it.
#[derive(Debug)]
pub(super) struct Entity {
    pub(super) id: String,
    pub(super) fields: Vec<Field>,
    pub(super) content_type: Params,
    pub(super) encoding: TransferEncoding,
    pub(super) body: Range<usize>,
    pub(super) children: usize,
}

impl Entity {
    /// Returns the media type in lower case.
    pub(super) fn mime_type(&self) -> &str {
        &self.content_type.value
    }

    pub(super) fn is_message(&self) -> bool {
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
pub(super) fn scan(raw: &[u8]) -> Result<Vec<Entity>, Malformed> {
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

    /// Reads the header of the part that begins here, as a child of the innermost open one; and
    /// that of the message within, if the part is one.
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
            body.end = end.max(body.start);
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
