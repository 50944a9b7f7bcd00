//! Properties of file systems: which one holds a file, whether it keeps synced bytes, and whether
//! it supports writes past the page cache.

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
    use std::os::unix::fs::MetadataExt;

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
    use rustix::fs::OFlags;

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
