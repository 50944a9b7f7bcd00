//! A bucket: its name, the fields that clients set, its row, and its JSON.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_rest::handler::{Call, Rejection, first_version};
use windlass_store::{Expected, Resource, ResourceChange};

use super::Versions;
use super::acl::Acl;
use crate::record::{Fields, rfc3339};

/// Collection of the buckets, by name.
pub(super) const COLLECTION: &str = "storage/buckets";

/// Fields that the server sets.
const OUTPUT: [&str; 16] = [
    "acl",
    "defaultObjectAcl",
    "etag",
    "generation",
    "hardDeleteTime",
    "id",
    "kind",
    "locationType",
    "metageneration",
    "name",
    "owner",
    "projectNumber",
    "selfLink",
    "softDeleteTime",
    "timeCreated",
    "updated",
];

/// Fields that ask for a guarantee which this server does not give. They are refused, not ignored.
const PROMISES: [&str; 11] = [
    "billing.requesterPays",
    "defaultEventBasedHold",
    "encryption.customerManagedEncryptionEnforcementConfig.restrictionMode",
    "encryption.customerSuppliedEncryptionEnforcementConfig.restrictionMode",
    "encryption.defaultKmsKeyName",
    "encryption.googleManagedEncryptionEnforcementConfig.restrictionMode",
    "hierarchicalNamespace.enabled",
    "ipFilter.mode",
    "objectRetention.mode",
    "softDeletePolicy.retentionDurationSeconds",
    "versioning.enabled",
];

/// Fields that protect a bucket, or appear to. A value of another type would be shown, and protect
/// nothing.
const BOOLEANS: [&str; 3] = [
    "iamConfiguration.bucketPolicyOnly.enabled",
    "iamConfiguration.uniformBucketLevelAccess.enabled",
    "versioning.enabled",
];

/// The field that prevents lists from making anything public, and its values.
const PREVENTION: &str = "iamConfiguration.publicAccessPrevention";
const PREVENTIONS: [&str; 3] = ["enforced", "inherited", "unspecified"];

/// The location of a bucket without a stated location.
const LOCATION: &str = "US";

/// Maximum number of bytes of a bucket's fields, written as JSON.
const MAX_LEN: usize = 16 * 1024;

/// Maximum number of bytes of the name of a project. It is stored with each bucket.
const MAX_PROJECT_LEN: usize = 256;

/// A bucket.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    resource: Resource,
    record: Record,
}

/// Row of a bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    metageneration: u64,
    /// The project in which the bucket was made. Rows without it are from before buckets had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    fields: Fields,
    #[serde(default, flatten)]
    lists: Lists,
}

/// The access control lists of a bucket. An absent list stands for [`Acl::default`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Lists {
    /// Of the bucket itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) acl: Option<Acl>,
    /// Of objects that come without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) default_object_acl: Option<Acl>,
}

impl Bucket {
    /// Reads a row of the ledger.
    pub(super) fn read(resource: Resource) -> Self {
        let record = serde_json::from_slice(&resource.body).unwrap_or_default();
        Self { resource, record }
    }

    /// Returns the bucket of this name.
    ///
    /// # Errors
    /// [`Rejection::InvalidField`] for a name that no bucket can have, [`Rejection::NotFound`].
    pub(super) async fn find(call: &Call<'_>, name: &str) -> Result<Self, Rejection> {
        check_name(name)?;
        let found = call.lookup.resource(COLLECTION, name).await?;
        found.map(Self::read).ok_or_else(|| Rejection::NotFound {
            what: "bucket".to_owned(),
            id: name.to_owned(),
        })
    }

    /// Returns a new bucket in the project that the call names.
    pub(super) fn make(
        call: &Call<'_>,
        name: BucketName,
        fields: Fields,
        lists: Lists,
    ) -> Result<Self, Rejection> {
        let record = Record {
            metageneration: 1,
            project: Some(project(call)?.to_owned()),
            fields,
            lists,
        };
        let resource = Resource {
            collection: COLLECTION.to_owned(),
            id: name.into_string(),
            version: first_version(),
            body: to_body(&record),
            media: None,
            created: call.now,
            updated: call.now,
            due: None,
            claimed_by: None,
            owner: None,
        };
        Ok(Self { resource, record })
    }

