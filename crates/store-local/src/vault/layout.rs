//! Where a media lies: `vault/ab/cd/` and its 32 digits, of which the first four are `abcd`.
//!
//! Ids are random, so the directories fill evenly: writers do not meet in one directory's lock, and
//! ten million media are 150 names in each.
//!
//! All that lies in a vault, looked at from outside of the process that serves it.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use windlass_store::{Listing, MediaId, StoredMedia};

use crate::directory::identity_path;
use crate::filesystem::{self, Entry};

/// The directory of the vault.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    /// Directories whose names are durable. Each is synced once in the life of the process, also
    /// when it existed before: anyone who made it may have died before its sync.
    durable: Mutex<HashSet<PathBuf>>,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            durable: Mutex::default(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path(&self, id: MediaId) -> PathBuf {
        media_path(&self.root, id)
    }

    /// Makes the directories for a media, not durable yet.
    pub(super) fn make_directories(&self, path: &Path) -> io::Result<()> {
        let [outer, inner] = directories(path);
        if self.durable().contains(inner) {
            return Ok(());
        }
        filesystem::make_directory(outer)?;
        filesystem::make_directory(inner)
    }

    /// Forgets that the directories of a media were made: they were removed from outside.
    pub(super) fn forget_directories(&self, path: &Path) {
        let mut durable = self.durable();
        for directory in directories(path) {
            durable.remove(directory);
        }
    }

    /// Opens the directories whose sync makes the name of a media durable, and those of its
    /// directories: from the bottom up, so that a file system that commits them together has little
    /// to do for the upper ones.
    pub(super) fn open_directories(&self, path: &Path) -> io::Result<Vec<File>> {
        let [outer, inner] = directories(path);
        let mut opened = vec![filesystem::open_directory(inner)?];
        for (directory, parent) in [(inner, outer), (outer, self.root.as_path())] {
            if self.durable().contains(directory) {
                break;
            }
            opened.push(filesystem::open_directory(parent)?);
        }
        Ok(opened)
    }

    /// Makes the name of a media durable by its opened directories.
    pub(super) fn sync_names(&self, path: &Path, opened: &[File]) -> io::Result<()> {
        opened.iter().try_for_each(File::sync_all)?;
        self.durable().extend(directories(path).map(Path::to_owned));
        Ok(())
    }

    /// Looks at up to `limit` media and directories behind `after`. Of media that is `hidden` it
    /// tells nothing.
    pub(super) fn list(
        &self,
        after: Option<MediaId>,
        limit: usize,
        hidden: impl Fn(MediaId) -> bool,
    ) -> io::Result<Listing> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let mut tour = ShardScan {
            after: &after,
            looks: limit,
            hidden,
            media: Vec::new(),
        };
        let mut next = None;
        'all: for outer in sorted(&self.root, 2, prefix(&after, 0..2))? {
            let outer_path = self.root.join(&outer);
            let from = if after.starts_with(&outer) {
                prefix(&after, 2..4)
            } else {
                ""
            };
            for inner in sorted(&outer_path, 2, from)? {
                next = tour.visit(&outer_path.join(&inner), &format!("{outer}{inner}"))?;
                if next.is_some() {
                    break 'all;
                }
            }
        }
        Ok(Listing {
            media: tour.media,
            next,
        })
    }

    fn durable(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.durable
            .lock()
            .expect("nothing panics while it is held")
    }
}

/// A look at media, directory after directory, until it has seen enough.
struct ShardScan<'a, H> {
    after: &'a str,
    /// Media and directories that may still be looked at.
    looks: usize,
    hidden: H,
    media: Vec<StoredMedia>,
}

