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
    /// The text is not JSON, or is nested more deeply than can be parsed.
    #[error("Parse Error: the metadata is not valid JSON (line {line}, column {column}).")]
    NotJson {
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error in bytes.
        column: usize,
    },
    /// The document has too many values.
    #[error("Parse Error: the metadata has more than {limit} values.")]
    TooManyValues {
        /// Maximum number of values.
        limit: usize,
    },
    /// Objects and arrays of the document are nested too deeply.
    #[error("Parse Error: the metadata is nested more than {limit} levels deep.")]
    TooDeep {
        /// Maximum number of levels.
        limit: usize,
    },
    /// The document is JSON but not an object.
    #[error("Parse Error: the metadata must be a JSON object, not {found}.")]
    NotAnObject {
        /// Type of the value, with its article.
        found: &'static str,
    },
}

/// Limits on the structure of metadata. The caller, who reads the metadata, limits its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetadataLimits {
    /// Number of values, the document itself included. A value takes about seventy times the two
    /// bytes in memory that it can take on the wire. Default: 20,000.
    pub values: usize,
    /// Number of objects and arrays around a value. The parser takes 127 and calls deeper ones
    /// invalid. Default: 100.
    pub depth: usize,
}

impl MetadataLimits {
    /// Allows everything that can be parsed: for metadata that has been accepted before, perhaps
    /// under other limits.
    pub const ACCEPTED_BEFORE: Self = Self {
        values: usize::MAX,
        depth: usize::MAX,
    };

    /// Sets [`values`](Self::values).
    #[must_use]
    pub fn with_values(self, values: usize) -> Self {
        Self { values, ..self }
    }

    /// Sets [`depth`](Self::depth).
    #[must_use]
    pub fn with_depth(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// Checks a text before it is parsed.
    fn check(self, text: &str) -> Result<(), MetadataError> {
        let shape = Shape::of(text);
        if shape.values > self.values {
            return Err(MetadataError::TooManyValues { limit: self.values });
        }
        if shape.depth > self.depth {
            return Err(MetadataError::TooDeep { limit: self.depth });
        }
        Ok(())
    }
}

impl Default for MetadataLimits {
    fn default() -> Self {
        Self {
            values: 20_000,
            depth: 100,
        }
    }
}

/// Parses metadata. An empty text, white space and `null` count as an empty object, because clients
/// send each of them.
///
/// ```
/// use windlass_proto::metadata::{MetadataLimits, parse_metadata};
///
/// let limits = MetadataLimits::default();
/// assert_eq!(parse_metadata(br#"{"name":"Llama"}"#, limits).unwrap()["name"], "Llama");
/// assert!(parse_metadata(b"null", limits).unwrap().is_empty());
/// ```
///
/// # Errors
/// [`MetadataError`].
pub fn parse_metadata(
    bytes: &[u8],
    limits: MetadataLimits,
) -> Result<Map<String, Value>, MetadataError> {
    let text = std::str::from_utf8(bytes).map_err(|_| MetadataError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    limits.check(text)?;
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

/// Upper bounds for the structure of a JSON text.
struct Shape {
    /// Number of its values.
    values: usize,
    /// The most objects and arrays around a value.
    depth: usize,
}

impl Shape {
    /// Every value but the first follows a comma, a colon or an opening bracket. Characters inside
    /// strings are not counted.
    fn of(text: &str) -> Self {
        let (mut in_string, mut escaped) = (false, false);
        let (mut values, mut open, mut depth) = (1, 0_usize, 0);
        for byte in text.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b',' | b':' => values += 1,
                b'[' | b'{' => {
                    values += usize::from(byte == b'[');
                    open += 1;
                    depth = depth.max(open);
                }
                b']' | b'}' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        Self { values, depth }
    }
}
