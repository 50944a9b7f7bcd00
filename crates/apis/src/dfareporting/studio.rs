//! Assets of Studio: any file of an advertiser's, filed by what it is.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use windlass_server::handler::{Answer, Call, Rejection, Uploaded, first_version};
use windlass_store::{Resource, ResourceChange};

use super::assets::{inspect_head, numeric_id};
use super::content::Content;
use crate::inspect::invalid;

const COLLECTION: &str = "dfareporting/studio/assets";

/// The ids that a client may give, and whether it must.
const IDS: [(&str, bool); 3] = [
    ("studioAdvertiserId", true),
    ("studioAccountId", false),
    ("studioCreativeId", false),
];

pub(super) fn admit(call: &Call<'_>) -> Result<(), Rejection> {
    ids(call.metadata).map(drop)
}

pub(super) async fn insert(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let ids = ids(call.metadata)?;
    let Some(Uploaded { media, source }) = media else {
        return Err(invalid(
            "there is none; an asset is uploaded to the upload URI",
        ));
    };
    let content = inspect_head(&source).await?;
    let id = numeric_id(call);
    let time = call.now.as_millis().to_string();
    let mut asset = Map::new();
    asset.insert("id".into(), id.clone().into());
    asset.extend(ids);
    asset.insert("type".into(), type_of(content).into());
    asset.insert("filename".into(), filename(&id, content).into());
    asset.insert("filesize".into(), media.length.to_string().into());
    asset.insert("createInfo".into(), json!({"time": time}));
    asset.insert("lastModifiedInfo".into(), json!({"time": time}));
    if type_of(content) == "VIDEO" {
        let processed = json!({"processingState": "SUCCEEDED"});
        asset.insert("videoProcessingData".into(), processed);
    }
    let asset = Value::Object(asset);
    let resource = Resource {
        collection: COLLECTION.to_owned(),
        id,
        version: first_version(),
        body: Bytes::from(asset.to_string()),
        media: Some(media),
        created: call.now,
        updated: call.now,
    };
    let body = json!({"assets": [asset]});
    Ok(Answer {
        changes: vec![ResourceChange::Insert(resource)],
        body: body.as_object().cloned(),
    })
}

/// The ids of the request, as they are shown: numbers in strings.
fn ids(metadata: &Map<String, Value>) -> Result<Map<String, Value>, Rejection> {
    let mut ids = Map::new();
    for (field, required) in IDS {
        match metadata.get(field) {
            None | Some(Value::Null) if required => {
                let field = field.to_owned();
                return Err(Rejection::MissingField { field });
            }
            None | Some(Value::Null) => {}
            Some(value) => {
                ids.insert(field.into(), id(field, value)?.to_string().into());
            }
        }
    }
    Ok(ids)
}

fn id(field: &str, value: &Value) -> Result<i64, Rejection> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    };
    let id = number.filter(|number| *number > 0);
    id.ok_or_else(|| Rejection::invalid_field(field, "must be a positive number of 64 bits"))
}

/// The type that Studio has for it.
fn type_of(content: Content) -> &'static str {
    match content {
        Content::Image(_) | Content::OtherImage(_) => "IMAGE",
        Content::Html | Content::Zip => "HTML",
        Content::Video(_) | Content::Container(_) => "VIDEO",
        Content::Font(_) => "FONT",
        Content::Flash | Content::Audio(_) | Content::Unknown => "UNKNOWN_TYPE",
    }
}

/// A name for the file, because nothing says what it was called.
fn filename(id: &str, content: Content) -> String {
    let suffix = match content.media_type() {
        "application/octet-stream" => "bin",
        "application/x-shockwave-flash" => "swf",
        "video/quicktime" => "mov",
        other => other.rsplit(['/', '-']).next().unwrap_or("bin"),
    };
    format!("asset-{id}.{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advertiser_is_required_and_ids_are_numbers() {
        let table = [
            (json!({}), Err("field studioAdvertiserId is required")),
            (json!({"studioAdvertiserId": "seven"}), Err("64 bits")),
            (json!({"studioAdvertiserId": "-7"}), Err("64 bits")),
            (
                json!({"studioAdvertiserId": "7", "studioCreativeId": {}}),
                Err("studioCreativeId"),
            ),
            (
                json!({"studioAdvertiserId": 7, "studioAccountId": "8"}),
                Ok(json!({"studioAdvertiserId": "7", "studioAccountId": "8"})),
            ),
        ];
        for (metadata, expected) in table {
            let found = ids(metadata.as_object().unwrap());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(Value::Object(found), expected),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_file_is_named_by_what_it_is() {
        let name = |content| filename("7", content);
        assert_eq!(name(Content::Html), "asset-7.html");
        assert_eq!(name(Content::Video("video/x-flv")), "asset-7.flv");
        assert_eq!(name(Content::Unknown), "asset-7.bin");
    }
}
