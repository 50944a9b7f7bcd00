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
    /// JSON, but no object.
    #[error("Parse Error: the metadata must be a JSON object, not {found}.")]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
}

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
