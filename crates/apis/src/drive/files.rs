//! Methods that create, change, copy and delete files, and the tree of folders that files form.
//!
//! Besides its row, a file has a row in the index of its folder, and one in the index of the trash
//! while it is there. Rows of an index are written with the file, in the same change set.

use std::collections::{HashMap, HashSet};

use windlass_server::handler::{Answer, Call, Rejection, Uploaded};
use windlass_store::{Expected, Media, Resource, ResourceChange, Timestamp};

use super::file::{
    FOLDER, ROOT, check_convertible, chosen_id, flag, fresh_id, is_folder, media_type,
    media_type_of, own_fields, parent, patched, show,
};
use crate::record::{self, Fields, fields_of, removing, replacing, rfc3339, text};

/// Name of a file without one.
const UNTITLED: &str = "Untitled";

/// Fields whose change does not update `modifiedTime`.
const UNMODIFYING_FIELDS: [&str; 3] = ["starred", "trashed", "viewedByMeTime"];

/// Fields that are not copied.
const NOT_COPIED: [&str; 5] = [
    "createdTime",
    "modifiedTime",
    "starred",
    "trashed",
    "viewedByMeTime",
];

/// Collection of the files.
pub(super) const FILES: &str = "drive/files";

/// Index of the files that are in the trash themselves, not by a folder above.
const TRASH: &str = "drive/trash";

/// Maximum number of folders above a file, as in the service.
const DEEPEST: usize = 100;

/// Maximum number of folders above a file that can put it in the trash. More than [`DEEPEST`], which is not checked
/// again for what is in a folder that is moved.
const MOST_ABOVE: usize = 500;

/// Maximum number of files that one call deletes.
const MOST_DELETED: usize = 10_000;

/// Number of rows that are read at a time.
const BATCH: usize = 500;

