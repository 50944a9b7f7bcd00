//! The rules for a form beyond the types of its values.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use toml::Spanned;

use super::fields::{MethodName, SchemaName};
use super::key_path::{Step, written};
use super::method::MethodForm;
use super::place::place_of;
use super::relations::full_name;
use super::{Fields, ShortForm};
use crate::mistake::Mistakes;

impl ShortForm {
    /// Returns the mistakes of the form that was read from this text.
    pub(super) fn mistakes<'a>(&self, text: &'a str) -> Mistakes<'a> {
        let mut mistakes = Mistakes::of(text);
        self.check_media(&mut mistakes);
        self.check_backends(&mut mistakes);
        self.check_relations(&mut mistakes);
        self.check_lists(&mut mistakes);
        self.check_resources(&mut mistakes);
        self.check_schemas_of_collections(&mut mistakes);
        self.check_names_beside_collections(&mut mistakes);
        self.check_references(&mut mistakes);
        if mistakes.is_empty() && self.collections.is_empty() && self.methods.is_empty() {
            let problem = "there are neither `collections` nor `methods`".to_owned();
            let help = "`windlass api new NAME` writes a description to begin with".to_owned();
            mistakes.push_at(0..0, None, problem, Some(help));
        }
        mistakes
    }

    fn check_media(&self, mistakes: &mut Mistakes<'_>) {
        for (name, collection) in &self.collections {
            let Some(media) = &collection.media else {
                continue;
            };
            let key = format!("collections.{name}.media");
            if let Some(problem) = media.get_ref().problem() {
                mistakes.push(key.clone(), problem, media);
            }
            if collection.takes_no_media() {
                let problem = "it needs one of the methods insert, update and patch";
                mistakes.push(key, problem, media);
            }
        }
        for (name, method) in &self.methods {
            let Some(media) = &method.media else { continue };
            let key = format!("{}.media", method_key(name));
            if let Some(problem) = media.get_ref().problem() {
                mistakes.push(key.clone(), problem, media);
            }
            if let Some(http_method) = method.http_method_without_media() {
                let problem = format!("it needs http = POST, PUT or PATCH, not {http_method}");
                mistakes.push(key, problem, media);
            }
        }
    }

    fn check_backends(&self, mistakes: &mut Mistakes<'_>) {
        for (name, method) in &self.methods {
            if let (Some(backend), Some(problem)) = (&method.backend, backend_problem(method)) {
                mistakes.push(format!("{}.backend", method_key(name)), problem, backend);
            }
        }
    }

    fn check_resources(&self, mistakes: &mut Mistakes<'_>) {
        for (name, collection) in &self.collections {
            if let Some(resource) = &collection.resource
                && resource.get_ref().is_capitalised()
            {
                let problem = "the name of a resource begins with a small letter".to_owned();
                let small = resource.get_ref().uncapitalised();
                let help = format!(
                    "write `{small}`: variables are then `{small}Id`, the schema `{}`",
                    resource.get_ref()
                );
                let key = format!("collections.{name}.resource");
                mistakes.push_at(resource.span(), Some(key), problem, Some(help));
            }
        }
    }

    fn check_schemas_of_collections(&self, mistakes: &mut Mistakes<'_>) {
        let mut firsts = BTreeMap::new();
        for (name, collection) in &self.collections {
            for schema in collection.schema_names(name) {
                if let Some(first) = firsts.insert(schema.clone(), name) {
                    let problem = format!("`collections.{first}` makes the schema `{schema}`, too");
                    let help = "name its resource by `resource`".to_owned();
                    let key = format!("collections.{name}");
                    let span = place_of(mistakes.text(), &format!("resources.{name}"));
                    mistakes.push_at(span.unwrap_or_default(), Some(key), problem, Some(help));
                }
            }
        }
    }

    fn check_names_beside_collections(&self, mistakes: &mut Mistakes<'_>) {
        for (name, collection) in &self.collections {
            let own = collection.schema_names(name);
            let schemas = self.schemas.keys();
            for schema in schemas.filter(|it| own.iter().any(|own| own == it.get_ref().as_str())) {
                let problem = format!("`collections.{name}` makes it already");
                mistakes.push(format!("schemas.{}", schema.get_ref()), problem, schema);
            }
            let own = collection.method_names(&full_name(&self.collections, name));
            let methods = self.methods.keys();
            for method in methods.filter(|it| own.contains(&it.get_ref().to_string())) {
                let problem = format!("it is a method of `collections.{name}` already");
                mistakes.push(method_key(method), problem, method);
            }
        }
    }

    fn check_references(&self, mistakes: &mut Mistakes<'_>) {
        let of_collections = self.collections.iter();
        let of_collections = of_collections.flat_map(|(name, it)| it.schema_names(name));
        let described = self.schemas.keys().map(|name| name.get_ref().to_string());
        let mut references = References {
            known: of_collections.chain(described).collect(),
            mistakes,
        };
        for (name, collection) in &self.collections {
            references.check_fields(&format!("collections.{name}.schema"), &collection.schema);
        }
        for (name, fields) in &self.schemas {
            references.check_fields(&format!("schemas.{}", name.get_ref()), fields);
        }
        for (name, method) in &self.methods {
            for (key, schema) in [("request", &method.request), ("response", &method.response)] {
                if let Some(schema) = schema {
                    let key = format!("{}.{key}", method_key(name));
                    references.check(schema.get_ref(), key, schema);
                }
            }
        }
    }
}

fn method_key(name: &Spanned<MethodName>) -> String {
    let name = name.get_ref().to_string();
    written(&["methods".to_owned(), name].map(Step::Key))
}

fn backend_problem(method: &MethodForm) -> Option<&'static str> {
    if method.media.is_some() {
        Some("a method with media has no backend; see `on` of a collection")
    } else if method.is_download() {
        Some("a method that gives media has no backend")
    } else {
        None
    }
}

/// Checks that the schemas that fields refer to exist, and that bounds suit their fields.
struct References<'m, 'a> {
    known: HashSet<String>,
    mistakes: &'m mut Mistakes<'a>,
}

impl References<'_, '_> {
    fn check_fields<N: Display>(&mut self, key: &str, fields: &Fields<N>) {
        for (name, field) in fields {
            let key = format!("{key}.{name}");
            if let Some(schema) = field.get_ref().reference() {
                self.check(schema, key.clone(), field);
            }
            if let Some(problem) = field.get_ref().problem() {
                self.mistakes.push(key, problem, field);
            }
        }
    }

    fn check<T>(&mut self, schema: &SchemaName, key: String, at: &Spanned<T>) {
        if self.known.contains(schema.as_str()) {
            return;
        }
        let known = self.known.iter().map(String::as_str);
        let help = super::help::nearest(schema.as_str(), known);
        let problem = format!("there is no schema `{schema}`");
        self.mistakes.push_at(at.span(), Some(key), problem, help);
    }
}
