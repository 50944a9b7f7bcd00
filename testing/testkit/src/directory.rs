//! Directories of fixtures.

use std::fs;
use std::path::Path;

/// Copies the content of a directory into another directory, which it creates if it is missing.
///
/// # Panics
/// If a file cannot be read or written.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the directory can be created");
    for entry in fs::read_dir(from).expect("the directory can be read") {
        let path = entry.expect("the directory can be read").path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("the file can be copied");
        }
    }
}
