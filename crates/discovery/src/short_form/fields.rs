//! The declarations of a description: fields and parameters with their types, and all names.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

use crate::document::ParameterDescription;
use crate::schema::{Annotations, Schema};

use super::bounds::{Bounds, Container};

/// The types of JSON.
const JSON_TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "any"];

/// The most `[]` and `{}` behind a type.
const MAX_CONTAINERS: usize = 3;

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
    min: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    max: Option<String>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    #[serde(default, deserialize_with = "scalar")]
    default: Option<String>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    immutable: bool,
    references: Option<Identifier>,
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
            extra: self.bounds().of_value(),
            ..table.field_type.element.schema()
        };
        let containers = table.field_type.containers.iter();
        let mut whole = containers.fold(element, |inner, container| match container {
            Container::Array => Schema::array_of(inner),
            Container::Map => Schema::map_of(inner),
        });
        whole.extra.extend(self.bounds().of_length());
        if table.immutable {
            whole.extra.insert("immutable".to_owned(), true.into());
        }
        Schema {
            description: table.description.clone(),
            default: table.default.clone().map(Value::String),
            read_only: table.read_only,
            required: table.required,
            annotations: table.annotations(api_name),
            ..whole
        }
    }

    /// The mistake in the bounds or in the default, if there is one.
    pub(super) fn problem(&self) -> Option<String> {
        self.bounds().problem().or_else(|| self.default_problem())
    }

    /// The `default` is a value that a client may send.
    fn default_problem(&self) -> Option<String> {
        let Self(table) = self;
        let written = table.default.as_deref()?;
        let schema = self.schema("");
        let Some(value) = schema.default_value() else {
            return Some(format!(
                "the default `{written}` is not a value of its type"
            ));
        };
        let allowed = &table.allowed_values;
        if !allowed.is_empty() && !allowed.iter().any(|it| it == written) {
            return Some(format!("the default `{written}` is not in `enum`"));
        }
        if let Some(bound) = schema.broken_bound(&value) {
            return Some(format!("the default `{written}` {bound}"));
        }
        let fits = schema.fits_pattern(written);
        (!fits).then(|| format!("the default `{written}` does not match the pattern"))
    }

    fn bounds(&self) -> Bounds<'_> {
        let Self(table) = self;
        Bounds {
            json_type: match &table.field_type.element {
                Element::Json(json_type) => Some(json_type),
                Element::Schema(_) => None,
            },
            format: table.format.as_deref(),
            container: table.field_type.containers.last().copied(),
            min: table.min.as_deref(),
            max: table.max.as_deref(),
            min_length: table.min_length,
            max_length: table.max_length,
            pattern: table.pattern.as_deref(),
        }
    }

    /// The collection of the resources that the field names.
    pub(super) fn references(&self) -> Option<&Identifier> {
        self.0.references.as_ref()
    }

    /// Whether its values are strings, or arrays of strings.
    pub(super) fn holds_strings(&self) -> bool {
        let FieldType {
            element,
            containers,
        } = &self.0.field_type;
        let is_string = matches!(element, Element::Json(json_type) if json_type == "string");
        is_string && matches!(containers[..], [] | [Container::Array])
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
            if containers.len() > MAX_CONTAINERS {
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

/// `string`, or `string[]` for a parameter that may be given more than once.
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
struct UnknownParameterType {
    written: String,
}

impl ParameterForm {
    /// A parameter without a declaration.
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
    type Error = UnknownParameterType;

    fn try_from(written: String) -> Result<Self, UnknownParameterType> {
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
            Err(UnknownParameterType { written })
        }
    }
}

/// Reads the table `T`, or a text that is its `type`.
fn type_or_table<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(TypeOrTable(PhantomData))
}

/// Reads a default, which documents write as a string whatever its type.
fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(Scalar).map(Some)
}

struct TypeOrTable<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TypeOrTable<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a type such as \"string\", or a table with the key `type`")
    }

    fn visit_str<E: de::Error>(self, written: &str) -> Result<T, E> {
        let table = std::iter::once(("type", written));
        T::deserialize(MapDeserializer::new(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(table))
    }
}

struct Scalar;

impl Visitor<'_> for Scalar {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a boolean")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<String, E> {
        Ok(flag.to_string())
    }
}

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
const MAX_WORDS: usize = 16;

/// The name of a collection or a resource: a letter, then letters, digits and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Identifier(String);

/// The name of a field of a schema, or of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FieldName(String);

/// The name of a collection's own field: an identifier that differs from all standard fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Identifier")]
pub(super) struct OwnFieldName(Identifier);

/// The name of a schema: an identifier with a capital.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct SchemaName(String);

/// The name of a method without the API's name: collections and a verb, `users.messages.send`.
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
        "`{name}` is not the name of a method: it takes up to {MAX_WORDS} words with dots between them, \
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

    pub(super) fn is_capitalised(&self) -> bool {
        self.0.starts_with(|first: char| first.is_ascii_uppercase())
    }

    /// With a small letter first: `Animal` → `animal`.
    pub(super) fn uncapitalised(&self) -> String {
        let (first, rest) = self.0.split_at(1);
        format!("{}{rest}", first.to_ascii_lowercase())
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
        // Each part but the last is a nested collection, and nesting has a limit.
        if name.split('.').all(is_identifier) && name.split('.').count() <= MAX_WORDS {
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
