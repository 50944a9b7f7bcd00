//! Writes past the page cache: which file systems take them, and how they are asked for.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;

#[cfg(target_os = "linux")]
use super::magic;

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
    magic::of(path).is_ok_and(is_known_for_it)
}

#[cfg(target_os = "linux")]
fn is_known_for_it(magic: u32) -> bool {
    matches!(magic, magic::EXT | magic::XFS | magic::F2FS)
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
    fn who_is_said_to_take_direct_writes_can_be_asked_for_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        if takes_direct_writes(file.path()) {
            write_directly(file.as_file(), true).unwrap();
        }
        assert!(!takes_direct_writes(Path::new("/dev/null")));
        assert!(is_known_for_it(0xEF53) && !is_known_for_it(0x9123_683E));
    }
}
