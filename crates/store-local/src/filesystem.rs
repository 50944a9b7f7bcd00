//! The only room that names the operating system's file calls.
//!
//! Everything here blocks. What is durable after a call is said at each function; nothing is ever
//! synced a second time after a sync failed (see [`crate::sync_health::FailStop`]), and one that succeeded is relied on only
//! when the file system is alive after it (see [`JournalHealth`](crate::sync_health::JournalHealth)).

pub(crate) mod features;

use std::fs::{DirBuilder, File, FileType, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use windlass_store::{Space, Timestamp};

pub(crate) use features::{Safety, is_refused, judge, takes_direct_writes, write_directly};

/// Makes a directory that only its owner may enter. Anyone who wants it durable syncs its parent.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory and all that are missing above it, every new name durable.
pub(crate) fn make_directories_durably(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if path.is_dir() {
        return match sync_directory(parent) {
            // It was made by somebody who may look into the parent, and who answers for its name.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            result => result,
        };
    }
    if !parent.is_dir() {
        make_directories_durably(parent)?;
    }
    make_directory(path)?;
    sync_directory(parent)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    open_directory(path)?.sync_all()
}

/// Opens a directory, so that it can be synced later without an open that may fail.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Makes a new, empty file; its name must be free.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    private().create_new(true).open(path)
}

/// Opens a file, made now if it does not exist.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    private().create(true).truncate(false).open(path)
}

/// Opens an existing file for reading and writing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    private().open(path)
}

/// Opens an existing file for reading.
pub(crate) fn open_for_reading(path: &Path) -> io::Result<File> {
    File::open(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Takes the lock of a file, held until the file is closed. `None` when somebody else has it.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = open_or_create(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Takes the lock of a file together with others, after those who have it alone; held until the
/// file is closed.
pub(crate) fn lock_shared(path: &Path) -> io::Result<File> {
    let file = open_or_create(path)?;
    file.lock_shared()?;
    Ok(file)
}

/// A write that stopped early.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// Bytes that were written before.
    pub(crate) written: u64,
    /// Why it stopped.
    pub(crate) error: io::Error,
}

/// Writes all pieces one after another at `offset`. Nothing is durable yet.
pub(crate) fn write_all_at(
    file: &File,
    pieces: &[impl AsRef<[u8]>],
    offset: u64,
) -> Result<(), Stopped> {
    let slices = pieces.iter().map(|piece| IoSlice::new(piece.as_ref()));
    let mut slices: Vec<IoSlice<'_>> = slices.collect();
    let mut rest = slices.as_mut_slice();
    IoSlice::advance_slices(&mut rest, 0); // Skips pieces that are empty.
    let mut written = 0;
    while !rest.is_empty() {
        // rustix hands the kernel no more slices than it takes at once.
        match rustix::io::pwritev(file, rest, offset + written) {
            Ok(0) => {
                return Err(Stopped {
                    written,
                    error: io::ErrorKind::WriteZero.into(),
                });
            }
            Ok(count) => {
                written += count as u64;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(Stopped {
                    written,
                    error: errno.into(),
                });
            }
        }
    }
    Ok(())
}

/// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
pub(crate) fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut buf[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buf.truncate(filled);
    Ok(buf)
}

/// Makes the bytes of a file durable, and its length with them.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Whether an open file still has a name. One without is gone as soon as it is closed.
pub(crate) fn has_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

/// Writes a file over itself and syncs it.
///
/// A file that an earlier process left may hold bytes that only the page cache has: they were never
/// synced, or their sync failed, after which Linux calls the pages clean. A sync alone would then
/// say OK and write nothing. Written again, they are dirty again, and the sync means something.
pub(crate) fn rewrite_durably(path: &Path) -> io::Result<()> {
    const STEP: usize = 1 << 20;
    let file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut offset = 0;
    loop {
        let piece = read_at(&file, offset, STEP)?;
        if piece.is_empty() {
            return file.sync_all();
        }
        let len = piece.len() as u64;
        write_all_at(&file, &[piece], offset).map_err(|stopped| stopped.error)?;
        offset += len;
    }
}

/// The names in a directory, unordered. A directory that does not exist has none.
pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
    let entries = match path.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    names.collect()
}

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// What it is, not what a link points to.
    pub(crate) kind: FileType,
}

/// What is in a directory, in the order of the names. A directory that does not exist is empty.
pub(crate) fn entries(path: &Path) -> io::Result<Vec<Entry>> {
    let entries = match path.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let entries = entries.map(|entry| {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        Ok(Entry { path, kind })
    });
    let mut entries: Vec<Entry> = entries.collect::<io::Result<_>>()?;
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Whether there is a file of this name.
pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// How long a file is; 0 when it does not exist.
pub(crate) fn len(path: &Path) -> io::Result<u64> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => Ok(metadata?.len()),
    }
}

/// When a file was last written; `None` when it does not exist.
pub(crate) fn modified(path: &Path) -> io::Result<Option<Timestamp>> {
    let metadata = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    let since_epoch = metadata
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(Some(Timestamp::from_millis(0).saturating_add(since_epoch)))
}

/// Removes a file. One that does not exist is a success. The removal is not durable.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Gives a file another name, in the place of the file that has it. Not durable.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// The one path of a file or directory, which exists.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Whether two files are on one file system.
pub(crate) fn are_together(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(one.metadata()?.dev() == other.metadata()?.dev())
}

/// Cuts a file off.
pub(crate) fn cut(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)
}

/// Room on the device of `path`, as far as this user may take it.
pub(crate) fn space(path: &Path) -> io::Result<Space> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(Space {
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        disk: path.metadata()?.dev(),
    })
}

/// Sets room aside for a file of so many bytes.
pub(crate) fn allocate(file: &File, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(
        file,
        FallocateFlags::empty(),
        0,
        len,
    )?)
}

/// Room that a file takes up, which has little to do with its length.
pub(crate) fn room_of(file: &File) -> io::Result<u64> {
    const BLOCK_LEN: u64 = 512;
    Ok(file.metadata()?.blocks().saturating_mul(BLOCK_LEN))
}

/// Whether a write failed for want of room: the disk, a quota, or the largest size of a file.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}

/// `path` with `suffix` put behind its last name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
