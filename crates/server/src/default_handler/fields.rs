//! The fields of a resource that the client sets, and how updates, patches and `updateMask` change
//! them.

use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_discovery::Schema;
use windlass_store::Resource;

use super::operation::{CallContext, is_query_parameter};
use super::schema_validation::{Purpose, SchemaValidation, resolve};
use super::server_fields::is_server_field;
use crate::handler::{Call, Rejection};

/// Returns the client's fields that the request schema admits, without those that the server fills
/// in.
///
/// If the metadata wraps the resource in a field, such as `ragFile`, the fields inside it are
/// returned.
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

/// Unwraps the resource from the fields of a request.
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

/// Returns the fields after an update, which replaces all of them. Null removes a field.
pub(super) fn updated(_: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    patched(Map::new(), new)
}

/// Returns the fields after a patch, which sets the fields that it names and removes those that it
/// sets to null (RFC 7396).
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

const PARAMETER: &str = "updateMask";

/// The fields that an update changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UpdateMask {
    /// `*`
    All,
    /// Paths, each of one name or more.
    Paths(Vec<Vec<String>>),
}

impl UpdateMask {
    /// Returns the mask of the call; `None` if the method has no mask or the client gives none.
    ///
    /// # Errors
    /// [`Rejection::InvalidParameter`] for a field that the request schema does not have.
    pub(super) fn of(call: &Call<'_>) -> Result<Option<Self>, Rejection> {
        if !is_query_parameter(call.method, PARAMETER) {
            return Ok(None);
        }
        let text = call.query.first(PARAMETER).unwrap_or_default().trim();
        match text {
            "" => return Ok(None),
            "*" => return Ok(Some(Self::All)),
            _ => {}
        }
        let schema = call.method.request.as_deref();
        let schema = schema.and_then(|name| call.api.schema(name));
        let paths = text.split(',').map(|path| parse(call, schema, path.trim()));
        Ok(Some(Self::Paths(paths.collect::<Result<_, _>>()?)))
    }

    /// Returns the old fields, in which those of the mask are replaced by the new ones. A field of
    /// the mask that is not among the new ones is removed.
    pub(super) fn apply(
        &self,
        mut old: Map<String, Value>,
        new: Map<String, Value>,
    ) -> Map<String, Value> {
        let new = updated(Map::new(), new);
        match self {
            Self::All => new,
            Self::Paths(paths) => {
                for path in paths {
                    copy_path(&mut old, &new, path);
                }
                old
            }
        }
    }
}

fn parse(call: &Call<'_>, schema: Option<&Schema>, path: &str) -> Result<Vec<String>, Rejection> {
    let mut names = Vec::new();
    let mut within = schema;
    for written in path.split('.') {
        let name = camel_case(written);
        let fields = within.filter(|schema| !schema.properties.is_empty());
        within = match fields {
            None => None,
            Some(schema) => match schema.property(written).or(schema.property(&name)) {
                None => return Err(unknown(path)),
                Some(property) => resolve(call.api.document(), property),
            },
        };
        let as_written = fields.is_none_or(|schema| schema.property(written).is_some());
        names.push(if as_written { written.to_owned() } else { name });
    }
    Ok(names)
}

fn unknown(path: &str) -> Rejection {
    Rejection::InvalidParameter {
        parameter: PARAMETER.to_owned(),
        problem: format!("{path} is not a field"),
    }
}

/// Field names in a mask may be in snake case, as in protocol buffers.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut chars = word.chars();
        name.extend(chars.next().map(|char| char.to_ascii_uppercase()));
        name.push_str(chars.as_str());
        name
    })
}

fn copy_path(old: &mut Map<String, Value>, new: &Map<String, Value>, path: &[String]) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let from = new.get(name);
    if rest.is_empty() {
        match from {
            Some(value) => old.insert(name.clone(), value.clone()),
            None => old.shift_remove(name),
        };
        return;
    }
    let nothing = Map::new();
    let from = from.and_then(Value::as_object).unwrap_or(&nothing);
    if !old.get(name).is_some_and(Value::is_object) {
        if from.is_empty() {
            return;
        }
        old.insert(name.clone(), Map::new().into());
    }
    if let Some(Value::Object(inside)) = old.get_mut(name) {
        copy_path(inside, from, rest);
    }
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

    fn paths(text: &str) -> UpdateMask {
        let path = |path: &str| path.split('.').map(str::to_owned).collect();
        UpdateMask::Paths(text.split(',').map(path).collect())
    }

    #[test]
    fn a_mask_takes_over_what_it_names_and_nothing_else() {
        let table = [
            (
                paths("a"),
                json!({"a": 1, "b": 1}),
                json!({"a": 2, "b": 2}),
                json!({"a": 2, "b": 1}),
            ),
            (
                paths("a"),
                json!({"a": 1, "b": 1}),
                json!({"b": 2}),
                json!({"b": 1}),
            ),
            (
                paths("a"),
                json!({"a": {"x": 1}}),
                json!({"a": {"y": 2}}),
                json!({"a": {"y": 2}}),
            ),
            (
                paths("a.y"),
                json!({"a": {"x": 1}}),
                json!({"a": {"y": 2, "z": 2}}),
                json!({"a": {"x": 1, "y": 2}}),
            ),
            (
                paths("a.x"),
                json!({"a": {"x": 1, "y": 1}}),
                json!({}),
                json!({"a": {"y": 1}}),
            ),
            (
                paths("a.x,b"),
                json!({}),
                json!({"a": {"x": 2}, "b": 2}),
                json!({"a": {"x": 2}, "b": 2}),
            ),
            (paths("a.x"), json!({}), json!({}), json!({})),
            (
                UpdateMask::All,
                json!({"a": 1}),
                json!({"b": 2, "c": null}),
                json!({"b": 2}),
            ),
        ];
        for (mask, old, new, expected) in table {
            let fields = |value: &Value| value.as_object().expect("an object").clone();
            let applied = mask.apply(fields(&old), fields(&new));
            assert_eq!(Value::Object(applied), expected, "{mask:?} {old} {new}");
        }
    }

    #[test]
    fn names_in_snake_case_become_those_of_json() {
        assert_eq!(camel_case("display_name"), "displayName");
        assert_eq!(camel_case("displayName"), "displayName");
    }
}
