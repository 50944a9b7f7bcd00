//! Resources inside of other resources, and fields that name resources, in APIs with descriptions
//! that declare them.
//!
//! A write depends on the versions of other rows, and the ledger checks these versions on commit
//! ([`Answer::expect`](crate::handler::Answer::expect)). A parent that is deleted at the same time
//! therefore gets no new content, and deleting a resource deletes all of its content.

use std::collections::HashSet;

use serde_json::Value;
use windlass_discovery::settings::{CollectionSettings, OnParentDelete};
use windlass_store::{Expected, Resource, ResourceChange};

use super::fields::fields_of;
use super::operation::{ResourceKey, key, split};
use super::{BATCH, index, index_record};
use crate::handler::{Call, Rejection};

/// Maximum number of resources that are deleted with one resource.
const MAX_CONTENT: usize = 5_000;

/// The most rows that are deleted with one resource, including index rows. All other changes wait
/// for the deletion.
const MAX_CONTENT_ROWS: usize = 20_000;

/// Maximum number of ids in one field.
const MAX_IDS: usize = 100;

/// Checks the resources on which a change from `old` to `new` depends: the resource that contains
/// the collection, and the resources that fields of `new` name. Returns the rows that must not
/// change until the commit.
///
/// # Errors
/// [`Rejection::NotFound`] without the parent, [`Rejection::InvalidField`] for a reference to a
/// missing resource.
pub(super) async fn check(
    call: &Call<'_>,
    old: Option<&Resource>,
    new: &Resource,
) -> Result<Vec<Expected>, Rejection> {
    let Some(settings) = call.api.settings().collection_of(call.method) else {
        return Ok(Vec::new());
    };
    let mut expected = Vec::new();
    // Later changes need no check: deleting the parent deletes the resource, or is refused.
    if old.is_none() {
        expected.extend(check_parent(call, &new.collection).await?);
    }
    if settings.references.is_empty() {
        return Ok(expected);
    }
    let (old, new) = (old.map(fields_of), fields_of(new));
    for (field, target) in &settings.references {
        let before = old.as_ref().and_then(|old| old.get(field));
        // An unchanged reference may name a resource that was deleted since, which is not refused.
        let after = new.get(field).filter(|after| before != Some(after));
        if ids(after).count() > MAX_IDS {
            let problem = format!("must have at most {MAX_IDS} items");
            return Err(Rejection::invalid_field(field.clone(), problem));
        }
        let mut seen = HashSet::new();
        for id in ids(after).filter(|id| seen.insert(*id)) {
            expected.push(referenced(call, field, target, id).await?);
        }
    }
    Ok(expected)
}

/// Checks that the resource that contains a collection exists, if the collection is inside of a
/// resource.
///
/// # Errors
/// [`Rejection::NotFound`] if it does not exist.
pub(super) async fn check_parent(
    call: &Call<'_>,
    collection: &str,
) -> Result<Option<Expected>, Rejection> {
    let Some(ResourceKey { collection, id }) = parent(call, collection) else {
        return Ok(None);
    };
    match call.lookup.resource(&collection, &id).await? {
        Some(parent) => Ok(Some(Expected::unchanged(&parent))),
        None => Err(Rejection::NotFound {
            what: last(&collection).to_owned(),
            id,
        }),
    }
}

/// The key of the resource that contains the collection of the call.
fn parent(call: &Call<'_>, collection: &str) -> Option<ResourceKey> {
    let settings = call.api.settings().collection_of(call.method);
    // Only collections inside of a resource have this setting.
    settings.and_then(|it: &CollectionSettings| it.on_parent_delete)?;
    let (parent, _) = collection.rsplit_once('/')?;
    Some(split(parent))
}

/// Returns a key for the parent of an inserted resource. Calls that change or delete the parent
/// have the same key.
pub(super) fn lock_key(call: &Call<'_>) -> Option<String> {
    let path = call.method.template.expand(call.path).ok()?;
    let is_new = call.method.verb() == "insert";
    parent(call, &path).filter(|_| is_new)?;
    path.rsplit_once('/').map(|(parent, _)| parent.to_owned())
}

