//! The only module that makes file system calls. It also knows about file systems: whether one
//! keeps synced bytes, and whether it supports writes past the page cache.
//!
//! Everything here blocks. Each function says what is durable after it. No sync is repeated after a
//! failed one (see [`FailStop`](crate::sync_health::FailStop)), and a successful one is relied on
//! only if the file system has not stopped since (see
//! [`StopProbe`](crate::sync_health::StopProbe)).

mod copy;

use std::fs::{DirBuilder, File, FileType, Metadata, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use windlass_store::{Space, Timestamp};

pub(crate) use copy::{CopyFailed, copy_range};

/// Creates a directory for its owner only, if it does not exist. Its name is durable after a sync
/// of its parent.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if !path.is_dir() => Err(Errno::NOTDIR.into()),
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
    let mut options = OpenOptions::new();
    // A named pipe in its place would otherwise wait for a writer.
    options.custom_flags(OFlags::DIRECTORY.bits().cast_signed());
    options.read(true).open(path)
}

/// Creates an empty file. Fails if the name is taken.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open_regular(private().create_new(true), path)
}

/// Opens a file for reading and writing, or creates it.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    open_regular(private().create(true).truncate(false), path)
}

/// Opens an existing file for reading and writing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_regular(&mut private(), path)
}

/// Opens an existing file for reading.
pub(crate) fn open_for_reading(path: &Path) -> io::Result<File> {
    open_regular(OpenOptions::new().read(true), path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Opens a regular file, and nothing else in its place. The store makes nothing else: a symbolic
/// link that somebody has made would have the server read or write a file elsewhere, and a named
/// pipe would have it wait without end.
fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    match opened {
        Ok(file) => match NotAFile::of(file.metadata()?.file_type()) {
            None => Ok(file),
            Some(other) => Err(io::Error::other(other)),
        },
        // The kind of the existing file is a clearer message than "too many levels of symbolic
        // links".
        Err(error) => Err(refuse_special(path).err().unwrap_or(error)),
    }
}

/// Refuses a path at which there is something else than a file. SQLite opens the ledger by its
/// path, and would wait for a named pipe.
pub(crate) fn refuse_special(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Ok(metadata) => NotAFile::of(metadata.file_type()),
        Err(_) => None,
    };
    found.map_or(Ok(()), |other| Err(io::Error::other(other)))
}

/// The kind of a special file in the place of a file of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAFile {
    #[error("it is a directory, and must be a file")]
    Directory,
    #[error("it is a symbolic link, and must be a file")]
    Link,
    #[error("it is a named pipe, and must be a file")]
    Pipe,
    #[error("it is a socket, and must be a file")]
    Socket,
    #[error("it is a device, and must be a file")]
    Device,
}

impl NotAFile {
    fn of(kind: FileType) -> Option<Self> {
        if kind.is_file() {
            None
        } else if kind.is_dir() {
            Some(Self::Directory)
        } else if kind.is_symlink() {
            Some(Self::Link)
        } else if kind.is_fifo() {
            Some(Self::Pipe)
        } else if kind.is_socket() {
            Some(Self::Socket)
        } else {
            Some(Self::Device)
        }
    }
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

/// Returns whether a file or directory exists. Nothing exists below a file.
pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    match path.try_exists() {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        exists => exists,
    }
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

/// Why other users can change the contents of a directory or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SharedDirectory {
    /// Its permissions let its group or everybody write to it.
    #[error("its permissions are {mode:04o}")]
    Writable {
        /// Permissions of the directory or the file.
        mode: u32,
    },
    /// It belongs to a user other than root and the user of this process.
    #[error("it belongs to the user {owner}, and this process to the user {user}")]
    Foreign {
        /// Owner of the directory or the file.
        owner: u32,
        /// User of this process.
        user: u32,
    },
}

/// Returns how other users can change the contents of a directory or a file, or `None` if they
/// cannot. Root always can.
///
/// The group bits are also the upper limit of an access control list.
pub(crate) fn shared_with_others(path: &Path) -> io::Result<Option<SharedDirectory>> {
    Ok(SharedDirectory::judged(&path.metadata()?))
}

impl SharedDirectory {
    /// Judges an open file by its metadata.
    pub(crate) fn judged(metadata: &Metadata) -> Option<Self> {
        let mode = metadata.permissions().mode() & 0o7777;
        let user = rustix::process::geteuid().as_raw();
        Self::of(metadata.uid(), mode, user)
    }

    /// Whether everybody can, and not only some users.
    pub(crate) fn is_open_to_all(self) -> bool {
        matches!(self, Self::Writable { mode } if mode & 0o002 != 0)
    }

