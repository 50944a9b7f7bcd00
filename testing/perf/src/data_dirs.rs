//! The directories for the data of servers, on the measured disk.
//!
//! ext4 does not use an inode again for minutes and looks past it at each create. The data of a run
//! therefore stays until the end, or until the disk needs the room.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use windlass_testkit::cleanup::ScratchDir;

use crate::units::GIB;

/// Bytes that always stay free on the measured disk.
const RESERVE: u64 = 8 * GIB;

/// Ends the servers with ids in the directory, each with its process group.
const CLEANING: &str = r#"
for file in "$1"/*.pid; do
    test -f "$file" && kill -s KILL -- "-$(cat "$file")"
done
"#;

/// A directory of data directories. It is removed at the end, also when this process is killed.
#[derive(Debug)]
pub(crate) struct DataDirs {
    directory: ScratchDir,
    /// How much may lie in it.
    limit: u64,
    /// How much is left free on the disk.
    reserve: u64,
    kept: Vec<PathBuf>,
    kept_bytes: u64,
    count: u64,
}

impl DataDirs {
    /// An empty one in `parent`.
    ///
    /// # Errors
    /// When no directory can be made, or no shell started.
    pub(crate) fn new(parent: &Path, limit: u64) -> anyhow::Result<Self> {
        Self::with_reserve(parent, limit, RESERVE)
    }

    fn with_reserve(parent: &Path, limit: u64, reserve: u64) -> anyhow::Result<Self> {
        std::fs::create_dir_all(parent)?;
        let directory = ScratchDir::new_in(parent, "windlass-perf-", CLEANING)
            .context("no directory for data")?;
        Ok(Self {
            directory,
            limit,
            reserve,
            kept: Vec::new(),
            kept_bytes: 0,
            count: 0,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A new directory for a run that leaves this number of bytes. All writes of earlier runs are
    /// on the disk then.
    ///
    /// # Errors
    /// When the disk has no room, even after everything that lies here was removed.
    pub(crate) fn new_dir(&mut self, bytes: u64) -> anyhow::Result<PathBuf> {
        let is_full = self.kept_bytes + bytes > self.limit;
        if is_full || self.free()? < bytes + self.reserve {
            self.clear()?;
        }
        let free = self.free()?;
        ensure!(
            free >= bytes + self.reserve,
            "{} GiB are free, and {} GiB have to stay so",
            free / GIB,
            self.reserve / GIB
        );
        self.count += 1;
        let directory = self.path().join(format!("run-{}", self.count));
        std::fs::create_dir(&directory)?;
        self.kept.push(directory.clone());
        self.kept_bytes += bytes;
        self.settle()?;
        Ok(directory)
    }

    /// A new directory that stays until the end.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn file_store(&self, name: &str) -> anyhow::Result<PathBuf> {
        let directory = self.path().join(name);
        std::fs::create_dir(&directory)?;
        Ok(directory)
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// When it does not come there.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        rustix::fs::syncfs(File::open(self.path())?)?;
        Ok(())
    }

    fn clear(&mut self) -> anyhow::Result<()> {
        for directory in self.kept.drain(..) {
            std::fs::remove_dir_all(directory)?;
        }
        self.kept_bytes = 0;
        Ok(())
    }

    fn free(&self) -> anyhow::Result<u64> {
        let stat = rustix::fs::statvfs(self.path())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::process::CommandExt as _;
    use std::process::Command;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    /// Time limit of a test for an event that usually comes within milliseconds.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// Data directories on any disk, however full.
    fn data_dirs() -> DataDirs {
        DataDirs::with_reserve(&std::env::temp_dir(), 100, 0).unwrap()
    }

    #[test]
    fn directories_stay_until_they_hold_too_many_bytes() {
        let mut data_dirs = data_dirs();
        let [first, second] = [60, 40].map(|bytes| data_dirs.new_dir(bytes).unwrap());
        assert!(first.exists() && second.exists());
        let third = data_dirs.new_dir(1).unwrap();
        assert!(!first.exists() && !second.exists() && third.exists());
    }

    #[test]
    fn server_whose_pid_file_is_here_does_not_outlive_the_directory() {
        let data_dirs = data_dirs();
        let mut server = Command::new("sleep");
        let mut server = server.arg("600").process_group(0).spawn().unwrap();
        let id = server.id().to_string();
        std::fs::write(data_dirs.path().join("server.pid"), id).unwrap();
        drop(data_dirs);
        // It was sent the signal; when it is gone is the kernel's affair.
        let start = Instant::now();
        while matches!(server.try_wait(), Ok(None)) && start.elapsed() < PATIENCE {
            sleep(Duration::from_millis(5));
        }
        let has_ended = matches!(server.try_wait(), Ok(Some(_)));
        server.kill().ok();
        server.wait().unwrap();
        assert!(has_ended);
    }

    #[test]
    fn nothing_is_left_after_a_drop() {
        let mut data_dirs = data_dirs();
        data_dirs.new_dir(0).unwrap();
        let path = data_dirs.path().to_owned();
        drop(data_dirs);
        assert!(!path.exists());
    }
}
