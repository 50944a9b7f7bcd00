//! Images: thumbnails of videos, banners and watermarks of channels.

use serde_json::json;
use windlass_server::handler::{Answer, Call, Rejection, Uploaded};
use windlass_store::{Media, Resource, ResourceChange};

use crate::image_header::{Format, ImageHeader, ImageHeaderError};
use crate::inspect::{inspect, invalid as invalid_media};
use crate::record::{self, Fields, etag, removing, replacing};

use super::{found, invalid_parameter, videos};

/// Where thumbnails live, by video.
pub(super) const THUMBNAILS: &str = "youtube/thumbnails";

/// Where banners live.
pub(super) const BANNERS: &str = "youtube/banners";

/// Where watermarks live, by channel.
pub(super) const WATERMARKS: &str = "youtube/watermarks";

/// The longest id of a channel that is taken. Those of the service have 24 characters.
const LONGEST_CHANNEL: usize = 100;

/// An image that was uploaded.
pub(super) struct Image {
    /// Its media, with the type that its bytes say.
    pub(super) media: Media,
    /// Its width in pixels.
    pub(super) width: u32,
    /// Its height in pixels.
    pub(super) height: u32,
}

impl Image {
    /// Looks at what was uploaded. Only PNG and JPEG are taken.
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

/// Whether there is a video to have a thumbnail.
pub(super) async fn admit_thumbnail(call: &Call<'_>) -> Result<(), Rejection> {
    videos::video(call, video_id(call)).await.map(drop)
}

/// Gives a video its thumbnail.
pub(super) async fn set_thumbnail(
    call: &Call<'_>,
    uploaded: Uploaded,
) -> Result<Answer, Rejection> {
    let video = videos::video(call, video_id(call)).await?;
    let image = Image::read(uploaded).await?;
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
    let of_video = videos::with_thumbnails(call, video, &thumbnails);
    Ok(Answer {
        changes: vec![thumbnail, of_video],
        body: body.as_object().cloned(),
    })
}

/// Keeps a banner.
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
        body: body.as_object().cloned(),
    })
}

/// Gives a channel its watermark.
pub(super) async fn set_watermark(
    call: &Call<'_>,
    uploaded: Uploaded,
) -> Result<Answer, Rejection> {
    let channel = channel_id(call)?;
    let image = Image::read(uploaded).await?;
    let watermark = put(call, WATERMARKS, channel, call.metadata, image.media).await?;
    Ok(Answer {
        changes: vec![watermark],
        body: None,
    })
}

/// Takes the watermark of a channel away.
pub(super) async fn unset_watermark(call: &Call<'_>) -> Result<Answer, Rejection> {
    let channel = channel_id(call)?;
    let watermark = found(call, "watermark of channel", WATERMARKS, channel).await?;
    Ok(Answer {
        changes: vec![removing(&watermark)],
        body: None,
    })
}

/// Where an image is served. The address is another one for each version, so that caches notice.
pub(super) fn url(call: &Call<'_>, collection: &str, image: &Resource) -> String {
    let (base, id, version) = (call.base_url, &image.id, image.version);
    format!("{base}/youtube/v3/{collection}/{id}?v={version}")
}

/// The change that makes an image, or replaces the one that is there.
pub(super) async fn put(
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

/// The image that a change puts.
pub(super) fn resource(change: &ResourceChange) -> &Resource {
    match change {
        ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. } => resource,
        ResourceChange::Delete { .. } => unreachable!("an image that is put is not deleted"),
    }
}

fn video_id<'a>(call: &Call<'a>) -> &'a str {
    call.query.first("videoId").unwrap_or_default()
}

fn channel_id<'a>(call: &Call<'a>) -> Result<&'a str, Rejection> {
    let channel = call.query.first("channelId").unwrap_or_default();
    let id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if (1..=LONGEST_CHANNEL).contains(&channel.len()) && channel.bytes().all(id_byte) {
        Ok(channel)
    } else {
        Err(invalid_parameter("channelId", "is not the id of a channel"))
    }
}
