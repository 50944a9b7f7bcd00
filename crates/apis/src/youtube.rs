//! The data API of `YouTube`, version 3: videos up to 256 GB, with their thumbnails and captions,
//! and the images of a channel and of playlists.
//!
//! There is one channel. Nothing is transcoded, scaled or translated: media is served as it was
//! uploaded. The published description has no methods to read media, so they are added to it.
//!
//! Each resource has a module with its methods. This module has the parts that they share: the
//! `part` parameter, pages of lists, and the rows of videos with their thumbnails and caption
//! tracks.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use windlass_discovery::Api;
use windlass_rest::ServedApi;
use windlass_rest::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_store::{Resource, ResourceChange};

use crate::record::{self, Fields, fields_of, found, replacing, text};
use crate::{ApiProvider, augmented, description, page_token};

mod captions;
mod images;
mod refusals;
mod videos;

use refusals::Place;

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "youtube",
    inputs: include_str!("youtube/inputs.toml"),
    built_in: |_| vec![served(own())],
    from_document: |api, _| match api.version() {
        "v3" => served(augmented(api, &own(), &ADDED)),
        _ => ServedApi::with_default_handler(api),
    },
};

/// Methods that published descriptions lack. Each returns media.
const ADDED: [&str; 5] = [
    "youtube.videos.get",
    "youtube.thumbnails.get",
    "youtube.channelBanners.get",
    "youtube.watermarks.get",
    "youtube.playlistImages.get",
];

fn own() -> Api {
    description(include_str!("youtube/youtube.toml"))
}

fn served(api: Api) -> ServedApi {
    let handler = Arc::new(YouTube);
    ServedApi::new(api, handler)
}

#[derive(Debug)]
struct YouTube;

#[async_trait]
impl ApiHandler for YouTube {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        match call.method.id.as_str() {
            "youtube.videos.insert" => videos::admit(call),
            "youtube.thumbnails.set" => images::admit_thumbnail(call).await,
            "youtube.captions.insert" => captions::admit_insertion(call).await,
            "youtube.captions.update" => captions::admit_update(call).await,
            "youtube.playlistImages.insert" => images::admit_playlist_insertion(call),
            "youtube.playlistImages.update" => images::admit_playlist_update(call).await,
            "youtube.channelBanners.insert" | "youtube.watermarks.set" => Ok(()),
            _ => Err(call.not_implemented()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match call.method.id.as_str() {
            "youtube.videos.insert" => videos::insert(call, needed(media)?),
            "youtube.videos.list" => videos::list(call).await,
            "youtube.videos.update" => videos::update(call).await,
            "youtube.videos.delete" => videos::delete(call).await,
            "youtube.thumbnails.set" => images::set_thumbnail(call, needed(media)?).await,
            "youtube.channelBanners.insert" => images::insert_banner(call, needed(media)?).await,
            "youtube.watermarks.set" => images::set_watermark(call, needed(media)?).await,
            "youtube.watermarks.unset" => images::unset_watermark(call).await,
            "youtube.captions.insert" => captions::insert(call, media).await,
            "youtube.captions.update" => captions::update(call, media).await,
            "youtube.captions.list" => captions::list(call).await,
            "youtube.captions.delete" => captions::delete(call).await,
            "youtube.playlistImages.insert" => {
                images::insert_playlist_image(call, needed(media)?).await
            }
            "youtube.playlistImages.update" => images::update_playlist_image(call, media).await,
            "youtube.playlistImages.list" => images::list_playlist_images(call).await,
            "youtube.playlistImages.delete" => images::delete_playlist_image(call).await,
            _ => Err(call.not_implemented()),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        let in_path = |name| call.path.value(name).unwrap_or_default();
        let (what, collection, id) = match call.method.id.as_str() {
            "youtube.videos.get" => {
                return video(call, in_path("id"), Place::Parameter("id")).await;
            }
            "youtube.thumbnails.get" => ("thumbnail", THUMBNAILS, in_path("videoId")),
            "youtube.channelBanners.get" => ("banner", images::BANNERS, in_path("id")),
            "youtube.watermarks.get" => ("watermark", images::WATERMARKS, in_path("channelId")),
            "youtube.playlistImages.get" => {
                ("playlist image", images::PLAYLIST_IMAGES, in_path("id"))
            }
            "youtube.captions.download" => return captions::caption(call, in_path("id")).await,
            _ => return Err(call.not_implemented()),
        };
        found(call, what, collection, id).await
    }

    /// Methods on the resources of a video also change the video, so they share its lock.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        let video = match call.method.id.as_str() {
            "youtube.videos.insert" => return None,
            "youtube.thumbnails.set" => call.query.first("videoId"),
            "youtube.captions.insert" => {
                let snippet = call.metadata.get("snippet").and_then(|it| it.as_object());
                snippet.and_then(|snippet| text(snippet, "videoId"))
            }
            _ => None,
        };
        let path = (call.method.http_method != http::Method::GET)
            .then(|| format!("youtube/{}", call.method.collection()));
        video.map(|id| format!("{VIDEOS}/{id}")).or(path)
    }
}

