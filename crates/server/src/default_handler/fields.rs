//! The fields of a resource that are the client's own.

use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_discovery::Schema;
use windlass_store::Resource;

use super::call_context::CallContext;
use super::schema_validation::{Purpose, SchemaValidation, resolve};
use super::server_fields::is_server_field;
use crate::handler::{Call, Rejection};

/// The client's fields as the request schema admits them, without those that the server fills in.
///
/// Where the metadata is not the resource itself but says it in a field, such as `ragFile`, the fields
/// inside count.
pub(super) fn client_fields(call: &Call<'_>) -> Result<Map<String, Value>, Rejection> {
    let name = call.method.request.as_ref();
    let name = name.or(call.method.response.as_ref());
    let Some(schema) = name.and_then(|name| call.api.schema(name)) else {
        return Ok(Map::new());
    };
    let validation = SchemaValidation {
        document: call.api.document(),
        purpose: Purpose::Input,
    };
    let mut own = validation.fields(schema, call.metadata)?;
    if let Some(inside) = resource_inside(call, schema, &mut own) {
        own.extend(inside);
    }
    own.retain(|name, _| !is_server_field(name));
    Ok(own)
}

/// Takes the resource out of the fields of a request for it.
fn resource_inside(
    call: &Call<'_>,
    schema: &Schema,
    own: &mut Map<String, Value>,
) -> Option<Map<String, Value>> {
    let context = CallContext::of(call);
    if !context.wraps(schema) {
        return None;
    }
    let names = |name: &String| {
        let resolve = schema
            .property(name)
            .and_then(|it| resolve(call.api.document(), it));
        context.names_one_resource(name) && resolve.is_some_and(|it| !it.properties.is_empty())
    };
    let name = own.keys().find(|name| names(name))?.clone();
    match own.shift_remove(&name)? {
        Value::Object(inside) => Some(inside),
        _ => None,
    }
}

pub(super) fn fields_of(resource: &Resource) -> Map<String, Value> {
    serde_json::from_slice(&resource.body).unwrap_or_default()
}

pub(super) fn fields_to_bytes(fields: &Map<String, Value>) -> Bytes {
    serde_json::to_vec(fields)
        .expect("JSON can be written")
        .into()
}

/// An update replaces all. What is null is not there.
pub(super) fn updated(_: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    patched(Map::new(), new)
}

/// What a patch makes of fields: it sets what it names and removes what it sets to null (RFC 7396).
pub fn patched(mut old: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in new {
        match value {
            Value::Null => {
                old.shift_remove(&name);
            }
            Value::Object(changes) => {
                let inside = match old.get_mut(&name).map(Value::take) {
                    Some(Value::Object(inside)) => inside,
                    _ => Map::new(),
                };
                old.insert(name, patched(inside, changes).into());
            }
            value => {
                old.insert(name, value);
            }
        }
    }
    old
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The rows are those of RFC 7396, appendix A, whose target and patch are both objects.
    #[test]
    fn a_patch_merges_as_rfc_7396_says() {
        let table = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (
                json!({"a":"b","b":"c"}),
                json!({"a":null}),
                json!({"b":"c"}),
            ),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (
                json!({"a":{"b":"c"}}),
                json!({"a":{"b":"d","c":null}}),
                json!({"a":{"b":"d"}}),
            ),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (
                json!({}),
                json!({"a":{"bb":{"ccc":null}}}),
                json!({"a":{"bb":{}}}),
            ),
            (
                json!({"a":"b"}),
                json!({"a":{"b":null,"c":1}}),
                json!({"a":{"c":1}}),
            ),
        ];
        for (target, patch, expected) in table {
            let patched = patched(fields(&target), fields(&patch));
            assert_eq!(Value::Object(patched), expected, "{target} and {patch}");
        }
    }

    fn fields(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }
}
