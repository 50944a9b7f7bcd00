//! The names in the vault: `vault/ab/cd/` and the 32 digits of a media, of which `abcd` are the
//! first.
//!
//! The sweep lists a running vault a little at a time ([`Layout::list`]). Backups and verifications
//! walk all of it from outside of the server's process ([`walk`]).

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_store::{ListPosition, Listed, Listing, MediaId, StoredName};

use crate::directory::identity_path;
use crate::filesystem::{self, Entry, SharedDirectory};

/// The directory of a vault that is being served.
///
/// Ids are random in the digits that name directories, so the directories fill evenly: writers do
/// not meet in the lock of one directory, and ten million media are 150 names in each.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    /// Directories with durable names. Every process syncs each directory once, even if it existed
    /// before: an earlier process may have created it and died before the sync.
    durable: Mutex<HashSet<PathBuf>>,
    /// Directories of media with checked permissions. At most 65,536.
    checked: Mutex<HashSet<PathBuf>>,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            durable: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// Returns how other users can change the directory of a media, if it has not been checked
    /// before. A user who cannot change a directory cannot change its permissions, either.
    pub(super) fn check_directory(
        &self,
        path: &Path,
        allow_shared: bool,
    ) -> io::Result<Option<SharedDirectory>> {
        let [_, inner] = directories(path);
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked().contains(inner) {
            return Ok(None);
        }
        let found = match filesystem::shared_with_others(inner) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        // A directory that is refused is checked again: an operator may mend it.
        if allow_shared || !found.is_some_and(SharedDirectory::is_open_to_all) {
            checked().insert(inner.to_owned());
        }
        Ok(found)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path(&self, id: MediaId) -> PathBuf {
        media_path(&self.root, id)
    }

    /// Creates the directories of a media, not durable yet.
    pub(super) fn make_directories(&self, path: &Path) -> io::Result<()> {
        let [outer, inner] = directories(path);
        if self.durable().contains(inner) {
            return Ok(());
        }
        filesystem::make_directory(outer)?;
        filesystem::make_directory(inner)
    }

    /// Forgets that the directories of a media are durable, after somebody has removed them.
    pub(super) fn forget_directories(&self, path: &Path) {
        let mut durable = self.durable();
        for directory in directories(path) {
            durable.remove(directory);
        }
    }

    /// Opens the directories that must be synced to make the name of a media durable: its own
    /// directory, and the directories above it that have new names.
    pub(super) fn open_directories(&self, path: &Path) -> io::Result<Vec<File>> {
        let [outer, inner] = directories(path);
        // From the bottom up: a file system that commits them together has little to do for the
        // upper ones.
        let mut opened = vec![filesystem::open_directory(inner)?];
        for (directory, parent) in [(inner, outer), (outer, self.root.as_path())] {
            if self.durable().contains(directory) {
                break;
            }
            opened.push(filesystem::open_directory(parent)?);
        }
        Ok(opened)
    }

    /// Makes the name of a media durable by syncing its opened directories.
    pub(super) fn sync_names(&self, path: &Path, opened: &[File]) -> io::Result<()> {
        opened.iter().try_for_each(File::sync_all)?;
        // Only after all syncs have succeeded. The lock is not held during them.
        self.durable().extend(directories(path).map(Path::to_owned));
        Ok(())
    }

    /// Lists media after `after`, looking at up to `limit` media and directories. Leaves out media
    /// that is `hidden`.
    pub(super) fn list(
        &self,
        after: Option<MediaId>,
        limit: usize,
        hidden: impl Fn(MediaId) -> bool,
    ) -> io::Result<Listing> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let mut scan = ShardScan {
            after: &after,
            budget: limit,
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
                next = scan.visit(&outer_path.join(&inner), &format!("{outer}{inner}"))?;
                if next.is_some() {
                    break 'all;
                }
            }
        }
        Ok(Listing {
            stored: scan.media,
            next: next.map(ListPosition::behind),
        })
    }

    fn durable(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.durable
            .lock()
            .expect("nothing panics while it is held")
    }
}

