//! Paths: templates in the form of OpenAPI, in which each variable is one segment.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::UniqueNames;
use crate::template::{PathPart, Template};

/// The HTTP methods that a path item has.
const VERBS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// The paths of a document, in the order in which they were added.
#[derive(Default)]
pub(super) struct Paths {
    items: Map<String, Value>,
    /// The paths by shape, that is, without the names of their variables. OpenAPI forbids two paths
    /// that differ only in these names.
    by_shape: HashMap<String, Place>,
}

/// A path of the document, with its variables in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) variables: Vec<PathVariable>,
}

/// A variable of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathVariable {
    /// Its name in the document.
    pub(super) name: String,
    /// The variable of the template.
    pub(super) variable: String,
    /// Whether it stands for the whole variable of the template.
    pub(super) is_whole: bool,
    /// Whether it may be more than one segment.
    pub(super) is_many: bool,
}

impl Paths {
    /// Returns the place of a template. If an earlier path has the same shape, the names of its
    /// variables are used.
    pub(super) fn place(&mut self, template: &Template) -> Place {
        let mut place = Place::of(template);
        let known = self.by_shape.entry(place.shape());
        let known = known.or_insert_with(|| place.clone());
        place.path.clone_from(&known.path);
        for (variable, known) in place.variables.iter_mut().zip(&known.variables) {
            variable.name.clone_from(&known.name);
        }
        place
    }

    /// Adds an operation. Returns false if another operation has the same path and HTTP method.
    pub(super) fn add(&mut self, place: &Place, verb: &str, operation: Map<String, Value>) -> bool {
        if !self.is_free(place, verb) {
            return false;
        }
        let item = self.items.entry(place.path.clone());
        let item = item.or_insert_with(|| Value::Object(Map::new()));
        item[verb] = Value::Object(operation);
        true
    }

    /// Whether an operation with this HTTP method, in lower case, can be added.
    pub(super) fn is_free(&self, place: &Place, verb: &str) -> bool {
        let taken = self.items.get(&place.path).and_then(|item| item.get(verb));
        VERBS.contains(&verb) && taken.is_none()
    }

    pub(super) fn into_json(self) -> Value {
        Value::Object(self.items)
    }
}

impl Place {
    fn of(template: &Template) -> Self {
        let (mut path, mut variables) = (String::new(), Vec::new());
        let (mut names, mut before) = (UniqueNames::default(), "");
        for part in template.parts() {
            path.push('/');
            match part {
                PathPart::Literal {
                    text,
                    is_in_variable,
                } => {
                    path.push_str(text);
                    before = if is_in_variable { text } else { "" };
                }
                PathPart::Value {
                    variable,
                    is_whole,
                    is_many,
                } => {
                    let name = names.unique(&part_name(variable, is_whole, before));
                    path.extend(["{", &name, "}"]);
                    variables.push(PathVariable {
                        name,
                        variable: variable.to_owned(),
                        is_whole,
                        is_many,
                    });
                    before = "";
                }
            }
        }
        if let Some(verb) = template.custom_verb() {
            path.extend([":", verb]);
        }
        Self { path, variables }
    }

    /// The path without the names of its variables.
    fn shape(&self) -> String {
        let names = self.variables.iter().map(|variable| &variable.name);
        names.fold(self.path.clone(), |path, name| {
            path.replacen(&format!("{{{name}}}"), "{}", 1)
        })
    }
}

/// Names a part as the `flatPath` of published documents does: `projectsId` for the segment after
/// `projects`.
fn part_name(variable: &str, is_whole: bool, before: &str) -> String {
    if is_whole || before.is_empty() {
        variable.to_owned()
    } else {
        format!("{before}Id")
    }
}
