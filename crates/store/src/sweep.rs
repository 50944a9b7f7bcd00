//! Deletes expired sessions, released media, and media that nothing references.
//!
//! A sweep is a sequence of small steps, and the caller decides how often to run one. It needs no
//! lock, and may be interrupted anywhere: the ledger releases a media first, the vault deletes it
//! next, and only then it is removed from the garbage list. A ledger may keep released media for a
//! while, and may have it deleted twice ([`Retention`](crate::Retention)).

use std::time::Duration;

use crate::failpoint::Failpoint;
use crate::ledger::{Ledger, LedgerError};
use crate::records::{GarbageId, StoredName, Timestamp};
use crate::vault::{ListPosition, Vault, VaultError};

/// Options of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepOptions {
    /// Maximum number of sessions, of garbage entries and of stored media that a step handles. The
    /// default is 256. [`Sweep::set_ledger_batch`] changes it for sessions and garbage entries.
    pub batch: usize,
    /// How long media that nothing references is kept after its last write. The default is a day.
    /// An upload references its media only when it commits, so this must be longer than any upload
    /// may pause before its first commit.
    pub grace: Duration,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self {
            batch: 256,
            grace: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl SweepOptions {
    /// Sets [`SweepOptions::batch`].
    #[must_use]
    pub const fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Sets [`SweepOptions::grace`].
    #[must_use]
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct Swept {
    /// Number of deleted sessions.
    pub expired: usize,
    /// Number of deleted media that the ledger had released.
    pub garbage: usize,
    /// Number of deleted media that nothing referenced, as a crash leaves them.
    pub orphans: usize,
    /// Number of media that could not be deleted. They are tried again after all others.
    pub failed: usize,
    /// Why the last of those could not be deleted.
    pub failure: Option<VaultError>,
    /// Nothing is left to do, apart from media that could not be deleted, and the step has reached
    /// the end of the vault, if it lists the vault. The next step is not urgent.
    pub is_done: bool,
}

/// Why a step has stopped early. Its earlier changes are kept.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The ledger has failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The vault could not be listed.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// A sweep, with its position in the garbage list and in the vault.
#[derive(Debug, Clone)]
pub struct Sweep {
    options: SweepOptions,
    /// Maximum number of sessions and of garbage entries of the next step.
    ledger_batch: usize,
    /// The garbage entries up to this one include some that could not be deleted. Those after it
    /// come first, so that they are not delayed.
    tried: Option<GarbageId>,
    /// All garbage has been tried since the sweep was last done, and the last steps have deleted
    /// none.
    tried_all: bool,
    /// Whether steps list the vault.
    lists_vault: bool,
    /// Where the next listing of the vault begins.
    next_listing: Option<ListPosition>,
}

impl Sweep {
    /// Returns a sweep that begins at the first media.
    pub fn new(options: SweepOptions) -> Self {
        Self {
            ledger_batch: options.batch,
            options,
            tried: None,
            tried_all: false,
            lists_vault: true,
            next_listing: None,
        }
    }

    /// Sets the maximum number of sessions, and of garbage entries, that each further step handles.
    /// A smaller number occupies the ledger's writer for a shorter time.
    pub fn set_ledger_batch(&mut self, ledger_batch: usize) {
        self.ledger_batch = ledger_batch;
    }

    /// Sets whether further steps list the vault for media that nothing references. If several
    /// processes sweep, it suffices that one does.
    pub fn set_lists_vault(&mut self, lists_vault: bool) {
        self.lists_vault = lists_vault;
    }

    /// Runs the next step.
    ///
    /// # Errors
    /// When the ledger fails or the vault cannot be listed. Media that cannot be deleted is counted
    /// and is no error: it must not keep other media from being deleted.
    ///
    /// # Cancel safety
    /// A dropped step may have done any part of its work. The next one continues from there.
    pub async fn step(
        &mut self,
        ledger: &dyn Ledger,
        vault: &dyn Vault,
        now: Timestamp,
    ) -> Result<Swept, SweepError> {
        let mut swept = Swept::default();
        let expired = match ledger.expire(now, self.ledger_batch).await {
            // Deleting garbage may make the space that the ledger lacks.
            Err(LedgerError::NoSpace) => {
                self.delete_garbage(ledger, vault, &mut swept).await?;
                ledger.expire(now, self.ledger_batch).await?
            }
            expired => expired?,
        };
        swept.expired = expired;
        self.delete_garbage(ledger, vault, &mut swept).await?;
        let looked_at_all =
            !self.lists_vault || self.delete_orphans(ledger, vault, now, &mut swept).await?;
        swept.is_done = swept.expired < self.ledger_batch && self.tried_all && looked_at_all;
        self.tried_all &= !swept.is_done;
        Ok(swept)
    }

    /// Deletes the next garbage. At the end of the list it starts again.
    async fn delete_garbage(
        &mut self,
        ledger: &dyn Ledger,
        vault: &dyn Vault,
        swept: &mut Swept,
    ) -> Result<(), SweepError> {
        let listed = ledger.garbage(self.tried.as_ref(), self.ledger_batch);
        let listed = listed.await?;
        if !listed.is_empty() {
            Failpoint::GarbageListed.reach();
        }
        let mut deleted = Vec::with_capacity(listed.len());
        for entry in &listed {
            if delete(vault, &entry.name, swept).await {
                deleted.push(entry.id.clone());
            }
        }
        if !deleted.is_empty() {
            Failpoint::GarbageUnlinked.reach();
            let again_after = ledger.retention().again_after;
            ledger.deleted(&deleted, again_after).await?;
            Failpoint::GarbageForgotten.reach();
        }
        swept.garbage += deleted.len();
        let is_end = listed.len() < self.ledger_batch;
        self.tried_all = is_end || self.tried_all && deleted.is_empty();
        if is_end {
            self.tried = None;
        } else if deleted.len() < listed.len() {
            self.tried = listed.into_iter().next_back().map(|entry| entry.id);
        }
        Ok(())
    }

    /// Deletes the next media that nothing references. Returns whether it has reached the end of
    /// the vault, where it starts again.
    async fn delete_orphans(
        &mut self,
        ledger: &dyn Ledger,
        vault: &dyn Vault,
        now: Timestamp,
        swept: &mut Swept,
    ) -> Result<bool, SweepError> {
        let from = self.next_listing.clone();
        let listing = vault.list(from, self.options.batch).await?;
        let forgotten_since = now.saturating_sub(self.options.grace);
        let stored = listing.stored.into_iter();
        let old = stored.filter(|stored| stored.modified < forgotten_since);
        let old: Vec<StoredName> = old.map(|stored| stored.name).collect();
        if !old.is_empty() {
            let unknown = ledger.unknown_names(&old).await?;
            if !unknown.is_empty() {
                Failpoint::OrphansFound.reach();
                for name in &unknown {
                    swept.orphans += usize::from(delete(vault, name, swept).await);
                }
                Failpoint::OrphansUnlinked.reach();
            }
        }
        self.next_listing = listing.next;
        Ok(self.next_listing.is_none())
    }
}

/// Deletes what is stored under a name. Returns whether that has succeeded.
async fn delete(vault: &dyn Vault, name: &StoredName, swept: &mut Swept) -> bool {
    match vault.delete(name).await {
        Ok(()) => true,
        Err(error) => {
            swept.failed += 1;
            swept.failure = Some(error);
            false
        }
    }
}