    /// Judges a directory or a file for a process of `user`.
    fn of(owner: u32, mode: u32, user: u32) -> Option<Self> {
        if owner != user && owner != 0 {
            Some(Self::Foreign { owner, user })
        } else if mode & 0o022 != 0 {
            Some(Self::Writable { mode })
        } else {
            None
        }
    }
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

#[cfg(target_os = "linux")]
/// ext2, ext3 and ext4.
pub(crate) const EXT: u32 = 0x0000_EF53;
#[cfg(target_os = "linux")]
pub(crate) const XFS: u32 = 0x5846_5342;
#[cfg(target_os = "linux")]
const F2FS: u32 = 0xF2F5_2010;

#[cfg(target_os = "linux")]
/// Returns the number that statfs(2) has for the file system of `path` (`linux/magic.h`). Only the
/// low 32 bits count, because some architectures extend the sign.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the low 32 bits"
)]
pub(crate) fn magic(path: &Path) -> io::Result<u32> {
    Ok(rustix::fs::statfs(path)?.f_type as u32)
}

/// Whether a file system keeps synced bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Safety {
    /// It is known to keep them.
    Safe,
    /// It may keep them. The operator is warned, for this reason.
    Doubtful(&'static str),
    /// It is known to lose them, for this reason.
    Unsafe(&'static str),
}

/// Assesses the file system of `dir`.
#[cfg(target_os = "linux")]
pub(crate) fn assess(dir: &Path) -> io::Result<Safety> {
    let by_magic = assess_magic(magic(dir)?);
    let device = dir.metadata()?.dev();
    let device = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Ok(match assess_mount(&mounts, &device) {
        Safety::Safe => by_magic,
        by_options => by_options,
    })
}

/// Assesses the file system of `dir`: nothing is known of it on this operating system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn assess(_dir: &Path) -> io::Result<Safety> {
    Ok(Safety::Doubtful(
        "nothing is known about file systems on this operating system",
    ))
}

#[cfg(target_os = "linux")]
fn assess_magic(magic: u32) -> Safety {
    match magic {
        EXT
        | XFS
        | F2FS
        | 0x9123_683E // Btrfs
        | 0x2FC1_2FC1 // ZFS
        | 0xCA45_1A4E // bcachefs
        | 0x3153_464A // JFS
        => Safety::Safe,
        0x0102_1994 => Safety::Unsafe("tmpfs keeps everything in memory"),
        0x8584_58F6 => Safety::Unsafe("ramfs keeps everything in memory"),
        0x0000_6969 => Safety::Unsafe("NFS may lose synced bytes, and its locks may not be exclusive"),
        0x0102_1997 => Safety::Unsafe("9p leaves syncing to the host"),
        0x6573_5546 => Safety::Unsafe("FUSE leaves syncing to a program"),
        0xFF53_4D42 | 0xFE53_4D42 | 0x0000_517B => {
            Safety::Unsafe("CIFS and SMB leave syncing to the server")
        }
        0x00C3_6400 | 0x5346_414F | 0x7375_7245 => {
            Safety::Unsafe("a network file system leaves syncing to its server")
        }
        0x794C_7630 => Safety::Doubtful(
            "overlay: the data is in the layer of a container and is deleted with it; use a volume",
        ),
        _ => Safety::Doubtful("this file system is not known to keep synced bytes"),
    }
}

/// Assesses the options of a mount, some of which switch durability off.
///
/// `mounts` is `/proc/self/mountinfo`, of which each line reads
/// `36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw,barrier=0`.
#[cfg(target_os = "linux")]
fn assess_mount(mounts: &str, device: &str) -> Safety {
    let of_device = mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(device));
    let mut options = of_device
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(2))
        .flat_map(|options| options.split(','));
    if options.any(|option| matches!(option, "nobarrier" | "barrier=0" | "volatile")) {
        return Safety::Unsafe("it is mounted with an option that switches durability off");
    }
    Safety::Safe
}

/// Returns whether the file system of `path` is efficient with writes past the page cache in units
/// of [`WRITE_UNIT`](windlass_store::WRITE_UNIT).
///
/// Linux reports it since 6.1 (`STATX_DIOALIGN` in statx(2)). If it does not, a list of file
/// systems decides. Btrfs is not on it: it accepts such writes, and sends them through the page
/// cache for its checksums.
#[cfg(target_os = "linux")]
pub(crate) fn takes_direct_writes(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxFlags};

    let stat = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN);
    if let Ok(stat) = stat
        && StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN)
    {
        let fits =
            |align: u32| align > 0 && windlass_store::WRITE_UNIT.is_multiple_of(align as usize);
        return fits(stat.stx_dio_mem_align) && fits(stat.stx_dio_offset_align);
    }
    magic(path).is_ok_and(has_efficient_direct_writes)
}

