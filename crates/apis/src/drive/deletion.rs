//! Deletions: a file, a folder with all its contents, and all files in the trash.

use std::collections::HashSet;

use windlass_rest::handler::{Answer, Call, Rejection};
use windlass_store::ResourceChange;

use super::file::{flag, is_folder, parent};
use super::scope::check_drive;
use super::tree::{BATCH, FILES, TRASH, changeable, children, inside, rows};
use crate::record::{Fields, fields_of, removing};

/// Maximum number of files that one call deletes.
const MAX_DELETED: usize = 10_000;

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
    check_drive(call)?;
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
        problem: format!("a call deletes at most {MAX_DELETED} files; delete what is inside first"),
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
                let room = MAX_DELETED.saturating_sub(left.len());
                let inside = inside(call, &id, room).await?;
                left.extend(inside.into_iter().map(|file| (file, Found::In(id.clone()))));
                emptied.push(children(&id));
            }
            ids.insert(id);
            if self.ids.len() + ids.len() + left.len() > MAX_DELETED {
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
