//! An object: its name, the fields that clients set, its row, and its JSON.

use std::fmt;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_rest::handler::{Call, Rejection, first_version};
use windlass_rest::patched_fields;
use windlass_store::{Expected, Media, Resource, ResourceChange};

use super::Versions;
use super::acl::{Acl, Kind};
use super::bucket::Bucket;
use crate::record::{Fields, header_fields, retyped, rfc3339};

/// Everything but the unreserved characters (RFC 3986, section 2.3): a slash in a name travels as
/// `%2F`.
const ALL_BUT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Maximum number of bytes of a name.
const MAX_LEN: usize = 1024;

/// An object.
#[derive(Debug, Clone)]
pub(super) struct Object {
    resource: Resource,
    record: Record,
}

/// Row of an object, without its media.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    generation: u64,
    metageneration: u64,
    /// Number of components of a composite object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    components: Option<i32>,
    /// Access control list; without one it is as [`Acl::default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acl: Option<Acl>,
    fields: Fields,
}

/// Returns the collection of the objects of a bucket, by name.
pub(super) fn collection(bucket: &str) -> String {
    format!("storage/b/{bucket}")
}

impl Object {
    /// Reads a row of the ledger.
    pub(super) fn read(resource: Resource) -> Self {
        let record = serde_json::from_slice(&resource.body).unwrap_or_default();
        Self { resource, record }
    }

    /// Returns a new generation, which replaces `current` if there is one.
    pub(super) fn make(
        call: &Call<'_>,
        (bucket, name): (&Bucket, &ObjectName),
        media: Media,
        fields: Fields,
        current: Option<&Self>,
    ) -> Self {
        let mut fields = fields;
        fields
            .entry("storageClass")
            .or_insert_with(|| bucket.storage_class().into());
        let record = Record {
            generation: generation(call, current),
            metageneration: 1,
            components: None,
            acl: None,
            fields,
        };
        let resource = Resource {
            collection: collection(bucket.name()),
            id: name.as_str().to_owned(),
            version: current.map_or_else(first_version, |current| current.resource.version + 1),
            body: to_body(&record),
            media: Some(media),
            created: call.now,
            updated: call.now,
            due: None,
            claimed_by: None,
            owner: call.owner(),
        };
        Self { resource, record }
    }

    /// Returns the object with this number of components; `None` if it is not a composite object.
    pub(super) fn with_components(mut self, components: Option<i32>) -> Self {
        self.record.components = components;
        self.resource.body = to_body(&self.record);
        self
    }

    /// Returns the object with this access control list.
    pub(super) fn with_acl(mut self, acl: Option<Acl>) -> Self {
        self.record.acl = acl;
        self.resource.body = to_body(&self.record);
        self
    }

    /// Returns the object with changed fields: patched or replaced.
    pub(super) fn changed(
        self,
        call: &Call<'_>,
        change: Change,
        mode: UpdateMode,
    ) -> Result<Self, Rejection> {
        let Self { resource, record } = self;
        let class = record.fields.get("storageClass").cloned();
        let content_type = match mode {
            UpdateMode::Patch => change.content_type.clone(),
            UpdateMode::Update => Some(change.content_type.clone().unwrap_or_default()),
        };
        let mut fields = match mode {
            UpdateMode::Patch => patched_fields(record.fields, change.fields),
            UpdateMode::Update => change.into_fields(),
        };
        check_whole(&fields)?;
        if let Some(class) = class {
            fields.entry("storageClass").or_insert(class);
        }
        let record = Record {
            metageneration: record.metageneration + 1,
            fields,
            ..record
        };
        let resource = Resource {
            version: resource.version + 1,
            body: to_body(&record),
            media: resource.media.map(|media| retyped(media, content_type)),
            updated: call.now,
            due: None,
            claimed_by: None,
            ..resource
        };
        Ok(Self { resource, record })
    }

    /// Returns the change that writes the object in place of `current`.
    pub(super) fn put(&self, current: Option<&Self>) -> ResourceChange {
        let resource = self.resource.clone();
        match current {
            None => ResourceChange::Insert(resource),
            Some(current) => ResourceChange::Replace {
                resource,
                expected: current.resource.version,
            },
        }
    }

    /// Returns the change that deletes the object.
    pub(super) fn delete(&self) -> ResourceChange {
        ResourceChange::Delete {
            collection: self.resource.collection.clone(),
            id: self.resource.id.clone(),
            expected: self.resource.version,
        }
    }

    pub(super) fn into_resource(self) -> Resource {
        self.resource
    }

    pub(super) fn name(&self) -> &str {
        &self.resource.id
    }

    pub(super) fn media(&self) -> Option<&Media> {
        self.resource.media.as_ref()
    }

