//! Methods that create, change and copy files.

use windlass_rest::handler::{Answer, Call, Rejection, Uploaded};
use windlass_store::{Media, Resource, ResourceChange};

use super::file::{
    ROOT, check_convertible, chosen_id, fresh_id, is_folder, media_type, media_type_of, own_fields,
    parent, patched, show,
};
use super::refusals;
use super::tree::{FILES, Trash, changeable, check_parent, rows};
use crate::record::{self, Fields, fields_of, replacing, rfc3339, text};

/// Name of a file without one.
const UNTITLED: &str = "Untitled";

/// Fields that do not update `modifiedTime` when they change.
const UNMODIFYING_FIELDS: [&str; 3] = ["starred", "trashed", "viewedByMeTime"];

/// Fields that are not copied.
const NOT_COPIED: [&str; 5] = [
    "createdTime",
    "modifiedTime",
    "starred",
    "trashed",
    "viewedByMeTime",
];

/// Checks whether a file with media may be created.
pub(super) async fn admit_creation(call: &Call<'_>) -> Result<(), Rejection> {
    let fields = patched(Fields::new(), own_fields(call.metadata)?)?;
    check_convertible(text(&fields, "mimeType").unwrap_or_default())?;
    let id = free_id(call).await?;
    check_parent(call, &id, None, &fields).await.map(drop)
}

/// `files.create`
pub(super) async fn create(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let own = patched(Fields::new(), own_fields(call.metadata)?)?;
    insert(call, own, media.map(|uploaded| uploaded.media)).await
}

/// `files.copy`
pub(super) async fn copy(call: &Call<'_>) -> Result<Answer, Rejection> {
    let source = changeable(call).await?;
    let mut own = fields_of(&source);
    if is_folder(&own) {
        return Err(refusals::folder_copied());
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
    set_parent(&mut fields);
    let expect = check_parent(call, &id, None, &fields).await?;
    for name in ["createdTime", "modifiedTime"] {
        let now = || rfc3339(call.now).into();
        fields.entry(name).or_insert_with(now);
    }
    let file = record::new(call, FILES, &id, &fields, media);
    let mut changes = rows(call, &id, None, Some(&fields));
    changes.push(ResourceChange::Insert(file.clone()));
    let shown = answer(call, &file, changes).await?;
    Ok(Answer { expect, ..shown })
}

/// Returns the id that the client chose, if it is free, or a new one.
async fn free_id(call: &Call<'_>) -> Result<String, Rejection> {
    let Some(id) = chosen_id(call.metadata)? else {
        return Ok(fresh_id(call, 0));
    };
    match call.lookup.resource(FILES, id).await? {
        None => Ok(id.to_owned()),
        Some(taken) => Err(Rejection::AlreadyExists {
            what: "file".to_owned(),
            id: taken.id,
        }),
    }
}

/// Checks whether the media of a file may be replaced.
pub(super) async fn admit_update(call: &Call<'_>) -> Result<(), Rejection> {
    let old = changeable(call).await?;
    let before = fields_of(&old);
    let new = changed_fields(call, &before)?;
    check_convertible(text(&new, "mimeType").unwrap_or_default())?;
    check_parent(call, &old.id, Some(&before), &new)
        .await
        .map(drop)
}

/// `files.update`: changes fields, media and folder.
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
    let expect = check_parent(call, &old.id, Some(&before), &fields).await?;
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
    let shown = answer(call, &file, changes).await?;
    Ok(Answer { expect, ..shown })
}

/// Returns the fields after the change, with the folder of the query.
fn changed_fields(call: &Call<'_>, before: &Fields) -> Result<Fields, Rejection> {
    let own = own_fields(call.metadata)?;
    if own.contains_key("parents") {
        let problem = "Use the addParents and removeParents parameters instead.";
        return Err(refusals::not_writable("parents", problem));
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

/// Returns the folder after a move.
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
        _ => Err(refusals::second_parent()),
    }
}

/// Checks that a folder stays a folder, and that no file becomes one.
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
    names.any(|name| !UNMODIFYING_FIELDS.contains(&name.as_str()))
}

/// Sets the parent explicitly, so that each row has one.
fn set_parent(fields: &mut Fields) {
    let folder = parent(fields).to_owned();
    fields.insert("parents".into(), [folder].into_iter().collect());
}

/// Returns an answer that shows the file.
pub(super) async fn answer(
    call: &Call<'_>,
    file: &Resource,
    changes: Vec<ResourceChange>,
) -> Result<Answer, Rejection> {
    let trashed = Trash::default().holds(call, &fields_of(file)).await?;
    Ok(Answer {
        changes,
        body: Some(show(call, file, trashed).into()),
        ..Answer::default()
    })
}
