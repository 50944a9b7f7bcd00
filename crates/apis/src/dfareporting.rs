//! The Campaign Manager 360 API: creative assets, which are inspected when they are uploaded.
//!
//! The bytes of an asset determine its type, and its metadata must agree. HTML assets, alone or
//! with their files in a ZIP archive, are searched for click tags, required browser features and
//! broken rules. All other methods of a document are served by the default handler.
//!
//! The methods on creative assets and on assets of Studio are in this module. The modules below
//! inspect uploads.

use std::io::Read;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use windlass_discovery::Api;
use windlass_rest::handler::{
    Answer, ApiHandler, BlockingMedia, Call, MediaSource, Rejection, Uploaded, first_version,
};
use windlass_rest::{DefaultHandler, ServedApi};
use windlass_store::{Media, Resource, ResourceChange};

use crate::inspect::{self, ImageHeader, ImageHeaderError, invalid, refusal};
use crate::{ApiProvider, augmented, description};

mod archive;
mod asset;
mod html5;

use archive::{Archive, ArchiveError};
use asset::{AssetIdentifier, AssetName, Content, HEAD};
use html5::{Findings, MAX_TEXT};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "dfareporting",
    inputs: include_str!("dfareporting/inputs.toml"),
    built_in: |_| vec![served(own("v4")), served(own("v5"))],
    from_document: |api, _| served(augmented(crate::answering_created(api), &own("v5"), &[GET])),
};

const INSERT: &str = "dfareporting.creativeAssets.insert";

/// Id of the method in the last document of version 3.5.
const INSERT_BEFORE: &str = "dfareporting.media.upload";

const GET: &str = "dfareporting.creativeAssets.get";

const INSERT_STUDIO: &str = "dfareporting.studioCreativeAssets.insert";

/// Returns our description for a version. All versions are alike in the methods it has.
fn own(version: &str) -> Api {
    let text = include_str!("dfareporting/dfareporting.toml");
    description(&format!("version = \"{version}\"\n{text}"))
}

fn served(api: Api) -> ServedApi {
    ServedApi::new(api, Arc::new(CreativeAssets))
}

/// The methods on creative assets, whatever the version.
#[derive(Debug)]
struct CreativeAssets;

#[async_trait]
impl ApiHandler for CreativeAssets {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        DefaultHandler.admit(call).await?;
        match call.method.id.as_str() {
            INSERT | INSERT_BEFORE => admit(call),
            INSERT_STUDIO => admit_studio(call),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match call.method.id.as_str() {
            INSERT | INSERT_BEFORE => insert(call, media).await,
            INSERT_STUDIO => insert_studio(call, media).await,
            GET => get(call).await,
            _ => DefaultHandler.run(call, media).await,
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        match call.method.id.as_str() {
            GET => find(call).await,
            _ => DefaultHandler.find(call).await,
        }
    }

    /// Uploads of one asset name are serialized, since they derive new names from it.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        match call.method.id.as_str() {
            INSERT | INSERT_BEFORE => turn(call),
            _ => None,
        }
    }
}

/// Maximum number of numbered names that are tried. More than one is needed only if a client has
/// chosen such a name itself.
const TRIES: u64 = 100;

const STUDIO_ASSETS: &str = "dfareporting/studio/assets";

/// Ids of a Studio asset, and whether each is required.
const STUDIO_IDS: [(&str, bool); 3] = [
    ("studioAdvertiserId", true),
    ("studioAccountId", false),
    ("studioCreativeId", false),
];

/// Refuses an invalid upload before its media is received.
fn admit(call: &Call<'_>) -> Result<(), Rejection> {
    number(call, "advertiserId")?;
    AssetIdentifier::of(call.metadata).map(drop)
}

/// Returns the key of the lock: uploads of one name and advertiser are serialized.
fn turn(call: &Call<'_>) -> Option<String> {
    let advertiser = number(call, "advertiserId").ok()?;
    let identifier = AssetIdentifier::of(call.metadata).ok()?;
    let name = identifier.name.as_str();
    Some(format!("{}/{name}", name_collection(advertiser)))
}

async fn insert(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let advertiser = number(call, "advertiserId")?;
    let given = AssetIdentifier::of(call.metadata)?;
    let Some(Uploaded { media, source }) = media else {
        return Err(invalid(
            "the call has no media; send the asset to the upload URI",
        ));
    };
    let inspected = inspect_asset(&given, &source).await?;
    let id = numeric_id(call);
    let ReservedName { name, mut changes } = reserve_name(call, advertiser, &given.name).await?;
    let identifier = AssetIdentifier {
        name,
        ..given.clone()
    };
    let mut asset = described(&id, &identifier, &inspected);
    asset.extend(file_fields(&given.name, &inspected, &media));
    let resource = Resource {
        collection: collection(advertiser),
        id,
        version: first_version(),
        body: Bytes::from(Value::Object(asset.clone()).to_string()),
        media: Some(media),
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    };
    changes.push(ResourceChange::Insert(resource));
    Ok(Answer {
        changes,
        body: Some(shown(call, asset).into()),
        ..Answer::default()
    })
}