    /// Returns the media to be used by another object.
    pub(super) fn existing_media(&self) -> Result<Media, Rejection> {
        self.media().cloned().ok_or_else(|| Rejection::NotFound {
            what: "media of object".to_owned(),
            id: self.name().to_owned(),
        })
    }

    /// Returns the expectation of an answer that relies on the object: the object is unchanged.
    pub(super) fn expected(&self) -> Expected {
        Expected::unchanged(&self.resource)
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.record.fields
    }

    pub(super) fn storage_class(&self) -> &str {
        let class = self.record.fields.get("storageClass");
        class.and_then(Value::as_str).unwrap_or("STANDARD")
    }

    /// Returns the access control list.
    pub(super) fn acl(&self) -> Option<&Acl> {
        self.record.acl.as_ref()
    }

    /// Returns the number of components of a composite object.
    pub(super) fn components(&self) -> Option<i32> {
        self.record.components
    }

    pub(super) fn versions(&self) -> Versions {
        Versions {
            generation: self.record.generation,
            metageneration: self.record.metageneration,
        }
    }

    /// Returns whether both are the same object of the same bucket.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        (&self.resource.collection, &self.resource.id)
            == (&other.resource.collection, &other.resource.id)
    }

    /// Returns the entity tag, quotes included.
    pub(super) fn etag(&self) -> String {
        let Versions {
            generation,
            metageneration,
        } = self.versions();
        format!("\"{generation}-{metageneration}\"")
    }

    /// Returns the JSON of replies.
    pub(super) fn show(&self, base_url: &str) -> Map<String, Value> {
        let (bucket, name) = (self.bucket(), self.name());
        let generation = self.record.generation;
        let path = format!("storage/v1/b/{}/o/{}", in_path(bucket), in_path(name));
        let media_query = format!("generation={generation}&alt=media");
        let created = rfc3339(self.resource.created);
        let mut shown = Map::new();
        let mut set = |name: &str, value: String| shown.insert(name.to_owned(), value.into());
        set("kind", "storage#object".to_owned());
        set("id", format!("{bucket}/{name}/{generation}"));
        set("selfLink", format!("{base_url}/{path}"));
        set(
            "mediaLink",
            format!("{base_url}/download/{path}?{media_query}"),
        );
        set("name", name.to_owned());
        set("bucket", bucket.to_owned());
        set("generation", generation.to_string());
        set("metageneration", self.record.metageneration.to_string());
        set("etag", self.etag());
        set("timeCreated", created.clone());
        set("updated", rfc3339(self.resource.updated));
        set("timeStorageClassUpdated", created.clone());
        set("timeFinalized", created);
        if let Some(media) = self.media() {
            set("contentType", media.content_type.clone());
            set("size", media.length.to_string());
            set("crc32c", media.digests.crc32c.to_string());
            if let Some(md5) = media.digests.md5 {
                set("md5Hash", md5.to_string());
            }
        }
        if let Some(components) = self.components() {
            shown.insert("componentCount".to_owned(), components.into());
        }
        shown.extend(self.record.fields.clone());
        shown
    }

    /// Returns the headers of a download.
    pub(super) fn media_headers(&self) -> HeaderMap {
        let text = |name| self.record.fields.get(name).and_then(Value::as_str);
        let mut headers = header_fields(&self.record.fields);
        let mut set = |name: HeaderName, value: &str| {
            // Invalid header values were refused when they were written.
            if let Some(value) = HeaderValue::from_str(value)
                .ok()
                .filter(|it| !it.is_empty())
            {
                headers.insert(name, value);
            }
        };
        let own = |name| HeaderName::from_static(name);
        let length = self.media().map_or(0, |media| media.length).to_string();
        let encoding = text("contentEncoding").filter(|it| !it.is_empty());
        set(
            own("x-goog-generation"),
            &self.record.generation.to_string(),
        );
        set(
            own("x-goog-metageneration"),
            &self.record.metageneration.to_string(),
        );
        set(
            own("x-goog-storage-class"),
            text("storageClass").unwrap_or_default(),
        );
        set(own("x-goog-stored-content-length"), &length);
        set(
            own("x-goog-stored-content-encoding"),
            encoding.unwrap_or("identity"),
        );
        headers
    }

    /// Returns the name of the bucket.
    pub(super) fn bucket(&self) -> &str {
        let collection = self.resource.collection.as_str();
        collection.strip_prefix("storage/b/").unwrap_or(collection)
    }
}

/// How a change applies to the existing fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateMode {
    /// They are merged.
    Patch,
    /// They are replaced.
    Update,
}

/// Returns a generation: microseconds, as in the service. It is above the generation of `current`.
/// It is very unlikely to equal the generation of an object that was deleted in the same
/// millisecond.
fn generation(call: &Call<'_>, current: Option<&Object>) -> u64 {
    let random = call
        .fresh_id
        .bytes()
        .rev()
        .take(8)
        .fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
    let micros = call.now.as_millis() * 1000 + random % 1000;
    let after = current.map_or(1, |current| current.record.generation + 1);
    micros.max(after)
}

