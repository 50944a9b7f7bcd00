//! Media types (`image/png`) and the ranges of them that a method accepts (`image/*`).
//!
//! The grammar is RFC 9110, sections 8.3.1 and 12.5.1. Names compare without regard to case.
//! Parameters are kept for a [`MediaType`] and dropped for a [`MediaRange`]: `text/plain` accepts
//! `text/plain; charset=utf-8`. There are no quality values; an accept list of a discovery document
//! has no preferences.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A media type as a client sends it in `Content-Type`.
///
/// ```
/// use windlass_discovery::MediaType;
///
/// let parsed: MediaType = "Text/Plain; Charset=\"utf-8\"".parse()?;
/// assert_eq!(parsed.essence(), "text/plain");
/// assert_eq!(parsed.parameter("charset"), Some("utf-8"));
/// # Ok::<(), windlass_discovery::media_range::MediaTypeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MediaType {
    /// `type/subtype` in lower case.
    essence: String,
    /// Names in lower case, values without their quotes.
    parameters: Vec<(String, String)>,
}

/// A range of media types: `*/*`, `image/*` or `image/png`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MediaRange {
    /// `*/*`: every media type.
    All,
    /// `image/*`: every media type of this type, held in lower case.
    Type(String),
    /// `image/png`: this media type, held in lower case, whatever its parameters.
    Exact(String),
}

/// Why a text is not a [`MediaType`] or a [`MediaRange`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MediaTypeError {
    /// The text has no `type/subtype` of two tokens.
    #[error("`{text}` is not a media type such as image/png or image/*")]
    NotTypeAndSubtype {
        /// The text without its parameters.
        text: String,
    },
    /// A parameter is not `name=token` or `name="quoted string"`.
    #[error("`{text}` is not a parameter of a media type such as charset=utf-8")]
    Parameter {
        /// The rest of the text, from the malformed parameter on.
        text: String,
    },
}

/// Whether a method that accepts `ranges` takes media of this `Content-Type`.
///
/// An empty list accepts everything, as does `*/*`, even a text that is not a media type at all.
pub fn accepts(ranges: &[MediaRange], content_type: &str) -> bool {
    if ranges.is_empty() || ranges.contains(&MediaRange::All) {
        return true;
    }
    let parsed: Result<MediaType, _> = content_type.parse();
    parsed.is_ok_and(|media_type| ranges.iter().any(|range| range.accepts(&media_type)))
}

impl MediaType {
    /// `type/subtype` in lower case, without parameters.
    pub fn essence(&self) -> &str {
        &self.essence
    }

    /// The value of the first parameter of this name, in any case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl FromStr for MediaType {
    type Err = MediaTypeError;

    fn from_str(text: &str) -> Result<Self, MediaTypeError> {
        let (essence, parameters) = split_parameters(text);
        match essence.split_once('/') {
            Some((kind, subtype)) if is_token(kind) && is_token(subtype) => Ok(Self {
                essence: essence.to_ascii_lowercase(),
                parameters: parse_parameters(parameters)?,
            }),
            _ => Err(MediaTypeError::NotTypeAndSubtype {
                text: essence.to_owned(),
            }),
        }
    }
}

impl MediaRange {
    /// How narrow the range is: of two that contain a media type, the narrower one has the greater
    /// number (RFC 9110, section 12.5.1).
    pub fn specificity(&self) -> u8 {
        match self {
            Self::All => 0,
            Self::Type(_) => 1,
            Self::Exact(_) => 2,
        }
    }

    /// Whether this media type lies in the range.
    pub fn accepts(&self, media_type: &MediaType) -> bool {
        let essence = media_type.essence();
        match self {
            Self::All => true,
            Self::Type(kind) => essence
                .split_once('/')
                .is_some_and(|(given, _)| given == kind),
            Self::Exact(accepted) => essence == accepted,
        }
    }
}

/// `*` is a token too, so the wildcards are looked at first; `*/png` is no range.
impl FromStr for MediaRange {
    type Err = MediaTypeError;

    fn from_str(text: &str) -> Result<Self, MediaTypeError> {
        let (essence, _) = split_parameters(text);
        match essence.split_once('/') {
            Some(("*", "*")) => Ok(Self::All),
            Some((kind, "*")) if is_token(kind) => Ok(Self::Type(kind.to_ascii_lowercase())),
            Some((kind, subtype)) if kind != "*" && is_token(kind) && is_token(subtype) => {
                Ok(Self::Exact(essence.to_ascii_lowercase()))
            }
            _ => Err(MediaTypeError::NotTypeAndSubtype {
                text: essence.to_owned(),
            }),
        }
    }
}

impl TryFrom<String> for MediaRange {
    type Error = MediaTypeError;

    fn try_from(text: String) -> Result<Self, MediaTypeError> {
        text.parse()
    }
}

impl From<MediaRange> for String {
    fn from(range: MediaRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for MediaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*/*"),
            Self::Type(kind) => write!(f, "{kind}/*"),
            Self::Exact(media_type) => f.write_str(media_type),
        }
    }
}

/// Returns the trimmed `type/subtype` and the text after the first semicolon.
fn split_parameters(text: &str) -> (&str, &str) {
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    (essence.trim(), parameters)
}

/// Empty parameters, as in `text/plain;`, are allowed (RFC 9110, section 5.6.6).
fn parse_parameters(mut rest: &str) -> Result<Vec<(String, String)>, MediaTypeError> {
    let mut parameters = Vec::new();
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        if rest.is_empty() {
            return Ok(parameters);
        }
        let (name, value, after) =
            split_parameter(rest).ok_or_else(|| MediaTypeError::Parameter {
                text: rest.to_owned(),
            })?;
        parameters.push((name.to_ascii_lowercase(), value));
        rest = after;
    }
}

/// Returns the name and value of one `name=value`, and the rest of the text: empty or a semicolon
/// and more.
fn split_parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, value) = text.split_once('=')?;
    let (value, after) = match value.strip_prefix('"') {
        Some(quoted) => split_quoted(quoted)?,
        None => split_unquoted(value)?,
    };
    let ends_well = after.trim_start().is_empty() || after.trim_start().starts_with(';');
    (is_token(name) && ends_well).then_some((name, value, after))
}

/// Returns a token and the rest of the text.
fn split_unquoted(text: &str) -> Option<(String, &str)> {
    let (token, after) = text.split_at(text.find(';').unwrap_or(text.len()));
    let token = token.trim_end();
    is_token(token).then(|| (token.to_owned(), after))
}

/// Returns the value of a quoted string without its opening quote, and the rest of the text.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(token_byte)
}

#[cfg(test)]
mod tests;
