//! A directory for disks and what is mounted of them, which leaves nothing behind.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use tempfile::TempDir;

/// Where memory looks like a disk.
const MEMORY: &str = "/dev/shm";

/// Where files outlive a restart of the machine, also where temporary files are kept in memory.
const DISK: &str = "/var/tmp";

/// What `statfs` calls a file system in memory.
const TMPFS: i64 = 0x0102_1994;

/// Unmounts what is mounted in the directory, detaches loop devices over its files, ends the programs of its pid files, removes it.
///
/// It waits for the end of its stdin, which comes with the end of this process, in whatever way that ends.
const CLEANING: &str = r#"
read -r _
grep -F " $1/" /proc/mounts | tac | while read -r _ place _; do
    umount "$place" || { sleep 0.3; umount "$place"; } || umount --lazy "$place"
done
losetup --list --noheadings --output NAME,BACK-FILE | while read -r device file; do
    case $file in "$1"/*) losetup --detach "$device" ;; esac
done
for file in "$1"/*.pid; do
    test -f "$file" && kill "$(cat "$file")"
done
# A server that dies at this moment may still write.
rm -rf --one-file-system -- "$1" || { sleep 0.5; rm -rf --one-file-system -- "$1"; }
"#;

/// A directory that a guard cleans up when it is dropped, and also when this process is killed.
///
/// What is mounted in it or attached to its files belongs to values of their own, which go first; the guard is for when they cannot.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: TempDir,
    guard: Child,
}

impl Scratch {
    /// A new one: in memory when there are at least `room` bytes of it, else where temporary files are.
    ///
    /// # Errors
    /// When no directory can be made, or no shell started.
    pub(crate) fn new(room: u64) -> anyhow::Result<Self> {
        if free(Path::new(MEMORY)) >= room {
            Self::within(Path::new(MEMORY))
        } else {
            Self::within(&std::env::temp_dir())
        }
    }

    /// A new one on a disk: a server takes no other place for its data.
    ///
    /// # Errors
    /// As [`Scratch::new`].
    pub(crate) fn on_disk() -> anyhow::Result<Self> {
        let usual = std::env::temp_dir();
        let place = if is_memory(&usual) {
            Path::new(DISK)
        } else {
            &usual
        };
        Self::within(place)
    }

    fn within(place: &Path) -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix_in("windlass-chaos-", place)?;
        let guard = Command::new("sh")
            .args(["-c", CLEANING, "guard"])
            .arg(directory.path())
            // Ctrl-C is for the programs in front.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("there is no shell")?;
        Ok(Self { directory, guard })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().ok();
    }
}

fn is_memory(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type == TMPFS)
}

/// Bytes that are free on the file system of a path; none where there is no such path.
fn free(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
