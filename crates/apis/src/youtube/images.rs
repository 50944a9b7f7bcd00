//! Images: thumbnails of videos, the banner and the watermark of a channel, images of playlists.

use serde_json::{Value, json};
use windlass_rest::handler::{Answer, Call, Rejection, Uploaded};
use windlass_store::{Media, Resource, ResourceChange};

use super::refusals::{self, Place};
use super::{Parts, THUMBNAILS, id_in_query, invalid_parameter, missing, page, with_thumbnails};
use crate::inspect::{Format, ImageHeader, ImageHeaderError, inspect, invalid as invalid_media};
use crate::record::{self, Fields, etag, fields_of, found, removing, replacing, text};

/// Collection of the banners.
pub(super) const BANNERS: &str = "youtube/banners";

/// Collection of the watermarks, by channel.
pub(super) const WATERMARKS: &str = "youtube/watermarks";

/// Maximum length of the id of a channel. The service's ids have 24 characters.
const MAX_CHANNEL_LEN: usize = 100;

/// Collection of the playlist images. An id is the playlist's id, a dot, and the type.
pub(super) const PLAYLIST_IMAGES: &str = "youtube/playlistImages";

/// Default type.
const DEFAULT_TYPE: &str = "hero";

/// Maximum length of the id of a playlist. The service's ids have 34 characters.
const MAX_NAME_LEN: usize = 100;

/// An uploaded image.
pub(super) struct Image {
    /// Media, with the type that its bytes have.
    pub(super) media: Media,
    /// Width in pixels.
    pub(super) width: u32,
    /// Height in pixels.
    pub(super) height: u32,
}

impl Image {
    /// Inspects uploaded media. Only PNG and JPEG are accepted.
    pub(super) async fn read(uploaded: Uploaded) -> Result<Self, Rejection> {
        let read = |mut media| {
            ImageHeader::read(&mut media).map_err(|error| match error {
                ImageHeaderError::Io(error) => crate::inspect::refusal(error),
                error => invalid_media(error.to_string()),
            })
        };
        let image_header = inspect(&uploaded.source, read).await?;
        if image_header.format == Format::Gif {
            return Err(invalid_media("it is not a PNG or JPEG image"));
        }
        let content_type = image_header.format.media_type().to_owned();
        Ok(Self {
            media: Media {
                content_type,
                ..uploaded.media
            },
            width: image_header.width,
            height: image_header.height,
        })
    }
}

/// Checks whether the video for a thumbnail exists.
pub(super) async fn admit_thumbnail(call: &Call<'_>) -> Result<(), Rejection> {
    video(call).await.map(drop)
}

/// `thumbnails.set`
pub(super) async fn set_thumbnail(
    call: &Call<'_>,
    uploaded: Uploaded,
) -> Result<Answer, Rejection> {
    let video = video(call).await?;
    let image = Image::read(uploaded).await;
    let image = image.map_err(|error| refusals::of_image("invalidImage", error))?;
    let (width, height) = (image.width, image.height);
    let thumbnail = put(call, THUMBNAILS, &video.id, &Fields::new(), image.media).await?;
    let url = url(call, "thumbnails", resource(&thumbnail));
    let one = json!({"url": url, "width": width, "height": height});
    // Nothing is scaled: every name leads to the same image.
    let thumbnails = json!({"default": one, "medium": one, "high": one});
    let body = json!({
        "kind": "youtube#thumbnailSetResponse",
        "etag": etag(resource(&thumbnail)),
        "items": [thumbnails],
    });
    let of_video = with_thumbnails(call, video, &thumbnails);
    Ok(Answer {
        changes: vec![thumbnail, of_video],
        body: body.as_object().cloned().map(Into::into),
        ..Answer::default()
    })
}