    /// Whether the bucket is in a project. One from before buckets had a project is in each.
    pub(super) fn is_in(&self, project: &str) -> bool {
        let own = self.record.project.as_ref();
        own.is_none_or(|own| own == project)
    }

    /// Returns the bucket with other fields and lists, and the change that writes it.
    pub(super) fn changed(
        self,
        call: &Call<'_>,
        fields: Fields,
        lists: Lists,
    ) -> (Self, ResourceChange) {
        let record = Record {
            metageneration: self.record.metageneration + 1,
            project: self.record.project,
            fields,
            lists,
        };
        let expected = self.resource.version;
        let resource = Resource {
            version: expected + 1,
            body: to_body(&record),
            updated: call.now,
            due: None,
            claimed_by: None,
            ..self.resource
        };
        let change = ResourceChange::Replace {
            resource: resource.clone(),
            expected,
        };
        (Self { resource, record }, change)
    }

    /// Returns the change that inserts the bucket.
    pub(super) fn insert(&self) -> ResourceChange {
        ResourceChange::Insert(self.resource.clone())
    }

    /// Returns the change that deletes the bucket.
    pub(super) fn delete(&self) -> ResourceChange {
        ResourceChange::Delete {
            collection: COLLECTION.to_owned(),
            id: self.resource.id.clone(),
            expected: self.resource.version,
        }
    }

    /// Returns the expectation of an answer that writes an object into the bucket: the bucket is
    /// unchanged.
    pub(super) fn expected(&self) -> Vec<Expected> {
        vec![Expected::unchanged(&self.resource)]
    }

    pub(super) fn name(&self) -> &str {
        &self.resource.id
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.record.fields
    }

    pub(super) fn lists(&self) -> &Lists {
        &self.record.lists
    }

    /// Returns the access control list of the bucket.
    pub(super) fn acl(&self) -> Option<&Acl> {
        self.record.lists.acl.as_ref()
    }

    /// Returns the access control list of objects that come without one.
    pub(super) fn default_object_acl(&self) -> Option<&Acl> {
        self.record.lists.default_object_acl.as_ref()
    }

    /// Whether the lists of the bucket and of its objects are switched off.
    pub(super) fn is_uniform(&self) -> bool {
        is_uniform(&self.record.fields)
    }

    /// Refuses a call on lists that are switched off.
    pub(super) fn check_has_lists(&self) -> Result<(), Rejection> {
        if self.is_uniform() {
            return Err(no_lists());
        }
        Ok(())
    }

    /// Refuses a call that authorization does not allow, unless this list of the bucket or of an
    /// object in it makes the read public.
    pub(super) fn check_public(&self, call: &Call<'_>, acl: Option<&Acl>) -> Result<(), Rejection> {
        let iam = self.record.fields.get("iamConfiguration");
        let prevention = iam.and_then(|iam| iam.get("publicAccessPrevention"));
        let is_prevented = prevention.and_then(Value::as_str) == Some("enforced");
        let is_listed = acl.is_some_and(|acl| acl.is_public(call.principal.is_some()));
        call.check_public(is_listed && !is_prevented && !self.is_uniform())
    }

    /// Returns the default storage class of objects.
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

    /// Returns the entity tag, quotes included.
    pub(super) fn etag(&self) -> String {
        format!("\"{}\"", self.record.metageneration)
    }

    /// Returns the JSON of replies.
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
        set("location", LOCATION.to_owned());
        set("locationType", "multi-region".to_owned());
        set("storageClass", "STANDARD".to_owned());
        shown.extend(self.record.fields.clone());
        shown
    }
}

/// Whether the fields of a bucket switch lists off: uniform bucket-level access, by its name of
/// today or by its first one.
pub(super) fn is_uniform(fields: &Fields) -> bool {
    let iam = fields.get("iamConfiguration");
    let is_enabled = |name: &str| {
        let enabled = iam.and_then(|iam| iam.get(name)?.get("enabled"));
        enabled == Some(&Value::Bool(true))
    };
    is_enabled("uniformBucketLevelAccess") || is_enabled("bucketPolicyOnly")
}

