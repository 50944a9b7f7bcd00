//! The journal that a command works with, and the uploads in it as they are named on command lines.

use std::path::{Path, PathBuf};

use windlass_client::{Damage, Entry, Journal, Record, RecordId};

use super::Error;
use crate::args::JournalArgs;
use crate::display::Display;
use crate::exit::Code;
use crate::output;
use crate::settings::{JOURNAL_VARIABLE, client_variable};

/// Opens the journal: of the flag, of the variable, or the default one.
pub(super) fn open(args: &JournalArgs) -> Result<Journal, Error> {
    let directory = named_directory(args)
        .or_else(Journal::default_directory)
        .ok_or(Error::NoHome)?;
    Ok(Journal::open(directory)?)
}

/// Opens the journal, or does without the default one.
pub(super) fn open_if_possible(
    args: &JournalArgs,
    display: &Display,
) -> Result<Option<Journal>, Error> {
    match open(args) {
        Ok(journal) => Ok(Some(journal)),
        Err(error) if named_directory(args).is_some() => Err(error),
        Err(error) => {
            let what = format!(
                "nothing will be remembered: {}",
                output::with_causes(&error)
            );
            display.warning(&what, error.hint().as_deref());
            Ok(None)
        }
    }
}

/// The directory that somebody chose.
pub(super) fn named_directory(args: &JournalArgs) -> Option<PathBuf> {
    let variable = || client_variable(JOURNAL_VARIABLE).map(PathBuf::from);
    args.journal.clone().or_else(variable)
}

/// What a journal holds.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// The uploads that can be carried on, oldest first.
    pub(super) records: Vec<Record>,
    /// The others.
    pub(super) damaged: Vec<(RecordId, Damage)>,
}

/// What the journal holds.
pub(super) fn unfinished(journal: &Journal) -> Result<Unfinished, Error> {
    let mut found = Unfinished::default();
    for entry in journal.entries()? {
        match entry {
            Entry::Unfinished(record) => found.records.push(*record),
            Entry::Damaged { id, damage, .. } => found.damaged.push((id, damage)),
        }
    }
    Ok(found)
}

impl Unfinished {
    /// Tells of the records that are of no use.
    pub(super) fn warn(&self, warning: impl Fn(&str, Option<&str>)) {
        for (id, damage) in &self.damaged {
            let hint = damage_hint(id, damage);
            warning(&format!("{id} is of no use: {damage}"), hint.as_deref());
        }
    }

    /// What a command that was to do something with all of them ends with, at the least: with those that
    /// are damaged it cannot begin.
    pub(super) fn code(&self) -> Code {
        if self.damaged.is_empty() {
            Code::Success
        } else {
            Code::CannotBegin
        }
    }

    /// Whether there is nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.damaged.is_empty()
    }
}

/// How a record that is of no use goes away. One of another version is fine for the windlass that wrote
/// it.
pub(super) fn damage_hint(id: &RecordId, damage: &Damage) -> Option<String> {
    match damage {
        Damage::Version { .. } => None,
        _ => Some(format!("`windlass cancel {id} --forget` removes it")),
    }
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
pub(super) fn id_of(journal: &Journal, text: &str) -> Result<RecordId, Error> {
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

fn begins_with(id: &RecordId, text: &str) -> bool {
    !text.is_empty() && id.to_string().starts_with(&text.to_ascii_lowercase())
}

fn no_such(text: &str) -> Error {
    Error::NoSuchUpload {
        text: text.to_owned(),
    }
}

/// The file that an upload is of, as it is shown.
pub(super) fn source_of(record: &Record) -> String {
    relative_to_cwd(record.source.path())
}

/// A path below the current directory is shown as it would be typed.
fn relative_to_cwd(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).display().to_string()
}