/// The ids in a field: a text, or an array of texts.
fn ids(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (one, many) = match value {
        Some(Value::Array(ids)) => (None, ids.as_slice()),
        Some(id) => (Some(id), &[][..]),
        None => (None, &[][..]),
    };
    one.into_iter()
        .chain(many)
        // One more than allowed, so that too many are noticed and the work stays bounded.
        .take(MAX_IDS + 1)
        .filter_map(Value::as_str)
}

async fn referenced(
    call: &Call<'_>,
    field: &str,
    target: &str,
    id: &str,
) -> Result<Expected, Rejection> {
    let service_path = call.api.document().service_path.as_deref();
    let service_path = service_path.unwrap_or_default().trim_start_matches('/');
    let collection = key(call.api, &format!("{service_path}{target}"));
    let found = call.lookup.resource(&collection, id).await?;
    let found = found.ok_or_else(|| {
        let problem = format!("there is no resource {id} in {target}");
        Rejection::invalid_field(field.to_owned(), problem)
    })?;
    Ok(Expected::unchanged(&found))
}

/// The content of a resource.
#[derive(Default)]
pub(super) struct Content {
    /// The deletions of the whole content, including its index rows.
    pub(super) deletions: Vec<ResourceChange>,
    /// Number of resources among the deletions.
    count: usize,
    /// The collections that the deletions leave empty.
    pub(super) collections: Vec<String>,
}

/// Returns the content that is deleted together with a resource of the call's collection.
///
/// # Errors
/// [`Rejection::Conflict`] if there is content that must not be deleted with the resource, or too
/// much content.
pub(super) async fn content(call: &Call<'_>, resource: &Resource) -> Result<Content, Rejection> {
    let mut content = Content::default();
    let name = call.method.collection().to_owned();
    let mut open = vec![(name, resource.collection.clone(), resource.id.clone())];
    while let Some((name, collection, id)) = open.pop() {
        for (inner, fate) in call.api.settings().content_of(&name) {
            let inside = format!("{collection}/{id}/{inner}");
            let name = format!("{name}.{inner}");
            let ids = content.add(call, &name, &inside, fate).await?;
            open.extend(ids.into_iter().map(|id| (name.clone(), inside.clone(), id)));
        }
    }
    Ok(content)
}

impl Content {
    /// Adds the resources of a collection with this name in the description. Returns their ids.
    async fn add(
        &mut self,
        call: &Call<'_>,
        name: &str,
        collection: &str,
        fate: OnParentDelete,
    ) -> Result<Vec<String>, Rejection> {
        let settings = call.api.settings().collections.get(name);
        let mut ids: Vec<String> = Vec::new();
        loop {
            let after = ids.last().map(String::as_str);
            let batch = call.lookup.resources(collection, after, BATCH).await?;
            let more = batch.len() == BATCH;
            let bytes = batch
                .iter()
                .map(|resource| resource.body.len() as u64)
                .sum();
            let _searched = call.reply_memory.hold_while_searched(bytes)?;
            for resource in batch {
                self.check_deletion(collection, fate)?;
                self.count += 1;
                ids.push(resource.id.clone());
                let rows = index::changes(call, settings, Some(&resource), None).await?;
                self.deletions.extend(rows);
                self.deletions.push(ResourceChange::Delete {
                    collection: resource.collection,
                    id: resource.id,
                    expected: resource.version,
                });
            }
            if !more {
                self.deletions
                    .extend(index_record::forget(call, collection).await?);
                self.collections.push(collection.to_owned());
                return Ok(ids);
            }
        }
    }

    /// Whether one more resource may be deleted.
    fn check_deletion(&self, collection: &str, fate: OnParentDelete) -> Result<(), Rejection> {
        let name = last(collection);
        let problem = match fate {
            OnParentDelete::Refuse => format!("the resource still has {name}; delete them first"),
            OnParentDelete::Cascade if self.count >= MAX_CONTENT => format!(
                "the resource contains more than {MAX_CONTENT} resources; delete some of its {name} first"
            ),
            OnParentDelete::Cascade if self.deletions.len() >= MAX_CONTENT_ROWS => format!(
                "the resource contains too many resources, of which {} were looked at; delete some of its {name} first",
                self.count
            ),
            OnParentDelete::Cascade => return Ok(()),
        };
        Err(Rejection::Conflict { problem })
    }
}

fn last(collection: &str) -> &str {
    collection.rsplit('/').next().unwrap_or_default()
}