/// Returns the rejection of a call on lists that are switched off.
pub(super) fn no_lists() -> Rejection {
    Rejection::InvalidArgument {
        problem:
            "the bucket has no access control lists, because its uniform bucket-level access is \
                  enabled; disable it first"
                .to_owned(),
    }
}

/// Returns the project that the call names.
pub(super) fn project<'a>(call: &Call<'a>) -> Result<&'a str, Rejection> {
    let project = call.query.first("project").unwrap_or_default();
    if project.len() <= MAX_PROJECT_LEN {
        return Ok(project);
    }
    Err(Rejection::InvalidParameter {
        parameter: "project".to_owned(),
        problem: format!("must have at most {MAX_PROJECT_LEN} bytes"),
    })
}

fn to_body(record: &Record) -> bytes::Bytes {
    serde_json::to_vec(record)
        .expect("JSON can be written")
        .into()
}

/// The name of a bucket. The rules equal the service's rules, so each name that is valid here is
/// valid there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BucketName(String);

impl BucketName {
    /// Reads the name of a bucket to be made.
    pub(super) fn parse(text: &str) -> Result<Self, Rejection> {
        match fault_of_name(text) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(Rejection::invalid_field("name", problem)),
        }
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Refuses an invalid bucket name. The service distinguishes it from the name of a bucket that does
/// not exist.
pub(super) fn check_name(text: &str) -> Result<(), Rejection> {
    match fault_of_form(text) {
        None => Ok(()),
        Some(problem) => Err(Rejection::invalid_field("bucket", problem)),
    }
}

/// Returns the problem with the name of a new bucket.
pub(crate) fn fault_of_name(text: &str) -> Option<&'static str> {
    let is_taken = text.starts_with("goog") || text.contains("google");
    let taken = "the name of a bucket does not begin with goog or contain google";
    fault_of_form(text).or_else(|| is_taken.then_some(taken))
}

/// Returns the problem with the form of a bucket name. The reserved words are not checked.
pub(super) fn fault_of_form(text: &str) -> Option<&'static str> {
    let longest = if text.contains('.') { 222 } else { 63 };
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    let at_an_end = |byte: &u8| byte.is_ascii_alphanumeric();
    let ends = [text.as_bytes().first(), text.as_bytes().last()];
    if !(3..=longest).contains(&text.len()) {
        Some("the name of a bucket has 3 to 63 characters, with dots up to 222")
    } else if !text.bytes().all(allowed) {
        Some("the name of a bucket is made of lower-case letters, digits, -, _ and .")
    } else if !ends.into_iter().flatten().all(at_an_end) {
        Some("the name of a bucket begins and ends with a letter or a digit")
    } else if text
        .split('.')
        .any(|part| part.is_empty() || part.len() > 63)
    {
        Some("between dots, the name of a bucket has 1 to 63 characters")
    } else if text.parse::<Ipv4Addr>().is_ok() {
        Some("the name of a bucket does not look like an IP address")
    } else {
        None
    }
}

/// Returns the fields to be stored: all fields except the fields that the server sets. Only
/// `storageClass` has an effect.
///
/// # Errors
/// If a field asks for a guarantee that this server does not give, such as versioning, retention of
/// objects, or a key.
pub(super) fn parse_fields(metadata: &Map<String, Value>) -> Result<Fields, Rejection> {
    let kept = metadata
        .iter()
        .filter(|(name, _)| !OUTPUT.contains(&name.as_str()));
    let mut fields: Fields = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(Value::String(location)) = fields.get_mut("location") {
        location.make_ascii_uppercase();
    }
    check_protection(&fields)?;
    for path in PROMISES {
        if asks(value_at(&fields, path)?) {
            return Err(Rejection::invalid_field(
                path,
                "is not supported by this server",
            ));
        }
    }
    check_field(&fields)?;
    Ok(fields)
}

