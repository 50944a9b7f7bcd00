//! File systems by the numbers that statfs(2) has for them; see `linux/magic.h`.

use std::io;
use std::path::Path;

/// ext2, ext3 and ext4.
pub(super) const EXT: u32 = 0x0000_EF53;
pub(super) const XFS: u32 = 0x5846_5342;
pub(super) const F2FS: u32 = 0xF2F5_2010;

/// The number of the file system that holds `path`. Only the low 32 bits count: some architectures extend the sign.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the low 32 bits"
)]
pub(super) fn of(path: &Path) -> io::Result<u32> {
    Ok(rustix::fs::statfs(path)?.f_type as u32)
}
