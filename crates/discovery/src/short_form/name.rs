//! The names in the short form.

use std::fmt;

use serde::Deserialize;
use thiserror::Error;

/// The fields that the server fills in, with media or without.
const STANDARD_FIELDS: [&str; 11] = [
    "kind",
    "id",
    "selfLink",
    "etag",
    "createdTime",
    "updatedTime",
    "mimeType",
    "size",
    "crc32c",
    "md5Hash",
    "sha256Hash",
];

/// The most words in the name of a method. Published ones have up to ten.
const MOST_WORDS: usize = 16;

/// The name of a collection or a resource: a letter, then letters, digits and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Identifier(String);

/// The name of a field of a schema, or of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FieldName(String);

/// The name of a field of a collection: an identifier that is none of the standard fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Identifier")]
pub(super) struct OwnFieldName(Identifier);

/// The name of a schema: an identifier with a capital.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct SchemaName(String);

/// The name of a method without that of the API: collections and a verb, `users.messages.send`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct MethodName(String);

/// Why a text is not a name.
#[derive(Debug, Error)]
pub(super) enum NotAName {
    #[error("`{name}` is not a name: it takes a letter, then letters, digits and `_`")]
    Identifier { name: String },
    #[error("`{name}` is not a name: it takes letters, digits, `_`, `.`, `-` and `$`")]
    Field { name: String },
    #[error("`{name}` is a field that the server fills in; it cannot be declared")]
    StandardField { name: Identifier },
    #[error(
        "`{name}` is not the name of a schema: it takes a capital, then letters, digits and `_`"
    )]
    Schema { name: String },
    #[error(
        "`{name}` is not the name of a method: it takes up to {MOST_WORDS} words with dots between them, \
         as in users.messages.send"
    )]
    Method { name: String },
}

impl Identifier {
    /// `animals` → `animal`, `stories` → `story`, `boxes` → `box`; a name without such an ending
    /// stays.
    pub(super) fn singular(&self) -> Self {
        let name = self.0.as_str();
        let es_endings = ["sses", "xes", "ches", "shes"];
        let singular = if let Some(stem) = name.strip_suffix("ies") {
            format!("{stem}y")
        } else if es_endings.iter().any(|ending| name.ends_with(ending)) {
            name[..name.len() - 2].to_owned()
        } else if let Some(stem) = name.strip_suffix('s').filter(|stem| !stem.ends_with('s')) {
            stem.to_owned()
        } else {
            name.to_owned()
        };
        // A name such as `s` has nothing left of it.
        Self(if singular.is_empty() {
            name.to_owned()
        } else {
            singular
        })
    }

    /// With a capital: `animal` → `Animal`.
    pub(super) fn capitalised(&self) -> String {
        let (first, rest) = self.0.split_at(1);
        format!("{}{rest}", first.to_ascii_uppercase())
    }
}

impl SchemaName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl MethodName {
    /// The collections around the method, the outermost first, and its verb.
    pub(super) fn split(&self) -> (impl Iterator<Item = &str>, &str) {
        let (collections, verb) = self.0.rsplit_once('.').unwrap_or(("", &self.0));
        (collections.split('.').filter(|word| !word.is_empty()), verb)
    }
}

impl TryFrom<String> for Identifier {
    type Error = NotAName;

    fn try_from(name: String) -> Result<Self, NotAName> {
        if is_identifier(&name) {
            Ok(Self(name))
        } else {
            Err(NotAName::Identifier { name })
        }
    }
}

/// Parameters of published APIs are called `options.version` and `$.xgafv`.
impl TryFrom<String> for FieldName {
    type Error = NotAName;

    fn try_from(name: String) -> Result<Self, NotAName> {
        let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-$".contains(&byte);
        if !name.is_empty() && name.bytes().all(name_byte) {
            Ok(Self(name))
        } else {
            Err(NotAName::Field { name })
        }
    }
}

impl TryFrom<Identifier> for OwnFieldName {
    type Error = NotAName;

    fn try_from(name: Identifier) -> Result<Self, NotAName> {
        if STANDARD_FIELDS.contains(&name.0.as_str()) {
            Err(NotAName::StandardField { name })
        } else {
            Ok(Self(name))
        }
    }
}

impl TryFrom<String> for SchemaName {
    type Error = NotAName;

    fn try_from(name: String) -> Result<Self, NotAName> {
        if is_identifier(&name) && name.starts_with(|first: char| first.is_ascii_uppercase()) {
            Ok(Self(name))
        } else {
            Err(NotAName::Schema { name })
        }
    }
}

impl TryFrom<String> for MethodName {
    type Error = NotAName;

    fn try_from(name: String) -> Result<Self, NotAName> {
        // Collections lie in each other, and what is nested has a limit.
        if name.split('.').all(is_identifier) && name.split('.').count() <= MOST_WORDS {
            Ok(Self(name))
        } else {
            Err(NotAName::Method { name })
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    begins_well
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for OwnFieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
