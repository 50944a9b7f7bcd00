//! A directory for one run, in memory where that can be had.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

const PREFIX: &str = "windlass-sim-";

/// A directory of this process. It is removed on drop, or by a later process.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let within = if memory.is_dir() {
            memory.to_owned()
        } else {
            env::temp_dir()
        };
        remove_leftovers(&within);
        let path = within.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&path).expect("a directory can be made for the files of the simulation");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Removes the directories of processes that were killed.
fn remove_leftovers(within: &Path) {
    for entry in within.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
