//! The only module that makes file system calls.
//!
//! Everything here blocks. Each function says what is durable after it. No sync is repeated after a
//! failed one (see [`FailStop`](crate::sync_health::FailStop)), and a successful one is relied on
//! only if the file system has not stopped since (see
//! [`JournalHealth`](crate::sync_health::JournalHealth)).

pub(crate) mod features;

use std::fs::{DirBuilder, File, FileType, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use windlass_store::{Space, Timestamp};

pub(crate) use features::{Safety, assess, is_refused, takes_direct_writes, write_directly};

/// Creates a directory for its owner only, if it does not exist. Its name is durable after a sync
/// of its parent.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates a directory and all missing ones above it. Every new name is durable.
pub(crate) fn make_directories_durably(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if path.is_dir() {
        return match sync_directory(parent) {
            // Without access to the parent this user has not created the directory. Its name is the
            // responsibility of its creator.
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

/// Opens a directory to be synced later. An open at the time of the sync could fail for other
/// reasons.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Creates an empty file. Fails if the name is taken.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    private().create_new(true).open(path)
}

/// Opens a file for reading and writing, or creates it.
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

/// Locks a file until it is closed. Returns `None` if it is locked already.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = open_or_create(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Locks a file together with others until it is closed. Waits for an exclusive lock.
pub(crate) fn lock_shared(path: &Path) -> io::Result<File> {
    let file = open_or_create(path)?;
    file.lock_shared()?;
    Ok(file)
}

/// A write that stopped early.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// Number of bytes written before.
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

/// Reads `len` bytes at `offset`, or fewer at the end of the file.
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

/// Makes the bytes of a file and its length durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Returns whether an open file still has a name. Without one it is deleted when it is closed.
pub(crate) fn has_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

/// Writes a file over itself and syncs it.
///
/// A file that an earlier process has left may hold bytes that are only in the page cache: they
/// were never synced, or their sync has failed, after which Linux treats the pages as clean. A sync
/// alone would then succeed and write nothing. Writing the bytes again makes the pages dirty, so
/// that the sync writes them.
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

/// Returns the names in a directory, unordered. A directory that does not exist has none.
pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
    let entries = match path.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    names.collect()
}

/// An entry of a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// Type of the entry itself, not of the target of a link.
    pub(crate) kind: FileType,
}

/// Returns the entries of a directory in the order of their names. A directory that does not exist
/// is empty.
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

/// Returns whether a file or directory exists.
pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// Returns the length of a file, or 0 if it does not exist.
pub(crate) fn len(path: &Path) -> io::Result<u64> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => Ok(metadata?.len()),
    }
}

/// Returns the modification time of a file, or `None` if it does not exist.
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

/// Removes a file. Succeeds if it does not exist. Not durable.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Renames a file, replacing any file of the new name. Not durable.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Returns the canonical path of a file or directory, which must exist.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Returns whether two files are on the same file system.
pub(crate) fn on_same_filesystem(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(one.metadata()?.dev() == other.metadata()?.dev())
}

/// Truncates or extends a file. Not durable.
pub(crate) fn cut(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)
}

/// Returns the space on the disk of `path` that this user may use.
pub(crate) fn space(path: &Path) -> io::Result<Space> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(Space {
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        disk: path.metadata()?.dev(),
    })
}

/// Allocates space for a file of `len` bytes.
pub(crate) fn allocate(file: &File, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(
        file,
        FallocateFlags::empty(),
        0,
        len,
    )?)
}

/// Returns the number of bytes allocated for a file, which may differ from its length.
pub(crate) fn allocated_len(file: &File) -> io::Result<u64> {
    const BLOCK_LEN: u64 = 512;
    Ok(file.metadata()?.blocks().saturating_mul(BLOCK_LEN))
}

/// Returns whether an error means a lack of space: a full disk, a quota, or the maximum size of a
/// file.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}

/// Returns `path` with `suffix` appended to its last component.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
