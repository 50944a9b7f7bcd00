//! A disk under a page cache: its cached content, its durable content, and its content after a
//! power cut.
//!
//! Written bytes are in the page cache at once, and on the disk after a sync. After a power cut,
//! each piece that was written and not synced may or may not be on the disk, independently of all
//! other pieces. The same holds for names: a name is durable when its *directory* was synced,
//! whatever is true of the file. POSIX allows this, and it is harsher than any file system in use.
//!
//! Absent: links, renames, permissions, times, and any caller that reads the seed directly.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};

use windlass_testkit::rng::Rng;

#[cfg(test)]
mod tests;

/// The unit that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Number of a file or directory. The root has the first.
pub(crate) type Inode = usize;

const ROOT: Inode = 0;

/// Files and directories, cached and durable.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    File(File),
    Directory(Directory),
}

#[derive(Debug, Clone, Default)]
struct File {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// The changes since the last sync.
    since: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Cut { len: usize },
}

#[derive(Debug, Clone, Default)]
struct Directory {
    cached: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
    since: Vec<Naming>,
}

/// An added or removed name.
#[derive(Debug, Clone)]
struct Naming {
    name: String,
    inode: Option<Inode>,
}

/// The part of the unsynced changes that survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    Nothing,
    Everything,
    /// The first changes of each file, up to some.
    Prefixes,
    /// Any changes.
    Some,
    /// Any sectors of any changes.
    Sectors,
}

impl Keeps {
    pub(crate) const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Everything,
        Self::Prefixes,
        Self::Some,
        Self::Sectors,
    ];
}

impl Disk {
    /// An empty directory.
    pub(crate) fn new() -> Self {
        Self {
            nodes: vec![Node::Directory(Directory::default())],
        }
    }

    /// The file or directory of a path.
    pub(crate) fn find(&self, path: &Path) -> Option<Inode> {
        path.components().try_fold(ROOT, |at, part| match part {
            Component::Normal(name) => self.directory(at)?.cached.get(name.to_str()?).copied(),
            _ => Some(at),
        })
    }

    /// Makes an empty file.
    pub(crate) fn create(&mut self, path: &Path) -> Option<Inode> {
        self.add(path, Node::File(File::default()))
    }

    /// Makes an empty directory.
    pub(crate) fn make_directory(&mut self, path: &Path) -> Option<Inode> {
        self.add(path, Node::Directory(Directory::default()))
    }

    fn add(&mut self, path: &Path, node: Node) -> Option<Inode> {
        let inode = self.nodes.len();
        self.nodes.push(node);
        self.name(path, Some(inode)).map(|()| inode)
    }

    /// Removes a name. A process that has the file open can still use it.
    pub(crate) fn unlink(&mut self, path: &Path) -> Option<()> {
        self.name(path, None)
    }

    fn name(&mut self, path: &Path, inode: Option<Inode>) -> Option<()> {
        let parent = self.find(path.parent()?)?;
        let name = path.file_name()?.to_str()?.to_owned();
        let Node::Directory(directory) = &mut self.nodes[parent] else {
            return None;
        };
        let naming = Naming { name, inode };
        naming.apply(&mut directory.cached);
        directory.since.push(naming);
        Some(())
    }

    /// Writes into a file. A node of another kind is not changed.
    pub(crate) fn write(&mut self, inode: Inode, offset: usize, bytes: Vec<u8>) {
        self.change(inode, Change::Write { offset, bytes });
    }

    /// Cuts or lengthens a file.
    pub(crate) fn set_len(&mut self, inode: Inode, len: usize) {
        self.change(inode, Change::Cut { len });
    }

    fn change(&mut self, inode: Inode, change: Change) {
        if let Node::File(file) = &mut self.nodes[inode] {
            change.apply(&mut file.cached);
            file.since.push(change);
        }
    }

    /// Makes a file's bytes or a directory's names durable.
    pub(crate) fn sync(&mut self, inode: Inode) {
        match &mut self.nodes[inode] {
            Node::File(file) => {
                for change in file.since.drain(..) {
                    change.apply(&mut file.durable);
                }
            }
            Node::Directory(directory) => {
                for naming in directory.since.drain(..) {
                    naming.apply(&mut directory.durable);
                }
            }
        }
    }

