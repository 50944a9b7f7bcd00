//! Which fields a reply may have, by the schemas of its method's description.
//!
//! ```
//! use windlass_discovery::{Api, ResponseFields};
//!
//! let farm = Api::from_toml(r#"
//!     name = "farm"
//!     version = "v1"
//!     [collections.animals]
//!     schema = { name = "string", labels = "string{}" }
//! "#)?;
//! let list = farm.method("farm.animals.list").expect("collections have lists");
//! let reply = ResponseFields::of(&farm, list);
//! let animals = reply.named("items").expect("lists have items");
//! assert!(animals.named("name").is_some());
//! assert!(reply.named("wings").is_none());
//! let labels = animals.named("labels").expect("it is in the schema");
//! assert!(labels.named("any name").is_some());
//! # Ok::<(), windlass_discovery::Error>(())
//! ```

use std::collections::HashSet;
use std::ptr;

use crate::api::Api;
use crate::document::Document;
use crate::method::Method;
use crate::schema::Schema;

/// The fields of a place in a reply: of the reply itself, or of the values of a field. Lists are
/// looked through, so the fields of a list are the ones of its elements.
#[derive(Debug, Clone)]
pub struct ResponseFields<'a> {
    document: &'a Document,
    /// The schemas of objects with known fields that the values may have, each once. Below a
    /// wildcard there are several.
    objects: Vec<&'a Schema>,
    /// Whether the values may have fields of any name.
    is_open: bool,
}

impl<'a> ResponseFields<'a> {
    /// Returns the fields of the reply of a method. A method without a response schema may reply
    /// with any.
    pub fn of(api: &'a Api, method: &Method) -> Self {
        let schema = method.response.as_deref().and_then(|name| api.schema(name));
        match schema {
            Some(schema) => Self::among(api.document(), [schema]),
            None => Self {
                document: api.document(),
                objects: Vec::new(),
                is_open: true,
            },
        }
    }

    /// Whether there may be fields of any name, with any fields in them.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the fields in the field of this name; `None` if there is no such field.
    pub fn named(&self, name: &str) -> Option<Self> {
        if self.is_open {
            return Some(self.clone());
        }
        let value_of = |object: &&'a Schema| {
            let others = object.additional_properties.as_deref();
            object.property(name).or(others)
        };
        let values: Vec<_> = self.objects.iter().filter_map(value_of).collect();
        (!values.is_empty()).then(|| Self::among(self.document, values))
    }

    /// Returns the fields in any of the fields; `None` if there are no fields.
    pub fn any(&self) -> Option<Self> {
        if self.is_open {
            return Some(self.clone());
        }
        let values = self.objects.iter().flat_map(|object| {
            let others = object.additional_properties.as_deref();
            object.properties.values().chain(others)
        });
        (!self.objects.is_empty()).then(|| Self::among(self.document, values))
    }

    /// Returns the fields of values of these schemas.
    fn among(document: &'a Document, schemas: impl IntoIterator<Item = &'a Schema>) -> Self {
        let mut fields = Self {
            document,
            objects: Vec::new(),
            is_open: false,
        };
        // Each schema once: recursive schemas below many wildcards would otherwise be counted
        // without end.
        let mut seen = HashSet::new();
        for schema in schemas {
            match shape(document, schema) {
                Shape::Scalar => {}
                Shape::Open => fields.is_open = true,
                Shape::Object(object) => {
                    if seen.insert(ptr::from_ref(object)) {
                        fields.objects.push(object);
                    }
                }
            }
        }
        fields
    }
}

/// The structure of a value.
enum Shape<'a> {
    /// No fields.
    Scalar,
    /// Any fields: the description does not say which.
    Open,
    /// The fields of this schema.
    Object(&'a Schema),
}

