//! The fields that a collection's `schema` declares, and the names in it.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::schema::Schema;

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

/// The name of a collection, a resource or a field: a letter, then letters, digits and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Identifier(String);

/// The name of a declared field: an identifier that is none of the standard fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Identifier")]
pub(super) struct FieldName(Identifier);

/// A declared field: its type, or a table with its type and more.
#[derive(Clone, Debug)]
pub(super) struct Field(FieldTable);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldTable {
    #[serde(rename = "type")]
    field_type: FieldType,
    description: Option<String>,
    format: Option<String>,
    #[serde(default, rename = "enum")]
    allowed_values: Vec<String>,
}

/// `string`, or `string[]` for an array.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct FieldType {
    json_type: String,
    repeated: bool,
}

#[derive(Debug, Error)]
#[error("`{name}` is not a name: it takes a letter, then letters, digits and `_`")]
pub(super) struct NotAnIdentifier {
    name: String,
}

#[derive(Debug, Error)]
#[error("`{name}` is a field that the server fills in; it cannot be declared")]
pub(super) struct StandardField {
    name: Identifier,
}

#[derive(Debug, Error)]
#[error(
    "`{written}` is not a type; use string, integer, number, boolean, object or any, and for an array append []"
)]
struct UnknownType {
    written: String,
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

impl TryFrom<String> for Identifier {
    type Error = NotAnIdentifier;

    fn try_from(name: String) -> Result<Self, NotAnIdentifier> {
        let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if begins_well && name.bytes().all(word) {
            Ok(Self(name))
        } else {
            Err(NotAnIdentifier { name })
        }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<Identifier> for FieldName {
    type Error = StandardField;

    fn try_from(name: Identifier) -> Result<Self, StandardField> {
        if STANDARD_FIELDS.contains(&name.0.as_str()) {
            Err(StandardField { name })
        } else {
            Ok(Self(name))
        }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Field {
    /// The property of the schema that this field becomes.
    pub(super) fn schema(&self) -> Schema {
        let Self(table) = self;
        let value = Schema {
            format: table.format.clone(),
            allowed_values: table.allowed_values.clone(),
            ..Schema::of_type(&table.field_type.json_type)
        };
        let value = if table.field_type.repeated {
            Schema::array_of(value)
        } else {
            value
        };
        Schema {
            description: table.description.clone(),
            ..value
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a type such as \"string\", or a table with the key `type`")
    }

    fn visit_str<E: serde::de::Error>(self, written: &str) -> Result<Field, E> {
        let field_type = written.to_owned().try_into().map_err(E::custom)?;
        let table = FieldTable {
            field_type,
            description: None,
            format: None,
            allowed_values: Vec::new(),
        };
        Ok(Field(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Field, A::Error> {
        FieldTable::deserialize(MapAccessDeserializer::new(table)).map(Field)
    }
}

impl TryFrom<String> for FieldType {
    type Error = UnknownType;

    fn try_from(written: String) -> Result<Self, UnknownType> {
        let (name, repeated) = match written.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (written.as_str(), false),
        };
        if ["string", "integer", "number", "boolean", "object", "any"].contains(&name) {
            Ok(Self {
                json_type: name.to_owned(),
                repeated,
            })
        } else {
            Err(UnknownType { written })
        }
    }
}
