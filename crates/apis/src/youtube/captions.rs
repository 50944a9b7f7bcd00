//! Captions: tracks of text that belong to videos.

use serde_json::Value;
use windlass_rest::handler::{Answer, Call, RefusalKind, Rejection, Uploaded};
use windlass_store::{Resource, ResourceChange};

use super::refusals::{self, Place};
use super::{
    CAPTIONS, MAX_TRACKS, Parts, caption_tracks, fresh_id, id_in_body, id_in_query, listed,
    missing, touched, video,
};
use crate::record::{self, Fields, etag, fields_of, removing, replacing, rfc3339, text};

/// Where a body names the video.
const VIDEO_ID: Place = Place::Field("body.snippet.videoId");

/// Maximum number of characters of the name of a track, as in the service.
const MAX_NAME_LEN: usize = 150;

/// Maximum number of characters of a language.
const MAX_LANGUAGE_LEN: usize = 35;

/// Checks whether a track may be uploaded for the video that the body names.
pub(super) async fn admit_insertion(call: &Call<'_>) -> Result<(), Rejection> {
    Parts::of(call, "Caption")?;
    let track = Track::in_body(call)?;
    video(call, track.video, VIDEO_ID).await?;
    track.check_free(&caption_tracks(call, track.video).await?)
}

/// `captions.insert`
pub(super) async fn insert(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let parts = Parts::of(call, "Caption")?;
    let track = Track::in_body(call)?;
    let video = video(call, track.video, VIDEO_ID).await?;
    let media = media.ok_or_else(content_required)?;
    track.check_free(&caption_tracks(call, track.video).await?)?;
    let id = format!("{}.{}", video.id, fresh_id(call));
    let caption = record::new(call, CAPTIONS, id, &track.fields(), Some(media.media));
    Ok(Answer {
        body: Some(parts.of_resource(show(&caption)).into()),
        changes: vec![ResourceChange::Insert(caption), touched(call, video)],
        ..Answer::default()
    })
}

/// Checks whether the track to be updated exists.
pub(super) async fn admit_update(call: &Call<'_>) -> Result<(), Rejection> {
    Parts::of(call, "Caption")?;
    caption(call, id_in_body(call)?).await.map(drop)
}

/// `captions.update`: changes the draft flag and the text.
pub(super) async fn update(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let parts = Parts::of(call, "Caption")?;
    let old = caption(call, id_in_body(call)?).await?;
    call.check_conditions(&etag(&old))?;
    let mut fields = fields_of(&old);
    let given = call.metadata.get("snippet");
    if let Some(draft) = given.and_then(|snippet| snippet.get("isDraft")) {
        if !draft.is_boolean() {
            return Err(Rejection::invalid_field(
                "snippet.isDraft",
                "must be true or false",
            ));
        }
        fields.insert("isDraft".into(), draft.clone());
    }
    let media = media.map(|uploaded| uploaded.media);
    let caption = record::next(call, old, &fields, media);
    Ok(Answer {
        body: Some(parts.of_resource(show(&caption)).into()),
        changes: vec![replacing(caption)],
        ..Answer::default()
    })
}

/// `captions.list`
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let parts = Parts::of(call, "Caption")?;
    let id = call.query.first("videoId").unwrap_or_default();
    let video = video(call, id, Place::Parameter("videoId")).await?;
    let wanted: Vec<_> = listed(call, "id").collect();
    let tracks = caption_tracks(call, &video.id).await?;
    let items: Vec<_> = tracks
        .iter()
        .filter(|track| wanted.is_empty() || wanted.contains(&track.id.as_str()))
        .map(|track| Value::Object(parts.of_resource(show(track))))
        .collect();
    let mut body = Fields::new();
    body.insert("kind".into(), "youtube#captionListResponse".into());
    body.insert("items".into(), items.into());
    Ok(Answer::of(body))
}

/// `captions.delete`
pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, Rejection> {
    let caption = caption(call, id_in_query(call)?).await?;
    call.check_conditions(&etag(&caption))?;
    Ok(Answer {
        changes: vec![removing(&caption)],
        body: None,
        ..Answer::default()
    })
}

