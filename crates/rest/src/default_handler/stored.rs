//! Resources that were stored under an earlier description, seen from a new one.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_discovery::{Api, Method, Schema};

use super::enforcement::Required;
use super::fields::is_server_field;
use super::index::is_index;
use super::operation::{key, split};
use super::schema_validation::{Path, Purpose, SchemaValidation};
use crate::handler::Rejection;
use crate::namespace::without_owner;
use crate::pattern_checks::PatternChecks;

/// Compares stored resources with an API's description in the short form, before a server uses the
/// description.
///
/// This reads resources that the [default handler](crate::DefaultHandler) has stored, and changes
/// nothing. A resource that does not fit can still be read, listed and deleted. Writes to it are
/// refused unless they make it fit.
#[derive(Debug)]
pub struct StoredResources<'a> {
    api: &'a Api,
    /// By the path of a collection, with its variables: `album/v1/photos/{photoId}/comments`.
    collections: BTreeMap<String, Described<'a>>,
}

/// A collection, as the description now defines it.
#[derive(Debug)]
struct Described<'a> {
    schema: &'a Schema,
    /// The method that replaces or patches a resource. Resources must have the fields that it
    /// requires. Empty if there is no such method.
    writer: &'a str,
}

/// The result of comparing a stored resource with the new description.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fit {
    /// The row belongs to another API, or is not a client's resource.
    Foreign,
    /// It fits.
    Fits {
        /// The path of its collection, with its variables.
        collection: String,
    },
    /// The description has no such collection any more, so the resource is unreachable.
    NoCollection {
        /// The path of its collection, with its own ids.
        collection: String,
    },
    /// It does not fit. The next write to it is refused, unless the write corrects the field.
    Misfit {
        /// The path of its collection, with its variables.
        collection: String,
        /// The path of the field.
        field: String,
        /// The rule that it breaks.
        problem: String,
    },
}

impl<'a> StoredResources<'a> {
    /// Compares with the description of this API.
    pub fn new(api: &'a Api) -> Self {
        let mut collections = BTreeMap::new();
        let methods = api.methods().iter().map(|method| &**method);
        for method in methods.filter(|method| matches!(method.verb(), "get" | "patch" | "update")) {
            let Some(schema) = schema_of(api, method) else {
                continue;
            };
            let collection = split(method.template.as_str()).collection;
            let writer = match method.verb() {
                "get" => "",
                _ => &*method.id,
            };
            let described = collections
                .entry(collection)
                .or_insert(Described { schema, writer });
            // An update is preferred to a patch: a patch may omit required fields, because the
            // stored resource has them.
            if method.verb() == "update" || described.writer.is_empty() {
                described.writer = writer;
            }
        }
        Self { api, collections }
    }

    /// Compares a row of the ledger: its collection there, and its body.
    pub fn fit(&self, collection: &str, body: &[u8]) -> Fit {
        let name = without_owner(collection);
        let prefix = key(self.api, "");
        let Some(path) = name.strip_prefix(&prefix).filter(|_| !is_index(name)) else {
            return Fit::Foreign;
        };
        let mut described = self.collections.iter();
        let Some((pattern, described)) = described.find(|(pattern, _)| matches(pattern, path))
        else {
            let collection = path.to_owned();
            return Fit::NoCollection { collection };
        };
        let collection = pattern.clone();
        match self.check(described, body) {
            Ok(()) => Fit::Fits { collection },
            Err((field, problem)) => Fit::Misfit {
                collection,
                field,
                problem,
            },
        }
    }

