//! A directory for disks and their mounts, which leaves nothing behind.

use std::path::Path;

use anyhow::Context as _;
use windlass_testkit::cleanup::{self, ScratchDir};

/// Unmounts all mounts in the directory, detaches loop devices over its files, and ends the
/// programs of its pid files.
const CLEANING: &str = r#"
grep -F " $1/" /proc/mounts | tac | while read -r _ place _; do
    umount "$place" || { sleep 0.3; umount "$place"; } || umount --lazy "$place"
done
losetup --list --noheadings --output NAME,BACK-FILE | while read -r device file; do
    case $file in "$1"/*) losetup --detach "$device" ;; esac
done
for file in "$1"/*.pid; do
    test -f "$file" && kill "$(cat "$file")"
done
"#;

/// A directory that is cleaned up when it is dropped, and also when this process is killed.
#[derive(Debug)]
pub(crate) struct Scratch(ScratchDir);

impl Scratch {
    /// Makes a new directory: in memory if at least `room` bytes are free there, otherwise at the
    /// usual place of temporary files.
    ///
    /// # Errors
    /// No directory can be made, or no shell started.
    pub(crate) fn new(room: u64) -> anyhow::Result<Self> {
        Self::within(&cleanup::temporary_files(room))
    }

    /// A new one on a disk: a server takes no other place for its data.
    ///
    /// # Errors
    /// The same as of [`Scratch::new`].
    pub(crate) fn on_disk() -> anyhow::Result<Self> {
        Self::within(&cleanup::temporary_files_on_disk())
    }

    fn within(parent: &Path) -> anyhow::Result<Self> {
        let directory = ScratchDir::new_in(parent, "windlass-chaos-", CLEANING);
        directory.map(Self).context("no scratch directory")
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
