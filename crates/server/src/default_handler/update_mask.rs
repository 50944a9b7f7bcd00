//! `updateMask`: which fields a patch is about, whether it names them or not.

use serde_json::{Map, Value};
use windlass_discovery::Schema;

use super::fields::updated;
use super::operation::is_query_parameter;
use super::schema_validation::resolve;
use crate::handler::{Call, Rejection};

const PARAMETER: &str = "updateMask";

/// The fields that an update is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UpdateMask {
    /// `*`
    All,
    /// Paths, each of one name or more.
    Paths(Vec<Vec<String>>),
}

impl UpdateMask {
    /// The mask of the call; `None` when its method knows none or the client gives none.
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

    /// The old fields, with those of the mask as the new ones have them. A field that the new ones
    /// lack is removed.
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

/// Masks may be written as in protocol buffers.
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