/// Returns the fields of a bucket after a change. A bucket cannot be moved, as in the service.
///
/// # Errors
/// If the change would move the bucket.
pub(super) fn changed_fields(bucket: &Bucket, mut fields: Fields) -> Result<Fields, Rejection> {
    let old = bucket.fields().get("location");
    let location = old.and_then(Value::as_str).unwrap_or(LOCATION);
    let stated = fields.get("location").and_then(Value::as_str);
    if stated.is_some_and(|stated| stated != location) {
        return Err(Rejection::invalid_field(
            "location",
            format!("cannot be changed, and is {location}; make another bucket"),
        ));
    }
    if let Some(old) = old {
        fields.entry("location").or_insert_with(|| old.clone());
    }
    Ok(fields)
}

/// Returns the value of a nested field, if it is present.
///
/// # Errors
/// If an outer field is not an object, because the meaning of its value is then unknown.
fn value_at<'a>(fields: &'a Fields, path: &str) -> Result<Option<&'a Value>, Rejection> {
    let mut names = path.split('.');
    let mut value = names.next().and_then(|name| fields.get(name));
    let mut end = path.find('.');
    for name in names {
        value = match value {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(fields)) => fields.get(name),
            Some(_) => {
                let outer = &path[..end.unwrap_or(path.len())];
                return Err(Rejection::invalid_field(outer, "must be an object"));
            }
        };
        end = end.map(|end| end + 1 + name.len());
    }
    Ok(value.filter(|value| !value.is_null()))
}

/// Refuses fields about the protection of a bucket with a value of the wrong type, because such a
/// value protects nothing.
fn check_protection(fields: &Fields) -> Result<(), Rejection> {
    for path in BOOLEANS {
        if value_at(fields, path)?.is_some_and(|value| !value.is_boolean()) {
            return Err(Rejection::invalid_field(path, "must be true or false"));
        }
    }
    let prevention = value_at(fields, PREVENTION)?;
    let is_known = |value: &Value| value.as_str().is_some_and(|it| PREVENTIONS.contains(&it));
    if prevention.is_some_and(|value| !is_known(value)) {
        let problem = "must be enforced, inherited or unspecified";
        return Err(Rejection::invalid_field(PREVENTION, problem));
    }
    Ok(())
}

/// Whether a field asks for a feature: it is present, and its value does not switch the feature
/// off.
fn asks(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !matches!(&**text, "" | "0" | "Disabled" | "NotRestricted"),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(_) => true,
    }
}