/// `channelBanners.insert`
pub(super) async fn insert_banner(
    call: &Call<'_>,
    uploaded: Uploaded,
) -> Result<Answer, Rejection> {
    let image = Image::read(uploaded).await?;
    let media = Some(image.media);
    let banner = record::new(call, BANNERS, call.fresh_id, &Fields::new(), media);
    let body = json!({
        "kind": "youtube#channelBannerResource",
        "etag": etag(&banner),
        "url": url(call, "channelBanners", &banner),
    });
    Ok(Answer {
        changes: vec![ResourceChange::Insert(banner)],
        body: body.as_object().cloned().map(Into::into),
        ..Answer::default()
    })
}

/// `watermarks.set`
pub(super) async fn set_watermark(
    call: &Call<'_>,
    uploaded: Uploaded,
) -> Result<Answer, Rejection> {
    let channel = channel_id(call)?;
    let image = Image::read(uploaded).await;
    let image = image.map_err(|error| refusals::of_image("imageFormatUnsupported", error))?;
    let watermark = put(call, WATERMARKS, channel, call.metadata, image.media).await?;
    Ok(Answer {
        changes: vec![watermark],
        body: None,
        ..Answer::default()
    })
}

/// `watermarks.unset`
pub(super) async fn unset_watermark(call: &Call<'_>) -> Result<Answer, Rejection> {
    let channel = channel_id(call)?;
    let watermark = found(call, "watermark of channel", WATERMARKS, channel).await?;
    Ok(Answer {
        changes: vec![removing(&watermark)],
        body: None,
        ..Answer::default()
    })
}

/// Returns the URL of an image. Each version has a different one, so that caches do not serve an
/// old version.
fn url(call: &Call<'_>, collection: &str, image: &Resource) -> String {
    let (base, id, version) = (call.base_url, &image.id, image.version);
    format!("{base}/youtube/v3/{collection}/{id}?v={version}")
}

/// Returns the change that inserts or replaces an image.
async fn put(
    call: &Call<'_>,
    collection: &str,
    id: &str,
    fields: &Fields,
    media: Media,
) -> Result<ResourceChange, Rejection> {
    let old = call.lookup.resource(collection, id).await?;
    Ok(match old {
        Some(old) => replacing(record::next(call, old, fields, Some(media))),
        None => ResourceChange::Insert(record::new(call, collection, id, fields, Some(media))),
    })
}

/// Returns the image that a change writes.
pub(super) fn resource(change: &ResourceChange) -> &Resource {
    match change {
        ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. } => resource,
        ResourceChange::Delete { .. } => unreachable!("an image that is put is not deleted"),
    }
}

async fn video(call: &Call<'_>) -> Result<Resource, Rejection> {
    let id = call.query.first("videoId").unwrap_or_default();
    super::video(call, id, Place::Parameter("videoId")).await
}

fn channel_id<'a>(call: &Call<'a>) -> Result<&'a str, Rejection> {
    let channel = call.query.first("channelId").unwrap_or_default();
    let id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if (1..=MAX_CHANNEL_LEN).contains(&channel.len()) && channel.bytes().all(id_byte) {
        Ok(channel)
    } else {
        Err(invalid_parameter("channelId", "is not the id of a channel"))
    }
}

/// Checks whether the body names a playlist and a type.
pub(super) fn admit_playlist_insertion(call: &Call<'_>) -> Result<(), Rejection> {
    PlaylistImageName::in_body(call).map(drop)
}

/// `playlistImages.insert`: replaces the image that the playlist has of this type.
pub(super) async fn insert_playlist_image(
    call: &Call<'_>,
    uploaded: Uploaded,
) -> Result<Answer, Rejection> {
    let name = PlaylistImageName::in_body(call)?;
    let image = Image::read(uploaded).await?;
    let fields = name.fields(&image);
    let change = put(call, PLAYLIST_IMAGES, &name.id(), &fields, image.media).await?;
    Ok(Answer {
        body: Some(show_playlist_image(call, resource(&change))?.into()),
        changes: vec![change],
        ..Answer::default()
    })
}

/// Checks whether the image to be replaced exists.
pub(super) async fn admit_playlist_update(call: &Call<'_>) -> Result<(), Rejection> {
    let name = PlaylistImageName::in_body(call)?;
    name.found(call).await.map(drop)
}

