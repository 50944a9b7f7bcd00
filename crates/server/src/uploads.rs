//! The application core: uploads from their first byte to their resource.
//!
//! What is absent: HTTP statuses and header names (they are in [`crate::error`], [`crate::reply`] and
//! `windlass_proto`), and any knowledge of a particular API or store.
//!
//! | room | duty |
//! |---|---|
//! | [`request`] | what is remembered of a request that started an upload |
//! | [`one_shot`] | simple and multipart uploads |
//! | [`session`] | start, query, append, cancel |
//! | [`append`] | the bytes of one request, from the body to a commit |
//! | [`finish`] | from committed media to a resource and a stored reply |
//! | [`sink`], [`batch`], [`budget`], [`mark`], [`slow_lane`] | from bytes to durable media, with its digests |
//! | [`seen_through`] | work goes on without its client |
//! | [`lease`] | one writer per session |
//! | [`warm`] | sessions between two of their requests |

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_store::{Ledger, Vault};

use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::Settings;
use crate::disks::{Disks, Room};
use crate::error::Error;
use crate::kind::{Allowance, Call, Kind, Rejection, Shelf};
use crate::registry::Registry;
use crate::turns::{Turn, Turns};
use crate::vitals::Vitals;
use seen_through::SeenThrough;

pub(crate) mod append;
pub(crate) mod batch;
pub(crate) mod budget;
mod commits;
pub(crate) mod finish;
pub(crate) mod lease;
mod mark;
pub(crate) mod one_shot;
pub(crate) mod request;
mod seen_through;
pub(crate) mod session;
pub(crate) mod sink;
mod slow_lane;
pub(crate) mod warm;

/// What all rooms of a server share.
pub(crate) struct House {
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) vitals: Vitals,
    pub(crate) disks: Arc<Disks>,
    pub(crate) leases: Arc<lease::Leases>,
    /// Sessions whose clients are expected back.
    pub(crate) warm: warm::WarmSessions,
    /// What kinds look into.
    pub(crate) shelf: Shelf,
    /// What clients can make the server hold.
    pub(crate) capacity: Capacity,
    pub(crate) turns: Arc<Turns>,
    pub(crate) budget: budget::MemoryBudget,
    /// Work on uploads that must not be torn when a connection dies.
    pub(crate) tasks: TaskTracker,
    /// Tells the sweep that media may have become garbage.
    pub(crate) garbage: Notify,
    /// Tells running uploads to commit what they have and to end.
    pub(crate) cut: CancellationToken,
}

impl House {
    /// Refuses to begin an upload that could not be brought to its end.
    pub(crate) fn admit_upload(&self) -> Result<(), Error> {
        match self.disks.room() {
            _ if self.vitals.is_draining() => Err(Error::Draining),
            Room::Plenty => Ok(()),
            Room::Low | Room::Full => Err(Error::NoSpace),
        }
    }

    /// Refuses media when there is no room for it.
    pub(crate) fn admit_media(&self) -> Result<(), Error> {
        match self.disks.room() {
            Room::Plenty | Room::Low => Ok(()),
            Room::Full => Err(Error::NoSpace),
        }
    }

    /// Refuses a write for which there is no room, and counts it: between two looks at the disk a
    /// lot can be written. Nothing at all needs no room.
    pub(crate) fn admit_write(&self, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.admit_media()?;
        self.disks.note_media(bytes as u64);
        Ok(())
    }

    /// Counts what the end of a request writes to the vault. It is not refused: it has come already, and the memory for
    /// media bounds it. What goes to the ledger is counted there.
    pub(crate) fn note_rest(&self, sink: &sink::MediaSink) {
        if sink.is_for_vault() {
            self.disks.note_media(sink.waiting() as u64);
        }
    }

    pub(crate) fn plumbing(&self) -> sink::Plumbing {
        let limit = self
            .settings
            .limits
            .small_media
            .min(batch::SMALL_BATCH as u64);
        sink::Plumbing {
            ledger: Arc::clone(&self.ledger),
            vault: Arc::clone(&self.vault),
            budget: self.budget.clone(),
            looks: self.capacity.looks.clone(),
            small_media: usize::try_from(limit).unwrap_or(batch::SMALL_BATCH),
            now: self.clock.now(),
        }
    }

    /// For the reply of a call.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance::new(&self.capacity)
    }

    pub(crate) fn patience(&self) -> Duration {
        self.settings.limits.takeover_timeout
    }

    /// Waits for the turn of what the call changes, if there is such a thing.
    pub(crate) async fn turn(
        &self,
        kind: &dyn Kind,
        call: &Call<'_>,
    ) -> Result<Option<Turn>, Error> {
        let Some(name) = kind.turn(call) else {
            return Ok(None);
        };
        let turn = self.turns.take(name, self.patience()).await;
        Ok(Some(turn.map_err(|_| Error::Crowded)?))
    }

    /// Runs storage work to its end even when the caller goes away, and stops the server when it
    /// meets a storage fault.
    pub(crate) async fn see_through<T: Send + 'static>(
        self: &Arc<Self>,
        work: BoxFuture<'static, Result<T, Error>>,
    ) -> Result<T, Error> {
        let house = Arc::clone(self);
        let work = Box::pin(async move {
            let result = work.await;
            if let Err(error) = &result {
                house.examine(error);
            }
            result
        });
        match SeenThrough::new(&self.tasks, work).await {
            Ok(result) => result,
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::Draining),
            },
        }
    }

    /// Stops the server if `error` is a storage fault.
    pub(crate) fn examine(&self, error: &Error) {
        match error {
            Error::Ledger(error) | Error::Rejection(Rejection::Ledger(error)) => {
                self.vitals.examine_ledger(error);
            }
            Error::Vault(error) | Error::Rejection(Rejection::Vault(error)) => {
                self.vitals.examine_vault(error);
            }
            _ => {}
        }
    }
}
