//! The schemas of a discovery document in JSON Schema 2020-12, as OpenAPI 3.1 has it.

use std::collections::{BTreeMap, BTreeSet};

use http::Method as HttpMethod;
use serde_json::{Map, Number, Value, json};

use super::{Entry, UniqueNames};
use crate::api::Api;
use crate::document::Document;
use crate::pattern::Pattern;
use crate::schema::Schema;

/// The types that JSON Schema has too; `any` is the absence of a type.
const JSON_TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "array"];

/// The kind of body that a schema is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Whole resources.
    Full,
    /// The body of a PATCH. It may omit existing fields, and it removes a field by null (RFC 7396).
    Patch,
}

/// The schemas of an API, with their names in the components.
pub(super) struct Schemas<'a> {
    document: &'a Document,
    /// The keys of the components, by the names in the document.
    keys: BTreeMap<&'a str, String>,
    /// The keys of the schemas that are nested in bodies of PATCH.
    patch_keys: BTreeMap<&'a str, String>,
    error_key: String,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(api: &'a Api) -> Self {
        let document = api.document();
        let mut names = UniqueNames::default();
        let mut keys = BTreeMap::new();
        for name in document.schemas.keys() {
            keys.insert(name.as_str(), names.unique(&component_key(name)));
        }
        let error_key = names.unique("Error");
        let mut patch_keys = BTreeMap::new();
        for name in patched(api) {
            let key = format!("{}Patch", component_key(name));
            patch_keys.insert(name, names.unique(&key));
        }
        Self {
            document,
            keys,
            patch_keys,
            error_key,
        }
    }

    /// Returns the components.
    pub(super) fn to_json(&self) -> Value {
        let mut components = Map::new();
        for (forms, form) in [(&self.keys, Form::Full), (&self.patch_keys, Form::Patch)] {
            for (name, key) in forms {
                if let Some(schema) = self.document.schema(name) {
                    components.insert(key.clone(), self.convert(schema, form));
                }
            }
        }
        components.insert(self.error_key.clone(), error_schema());
        Value::Object(components)
    }

    /// Returns a reference to the schema of errors.
    pub(super) fn error(&self) -> Value {
        reference(&self.error_key)
    }

    /// Returns the schema of a method's metadata, with the method's own requirements.
    pub(super) fn request(&self, entry: Entry<'_>) -> Option<Value> {
        let schema = entry.described.request.as_ref()?;
        if entry.method.http_method == HttpMethod::PATCH {
            return Some(self.convert(schema, Form::Patch));
        }
        let converted = self.convert(schema, Form::Full);
        let demanded = self.demanded(schema, &entry.method.id);
        if demanded.is_empty() {
            return Some(converted);
        }
        let demands = json!({"type": "object", "required": demanded});
        Some(json!({"allOf": [converted, demands]}))
    }

    /// Whether a call of the method without a body lacks a required property.
    pub(super) fn demands_body(&self, entry: Entry<'_>) -> bool {
        let schema = entry.described.request.as_ref();
        let resolved = schema.and_then(|schema| self.document.resolve(schema));
        let is_demanded =
            |property: &Schema| !property.read_only && property.is_required_for(&entry.method.id);
        entry.method.http_method != HttpMethod::PATCH
            && resolved.is_some_and(|schema| schema.properties.values().any(is_demanded))
    }

    /// The properties that only this method requires.
    fn demanded(&self, schema: &Schema, method_id: &str) -> Vec<String> {
        let resolved = self.document.resolve(schema);
        let properties = resolved.into_iter().flat_map(|schema| &schema.properties);
        let of_this_method = properties.filter(|(_, property)| {
            !property.required && !property.read_only && property.is_required_for(method_id)
        });
        of_this_method.map(|(name, _)| name.clone()).collect()
    }

    /// Converts a schema. A reference to a schema that the document lacks allows everything.
    pub(super) fn convert(&self, schema: &Schema, form: Form) -> Value {
        let mut json = Map::new();
        match &schema.reference {
            Some(name) => json.extend(self.key(name, form).map(reference_entry)),
            None => self.add_structure(&mut json, schema, form),
        }
        if let Some(description) = &schema.description {
            json.insert("description".into(), description.clone().into());
        }
        if schema.read_only {
            json.insert("readOnly".into(), true.into());
        }
        if schema.extra.get("deprecated") == Some(&Value::Bool(true)) {
            json.insert("deprecated".into(), true.into());
        }
        Value::Object(json)
    }

    fn key(&self, name: &str, form: Form) -> Option<&str> {
        let patch_key = self.patch_keys.get(name).filter(|_| form == Form::Patch);
        patch_key
            .or_else(|| self.keys.get(name))
            .map(String::as_str)
    }

    fn add_structure(&self, json: &mut Map<String, Value>, schema: &Schema, form: Form) {
        let known = |json_type: &&str| JSON_TYPES.contains(json_type);
        if let Some(json_type) = schema.json_type.as_deref().filter(known) {
            json.insert("type".into(), json_type.into());
        }
        add_values(json, schema);
        if form == Form::Full {
            // A PATCH sets nothing that it does not name.
            add_default(json, schema);
        }
        if let Some(items) = &schema.items {
            // A PATCH replaces arrays as a whole.
            json.insert("items".into(), self.convert(items, Form::Full));
        }
        if !schema.properties.is_empty() {
            self.add_properties(json, schema, form);
        }
        if let Some(values) = &schema.additional_properties {
            let values = self.property(values, form);
            json.insert("additionalProperties".into(), values);
        }
    }

    fn add_properties(&self, json: &mut Map<String, Value>, schema: &Schema, form: Form) {
        let convert = |(name, property): (&String, &Schema)| {
            let converted = match constant_kind(name, property) {
                Some(kind) => constant(property, kind),
                None => self.property(property, form),
            };
            (name.clone(), converted)
        };
        let properties: Map<_, _> = schema.properties.iter().map(convert).collect();
        json.insert("properties".into(), properties.into());
        let properties = schema.properties.iter();
        let required = properties.filter(|(_, property)| property.required && !property.read_only);
        let required: Vec<_> = required.map(|(name, _)| name.as_str()).collect();
        if form == Form::Full && !required.is_empty() {
            json.insert("required".into(), json!(required));
        }
    }

    /// Converts the schema of a value inside of an object.
    fn property(&self, schema: &Schema, form: Form) -> Value {
        let converted = self.convert(schema, form);
        if form == Form::Patch && !schema.required && !schema.read_only {
            nullable(converted)
        } else {
            converted
        }
    }
}

