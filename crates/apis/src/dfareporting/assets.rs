//! Creative assets: looked into, named, kept.
//!
//! What is kept of an asset has every field that some reply may show; the schema of a reply chooses.
//! Beside it is kept, by advertiser, which names are taken.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use windlass_server::handler::{Answer, Call, Rejection, Uploaded, first_version};
use windlass_store::{Media, Resource, ResourceChange};

mod inspect;
mod names;

pub(super) use inspect::inspect_head;
use inspect::{Inspected, inspect};

use super::identifier::{AssetIdentifier, AssetName};
use crate::inspect::invalid;

/// Refuses what is hopeless before the media comes.
pub(super) fn admit(call: &Call<'_>) -> Result<(), Rejection> {
    number(call, "advertiserId")?;
    AssetIdentifier::of(call.metadata).map(drop)
}

/// Assets of one name and advertiser take turns.
pub(super) fn turn(call: &Call<'_>) -> Option<String> {
    let advertiser = number(call, "advertiserId").ok()?;
    let identifier = AssetIdentifier::of(call.metadata).ok()?;
    let name = identifier.name.as_str();
    Some(format!("{}/{name}", names::collection(advertiser)))
}

pub(super) async fn insert(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let advertiser = number(call, "advertiserId")?;
    let given = AssetIdentifier::of(call.metadata)?;
    let Some(Uploaded { media, source }) = media else {
        return Err(invalid(
            "there is none; an asset is uploaded to the upload URI",
        ));
    };
    let looks = inspect(&given, &source).await?;
    let id = numeric_id(call);
    let names::Taken { name, mut changes } = names::take(call, advertiser, &given.name).await?;
    let identifier = AssetIdentifier {
        name,
        ..given.clone()
    };
    let mut asset = described(&id, &identifier, &looks);
    asset.extend(file_fields(&given.name, &looks, &media));
    let resource = Resource {
        collection: collection(advertiser),
        id,
        version: first_version(),
        body: Bytes::from(Value::Object(asset.clone()).to_string()),
        media: Some(media),
        created: call.now,
        updated: call.now,
    };
    changes.push(ResourceChange::Insert(resource));
    Ok(Answer {
        changes,
        body: Some(shown(call, asset)),
    })
}

pub(super) async fn get(call: &Call<'_>) -> Result<Answer, Rejection> {
    let asset = find(call).await?;
    let fields = serde_json::from_slice(&asset.body).unwrap_or_default();
    Ok(Answer {
        changes: Vec::new(),
        body: Some(shown(call, fields)),
    })
}

pub(super) async fn find(call: &Call<'_>) -> Result<Resource, Rejection> {
    let advertiser = number(call, "advertiserId")?;
    let id = number(call, "assetId")?.to_string();
    let found = call.lookup.resource(&collection(advertiser), &id).await?;
    found.ok_or_else(|| Rejection::NotFound {
        what: "asset".to_owned(),
        id,
    })
}

fn collection(advertiser: i64) -> String {
    format!("dfareporting/{advertiser}/assets")
}

/// A variable of the path that is an id of 64 bits.
fn number(call: &Call<'_>, parameter: &str) -> Result<i64, Rejection> {
    let text = call.path.value(parameter).unwrap_or_default();
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Rejection::InvalidParameter {
        parameter: parameter.to_owned(),
        problem: "must be a positive number of 64 bits".to_owned(),
    })
}

/// A new id: a positive number of 64 bits that grows with time. The fresh id begins with 48 bits of
/// milliseconds, of which 41 are in use until the year 2039, and 42 until 2109; the rest is random.
pub(super) fn numeric_id(call: &Call<'_>) -> String {
    let fresh = u128::from_str_radix(call.fresh_id, 16).unwrap_or_default();
    let id = fresh >> (80 - 21) & 0x7fff_ffff_ffff_ffff;
    id.to_string()
}

/// What the API tells of an asset (`CreativeAssetMetadata`).
fn described(id: &str, identifier: &AssetIdentifier, looks: &Inspected) -> Map<String, Value> {
    let mut asset = object(json!({
        "kind": "dfareporting#creativeAssetMetadata",
        "assetIdentifier": identifier.show(),
        "id": id,
        "idDimensionValue": {
            "kind": "dfareporting#dimensionValue",
            "etag": format!("\"{id}\""),
            "dimensionName": "dfa:assetId",
            "id": id,
            "matchType": "EXACT",
            "value": id,
        },
        "richMedia": looks.html5.as_ref().is_some_and(|it| it.rich_media),
    }));
    let Some(html5) = &looks.html5 else {
        return asset;
    };
    let features: Vec<_> = html5.features.iter().map(|it| it.name()).collect();
    let rules: Vec<_> = html5.rules.iter().map(|it| it.name()).collect();
    let click_tags = html5.click_tags.iter().map(|tag| {
        let url = tag.url.as_ref();
        let url = url.map(|url| json!({"customClickThroughUrl": url, "computedClickThroughUrl": url}));
        json!({"name": tag.name, "eventName": tag.name, "clickThroughUrl": url.unwrap_or_else(|| json!({}))})
    });
    asset.insert("clickTags".into(), click_tags.collect());
    asset.insert("detectedFeatures".into(), features.into());
    asset.insert("warnedValidationRules".into(), rules.into());
    asset
}

/// What is told of the file (`CreativeAsset`).
fn file_fields(name: &AssetName, looks: &Inspected, media: &Media) -> Map<String, Value> {
    let length = media.length.to_string();
    let mut fields = Map::new();
    if looks.is_bundle() {
        fields.insert("zipFilename".into(), name.as_str().into());
        fields.insert("zipFilesize".into(), length.clone().into());
    }
    fields.insert("fileSize".into(), length.into());
    fields.insert("mimeType".into(), looks.content.media_type().into());
    if let Some((width, height)) = looks.size {
        let size = json!({"kind": "dfareporting#size", "width": width, "height": height});
        fields.insert("size".into(), size);
    }
    fields
}

/// The fields that the schema of the reply has.
fn shown(call: &Call<'_>, mut asset: Map<String, Value>) -> Map<String, Value> {
    let schema = call.method.response.as_deref();
    if let Some(schema) = schema.and_then(|name| call.api.schema(name)) {
        asset.retain(|field, _| schema.property(field).is_some());
    }
    asset
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
