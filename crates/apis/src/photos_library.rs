//! Google Photos: an upload gives a token, and the token makes a media item.
//!
//! An upload is kept for a day. Then an event of the outbox deletes it, unless a media item has
//! taken its media. An upload token is a secret. Only its hash is stored with its media.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_discovery::Api;
use windlass_rest::ServedApi;
use windlass_rest::handler::{
    Answer, ApiHandler, Call, Conclusion, Content, Deliver, Delivery, OutboxEvent, Outcome,
    Rejection, Uploaded, new_secret,
};
use windlass_store::{Resource, ResourceChange};

use crate::record::{self, Fields, fields_of, found, removing, rfc3339, text};
use crate::{ApiProvider, augmented, description};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "photoslibrary",
    inputs: include_str!("photos_library/inputs.toml"),
    built_in: |_| vec![served(own())],
    // The published document has neither uploads nor downloads.
    from_document: |api, _| served(augmented(api, &own(), &[UPLOAD, DOWNLOAD])),
};

const UPLOAD: &str = "photoslibrary.uploads.create";

const DOWNLOAD: &str = "photoslibrary.media.download";

/// Media with an upload token. The id is the hash of the token.
const UPLOADS: &str = "photoslibrary/uploads";

const ITEMS: &str = "photoslibrary/mediaItems";

/// Topic of the events that delete unused media.
const TOPIC: &str = "photoslibrary";

/// How long an upload token is valid, as in the service.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of media items that a call makes, as in the service.
const MAX_NEW_ITEMS: usize = 50;

/// Maximum number of characters of a description, as in the service.
const MAX_DESCRIPTION_LEN: usize = 1000;

/// Maximum number of characters of a file name, as in the service.
const MAX_FILE_NAME_LEN: usize = 255;

/// `INVALID_ARGUMENT` of gRPC.
const INVALID_ARGUMENT: u32 = 3;

fn own() -> Api {
    description(include_str!("photos_library/photos_library.toml"))
}

fn served(api: Api) -> ServedApi {
    ServedApi::new(api, Arc::new(Photos))
}

#[derive(Debug)]
struct Photos;

#[async_trait]
impl ApiHandler for Photos {
    async fn admit(&self, _: &Call<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match (call.method.id.as_str(), media) {
            (UPLOAD, Some(media)) => keep(call, media),
            (UPLOAD, None) => Err(Rejection::InvalidArgument {
                problem: "bytes are uploaded with the header X-Goog-Upload-Protocol".to_owned(),
            }),
            ("photoslibrary.mediaItems.batchCreate", _) => batch_create(call).await,
            ("photoslibrary.mediaItems.get", _) => {
                let id = call.path.value("mediaItemId").unwrap_or_default();
                let item = found(call, "media item", ITEMS, id).await?;
                Ok(Answer::of(show(call, &item)))
            }
            ("photoslibrary.mediaItems.list", _) => list(call).await,
            _ => Err(call.not_implemented()),
        }
    }

    /// Returns the media item of a base URL. Clients append options such as `=d` to its id.
    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        let media = call.path.value("media").unwrap_or_default();
        let id = media.split_once('=').map_or(media, |(id, _)| id);
        found(call, "media item", ITEMS, id).await
    }

    fn deliveries(&self) -> Vec<Arc<dyn Deliver>> {
        vec![Arc::new(Expiry)]
    }
}

/// `uploads.create`: keeps the media until it expires.
fn keep(call: &Call<'_>, media: Uploaded) -> Result<Answer, Rejection> {
    if media.media.length == 0 {
        return Err(Rejection::InvalidMedia {
            problem: "it is empty".to_owned(),
        });
    }
    let token = new_secret();
    let id = hash(&token);
    let expiry = OutboxEvent {
        due: Some(call.now.saturating_add(LIFETIME)),
        ..OutboxEvent::new(TOPIC, json!({"upload": id}))
    };
    let name = call
        .file_name
        .map(|name| ("filename".to_owned(), name.into()));
    let fields: Fields = name.into_iter().collect();
    let upload = record::new(call, UPLOADS, id, &fields, Some(media.media));
    Ok(Answer {
        changes: vec![ResourceChange::Insert(upload)],
        events: vec![expiry],
        ..Answer::of(Content::Bytes {
            content_type: HeaderValue::from_static("text/plain; charset=utf-8"),
            bytes: Bytes::from(token),
        })
    })
}

/// Deletes uploads that have expired.
#[derive(Debug)]
struct Expiry;

#[async_trait]
impl Deliver for Expiry {
    fn topic(&self) -> &str {
        TOPIC
    }

    async fn deliver(&self, _: &Delivery<'_>) -> Result<Outcome, Rejection> {
        Ok(Outcome::Delivered)
    }

