//! The files of the simulated machine.
//!
//! Every change below one directory of the real system is recorded. The real directory has the
//! current content, and the [`Disk`] knows which part of it is durable. When the machine's power
//! goes out, or the process is killed, the disk decides which content is left. The next process
//! finds that content in a new directory. Later changes of the dead process in the old directory
//! have no effect. [`calls`] has the watched functions.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::off_t;
use windlass_testkit::rng::Rng;

use super::threads;
use super::trace::{digest, note};
use crate::disk::{Disk, Inode, Keeps};

mod calls;

const PURPOSE: u64 = 3;

/// Room on the disk, when it is not full.
const ROOM: u64 = 1 << 40;

static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

/// The defect of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LyingDisk {
    /// Nothing.
    #[default]
    None,
    /// It says that media is synced, and it is not.
    ForgetsMedia,
    /// It says that names are synced, and they are not.
    ForgetsNames,
    /// It says that the ledger's log is synced, and it is not.
    ForgetsLedger,
    /// Media becomes durable with the second sync of the ledger's log behind it: as if the ledger
    /// were committed first.
    SyncsMediaLate,
}

/// How a process ends that does not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The process is killed. Its writes stay in the page cache.
    Kill,
    /// The machine's power goes out.
    PowerCut(Keeps),
}

struct Machine {
    root: PathBuf,
    disk: Disk,
    open: BTreeMap<c_int, Open>,
    rng: Rng,
    lying_disk: LyingDisk,
    /// Files with a deferred sync, and whether the log was synced since.
    late: Vec<(Inode, bool)>,
    /// How many changes it is to the end of the process.
    fuse: Option<(u64, End)>,
    /// The number of syncs before one fails.
    failure: Option<u64>,
    is_full: bool,
    /// The files that the process left behind. Until they are taken, no change is recorded.
    left: Option<(Disk, End)>,
}

#[derive(Clone)]
struct Open {
    inode: Inode,
    path: PathBuf,
}

/// The outcome of a call: it is carried out, or fails with an error number.
type Verdict = Result<(), c_int>;

/// Begins to record the changes below `root`, an empty directory.
pub(crate) fn watch(root: &Path, seed: u64, lying_disk: LyingDisk) {
    *lock() = Some(Machine {
        root: root.to_owned(),
        disk: Disk::new(),
        open: BTreeMap::new(),
        rng: Rng::for_purpose(seed, PURPOSE),
        lying_disk,
        late: Vec::new(),
        fuse: None,
        failure: None,
        is_full: false,
        left: None,
    });
}

/// Ends the process after some more changes of files, unless that is to happen anyway.
pub(crate) fn end_after(changes: u64, end: End) {
    with(|machine| machine.fuse.get_or_insert((changes, end)).0);
}

/// Ends the process now.
pub(crate) fn end_now(end: End) {
    with(|machine| machine.end(end));
}

/// Makes a sync fail after this number of successful syncs.
pub(crate) fn fail_sync_after(syncs: u64) {
    with(|machine| machine.failure = Some(syncs));
}

/// Fills the disk up, or makes room.
pub(crate) fn fill_up(is_full: bool) {
    with(|machine| machine.is_full = is_full);
}

/// Whether the process has been ended, so that nothing of it may get out any more.
pub(crate) fn is_over() -> bool {
    with(|machine| machine.left.is_some()).unwrap_or(false)
}

/// Cancels all faults planned for the process and its disk.
pub(crate) fn spare() {
    with(|machine| {
        machine.fuse = None;
        machine.failure = None;
        machine.is_full = false;
    });
}

/// Puts the files of an ended process into `root` for the next process. Returns how the process
/// ended.
pub(crate) fn succeed(root: &Path) -> Option<End> {
    let (disk, end) = with(|machine| machine.left.take())??;
    // The index of the log is shared memory: it dies with the process.
    let result = disk.lay_out(root, |name| !name.ends_with("-shm"));
    result.expect("there is room for what was there before");
    with(|machine| {
        root.clone_into(&mut machine.root);
        machine.disk = disk;
        machine.open.clear();
        machine.late.clear();
        machine.fuse = None;
        machine.failure = None;
    });
    Some(end)
}

/// Compares the recorded files with the real files. Returns the path of a file that differs: an
/// unwatched call has changed it.
pub(crate) fn overlooked() -> Option<PathBuf> {
    let (disk, root) = with(|machine| (machine.disk.clone(), machine.root.clone()))?;
    let mut paths = vec![PathBuf::new()];
    while let Some(path) = paths.pop() {
        let inode = disk.find(&path).expect("it is in the list of names");
        if let Some(cached) = disk.cached(inode) {
            let there = std::fs::read(root.join(&path)).ok();
            if there.as_deref() != Some(cached) {
                return Some(path);
            }
        }
        let names = disk
            .names(inode)
            .filter(|(name, _)| !name.ends_with("-shm"));
        paths.extend(names.map(|(name, _)| path.join(name)));
    }
    None
}

impl Machine {
    /// A path of the machine, as it is below its root.
    fn path(&self, path: &Path) -> Option<PathBuf> {
        let path = path.strip_prefix(&self.root).ok()?;
        self.left.is_none().then(|| path.to_owned())
    }

