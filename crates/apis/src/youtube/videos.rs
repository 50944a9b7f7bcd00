//! Methods on videos: their media, and the parts that clients write.

use serde_json::{Value, json};
use windlass_rest::handler::{Answer, Call, FETCHED_AT_ONCE, Rejection, Uploaded};
use windlass_store::{Resource, ResourceChange};

use super::refusals::{self, Place};
use super::{
    MAX_PAGE, Page, Parts, THUMBNAIL, THUMBNAILS, VIDEOS, caption_tracks, fresh_id, id_in_body,
    id_in_query, invalid_parameter, listed, page, video,
};
use crate::record::{self, Fields, etag, fields_of, removing, replacing, rfc3339};

/// Id of the only channel.
const CHANNEL: &str = "UC0000000000000000000000";

/// Parts that clients may write.
const WRITTEN: [&str; 5] = [
    "snippet",
    "status",
    "localizations",
    "recordingDetails",
    "paidProductPlacementDetails",
];

/// Maximum number of characters of a title, as in the service.
const MAX_TITLE_LEN: usize = 100;

/// Maximum number of bytes of a description, as in the service.
const MAX_DESCRIPTION_LEN: usize = 5000;

/// Maximum number of characters of all tags together, as in the service.
const MAX_TAGS_LEN: usize = 500;

/// Maximum number of bytes of all parts together, as JSON. Lists read many videos at a time.
const MAX_FIELDS: usize = 32 * 1024;

/// Values of `privacyStatus`.
const PRIVACY: [&str; 3] = ["private", "public", "unlisted"];

/// Processing stage of a video. Videos are not processed, so the reply to the upload shows the
/// first stage and all later replies the last.
#[derive(Clone, Copy)]
enum Stage {
    Uploaded,
    Processed,
}

/// Checks whether a video may be uploaded with these parts.
pub(super) fn admit(call: &Call<'_>) -> Result<(), Rejection> {
    let parts = Parts::of(call, "Video")?;
    written(call, &parts, Fields::new()).map(drop)
}

/// `videos.insert`
pub(super) fn insert(call: &Call<'_>, media: Uploaded) -> Result<Answer, Rejection> {
    let parts = Parts::of(call, "Video")?;
    let fields = written(call, &parts, Fields::new())?;
    let video = record::new(call, VIDEOS, fresh_id(call), &fields, Some(media.media));
    Ok(Answer {
        body: Some(parts.of_resource(show(&video, Stage::Uploaded)).into()),
        changes: vec![ResourceChange::Insert(video)],
        ..Answer::default()
    })
}

/// `videos.list`: by ids, or all videos.
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let parts = Parts::of(call, "Video")?;
    let page = match (call.query.first("chart"), call.query.first("id")) {
        (Some("mostPopular"), None) => page(call, VIDEOS, "").await?,
        (Some("mostPopular"), Some(_)) => {
            let problem = "the parameters chart and id exclude each other";
            return Err(refusals::incompatible("chart", problem));
        }
        (_, Some(_)) => by_ids(call).await?,
        (_, None) => return Err(refusals::no_filter("chart, id")),
    };
    let language = call.query.first("hl").filter(|it| !it.is_empty());
    let show = |video| {
        let mut shown = show(video, Stage::Processed);
        localize(&mut shown, language);
        parts.of_resource(shown)
    };
    let items: Vec<_> = page.resources.iter().map(show).map(Value::Object).collect();
    let mut body = Fields::new();
    body.insert("kind".into(), "youtube#videoListResponse".into());
    if let Some(next) = page.next {
        body.insert("nextPageToken".into(), next.into());
    }
    body.insert("items".into(), items.into());
    Ok(Answer::of(body))
}

/// Ids of videos that do not exist are ignored.
async fn by_ids(call: &Call<'_>) -> Result<Page, Rejection> {
    if call
        .query
        .first("pageToken")
        .is_some_and(|it| !it.is_empty())
    {
        return Err(refusals::page_token());
    }
    let ids: Vec<_> = listed(call, "id").collect();
    if ids.is_empty() || ids.len() > MAX_PAGE {
        let problem = format!("1 to {MAX_PAGE} ids are required, or chart=mostPopular");
        return Err(invalid_parameter("id", problem));
    }
    let mut resources = Vec::new();
    for ids in ids.chunks(FETCHED_AT_ONCE) {
        for video in call.lookup.fetch(VIDEOS, ids).await?.into_iter().flatten() {
            call.reply_memory.hold_row(&video.body)?;
            resources.push(video);
        }
    }
    let next = None;
    Ok(Page { resources, next })
}

