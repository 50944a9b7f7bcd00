//! The JSON schemas of a discovery document, as far as a server needs to see into them.
//!
//! This is the dialect of JSON Schema (draft 3) that discovery documents use. Nothing is validated
//! against a schema here. A schema tells the fields of a resource, their types and the resource's
//! `kind`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::pattern::Pattern;

/// A schema, or the schema of one property of another.
///
/// The request and the response of a method are schemas too, nearly always a
/// [`reference`](Self::reference).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Schema {
    /// The name of a schema of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `string`, `integer`, `number`, `boolean`, `object`, `array` or `any`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub json_type: Option<String>,
    /// The name of the schema that is meant here.
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The format of a string or a number, e.g. `int64`, `date-time`, `byte`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Prose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the property must be there.
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    /// Whether only the server sets the property.
    #[serde(skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// The allowed values; empty where there is no such list.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub allowed_values: Vec<String>,
    /// A regular expression for the value; see [`fits_pattern`](Self::fits_pattern).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The pattern, once it was needed.
    #[serde(skip)]
    pub(crate) compiled: Compiled,
    /// The value where none is given, usually written as a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The elements of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Schema>>,
    /// The fields of an object.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Schema>,
    /// The values of a map, which has fields of any name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<Box<Schema>>,
    /// Annotations: rules that apply to the property in some methods only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Further fields of the document, kept so that it can be written out again.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Rules that apply to a property in some methods only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// The ids of the methods that cannot do without the property.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Schema {
    /// A schema that means the document's schema of this name.
    pub fn reference_to(name: impl Into<String>) -> Self {
        Self {
            reference: Some(name.into()),
            ..Self::default()
        }
    }

    /// A schema of this JSON type, e.g. `string`.
    pub fn of_type(json_type: impl Into<String>) -> Self {
        Self {
            json_type: Some(json_type.into()),
            ..Self::default()
        }
    }

    /// An array of such elements.
    #[must_use]
    pub fn array_of(items: Self) -> Self {
        Self {
            items: Some(Box::new(items)),
            ..Self::of_type("array")
        }
    }

    /// A map from names to such values.
    #[must_use]
    pub fn map_of(values: Self) -> Self {
        Self {
            additional_properties: Some(Box::new(values)),
            ..Self::of_type("object")
        }
    }

    /// Whether a call of the method with this id, e.g. `farm.animals.insert`, must give the
    /// property.
    pub fn is_required_for(&self, method_id: &str) -> bool {
        let annotated = |it: &Annotations| it.required.iter().any(|id| id == method_id);
        self.required || self.annotations.as_ref().is_some_and(annotated)
    }

    /// Whether the property keeps the value that it was first given: `immutable` of the short form.
    pub fn is_immutable(&self) -> bool {
        self.extra.get("immutable") == Some(&Value::Bool(true))
    }

    /// Returns the default as a value of the schema's type. Returns `None` without a default, and
    /// if the default is not a value of the type.
    ///
    /// Documents write the default as a string, whatever the type.
    pub fn default_value(&self) -> Option<Value> {
        let default = self.default.as_ref()?;
        if self.reference.is_some() {
            return None;
        }
        let (Value::String(text), Some(json_type)) = (default, self.json_type.as_deref()) else {
            return Some(default.clone());
        };
        if json_type == "string" {
            return Some(default.clone());
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let fits = match json_type {
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "any" => true,
            _ => false,
        };
        fits.then_some(value)
    }

    /// Whether a text matches the pattern, if there is one. It is compiled once.
    pub fn fits_pattern(&self, text: &str) -> bool {
        self.compiled_pattern().is_none_or(|it| it.fits(text))
    }

    /// Returns the pattern, if there is one. It is compiled once.
    pub fn compiled_pattern(&self) -> Option<&Pattern> {
        let text = self.pattern.as_deref()?;
        Some(self.compiled.0.get_or_init(|| Pattern::new(text)))
    }

    /// Returns the maximum length in bytes of a text, as far as `maxLength` bounds it.
    fn max_bytes(&self) -> Option<u64> {
        // Four bytes are the longest character of UTF-8.
        Some(self.extra.get("maxLength")?.as_u64()?.saturating_mul(4))
    }

    /// Returns the length in bytes above which a server does not match a text against the pattern,
    /// because of [`Pattern::MAX_WORK`]. Returns `None` without a usable pattern, and if the schema
    /// allows no such text: it has a list of values, or a `maxLength` of at most this length.
    pub fn unmatched_from(&self) -> Option<u64> {
        let pattern = self.compiled_pattern()?;
        let longest = pattern.max_len();
        let is_bounded =
            !self.allowed_values.is_empty() || self.max_bytes().is_some_and(|most| most <= longest);
        (pattern.problem().is_none() && !is_bounded).then_some(longest)
    }

    /// Returns the rule that a value breaks, such as `must be at most 8`, among `minimum`,
    /// `maximum`, `minLength`, `maxLength` (in characters), `minItems` and `maxItems`; `None` if it
    /// breaks none.
    pub fn broken_bound(&self, value: &Value) -> Option<String> {
        if self.extra.is_empty() {
            return None;
        }
        let number = match value {
            Value::Number(number) => Some(number.to_string()),
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        let number = number.and_then(|number| {
            let broken = |name, wrong| self.exceeds(name, &number, wrong);
            broken("minimum", Ordering::Less).or_else(|| broken("maximum", Ordering::Greater))
        });
        number.or_else(|| match value {
            Value::String(text) => self.broken_length(text.chars().count(), "Length", "characters"),
            Value::Array(elements) => self.broken_length(elements.len(), "Items", "items"),
            _ => None,
        })
    }

    fn exceeds(&self, name: &str, number: &str, wrong: Ordering) -> Option<String> {
        let bound = match self.extra.get(name)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let word = if wrong == Ordering::Less {
            "least"
        } else {
            "most"
        };
        (compare(number, &bound)? == wrong).then(|| format!("must be at {word} {bound}"))
    }

    fn broken_length(&self, length: usize, what: &str, unit: &str) -> Option<String> {
        let length = u64::try_from(length).ok()?;
        let bound = |side| self.extra.get(&format!("{side}{what}"))?.as_u64();
        match (bound("min"), bound("max")) {
            (Some(min), _) if length < min => Some(format!("must have at least {min} {unit}")),
            (_, Some(max)) if length > max => Some(format!("must have at most {max} {unit}")),
            _ => None,
        }
    }

    /// The property of this name.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name)
    }

    /// Returns the value of a resource's `kind` field, e.g. `storage#object`.
    ///
    /// Documents write it as the default of the property.
    pub fn kind(&self) -> Option<&str> {
        self.property("kind")?.default.as_ref()?.as_str()
    }
}