/// A scan of one directory after another, until its budget is spent.
struct ShardScan<'a, H> {
    after: &'a str,
    /// Number of media and directories that may still be looked at. Directories count, too: a vault
    /// may have 65,536 empty ones.
    budget: usize,
    hidden: H,
    media: Vec<Listed>,
}

impl<H: Fn(MediaId) -> bool> ShardScan<'_, H> {
    /// Lists the media in the directory of four digits. Returns where it stopped if the budget is
    /// spent.
    fn visit(&mut self, directory: &Path, digits: &str) -> io::Result<Option<MediaId>> {
        let behind_all = format!("{digits:f<32}");
        if behind_all.as_str() <= self.after {
            return Ok(None);
        }
        for name in sorted(directory, 32, self.after)? {
            // A file in the wrong directory would become the position at which the scan continues.
            // The scan would then skip or repeat directories.
            let is_next = name.as_str() > self.after && name.starts_with(digits);
            let Some(id) = MediaId::parse(&name).filter(|_| is_next) else {
                continue;
            };
            if !(self.hidden)(id)
                && let Some(modified) = filesystem::modified(&directory.join(&name))?
            {
                let name = StoredName::of(id);
                self.media.push(Listed { name, modified });
            }
            if self.spend() {
                return Ok(Some(id));
            }
        }
        let is_enough = self.spend();
        Ok(MediaId::parse(&behind_all).filter(|_| is_enough))
    }

    fn spend(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(1);
        self.budget == 0
    }
}

/// Returns the path of a media in the vault at `root`.
pub(crate) fn media_path(root: &Path, id: MediaId) -> PathBuf {
    let name = id.to_string();
    root.join(&name[..2]).join(&name[2..4]).join(name)
}

/// Returns the outer and the inner directory of a media.
fn directories(path: &Path) -> [&Path; 2] {
    let inner = path.parent().expect("a media is two directories deep");
    let outer = inner.parent().expect("a media is two directories deep");
    [outer, inner]
}

fn prefix(id: &str, digits: std::ops::Range<usize>) -> &str {
    id.get(digits).unwrap_or_default()
}

/// Returns the names in a directory that have `digits` hexadecimal digits and are not less than
/// `from`, in order. Other names do not belong to media.
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

/// The content of one directory of a vault.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// Media that is in the right directory.
    pub(crate) media: Vec<MediaId>,
    /// Names that Windlass does not use.
    pub(crate) foreign: Vec<PathBuf>,
}

/// Walks all of a vault, directory by directory and in order. Skips directories that are removed
/// meanwhile.
pub(crate) fn walk<E: From<io::Error>>(
    root: &Path,
    mut visit: impl FnMut(Shard) -> Result<(), E>,
) -> Result<(), E> {
    let (outer, mut foreign) = shards(root)?;
    foreign.retain(|path| *path != identity_path(root));
    visit(Shard {
        foreign,
        ..Shard::default()
    })?;
    for outer in outer {
        let (inner, foreign) = shards(&outer)?;
        visit(Shard {
            foreign,
            ..Shard::default()
        })?;
        for inner in inner {
            visit(shard(root, &inner)?)?;
        }
    }
    Ok(())
}

/// Returns whether a vault has no directories of media.
pub(crate) fn is_empty(root: &Path) -> io::Result<bool> {
    Ok(shards(root)?.0.is_empty())
}

/// Returns the directories in a vault, each of which has directories of media.
pub(crate) fn outer_directories(root: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(shards(root)?.0)
}

/// Makes all names in a vault durable, from the bottom up: a name is durable before the directory
/// that leads to it.
pub(crate) fn sync_names(root: &Path) -> io::Result<()> {
    for outer in shards(root)?.0 {
        for inner in shards(&outer)?.0 {
            filesystem::sync_directory(&inner)?;
        }
        filesystem::sync_directory(&outer)?;
    }
    filesystem::sync_directory(root)
}

/// Returns the directories of two digits in a directory, and everything else in it.
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

/// Returns the last component of a path, or "" if it is not Unicode, which the name of a media is.
fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}