/// `videos.update`: replaces the parts that the call names.
pub(super) async fn update(call: &Call<'_>) -> Result<Answer, Rejection> {
    let parts = Parts::of(call, "Video")?;
    let old = video(call, id_in_body(call)?, Place::Field("body.id")).await?;
    call.check_conditions(&etag(&old))?;
    if parts.has("snippet") && title(call.metadata).is_none() {
        return Err(refused_snippet("title"));
    }
    let fields = written(call, &parts, fields_of(&old))?;
    let video = record::next(call, old, &fields, None);
    Ok(Answer {
        body: Some(parts.of_resource(show(&video, Stage::Processed)).into()),
        changes: vec![replacing(video)],
        ..Answer::default()
    })
}

/// `videos.delete`: with its thumbnail and caption tracks.
pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, Rejection> {
    let video = video(call, id_in_query(call)?, Place::Parameter("id")).await?;
    call.check_conditions(&etag(&video))?;
    let mut changes = vec![removing(&video)];
    let thumbnail = call.lookup.resource(THUMBNAILS, &video.id).await?;
    changes.extend(thumbnail.iter().map(removing));
    let tracks = caption_tracks(call, &video.id).await?;
    changes.extend(tracks.iter().map(removing));
    let body = None;
    Ok(Answer {
        changes,
        body,
        ..Answer::default()
    })
}

/// Returns the fields with the parts that the call names replaced.
fn written(call: &Call<'_>, parts: &Parts<'_>, mut fields: Fields) -> Result<Fields, Rejection> {
    for part in WRITTEN.into_iter().filter(|part| parts.has(part)) {
        match call.metadata.get(part) {
            None | Some(Value::Null) => drop(fields.shift_remove(part)),
            Some(Value::Object(given)) => drop(fields.insert(part.into(), given.clone().into())),
            Some(_) => return Err(Rejection::invalid_field(part, "must be an object")),
        }
    }
    check_snippet(fields.get("snippet"))?;
    check_status(fields.get("status"))?;
    let length = Value::Object(fields.clone()).to_string().len();
    if length > MAX_FIELDS {
        let problem = format!("all parts together take at most {MAX_FIELDS} bytes");
        return Err(Rejection::invalid_field("snippet", problem));
    }
    Ok(fields)
}

fn title(fields: &Fields) -> Option<&str> {
    fields.get("snippet")?.get("title")?.as_str()
}

fn check_snippet(snippet: Option<&Value>) -> Result<(), Rejection> {
    let Some(Value::Object(snippet)) = snippet else {
        return Ok(());
    };
    let is_plain = |text: &str| !text.contains(['<', '>']);
    for (name, value) in snippet {
        let fits = match name.as_str() {
            "title" => value.as_str().is_some_and(|title| {
                (1..=MAX_TITLE_LEN).contains(&title.chars().count()) && is_plain(title)
            }),
            "description" => value
                .as_str()
                .is_some_and(|text| text.len() <= MAX_DESCRIPTION_LEN && is_plain(text)),
            "tags" => {
                let tags = value.as_array();
                tags.is_some_and(|tags| length_of(tags).is_some_and(|sum| sum <= MAX_TAGS_LEN))
            }
            "categoryId" | "defaultLanguage" | "defaultAudioLanguage" => value.is_string(),
            _ => true,
        };
        if !fits {
            return Err(refused_snippet(name));
        }
    }
    Ok(())
}

/// Returns the number of characters of tags as the service counts them, with a comma between two of
/// them and quotation marks around one with a blank; `None` if one is no text.
fn length_of(tags: &[Value]) -> Option<usize> {
    let lengths = tags.iter().map(|tag| {
        let tag = tag.as_str()?;
        let marks = if tag.contains(' ') { 2 } else { 0 };
        Some(tag.chars().count() + marks)
    });
    let sum = lengths.sum::<Option<usize>>()?;
    Some(sum + tags.len().saturating_sub(1))
}

