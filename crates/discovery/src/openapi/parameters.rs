//! Parameters in the path and in the query.

use serde_json::{Map, Value, json};

use super::Entry;
use super::paths::Place;
use super::schemas::{Form, Schemas};
use crate::document::{Document, ParameterDescription};
use crate::schema::Schema;

/// The standard parameters that are useful to a generated client. All further standard parameters
/// select a form of the reply that such a client cannot read or does not need (`alt`, `callback`,
/// `prettyPrint`), are credentials, or are ignored.
const STANDARD: [&str; 1] = ["fields"];

/// Returns the standard parameters as components.
pub(super) fn standard(document: &Document, schemas: &Schemas<'_>) -> Value {
    let known = described_standard(document);
    let components = known.map(|(name, described)| {
        let parameter = query_parameter(name, described, schemas);
        (name.to_owned(), parameter)
    });
    Value::Object(components.collect())
}

/// Returns references to the standard parameters, except the parameters that the method declares
/// itself.
pub(super) fn standard_references(
    document: &Document,
    entry: Entry<'_>,
) -> impl Iterator<Item = Value> {
    let known = described_standard(document);
    let known = known.filter(move |(name, _)| !entry.described.parameters.contains_key(*name));
    known.map(|(name, _)| json!({"$ref": format!("#/components/parameters/{name}")}))
}

fn described_standard(
    document: &Document,
) -> impl Iterator<Item = (&'static str, &ParameterDescription)> {
    let described = |name| Some((name, document.parameters.get(name)?));
    STANDARD.into_iter().filter_map(described)
}

/// Returns the parameters of a path.
pub(super) fn in_path(
    entry: Entry<'_>,
    place: &Place,
    schemas: &Schemas<'_>,
) -> impl Iterator<Item = Value> {
    place.variables.iter().map(move |variable| {
        let described = entry.described.parameters.get(&variable.variable);
        let mut description = described
            .and_then(|it| it.description.clone())
            .unwrap_or_default();
        let mut schema = json!({"type": "string"});
        if variable.is_whole {
            schema = described.map_or(schema, |it| schemas.convert(&schema_of(it), Form::Full));
        } else {
            description = format!("Part of `{}`. {description}", variable.variable);
        }
        if variable.is_many {
            super::add_sentence(&mut description, "Slashes in it are sent as `%2F`.");
        }
        let mut parameter = Map::new();
        parameter.insert("name".into(), variable.name.clone().into());
        parameter.insert("in".into(), "path".into());
        if !description.is_empty() {
            parameter.insert("description".into(), description.into());
        }
        parameter.insert("required".into(), true.into());
        parameter.insert("schema".into(), schema);
        Value::Object(parameter)
    })
}

/// Returns the parameters of a method's query, the required ones first.
pub(super) fn in_query(entry: Entry<'_>, schemas: &Schemas<'_>) -> Vec<Value> {
    let described = entry.described.parameters.iter();
    let described = described.filter(|(_, it)| it.location.as_deref() == Some("query"));
    let mut described: Vec<_> = described.collect();
    // The sort is stable: by name otherwise.
    described.sort_by_key(|(_, it)| !it.required);
    let convert = |(name, it): (&String, _)| query_parameter(name, it, schemas);
    described.into_iter().map(convert).collect()
}

fn query_parameter(name: &str, described: &ParameterDescription, schemas: &Schemas<'_>) -> Value {
    let mut parameter = Map::new();
    parameter.insert("name".into(), name.into());
    parameter.insert("in".into(), "query".into());
    if let Some(description) = &described.description {
        parameter.insert("description".into(), description.clone().into());
    }
    if described.required {
        parameter.insert("required".into(), true.into());
    }
    if described.extra.get("deprecated") == Some(&Value::Bool(true)) {
        parameter.insert("deprecated".into(), true.into());
    }
    let schema = schemas.convert(&schema_of(described), Form::Full);
    parameter.insert("schema".into(), schema);
    Value::Object(parameter)
}

/// Returns the schema of a parameter's values, without its description.
fn schema_of(described: &ParameterDescription) -> Schema {
    let mut extra = Map::new();
    for (name, bound) in [
        ("minimum", &described.minimum),
        ("maximum", &described.maximum),
    ] {
        if let Some(bound) = bound {
            extra.insert(name.into(), bound.clone());
        }
    }
    if let Some(descriptions) = described.extra.get("enumDescriptions") {
        extra.insert("enumDescriptions".into(), descriptions.clone());
    }
    let value = Schema {
        json_type: Some(described.json_type.clone().unwrap_or("string".into())),
        format: described.format.clone(),
        allowed_values: described.allowed_values.clone(),
        pattern: described.pattern.clone(),
        default: described.default.clone().map(Value::String),
        extra,
        ..Schema::default()
    };
    if !described.repeated {
        return value;
    }
    // A single default belongs to the whole parameter and is not a list.
    Schema::array_of(Schema {
        default: None,
        ..value
    })
}
