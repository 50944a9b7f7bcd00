//! Published descriptions, augmented with methods that Windlass adds.
//!
//! Some published documents have lost a method, and none has a method to read an asset back. A
//! description from elsewhere gets what it lacks from the one that comes with Windlass, so that
//! both are served alike.

use windlass_discovery::Api;
use windlass_discovery::document::{Collection, Document, MethodDescription};

/// Returns the API with those of `methods` that it lacks, copied from `own` with the schemas they
/// need.
///
/// Returns the API unchanged if their paths conflict with its own.
pub(crate) fn augmented(api: Api, own: &Api, methods: &[&str]) -> Api {
    let missing: Vec<_> = methods
        .iter()
        .filter(|id| api.method(id).is_none())
        .collect();
    if missing.is_empty() {
        return api;
    }
    let mut document = api.document().clone();
    for id in missing {
        add(&mut document, own.document(), id);
    }
    for (name, schema) in &own.document().schemas {
        let known = document.schemas.entry(name.clone());
        known.or_insert_with(|| schema.clone());
    }
    match Api::from_document(document) {
        Ok(completed) => completed.with_settings(api.settings().clone()),
        Err(_) => api,
    }
}

/// Copies the method of this id, e.g. `farm.animals.get`, into the same collection.
fn add(document: &mut Document, own: &Document, id: &str) {
    let words: Vec<_> = id.split('.').skip(1).collect();
    let Some((verb, [first, inner @ ..])) = words.split_last() else {
        return;
    };
    let Some(method) = described(own, first, inner, verb) else {
        return;
    };
    let mut collection = document.collections.entry((*first).to_owned()).or_default();
    for name in inner {
        collection = collection
            .collections
            .entry((*name).to_owned())
            .or_default();
    }
    collection
        .methods
        .insert((*verb).to_owned(), method.clone());
}

fn described<'a>(
    own: &'a Document,
    first: &str,
    inner: &[&str],
    verb: &str,
) -> Option<&'a MethodDescription> {
    let into = |collection: &'a Collection, name: &&str| collection.collections.get(*name);
    let collection = inner.iter().try_fold(own.collections.get(first)?, into)?;
    collection.methods.get(verb)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn api(methods: &serde_json::Value) -> Api {
        let document = json!({
            "name": "farm", "version": "v1", "servicePath": "farm/v1/",
            "schemas": {"Animal": {"id": "Animal", "type": "object"}},
            "resources": {"animals": {"resources": {"calves": {"methods": methods}}}},
        });
        Api::from_json(&document.to_string()).unwrap()
    }

    fn method(verb: &str, http: &str, path: &str) -> serde_json::Value {
        json!({
            "id": format!("farm.animals.calves.{verb}"), "httpMethod": http, "path": path,
            "response": {"$ref": "Animal"},
        })
    }

    #[test]
    fn missing_methods_are_added_and_existing_ones_kept() {
        let own = api(&json!({
            "get": method("get", "GET", "calves/one"),
            "insert": method("insert", "POST", "calves"),
            "list": method("list", "GET", "calves"),
        }));
        let published = api(&json!({"insert": method("insert", "POST", "calves/new")}));
        let wanted = ["farm.animals.calves.get", "farm.animals.calves.insert"];
        let completed = augmented(published, &own, &wanted);
        let path = |id: &str| {
            completed
                .method(id)
                .map(|it| it.template.as_str().to_owned())
        };
        assert_eq!(path(wanted[0]).as_deref(), Some("farm/v1/calves/one"));
        assert_eq!(path(wanted[1]).as_deref(), Some("farm/v1/calves/new"));
        assert_eq!(path("farm.animals.calves.list"), None);
    }

    #[test]
    fn document_with_conflicting_paths_is_unchanged() {
        let own = api(&json!({"get": method("get", "GET", "calves")}));
        let published = api(&json!({"all": method("all", "GET", "calves")}));
        let completed = augmented(published, &own, &["farm.animals.calves.get"]);
        assert!(completed.method("farm.animals.calves.get").is_none());
        assert!(completed.method("farm.animals.calves.all").is_some());
    }
}
