//! Whether every `$ref` names a schema.

use std::collections::HashSet;

use crate::document::{Document, MethodDescription};
use crate::error::{Fault, Faults, FieldPath};
use crate::schema::Schema;

/// Checks what requests and responses are made of, however deep. Schemas that no method leads to do no
/// harm; [`unknown_references`] looks at them too.
pub(super) fn check_references(
    document: &Document,
    described: &[(FieldPath, &MethodDescription)],
    faults: &mut Faults,
) {
    let mut found = Vec::new();
    for (field_path, method) in described {
        for (field, schema) in [("request", &method.request), ("response", &method.response)] {
            if let Some(schema) = schema {
                collect(schema, &field_path.field(field), &mut found);
            }
        }
    }
    let (mut seen, mut next) = (HashSet::new(), 0);
    while let Some((field_path, name)) = found.get(next).cloned() {
        next += 1;
        match document.schema(name) {
            Some(schema) if seen.insert(name) => collect(schema, &path_of(name), &mut found),
            Some(_) => {}
            None => faults.push(field_path.fault(unknown(name))),
        }
    }
}

/// The references to schemas that the document does not have, anywhere in its schemas.
pub(crate) fn unknown_references(document: &Document) -> Vec<(FieldPath, &str)> {
    let mut found = Vec::new();
    for (name, schema) in &document.schemas {
        collect(schema, &path_of(name), &mut found);
    }
    found.retain(|(_, name)| document.schema(name).is_none());
    found
}

/// Finds the references in a schema, without following them.
fn collect<'a>(schema: &'a Schema, field_path: &FieldPath, found: &mut Vec<(FieldPath, &'a str)>) {
    if let Some(name) = &schema.reference {
        found.push((field_path.field("$ref"), name));
    }
    let properties = field_path.field("properties");
    for (name, property) in &schema.properties {
        collect(property, &properties.field(name), found);
    }
    for (field, inner) in [
        ("items", &schema.items),
        ("additionalProperties", &schema.additional_properties),
    ] {
        if let Some(inner) = inner {
            collect(inner, &field_path.field(field), found);
        }
    }
}

fn path_of(schema: &str) -> FieldPath {
    FieldPath::root().field("schemas").field(schema)
}

fn unknown(name: &str) -> Fault {
    Fault::UnknownSchema {
        name: name.to_owned(),
    }
}