    /// Fails a sync, as Linux does: the page cache shows the written bytes, calls them clean, and
    /// never writes them again.
    pub(crate) fn fail_sync(&mut self, inode: Inode) {
        match &mut self.nodes[inode] {
            Node::File(file) => file.since.clear(),
            Node::Directory(directory) => directory.since.clear(),
        }
    }

    /// Returns the disk as it is when the power comes back.
    pub(crate) fn after_power_cut(&self, keeps: Keeps, rng: &mut Rng) -> Self {
        let nodes = self.nodes.iter().map(|node| match node {
            Node::File(file) => {
                let mut left = file.durable.clone();
                for change in kept(&file.since, keeps, rng) {
                    change.apply_some(&mut left, keeps, rng);
                }
                Node::File(File {
                    cached: left.clone(),
                    durable: left,
                    since: Vec::new(),
                })
            }
            Node::Directory(directory) => {
                let mut left = directory.durable.clone();
                for naming in kept(&directory.since, keeps, rng) {
                    naming.apply(&mut left);
                }
                Node::Directory(Directory {
                    cached: left.clone(),
                    durable: left,
                    since: Vec::new(),
                })
            }
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Writes the cached content into a real, empty directory.
    pub(crate) fn lay_out(&self, root: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<()> {
        self.lay_out_node(ROOT, root, &wanted)
    }

    fn lay_out_node(
        &self,
        inode: Inode,
        path: &Path,
        wanted: &impl Fn(&str) -> bool,
    ) -> io::Result<()> {
        match &self.nodes[inode] {
            Node::File(file) => std::fs::write(path, &file.cached),
            Node::Directory(directory) => {
                std::fs::create_dir_all(path)?;
                let mut names = directory.cached.iter().filter(|(name, _)| wanted(name));
                names.try_for_each(|(name, inode)| {
                    self.lay_out_node(*inode, &path.join(name), wanted)
                })
            }
        }
    }

    /// The bytes of a file as they are cached.
    pub(crate) fn cached(&self, inode: Inode) -> Option<&[u8]> {
        match &self.nodes[inode] {
            Node::File(file) => Some(&file.cached),
            Node::Directory(_) => None,
        }
    }

    /// The names in a directory as they are cached.
    pub(crate) fn names(&self, inode: Inode) -> impl Iterator<Item = (&str, Inode)> {
        let names = self
            .directory(inode)
            .map(|directory| directory.cached.iter());
        names
            .into_iter()
            .flatten()
            .map(|(name, inode)| (name.as_str(), *inode))
    }

    fn directory(&self, inode: Inode) -> Option<&Directory> {
        match &self.nodes[inode] {
            Node::Directory(directory) => Some(directory),
            Node::File(_) => None,
        }
    }
}

/// Which changes a power cut leaves.
fn kept<'a, T>(since: &'a [T], keeps: Keeps, rng: &mut Rng) -> Vec<&'a T> {
    let count = since.len();
    let first = match keeps {
        Keeps::Nothing => 0,
        Keeps::Everything | Keeps::Some | Keeps::Sectors => count,
        Keeps::Prefixes => usize::try_from(rng.below(count as u64 + 1)).unwrap_or(count),
    };
    let any = matches!(keeps, Keeps::Some | Keeps::Sectors);
    let kept = since[..first].iter();
    kept.filter(|_| !any || rng.once_in(2)).collect()
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(content, *offset, bytes),
            Self::Cut { len } => content.resize(*len, 0),
        }
    }

    /// Applies the change as far as a power cut in its middle leaves it. Missing sectors were never
    /// written, though the file may be longer by them.
    fn apply_some(&self, content: &mut Vec<u8>, keeps: Keeps, rng: &mut Rng) {
        let Self::Write { offset, bytes } = self else {
            return self.apply(content);
        };
        if keeps != Keeps::Sectors {
            return self.apply(content);
        }
        let mut at = *offset;
        let end = at + bytes.len();
        while at < end {
            let next = (at / SECTOR + 1) * SECTOR;
            let piece = &bytes[at - offset..next.min(end) - offset];
            if rng.once_in(2) {
                put(content, at, piece);
            }
            at = next;
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, Inode>) {
        match self.inode {
            Some(inode) => names.insert(self.name.clone(), inode),
            None => names.remove(&self.name),
        };
    }
}
