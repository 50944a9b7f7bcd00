//! Another process that takes all room there is.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::place::User;

/// Within this the sweep frees something, if there is anything left to free.
const SWEEP: Duration = Duration::from_secs(2);

/// Minimum number of bytes that media needs. Smaller remainders of freed space do not count.
const MUCH: u64 = 64 << 10;

/// Writes a file until nothing more can be written. A file system may reserve room for a growing
/// file and frees it when the file is closed, so the file is opened again.
const TAKE_ALL: &str = r#"
for size in 1M 64K 4K 1; do
    dd if=/dev/zero of="$1" bs=$size oflag=append conv=notrunc
    sync "$1"
done 2>/dev/null
true
"#;

/// A second process of the server's user.
#[derive(Debug)]
pub(super) struct OtherProcess {
    file: PathBuf,
    user: User,
}

impl OtherProcess {
    /// Writes to a separate directory.
    pub(super) fn new(directory: &Path, user: User) -> Self {
        Self {
            file: directory.join("other"),
            user,
        }
    }

    /// Takes all room, and takes it again as long as the server's sweep of deleted media frees
    /// some.
    ///
    /// # Errors
    /// When there is no shell.
    pub(super) fn take_the_last_byte(&self) -> anyhow::Result<()> {
        while self.take_all()? >= MUCH {
            sleep(SWEEP);
        }
        Ok(())
    }

    /// Takes all free room, and returns its size in bytes.
    ///
    /// # Errors
    /// There is no shell.
    pub(super) fn take_all(&self) -> anyhow::Result<u64> {
        let before = self.len();
        let mut command = Command::new("sh");
        command.args(["-c", TAKE_ALL, "other"]).arg(&self.file);
        if let Some(user) = self.user.id() {
            command.uid(user).gid(user);
        }
        let status = command.current_dir("/").stdin(Stdio::null()).status()?;
        anyhow::ensure!(status.success(), "the other process failed ({status})");
        Ok(self.len().saturating_sub(before))
    }

    /// Gives all room back.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn leave(&self) -> std::io::Result<()> {
        fs::remove_file(&self.file)
    }

    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.len())
    }
}
