//! Where a floor puts its files.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

/// Number of directories. Writers in one directory wait for its lock; in this number they do not
/// meet.
const DIRECTORIES: u64 = 256;

/// Files by name, spread over directories.
#[derive(Debug, Clone)]
pub(super) struct FileStore {
    directory: PathBuf,
    is_durable: bool,
}

impl FileStore {
    /// Makes the directories.
    pub(super) fn new(directory: &Path, is_durable: bool) -> io::Result<Self> {
        for number in 0..DIRECTORIES {
            std::fs::create_dir_all(directory.join(format!("{number:02x}")))?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            is_durable,
        })
    }

    /// Whether files are synced.
    pub(super) fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Opens a file to write to. Creates the file if it does not exist.
    pub(super) fn open_to_write(&self, name: &str) -> io::Result<File> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        options.open(self.path(name))
    }

    /// A file to read.
    pub(super) fn open_to_read(&self, name: &str) -> io::Result<File> {
        File::open(self.path(name))
    }

    /// Makes the written bytes durable, if durability is asked for.
    pub(super) fn finish(&self, file: &File) -> io::Result<()> {
        if self.is_durable {
            file.sync_data()?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let number = hasher.finish() % DIRECTORIES;
        self.directory.join(format!("{number:02x}")).join(name)
    }
}
