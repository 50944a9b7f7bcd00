//! The head of a request or of a reply: the parts that the proxy reads.

use std::io::{self, ErrorKind};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// The longest head that is passed on.
const MAX_LEN: usize = 64 * 1024;

const END: &[u8] = b"\r\n\r\n";

/// A head, and where it stands in the bytes that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// Its length on the wire, with the empty line.
    pub(super) len: usize,
    first_line: String,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    value: String,
    /// Its line, with the line's end.
    line: Range<usize>,
}

impl Head {
    /// The head at the beginning of `bytes`, if all of it is there.
    ///
    /// # Errors
    /// `InvalidData` when it is too long.
    pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        let searched = &bytes[..bytes.len().min(MAX_LEN)];
        match searched.windows(END.len()).position(|end| end == END) {
            Some(at) => Ok(Some(Self::of(&bytes[..at + 2]))),
            None if searched.len() == MAX_LEN => Err(ErrorKind::InvalidData.into()),
            None => Ok(None),
        }
    }

    /// `lines` are all but the empty one.
    fn of(lines: &[u8]) -> Self {
        let mut first_line = String::new();
        let mut fields = Vec::new();
        let mut at = 0;
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            if at == 0 {
                text.trim_end().clone_into(&mut first_line);
            } else if let Some((name, value)) = text.split_once(':') {
                fields.push(Field {
                    name: name.to_owned(),
                    value: value.trim().to_owned(),
                    line: at..at + line.len(),
                });
            }
            at += line.len();
        }
        Self {
            len: at + 2,
            first_line,
            fields,
        }
    }

    /// Of a request.
    pub(super) fn verb(&self) -> &str {
        self.word(0)
    }

    /// Of a request.
    pub(super) fn target(&self) -> &str {
        self.word(1)
    }

    /// Of a reply.
    ///
    /// # Errors
    /// `InvalidData` when it has none.
    pub(super) fn status(&self) -> io::Result<u16> {
        self.word(1)
            .parse()
            .map_err(|_| ErrorKind::InvalidData.into())
    }

    /// The value of the first header of this name, whatever its case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.find(name).map(|field| field.value.as_str())
    }

    /// Where the line of the first header of this name stands.
    pub(super) fn line(&self, name: &str) -> Option<Range<usize>> {
        self.find(name).map(|field| field.line.clone())
    }

    pub(super) fn content_length(&self) -> Option<u64> {
        self.field("content-length")?.parse().ok()
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.field("transfer-encoding")
            .is_some_and(|coding| coding.to_ascii_lowercase().ends_with("chunked"))
    }

    /// A parameter of the target's query, as it is written there.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target().split_once('?')?;
        let mut parameters = query.split('&').filter_map(|pair| pair.split_once('='));
        parameters
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// The number of committed bytes, if a reply says that an upload has to continue: with 308, or
    /// with the 200 that stands for it. Without a `Range` the number is 0.
    pub(super) fn committed(&self) -> Option<u64> {
        let goes_on =
            self.word(1) == "308" || self.field("x-http-status-code-override") == Some("308");
        goes_on.then(|| {
            let last = self
                .field("range")
                .and_then(|range| range.strip_prefix("bytes=0-")?.parse::<u64>().ok());
            last.map_or(0, |last| last.saturating_add(1))
        })
    }

    fn word(&self, index: usize) -> &str {
        self.first_line.split(' ').nth(index).unwrap_or_default()
    }

    fn find(&self, name: &str) -> Option<&Field> {
        self.fields
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))
    }
}
