//! Opens files without following links, so that a name in a directory of ours leads nowhere else.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Opens a regular file without following links. Returns `None` for a link or another special file.
pub(crate) fn open_file(options: &OpenOptions, path: &Path) -> io::Result<Option<File>> {
    match no_follow(options.clone()).open(path) {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(_) if path.symlink_metadata().is_ok_and(|it| !it.is_file()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns why others may have a hold of an open file, if they may: it belongs to another user, who
/// can always read and change it, or it has other names.
pub(crate) fn held_by_others(file: &File) -> io::Result<Option<&'static str>> {
    let metadata = file.metadata()?;
    Ok(if metadata.uid() != geteuid().as_raw() {
        Some("it belongs to another user")
    } else if metadata.nlink() > 1 {
        Some("it has another name, a hard link")
    } else {
        None
    })
}

/// Adds flags by which links are not followed.
fn no_follow(mut options: OpenOptions) -> OpenOptions {
    // `NONBLOCK`, because opening a FIFO would otherwise wait for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
    options
}
