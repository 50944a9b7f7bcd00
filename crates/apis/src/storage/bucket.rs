//! A bucket: what is kept of it, and how it is shown.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_server::handler::{Call, Rejection, first_version};
use windlass_store::{Resource, ResourceChange};

use super::bucket_name::BucketName;
use super::preconditions::Versions;
use crate::record::{Fields, rfc3339};

/// The collection that holds the buckets, by name.
pub(super) const COLLECTION: &str = "storage/buckets";

/// A bucket.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    resource: Resource,
    record: Record,
}

/// What the ledger keeps of a bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    metageneration: u64,
    fields: Fields,
}

impl Bucket {
    /// Reads what is in the ledger.
    pub(super) fn read(resource: Resource) -> Self {
        let record = serde_json::from_slice(&resource.body).unwrap_or_default();
        Self { resource, record }
    }

    /// The bucket of this name.
    pub(super) async fn find(call: &Call<'_>, name: &str) -> Result<Self, Rejection> {
        let found = call.lookup.resource(COLLECTION, name).await?;
        found.map(Self::read).ok_or_else(|| Rejection::NotFound {
            what: "bucket".to_owned(),
            id: name.to_owned(),
        })
    }

    /// A new bucket.
    pub(super) fn make(call: &Call<'_>, name: BucketName, fields: Fields) -> Self {
        let record = Record {
            metageneration: 1,
            fields,
        };
        let resource = Resource {
            collection: COLLECTION.to_owned(),
            id: name.into_string(),
            version: first_version(),
            body: to_body(&record),
            media: None,
            created: call.now,
            updated: call.now,
        };
        Self { resource, record }
    }

    /// The bucket with other fields, and the change that makes it so.
    pub(super) fn changed(self, call: &Call<'_>, fields: Fields) -> (Self, ResourceChange) {
        let record = Record {
            metageneration: self.record.metageneration + 1,
            fields,
        };
        let expected = self.resource.version;
        let resource = Resource {
            version: expected + 1,
            body: to_body(&record),
            updated: call.now,
            ..self.resource
        };
        let change = ResourceChange::Replace {
            resource: resource.clone(),
            expected,
        };
        (Self { resource, record }, change)
    }

    /// The change that makes it.
    pub(super) fn insert(&self) -> ResourceChange {
        ResourceChange::Insert(self.resource.clone())
    }

    /// The change that deletes it.
    pub(super) fn delete(&self) -> ResourceChange {
        ResourceChange::Delete {
            collection: COLLECTION.to_owned(),
            id: self.resource.id.clone(),
            expected: self.resource.version,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.resource.id
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.record.fields
    }

    /// The class of objects that are put in without one.
    pub(super) fn storage_class(&self) -> &str {
        let class = self.record.fields.get("storageClass");
        class.and_then(Value::as_str).unwrap_or("STANDARD")
    }

    /// Buckets have no generations.
    pub(super) fn versions(&self) -> Versions {
        Versions {
            generation: 0,
            metageneration: self.record.metageneration,
        }
    }

    /// Its entity tag, quotes included.
    pub(super) fn etag(&self) -> String {
        format!("\"{}\"", self.record.metageneration)
    }

    /// The resource as replies show it.
    pub(super) fn show(&self, base_url: &str) -> Map<String, Value> {
        let name = self.name();
        let mut shown = Map::new();
        let mut set = |name: &str, value: String| shown.insert(name.to_owned(), value.into());
        set("kind", "storage#bucket".to_owned());
        set("id", name.to_owned());
        set("selfLink", format!("{base_url}/storage/v1/b/{name}"));
        set("name", name.to_owned());
        set("metageneration", self.record.metageneration.to_string());
        set("etag", self.etag());
        set("timeCreated", rfc3339(self.resource.created));
        set("updated", rfc3339(self.resource.updated));
        set("location", "US".to_owned());
        set("locationType", "multi-region".to_owned());
        set("storageClass", "STANDARD".to_owned());
        shown.extend(self.record.fields.clone());
        shown
    }
}

fn to_body(record: &Record) -> bytes::Bytes {
    serde_json::to_vec(record)
        .expect("JSON can be written")
        .into()
}
