//! Asking a file system whether it still stands by its syncs.
//!
//! A file system that cannot write its journal stops, and says so to the sync that waits for the journal. Another
//! sync, which comes to the same entry of the journal a moment later, may find it over and succeed: Linux does not
//! tell an entry that failed from one that is on the disk (`jbd2_complete_transaction` of ext4). XFS likewise takes
//! a file that has no changes left in its log for synced, and stopping leaves it none. So what was synced is durable
//! only if the file system has not stopped by then, and somebody has to ask.

use std::fmt;
use std::io;
use std::path::Path;

/// A question to a file system.
pub(crate) struct JournalHealth(Question);

type Question = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

impl JournalHealth {
    /// By the file `path`.
    ///
    /// ext4 and XFS are asked by a change, as they look at their journal only when one begins, and the smallest that
    /// they refuse aloud: the file gets the flags that it has. It costs some microseconds, and no sync. Of others it
    /// is not known that they need it. They are relied on, and so are those two where the file belongs to another user,
    /// with a warning.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        question(path).map(Self)
    }

    /// A question that is answered by `answer`.
    #[cfg(test)]
    pub(crate) fn by(answer: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Box::new(answer))
    }

    /// Fails when the file system has stopped. Of a sync that had succeeded before, on any of its files, this tells
    /// whether it can be relied on.
    pub(crate) fn check(&self) -> io::Result<()> {
        (self.0)()
    }
}

impl fmt::Debug for JournalHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").finish_non_exhaustive()
    }
}

#[cfg(target_os = "linux")]
fn question(path: &Path) -> io::Result<Question> {
    use super::magic;

    if !matches!(magic::of(path)?, magic::EXT | magic::XFS) {
        return Ok(Box::new(|| Ok(())));
    }
    by_flags(path)
}

/// Other operating systems are not asked.
#[cfg(not(target_os = "linux"))]
fn question(_path: &Path) -> io::Result<Question> {
    Ok(Box::new(|| Ok(())))
}

#[cfg(target_os = "linux")]
fn by_flags(path: &Path) -> io::Result<Question> {
    use rustix::fs::{ioctl_getflags, ioctl_setflags};
    use rustix::io::Errno;

    let file = super::open_for_reading(path)?;
    match ioctl_getflags(&file).and_then(|flags| ioctl_setflags(&file, flags).map(|()| flags)) {
        Ok(flags) => Ok(Box::new(move || Ok(ioctl_setflags(&file, flags)?))),
        Err(error @ (Errno::PERM | Errno::ACCESS | Errno::NOTTY | Errno::OPNOTSUPP)) => {
            let path = path.display();
            tracing::warn!(%path, %error, "its file system cannot be asked whether it has stopped: the file should be the server's");
            Ok(Box::new(|| Ok(())))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_goes_on_is_believed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        JournalHealth::of(file.path()).unwrap().check().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_that_cannot_be_asked_is_believed() {
        JournalHealth::of(Path::new("/proc/self/status"))
            .unwrap()
            .check()
            .unwrap();
        by_flags(Path::new("/dev/null")).unwrap()().unwrap();
    }
}
