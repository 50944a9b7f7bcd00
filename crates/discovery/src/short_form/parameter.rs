//! The parameters that a method declares.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

use crate::document::ParameterDescription;

use super::type_or_table::{scalar, type_or_table};

/// A declared parameter: its type, or a table with its type and more.
#[derive(Clone, Debug)]
pub(super) struct ParameterForm(ParameterTable);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterTable {
    #[serde(rename = "type")]
    parameter_type: ParameterType,
    description: Option<String>,
    format: Option<String>,
    #[serde(default)]
    required: bool,
    #[serde(default, rename = "enum")]
    allowed_values: Vec<String>,
    pattern: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    default: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    minimum: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    maximum: Option<String>,
}

/// `string`, or `string[]` for one that may be given more than once.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct ParameterType {
    json_type: String,
    repeated: bool,
}

#[derive(Debug, Error)]
#[error(
    "`{written}` is not a type of a parameter; use string, integer, number or boolean, and append [] if it may \
     be given more than once"
)]
struct UnknownType {
    written: String,
}

impl ParameterForm {
    /// What a parameter is where nothing is said of it.
    pub(super) fn string() -> Self {
        Self(ParameterTable {
            parameter_type: ParameterType {
                json_type: "string".to_owned(),
                repeated: false,
            },
            description: None,
            format: None,
            required: false,
            allowed_values: Vec::new(),
            pattern: None,
            default: None,
            minimum: None,
            maximum: None,
        })
    }

    /// The description, in the query or in the path, where it is always required.
    pub(super) fn description(&self, in_path: bool) -> ParameterDescription {
        let Self(table) = self;
        ParameterDescription {
            location: Some(if in_path { "path" } else { "query" }.to_owned()),
            json_type: Some(table.parameter_type.json_type.clone()),
            format: table.format.clone(),
            description: table.description.clone(),
            required: in_path || table.required,
            repeated: table.parameter_type.repeated,
            allowed_values: table.allowed_values.clone(),
            pattern: table.pattern.clone(),
            default: table.default.clone(),
            minimum: table.minimum.clone().map(Value::String),
            maximum: table.maximum.clone().map(Value::String),
            ..ParameterDescription::default()
        }
    }

    pub(super) fn is_required(&self) -> bool {
        self.0.required
    }
}

impl<'de> Deserialize<'de> for ParameterForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        type_or_table(deserializer).map(Self)
    }
}

impl TryFrom<String> for ParameterType {
    type Error = UnknownType;

    fn try_from(written: String) -> Result<Self, UnknownType> {
        let (name, repeated) = match written.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (written.as_str(), false),
        };
        if ["string", "integer", "number", "boolean"].contains(&name) {
            Ok(Self {
                json_type: name.to_owned(),
                repeated,
            })
        } else {
            Err(UnknownType { written })
        }
    }
}
