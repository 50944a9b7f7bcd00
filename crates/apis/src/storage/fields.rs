//! The fields of an object that clients write.

use http::HeaderValue;
use serde_json::{Map, Value};
use windlass_server::handler::Rejection;

use crate::record::Fields;

/// Fields that become headers of a download.
pub(super) const HEADER_FIELDS: [&str; 4] = [
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
];

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
const NOT_SERVED: [&str; 5] = [
    "customerEncryption",
    "eventBasedHold",
    "kmsKeyName",
    "retention",
    "temporaryHold",
];

/// Maximum number of bytes of an object's own metadata, keys and values together.
const LARGEST_METADATA: usize = 8 * 1024;

/// Maximum number of bytes of a field that becomes a header.
const LONGEST_HEADER: usize = 1024;

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
            } else if KEPT.contains(&name.as_str()) {
                check(name, value)?;
                change.fields.insert(name.clone(), value.clone());
            }
        }
        Ok(change)
    }

    /// Returns whether the change is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.content_type.is_none() && self.fields.is_empty()
    }

    /// Returns the fields for a new object, or to replace those of an object.
    pub(super) fn into_fields(self) -> Fields {
        let mut fields = self.fields;
        fields.retain(|_, value| !value.is_null());
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.retain(|_, value| !value.is_null());
        }
        fields
    }
}

/// Returns whether the value of a field is set: not null, false or an empty text.
fn asks(value: Option<&Value>) -> bool {
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
    if text.len() > LONGEST_HEADER {
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
    if bytes > LARGEST_METADATA {
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
            json!({"retention": {"mode": "Locked"}}),
            json!({"kmsKeyName": "projects/p"}),
        ] {
            assert!(change(&metadata).is_err(), "{metadata}");
        }
    }

    #[test]
    fn unset_hold_is_accepted() {
        let metadata = json!({"temporaryHold": false, "kmsKeyName": "", "retention": null});
        assert!(change(&metadata).unwrap().is_empty());
    }
}
