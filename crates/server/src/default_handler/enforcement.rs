//! What the fields of a resource must fulfil as a whole once they are written, in APIs that enforce their
//! schemas: required fields are there.
//!
//! The fields after the write are checked, not those of the request, so that a patch may leave out
//! what is there already and cannot remove what must stay.

use serde_json::{Map, Value};
use windlass_discovery::{Document, Schema};
use windlass_store::Resource;

use super::fields::{is_server_field, server_field};
use super::operation::CallContext;
use super::schema_validation::{Path, resolve};
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
        let by_server = is_server_field(name) || server_field(&context, resource, name).is_some();
        if !by_server {
            required.check_field(property, fields.get(name), Path::Field(&Path::Root, name))?;
        }
    }
    Ok(())
}

/// Returns the schema of the resource that the call writes; `None` if nothing is enforced.
fn enforced_schema<'a>(call: &Call<'a>) -> Option<&'a Schema> {
    if !call.api.settings().enforce_schemas {
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
struct Required<'a> {
    document: &'a Document,
    method_id: &'a str,
}

impl Required<'_> {
    fn check_field(
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