/// Whole numbers are compared exactly: 64 bits do not fit a float.
fn compare(number: &str, bound: &str) -> Option<Ordering> {
    if let (Ok(number), Ok(bound)) = (number.parse::<i128>(), bound.parse::<i128>()) {
        return Some(number.cmp(&bound));
    }
    let number: f64 = number.parse().ok()?;
    number.partial_cmp(&bound.parse().ok()?)
}

/// A pattern that is compiled on first use. The pattern follows from the schema, so two schemas are
/// equal regardless of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled(OnceLock<Pattern>);

impl PartialEq for Compiled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An absent flag is false: there is no need to write it.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn animal() -> Value {
        json!({
            "id": "Animal",
            "type": "object",
            "description": "An animal.",
            "properties": {
                "kind": {"type": "string", "default": "farm#animal"},
                "size": {"type": "string", "format": "int64", "readOnly": true},
                "sound": {"type": "string", "enum": ["moo", "oink"], "enumDescriptions": ["", ""]},
                "friends": {"type": "array", "items": {"$ref": "Animal"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "tag": {"type": "string", "pattern": "[a-z]+", "required": true},
                "name": {"type": "string", "annotations": {"required": ["farm.animals.insert"], "x": 1}}
            }
        })
    }

    #[test]
    fn properties_have_type_format_and_flags() {
        let schema: Schema = serde_json::from_value(animal()).unwrap();
        let size = schema.property("size").unwrap();
        assert_eq!(size.json_type.as_deref(), Some("string"));
        assert_eq!(size.format.as_deref(), Some("int64"));
        assert!(size.read_only);
        let friends = schema.property("friends").unwrap();
        assert_eq!(
            friends.items.as_deref(),
            Some(&Schema::reference_to("Animal"))
        );
        assert_eq!(
            schema.property("sound").unwrap().allowed_values,
            ["moo", "oink"]
        );
        assert!(schema.property("tag").unwrap().required);
        assert_eq!(schema.property("wings"), None);
    }

    #[test]
    fn the_values_of_a_map_have_a_schema_of_their_own() {
        let schema: Schema = serde_json::from_value(animal()).unwrap();
        let labels = schema.property("labels").unwrap();
        assert_eq!(*labels, Schema::map_of(Schema::of_type("string")));
        assert_eq!(schema.additional_properties, None);
    }

    #[test]
    fn a_property_is_required_for_all_methods_or_for_those_that_are_named() {
        let schema: Schema = serde_json::from_value(animal()).unwrap();
        for (property, method, expected) in [
            ("tag", "farm.animals.insert", true),
            ("tag", "farm.animals.update", true),
            ("name", "farm.animals.insert", true),
            ("name", "farm.animals.update", false),
            ("name", "farm.animals", false),
            ("size", "farm.animals.insert", false),
        ] {
            let property = schema.property(property).unwrap();
            assert_eq!(property.is_required_for(method), expected, "{method}");
        }
    }

    #[test]
    fn the_kind_is_the_default_of_its_property() {
        let schema: Schema = serde_json::from_value(animal()).unwrap();
        assert_eq!(schema.kind(), Some("farm#animal"));
        assert_eq!(Schema::of_type("object").kind(), None);
    }

    #[test]
    fn a_pattern_is_for_the_whole_text() {
        let mut schema = Schema::of_type("string");
        assert!(schema.fits_pattern("anything"));
        schema.pattern = Some("[a-z]+".to_owned());
        assert!(schema.fits_pattern("cow") && !schema.fits_pattern("cow 2"));
    }

    #[test]
    fn a_schema_read_and_written_loses_nothing() {
        let schema: Schema = serde_json::from_value(animal()).unwrap();
        assert_eq!(serde_json::to_value(&schema).unwrap(), animal());
    }
}