/// Returns the media, which the method requires.
fn needed(media: Option<Uploaded>) -> Result<Uploaded, Rejection> {
    media.ok_or_else(refusals::media_body_required)
}

/// Returns the `id` of the query.
fn id_in_query<'a>(call: &Call<'a>) -> Result<&'a str, Rejection> {
    let id = call.query.first("id").filter(|id| !id.is_empty());
    id.ok_or_else(|| invalid_parameter("id", "is required"))
}

/// Returns the `id` of the resource in the body.
fn id_in_body<'a>(call: &Call<'a>) -> Result<&'a str, Rejection> {
    text(call.metadata, "id").ok_or_else(|| missing("id"))
}

fn missing(field: &str) -> Rejection {
    Rejection::MissingField {
        field: field.to_owned(),
    }
}

fn invalid_parameter(parameter: &str, problem: impl Into<String>) -> Rejection {
    Rejection::InvalidParameter {
        parameter: parameter.to_owned(),
        problem: problem.into(),
    }
}

/// Number of resources of a page by default.
const DEFAULT_PAGE: usize = 5;

/// Maximum number of resources of a page.
const MAX_PAGE: usize = 50;

/// Collection of the videos.
const VIDEOS: &str = "youtube/videos";

/// Field of a video's row with its thumbnails. Replies show it in the snippet.
const THUMBNAIL: &str = "thumbnail";

/// Collection of the thumbnails, by video.
const THUMBNAILS: &str = "youtube/thumbnails";

/// Collection of the caption tracks. An id is the video's id, a dot, and the track's id.
const CAPTIONS: &str = "youtube/captions";

/// Maximum number of tracks of a video.
const MAX_TRACKS: usize = 1000;

/// Parts of a video that the service has, and this server has not.
const NOT_SERVED_PARTS: [&str; 8] = [
    "ageGating",
    "liveStreamingDetails",
    "monetizationDetails",
    "player",
    "projectDetails",
    "statistics",
    "suggestions",
    "topicDetails",
];

/// The parts of a resource that a call names.
#[derive(Debug)]
struct Parts<'a>(Vec<&'a str>);

impl<'a> Parts<'a> {
    /// Reads the parts of the query. Each must be a field of the schema.
    fn of(call: &Call<'a>, schema: &str) -> Result<Self, Rejection> {
        let parts: Vec<_> = listed(call, "part").collect();
        let is_required = call.method.parameter("part").is_some_and(|it| it.required);
        if is_required && parts.is_empty() {
            return Err(refusals::no_part());
        }
        let is_not_served = |part: &&&str| schema == "Video" && NOT_SERVED_PARTS.contains(*part);
        if let Some(part) = parts.iter().find(is_not_served) {
            return Err(refusals::part_not_served(part));
        }
        let schema = call.api.schema(schema);
        let is_known = |part: &&str| schema.is_none_or(|schema| schema.property(part).is_some());
        match parts.iter().find(|part| !is_known(part)) {
            Some(unknown) => Err(refusals::unknown_part(unknown)),
            None => Ok(Self(parts)),
        }
    }