fn to_body(record: &Record) -> bytes::Bytes {
    serde_json::to_vec(record)
        .expect("JSON can be written")
        .into()
}

/// The name of an object: 1 to 1024 bytes of UTF-8 without line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectName(String);

impl ObjectName {
    /// Reads the name that `parameter` gives.
    pub(super) fn parse(parameter: &str, text: &str) -> Result<Self, Rejection> {
        match fault(text) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(Rejection::InvalidParameter {
                parameter: parameter.to_owned(),
                problem: problem.to_owned(),
            }),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a name as one segment of a path.
pub(super) fn in_path(name: &str) -> impl fmt::Display {
    utf8_percent_encode(name, ALL_BUT_UNRESERVED)
}

/// Refuses an invalid object name. The service distinguishes it from the name of an object that
/// does not exist.
pub(super) fn check_form(text: &str) -> Result<(), Rejection> {
    match fault_of_form(text) {
        None => Ok(()),
        Some(problem) => Err(Rejection::InvalidParameter {
            parameter: "object".to_owned(),
            problem: problem.to_owned(),
        }),
    }
}

fn fault_of_form(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("an object needs a name")
    } else if text.len() > MAX_LEN {
        Some("the name of an object has at most 1024 bytes")
    } else if text.contains(['\r', '\n']) {
        Some("the name of an object has no line ends")
    } else {
        None
    }
}

fn fault(text: &str) -> Option<&'static str> {
    if let Some(problem) = fault_of_form(text) {
        Some(problem)
    } else if matches!(text, "." | "..") {
        Some("an object cannot be called . or ..")
    } else if text.starts_with(".well-known/acme-challenge/") {
        Some("the name of an object does not begin with .well-known/acme-challenge/")
    } else {
        None
    }
}

/// Fields that are stored as the client wrote them. The content type is stored with the media.
const KEPT: [&str; 7] = [
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "customTime",
    "metadata",
    "storageClass",
];

/// Fields that ask for a guarantee which this server does not give. They are refused, not ignored.
const NOT_SERVED: [&str; 6] = [
    "contexts",
    "customerEncryption",
    "eventBasedHold",
    "kmsKeyName",
    "retention",
    "temporaryHold",
];

/// Maximum number of bytes of an object's own metadata, keys and values together.
const MAX_METADATA: usize = 8 * 1024;

/// Maximum number of bytes of a field that becomes a header.
pub(super) const MAX_HEADER_LEN: usize = 1024;

const STORAGE_CLASSES: [&str; 7] = [
    "STANDARD",
    "NEARLINE",
    "COLDLINE",
    "ARCHIVE",
    "MULTI_REGIONAL",
    "REGIONAL",
    "DURABLE_REDUCED_AVAILABILITY",
];

/// A change of an object's fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    /// Content type of the media; empty to clear it.
    pub(super) content_type: Option<String>,
    /// Access control list.
    pub(super) acl: Option<Acl>,
    /// All other fields; null removes one.
    pub(super) fields: Fields,
}

impl Change {
    /// Reads the writable fields of an object resource. Other fields are ignored, as in the
    /// service: clients send back resources that they have read.
    pub(super) fn parse(metadata: &Map<String, Value>) -> Result<Self, Rejection> {
        if let Some(name) = NOT_SERVED
            .into_iter()
            .find(|name| asks(metadata.get(*name)))
        {
            return Err(Rejection::invalid_field(
                name,
                "is not supported by this server",
            ));
        }
        let mut change = Self::default();
        for (name, value) in metadata {
            if name == "contentType" {
                change.content_type = Some(media_type(value)?);
            } else if name == "acl" {
                change.acl = Some(Acl::parse(Kind::Object, name, value)?);
            } else if KEPT.contains(&name.as_str()) {
                check(name, value)?;
                change.fields.insert(name.clone(), value.clone());
            }
        }
        Ok(change)
    }

    /// Returns whether the change is empty, but for its access control list.
    pub(super) fn is_empty(&self) -> bool {
        self.content_type.is_none() && self.fields.is_empty()
    }

    /// Returns the fields of a new object. They replace the fields of an existing object.
    pub(super) fn into_fields(self) -> Fields {
        let mut fields = self.fields;
        fields.retain(|_, value| !value.is_null());
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.retain(|_, value| !value.is_null());
        }
        fields
    }
}

/// Returns whether the value of a field is set: not null, false, an empty text or an empty object.
fn asks(value: Option<&Value>) -> bool {
    if value.and_then(Value::as_object).is_some_and(Map::is_empty) {
        return false;
    }
    !matches!(value, None | Some(Value::Null | Value::Bool(false)))
        && value.and_then(Value::as_str) != Some("")
}

