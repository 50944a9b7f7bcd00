//! Folders: what is in them, what is above a file, and what goes when one is deleted.
//!
//! Beside the files there are rows for each folder's children and for what is in the trash, with the
//! id of the file and nothing else. They come and go in the change set that moves the file.
//!
//! A file that is made at the very moment in which its folder is deleted outlives it, without a
//! folder above. It is found by searching without `in parents`.

use std::collections::{HashMap, HashSet};

use windlass_server::handler::{Answer, Call, Rejection};
use windlass_store::{Resource, ResourceChange, Timestamp};

use crate::record::{self, Fields, fields_of, removing};

use super::file::{FOLDER, flag, is_folder, parent};

/// Where files live.
pub(super) const FILES: &str = "drive/files";

/// The folder above all others. It is no resource: nobody can change it.
pub(super) const ROOT: &str = "root";

/// What is in the trash by itself, not by a folder above it.
const TRASH: &str = "drive/trash";

/// How many folders may be above a file, as the service has it.
const DEEPEST: usize = 100;

/// The most files that one call deletes.
const MOST_DELETED: usize = 10_000;

/// How many rows are read at once.
const BATCH: usize = 500;

/// Where the rows of a folder's children live.
pub(super) fn children(folder: &str) -> String {
    format!("drive/children/{folder}")
}

/// The file that the call's path names.
pub(super) async fn named(call: &Call<'_>) -> Result<Resource, Rejection> {
    let id = call.path.value("fileId").unwrap_or_default();
    file(call, id).await
}

/// The file of this id.
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

/// The file that the call's path names, if it is one that can be changed.
pub(super) async fn changeable(call: &Call<'_>) -> Result<Resource, Rejection> {
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

/// A resource that never changes, as rows of an index and the root: its version is known without reading it.
fn constant(call: &Call<'_>, collection: impl Into<String>, id: &str, fields: &Fields) -> Resource {
    Resource {
        version: 1,
        ..record::new(call, collection, id, fields, None)
    }
}

/// Refuses a place that there is not, or where a folder would be inside of itself or too deep.
pub(super) async fn check_place(
    call: &Call<'_>,
    id: &str,
    fields: &Fields,
) -> Result<(), Rejection> {
    let mut above = parent(fields).to_owned();
    for _ in 0..DEEPEST {
        if above == ROOT {
            return Ok(());
        }
        let folder = fields_of(&file(call, &above).await?);
        if !is_folder(&folder) {
            return Err(Rejection::invalid_field(
                "parents",
                format!("{above} is not a folder"),
            ));
        }
        if !is_folder(fields) {
            return Ok(());
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

/// The rows that come and go beside a file which changes from `old` to `new`.
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

/// Who is in the trash, by himself or with a folder above. It remembers folders, so that a list asks
/// for each only once.
#[derive(Default)]
pub(super) struct Trash {
    folders: HashMap<String, bool>,
}

impl Trash {
    /// Whether the file of these fields is in the trash.
    pub(super) async fn holds(
        &mut self,
        call: &Call<'_>,
        fields: &Fields,
    ) -> Result<bool, Rejection> {
        let mut trashed = flag(fields, "trashed");
        let mut above = parent(fields).to_owned();
        let mut passed = Vec::new();
        while !trashed && above != ROOT && !passed.contains(&above) {
            if let Some(known) = self.folders.get(&above) {
                trashed = *known;
                break;
            }
            let folder = call.lookup.resource(FILES, &above).await?;
            let folder = folder.as_ref().map(fields_of).unwrap_or_default();
            trashed = flag(&folder, "trashed");
            passed.push(std::mem::replace(&mut above, parent(&folder).to_owned()));
        }
        let passed = passed.into_iter().map(|folder| (folder, trashed));
        self.folders.extend(passed);
        Ok(trashed)
    }
}

/// Deletes a file, and a folder with all that is below it.
pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, Rejection> {
    let file = changeable(call).await?;
    let mut deletion = Deletion::default();
    if deletion.add(call, file.id).await? {
        Ok(deletion.answer())
    } else {
        Err(too_many())
    }
}

/// Deletes what is in the trash, or as much of it as one call may.
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
            if !deletion.add(call, row.id).await? {
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

/// Files that go, and the rows beside them.
#[derive(Default)]
struct Deletion {
    changes: Vec<ResourceChange>,
    ids: HashSet<String>,
}

impl Deletion {
    /// Adds a file with all that is below it. False, and nothing is added, when that would be too much.
    async fn add(&mut self, call: &Call<'_>, id: String) -> Result<bool, Rejection> {
        let (mut changes, mut ids) = (Vec::new(), HashSet::new());
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            if self.ids.contains(&id) || ids.contains(&id) {
                continue;
            }
            let Some(file) = call.lookup.resource(FILES, &id).await? else {
                continue;
            };
            let fields = fields_of(&file);
            changes.push(removing(&file));
            changes.extend(rows(call, &id, Some(&fields), None));
            if is_folder(&fields) {
                let room = MOST_DELETED.saturating_sub(left.len());
                left.extend(inside(call, &id, room).await?);
            }
            ids.insert(id);
            if self.ids.len() + ids.len() + left.len() > MOST_DELETED {
                return Ok(false);
            }
        }
        self.changes.extend(changes);
        self.ids.extend(ids);
        Ok(true)
    }

    fn answer(self) -> Answer {
        Answer {
            changes: self.changes,
            body: None,
        }
    }
}

/// The ids of what is in a folder, and no more than a few too many of them.
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
