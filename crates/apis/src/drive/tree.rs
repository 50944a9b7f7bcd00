//! The tree of folders that files form, and its indexes.
//!
//! Besides its own row, a file has a row in the index of its folder and, while it is in the trash,
//! a row in the index of the trash. Index rows are written with the file, in the same change set.
//! The index of a folder marks which of its files are folders, so a walk through folders reads no
//! file.

use std::collections::{HashMap, HashSet};

use windlass_rest::handler::{Call, Rejection};
use windlass_store::{Expected, Resource, ResourceChange, Timestamp};

use super::file::{FOLDER, ROOT, flag, is_folder, parent};
use super::refusals;
use super::scope::APP_DATA;
use crate::record::{self, Fields, fields_of, removing};

/// Collection of the files.
pub(super) const FILES: &str = "drive/files";

/// Index of the files that are in the trash themselves, not by a folder above.
pub(super) const TRASH: &str = "drive/trash";

/// Maximum number of folders above a file, as in the service.
const DEEPEST: usize = 100;

/// Maximum number of folders above a file that can put it in the trash. More than [`DEEPEST`]:
/// stores of earlier versions, and two servers over one ledger, can have deeper trees.
const MAX_ABOVE: usize = 500;

/// Maximum cost of the walk through a folder that is moved to a deeper place. A row of an index
/// costs 1.
const MAX_WALKED: usize = 100_000;

/// The cost of reading a file in a walk. An index row of an earlier version does not say whether
/// the file is a folder, so the file must be read.
const COST_OF_A_FILE: usize = 10;

/// Number of rows that are read at a time.
pub(super) const BATCH: usize = 500;

/// Field of a row in the index of a folder: whether the file is a folder. It never changes.
const IS_FOLDER: &str = "folder";

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
    match found {
        Some(file) => Ok(file),
        None if id == APP_DATA => Err(refusals::no_app_folders().into()),
        None => Err(refusals::file_not_found(id)),
    }
}

/// Returns the file in the call's path, or an error if the file cannot be changed.
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

/// Returns a resource that never changes, such as a row of an index or the root. Its version is
/// known without reading it.
fn constant(call: &Call<'_>, collection: impl Into<String>, id: &str, fields: &Fields) -> Resource {
    Resource {
        version: 1,
        ..record::new(call, collection, id, fields, None)
    }
}

/// Checks that the parent exists, and that a folder would not be inside itself or nested too deep.
/// `before` are the fields before the change, if the file exists. Returns the folders on which the
/// result depends: they must not be moved or deleted meanwhile.
pub(super) async fn check_parent(
    call: &Call<'_>,
    id: &str,
    before: Option<&Fields>,
    fields: &Fields,
) -> Result<Vec<Expected>, Rejection> {
    let mut passed = Vec::new();
    let mut above = parent(fields).to_owned();
    while above != ROOT {
        if passed.len() == DEEPEST {
            return Err(refusals::too_deep(DEEPEST));
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
            return Err(refusals::cycle());
        }
        parent(&folder).clone_into(&mut above);
    }
    if is_folder(fields) {
        check_depth(call, id, before, passed.len()).await?;
    }
    Ok(passed)
}

/// Checks the depth of a folder with this number of folders above it, and of all that is in it.
async fn check_depth(
    call: &Call<'_>,
    id: &str,
    before: Option<&Fields>,
    above: usize,
) -> Result<(), Rejection> {
    if above >= DEEPEST {
        return Err(refusals::too_deep(DEEPEST));
    }
    match before {
        // If the folder does not move deeper, its contents do not either and need not be read.
        Some(before) if above > depth(call, before).await? => {
            check_levels(call, id, DEEPEST - above - 1).await
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the number of folders above a file, at most [`MAX_ABOVE`].
async fn depth(call: &Call<'_>, fields: &Fields) -> Result<usize, Rejection> {
    let mut above = parent(fields).to_owned();
    let mut depth = 0;
    while above != ROOT && depth < MAX_ABOVE {
        let folder = call.lookup.resource(FILES, &above).await?;
        let folder = folder.as_ref().map(fields_of).unwrap_or_default();
        parent(&folder).clone_into(&mut above);
        depth += 1;
    }
    Ok(depth)
}

/// Checks that a folder has at most this number of levels of folders in it.
async fn check_levels(call: &Call<'_>, id: &str, most: usize) -> Result<(), Rejection> {
    let mut walk = Walk::default();
    let mut level = vec![id.to_owned()];
    for _ in 0..=most {
        let mut next = Vec::new();
        for folder in level {
            next.extend(walk.folders_in(call, &folder).await?);
        }
        if next.is_empty() {
            return Ok(());
        }
        level = next;
    }
    Err(refusals::too_deep(DEEPEST))
}

/// A walk through folders, of limited cost.
#[derive(Default)]
struct Walk {
    cost: usize,
}

impl Walk {
    /// Returns the ids of the folders in a folder.
    async fn folders_in(
        &mut self,
        call: &Call<'_>,
        folder: &str,
    ) -> Result<Vec<String>, Rejection> {
        let collection = children(folder);
        let mut folders = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let rows = call.lookup.resources(&collection, after.as_deref(), BATCH);
            let rows = rows.await?;
            let is_last = rows.len() < BATCH;
            after = rows.last().map(|row| row.id.clone());
            self.spend(rows.len())?;
            for row in rows {
                if self.is_folder(call, &row).await? {
                    folders.push(row.id);
                }
            }
            if is_last {
                return Ok(folders);
            }
        }
    }

    async fn is_folder(&mut self, call: &Call<'_>, row: &Resource) -> Result<bool, Rejection> {
        if let Some(known) = fields_of(row).get(IS_FOLDER) {
            return Ok(known == true);
        }
        self.spend(COST_OF_A_FILE)?;
        let file = call.lookup.resource(FILES, &row.id).await?;
        Ok(file.is_some_and(|file| is_folder(&fields_of(&file))))
    }

    fn spend(&mut self, cost: usize) -> Result<(), Rejection> {
        self.cost += cost;
        if self.cost <= MAX_WALKED {
            return Ok(());
        }
        let problem = format!(
            "the folder has too many files in it to be moved to a deeper place: at most {MAX_WALKED} \
             are looked at; move the folders in it one by one"
        );
        Err(Rejection::FailedPrecondition { problem })
    }
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
    let is_folder = new.or(old).is_some_and(is_folder);
    let kind = Fields::from_iter([(IS_FOLDER.to_owned(), is_folder.into())]);
    let (old, new) = (of(old).unwrap_or_default(), of(new).unwrap_or_default());
    let pairs = old.into_iter().zip(new).filter(|(old, new)| old != new);
    pairs
        .flat_map(|(old, new)| {
            let row = |collection| constant(call, collection, id, &kind);
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
        while !trashed && above != ROOT && passed.len() < MAX_ABOVE && !passed.contains(&above) {
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

/// Returns the ids of the files in a folder. Stops soon after there are more than `room`.
pub(super) async fn inside(
    call: &Call<'_>,
    folder: &str,
    room: usize,
) -> Result<Vec<String>, Rejection> {
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