fn check(name: &str, value: &Value) -> Result<(), Rejection> {
    match (name, value) {
        (_, Value::Null) => Ok(()),
        ("metadata", Value::Object(metadata)) => check_metadata(metadata),
        ("metadata", _) => Err(Rejection::invalid_field(name, "must be an object")),
        (_, Value::String(text)) => check_text(name, text),
        _ => Err(Rejection::invalid_field(name, "must be of type string")),
    }
}

fn check_text(name: &str, text: &str) -> Result<(), Rejection> {
    match name {
        "storageClass" if !STORAGE_CLASSES.contains(&text) => {
            Err(Rejection::invalid_field(name, "is not a storage class"))
        }
        "customTime" if text.parse::<jiff::Timestamp>().is_err() => Err(Rejection::invalid_field(
            name,
            "must be a time as RFC 3339 has it",
        )),
        "storageClass" | "customTime" => Ok(()),
        _ => check_header(name, text),
    }
}

/// Checks that a text is a valid header value, so that it is refused on upload and not on download.
fn check_header(name: &str, text: &str) -> Result<(), Rejection> {
    if text.len() > MAX_HEADER_LEN {
        return Err(Rejection::invalid_field(name, "has at most 1024 bytes"));
    }
    match HeaderValue::from_str(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(Rejection::invalid_field(
            name,
            "must not have control characters in it",
        )),
    }
}

/// Checks custom metadata, which maps texts to texts; null removes one in a patch.
fn check_metadata(metadata: &Map<String, Value>) -> Result<(), Rejection> {
    let mut bytes = 0;
    for (key, value) in metadata {
        bytes += key.len();
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Null => {}
            _ => {
                return Err(Rejection::invalid_field(
                    format!("metadata.{key}"),
                    "must be of type string",
                ));
            }
        }
    }
    if bytes > MAX_METADATA {
        return Err(Rejection::invalid_field("metadata", "has at most 8 KiB"));
    }
    Ok(())
}

fn media_type(value: &Value) -> Result<String, Rejection> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => check_header("contentType", text).map(|()| text.clone()),
        _ => Err(Rejection::invalid_field(
            "contentType",
            "must be of type string",
        )),
    }
}

/// Checks the limits on the result of a patch: several small patches may add up to a large object.
pub(super) fn check_whole(fields: &Fields) -> Result<(), Rejection> {
    match fields.get("metadata") {
        Some(Value::Object(metadata)) => check_metadata(metadata),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_1_to_1024_bytes_without_line_ends() {
        let longest = "é".repeat(512);
        for name in ["a", "a/b//c", "/", "ünï ☃?#%", "...", longest.as_str()] {
            assert_eq!(ObjectName::parse("name", name).unwrap().as_str(), name);
        }
        let too_long = format!("{longest}a");
        for name in [
            "",
            ".",
            "..",
            "a\nb",
            "a\rb",
            ".well-known/acme-challenge/x",
            too_long.as_str(),
        ] {
            assert!(ObjectName::parse("name", name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn object_name_is_one_path_segment() {
        assert_eq!(in_path("a/b c?%").to_string(), "a%2Fb%20c%3F%25");
    }

    fn change(metadata: &Value) -> Result<Change, Rejection> {
        Change::parse(metadata.as_object().expect("an object"))
    }

    #[test]
    fn output_fields_of_object_are_ignored() {
        let change = change(&json!({"size": "7", "generation": 1, "cacheControl": "no-store"}));
        assert_eq!(
            change.unwrap().fields,
            *json!({"cacheControl": "no-store"}).as_object().unwrap()
        );
    }

    #[test]
    fn fields_of_wrong_type_are_refused() {
        for metadata in [
            json!({"cacheControl": "no-store\r\nX-Evil: 1"}),
            json!({"contentDisposition": 7}),
            json!({"contentLanguage": "x".repeat(1025)}),
            json!({"contentType": "text/plain\n"}),
            json!({"contentType": 1}),
            json!({"customTime": "yesterday"}),
            json!({"storageClass": "GOLD"}),
            json!({"metadata": "x"}),
            json!({"metadata": {"a": 1}}),
            json!({"metadata": {"a": "x".repeat(8192)}}),
            json!({"temporaryHold": true}),
            json!({"contexts": {"custom": {"a": {"value": "b"}}}}),
            json!({"retention": {"mode": "Locked"}}),
            json!({"kmsKeyName": "projects/p"}),
        ] {
            assert!(change(&metadata).is_err(), "{metadata}");
        }
    }

    #[test]
    fn unset_hold_is_accepted() {
        let metadata = json!({
            "temporaryHold": false, "kmsKeyName": "", "retention": null, "contexts": {},
        });
        assert!(change(&metadata).unwrap().is_empty());
    }
}