    /// Returns whether no part is named.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this part is named.
    fn has(&self, part: &str) -> bool {
        self.0.contains(&part)
    }

    /// Removes the unnamed fields, except the fields that identify the resource.
    fn of_resource(&self, mut resource: Fields) -> Fields {
        let always = ["kind", "etag", "id"];
        resource.retain(|name, _| always.contains(&name.as_str()) || self.has(name));
        resource
    }
}

/// Returns the values of a parameter, which may be repeated and may have lists with commas.
fn listed<'a>(call: &Call<'a>, name: &'static str) -> impl Iterator<Item = &'a str> {
    let values = call.query.iter().filter(move |(key, _)| *key == name);
    let values = values.flat_map(|(_, value)| value.split(','));
    values.map(str::trim).filter(|value| !value.is_empty())
}

/// Resources, and the token of the next page.
struct Page {
    resources: Vec<Resource>,
    next: Option<String>,
}

/// Returns the page that the query asks for. It lists resources with ids that begin with `prefix`.
async fn page(call: &Call<'_>, collection: &str, prefix: &str) -> Result<Page, Rejection> {
    let size = page_size(call)?;
    let list = format!("{collection}/{prefix}");
    let token = call.query.first("pageToken").filter(|it| !it.is_empty());
    let after = match token {
        Some(token) => {
            let position = page_token::read(&list, token).and_then(|mut it| it.pop());
            Some(position.ok_or_else(refusals::page_token)?)
        }
        None => Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()),
    };
    let resources = call
        .lookup
        .resources(collection, after.as_deref(), size + 1);
    let resources = resources.await?;
    let mut resources: Vec<_> = resources
        .into_iter()
        .take_while(|resource| resource.id.starts_with(prefix))
        .collect();
    let more = resources.len() > size;
    resources.truncate(size);
    for resource in &resources {
        call.reply_memory.hold_row(&resource.body)?;
    }
    let continued = resources.last().filter(|_| more);
    Ok(Page {
        next: continued.map(|last| page_token::write(&list, [last.id.clone()])),
        resources,
    })
}

fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let Some(text) = call.query.first("maxResults") else {
        return Ok(DEFAULT_PAGE);
    };
    let size = text.parse::<usize>().ok();
    let size = size.filter(|size| (1..=MAX_PAGE).contains(size));
    let problem = || format!("must be between 1 and {MAX_PAGE}");
    size.ok_or_else(|| invalid_parameter("maxResults", problem()))
}

/// Returns the video of this id, which the call names at this place.
async fn video(call: &Call<'_>, id: &str, place: Place) -> Result<Resource, Rejection> {
    let video = call.lookup.resource(VIDEOS, id).await?;
    video.ok_or_else(|| refusals::video_not_found(id, place))
}

/// Returns a change of a video that only increments its version. It conflicts with a concurrent
/// deletion of the video.
fn touched(call: &Call<'_>, video: Resource) -> ResourceChange {
    let fields = fields_of(&video);
    replacing(record::next(call, video, &fields, None))
}

/// Returns the change that gives a video its thumbnails.
fn with_thumbnails(call: &Call<'_>, video: Resource, thumbnails: &Value) -> ResourceChange {
    let mut fields = fields_of(&video);
    fields.insert(THUMBNAIL.into(), thumbnails.clone());
    replacing(record::next(call, video, &fields, None))
}

/// Returns an id of 11 characters: 64 random bits.
fn fresh_id(call: &Call<'_>) -> String {
    let fresh = u128::from_str_radix(call.fresh_id, 16).unwrap_or_default();
    let [_, _, _, _, _, _, _, _, random @ ..] = fresh.to_be_bytes();
    URL_SAFE_NO_PAD.encode(random)
}

/// Returns the tracks of a video.
async fn caption_tracks(call: &Call<'_>, video: &str) -> Result<Vec<Resource>, Rejection> {
    let prefix = format!("{video}.");
    let tracks = call.lookup.resources(CAPTIONS, Some(&prefix), MAX_TRACKS);
    let tracks = tracks.await?.into_iter();
    Ok(tracks
        .take_while(|track| track.id.starts_with(&prefix))
        .collect())
}
