//! The headers of one body part.

use bytes::{Buf, Bytes};

use super::RelatedError;
use super::transfer_encoding::Decoder;

/// The headers of a body part as they come, from the line end of the delimiter to the empty line.
#[derive(Debug, Default)]
pub(super) struct HeaderBlock(Vec<u8>);

/// What the headers say.
#[derive(Debug)]
pub(super) struct PartHeaders {
    pub(super) content_type: Option<String>,
    pub(super) decoder: Decoder,
}

impl HeaderBlock {
    /// Takes lines off the front of `content`; true when the empty line was reached.
    pub(super) fn push(&mut self, content: &mut Bytes, limit: usize) -> Result<bool, RelatedError> {
        while !content.is_empty() {
            let line = memchr::memchr(b'\n', content).map_or(content.len(), |at| at + 1);
            if line > limit.saturating_sub(self.0.len()) {
                return Err(RelatedError::PartHeadersTooLarge { limit });
            }
            self.0.extend_from_slice(&content[..line]);
            content.advance(line);
            if self.0.ends_with(b"\n\n") || self.0.ends_with(b"\n\r\n") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the headers.
    pub(super) fn parse(&self) -> Result<PartHeaders, RelatedError> {
        let text = String::from_utf8_lossy(&self.0);
        let fields = fields(&text)?;
        let value = |name: &str| {
            let field = fields
                .iter()
                .find(|(field, _)| field.eq_ignore_ascii_case(name));
            field
                .map(|(_, value)| value.trim_ascii())
                .filter(|value| !value.is_empty())
        };
        Ok(PartHeaders {
            content_type: value("content-type").map(str::to_owned),
            decoder: Decoder::of(value("content-transfer-encoding"))?,
        })
    }
}

/// Names and values. A line that begins with white space continues the one before.
fn fields(text: &str) -> Result<Vec<(&str, String)>, RelatedError> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match (line.split_once(':'), fields.last_mut()) {
            (_, Some((_, value))) if line.starts_with([' ', '\t']) => value.push_str(line),
            (Some((name, value)), _) => fields.push((name.trim_ascii(), value.to_owned())),
            (None, _) => return Err(RelatedError::PartHeader),
        }
    }
    Ok(fields)
}