/// `playlistImages.update`
pub(super) async fn update_playlist_image(
    call: &Call<'_>,
    uploaded: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let name = PlaylistImageName::in_body(call)?;
    let old = name.found(call).await?;
    let (fields, media) = if let Some(uploaded) = uploaded {
        let image = Image::read(uploaded).await?;
        (name.fields(&image), Some(image.media))
    } else {
        (fields_of(&old), None)
    };
    let resource = record::next(call, old, &fields, media);
    Ok(Answer {
        body: Some(show_playlist_image(call, &resource)?.into()),
        changes: vec![replacing(resource)],
        ..Answer::default()
    })
}

/// `playlistImages.list`
pub(super) async fn list_playlist_images(call: &Call<'_>) -> Result<Answer, Rejection> {
    let parent = call.query.first("parent").filter(|it| !it.is_empty());
    let prefix = parent
        .map(|parent| format!("{parent}."))
        .unwrap_or_default();
    let page = page(call, PLAYLIST_IMAGES, &prefix).await?;
    let items = page
        .resources
        .iter()
        .map(|image| show_playlist_image(call, image).map(Value::Object));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let mut body = Fields::new();
    body.insert("kind".into(), "youtube#playlistImageListResponse".into());
    if let Some(next) = page.next {
        body.insert("nextPageToken".into(), next.into());
    }
    body.insert("items".into(), items.into());
    Ok(Answer::of(body))
}

/// `playlistImages.delete`
pub(super) async fn delete_playlist_image(call: &Call<'_>) -> Result<Answer, Rejection> {
    let image = found(call, "playlist image", PLAYLIST_IMAGES, id_in_query(call)?).await?;
    Ok(Answer {
        changes: vec![removing(&image)],
        body: None,
        ..Answer::default()
    })
}

/// The playlist and the type of an image, which identify it.
struct PlaylistImageName<'a> {
    playlist: &'a str,
    image_type: &'a str,
}

impl<'a> PlaylistImageName<'a> {
    fn in_body(call: &Call<'a>) -> Result<Self, Rejection> {
        let snippet = call.metadata.get("snippet").and_then(Value::as_object);
        let snippet = snippet.ok_or_else(|| missing("snippet"))?;
        let playlist = text(snippet, "playlistId").ok_or_else(|| missing("snippet.playlistId"))?;
        let image_type = text(snippet, "type").unwrap_or(DEFAULT_TYPE);
        for (field, name) in [("playlistId", playlist), ("type", image_type)] {
            let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty() || name.len() > MAX_NAME_LEN || !name.bytes().all(name_byte) {
                let problem = format!("must have 1 to {MAX_NAME_LEN} letters, digits, - and _");
                return Err(Rejection::invalid_field(
                    format!("snippet.{field}"),
                    problem,
                ));
            }
        }
        Ok(Self {
            playlist,
            image_type,
        })
    }

    fn id(&self) -> String {
        format!("{}.{}", self.playlist, self.image_type)
    }

    async fn found(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        found(call, "playlist image", PLAYLIST_IMAGES, &self.id()).await
    }

    fn fields(&self, image: &Image) -> Fields {
        let snippet = json!({
            "playlistId": self.playlist,
            "type": self.image_type,
            "width": image.width,
            "height": image.height,
        });
        Fields::from_iter([("snippet".to_owned(), snippet)])
    }
}

fn show_playlist_image(call: &Call<'_>, image: &Resource) -> Result<Fields, Rejection> {
    let parts = Parts::of(call, "PlaylistImage")?;
    let mut shown = Fields::new();
    shown.insert("kind".into(), "youtube#playlistImage".into());
    shown.insert("id".into(), image.id.as_str().into());
    shown.extend(fields_of(image));
    // Unlike for other resources, `part` is optional here; without it all parts are shown.
    Ok(if parts.is_empty() {
        shown
    } else {
        parts.of_resource(shown)
    })
}
