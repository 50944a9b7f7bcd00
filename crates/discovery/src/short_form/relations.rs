//! Collections inside of the resources of another collection, and fields that name resources.

use std::collections::BTreeMap;

use toml::Spanned;

use super::ShortForm;
use super::collection::CollectionForm;
use super::fields::{Field, Identifier};
use crate::mistake::Mistakes;

/// The most collections inside each other.
const DEEPEST: usize = 4;

/// The collections of a description, by name.
pub(super) type Collections = BTreeMap<Identifier, CollectionForm>;

/// Returns the collections around this one, the outermost first, and itself: `photos` and
/// `comments` for `comments` with the parent `photos`.
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
    /// Checks the relations between collections.
    pub(super) fn check_relations(&self, mistakes: &mut Mistakes<'_>) {
        for (name, form) in &self.collections {
            if let Some(parent) = &form.parent
                && let Some(problem) = self.parent_problem(parent.get_ref())
            {
                mistakes.push(format!("collections.{name}.parent"), problem, parent);
            }
            if let Some(on) = &form.on
                && form.media().is_none()
            {
                let problem = "without `media` there are no uploads to be told of";
                mistakes.push(format!("collections.{name}.on"), problem, on);
            }
            if let Some(fate) = &form.on_parent_delete
                && form.parent.is_none()
            {
                let key = format!("collections.{name}.on_parent_delete");
                mistakes.push(key, "it has no meaning without `parent`", fate);
            }
            for (field, declared) in &form.schema {
                if let Some(problem) = self.reference_problem(declared.get_ref()) {
                    let key = format!("collections.{name}.schema.{field}");
                    mistakes.push(key, problem, declared);
                }
            }
        }
        for (name, fields) in &self.schemas {
            let with_references =
                |(_, field): &(_, &Spanned<Field>)| field.get_ref().references().is_some();
            for (field, declared) in fields.iter().filter(with_references) {
                let key = format!("schemas.{}.{field}", name.get_ref());
                mistakes.push(
                    key,
                    "`references` is for the fields of a collection",
                    declared,
                );
            }
        }
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
