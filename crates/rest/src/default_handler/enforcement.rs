//! Rules for all fields of a written resource, in APIs that enforce their schemas: required fields
//! are present, and immutable fields stay as they are.
//!
//! The rules apply to the fields after the write and not to the fields in the request. A patch may
//! therefore leave out a field that is already present, and cannot remove a required field.

use serde_json::{Map, Value};
use windlass_discovery::{Document, Schema};
use windlass_store::Resource;

use super::fields::{fields_of, is_server_field, server_field};
use super::operation::CallContext;
use super::schema_validation::{Path, invalid, resolve};
use crate::handler::{Call, Rejection};

/// Checks the fields that a resource has after a call has created or changed it.
///
/// # Errors
/// [`Rejection::MissingField`] with the path of a required field that is absent.
pub(super) fn check_required(
    call: &Call<'_>,
    resource: &Resource,
    fields: &Map<String, Value>,
) -> Result<(), Rejection> {
    let Some(schema) = enforced_schema(call) else {
        return Ok(());
    };
    let context = CallContext::of(call);
    let required = Required {
        document: call.api.document(),
        method_id: &call.method.id,
    };
    for (name, property) in &schema.properties {
        // The server adds these fields to each reply. They are never stored.
        let by_server = is_server_field(name) || server_field(&context, resource, name).is_some();
        if !by_server {
            required.check_field(property, fields.get(name), Path::Field(&Path::Root, name))?;
        }
    }
    Ok(())
}

/// Adds the defaults of the fields that are absent, also inside of objects that are there.
pub(super) fn add_defaults(call: &Call<'_>, fields: &mut Map<String, Value>) {
    if let Some(schema) = enforced_schema(call) {
        add_defaults_of(call.api.document(), schema, fields, is_server_field);
    }
}

/// `is_skipped` says which fields of the outermost object the server fills in.
fn add_defaults_of(
    document: &Document,
    schema: &Schema,
    fields: &mut Map<String, Value>,
    is_skipped: fn(&str) -> bool,
) {
    let properties = schema.properties.iter();
    for (name, property) in properties.filter(|(name, _)| !is_skipped(name)) {
        match fields.get_mut(name) {
            None => {
                fields.extend(property.default_value().map(|value| (name.clone(), value)));
            }
            Some(value) => each_object(document, property, value, &mut |schema, inside| {
                // Only in the outermost object are names such as `id` the server's.
                add_defaults_of(document, schema, inside, |_| false);
            }),
        }
    }
}

/// Calls `change` for the object, or for each object in the array, of a property.
fn each_object(
    document: &Document,
    property: &Schema,
    value: &mut Value,
    change: &mut dyn FnMut(&Schema, &mut Map<String, Value>),
) {
    let Some(schema) = resolve(document, property) else {
        return;
    };
    match (value, schema.items.as_deref()) {
        (Value::Object(inside), _) => change(schema, inside),
        (Value::Array(elements), Some(items)) => {
            for element in elements {
                each_object(document, items, element, change);
            }
        }
        _ => {}
    }
}

/// Keeps the fields that a replacement of all fields must not remove: fields that only the server
/// sets, and immutable fields that the client has left out.
pub(super) fn keep_fixed(
    call: &Call<'_>,
    old: &Map<String, Value>,
    fields: &mut Map<String, Value>,
) {
    let Some(schema) = enforced_schema(call) else {
        return;
    };
    for (name, property) in &schema.properties {
        let is_fixed = property.read_only || property.is_immutable();
        if let Some(value) = old.get(name).filter(|_| is_fixed) {
            // A value that the client sends stays, so that `check_immutable` can refuse it.
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// Checks that a call does not change or remove immutable fields that have a value.
///
/// # Errors
/// [`Rejection::InvalidField`] with the path of a field that would change.
pub(super) fn check_immutable(
    call: &Call<'_>,
    old: &Resource,
    new: &Map<String, Value>,
) -> Result<(), Rejection> {
    let Some(schema) = enforced_schema(call) else {
        return Ok(());
    };
    let old = fields_of(old);
    check_unchanged(call.api.document(), schema, &old, new, Path::Root)
}

/// An element of an array has no identity, so immutable fields inside of arrays are free.
fn check_unchanged(
    document: &Document,
    schema: &Schema,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: Path<'_>,
) -> Result<(), Rejection> {
    for (name, property) in &schema.properties {
        let path = Path::Field(&path, name);
        let Some(before) = old.get(name) else {
            continue;
        };
        let after = new.get(name);
        if property.is_immutable() && after != Some(before) {
            return Err(invalid(
                path,
                "cannot be changed once it has a value".to_owned(),
            ));
        }
        if let (Value::Object(before), Some(Value::Object(after))) = (before, after)
            && let Some(schema) = resolve(document, property)
        {
            check_unchanged(document, schema, before, after, path)?;
        }
    }
    Ok(())
}

/// Returns the schema of the resource that the call writes; `None` if nothing is enforced.
fn enforced_schema<'a>(call: &Call<'a>) -> Option<&'a Schema> {
    if !call.api.settings().strict {
        return None;
    }
    let name = call.method.request.as_deref();
    let schema = call.api.schema(name.or(call.method.response.as_deref())?)?;
    let context = CallContext::of(call);
    if !context.wraps(schema) {
        return Some(schema);
    }
    let document = call.api.document();
    let mut properties = schema.properties.iter();
    let inside = properties.find_map(|(name, property)| {
        let inside = resolve(document, property)?;
        let holds = context.names_one_resource(name) && !inside.properties.is_empty();
        holds.then_some(inside)
    });
    Some(inside.unwrap_or(schema))
}

/// Looks for required fields, at any depth of the objects that are there.
pub(super) struct Required<'a> {
    pub(super) document: &'a Document,
    /// The method for which fields may be required.
    pub(super) method_id: &'a str,
}

impl Required<'_> {
    pub(super) fn check_field(
        &self,
        property: &Schema,
        value: Option<&Value>,
        path: Path<'_>,
    ) -> Result<(), Rejection> {
        // Only the server sets it: no client can be asked for it.
        if property.read_only {
            return Ok(());
        }
        match value {
            Some(value) => self.check_inside(property, value, path),
            None if property.is_required_for(self.method_id) => Err(Rejection::MissingField {
                field: path.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn check_inside(
        &self,
        schema: &Schema,
        value: &Value,
        path: Path<'_>,
    ) -> Result<(), Rejection> {
        let Some(schema) = resolve(self.document, schema) else {
            return Ok(());
        };
        match value {
            Value::Object(fields) => self.check_object(schema, fields, path),
            Value::Array(elements) => {
                let Some(items) = schema.items.as_deref() else {
                    return Ok(());
                };
                let mut elements = elements.iter().enumerate();
                elements.try_for_each(|(at, element)| {
                    self.check_inside(items, element, Path::Element(&path, at))
                })
            }
            _ => Ok(()),
        }
    }

    fn check_object(
        &self,
        schema: &Schema,
        fields: &Map<String, Value>,
        path: Path<'_>,
    ) -> Result<(), Rejection> {
        for (name, property) in &schema.properties {
            self.check_field(property, fields.get(name), Path::Field(&path, name))?;
        }
        let Some(others) = schema.additional_properties.as_deref() else {
            return Ok(());
        };
        let mut values = fields.iter();
        values.try_for_each(|(name, value)| match schema.property(name) {
            Some(_) => Ok(()),
            None => self.check_inside(others, value, Path::Field(&path, name)),
        })
    }
}