#[cfg(target_os = "linux")]
fn has_efficient_direct_writes(magic: u32) -> bool {
    matches!(magic, EXT | XFS | F2FS)
}

/// Switches writes past the page cache on or off for a descriptor.
///
/// # Errors
/// One for which [`is_refused`] is true if the file system does not support it.
#[cfg(target_os = "linux")]
pub(crate) fn write_directly(file: &File, is_direct: bool) -> io::Result<()> {
    let flags = if is_direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    };
    Ok(rustix::fs::fcntl_setfl(file, flags)?)
}

/// Returns `false`: nothing is known about file systems on this operating system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn takes_direct_writes(_path: &Path) -> bool {
    false
}

/// Refuses direct writes on other operating systems.
#[cfg(not(target_os = "linux"))]
pub(crate) fn write_directly(_file: &File, is_direct: bool) -> io::Result<()> {
    if is_direct {
        return Err(Errno::INVAL.into());
    }
    Ok(())
}

/// Returns whether an error means that the file system does not support a direct write.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::OPNOTSUPP))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn directories_that_others_can_change_are_told_apart() {
        use SharedDirectory::{Foreign, Writable};

        let (owner, user) = (1000, 999);
        let cases = [
            (999, 0o700, None),
            (999, 0o755, None),
            (999, 0o2755, None),
            (999, 0o720, Some(Writable { mode: 0o720 })),
            (999, 0o702, Some(Writable { mode: 0o702 })),
            (999, 0o1777, Some(Writable { mode: 0o1777 })),
            (0, 0o755, None),
            (0, 0o775, Some(Writable { mode: 0o775 })),
            (1000, 0o700, Some(Foreign { owner, user })),
        ];
        for (owner, mode, expected) in cases {
            assert_eq!(
                SharedDirectory::of(owner, mode, user),
                expected,
                "{owner} {mode:o}"
            );
        }
    }

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(path("pipe"))
            .status();
        assert!(made.unwrap().success());
        let _listener = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        std::fs::write(path("file"), "cow").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        for (path, expected) in [
            (path("pipe"), NotAFile::Pipe),
            (path("socket"), NotAFile::Socket),
            (path("link"), NotAFile::Link),
            (dir.path().to_owned(), NotAFile::Directory),
            (PathBuf::from("/dev/null"), NotAFile::Device),
        ] {
            for opened in [open(&path), open_or_create(&path), open_for_reading(&path)] {
                assert_eq!(opened.unwrap_err().to_string(), expected.to_string());
            }
            let refused = refuse_special(&path).unwrap_err().to_string();
            assert_eq!(refused, expected.to_string());
        }
        for opened in [open(&path("file")), open_for_reading(&path("file"))] {
            assert_eq!(opened.unwrap().metadata().unwrap().len(), 3);
        }
        refuse_special(&path("file")).unwrap();
        refuse_special(&path("none")).unwrap();
        open_directory(&path("pipe")).unwrap_err();
        open_directory(dir.path()).unwrap();
    }

    #[test]
    fn memory_and_network_file_systems_are_refused() {
        for magic in [
            0x0102_1994,
            0x8584_58F6,
            0x6969,
            0x0102_1997,
            0x6573_5546,
            0xFF53_4D42,
        ] {
            assert!(
                matches!(assess_magic(magic), Safety::Unsafe(_)),
                "{magic:#x}"
            );
        }
    }

    #[test]
    fn disk_file_systems_are_safe_and_overlay_is_doubtful() {
        for magic in [0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0xF2F5_2010] {
            assert_eq!(assess_magic(magic), Safety::Safe, "{magic:#x}");
        }
        assert!(matches!(assess_magic(0x794C_7630), Safety::Doubtful(_)));
        assert!(matches!(assess_magic(0x1234), Safety::Doubtful(_)));
    }

    #[test]
    fn a_mount_without_durability_is_refused() {
        let mounts = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
            23 22 8:2 / /data rw - ext4 /dev/sdb1 rw,barrier=0\n\
            24 22 0:40 / /merged rw - overlay overlay rw,lowerdir=/l,volatile\n";
        let cases = [
            ("8:1", true),
            ("8:2", false),
            ("0:40", false),
            ("9:9", true),
        ];
        for (device, safe) in cases {
            assert_eq!(
                assess_mount(mounts, device) == Safety::Safe,
                safe,
                "{device}"
            );
        }
    }

    #[test]
    fn file_systems_that_take_direct_writes_can_switch_to_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        if takes_direct_writes(file.path()) {
            write_directly(file.as_file(), true).unwrap();
        }
        assert!(!takes_direct_writes(Path::new("/dev/null")));
        assert!(has_efficient_direct_writes(0xEF53) && !has_efficient_direct_writes(0x9123_683E));
    }
}