    fn open(&self, fd: c_int) -> Option<Open> {
        let open = self.open.get(&fd).cloned()?;
        self.left.is_none().then_some(open)
    }

    /// Counts a change before it is made.
    fn burn(&mut self) {
        match &mut self.fuse {
            Some((0, end)) => {
                let end = *end;
                self.end(end);
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
    }

    fn end(&mut self, end: End) {
        if self.left.is_some() {
            return;
        }
        note!("machine  {end:?}");
        let disk = match end {
            End::Kill => self.disk.clone(),
            End::PowerCut(keeps) => self.disk.after_power_cut(keeps, &mut self.rng),
        };
        self.left = Some((disk, end));
    }

    fn opened(&mut self, fd: c_int, path: PathBuf, flags: c_int) {
        let inode = if let Some(inode) = self.disk.find(&path) {
            inode
        } else {
            self.burn();
            note!("disk     create {}", path.display());
            let created = self.disk.create(&path);
            created.expect("its directory is there")
        };
        if flags & libc::O_TRUNC != 0 {
            self.disk.set_len(inode, 0);
        }
        self.open.insert(fd, Open { inode, path });
    }

    fn writes(&mut self, file: &Open, offset: off_t, bytes: Vec<u8>) -> Verdict {
        self.burn();
        let offset = usize::try_from(offset).expect("an offset is not negative");
        let name = file.path.display();
        if name_ends_with(&file.path, "-shm") {
            return Ok(());
        }
        if self.is_full {
            note!("disk     write {name} {offset}+{}: full", bytes.len());
            return Err(libc::ENOSPC);
        }
        note!(
            "disk     write {name} {offset}+{} {:016x}",
            bytes.len(),
            digest(&bytes)
        );
        if self.left.is_none() {
            self.disk.write(file.inode, offset, bytes);
        }
        Ok(())
    }

    fn makes_directory(&mut self, path: &Path) {
        self.burn();
        note!("disk     mkdir {}", path.display());
        if self.left.is_none() {
            self.disk.make_directory(path);
        }
    }

    fn unlinks(&mut self, path: &Path) {
        self.burn();
        note!("disk     unlink {}", path.display());
        if self.left.is_none() {
            self.disk.unlink(path);
        }
    }

    fn cuts(&mut self, file: &Open, len: off_t) {
        self.burn();
        let len = usize::try_from(len).expect("a length is not negative");
        note!("disk     cut {} {len}", file.path.display());
        if self.left.is_none() && !name_ends_with(&file.path, "-shm") {
            self.disk.set_len(file.inode, len);
        }
    }

    /// Room that is set aside reads as zeros; nothing else of it is seen here.
    fn allocates(&mut self, file: &Open, end: off_t) -> Verdict {
        self.burn();
        let end = usize::try_from(end).expect("an end is not negative");
        let name = file.path.display();
        if self.is_full {
            note!("disk     allocate {name} {end}: full");
            return Err(libc::ENOSPC);
        }
        note!("disk     allocate {name} {end}");
        let len = self.disk.cached(file.inode).map_or(0, <[u8]>::len);
        if self.left.is_none() && len < end {
            self.disk.set_len(file.inode, end);
        }
        Ok(())
    }

    fn syncs(&mut self, file: &Open) -> Verdict {
        self.burn();
        let name = file.path.display();
        match &mut self.failure {
            Some(0) => {
                self.failure = None;
                note!("disk     sync {name}: fails");
                if self.left.is_none() {
                    self.disk.fail_sync(file.inode);
                }
                return Err(libc::EIO);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        note!("disk     sync {name}");
        if self.left.is_none() {
            self.sync(file);
        }
        Ok(())
    }

    /// Makes a file durable, unless the defect of the disk prevents it.
    fn sync(&mut self, file: &Open) {
        let is_directory = self.disk.cached(file.inode).is_none();
        let is_media =
            !is_directory && file.path.starts_with("vault") && !file.path.ends_with("identity");
        let is_log = name_ends_with(&file.path, "-wal");
        match self.lying_disk {
            LyingDisk::ForgetsMedia if is_media => {}
            LyingDisk::ForgetsNames if is_directory => {}
            LyingDisk::ForgetsLedger if is_log => {}
            LyingDisk::SyncsMediaLate if is_media => self.late.push((file.inode, false)),
            _ => self.disk.sync(file.inode),
        }
        if is_log {
            let is_due = |late: &mut (Inode, bool)| std::mem::replace(&mut late.1, true);
            for (inode, _) in self.late.extract_if(.., is_due) {
                self.disk.sync(inode);
            }
        }
    }
}

fn name_ends_with(path: &Path, end: &str) -> bool {
    path.as_os_str().as_bytes().ends_with(end.as_bytes())
}

fn lock() -> MutexGuard<'static, Option<Machine>> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with the machine, if there is one and the calling thread is of the simulation.
fn with<T>(act: impl FnOnce(&mut Machine) -> T) -> Option<T> {
    if !threads::is_simulated() {
        return None;
    }
    lock().as_mut().map(act)
}
