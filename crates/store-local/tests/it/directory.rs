//! A data directory for one test.

use tempfile::TempDir;
use windlass_store_local::{LocalStore, Options};

/// A directory next to the build, which is on a real disk more often than `/tmp` is.
pub(crate) fn new() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build directory is writable")
}

/// Opens the store in it. An unsafe file system is good enough for tests.
pub(crate) fn open(dir: &TempDir) -> LocalStore {
    let options = Options::default().allow_unsafe_filesystem(true);
    LocalStore::open(dir.path(), options).expect("the store opens")
}
