//! Files made, changed and copied.

use windlass_server::handler::{Answer, Call, Rejection, Uploaded};
use windlass_store::{Media, Resource, ResourceChange};

use crate::record::{self, Fields, fields_of, replacing, rfc3339, text};

use super::file::{
    check_convertible, chosen_id, fresh_id, is_folder, media_type, media_type_of, own_fields,
    parent, patched, show,
};
use super::tree::{ROOT, Trash, changeable, check_place, rows};

/// The name of what has none.
const UNTITLED: &str = "Untitled";

/// A change of nothing but these is no modification of the file.
const QUIET_FIELDS: [&str; 3] = ["starred", "trashed", "viewedByMeTime"];

/// What a copy does not take over.
const NOT_COPIED: [&str; 5] = [
    "createdTime",
    "modifiedTime",
    "starred",
    "trashed",
    "viewedByMeTime",
];

/// Whether a file with media may be made.
pub(super) async fn admit_creation(call: &Call<'_>) -> Result<(), Rejection> {
    let fields = patched(Fields::new(), own_fields(call.metadata)?)?;
    check_convertible(text(&fields, "mimeType").unwrap_or_default())?;
    let id = free_id(call).await?;
    check_place(call, &id, &fields).await
}

/// Makes a file.
pub(super) async fn create(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let own = patched(Fields::new(), own_fields(call.metadata)?)?;
    insert(call, own, media.map(|uploaded| uploaded.media)).await
}

/// Makes a file of another one.
pub(super) async fn copy(call: &Call<'_>) -> Result<Answer, Rejection> {
    let source = changeable(call).await?;
    let mut own = fields_of(&source);
    if is_folder(&own) {
        return Err(Rejection::FailedPrecondition {
            problem: "folders cannot be copied".to_owned(),
        });
    }
    own.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
    let name = text(&own, "name").unwrap_or(UNTITLED);
    own.insert("name".into(), format!("Copy of {name}").into());
    let own = patched(own, own_fields(call.metadata)?)?;
    insert(call, own, source.media).await
}

async fn insert(
    call: &Call<'_>,
    mut fields: Fields,
    media: Option<Media>,
) -> Result<Answer, Rejection> {
    let id = free_id(call).await?;
    let media_type = media_type(&fields, media.as_ref())?;
    fields.insert("mimeType".into(), media_type.into());
    if text(&fields, "name").is_none_or(str::is_empty) {
        fields.insert("name".into(), UNTITLED.into());
    }
    settle(&mut fields);
    check_place(call, &id, &fields).await?;
    for name in ["createdTime", "modifiedTime"] {
        let now = || rfc3339(call.now).into();
        fields.entry(name).or_insert_with(now);
    }
    let file = record::new(call, super::tree::FILES, &id, &fields, media);
    let mut changes = rows(call, &id, None, Some(&fields));
    changes.push(ResourceChange::Insert(file.clone()));
    answer(call, &file, changes).await
}

/// The id that the client chose and nobody has, or a fresh one.
async fn free_id(call: &Call<'_>) -> Result<String, Rejection> {
    let Some(id) = chosen_id(call.metadata)? else {
        return Ok(fresh_id(call, 0));
    };
    match call.lookup.resource(super::tree::FILES, id).await? {
        None => Ok(id.to_owned()),
        Some(taken) => Err(Rejection::AlreadyExists {
            what: "file".to_owned(),
            id: taken.id,
        }),
    }
}

/// Whether a file may be given media.
pub(super) async fn admit_update(call: &Call<'_>) -> Result<(), Rejection> {
    let old = changeable(call).await?;
    let new = changed_fields(call, &fields_of(&old))?;
    check_convertible(text(&new, "mimeType").unwrap_or_default())?;
    check_place(call, &old.id, &new).await
}

/// Changes a file: its fields, its media, its folder.
pub(super) async fn update(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let old = changeable(call).await?;
    let media = media.map(|uploaded| uploaded.media);
    let before = fields_of(&old);
    let mut fields = changed_fields(call, &before)?;
    if let Some(media) = &media {
        let stated = call.metadata.get("mimeType").is_some();
        if let Some(media_type) = media_type_of(media).filter(|_| !stated) {
            fields.insert("mimeType".into(), media_type.into());
        }
        check_convertible(text(&fields, "mimeType").unwrap_or_default())?;
    }
    check_kind(&before, &fields)?;
    check_place(call, &old.id, &fields).await?;
    if media.is_some() || modifies(call.metadata) {
        let stated = call.metadata.contains_key("modifiedTime");
        let now = rfc3339(call.now).into();
        match fields.get_mut("modifiedTime") {
            Some(_) if stated => {}
            _ => drop(fields.insert("modifiedTime".into(), now)),
        }
    }
    let mut changes = rows(call, &old.id, Some(&before), Some(&fields));
    let file = record::next(call, old, &fields, media);
    changes.push(replacing(file.clone()));
    answer(call, &file, changes).await
}

/// The fields as the client wants them, with the folder that the query says.
fn changed_fields(call: &Call<'_>, before: &Fields) -> Result<Fields, Rejection> {
    let own = own_fields(call.metadata)?;
    if own.contains_key("parents") {
        let problem = "is changed by the parameters addParents and removeParents";
        return Err(Rejection::invalid_field("parents", problem));
    }
    let mut fields = patched(before.clone(), own)?;
    for name in ["name", "mimeType", "createdTime"] {
        // They can be changed, but not cleared.
        if let Some(kept) = before.get(name).filter(|_| !fields.contains_key(name)) {
            fields.insert(name.into(), kept.clone());
        }
    }
    let folder = moved(call, parent(before))?;
    fields.insert("parents".into(), [folder].into_iter().collect());
    Ok(fields)
}

/// The folder after a move.
fn moved(call: &Call<'_>, before: &str) -> Result<String, Rejection> {
    let listed = |name| {
        let ids = call.query.first(name).unwrap_or_default().split(',');
        ids.map(str::trim).filter(|id| !id.is_empty())
    };
    let stays = !listed("removeParents").any(|id| id == before);
    let mut folders: Vec<_> = listed("addParents").collect();
    if stays && !folders.contains(&before) {
        folders.push(before);
    }
    match folders[..] {
        [] => Ok(ROOT.to_owned()),
        [folder] => Ok(folder.to_owned()),
        _ => Err(Rejection::InvalidParameter {
            parameter: "addParents".to_owned(),
            problem: "a file is in one folder only; name the old one in removeParents".to_owned(),
        }),
    }
}

/// A folder stays a folder, and nothing else becomes one.
fn check_kind(before: &Fields, after: &Fields) -> Result<(), Rejection> {
    if is_folder(before) == is_folder(after) {
        Ok(())
    } else {
        Err(Rejection::invalid_field(
            "mimeType",
            "cannot be changed from or to a folder",
        ))
    }
}

fn modifies(metadata: &Fields) -> bool {
    let mut names = metadata.keys();
    names.any(|name| !QUIET_FIELDS.contains(&name.as_str()))
}

/// Writes out where the file is, so that every file says it.
fn settle(fields: &mut Fields) {
    let folder = parent(fields).to_owned();
    fields.insert("parents".into(), [folder].into_iter().collect());
}

/// The reply that shows a file.
pub(super) async fn answer(
    call: &Call<'_>,
    file: &Resource,
    changes: Vec<ResourceChange>,
) -> Result<Answer, Rejection> {
    let trashed = Trash::default().holds(call, &fields_of(file)).await?;
    Ok(Answer {
        changes,
        body: Some(show(call, file, trashed)),
    })
}