async fn get(call: &Call<'_>) -> Result<Answer, Rejection> {
    let asset = find(call).await?;
    let fields = serde_json::from_slice(&asset.body).unwrap_or_default();
    Ok(Answer::of(shown(call, fields)))
}

async fn find(call: &Call<'_>) -> Result<Resource, Rejection> {
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

/// Returns a variable of the path that is an id of 64 bits.
fn number(call: &Call<'_>, parameter: &str) -> Result<i64, Rejection> {
    let text = call.path.value(parameter).unwrap_or_default();
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Rejection::InvalidParameter {
        parameter: parameter.to_owned(),
        problem: "must be a positive number of 64 bits".to_owned(),
    })
}

/// Returns a new id: a positive number of 64 bits that grows with time. The fresh id begins with 48
/// bits of milliseconds, of which 41 are in use until the year 2039, and 42 until 2109; the rest is
/// random.
fn numeric_id(call: &Call<'_>) -> String {
    let fresh = u128::from_str_radix(call.fresh_id, 16).unwrap_or_default();
    let id = fresh >> (80 - 21) & 0x7fff_ffff_ffff_ffff;
    id.to_string()
}

/// Returns the fields that describe an asset (`CreativeAssetMetadata`).
fn described(id: &str, identifier: &AssetIdentifier, inspected: &Inspected) -> Map<String, Value> {
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
        "richMedia": inspected.html5.as_ref().is_some_and(|it| it.rich_media),
    }));
    let Some(html5) = &inspected.html5 else {
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

/// Returns the fields that describe the file (`CreativeAsset`).
fn file_fields(name: &AssetName, inspected: &Inspected, media: &Media) -> Map<String, Value> {
    let length = media.length.to_string();
    let mut fields = Map::new();
    if inspected.is_bundle() {
        fields.insert("zipFilename".into(), name.as_str().into());
        fields.insert("zipFilesize".into(), length.clone().into());
    }
    fields.insert("fileSize".into(), length.into());
    fields.insert("mimeType".into(), inspected.content.media_type().into());
    if let Some((width, height)) = inspected.size {
        let size = json!({"kind": "dfareporting#size", "width": width, "height": height});
        fields.insert("size".into(), size);
    }
    fields
}

/// Returns the fields that the schema of the reply has.
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

/// Result of the inspection of an asset.
#[derive(Debug)]
struct Inspected {
    content: Content,
    /// Width and height in pixels, if it has a size.
    size: Option<(u32, u32)>,
    /// Findings in HTML.
    html5: Option<Findings>,
}

impl Inspected {
    /// Returns whether it is a page with its files.
    fn is_bundle(&self) -> bool {
        self.content == Content::Zip
    }
}

/// Inspects the media and checks that the identifier fits.
async fn inspect_asset(
    given: &AssetIdentifier,
    source: &MediaSource,
) -> Result<Inspected, Rejection> {
    let given = given.clone();
    let inspection = inspect::inspect(source, move |mut media| {
        let content = Content::of(&beginning(&mut media, HEAD)?);
        given.check(content)?;
        inspect_content(media, content)
    });
    inspection.await
}

/// Returns the content type of the media, by its first bytes.
async fn inspect_head(source: &MediaSource) -> Result<Content, Rejection> {
    Ok(Content::of(&source.read(0..HEAD).await?))
}

fn inspect_content(mut media: BlockingMedia, content: Content) -> Result<Inspected, Rejection> {
    let (size, html5) = match content {
        Content::Image(_) => {
            let image_header = ImageHeader::read(&mut media).map_err(image_error)?;
            (Some((image_header.width, image_header.height)), None)
        }
        Content::Html => {
            let findings = Findings::of_page(&beginning(&mut media, MAX_TEXT)?);
            (findings.size, Some(findings))
        }
        Content::Zip => {
            let mut archive = Archive::open(media).map_err(archive_error)?;
            let findings = Findings::of_bundle(&mut archive).map_err(archive_error)?;
            (findings.size, Some(findings))
        }
        _ => (None, None),
    };
    Ok(Inspected {
        content,
        size,
        html5,
    })
}

fn beginning(media: &mut BlockingMedia, length: u64) -> Result<Vec<u8>, Rejection> {
    use std::io::Seek as _;
    let mut bytes = Vec::new();
    media.rewind().map_err(refusal)?;
    let read = media.take(length).read_to_end(&mut bytes);
    read.map_err(refusal)?;
    Ok(bytes)
}

fn image_error(error: ImageHeaderError) -> Rejection {
    match error {
        ImageHeaderError::Io(error) => refusal(error),
        other => invalid(other.to_string()),
    }
}

fn archive_error(error: ArchiveError) -> Rejection {
    match error {
        ArchiveError::Io(error) => refusal(error),
        other => invalid(other.to_string()),
    }
}

/// A free name, and the changes that reserve it.
struct ReservedName {
    name: AssetName,
    changes: Vec<ResourceChange>,
}

/// Returns the collection of an advertiser's names.
fn name_collection(advertiser: i64) -> String {
    format!("dfareporting/{advertiser}/names")
}

/// Reserves the name, or the next free numbered one.
async fn reserve_name(
    call: &Call<'_>,
    advertiser: i64,
    name: &AssetName,
) -> Result<ReservedName, Rejection> {
    let collection = name_collection(advertiser);
    let Some(first) = call.lookup.resource(&collection, name.as_str()).await? else {
        return Ok(ReservedName {
            name: name.clone(),
            changes: vec![ResourceChange::Insert(name_row(call, collection, name, 1))],
        });
    };
    let count = count_of(&first);
    // If all are taken, the time is used as the number, which is unique in practice.
    let numbers = (count + 1..=count + TRIES).chain([call.now.as_millis()]);
    for number in numbers {
        let copy = name.copy(number);
        if call
            .lookup
            .resource(&collection, copy.as_str())
            .await?
            .is_none()
        {
            let taken = name_row(call, collection, &copy, 1);
            let changes = vec![ResourceChange::Insert(taken), counted(call, first, number)];
            return Ok(ReservedName {
                name: copy,
                changes,
            });
        }
    }
    Err(Rejection::AlreadyExists {
        what: "asset".to_owned(),
        id: name.as_str().to_owned(),
    })
}

fn name_row(call: &Call<'_>, collection: String, name: &AssetName, count: u64) -> Resource {
    Resource {
        collection,
        id: name.as_str().to_owned(),
        version: first_version(),
        body: count_body(count),
        media: None,
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    }
}

fn counted(call: &Call<'_>, first: Resource, count: u64) -> ResourceChange {
    let expected = first.version;
    ResourceChange::Replace {
        resource: Resource {
            version: expected + 1,
            body: count_body(count),
            updated: call.now,
            due: None,
            claimed_by: None,
            ..first
        },
        expected,
    }
}

fn count_body(count: u64) -> Bytes {
    Bytes::from(json!({"count": count}).to_string())
}

fn count_of(row: &Resource) -> u64 {
    let body: serde_json::Value = serde_json::from_slice(&row.body).unwrap_or_default();
    body["count"].as_u64().unwrap_or(1)
}

fn admit_studio(call: &Call<'_>) -> Result<(), Rejection> {
    studio_ids(call.metadata).map(drop)
}

async fn insert_studio(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let ids = studio_ids(call.metadata)?;
    let Some(Uploaded { media, source }) = media else {
        return Err(invalid(
            "the call has no media; send the asset to the upload URI",
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
        collection: STUDIO_ASSETS.to_owned(),
        id,
        version: first_version(),
        body: Bytes::from(asset.to_string()),
        media: Some(media),
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    };
    let body = json!({"assets": [asset]});
    Ok(Answer {
        changes: vec![ResourceChange::Insert(resource)],
        body: body.as_object().cloned().map(Into::into),
        ..Answer::default()
    })
}

/// Returns the ids of the request, as they are shown: numbers in strings.
fn studio_ids(metadata: &Map<String, Value>) -> Result<Map<String, Value>, Rejection> {
    let mut ids = Map::new();
    for (field, required) in STUDIO_IDS {
        match metadata.get(field) {
            None | Some(Value::Null) if required => {
                let field = field.to_owned();
                return Err(Rejection::MissingField { field });
            }
            None | Some(Value::Null) => {}
            Some(value) => {
                ids.insert(field.into(), studio_id(field, value)?.to_string().into());
            }
        }
    }
    Ok(ids)
}

fn studio_id(field: &str, value: &Value) -> Result<i64, Rejection> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    };
    let id = number.filter(|number| *number > 0);
    id.ok_or_else(|| Rejection::invalid_field(field, "must be a positive number of 64 bits"))
}

/// Returns the type that Studio has for it.
fn type_of(content: Content) -> &'static str {
    match content {
        Content::Image(_) | Content::OtherImage(_) => "IMAGE",
        Content::Html | Content::Zip => "HTML",
        Content::Video(_) | Content::Container(_) => "VIDEO",
        Content::Font(_) => "FONT",
        Content::Flash | Content::Audio(_) | Content::Unknown => "UNKNOWN_TYPE",
    }
}

/// Returns a generated file name, since the upload has none.
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
            let found = studio_ids(metadata.as_object().unwrap());
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
    fn file_name_follows_the_content_type() {
        let name = |content| filename("7", content);
        assert_eq!(name(Content::Html), "asset-7.html");
        assert_eq!(name(Content::Video("video/x-flv")), "asset-7.flv");
        assert_eq!(name(Content::Unknown), "asset-7.bin");
    }
}