    /// Returns the path of a field and the rule that it breaks, if there is one.
    fn check(&self, described: &Described<'_>, body: &[u8]) -> Result<(), (String, String)> {
        let document = self.api.document();
        let unreadable = |_| (String::new(), "is not JSON".to_owned());
        let fields: Map<String, Value> = serde_json::from_slice(body).map_err(unreadable)?;
        let checks = PatternChecks::default();
        let validation = SchemaValidation {
            document,
            patterns: Some(&checks),
            // Checked like JSON from the server itself, because the row may have fields that no
            // client sets.
            purpose: Purpose::Service,
            enforced: true,
            closed: described.schema.additional_properties.is_none(),
        };
        let admitted = validation.fields(described.schema, &fields);
        admitted.map_err(|rejection| rule_of(&rejection))?;
        checks
            // On this thread: the comparison is a command of its operator, and delays no requests.
            .finish_here()
            .map_err(|rejection| rule_of(&rejection))?;
        let required = Required {
            document,
            method_id: described.writer,
        };
        let properties = described.schema.properties.iter();
        for (name, property) in properties.filter(|(name, _)| !is_server_field(name)) {
            let path = Path::Field(&Path::Root, name);
            let checked = required.check_field(property, fields.get(name), path);
            checked.map_err(|rejection| rule_of(&rejection))?;
        }
        Ok(())
    }
}

/// The schema of the resource that a method reads or writes.
fn schema_of<'a>(api: &'a Api, method: &'a Method) -> Option<&'a Schema> {
    api.schema(method.response.as_deref().or(method.request.as_deref())?)
}

/// Whether a path matches a pattern. A variable in the pattern matches any one segment.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(described), Some(word)) if described.starts_with('{') || described == word => {}
            _ => return false,
        }
    }
}

fn rule_of(rejection: &Rejection) -> (String, String) {
    match rejection {
        Rejection::InvalidField { field, problem } => (field.clone(), problem.clone()),
        Rejection::MissingField { field } => (field.clone(), "is required".to_owned()),
        other => (String::new(), other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = r#"
        name = "album"
        version = "v1"

        [collections.photos]
        unknown_fields = "refuse"

        [collections.photos.schema]
        rating = { type = "integer", max = 5 }
        title = { type = "string", required = true }
        seen = { type = "string", read_only = true }
        shot = { type = "string", required_for = ["photos.insert"] }

        [collections.comments]
        parent = "photos"
        schema = { text = "string" }
    "#;

    #[test]
    fn rows_are_compared_with_the_collection_that_they_are_in() {
        let api = Api::from_toml(NEW).expect("it is valid");
        let stored = StoredResources::new(&api);
        let photos = "album/v1/photos";
        let comments = "album/v1/photos/{photoId}/comments";
        let fits = |collection: &str| Fit::Fits {
            collection: collection.to_owned(),
        };
        let misfit = |field: &str, problem: &str| Fit::Misfit {
            collection: photos.to_owned(),
            field: field.to_owned(),
            problem: problem.to_owned(),
        };
        for (collection, body, expected) in [
            (
                "album/album/v1/photos",
                r#"{"title": "a", "seen": "x"}"#,
                fits(photos),
            ),
            (
                ".owner/alice/album/album/v1/photos",
                r#"{"title": "a"}"#,
                fits(photos),
            ),
            ("album/album/v1/photos/a7/comments", "{}", fits(comments)),
            (
                "album/album/v1/photos",
                "{}",
                misfit("title", "is required"),
            ),
            (
                "album/album/v1/photos",
                r#"{"title": "a", "rating": 6}"#,
                misfit("rating", "must be at most 5"),
            ),
            (
                "album/album/v1/photos",
                r#"{"title": "a", "stars": 6}"#,
                misfit("stars", "is not a field of this resource"),
            ),
            ("album/album/v1/photos", "", misfit("", "is not JSON")),
            ("farm/farm/v1/animals", "{}", Fit::Foreign),
            (".outbox/done", "{}", Fit::Foreign),
            (".index/rating/album/album/v1/photos", "{}", Fit::Foreign),
            (
                ".owner/a/.index/rating/album/album/v1/photos",
                "{}",
                Fit::Foreign,
            ),
            (
                "album/album/v1/albums",
                "{}",
                Fit::NoCollection {
                    collection: "album/v1/albums".to_owned(),
                },
            ),
        ] {
            assert_eq!(
                stored.fit(collection, body.as_bytes()),
                expected,
                "{collection} {body}"
            );
        }
    }
}
