//! What a client may say of a bucket.

use serde_json::{Map, Value};
use windlass_server::handler::Rejection;

use crate::record::Fields;

/// Fields that the server fills in.
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

/// The most bytes of a bucket's fields, written as JSON.
const LARGEST: usize = 16 * 1024;

/// The fields that are kept: all but those of the server. They are kept and shown, and have no effect
/// but for `storageClass`.
///
/// # Errors
/// When they ask to keep what would be lost here: old versions, and objects that must not go.
pub(super) fn parse(metadata: &Map<String, Value>) -> Result<Fields, Rejection> {
    let kept = metadata
        .iter()
        .filter(|(name, _)| !OUTPUT.contains(&name.as_str()));
    let mut fields: Fields = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(Value::String(location)) = fields.get_mut("location") {
        location.make_ascii_uppercase();
    }
    check(&fields)?;
    Ok(fields)
}

/// Refuses fields that are too many, or that promise what is not kept.
pub(super) fn check(fields: &Fields) -> Result<(), Rejection> {
    let versioning = fields.get("versioning").and_then(|it| it.get("enabled"));
    if versioning == Some(&Value::Bool(true)) {
        return Err(Rejection::invalid_field(
            "versioning",
            "is not supported by this server",
        ));
    }
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
    if bytes > LARGEST {
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

    fn parsed(metadata: &Value) -> Result<Fields, Rejection> {
        parse(metadata.as_object().expect("an object"))
    }

    #[test]
    fn what_the_server_fills_in_is_passed_over_and_places_are_in_capitals() {
        let fields =
            parsed(&json!({"name": "barn", "etag": "x", "location": "eu", "labels": {"a": "b"}}));
        let expected = json!({"location": "EU", "labels": {"a": "b"}});
        assert_eq!(fields.unwrap(), *expected.as_object().unwrap());
    }

    #[test]
    fn promises_that_would_be_broken_are_refused() {
        for metadata in [
            json!({"versioning": {"enabled": true}}),
            json!({"retentionPolicy": {"retentionPeriod": "9"}}),
            json!({"location": 1}),
            json!({"labels": {"a": "x".repeat(17 * 1024)}}),
        ] {
            assert!(parsed(&metadata).is_err(), "{metadata}");
        }
        assert!(
            parsed(&json!({"versioning": {"enabled": false}, "retentionPolicy": null})).is_ok()
        );
    }
}
