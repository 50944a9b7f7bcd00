//! The fields that a `schema` declares.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

use crate::schema::{Annotations, Schema};

use super::name::{MethodName, SchemaName};
use super::type_or_table::{scalar, type_or_table};

/// The types of JSON.
const JSON_TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "any"];

/// The most `[]` and `{}` behind a type.
const MOST_CONTAINERS: usize = 3;

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
    pattern: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    default: Option<String>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    required_for: Vec<MethodName>,
}

/// `string`; `string[]` for an array, `string{}` for a map, `Message` for a schema.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct FieldType {
    element: Element,
    /// From the inside out.
    containers: Vec<Container>,
}

#[derive(Clone, Debug)]
enum Element {
    Json(String),
    Schema(SchemaName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    Map,
}

#[derive(Debug, Error)]
#[error(
    "`{written}` is not a type; use string, integer, number, boolean, object, any or the name of a schema, \
     and append [] for an array, {{}} for a map"
)]
struct UnknownType {
    written: String,
}

impl Field {
    /// The property of the schema that this field becomes, in the API of this name.
    pub(super) fn schema(&self, api_name: &str) -> Schema {
        let Self(table) = self;
        let element = Schema {
            format: table.format.clone(),
            allowed_values: table.allowed_values.clone(),
            pattern: table.pattern.clone(),
            ..table.field_type.element.schema()
        };
        let containers = table.field_type.containers.iter();
        let whole = containers.fold(element, |inner, container| match container {
            Container::Array => Schema::array_of(inner),
            Container::Map => Schema::map_of(inner),
        });
        Schema {
            description: table.description.clone(),
            default: table.default.clone().map(Value::String),
            read_only: table.read_only,
            required: table.required,
            annotations: table.annotations(api_name),
            ..whole
        }
    }

    /// The schema that the field refers to.
    pub(super) fn reference(&self) -> Option<&SchemaName> {
        match &self.0.field_type.element {
            Element::Json(_) => None,
            Element::Schema(name) => Some(name),
        }
    }
}

impl FieldTable {
    fn annotations(&self, api_name: &str) -> Option<Annotations> {
        let ids = self.required_for.iter();
        let required: Vec<_> = ids.map(|name| format!("{api_name}.{name}")).collect();
        (!required.is_empty()).then(|| Annotations {
            required,
            ..Annotations::default()
        })
    }
}

impl Element {
    fn schema(&self) -> Schema {
        match self {
            Self::Json(json_type) => Schema::of_type(json_type),
            Self::Schema(name) => Schema::reference_to(name.as_str()),
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        type_or_table(deserializer).map(Self)
    }
}

impl TryFrom<String> for FieldType {
    type Error = UnknownType;

    fn try_from(written: String) -> Result<Self, UnknownType> {
        let (mut name, mut containers) = (written.as_str(), Vec::new());
        while let Some((inner, container)) = split_container(name) {
            name = inner;
            containers.insert(0, container);
            if containers.len() > MOST_CONTAINERS {
                return Err(UnknownType { written });
            }
        }
        let element = if JSON_TYPES.contains(&name) {
            Element::Json(name.to_owned())
        } else if let Ok(name) = SchemaName::try_from(name.to_owned()) {
            Element::Schema(name)
        } else {
            return Err(UnknownType { written });
        };
        Ok(Self {
            element,
            containers,
        })
    }
}

fn split_container(written: &str) -> Option<(&str, Container)> {
    let array = written
        .strip_suffix("[]")
        .map(|inner| (inner, Container::Array));
    array.or_else(|| Some((written.strip_suffix("{}")?, Container::Map)))
}
