//! Whether what SQLite calls committed can be relied on.
//!
//! A commit is seen by readers as soon as its sync has succeeded, which is a moment before it is known whether the
//! file system still stands by its syncs ([`crate::filesystem::JournalHealth`]). Until then it is in doubt, and who reads
//! has to ask as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_store::Cause;

use crate::fail_stop::FailStop;
use crate::filesystem::JournalHealth;

/// Shared by the writer and the readers of a ledger.
#[derive(Debug)]
pub(super) struct SyncVerifier {
    /// Of the file systems that have synced what a commit tells of.
    journals: Arc<[JournalHealth]>,
    fail_stop: FailStop,
    is_pending: AtomicBool,
}

impl SyncVerifier {
    pub(super) fn new(journals: Arc<[JournalHealth]>, fail_stop: FailStop) -> Self {
        Self {
            journals,
            fail_stop,
            is_pending: AtomicBool::new(false),
        }
    }

    /// Asks whether all syncs before can be relied on.
    pub(super) fn check(&self) -> Result<(), Cause> {
        let asked = self.journals.iter().try_for_each(JournalHealth::check);
        asked.map_err(|error| self.fail_stop.trip(error))
    }

    /// To be called before a commit. Anyone who reads asks from now on.
    pub(super) fn mark_pending(&self) {
        self.is_pending.store(true, Ordering::SeqCst);
    }

    /// To be called after it, when it has succeeded: asks whether its sync, and all before it, can be relied on.
    pub(super) fn confirm(&self) -> Result<(), Cause> {
        self.check()?;
        self.is_pending.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// To be called after a read, before anybody is told what it found.
    pub(super) fn confirm_read(&self) -> Result<(), Cause> {
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