/// Returns the track of this id.
pub(super) async fn caption(call: &Call<'_>, id: &str) -> Result<Resource, Rejection> {
    let track = call.lookup.resource(CAPTIONS, id).await?;
    track.ok_or_else(|| refusals::caption_not_found(id))
}

fn content_required() -> Rejection {
    let message = "The request does not contain the caption track contents: send them to the path \
                   of the method under /upload";
    refusals::caption(RefusalKind::Invalid, "contentRequired", message).into()
}

/// The properties of a new track.
struct Track<'a> {
    video: &'a str,
    language: &'a str,
    name: &'a str,
    is_draft: bool,
}

impl<'a> Track<'a> {
    fn in_body(call: &Call<'a>) -> Result<Self, Rejection> {
        let snippet = call.metadata.get("snippet").and_then(Value::as_object);
        let snippet = snippet.ok_or_else(|| missing("snippet"))?;
        let field =
            |name: &str| text(snippet, name).ok_or_else(|| missing(&format!("snippet.{name}")));
        let track = Self {
            video: field("videoId")?,
            language: field("language")?,
            name: field("name")?,
            is_draft: snippet
                .get("isDraft")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        };
        track.check()?;
        Ok(track)
    }

    fn check(&self) -> Result<(), Rejection> {
        let language_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_language = (1..=MAX_LANGUAGE_LEN).contains(&self.language.len())
            && self.language.bytes().all(language_byte);
        if !is_language {
            let problem = "a language is a tag such as en or pt-BR";
            let refusal = refusals::caption(RefusalKind::Invalid, "invalidMetadata", problem);
            return Err(refusal.at_field("body.snippet.language").into());
        }
        if self.name.chars().count() > MAX_NAME_LEN {
            let problem = format!("a name has at most {MAX_NAME_LEN} characters");
            let refusal = refusals::caption(RefusalKind::Invalid, "nameTooLong", problem);
            return Err(refusal.at_field("body.snippet.name").into());
        }
        Ok(())
    }

    /// Checks that the video has no track of this name and language.
    fn check_free(&self, tracks: &[Resource]) -> Result<(), Rejection> {
        if tracks.len() >= MAX_TRACKS {
            return Err(Rejection::FailedPrecondition {
                problem: format!("a video has at most {MAX_TRACKS} caption tracks"),
            });
        }
        let is_alike = |track: &&Resource| {
            let fields = fields_of(track);
            let field = |name| text(&fields, name);
            field("language") == Some(self.language) && field("name") == Some(self.name)
        };
        match tracks.iter().find(is_alike) {
            None => Ok(()),
            Some(taken) => {
                let problem = format!(
                    "The specified video already has a caption track with the given language and \
                     name: {}",
                    taken.id
                );
                Err(refusals::caption(RefusalKind::Exists, "captionExists", problem).into())
            }
        }
    }

    fn fields(&self) -> Fields {
        Fields::from_iter([
            ("videoId".to_owned(), self.video.into()),
            ("language".to_owned(), self.language.into()),
            ("name".to_owned(), self.name.into()),
            ("isDraft".to_owned(), self.is_draft.into()),
        ])
    }
}

fn show(caption: &Resource) -> Fields {
    let mut snippet = fields_of(caption);
    let mut set = |name: &str, value: Value| drop(snippet.insert(name.to_owned(), value));
    set("lastUpdated", rfc3339(caption.updated).into());
    set("trackKind", "standard".into());
    set("audioTrackType", "unknown".into());
    set("status", "serving".into());
    for name in ["isCC", "isLarge", "isEasyReader", "isAutoSynced"] {
        set(name, false.into());
    }
    Fields::from_iter([
        ("kind".to_owned(), "youtube#caption".into()),
        ("etag".to_owned(), etag(caption).into()),
        ("id".to_owned(), caption.id.as_str().into()),
        ("snippet".to_owned(), snippet.into()),
    ])
}