    async fn conclude(
        &self,
        delivery: &Delivery<'_>,
        _: Conclusion<'_>,
    ) -> Result<Vec<ResourceChange>, Rejection> {
        let id = delivery.payload["upload"].as_str().unwrap_or_default();
        let unused = delivery.lookup.resource(UPLOADS, id).await?;
        Ok(unused.iter().map(removing).collect())
    }
}

/// The fields that a client chooses for a new media item.
fn chosen_fields(new: &Value) -> Result<Fields, Rejection> {
    let file_name = &new["simpleMediaItem"]["fileName"];
    let chosen = [
        ("description", &new["description"], MAX_DESCRIPTION_LEN),
        ("filename", file_name, MAX_FILE_NAME_LEN),
    ];
    let mut fields = Fields::new();
    for (name, value, longest) in chosen {
        let text = value.as_str().unwrap_or_default();
        if text.chars().count() > longest {
            let problem = format!("must have at most {longest} characters");
            return Err(Rejection::invalid_field(name, problem));
        }
        if !text.is_empty() {
            fields.insert(name.to_owned(), text.into());
        }
    }
    Ok(fields)
}

/// `mediaItems.batchCreate`: some of the items may fail.
async fn batch_create(call: &Call<'_>) -> Result<Answer, Rejection> {
    if text(call.metadata, "albumId").is_some_and(|id| !id.is_empty()) {
        return Err(Rejection::invalid_field("albumId", "there are no albums"));
    }
    let new = call.metadata.get("newMediaItems").and_then(Value::as_array);
    let new = new.filter(|new| (1..=MAX_NEW_ITEMS).contains(&new.len()));
    let new = new.ok_or_else(|| {
        let problem = format!("must be 1 to {MAX_NEW_ITEMS} media items");
        Rejection::invalid_field("newMediaItems", problem)
    })?;
    let mut changes = Vec::new();
    let mut results = Vec::new();
    let mut used = HashSet::new();
    for (number, new) in new.iter().enumerate() {
        let mut fields = chosen_fields(new)?;
        let token = new["simpleMediaItem"]["uploadToken"].as_str();
        let token = token.unwrap_or_default();
        let upload = usable(call, token).await?;
        let mut result = json!({"uploadToken": token});
        if let Some(upload) = upload.filter(|upload| used.insert(upload.id.clone())) {
            // The item takes the name of the upload only if it has no name itself.
            for (name, value) in fields_of(&upload) {
                fields.entry(name).or_insert(value);
            }
            let id = format!("{}{number:02}", call.fresh_id);
            let item = record::new(call, ITEMS, id, &fields, upload.media.clone());
            result["status"] = json!({"message": "Success"});
            result["mediaItem"] = show(call, &item).into();
            // In this order, so that the media always has an owner.
            changes.extend([ResourceChange::Insert(item), removing(&upload)]);
        } else {
            let message = "The upload token is unknown or expired, or was used before.";
            result["status"] = json!({"code": INVALID_ARGUMENT, "message": message});
        }
        results.push(result);
    }
    let mut body = Fields::new();
    body.insert("newMediaItemResults".to_owned(), results.into());
    Ok(Answer {
        changes,
        ..Answer::of(body)
    })
}

/// The upload with this token, unless it has expired.
async fn usable(call: &Call<'_>, token: &str) -> Result<Option<Resource>, Rejection> {
    let upload = call.lookup.resource(UPLOADS, &hash(token)).await?;
    Ok(upload.filter(|upload| call.now < upload.created.saturating_add(LIFETIME)))
}

/// Hexadecimal digits.
fn hash(token: &str) -> String {
    let hash = Sha256::digest(token.as_bytes());
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `mediaItems.list`: in the order in which they were made.
async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let page = record::page(call, ITEMS, 25).await?;
    let items = page.rows.iter().map(|item| show(call, item).into());
    let mut body = Fields::new();
    record::set_list(&mut body, "mediaItems", items.collect());
    if let Some(next) = page.next {
        body.insert("nextPageToken".to_owned(), next.into());
    }
    Ok(Answer::of(body))
}

/// A media item as the API shows it.
fn show(call: &Call<'_>, item: &Resource) -> Fields {
    let (base_url, id) = (call.base_url, &item.id);
    let mut shown = fields_of(item);
    let mut metadata = json!({"creationTime": rfc3339(item.created)});
    if let Some(media) = &item.media {
        shown.insert("mimeType".to_owned(), media.content_type.clone().into());
        match media.content_type.split('/').next() {
            Some("image") => metadata["photo"] = json!({}),
            Some("video") => metadata["video"] = json!({"status": "READY"}),
            _ => {}
        }
    }
    let mut add = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    add("id", id.clone().into());
    add(
        "productUrl",
        format!("{base_url}/v1/mediaItems/{id}").into(),
    );
    add("baseUrl", format!("{base_url}/v1/media/{id}").into());
    add("mediaMetadata", metadata);
    shown
}
