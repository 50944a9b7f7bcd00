//! The application core: uploads from their first byte to their resource.
//!
//! What is absent: HTTP statuses and header names (they are in [`crate::error`], [`crate::reply`] and
//! `windlass_proto`), and any knowledge of a particular API or store.
//!
//! | module | duty |
//! |---|---|
//! | [`request`] | what is remembered of a request that started an upload |
//! | [`single_request`] | simple and multipart uploads |
//! | [`session`] | start, query, append, cancel |
//! | [`append`] | the bytes of one request, from the body to a commit |
//! | [`finish`] | from committed media to a resource and a stored reply |
//! | [`sink`], [`write_buffer`], [`buffer_pool`], [`running_checksum`], [`background_hasher`] | from bytes to durable media, with its digests |
//! | [`detach_on_drop`] | work goes on without its client |
//! | [`lease`] | one writer per session |
//! | [`session_cache`] | sessions between two of their requests |

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_store::{Ledger, Vault};

use crate::capacity::Capacity;
use crate::config::Settings;
use crate::disks::{DiskSpace, Disks};
use crate::error::Error;
use crate::handler::{ApiHandler, Call, Rejection, ReplyMemoryPermit, StoreHandles};
use crate::identifiers::Clock;
use crate::lifecycle::DetachOnDrop;
use crate::lifecycle::Health;
use crate::locks::{KeyedGuard, KeyedMutex};
use crate::registry::Registry;

pub(crate) mod append;
mod checksums;
pub(crate) mod finish;
mod offset_committer;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod session_cache;
pub(crate) mod single_request;
pub(crate) mod sink;
pub(crate) mod write_buffer;

/// What all modules of a server share.
pub(crate) struct ServerState {
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) health: Health,
    pub(crate) disks: Arc<Disks>,
    pub(crate) leases: Arc<crate::locks::Leases>,
    /// Sessions whose clients are expected back.
    pub(crate) session_cache: session_cache::SessionCache,
    /// What handlers look into.
    pub(crate) store_handles: StoreHandles,
    /// What clients can make the server hold.
    pub(crate) capacity: Capacity,
    pub(crate) keyed_mutex: Arc<KeyedMutex>,
    pub(crate) buffer_pool: write_buffer::BufferPool,
    /// Work on uploads that must not be torn when a connection dies.
    pub(crate) tasks: TaskTracker,
    /// Tells the sweep that media may have become garbage.
    pub(crate) sweep_now: Notify,
    /// Tells running uploads to commit what they have and to end.
    pub(crate) drain_now: CancellationToken,
}

impl ServerState {
    /// Refuses to begin an upload that could not be brought to its end.
    pub(crate) fn admit_upload(&self) -> Result<(), Error> {
        match self.disks.space() {
            _ if self.health.is_draining() => Err(Error::Draining),
            DiskSpace::Plenty => Ok(()),
            DiskSpace::Low | DiskSpace::Full => Err(Error::NoSpace),
        }
    }

    /// Refuses media when there is no room for it.
    pub(crate) fn admit_media(&self) -> Result<(), Error> {
        match self.disks.space() {
            DiskSpace::Plenty | DiskSpace::Low => Ok(()),
            DiskSpace::Full => Err(Error::NoSpace),
        }
    }

    /// Refuses a write for which there is no room, and counts it: between two looks at the disk a
    /// lot can be written. Nothing at all needs no room.
    pub(crate) fn admit_write(&self, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.admit_media()?;
        self.disks.count_media(bytes as u64);
        Ok(())
    }

    /// Counts what the end of a request writes to the vault. It is not refused: it has come already, and the memory for
    /// media bounds it. What goes to the ledger is counted there.
    pub(crate) fn note_rest(&self, sink: &sink::MediaSink) {
        if sink.is_for_vault() {
            self.disks.count_media(sink.waiting() as u64);
        }
    }

    pub(crate) fn sink_deps(&self) -> sink::SinkDeps {
        let limit = self
            .settings
            .limits
            .small_media
            .min(write_buffer::SMALL_BUFFER as u64);
        sink::SinkDeps {
            ledger: Arc::clone(&self.ledger),
            vault: Arc::clone(&self.vault),
            buffer_pool: self.buffer_pool.clone(),
            media_reads: self.capacity.media_reads.clone(),
            small_media: usize::try_from(limit).unwrap_or(write_buffer::SMALL_BUFFER),
            now: self.clock.now(),
        }
    }

    /// For the reply of a call.
    pub(crate) fn reply_memory(&self) -> ReplyMemoryPermit {
        ReplyMemoryPermit::new(&self.capacity)
    }

    pub(crate) fn takeover_timeout(&self) -> Duration {
        self.settings.limits.takeover_timeout
    }

    /// Waits for the turn of what the call changes, if there is such a thing.
    pub(crate) async fn lock_for(
        &self,
        handler: &dyn ApiHandler,
        call: &Call<'_>,
    ) -> Result<Option<KeyedGuard>, Error> {
        let Some(name) = handler.lock_key(call) else {
            return Ok(None);
        };
        let guard = self.keyed_mutex.take(name, self.takeover_timeout()).await;
        Ok(Some(guard.map_err(|_| Error::Crowded)?))
    }

    /// Runs storage work to its end even when the caller goes away, and stops the server when it
    /// meets a storage fault.
    pub(crate) async fn run_to_completion<T: Send + 'static>(
        self: &Arc<Self>,
        work: BoxFuture<'static, Result<T, Error>>,
    ) -> Result<T, Error> {
        let server = Arc::clone(self);
        let work = Box::pin(async move {
            let result = work.await;
            if let Err(error) = &result {
                server.examine(error);
            }
            result
        });
        match DetachOnDrop::new(&self.tasks, work).await {
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
                self.health.examine_ledger(error);
            }
            Error::Vault(error) | Error::Rejection(Rejection::Vault(error)) => {
                self.health.examine_vault(error);
            }
            _ => {}
        }
    }
}
