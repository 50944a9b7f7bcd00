//! The JSON that comes with an upload (docs/protocol.md, 4.15).

use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// Why metadata was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// Not text.
    #[error("Parse Error: the metadata is not UTF-8.")]
    NotUtf8,
    /// Not JSON, or nested deeper than is read.
    #[error("Parse Error: the metadata is not valid JSON (line {line}, column {column}).")]
    NotJson {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault in bytes.
        column: usize,
    },
    /// More values than a document about media can need.
    #[error("Parse Error: the metadata has more than {limit} values.")]
    TooManyValues {
        /// The most values there may be.
        limit: usize,
    },
    /// JSON, but no object.
    #[error("Parse Error: the metadata must be a JSON object, not {found}.")]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
}

/// The most values that metadata may have. In memory a value takes some seventy times the two bytes that
/// it takes on the wire.
const MOST_VALUES: usize = 20_000;

/// Reads metadata. Nothing at all, white space and `null` count as an empty object: clients send
/// each of them.
///
/// ```
/// use windlass_proto::metadata::parse_metadata;
///
/// assert_eq!(parse_metadata(br#"{"name":"Llama"}"#).unwrap()["name"], "Llama");
/// assert!(parse_metadata(b"null").unwrap().is_empty());
/// ```
pub fn parse_metadata(bytes: &[u8]) -> Result<Map<String, Value>, MetadataError> {
    let text = std::str::from_utf8(bytes).map_err(|_| MetadataError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    if values(text) > MOST_VALUES {
        return Err(MetadataError::TooManyValues { limit: MOST_VALUES });
    }
    let value = serde_json::from_str(text).map_err(|fault| MetadataError::NotJson {
        line: fault.line(),
        column: fault.column(),
    })?;
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        Value::Array(_) => Err(MetadataError::NotAnObject { found: "an array" }),
        Value::String(_) => Err(MetadataError::NotAnObject { found: "a string" }),
        Value::Number(_) => Err(MetadataError::NotAnObject { found: "a number" }),
        Value::Bool(_) => Err(MetadataError::NotAnObject { found: "a boolean" }),
    }
}

/// How many values a JSON text has at most: every value but the first stands behind a comma, a colon
/// or an opening bracket. What is inside strings does not count.
fn values(text: &str) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}