/// Checks whether a file with media may be created.
pub(super) async fn admit_creation(call: &Call<'_>) -> Result<(), Rejection> {
    let fields = patched(Fields::new(), own_fields(call.metadata)?)?;
    check_convertible(text(&fields, "mimeType").unwrap_or_default())?;
    let id = free_id(call).await?;
    check_parent(call, &id, &fields).await.map(drop)
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
    set_parent(&mut fields);
    let expect = check_parent(call, &id, &fields).await?;
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
    let new = changed_fields(call, &fields_of(&old))?;
    check_convertible(text(&new, "mimeType").unwrap_or_default())?;
    check_parent(call, &old.id, &new).await.map(drop)
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
    let expect = check_parent(call, &old.id, &fields).await?;
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
        _ => Err(Rejection::InvalidParameter {
            parameter: "addParents".to_owned(),
            problem: "a file is in one folder only; name the old one in removeParents".to_owned(),
        }),
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

/// Returns the collection of the index of a folder.
pub(super) fn children(folder: &str) -> String {
    format!("drive/children/{folder}")
}

/// Returns the file that the call's path names.
pub(super) async fn named(call: &Call<'_>) -> Result<Resource, Rejection> {
    let id = call.path.value("fileId").unwrap_or_default();
    file(call, id).await
}

/// Returns the file of this id.
pub(super) async fn file(call: &Call<'_>, id: &str) -> Result<Resource, Rejection> {
    let found = match id {
        ROOT => Some(root(call)),
        _ => call.lookup.resource(FILES, id).await?,
    };
    found.ok_or_else(|| Rejection::NotFound {
        what: "file".to_owned(),
        id: id.to_owned(),
    })
}

/// Returns the file that the call's path names, if it is one that can be changed.
async fn changeable(call: &Call<'_>) -> Result<Resource, Rejection> {
    match named(call).await? {
        file if file.id == ROOT => Err(Rejection::FailedPrecondition {
            problem: "the folder root cannot be changed".to_owned(),
        }),
        file => Ok(file),
    }
}

fn root(call: &Call<'_>) -> Resource {
    let mut fields = Fields::new();
    fields.insert("name".into(), "My Drive".into());
    fields.insert("mimeType".into(), FOLDER.into());
    let began = record::rfc3339(Timestamp::from_millis(0));
    fields.insert("createdTime".into(), began.as_str().into());
    fields.insert("modifiedTime".into(), began.into());
    constant(call, FILES, ROOT, &fields)
}

/// Returns a resource that never changes, such as a row of an index or the root. Its version is
/// known without reading it.
fn constant(call: &Call<'_>, collection: impl Into<String>, id: &str, fields: &Fields) -> Resource {
    Resource {
        version: 1,
        ..record::new(call, collection, id, fields, None)
    }
}

/// Checks that the parent exists, and that a folder would not be inside itself or nested too deep.
/// Returns the folders that this relies on: they must not be moved or deleted meanwhile.
async fn check_parent(
    call: &Call<'_>,
    id: &str,
    fields: &Fields,
) -> Result<Vec<Expected>, Rejection> {
    let mut passed = Vec::new();
    let mut above = parent(fields).to_owned();
    for _ in 0..DEEPEST {
        if above == ROOT {
            return Ok(passed);
        }
        let folder = file(call, &above).await?;
        passed.push(Expected::unchanged(&folder));
        let folder = fields_of(&folder);
        if !is_folder(&folder) {
            return Err(Rejection::invalid_field(
                "parents",
                format!("{above} is not a folder"),
            ));
        }
        if !is_folder(fields) {
            return Ok(passed);
        }
        if above == id {
            return Err(Rejection::invalid_field(
                "parents",
                "a folder cannot be inside of itself",
            ));
        }
        parent(&folder).clone_into(&mut above);
    }
    let problem = format!("there are {DEEPEST} folders above it already");
    Err(Rejection::invalid_field("parents", problem))
}

/// Returns the changes of index rows for a file that changes from `old` to `new`.
pub(super) fn rows(
    call: &Call<'_>,
    id: &str,
    old: Option<&Fields>,
    new: Option<&Fields>,
) -> Vec<ResourceChange> {
    let of = |fields: Option<&Fields>| {
        let fields = fields?;
        let trashed = flag(fields, "trashed").then(|| TRASH.to_owned());
        Some([Some(children(parent(fields))), trashed])
    };
    let (old, new) = (of(old).unwrap_or_default(), of(new).unwrap_or_default());
    let pairs = old.into_iter().zip(new).filter(|(old, new)| old != new);
    pairs
        .flat_map(|(old, new)| {
            let row = |collection| constant(call, collection, id, &Fields::new());
            let gone = old.map(|collection| removing(&row(collection)));
            let come = new.map(|collection| ResourceChange::Insert(row(collection)));
            gone.into_iter().chain(come)
        })
        .collect()
}

/// Tells whether files are in the trash, themselves or by a folder above. Caches folders, so that a
/// list reads each only once.
#[derive(Default)]
pub(super) struct Trash {
    folders: HashMap<String, bool>,
}

impl Trash {
    /// Returns whether the file of these fields is in the trash.
    pub(super) async fn holds(
        &mut self,
        call: &Call<'_>,
        fields: &Fields,
    ) -> Result<bool, Rejection> {
        let mut trashed = flag(fields, "trashed");
        let mut above = parent(fields).to_owned();
        let mut passed = HashSet::new();
        while !trashed && above != ROOT && passed.len() < MOST_ABOVE && !passed.contains(&above) {
            if let Some(known) = self.folders.get(&above) {
                trashed = *known;
                break;
            }
            let folder = call.lookup.resource(FILES, &above).await?;
            let folder = folder.as_ref().map(fields_of).unwrap_or_default();
            trashed = flag(&folder, "trashed");
            passed.insert(std::mem::replace(&mut above, parent(&folder).to_owned()));
        }
        let passed = passed.into_iter().map(|folder| (folder, trashed));
        self.folders.extend(passed);
        Ok(trashed)
    }
}

/// `files.delete`: deletes a file, or a folder with its whole subtree.
pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, Rejection> {
    let file = changeable(call).await?;
    let mut deletion = Deletion::default();
    if deletion.add(call, file.id, Found::ByName).await? {
        Ok(deletion.answer())
    } else {
        Err(too_many())
    }
}

/// `files.emptyTrash`: deletes all files in the trash, up to the limit of one call.
pub(super) async fn empty_trash(call: &Call<'_>) -> Result<Answer, Rejection> {
    let mut deletion = Deletion::default();
    let mut after: Option<String> = None;
    loop {
        let rows = call.lookup.resources(TRASH, after.as_deref(), BATCH);
        let rows = rows.await?;
        let Some(last) = rows.last() else {
            return Ok(deletion.answer());
        };
        after = Some(last.id.clone());
        for row in rows {
            if !deletion.add(call, row.id, Found::InTrash).await? {
                return if deletion.changes.is_empty() {
                    Err(too_many())
                } else {
                    Ok(deletion.answer())
                };
            }
        }
    }
}

fn too_many() -> Rejection {
    Rejection::FailedPrecondition {
        problem: format!(
            "a call deletes at most {MOST_DELETED} files; delete what is inside first"
        ),
    }
}

/// How a file to be deleted was found.
enum Found {
    ByName,
    InTrash,
    In(String),
}

impl Found {
    /// Whether a file of these fields is still found so.
    fn holds(&self, fields: &Fields) -> bool {
        match self {
            Self::ByName => true,
            Self::InTrash => flag(fields, "trashed"),
            Self::In(folder) => parent(fields) == folder,
        }
    }
}

/// Files to be deleted, with their index rows.
#[derive(Default)]
struct Deletion {
    changes: Vec<ResourceChange>,
    /// Indexes of the deleted folders. A file that is put into one of them meanwhile would survive
    /// without a folder.
    emptied: Vec<String>,
    ids: HashSet<String>,
}

impl Deletion {
    /// Adds a file with its whole subtree. Returns false, and adds nothing, if that exceeds the
    /// limit.
    async fn add(&mut self, call: &Call<'_>, id: String, found: Found) -> Result<bool, Rejection> {
        let (mut changes, mut emptied, mut ids) = (Vec::new(), Vec::new(), HashSet::new());
        let mut left = vec![(id, found)];
        while let Some((id, found)) = left.pop() {
            if self.ids.contains(&id) || ids.contains(&id) {
                continue;
            }
            let Some(file) = call.lookup.resource(FILES, &id).await? else {
                continue;
            };
            let fields = fields_of(&file);
            // It may have been moved or restored after the index was read.
            if !found.holds(&fields) {
                continue;
            }
            changes.push(removing(&file));
            changes.extend(rows(call, &id, Some(&fields), None));
            if is_folder(&fields) {
                let room = MOST_DELETED.saturating_sub(left.len());
                let inside = inside(call, &id, room).await?;
                left.extend(inside.into_iter().map(|file| (file, Found::In(id.clone()))));
                emptied.push(children(&id));
            }
            ids.insert(id);
            if self.ids.len() + ids.len() + left.len() > MOST_DELETED {
                return Ok(false);
            }
        }
        self.changes.extend(changes);
        self.emptied.extend(emptied);
        self.ids.extend(ids);
        Ok(true)
    }

    fn answer(self) -> Answer {
        Answer {
            changes: self.changes,
            expect_empty: self.emptied,
            ..Answer::default()
        }
    }
}

/// Returns the ids of the files in a folder. Stops soon after there are more than `room`.
async fn inside(call: &Call<'_>, folder: &str, room: usize) -> Result<Vec<String>, Rejection> {
    let collection = children(folder);
    let mut ids: Vec<String> = Vec::new();
    loop {
        let after = ids.last().map(String::as_str);
        let rows = call.lookup.resources(&collection, after, BATCH).await?;
        let complete = rows.len() < BATCH;
        ids.extend(rows.into_iter().map(|row| row.id));
        if complete || ids.len() > room {
            return Ok(ids);
        }
    }
}
