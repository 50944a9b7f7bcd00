//! The journal that a command works with, and the uploads in it as they are named on command lines.

use std::path::{Path, PathBuf};

use windlass_client::{Entry, Journal, Record, UploadRef};

use super::Error;
use crate::args::JournalArgs;
use crate::settings::{JOURNAL_VARIABLE, client_variable};

/// Opens the journal: of the flag, of the variable, or the default one.
pub(super) fn open(args: &JournalArgs) -> Result<Journal, Error> {
    let directory = args
        .journal
        .clone()
        .or_else(|| client_variable(JOURNAL_VARIABLE).map(PathBuf::from))
        .or_else(Journal::default_directory)
        .ok_or(Error::NoHome)?;
    Ok(Journal::open(directory)?)
}

/// The uploads that can be carried on, oldest first.
pub(super) fn records(journal: &Journal) -> Result<Vec<Record>, Error> {
    let entries = journal.entries()?.into_iter();
    let records = entries.filter_map(|entry| match entry {
        Entry::Unfinished(record) => Some(*record),
        Entry::Damaged { .. } => None,
    });
    Ok(records.collect())
}

/// The upload whose id is, or begins with, a text.
pub(super) fn named(journal: &Journal, text: &str) -> Result<Record, Error> {
    let id = id_of(journal, text)?;
    for entry in journal.entries()? {
        match entry {
            Entry::Unfinished(record) if record.id == id => return Ok(*record),
            Entry::Damaged {
                id: damaged,
                damage: source,
                ..
            } if damaged == id => return Err(Error::Damaged { id, source }),
            _ => {}
        }
    }
    // Finished a moment ago.
    Err(no_such(text))
}

/// The id that is, or begins with, a text; of damaged records too.
pub(super) fn id_of(journal: &Journal, text: &str) -> Result<UploadRef, Error> {
    let entries = journal.entries()?;
    let ids = entries.iter().map(|entry| match entry {
        Entry::Unfinished(record) => &record.id,
        Entry::Damaged { id, .. } => id,
    });
    let found: Vec<_> = ids.filter(|id| begins_with(id, text)).cloned().collect();
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(no_such(text)),
        _ => Err(Error::Ambiguous {
            text: text.to_owned(),
            found,
        }),
    }
}

fn begins_with(id: &UploadRef, text: &str) -> bool {
    !text.is_empty() && id.to_string().starts_with(&text.to_ascii_lowercase())
}

fn no_such(text: &str) -> Error {
    Error::NoSuchUpload {
        text: text.to_owned(),
    }
}

/// The file that an upload is of, as it is shown.
pub(super) fn source_of(record: &Record) -> String {
    shown(record.source.path())
}

/// A path below the current directory is shown as it would be typed.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).display().to_string()
}