impl<H: Fn(MediaId) -> bool> ShardScan<'_, H> {
    /// Looks at the media in the directory of four digits. Returns where it has seen enough.
    fn visit(&mut self, directory: &Path, digits: &str) -> io::Result<Option<MediaId>> {
        let behind_all = format!("{digits:f<32}");
        if behind_all.as_str() <= self.after {
            return Ok(None);
        }
        for name in sorted(directory, 32, self.after)? {
            // A file in a directory that is not its own would send the tour astray.
            let is_next = name.as_str() > self.after && name.starts_with(digits);
            let Some(id) = MediaId::parse(&name).filter(|_| is_next) else {
                continue;
            };
            if !(self.hidden)(id)
                && let Some(modified) = filesystem::modified(&directory.join(&name))?
            {
                self.media.push(StoredMedia { id, modified });
            }
            if self.was_last_look() {
                return Ok(Some(id));
            }
        }
        let is_enough = self.was_last_look();
        Ok(MediaId::parse(&behind_all).filter(|_| is_enough))
    }

    fn was_last_look(&mut self) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.looks == 0
    }
}

/// Where a media lies in the vault at `root`.
pub(crate) fn media_path(root: &Path, id: MediaId) -> PathBuf {
    let name = id.to_string();
    root.join(&name[..2]).join(&name[2..4]).join(name)
}

/// The outer and the inner directory of a media.
fn directories(path: &Path) -> [&Path; 2] {
    let inner = path.parent().expect("a media lies two directories deep");
    let outer = inner.parent().expect("a media lies two directories deep");
    [outer, inner]
}

fn prefix(id: &str, digits: std::ops::Range<usize>) -> &str {
    id.get(digits).unwrap_or_default()
}

/// The names of so many hexadecimal digits in a directory, in order, from the first that is not
/// less than `from`. Others are not ours.
fn sorted(directory: &Path, digits: usize, from: &str) -> io::Result<Vec<String>> {
    let mut names = filesystem::names(directory)?;
    let is_hex = |name: &str| {
        name.bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    names.retain(|name| name.len() == digits && is_hex(name) && name.as_str() >= from);
    names.sort_unstable();
    Ok(names)
}

/// What lies together in one directory of a vault.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// Media in its place.
    pub(crate) media: Vec<MediaId>,
    /// Names that Windlass does not give.
    pub(crate) foreign: Vec<PathBuf>,
}

/// Shows all of a vault, directory by directory and in order. Directories that vanish meanwhile are
/// skipped.
pub(crate) fn walk<E: From<io::Error>>(
    root: &Path,
    mut show: impl FnMut(Shard) -> Result<(), E>,
) -> Result<(), E> {
    let (outer, mut foreign) = shards(root)?;
    foreign.retain(|path| *path != identity_path(root));
    show(Shard {
        foreign,
        ..Shard::default()
    })?;
    for outer in outer {
        let (inner, foreign) = shards(&outer)?;
        show(Shard {
            foreign,
            ..Shard::default()
        })?;
        for inner in inner {
            show(shard(root, &inner)?)?;
        }
    }
    Ok(())
}

/// Whether no media was ever put into a vault, as far as its directories tell.
pub(crate) fn is_bare(root: &Path) -> io::Result<bool> {
    Ok(shards(root)?.0.is_empty())
}

/// Makes all names in a vault durable, from the bottom up.
pub(crate) fn sync_names(root: &Path) -> io::Result<()> {
    for outer in shards(root)?.0 {
        for inner in shards(&outer)?.0 {
            filesystem::sync_directory(&inner)?;
        }
        filesystem::sync_directory(&outer)?;
    }
    filesystem::sync_directory(root)
}

/// The directories of two digits in a directory, and what else is there.
fn shards(directory: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let entries = filesystem::entries(directory)?;
    let (ours, foreign): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|entry| entry.kind.is_dir() && is_digits(name(&entry.path)));
    let paths = |entries: Vec<Entry>| entries.into_iter().map(|entry| entry.path).collect();
    Ok((paths(ours), paths(foreign)))
}

fn shard(root: &Path, directory: &Path) -> io::Result<Shard> {
    let mut shard = Shard::default();
    for Entry { path, kind } in filesystem::entries(directory)? {
        let id = MediaId::parse(name(&path)).filter(|_| kind.is_file());
        match id {
            Some(id) if media_path(root, id) == path => shard.media.push(id),
            _ => shard.foreign.push(path),
        }
    }
    Ok(shard)
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
