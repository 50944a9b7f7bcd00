//! Images of playlists: one for each playlist and type.

use serde_json::{Value, json};
use windlass_server::handler::{Answer, Call, Rejection, Uploaded};
use windlass_store::Resource;

use crate::record::{self, Fields, fields_of, removing, replacing, text};

use super::images::{Image, put, resource};
use super::page::page;
use super::parts::Parts;
use super::{found, id_in_query, missing};

/// Where they live. The id is that of the playlist, a dot, and the type.
pub(super) const PLAYLIST_IMAGES: &str = "youtube/playlistImages";

/// The type where none is given.
const DEFAULT_TYPE: &str = "hero";

/// The longest id of a playlist that is taken. Those of the service have 34 characters.
const LONGEST_NAME: usize = 100;

/// Whether the body says which image it is.
pub(super) fn admit_insertion(call: &Call<'_>) -> Result<(), Rejection> {
    Name::in_body(call).map(drop)
}

/// Gives a playlist an image, in the place of the one that it has.
pub(super) async fn insert(call: &Call<'_>, uploaded: Uploaded) -> Result<Answer, Rejection> {
    let name = Name::in_body(call)?;
    let image = Image::read(uploaded).await?;
    let fields = name.fields(&image);
    let change = put(call, PLAYLIST_IMAGES, &name.id(), &fields, image.media).await?;
    Ok(Answer {
        body: Some(show(call, resource(&change))?),
        changes: vec![change],
    })
}

/// Whether there is one to be replaced.
pub(super) async fn admit_update(call: &Call<'_>) -> Result<(), Rejection> {
    let name = Name::in_body(call)?;
    name.found(call).await.map(drop)
}

/// Replaces the image of a playlist, if there is a new one.
pub(super) async fn update(
    call: &Call<'_>,
    uploaded: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let name = Name::in_body(call)?;
    let old = name.found(call).await?;
    let (fields, media) = if let Some(uploaded) = uploaded {
        let image = Image::read(uploaded).await?;
        (name.fields(&image), Some(image.media))
    } else {
        (fields_of(&old), None)
    };
    let resource = record::next(call, old, &fields, media);
    Ok(Answer {
        body: Some(show(call, &resource)?),
        changes: vec![replacing(resource)],
    })
}

/// Shows the images of a playlist, or of all.
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let parent = call.query.first("parent").filter(|it| !it.is_empty());
    let prefix = parent
        .map(|parent| format!("{parent}."))
        .unwrap_or_default();
    let page = page(call, PLAYLIST_IMAGES, &prefix).await?;
    let items = page
        .resources
        .iter()
        .map(|image| show(call, image).map(Value::Object));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let mut body = Fields::new();
    body.insert("kind".into(), "youtube#playlistImageListResponse".into());
    if let Some(next) = page.next {
        body.insert("nextPageToken".into(), next.into());
    }
    body.insert("items".into(), items.into());
    Ok(super::shown(body))
}

/// Deletes an image.
pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, Rejection> {
    let image = found(call, "playlist image", PLAYLIST_IMAGES, id_in_query(call)?).await?;
    Ok(Answer {
        changes: vec![removing(&image)],
        body: None,
    })
}

/// Which image of which playlist.
struct Name<'a> {
    playlist: &'a str,
    image_type: &'a str,
}

impl<'a> Name<'a> {
    fn in_body(call: &Call<'a>) -> Result<Self, Rejection> {
        let snippet = call.metadata.get("snippet").and_then(Value::as_object);
        let snippet = snippet.ok_or_else(|| missing("snippet"))?;
        let playlist = text(snippet, "playlistId").ok_or_else(|| missing("snippet.playlistId"))?;
        let image_type = text(snippet, "type").unwrap_or(DEFAULT_TYPE);
        for (field, name) in [("playlistId", playlist), ("type", image_type)] {
            let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(name_byte) {
                let problem = format!("must have 1 to {LONGEST_NAME} letters, digits, - and _");
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

fn show(call: &Call<'_>, image: &Resource) -> Result<Fields, Rejection> {
    let parts = Parts::of(call, "PlaylistImage")?;
    let mut shown = Fields::new();
    shown.insert("kind".into(), "youtube#playlistImage".into());
    shown.insert("id".into(), image.id.as_str().into());
    shown.extend(fields_of(image));
    // The parameter may be absent here, unlike elsewhere: then all is shown.
    Ok(if parts.is_empty() {
        shown
    } else {
        parts.of_resource(shown)
    })
}
