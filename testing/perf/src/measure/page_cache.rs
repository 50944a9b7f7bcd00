//! The part of a server's data in the page cache.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// Waits until nothing on this file system is on its way to the disk.
pub(super) fn settle(data: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(data)?)?)
}

/// Drops all files below a directory from the page cache. Returns their length in bytes.
///
/// It takes no rights but those to read the files. Pages that a process has mapped stay.
pub(super) fn drop_files(data: &Path) -> io::Result<u64> {
    // Dirty pages would stay.
    settle(data)?;
    let mut len = 0;
    let mut directories = vec![data.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                let file = File::open(entry.path())?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
                len += file.metadata()?.len();
            }
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_directories_are_dropped_too_and_keep_their_bytes() {
        let data = tempfile::tempdir().unwrap();
        let inner = data.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("large"), [1; 10_000]).unwrap();
        fs::write(data.path().join("small"), [2; 10]).unwrap();
        assert_eq!(drop_files(data.path()).unwrap(), 10_010);
        assert_eq!(fs::read(inner.join("large")).unwrap(), [1; 10_000]);
    }
}
