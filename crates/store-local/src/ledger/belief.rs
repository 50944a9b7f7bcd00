//! Whether what SQLite calls committed is to be believed.
//!
//! A commit is seen by readers as soon as its sync has succeeded, which is a moment before it is known whether the
//! file system still stands by its syncs ([`crate::filesystem::Pulse`]). Until then it is in doubt, and who reads
//! has to ask as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_store::Cause;

use crate::filesystem::Pulse;
use crate::poison::Poison;

/// Shared by the writer and the readers of a ledger.
#[derive(Debug)]
pub(super) struct Belief {
    /// Of the file systems that have synced what a commit tells of.
    pulses: Arc<[Pulse]>,
    poison: Poison,
    in_doubt: AtomicBool,
}

impl Belief {
    pub(super) fn new(pulses: Arc<[Pulse]>, poison: Poison) -> Self {
        Self {
            pulses,
            poison,
            in_doubt: AtomicBool::new(false),
        }
    }

    /// Asks whether all syncs before are to be believed.
    pub(super) fn check(&self) -> Result<(), Cause> {
        let asked = self.pulses.iter().try_for_each(Pulse::check);
        asked.map_err(|error| self.poison.strike(error))
    }

    /// To be called before a commit. Whoever reads asks from now on.
    pub(super) fn doubt(&self) {
        self.in_doubt.store(true, Ordering::SeqCst);
    }

    /// To be called after it, when it has succeeded: asks whether its sync, and all before it, are to be believed.
    pub(super) fn confirm(&self) -> Result<(), Cause> {
        self.check()?;
        self.in_doubt.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// To be called after a read, before anybody is told what it found.
    pub(super) fn confirm_read(&self) -> Result<(), Cause> {
        if self.in_doubt.load(Ordering::SeqCst) {
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
        let stopped = Belief::new(
            Arc::new([Pulse::by(|| Err(std::io::Error::other("it has stopped")))]),
            Poison::default(),
        );
        stopped.confirm_read().unwrap();
        stopped.doubt();
        stopped.confirm_read().unwrap_err();
        stopped.confirm().unwrap_err();
        stopped.confirm_read().unwrap_err();
        stopped.poison.check().unwrap_err();

        let alive = Belief::new(Arc::new([]), Poison::default());
        alive.doubt();
        alive.confirm().unwrap();
        assert!(!alive.in_doubt.load(Ordering::SeqCst));
    }
}