fn refused_snippet(name: &str) -> Rejection {
    let field = |reason, path, problem: String| refusals::video_field(reason, path, problem);
    match name {
        "title" => {
            let problem = format!(
                "The request metadata specifies an invalid or empty video title: it must have 1 to \
                 {MAX_TITLE_LEN} characters, and no < and >"
            );
            field("invalidTitle", "body.snippet.title", problem)
        }
        "description" => {
            let problem = format!(
                "The request metadata specifies an invalid video description: it must have at most \
                 {MAX_DESCRIPTION_LEN} bytes, and no < and >"
            );
            field("invalidDescription", "body.snippet.description", problem)
        }
        "tags" => {
            let problem = format!(
                "The request metadata specifies invalid video keywords: they must be strings of at \
                 most {MAX_TAGS_LEN} characters together, with a comma between two of them and \
                 quotation marks around one with a blank"
            );
            field("invalidTags", "body.snippet.tags", problem)
        }
        "categoryId" => {
            let problem = "The snippet.categoryId property specifies an invalid category ID.";
            field(
                "invalidCategoryId",
                "body.snippet.categoryId",
                problem.into(),
            )
        }
        _ => {
            let problem = "The request metadata is invalid: a language must be a string";
            field("invalidVideoMetadata", "body.snippet", problem.into())
        }
    }
}

fn check_status(status: Option<&Value>) -> Result<(), Rejection> {
    let Some(privacy) = status.and_then(|status| status.get("privacyStatus")) else {
        return Ok(());
    };
    if privacy.as_str().is_some_and(|it| PRIVACY.contains(&it)) {
        return Ok(());
    }
    let problem = format!(
        "The request metadata is invalid: privacyStatus must be one of {}",
        PRIVACY.join(", ")
    );
    let path = "body.status.privacyStatus";
    Err(refusals::video_field("invalidVideoMetadata", path, problem))
}

/// Returns the video with all its parts.
fn show(video: &Resource, stage: Stage) -> Fields {
    let mut fields = fields_of(video);
    let thumbnails = fields.shift_remove(THUMBNAIL).unwrap_or_else(|| json!({}));
    let mut shown = Fields::new();
    shown.insert("kind".into(), "youtube#video".into());
    shown.insert("etag".into(), etag(video).into());
    shown.insert("id".into(), video.id.as_str().into());
    let has_thumbnail = thumbnails.get("default").is_some();
    let snippet = snippet(video, fields.shift_remove("snippet"), thumbnails);
    shown.insert("snippet".into(), snippet.into());
    let status = status(stage, fields.shift_remove("status"));
    shown.insert("status".into(), status.into());
    let content = json!({"hasCustomThumbnail": has_thumbnail, "licensedContent": false});
    shown.insert("contentDetails".into(), content);
    shown.insert("fileDetails".into(), file_details(video));
    let processing = match stage {
        Stage::Uploaded => "processing",
        Stage::Processed => "succeeded",
    };
    let processing =
        json!({"processingStatus": processing, "fileDetailsAvailability": "available"});
    shown.insert("processingDetails".into(), processing);
    shown.extend(fields);
    shown
}

fn snippet(video: &Resource, given: Option<Value>, thumbnails: Value) -> Fields {
    let mut snippet = object(given);
    let mut set = |name: &str, value: Value| drop(snippet.insert(name.to_owned(), value));
    set("publishedAt", rfc3339(video.created).into());
    set("channelId", CHANNEL.into());
    set("channelTitle", "Owner".into());
    set("liveBroadcastContent", "none".into());
    set("thumbnails", thumbnails);
    snippet.entry("title").or_insert_with(|| "unknown".into());
    snippet.entry("description").or_insert_with(|| "".into());
    snippet.entry("categoryId").or_insert_with(|| "22".into());
    let localized = ["title", "description"].map(|name| (name.to_owned(), snippet[name].clone()));
    snippet.insert(
        "localized".into(),
        Value::Object(localized.into_iter().collect()),
    );
    snippet
}

/// Shows title and description in a language, if the video has them.
fn localize(shown: &mut Fields, language: Option<&str>) {
    let localizations = shown.get("localizations");
    let text = language.and_then(|language| localizations?.get(language));
    let Some(text @ Value::Object(_)) = text.cloned() else {
        return;
    };
    if let Some(Value::Object(snippet)) = shown.get_mut("snippet") {
        snippet.insert("localized".into(), text);
    }
}

fn status(stage: Stage, given: Option<Value>) -> Fields {
    let mut status = object(given);
    let upload_status = match stage {
        Stage::Uploaded => "uploaded",
        Stage::Processed => "processed",
    };
    status.insert("uploadStatus".into(), upload_status.into());
    status
        .entry("privacyStatus")
        .or_insert_with(|| "public".into());
    status.entry("license").or_insert_with(|| "youtube".into());
    status.entry("embeddable").or_insert(true.into());
    status.entry("publicStatsViewable").or_insert(true.into());
    status
}

fn file_details(video: &Resource) -> Value {
    let length = video.media.as_ref().map_or(0, |media| media.length);
    json!({"fileSize": length.to_string(), "fileType": "video"})
}

fn object(value: Option<Value>) -> Fields {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => Fields::new(),
    }
}
