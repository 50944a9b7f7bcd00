//! Cleaning up when a test program is killed or interrupted, since drops do not run then.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The directory of a file system in memory.
const MEMORY: &str = "/dev/shm";

/// A directory of temporary files that outlive a restart. It is on a disk even if temporary files
/// are usually kept in memory.
const DISK: &str = "/var/tmp";

/// The type that `statfs` reports for a file system in memory.
const TMPFS: i64 = 0x0102_1994;

/// Removes the directory. A server that dies at this moment may still write, hence the second try.
const REMOVE: &str =
    r#"rm -rf --one-file-system -- "$1" || { sleep 0.5; rm -rf --one-file-system -- "$1"; }"#;

/// A shell that runs a script when this process has ended, however it ended.
///
/// It waits for the end of its stdin, which the operating system closes with this process.
#[derive(Debug)]
pub struct CleanupShell {
    child: Child,
    /// Whether the script runs at the drop too.
    runs_on_drop: bool,
}

impl CleanupShell {
    /// Runs `script` when this process ends or the shell is dropped. Its arguments are `$1`, `$2`
    /// and so on.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn always<S: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> io::Result<Self> {
        Self::spawn(script, arguments, true)
    }

    /// Like [`CleanupShell::always`], but a drop ends the shell without running the script: the
    /// owner has cleaned up.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn unless_dropped<S: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> io::Result<Self> {
        Self::spawn(script, arguments, false)
    }

    fn spawn<S: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = S>,
        runs_on_drop: bool,
    ) -> io::Result<Self> {
        let script = format!("trap '' INT TERM HUP\nread -r done && exit\n{script}");
        let child = Command::new("sh")
            .args(["-c", &script, "cleanup"])
            .args(arguments)
            // A separate process group, so that Ctrl-C does not reach the shell.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            runs_on_drop,
        })
    }
}

impl Drop for CleanupShell {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.child.stdin.take()
            && !self.runs_on_drop
        {
            stdin.write_all(b"done\n").ok();
        }
        self.child.wait().ok();
    }
}

/// A directory that is removed when it is dropped, and also when this process is killed.
///
/// Separate values own the mounts and attached devices in it, and are dropped first. The script
/// handles them if they cannot be dropped.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    _shell: CleanupShell,
}

impl ScratchDir {
    /// Creates an empty directory in `parent`. `script` runs before it is removed, with its path as
    /// `$1`.
    ///
    /// # Errors
    /// When the directory cannot be made, or there is no shell.
    pub fn new_in(parent: &Path, prefix: &str, script: &str) -> io::Result<Self> {
        let directory = TempDir::with_prefix_in(prefix, parent)?;
        let shell = CleanupShell::always(&format!("{script}\n{REMOVE}"), [directory.path()])?;
        Ok(Self {
            path: directory.keep(),
            _shell: shell,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The directory for temporary files. It is in memory if at least `room` bytes are free there,
/// otherwise the usual directory.
pub fn temporary_files(room: u64) -> PathBuf {
    let memory = Path::new(MEMORY);
    if free_bytes(memory) >= room {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// A directory for temporary files that is on a disk.
pub fn temporary_files_on_disk() -> PathBuf {
    let usual = std::env::temp_dir();
    let is_memory = rustix::fs::statfs(&usual).is_ok_and(|stat| stat.f_type == TMPFS);
    if is_memory { DISK.into() } else { usual }
}

/// Bytes that are free on the file system of a path; 0 where there is no such path.
fn free_bytes(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_directory_is_removed_on_drop_after_its_script_ran() {
        let outside = tempfile::tempdir().unwrap();
        let scratch = ScratchDir::new_in(
            outside.path(),
            "scratch-",
            r#"test -d "$1" && touch "$1/../ran""#,
        );
        let scratch = scratch.unwrap();
        let path = scratch.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
        assert!(outside.path().join("ran").exists());
    }

    #[test]
    fn script_of_an_owner_that_cleans_up_does_not_run() {
        let outside = tempfile::tempdir().unwrap();
        let mark = outside.path().join("ran");
        drop(CleanupShell::unless_dropped(r#"touch "$1""#, [&mark]).unwrap());
        assert!(!mark.exists());
    }
}
