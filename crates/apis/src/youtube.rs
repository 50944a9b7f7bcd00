//! The data API of `YouTube`, version 3: videos up to 256 GB, with their thumbnails and captions,
//! and the images of a channel and of playlists.
//!
//! There is one channel. Nothing is transcoded, scaled or translated: media is served as it was
//! uploaded. The published description has no methods to read media, so they are added to it.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_discovery::Api;
use windlass_server::ServedApi;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_store::Resource;

use crate::augment::augmented;
use crate::record::{Fields, text};
use crate::{ApiProvider, description};

mod captions;
mod images;
mod resources;
mod videos;

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "youtube",
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
            "youtube.captions.insert" => captions::insert(call, needed(media)?).await,
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
            "youtube.videos.get" => ("video", resources::VIDEOS, in_path("id")),
            "youtube.thumbnails.get" => ("thumbnail", resources::THUMBNAILS, in_path("videoId")),
            "youtube.channelBanners.get" => ("banner", images::BANNERS, in_path("id")),
            "youtube.watermarks.get" => ("watermark", images::WATERMARKS, in_path("channelId")),
            "youtube.playlistImages.get" => {
                ("playlist image", images::PLAYLIST_IMAGES, in_path("id"))
            }
            "youtube.captions.download" => {
                captions::check_unconverted(call)?;
                ("caption track", resources::CAPTIONS, in_path("id"))
            }
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
        video
            .map(|id| format!("{}/{id}", resources::VIDEOS))
            .or(path)
    }
}

/// Returns an existing resource.
async fn found(
    call: &Call<'_>,
    what: &str,
    collection: &str,
    id: &str,
) -> Result<Resource, Rejection> {
    let found = call.lookup.resource(collection, id).await?;
    found.ok_or_else(|| Rejection::NotFound {
        what: what.to_owned(),
        id: id.to_owned(),
    })
}

/// Returns the media, which the method requires.
fn needed(media: Option<Uploaded>) -> Result<Uploaded, Rejection> {
    media.ok_or_else(|| Rejection::InvalidMedia {
        problem: "the call has no media; send it to the path of the method under /upload"
            .to_owned(),
    })
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

/// Returns an answer with these fields and without changes.
fn shown(body: Fields) -> Answer {
    Answer {
        changes: Vec::new(),
        body: Some(body.into()),
        ..Answer::default()
    }
}