/// Adds the constraints of a schema that concern values other than objects.
fn add_values(json: &mut Map<String, Value>, schema: &Schema) {
    let json_type = schema.json_type.as_deref().unwrap_or_default();
    if let Some(format) = &schema.format {
        json.insert("format".into(), format.clone().into());
    }
    let allowed = allowed_values(schema, json_type);
    if !allowed.is_empty() {
        json.insert("enum".into(), allowed.into());
        if let Some(descriptions) = schema.extra.get("enumDescriptions") {
            json.insert("x-enum-descriptions".into(), descriptions.clone());
        }
    }
    if let Some(pattern) = schema.pattern.as_deref().and_then(whole_value) {
        json.insert("pattern".into(), pattern.into());
    }
    add_bounds(json, schema, json_type);
}

fn add_default(json: &mut Map<String, Value>, schema: &Schema) {
    let json_type = schema.json_type.as_deref().unwrap_or_default();
    let allowed = allowed_values(schema, json_type);
    if let Some(default) = schema.default_value()
        && is_usable(&default, schema, &allowed)
    {
        json.insert("default".into(), default);
    }
}

/// Whether a client could send the default. A client needs no default for a field that only the
/// server sets. Some documents state a default that their own schema does not allow.
fn is_usable(default: &Value, schema: &Schema, allowed: &[Value]) -> bool {
    let fits = |text| schema.fits_pattern(text);
    !schema.read_only
        && (allowed.is_empty() || allowed.contains(default))
        && default.as_str().is_none_or(fits)
        && schema.broken_bound(default).is_none()
}

/// Bounds of numbers are strings in discovery documents. They are left out for numbers that are
/// strings themselves, which JSON Schema cannot compare.
fn add_bounds(json: &mut Map<String, Value>, schema: &Schema, json_type: &str) {
    if ["integer", "number"].contains(&json_type) {
        for name in ["minimum", "maximum"] {
            if let Some(bound) = schema.extra.get(name).and_then(number) {
                json.insert(name.into(), bound.into());
            }
        }
        let is_unsigned = schema
            .format
            .as_ref()
            .is_some_and(|format| format.starts_with("uint"));
        if is_unsigned && !json.contains_key("minimum") {
            json.insert("minimum".into(), 0.into());
        }
    }
    let sizes = match json_type {
        "string" => ["minLength", "maxLength"],
        "array" => ["minItems", "maxItems"],
        _ => return,
    };
    for name in sizes {
        if let Some(bound) = schema.extra.get(name).and_then(Value::as_u64) {
            json.insert(name.into(), bound.into());
        }
    }
}