/// Refuses fields that are too large, or that ask for a guarantee which this server does not give.
pub(super) fn check_field(fields: &Fields) -> Result<(), Rejection> {
    if fields
        .get("retentionPolicy")
        .is_some_and(|it| !it.is_null())
    {
        return Err(Rejection::invalid_field(
            "retentionPolicy",
            "is not supported by this server",
        ));
    }
    for name in ["location", "storageClass"] {
        let value = fields.get(name);
        if value.is_some_and(|value| !value.is_string() && !value.is_null()) {
            return Err(Rejection::invalid_field(name, "must be of type string"));
        }
    }
    let bytes = serde_json::to_vec(fields).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_LEN {
        return Err(Rejection::invalid_field(
            "bucket",
            "has at most 16 KiB of fields",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    #[test]
    fn bucket_name_follows_the_rules_of_the_service() {
        let longest = "a".repeat(63);
        let dotted = [longest.as_str(), &longest, &longest].join(".");
        for name in [
            "barn",
            "a-1",
            "a_b",
            "1ab",
            "www.farm.test",
            &longest,
            &dotted,
        ] {
            assert!(BucketName::parse(name).is_ok(), "{name}");
        }
        let too_long = "a".repeat(64);
        let part_too_long = format!("a.{too_long}");
        for name in [
            "",
            "ab",
            "Barn",
            "bärn",
            "a b",
            "a/b",
            "-ab",
            "ab-",
            "ab.",
            "a..b",
            "192.168.0.1",
            "googly",
            "my-google-bucket",
            &too_long,
            &part_too_long,
        ] {
            assert!(BucketName::parse(name).is_err(), "{name}");
        }
    }

    fn parsed(metadata: &Value) -> Result<Fields, Rejection> {
        parse_fields(metadata.as_object().expect("an object"))
    }

    #[test]
    fn output_fields_of_bucket_are_ignored_and_locations_upper_cased() {
        let fields =
            parsed(&json!({"name": "barn", "etag": "x", "location": "eu", "labels": {"a": "b"}}));
        let expected = json!({"location": "EU", "labels": {"a": "b"}});
        assert_eq!(fields.unwrap(), *expected.as_object().unwrap());
    }

    #[test]
    fn unsupported_guarantees_are_refused() {
        for metadata in [
            json!({"versioning": {"enabled": true}}),
            json!({"retentionPolicy": {"retentionPeriod": "9"}}),
            json!({"billing": {"requesterPays": true}}),
            json!({"defaultEventBasedHold": true}),
            json!({"encryption": {"defaultKmsKeyName": "projects/p"}}),
            json!({"hierarchicalNamespace": {"enabled": true}}),
            json!({"ipFilter": {"mode": "Enabled"}}),
            json!({"objectRetention": {"mode": "Enabled"}}),
            json!({"softDeletePolicy": {"retentionDurationSeconds": "604800"}}),
            json!({"encryption": {"customerManagedEncryptionEnforcementConfig":
                {"restrictionMode": "FullyRestricted"}}}),
            json!({"encryption": {"googleManagedEncryptionEnforcementConfig":
                {"restrictionMode": "FullyRestricted"}}}),
            json!({"billing": true}),
            json!({"encryption": "AES256"}),
            json!({"location": 1}),
            json!({"labels": {"a": "x".repeat(17 * 1024)}}),
        ] {
            assert!(parsed(&metadata).is_err(), "{metadata}");
        }
        for metadata in [
            json!({"versioning": {"enabled": false}, "retentionPolicy": null}),
            json!({"billing": {"requesterPays": false}, "defaultEventBasedHold": false}),
            json!({"encryption": {"defaultKmsKeyName": ""}, "ipFilter": {"mode": "Disabled"}}),
            json!({"softDeletePolicy": {"retentionDurationSeconds": "0"}, "billing": null}),
            json!({"softDeletePolicy": {"retentionDurationSeconds": 0}}),
            json!({"encryption": {"customerManagedEncryptionEnforcementConfig":
                {"restrictionMode": "NotRestricted"}}}),
        ] {
            assert!(parsed(&metadata).is_ok(), "{metadata}");
        }
    }

    #[test]
    fn protection_in_a_form_that_does_not_protect_is_refused() {
        let iam = |name: &str, value: Value| json!({"iamConfiguration": {name: value}});
        let uniform = "uniformBucketLevelAccess";
        let prevention = "publicAccessPrevention";
        for (metadata, field) in [
            (iam(uniform, json!({"enabled": "true"})), "enabled"),
            (iam(uniform, json!({"enabled": 1})), "enabled"),
            (iam(uniform, json!(true)), uniform),
            (
                iam("bucketPolicyOnly", json!({"enabled": "true"})),
                "enabled",
            ),
            (iam(prevention, json!("Enforced")), prevention),
            (iam(prevention, json!("")), prevention),
            (iam(prevention, json!(true)), prevention),
            (json!({"iamConfiguration": "x"}), "iamConfiguration"),
            (json!({"iamConfiguration": []}), "iamConfiguration"),
            (
                json!({"versioning": {"enabled": "true"}}),
                "versioning.enabled",
            ),
            (json!({"versioning": {"enabled": 1}}), "versioning.enabled"),
            (json!({"versioning": true}), "versioning"),
        ] {
            let refusal = parsed(&metadata).expect_err(&metadata.to_string());
            assert!(refusal.to_string().contains(field), "{metadata}: {refusal}");
        }
        for metadata in [
            json!({"iamConfiguration": null}),
            json!({"iamConfiguration": {}}),
            iam(
                uniform,
                json!({"enabled": true, "lockedTime": "2026-11-28T00:00:00Z"}),
            ),
            iam(uniform, Value::Null),
            iam(prevention, json!("enforced")),
            iam(prevention, json!("inherited")),
            iam(prevention, Value::Null),
            json!({"versioning": {}}),
            json!({"versioning": null}),
        ] {
            assert!(parsed(&metadata).is_ok(), "{metadata}");
        }
    }
}
