//! Shared by the methods of all resources: the `part` parameter, pages of lists, and the rows of
//! videos with their thumbnails and caption tracks.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use windlass_server::handler::{Call, Rejection};
use windlass_store::{Resource, ResourceChange};

use super::{found, invalid_parameter};
use crate::record::{self, Fields, fields_of, replacing};

/// Number of resources of a page by default.
const DEFAULT_PAGE: usize = 5;

/// Maximum number of resources of a page.
pub(super) const LARGEST_PAGE: usize = 50;

/// Collection of the videos.
pub(super) const VIDEOS: &str = "youtube/videos";

/// Field of a video's row with its thumbnails. Replies show it in the snippet.
pub(super) const THUMBNAIL: &str = "thumbnail";

/// Collection of the thumbnails, by video.
pub(super) const THUMBNAILS: &str = "youtube/thumbnails";

/// Collection of the caption tracks. An id is that of the video, a dot, and one of the track's own.
pub(super) const CAPTIONS: &str = "youtube/captions";

/// Maximum number of tracks of a video.
pub(super) const MOST_TRACKS: usize = 1000;

/// The parts of a resource that a call names.
#[derive(Debug)]
pub(super) struct Parts<'a>(Vec<&'a str>);

impl<'a> Parts<'a> {
    /// Reads the parts of the query. Each must be a field of the schema.
    pub(super) fn of(call: &Call<'a>, schema: &str) -> Result<Self, Rejection> {
        let parts: Vec<_> = listed(call, "part").collect();
        let schema = call.api.schema(schema);
        let is_known = |part: &&str| schema.is_none_or(|schema| schema.property(part).is_some());
        match parts.iter().find(|part| !is_known(part)) {
            Some(unknown) => {
                let problem = format!("{unknown} is not a part of it");
                Err(invalid_parameter("part", problem))
            }
            None => Ok(Self(parts)),
        }
    }

    /// Returns whether no part is named.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this part is named.
    pub(super) fn has(&self, part: &str) -> bool {
        self.0.contains(&part)
    }

    /// Removes the fields that are not named, except those that identify the resource.
    pub(super) fn of_resource(&self, mut resource: Fields) -> Fields {
        let always = ["kind", "etag", "id"];
        resource.retain(|name, _| always.contains(&name.as_str()) || self.has(name));
        resource
    }
}

/// Returns the values of a parameter, which may be repeated and may have lists with commas.
pub(super) fn listed<'a>(call: &Call<'a>, name: &'static str) -> impl Iterator<Item = &'a str> {
    let values = call.query.iter().filter(move |(key, _)| *key == name);
    let values = values.flat_map(|(_, value)| value.split(','));
    values.map(str::trim).filter(|value| !value.is_empty())
}

/// Resources, and the token of the next page.
pub(super) struct Page {
    pub(super) resources: Vec<Resource>,
    pub(super) next: Option<String>,
}

/// Returns the page that the query asks for, of the resources whose ids begin with `prefix`.
pub(super) async fn page(
    call: &Call<'_>,
    collection: &str,
    prefix: &str,
) -> Result<Page, Rejection> {
    let size = page_size(call)?;
    let token = call.query.first("pageToken").filter(|it| !it.is_empty());
    let after = token.or(Some(prefix).filter(|prefix| !prefix.is_empty()));
    let resources = call.lookup.resources(collection, after, size + 1).await?;
    let mut resources: Vec<_> = resources
        .into_iter()
        .take_while(|resource| resource.id.starts_with(prefix))
        .collect();
    let more = resources.len() > size;
    resources.truncate(size);
    for resource in &resources {
        call.reply_memory.hold_row(&resource.body)?;
    }
    let last = resources.last().filter(|_| more);
    Ok(Page {
        next: last.map(|last| last.id.clone()),
        resources,
    })
}

fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let Some(text) = call.query.first("maxResults") else {
        return Ok(DEFAULT_PAGE);
    };
    let size = text.parse::<usize>().ok();
    let size = size.filter(|size| (1..=LARGEST_PAGE).contains(size));
    let problem = || format!("must be between 1 and {LARGEST_PAGE}");
    size.ok_or_else(|| invalid_parameter("maxResults", problem()))
}

/// Returns the video of this id.
pub(super) async fn video(call: &Call<'_>, id: &str) -> Result<Resource, Rejection> {
    found(call, "video", VIDEOS, id).await
}

/// Returns a change of a video that only increments its version. It conflicts with a concurrent
/// deletion of the video.
pub(super) fn touched(call: &Call<'_>, video: Resource) -> ResourceChange {
    let fields = fields_of(&video);
    replacing(record::next(call, video, &fields, None))
}

/// Returns the change that gives a video its thumbnails.
pub(super) fn with_thumbnails(
    call: &Call<'_>,
    video: Resource,
    thumbnails: &Value,
) -> ResourceChange {
    let mut fields = fields_of(&video);
    fields.insert(THUMBNAIL.into(), thumbnails.clone());
    replacing(record::next(call, video, &fields, None))
}

/// Returns an id of 11 characters: 64 random bits.
pub(super) fn fresh_id(call: &Call<'_>) -> String {
    let fresh = u128::from_str_radix(call.fresh_id, 16).unwrap_or_default();
    let [_, _, _, _, _, _, _, _, random @ ..] = fresh.to_be_bytes();
    URL_SAFE_NO_PAD.encode(random)
}

/// Returns the tracks of a video.
pub(super) async fn caption_tracks(
    call: &Call<'_>,
    video: &str,
) -> Result<Vec<Resource>, Rejection> {
    let prefix = format!("{video}.");
    let tracks = call.lookup.resources(CAPTIONS, Some(&prefix), MOST_TRACKS);
    let tracks = tracks.await?.into_iter();
    Ok(tracks
        .take_while(|track| track.id.starts_with(&prefix))
        .collect())
}