fn number(written: &Value) -> Option<Number> {
    match written {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// The allowed values in the type of the schema, each once.
fn allowed_values(schema: &Schema, json_type: &str) -> Vec<Value> {
    let mut allowed = Vec::new();
    for text in &schema.allowed_values {
        let value = match json_type {
            "integer" | "number" | "boolean" => serde_json::from_str(text).ok(),
            _ => Some(Value::String(text.clone())),
        };
        allowed.extend(value.filter(|value| !allowed.contains(value)));
    }
    allowed
}

/// Discovery documents mean the whole value, JSON Schema any part of it. `None` for a pattern that
/// is not checked, and for one with a syntax that ECMA-262 lacks.
fn whole_value(pattern: &str) -> Option<String> {
    let extensions = pattern.matches("(?").count() - pattern.matches("(?:").count();
    if extensions > 0 || Pattern::new(pattern).problem().is_some() {
        return None;
    }
    let is_whole = pattern.starts_with('^') && pattern.ends_with('$') && !pattern.contains('|');
    Some(if is_whole {
        pattern.to_owned()
    } else {
        format!("^(?:{pattern})$")
    })
}

/// Documents write the kind of a resource, which never changes, as a default.
fn constant_kind<'a>(name: &str, property: &'a Schema) -> Option<&'a str> {
    let default = property.default.as_ref()?.as_str()?;
    (name == "kind" && default.contains('#')).then_some(default)
}

fn constant(property: &Schema, value: &str) -> Value {
    let mut json = Map::new();
    json.insert("type".into(), "string".into());
    json.insert("const".into(), value.into());
    if let Some(description) = &property.description {
        json.insert("description".into(), description.clone().into());
    }
    Value::Object(json)
}

/// Allows null as well. A schema without a type allows it already.
fn nullable(mut schema: Value) -> Value {
    if schema.get("$ref").is_some() {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    if let Some(json_type) = schema.get("type").cloned() {
        schema["type"] = json!([json_type, "null"]);
    }
    if let Some(allowed) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        allowed.push(Value::Null);
    }
    schema
}

/// Returns the schemas that need a second form for bodies of PATCH. These are the metadata and the
/// schemas of the fields into which a PATCH merges. Elements of arrays are not among them, because
/// a PATCH replaces an array as a whole.
fn patched(api: &Api) -> BTreeSet<&str> {
    let methods = api.methods().iter();
    let patches = methods.filter(|method| method.http_method == HttpMethod::PATCH);
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = patches.filter_map(|it| it.request.as_deref()).collect();
    while let Some(name) = next.pop() {
        if let Some(schema) = api.schema(name)
            && reached.insert(name)
        {
            collect_merged(schema, &mut next);
        }
    }
    reached
}

fn collect_merged<'a>(schema: &'a Schema, found: &mut Vec<&'a str>) {
    found.extend(schema.reference.as_deref());
    let inner = schema.properties.values();
    for inner in inner.chain(schema.additional_properties.as_deref()) {
        collect_merged(inner, found);
    }
}

/// Replaces the characters that keys of components must not have.
fn component_key(name: &str) -> String {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    match name {
        "" => "_".to_owned(),
        name => name.replace(|character| !allowed(character), "_"),
    }
}

fn reference(key: &str) -> Value {
    Value::Object(Map::from_iter([reference_entry(key)]))
}

fn reference_entry(key: &str) -> (String, Value) {
    let path = format!("#/components/schemas/{key}");
    ("$ref".into(), path.into())
}

/// The errors of Google's APIs (docs/protocol.md, 2.10).
fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "An error.",
        "properties": {"error": {
            "type": "object",
            "properties": {
                "code": {"type": "integer", "description": "The HTTP status."},
                "message": {"type": "string", "description": "What is wrong, for people."},
                "errors": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "message": {"type": "string"},
                            "domain": {"type": "string"},
                            "reason": {"type": "string", "description": "What is wrong, for programs."},
                            "locationType": {"type": "string", "description": "`parameter`, `header` or `other`."},
                            "location": {"type": "string", "description": "The name of the parameter or header."},
                        },
                    },
                },
                "status": {"type": "string", "description": "The canonical name of the code, such as `NOT_FOUND`."},
            },
            "required": ["code", "message"],
        }},
        "required": ["error"],
    })
}
