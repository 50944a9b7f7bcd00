//! All that lies in a vault, looked at from outside of the process that serves it.

use std::io;
use std::path::{Path, PathBuf};

use windlass_store::MediaId;

use super::layout;
use crate::directory::identity_path;
use crate::filesystem::{self, Entry};

/// What lies together in one directory of a vault.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// Media in its place.
    pub(crate) media: Vec<MediaId>,
    /// Names that Windlass does not give.
    pub(crate) foreign: Vec<PathBuf>,
}

/// Where a media lies in the vault at `root`.
pub(crate) fn path(root: &Path, id: MediaId) -> PathBuf {
    layout::path(root, id)
}

/// Shows all of a vault, directory by directory and in order. Directories that vanish meanwhile are
/// skipped.
pub(crate) fn walk<E: From<io::Error>>(
    root: &Path,
    mut show: impl FnMut(Shard) -> Result<(), E>,
) -> Result<(), E> {
    let (outer, mut foreign) = directories(root)?;
    foreign.retain(|path| *path != identity_path(root));
    show(Shard {
        foreign,
        ..Shard::default()
    })?;
    for outer in outer {
        let (inner, foreign) = directories(&outer)?;
        show(Shard {
            foreign,
            ..Shard::default()
        })?;
        for inner in inner {
            show(lot(root, &inner)?)?;
        }
    }
    Ok(())
}

/// Whether no media was ever put into a vault, as far as its directories tell.
pub(crate) fn is_bare(root: &Path) -> io::Result<bool> {
    Ok(directories(root)?.0.is_empty())
}

/// Makes all names in a vault durable, from the bottom up.
pub(crate) fn sync_names(root: &Path) -> io::Result<()> {
    for outer in directories(root)?.0 {
        for inner in directories(&outer)?.0 {
            filesystem::sync_directory(&inner)?;
        }
        filesystem::sync_directory(&outer)?;
    }
    filesystem::sync_directory(root)
}

/// The directories of two digits in a directory, and what else is there.
fn directories(directory: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let entries = filesystem::entries(directory)?;
    let (ours, foreign): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|entry| entry.kind.is_dir() && is_digits(name(&entry.path)));
    let paths = |entries: Vec<Entry>| entries.into_iter().map(|entry| entry.path).collect();
    Ok((paths(ours), paths(foreign)))
}

fn lot(root: &Path, directory: &Path) -> io::Result<Shard> {
    let mut lot = Shard::default();
    for Entry { path, kind } in filesystem::entries(directory)? {
        let id = MediaId::parse(name(&path)).filter(|_| kind.is_file());
        match id {
            Some(id) if layout::path(root, id) == path => lot.media.push(id),
            _ => lot.foreign.push(path),
        }
    }
    Ok(lot)
}

fn is_digits(name: &str) -> bool {
    name.len() == 2
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The last name of a path; one that is not Unicode is none of ours.
fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}
