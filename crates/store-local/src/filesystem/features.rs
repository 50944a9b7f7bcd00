//! What is known of file systems: which one holds a file, whether it can be relied on, and whether it takes writes
//! past the page cache.
//!
//! File systems by the numbers that statfs(2) has for them; see `linux/magic.h`.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;

#[cfg(target_os = "linux")]
/// ext2, ext3 and ext4.
pub(crate) const EXT: u32 = 0x0000_EF53;
#[cfg(target_os = "linux")]
pub(crate) const XFS: u32 = 0x5846_5342;
#[cfg(target_os = "linux")]
const F2FS: u32 = 0xF2F5_2010;

#[cfg(target_os = "linux")]
/// The number of the file system that holds `path`. Only the low 32 bits count: some architectures extend the sign.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the low 32 bits"
)]
pub(crate) fn magic(path: &Path) -> io::Result<u32> {
    Ok(rustix::fs::statfs(path)?.f_type as u32)
}

/// What is known of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Safety {
    /// Known to keep what it has synced.
    Safe,
    /// It may; the operator should know.
    Doubtful(&'static str),
    /// It cannot keep the promise.
    Unsafe(&'static str),
}

/// Judges the file system that holds `dir`.
#[cfg(target_os = "linux")]
pub(crate) fn judge(dir: &Path) -> io::Result<Safety> {
    use std::os::unix::fs::MetadataExt;

    let by_magic = judge_magic(magic(dir)?);
    let device = dir.metadata()?.dev();
    let device = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Ok(match judge_mount(&mounts, &device) {
        Safety::Safe => by_magic,
        by_options => by_options,
    })
}

/// Judges the file system that holds `dir`: nothing is known of it on this operating system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn judge(_dir: &Path) -> io::Result<Safety> {
    Ok(Safety::Doubtful(
        "nothing is known of file systems on this operating system",
    ))
}

#[cfg(target_os = "linux")]
fn judge_magic(magic: u32) -> Safety {
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
        0x0000_6969 => Safety::Unsafe("NFS may lose what it has synced, and its locks are not ours"),
        0x0102_1997 => Safety::Unsafe("9p leaves syncing to the other side"),
        0x6573_5546 => Safety::Unsafe("FUSE leaves syncing to a program"),
        0xFF53_4D42 | 0xFE53_4D42 | 0x0000_517B => {
            Safety::Unsafe("CIFS and SMB leave syncing to the other side")
        }
        0x00C3_6400 | 0x5346_414F | 0x7375_7245 => {
            Safety::Unsafe("a network file system leaves syncing to the other side")
        }
        0x794C_7630 => Safety::Doubtful(
            "overlay: the data lives in a container's own layer and dies with it; use a volume",
        ),
        _ => Safety::Doubtful("this file system is not known to keep what it has synced"),
    }
}

/// By the options of the mount: some switch durability off.
///
/// `mounts` is `/proc/self/mountinfo`, of which each line reads
/// `36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw,barrier=0`.
#[cfg(target_os = "linux")]
fn judge_mount(mounts: &str, device: &str) -> Safety {
    let of_device = mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(device));
    let mut options = of_device
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(2))
        .flat_map(|options| options.split(','));
    if options.any(|option| matches!(option, "nobarrier" | "barrier=0" | "volatile")) {
        return Safety::Unsafe("it is mounted with an option that gives durability up");
    }
    Safety::Safe
}

/// Whether writes past the page cache, in units of [`WRITE_UNIT`](windlass_store::WRITE_UNIT), are what the file
/// system of this file is good at.
///
/// Linux tells since 6.1 (`STATX_DIOALIGN` in statx(2)). Where it does not, the file systems are named of which it
/// is known. Btrfs is not among them: it takes such writes, and sends them through the page cache for its checksums.
#[cfg(target_os = "linux")]
pub(crate) fn takes_direct_writes(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxFlags};

    let told = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN);
    if let Ok(told) = told
        && StatxFlags::from_bits_retain(told.stx_mask).contains(StatxFlags::DIOALIGN)
    {
        let fits =
            |align: u32| align > 0 && windlass_store::WRITE_UNIT.is_multiple_of(align as usize);
        return fits(told.stx_dio_mem_align) && fits(told.stx_dio_offset_align);
    }
    magic(path).is_ok_and(is_known_for_it)
}

#[cfg(target_os = "linux")]
fn is_known_for_it(magic: u32) -> bool {
    matches!(magic, EXT | XFS | F2FS)
}

/// From now on writes of this descriptor go past the page cache, or no longer do.
///
/// # Errors
/// One that [`is_refused`] knows when the file system cannot do that.
#[cfg(target_os = "linux")]
pub(crate) fn write_directly(file: &File, is_direct: bool) -> io::Result<()> {
    use rustix::fs::OFlags;

    let flags = if is_direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    };
    Ok(rustix::fs::fcntl_setfl(file, flags)?)
}

/// Whether such writes are what the file system is good at: not known on this operating system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn takes_direct_writes(_path: &Path) -> bool {
    false
}

/// Other operating systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn write_directly(_file: &File, is_direct: bool) -> io::Result<()> {
    if is_direct {
        return Err(Errno::INVAL.into());
    }
    Ok(())
}

/// Whether the file system does not do what it was asked for.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::OPNOTSUPP))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

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
                matches!(judge_magic(magic), Safety::Unsafe(_)),
                "{magic:#x}"
            );
        }
    }

    #[test]
    fn disk_file_systems_are_safe_and_overlay_is_doubtful() {
        for magic in [0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0xF2F5_2010] {
            assert_eq!(judge_magic(magic), Safety::Safe, "{magic:#x}");
        }
        assert!(matches!(judge_magic(0x794C_7630), Safety::Doubtful(_)));
        assert!(matches!(judge_magic(0x1234), Safety::Doubtful(_)));
    }

    #[test]
    fn a_mount_that_gives_durability_up_is_refused() {
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
                judge_mount(mounts, device) == Safety::Safe,
                safe,
                "{device}"
            );
        }
    }

    #[test]
    fn who_is_said_to_take_direct_writes_can_be_asked_for_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        if takes_direct_writes(file.path()) {
            write_directly(file.as_file(), true).unwrap();
        }
        assert!(!takes_direct_writes(Path::new("/dev/null")));
        assert!(is_known_for_it(0xEF53) && !is_known_for_it(0x9123_683E));
    }
}