/// Follows references and lists.
fn shape<'a>(document: &'a Document, mut schema: &'a Schema) -> Shape<'a> {
    let mut references = 0;
    // A reference may lead to itself.
    while references <= document.schemas.len() {
        if let Some(name) = &schema.reference {
            match document.schema(name) {
                Some(named) => schema = named,
                None => return Shape::Open,
            }
            references += 1;
            continue;
        }
        if !schema.properties.is_empty() || schema.additional_properties.is_some() {
            return Shape::Object(schema);
        }
        match (schema.json_type.as_deref(), &schema.items) {
            (Some("array"), Some(items)) => schema = items,
            (Some("string" | "integer" | "number" | "boolean" | "null"), _) => {
                return Shape::Scalar;
            }
            _ => return Shape::Open,
        }
    }
    Shape::Open
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn forest() -> Api {
        let document = json!({
            "name": "forest", "version": "v1", "servicePath": "forest/v1/",
            "schemas": {
                "Tree": {"id": "Tree", "type": "object", "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "Tree"}},
                    "grid": {"type": "array", "items": {
                        "type": "array", "items": {"$ref": "Tree"}
                    }},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "owners": {"type": "object", "additionalProperties": {"$ref": "Tree"}},
                    "any": {"type": "any"},
                    "object": {"type": "object"},
                    "self": {"$ref": "Loop"}
                }},
                "Loop": {"id": "Loop", "$ref": "Loop"},
            },
            "resources": {"trees": {"methods": {
                "get": {"id": "forest.trees.get", "httpMethod": "GET", "path": "trees",
                        "response": {"$ref": "Tree"}},
                "cut": {"id": "forest.trees.cut", "httpMethod": "POST", "path": "trees/cut"},
            }}},
        });
        Api::from_json(&document.to_string()).expect("it is valid")
    }

    /// Whether the reply of a method may have a field at the end of this path.
    fn has(method: &str, path: &str) -> bool {
        let api = forest();
        let method = api.method(method).expect("it is described");
        let mut at = ResponseFields::of(&api, method);
        path.split('/').all(|name| {
            let below = at.named(name);
            below.map(|below| at = below).is_some()
        })
    }

    #[test]
    fn fields_are_those_of_the_schema() {
        for (path, expected) in [
            ("name", true),
            ("name/x", false),
            ("wings", false),
            ("children/name", true),
            ("children/children/grid/name", true),
            ("grid/wings", false),
            ("labels/anything", true),
            ("labels/anything/x", false),
            ("owners/ada/name", true),
            ("owners/ada/wings", false),
            ("any/thing/at/all", true),
            ("object/thing/at/all", true),
            ("self/thing", true),
        ] {
            assert_eq!(has("forest.trees.get", path), expected, "{path}");
        }
        assert!(has("forest.trees.cut", "anything/at/all"));
    }

    #[test]
    fn wildcard_has_the_fields_of_all_values() {
        let api = forest();
        let get = api.method("forest.trees.get").expect("it is described");
        let fields = ResponseFields::of(&api, get);
        assert!(fields.any().expect("it has fields").is_open());
        let children = fields.named("labels").expect("it is a map");
        let values = children.any().expect("it has values");
        assert!(!values.is_open() && values.named("x").is_none());
        assert!(values.any().is_none());
    }

    #[test]
    fn wildcards_over_recursive_schemas_do_not_multiply() {
        let api = Api::from_toml(
            "name = 'f'\nversion = 'v1'\n[schemas.A]\na = 'A'\nb = 'B'\nc = 'A[]'\n\
             [schemas.B]\na = 'A'\nb = 'B{}'\n\
             [methods.'x.get']\nhttp = 'GET'\npath = 'x'\nresponse = 'A'\n",
        )
        .expect("it is valid");
        let mut at = ResponseFields::of(&api, api.method("f.x.get").expect("it is described"));
        for _ in 0..64 {
            at = at.any().expect("it has fields");
            assert!(at.objects.len() <= 3, "{}", at.objects.len());
        }
    }
}
