//! Clearing away: dead sessions, garbage, and media that nobody knows.
//!
//! The sweep is made of small steps; anyone who runs it decides how often. It needs no lock and may be
//! cut off anywhere: the ledger lets go of a media first, the vault deletes it next, and only then
//! is it taken off the garbage list.

use std::time::Duration;

use crate::failpoint::Failpoint;
use crate::ledger::{Ledger, LedgerError};
use crate::records::{MediaId, Timestamp};
use crate::vault::{Vault, VaultError};

/// How a sweep goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepOptions {
    /// Most sessions, garbage entries and stored media that one step handles, each. Of the first two,
    /// which the ledger writes, it may be told to handle another number: [`Sweep::set_bite`].
    pub batch: usize,
    /// How long a media that nothing names is left alone after it was last written. An upload names
    /// its media only when it commits: this must be longer than any upload may go without writing.
    pub grace: Duration,
}

impl Default for SweepOptions {
    /// 256 at a step; a day of grace.
    fn default() -> Self {
        Self {
            batch: 256,
            grace: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What one step did.
#[derive(Debug, Default)]
pub struct Swept {
    /// Sessions that were forgotten.
    pub expired: usize,
    /// Media that was deleted because its session or resource had gone.
    pub garbage: usize,
    /// Media that was deleted because nothing named it, as a crash leaves it.
    pub orphans: usize,
    /// Media that could not be deleted, and is tried again after all others.
    pub failed: usize,
    /// Why the last of them could not be deleted.
    pub failure: Option<VaultError>,
    /// The step found nothing left to do but to try again what could not be deleted, and has looked at the
    /// last media of the vault. There is no hurry with the next one.
    pub is_done: bool,
}

/// Why a step was not finished. What it did before stays done.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The vault could not be listed.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// A sweep that goes on from step to step.
#[derive(Debug, Clone)]
pub struct Sweep {
    options: SweepOptions,
    /// Most sessions and garbage entries of the next step.
    bite: usize,
    /// Garbage up to here could not be deleted: what is behind it comes first, so that it is not kept
    /// from its turn.
    tried: Option<MediaId>,
    /// All garbage was tried since the last sweep was done, and none has been deleted of late.
    has_tried_all: bool,
    /// Where the next look into the vault begins.
    last: Option<MediaId>,
}

impl Sweep {
    /// A sweep that begins at the first media.
    pub fn new(options: SweepOptions) -> Self {
        Self {
            bite: options.batch,
            options,
            tried: None,
            has_tried_all: false,
            last: None,
        }
    }

    /// From the next step on at most so many sessions, and so many garbage entries, are handled by
    /// each. A step that handles fewer takes the ledger's writer for a shorter time.
    pub fn set_bite(&mut self, bite: usize) {
        self.bite = bite;
    }

    /// Does the next bit of work.
    ///
    /// # Errors
    /// When the ledger fails or the vault cannot be listed. A media that cannot be deleted is
    /// counted, not an error: it must not keep the others from it.
    ///
    /// # Cancel safety
    /// A step that is dropped may have done any part of its work; the next goes on from there.
    pub async fn step(
        &mut self,
        ledger: &dyn Ledger,
        vault: &dyn Vault,
        now: Timestamp,
    ) -> Result<Swept, SweepError> {
        let mut swept = Swept::default();
        let expired = match ledger.expire(now, self.bite).await {
            // The room that it lacks may be in the garbage.
            Err(LedgerError::NoSpace) => {
                self.delete_garbage(ledger, vault, &mut swept).await?;
                ledger.expire(now, self.bite).await?
            }
            expired => expired?,
        };
        swept.expired = expired;
        self.delete_garbage(ledger, vault, &mut swept).await?;
        let looked_at_all = self.delete_orphans(ledger, vault, now, &mut swept).await?;
        swept.is_done = swept.expired < self.bite && self.has_tried_all && looked_at_all;
        self.has_tried_all &= !swept.is_done;
        Ok(swept)
    }

    /// Goes on behind what was tried in vain; at the end of the list it starts again.
    async fn delete_garbage(
        &mut self,
        ledger: &dyn Ledger,
        vault: &dyn Vault,
        swept: &mut Swept,
    ) -> Result<(), SweepError> {
        let listed = ledger.garbage(self.tried, self.bite).await?;
        if !listed.is_empty() {
            Failpoint::GarbageListed.reach();
        }
        let deleted = delete(vault, &listed, swept).await;
        if !deleted.is_empty() {
            Failpoint::GarbageUnlinked.reach();
            ledger.forget_garbage(&deleted).await?;
            Failpoint::GarbageForgotten.reach();
        }
        swept.garbage += deleted.len();
        let is_end = listed.len() < self.bite;
        self.has_tried_all = is_end || self.has_tried_all && deleted.is_empty();
        if is_end {
            self.tried = None;
        } else if deleted.len() < listed.len() {
            self.tried = listed.last().copied();
        }
        Ok(())
    }

    /// Returns whether it has come to the end of the vault; then it starts again.
    async fn delete_orphans(
        &mut self,
        ledger: &dyn Ledger,
        vault: &dyn Vault,
        now: Timestamp,
        swept: &mut Swept,
    ) -> Result<bool, SweepError> {
        let listing = vault.list(self.last, self.options.batch).await?;
        let forgotten_since = now.saturating_sub(self.options.grace);
        let old = listing
            .media
            .iter()
            .filter(|media| media.modified < forgotten_since);
        let old: Vec<MediaId> = old.map(|media| media.id).collect();
        if !old.is_empty() {
            let unknown = ledger.unknown_media(&old).await?;
            if !unknown.is_empty() {
                Failpoint::OrphansFound.reach();
                swept.orphans = delete(vault, &unknown, swept).await.len();
                Failpoint::OrphansUnlinked.reach();
            }
        }
        self.last = listing.next;
        Ok(listing.next.is_none())
    }
}

/// Deletes media one by one. Returns those that are gone.
async fn delete(vault: &dyn Vault, media: &[MediaId], swept: &mut Swept) -> Vec<MediaId> {
    let mut deleted = Vec::with_capacity(media.len());
    for &id in media {
        match vault.delete(id).await {
            Ok(()) => deleted.push(id),
            Err(error) => {
                swept.failed += 1;
                swept.failure = Some(error);
            }
        }
    }
    deleted
}
