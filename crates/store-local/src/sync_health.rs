//! Fail-stop: after one failure nothing succeeds any more.
//!
//! On Linux a second fdatasync after a failed one says OK while the disk still has not got the
//! bytes. So a failed sync or commit is never retried; it ends the right to acknowledge, for the
//! whole process.
//!
//! Asking a file system whether it still stands by its syncs.
//!
//! A file system that cannot write its journal stops, and says so to the sync that waits for the journal. Another
//! sync, which comes to the same entry of the journal a moment later, may find it over and succeed: Linux does not
//! tell an entry that failed from one that is on the disk (`jbd2_complete_transaction` of ext4). XFS likewise takes
//! a file that has no changes left in its log for synced, and stopping leaves it none. So what was synced is durable
//! only if the file system has not stopped by then, and somebody has to ask.
//!
//! Whether what SQLite calls committed can be relied on.
//!
//! A commit is seen by readers as soon as its sync has succeeded, which is a moment before it is known whether the
//! file system still stands by its syncs ([`JournalHealth`]). Until then it is in doubt, and who reads
//! has to ask as well.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use windlass_store::Cause;

#[cfg(target_os = "linux")]
use crate::filesystem;

/// The first failure, shared by all who must stop because of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailStop(Arc<OnceLock<Cause>>);

impl FailStop {
    /// The failure, if there was one.
    pub(crate) fn check(&self) -> Result<(), Cause> {
        match self.0.get() {
            Some(cause) => Err(Arc::clone(cause)),
            None => Ok(()),
        }
    }

    /// Records a failure and returns the first there was.
    pub(crate) fn trip(&self, error: impl Error + Send + Sync + 'static) -> Cause {
        Arc::clone(self.0.get_or_init(|| Arc::new(error)))
    }
}

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
    use filesystem::features::{EXT, XFS, magic};

    if !matches!(magic(path)?, EXT | XFS) {
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

    let file = filesystem::open_for_reading(path)?;
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

/// Shared by the writer and the readers of a ledger.
#[derive(Debug)]
pub(crate) struct SyncVerifier {
    /// Of the file systems that have synced what a commit tells of.
    journals: Arc<[JournalHealth]>,
    fail_stop: FailStop,
    is_pending: AtomicBool,
}

impl SyncVerifier {
    pub(crate) fn new(journals: Arc<[JournalHealth]>, fail_stop: FailStop) -> Self {
        Self {
            journals,
            fail_stop,
            is_pending: AtomicBool::new(false),
        }
    }

    /// Asks whether all syncs before can be relied on.
    pub(crate) fn check(&self) -> Result<(), Cause> {
        let asked = self.journals.iter().try_for_each(JournalHealth::check);
        asked.map_err(|error| self.fail_stop.trip(error))
    }

    /// To be called before a commit. Anyone who reads asks from now on.
    pub(crate) fn mark_pending(&self) {
        self.is_pending.store(true, Ordering::SeqCst);
    }

    /// To be called after it, when it has succeeded: asks whether its sync, and all before it, can be relied on.
    pub(crate) fn confirm(&self) -> Result<(), Cause> {
        self.check()?;
        self.is_pending.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// To be called after a read, before anybody is told what it found.
    pub(crate) fn confirm_read(&self) -> Result<(), Cause> {
        if self.is_pending.load(Ordering::SeqCst) {
            self.check()?;
        }
        Ok(())
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

    #[test]
    fn a_read_asks_only_while_a_commit_is_in_doubt() {
        let stopped = SyncVerifier::new(
            Arc::new([JournalHealth::by(|| {
                Err(std::io::Error::other("it has stopped"))
            })]),
            FailStop::default(),
        );
        stopped.confirm_read().unwrap();
        stopped.mark_pending();
        stopped.confirm_read().unwrap_err();
        stopped.confirm().unwrap_err();
        stopped.confirm_read().unwrap_err();
        stopped.fail_stop.check().unwrap_err();

        let alive = SyncVerifier::new(Arc::new([]), FailStop::default());
        alive.mark_pending();
        alive.confirm().unwrap();
        assert!(!alive.is_pending.load(Ordering::SeqCst));
    }
}
