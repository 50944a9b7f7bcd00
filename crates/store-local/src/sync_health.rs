//! Whether syncs can be relied on.
//!
//! **Fail-stop.** On Linux a second `fdatasync` after a failed one reports success while the disk
//! still lacks the bytes. So a failed sync or commit is never retried. It ends all acknowledging in
//! this process ([`FailStop`]).
//!
//! **Successful syncs are checked.** A file system that cannot write its journal stops, and the
//! sync that waits for the journal fails. Another sync that reaches the same journal entry a moment
//! later may find it closed and succeed: Linux does not distinguish a failed entry from an entry
//! that is on the disk (`jbd2_complete_transaction` of ext4). XFS likewise treats a file without
//! changes in its log as synced, and stopping empties the log. Synced bytes are therefore durable
//! only if the file system has not stopped by then, so each sync is followed by a query of the file
//! system ([`StopProbe`]).
//!
//! **Readers too.** Readers see a commit as soon as its sync has succeeded, a moment before the
//! file systems have been asked. Until then a reader asks for itself ([`SyncVerifier`]).

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use windlass_store::Cause;

#[cfg(target_os = "linux")]
use crate::filesystem;

/// The first failure. Everything that shares it refuses to work from then on.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailStop(Arc<OnceLock<Cause>>);

impl FailStop {
    /// Fails with the recorded failure, if there is one.
    pub(crate) fn fail_if_tripped(&self) -> Result<(), Cause> {
        match self.0.get() {
            Some(cause) => Err(Arc::clone(cause)),
            None => Ok(()),
        }
    }

    /// Records a failure and returns the first one.
    pub(crate) fn trip(&self, error: impl Error + Send + Sync + 'static) -> Cause {
        Arc::clone(self.0.get_or_init(|| Arc::new(error)))
    }
}

/// Asks a file system whether it has stopped.
pub(crate) struct StopProbe(Probe);

type Probe = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

impl StopProbe {
    /// Asks the file system of the file at `path`.
    ///
    /// ext4 and XFS look at the state of their journal only when a change begins. They are
    /// therefore asked by the smallest change that fails on a stopped file system: the file's flags
    /// are set to their current value. It costs some microseconds and no sync. Other file systems
    /// are not known to need it and are never asked. ext4 and XFS are not asked either if the file
    /// belongs to another user, which is logged as a warning.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        probe(path).map(Self)
    }

    /// Asks `answer` in place of a file system.
    #[cfg(test)]
    pub(crate) fn by(answer: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Box::new(answer))
    }

    /// Fails if the file system has stopped. Otherwise every sync that has succeeded before, on any
    /// of its files, can be relied on.
    pub(crate) fn check(&self) -> io::Result<()> {
        (self.0)()
    }
}

impl fmt::Debug for StopProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopProbe").finish_non_exhaustive()
    }
}

#[cfg(target_os = "linux")]
fn probe(path: &Path) -> io::Result<Probe> {
    use filesystem::{EXT, XFS, magic};

    if !matches!(magic(path)?, EXT | XFS) {
        return Ok(Box::new(|| Ok(())));
    }
    probe_by_flags(path)
}

/// Other operating systems are not asked.
#[cfg(not(target_os = "linux"))]
fn probe(_path: &Path) -> io::Result<Probe> {
    Ok(Box::new(|| Ok(())))
}

#[cfg(target_os = "linux")]
fn probe_by_flags(path: &Path) -> io::Result<Probe> {
    use rustix::fs::{ioctl_getflags, ioctl_setflags};
    use rustix::io::Errno;

    // Kept open: an open that fails later, for lack of a descriptor, would look like a file system
    // that has stopped.
    let file = filesystem::open_for_reading(path)?;
    match ioctl_getflags(&file).and_then(|flags| ioctl_setflags(&file, flags).map(|()| flags)) {
        Ok(flags) => Ok(Box::new(move || Ok(ioctl_setflags(&file, flags)?))),
        Err(error @ (Errno::PERM | Errno::ACCESS | Errno::NOTTY | Errno::OPNOTSUPP)) => {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot ask the file system whether it has stopped; the file should belong to the user of the server");
            Ok(Box::new(|| Ok(())))
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells whether a commit that SQLite has reported can be relied on. The writer and the readers of
/// a ledger share it.
#[derive(Debug)]
pub(crate) struct SyncVerifier {
    /// One probe for each file system that has synced data of a commit: rows, or media that they
    /// reference.
    stop_probes: Arc<[StopProbe]>,
    fail_stop: FailStop,
    /// A commit may be visible to readers and is not confirmed yet.
    ///
    /// Sequentially consistent: readers see a commit through SQLite's shared memory, and a reader
    /// that has seen it must see this flag, too. SQLite puts full barriers around that memory.
    is_unconfirmed: AtomicBool,
}

impl SyncVerifier {
    pub(crate) fn new(stop_probes: Arc<[StopProbe]>, fail_stop: FailStop) -> Self {
        Self {
            stop_probes,
            fail_stop,
            is_unconfirmed: AtomicBool::new(false),
        }
    }

    /// Checks that all syncs so far can be relied on.
    pub(crate) fn check_file_systems(&self) -> Result<(), Cause> {
        let asked = self.stop_probes.iter().try_for_each(StopProbe::check);
        asked.map_err(|error| self.fail_stop.trip(error))
    }

    /// Makes readers ask for themselves. Called before a commit.
    pub(crate) fn mark_unconfirmed(&self) {
        self.is_unconfirmed.store(true, Ordering::SeqCst);
    }

    /// Checks that the sync of the commit, and all before it, can be relied on. Called after a
    /// commit that has succeeded.
    pub(crate) fn confirm_commit(&self) -> Result<(), Cause> {
        // On a failure the flag stays set: readers continue to ask, and fail.
        self.check_file_systems()?;
        self.is_unconfirmed.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Checks, if a commit is unconfirmed, that the result of a read can be relied on. Called after
    /// the read and before its result is used.
    pub(crate) fn confirm_read(&self) -> Result<(), Cause> {
        if self.is_unconfirmed.load(Ordering::SeqCst) {
            self.check_file_systems()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_file_system_passes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        StopProbe::of(file.path()).unwrap().check().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_that_cannot_be_asked_passes() {
        StopProbe::of(Path::new("/proc/self/status"))
            .unwrap()
            .check()
            .unwrap();
        probe_by_flags(Path::new("/proc/self/status")).unwrap()().unwrap();
    }

    #[test]
    fn a_read_asks_only_while_a_commit_is_unconfirmed() {
        let stopped = SyncVerifier::new(
            Arc::new([StopProbe::by(|| {
                Err(std::io::Error::other("it has stopped"))
            })]),
            FailStop::default(),
        );
        stopped.confirm_read().unwrap();
        stopped.mark_unconfirmed();
        stopped.confirm_read().unwrap_err();
        stopped.confirm_commit().unwrap_err();
        stopped.confirm_read().unwrap_err();
        stopped.fail_stop.fail_if_tripped().unwrap_err();

        let alive = SyncVerifier::new(Arc::new([]), FailStop::default());
        alive.mark_unconfirmed();
        alive.confirm_commit().unwrap();
        assert!(!alive.is_unconfirmed.load(Ordering::SeqCst));
    }
}
