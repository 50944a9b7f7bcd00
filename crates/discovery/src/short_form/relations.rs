//! Collections inside of the resources of another collection, and fields that name resources.

use std::collections::BTreeMap;

use toml::Spanned;

use super::collection::CollectionForm;
use super::fields::{Field, Identifier};
use super::{ShortForm, ShortFormError, line_of};

/// The most collections inside each other.
const DEEPEST: usize = 4;

/// The collections of a description, by name.
pub(super) type Collections = BTreeMap<Identifier, CollectionForm>;

/// Returns the collections around this one, the outermost first, and itself: `photos` and `comments` for
/// `comments` with the parent `photos`.
// The check has found that parents exist and form no circle.
pub(super) fn lineage<'a>(
    collections: &'a Collections,
    name: &'a Identifier,
) -> Vec<(&'a Identifier, &'a CollectionForm)> {
    let mut line = Vec::new();
    let mut next = collections.get_key_value(name);
    while let Some((name, form)) = next.filter(|_| line.len() < DEEPEST) {
        line.insert(0, (name, form));
        let parent = form.parent.as_ref();
        next = parent.and_then(|parent| collections.get_key_value(parent.get_ref()));
    }
    line
}

/// Returns the name of a collection with those around it: `photos.comments`.
pub(super) fn full_name(collections: &Collections, name: &Identifier) -> String {
    let line = lineage(collections, name).into_iter();
    let names: Vec<_> = line.map(|(name, _)| name.to_string()).collect();
    names.join(".")
}

impl ShortForm {
    /// Checks what collections say of each other.
    pub(super) fn check_relations(&self, text: &str) -> Result<(), ShortFormError> {
        for (name, form) in &self.collections {
            if let Some(parent) = &form.parent
                && let Some(problem) = self.parent_problem(parent.get_ref())
            {
                return Err(wrong(
                    format!("collections.{name}.parent"),
                    problem,
                    parent,
                    text,
                ));
            }
            if let Some(on) = &form.on
                && form.media().is_none()
            {
                let problem = "without `media` there are no uploads to be told of".to_owned();
                return Err(wrong(format!("collections.{name}.on"), problem, on, text));
            }
            if let Some(fate) = &form.on_parent_delete
                && form.parent.is_none()
            {
                let problem = "it has no meaning without `parent`".to_owned();
                let key = format!("collections.{name}.on_parent_delete");
                return Err(wrong(key, problem, fate, text));
            }
            for (field, declared) in &form.schema {
                if let Some(problem) = self.reference_problem(declared.get_ref()) {
                    let key = format!("collections.{name}.schema.{field}");
                    return Err(wrong(key, problem, declared, text));
                }
            }
        }
        for (name, fields) in &self.schemas {
            let mut fields = fields.iter();
            if let Some((field, declared)) =
                fields.find(|(_, it)| it.get_ref().references().is_some())
            {
                let problem = "`references` is for the fields of a collection".to_owned();
                let key = format!("schemas.{}.{field}", name.get_ref());
                return Err(wrong(key, problem, declared, text));
            }
        }
        Ok(())
    }

    /// The mistake in `references`, if there is one.
    fn reference_problem(&self, field: &Field) -> Option<String> {
        let name = field.references()?;
        let Some(collection) = self.collections.get(name) else {
            return Some(format!("there is no collection `{name}`"));
        };
        if collection.parent.is_some() {
            return Some(format!(
                "`{name}` has a parent, so an id alone names none of its resources"
            ));
        }
        let fits = field.holds_strings();
        (!fits).then(|| "`references` is for a string, or an array of strings".to_owned())
    }

    /// The mistake in a `parent`, if there is one: in it, or in those above it.
    fn parent_problem(&self, parent: &Identifier) -> Option<String> {
        let mut above = parent;
        for _ in 1..DEEPEST {
            let Some(form) = self.collections.get(above) else {
                return Some(format!("there is no collection `{above}`"));
            };
            above = form.parent.as_ref()?.get_ref();
        }
        Some(format!(
            "collections form a circle, or more than {DEEPEST} are inside each other"
        ))
    }
}

fn wrong<T>(key: String, problem: String, at: &Spanned<T>, text: &str) -> ShortFormError {
    ShortFormError::Field {
        key,
        problem,
        line: line_of(at, text),
    }
}
