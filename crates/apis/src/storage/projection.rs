//! Buckets and objects as replies show them: with their access control lists, or without.

use serde_json::{Map, Value, json};
use windlass_rest::handler::{Call, Rejection};

use super::Versions;
use super::acl::{Acl, Entry};
use super::bucket::Bucket;
use super::object::{Object, in_path};

/// The default projection of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Projection {
    Full,
    NoAcl,
}

impl Projection {
    /// Returns the default for a call that creates a resource. The service shows lists if the
    /// client has sent lists.
    pub(super) fn of_new(metadata: &Map<String, Value>) -> Self {
        let is_sent = ["acl", "defaultObjectAcl"].iter().any(|name| {
            let list = metadata.get(*name);
            list.is_some_and(|list| !list.is_null())
        });
        if is_sent { Self::Full } else { Self::NoAcl }
    }

    /// Returns whether the reply shows lists. Callers who read a public resource without
    /// authorization may not see lists.
    pub(super) fn is_full(self, call: &Call<'_>) -> Result<bool, Rejection> {
        let is_full = match call.query.first("projection").filter(|it| !it.is_empty()) {
            None => self == Self::Full,
            Some("full") => true,
            Some("noAcl") => false,
            Some(_) => {
                return Err(Rejection::InvalidParameter {
                    parameter: "projection".to_owned(),
                    problem: "must be full or noAcl".to_owned(),
                });
            }
        };
        if is_full {
            call.check_public(false)?;
        }
        Ok(is_full)
    }
}

/// Returns the JSON of a bucket.
pub(super) fn bucket(
    call: &Call<'_>,
    bucket: &Bucket,
    default: Projection,
) -> Result<Map<String, Value>, Rejection> {
    let mut shown = bucket.show(call.base_url);
    if default.is_full(call)? && !bucket.is_uniform() {
        let acl = entries(call, bucket.acl(), &At::Bucket(bucket))?;
        shown.insert("acl".to_owned(), acl);
        let acl = entries(call, bucket.default_object_acl(), &At::NewObjects(bucket))?;
        shown.insert("defaultObjectAcl".to_owned(), acl);
    }
    Ok(shown)
}

/// Returns the JSON of an object.
pub(super) async fn object(
    call: &Call<'_>,
    object: &Object,
    default: Projection,
) -> Result<Map<String, Value>, Rejection> {
    if !default.is_full(call)? {
        return Ok(object.show(call.base_url));
    }
    let bucket = Bucket::find(call, object.bucket()).await?;
    object_with_acl(call, object, &bucket)
}

/// Returns the JSON of an object with its list.
pub(super) fn object_with_acl(
    call: &Call<'_>,
    object: &Object,
    bucket: &Bucket,
) -> Result<Map<String, Value>, Rejection> {
    let mut shown = object.show(call.base_url);
    if !bucket.is_uniform() {
        let acl = entries(call, object.acl(), &At::Object(object))?;
        shown.insert("acl".to_owned(), acl);
    }
    Ok(shown)
}

/// The resource that a list belongs to.
pub(super) enum At<'a> {
    Bucket(&'a Bucket),
    /// The objects of a bucket that come without a list.
    NewObjects(&'a Bucket),
    Object(&'a Object),
}

/// Returns the JSON of a list's entries.
pub(super) fn entries(call: &Call<'_>, acl: Option<&Acl>, at: &At<'_>) -> Result<Value, Rejection> {
    let default = Acl::default();
    let acl = acl.unwrap_or(&default);
    let mut shown = Vec::with_capacity(acl.entries().len());
    for entry in acl.entries() {
        let entry = Value::Object(at.show(entry, call.base_url));
        // An entry has the names of its object in it, so that a page of lists is larger than its
        // rows.
        call.reply_memory.hold_row(entry.to_string().as_bytes())?;
        shown.push(entry);
    }
    Ok(shown.into())
}

impl At<'_> {
    /// Returns the JSON of an entry.
    pub(super) fn show(&self, entry: &Entry, base_url: &str) -> Map<String, Value> {
        let entity = &entry.entity;
        let mut shown = describe(entity);
        let mut set = |name: &str, value: String| shown.insert(name.to_owned(), value.into());
        set("entity", entity.clone());
        set("role", entry.role.name().to_owned());
        let buckets = format!("{base_url}/storage/v1/b");
        match self {
            Self::Bucket(bucket) => {
                let name = bucket.name();
                set("kind", "storage#bucketAccessControl".to_owned());
                set("id", format!("{name}/{entity}"));
                set(
                    "selfLink",
                    format!("{buckets}/{name}/acl/{}", in_path(entity)),
                );
                set("bucket", name.to_owned());
                set("etag", bucket.etag());
            }
            Self::NewObjects(bucket) => {
                set("kind", "storage#objectAccessControl".to_owned());
                set("etag", bucket.etag());
            }
            Self::Object(object) => {
                let (bucket, name) = (object.bucket(), object.name());
                let Versions { generation, .. } = object.versions();
                let path = format!("{}/o/{}", in_path(bucket), in_path(name));
                set("kind", "storage#objectAccessControl".to_owned());
                set("id", format!("{bucket}/{name}/{generation}/{entity}"));
                set(
                    "selfLink",
                    format!("{buckets}/{path}/acl/{}", in_path(entity)),
                );
                set("bucket", bucket.to_owned());
                set("object", name.to_owned());
                set("generation", generation.to_string());
                set("etag", object.etag());
            }
        }
        shown
    }
}

/// Returns the fields that follow from an entity.
fn describe(entity: &str) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut set = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    if let Some(project) = entity.strip_prefix("project-") {
        if let Some((team, number)) = project.split_once('-') {
            set(
                "projectTeam",
                json!({"team": team, "projectNumber": number}),
            );
        }
    } else if let Some(domain) = entity.strip_prefix("domain-") {
        set("domain", domain.into());
    } else if let Some((_, name)) = entity.split_once('-') {
        let field = if name.contains('@') {
            "email"
        } else {
            "entityId"
        };
        set(field, name.into());
    }
    shown
}
