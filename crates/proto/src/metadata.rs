//! The JSON metadata of an upload (docs/protocol.md, 4.15).

use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// Why metadata cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The bytes are not UTF-8.
    #[error("Parse Error: the metadata is not UTF-8.")]
    NotUtf8,
    /// The text is not JSON, or is nested too deeply.
    #[error("Parse Error: the metadata is not valid JSON (line {line}, column {column}).")]
    NotJson {
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error in bytes.
        column: usize,
    },
    /// The document has more values than media metadata can need.
    #[error("Parse Error: the metadata has more than {limit} values.")]
    TooManyValues {
        /// Maximum number of values.
        limit: usize,
    },
    /// The document is JSON but not an object.
    #[error("Parse Error: the metadata must be a JSON object, not {found}.")]
    NotAnObject {
        /// Type of the value, with its article.
        found: &'static str,
    },
}

/// Maximum number of values in metadata. A value takes about seventy times the two bytes in memory
/// that it can take on the wire.
const MOST_VALUES: usize = 20_000;

/// Parses metadata. An empty text, white space and `null` count as an empty object, because clients
/// send each of them.
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

/// Returns an upper bound for the number of values in a JSON text. Every value but the first
/// follows a comma, a colon or an opening bracket. Characters inside strings are not counted.
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
