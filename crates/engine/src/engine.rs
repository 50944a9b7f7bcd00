//! The state that all uploads share: the stores, the limits and the sessions.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use windlass_store::{Ledger, Quota, Timestamp, Vault};

use crate::completion::{Completion, UploadContext as _};
use crate::copies::CopyLimits;
use crate::disks::{CheckedStores, DiskSpace, FreeSpace, MediaSpace};
use crate::error::Error;
use crate::first_uses::FirstUses;
use crate::identifiers::{Clock, SystemClock};
use crate::importance::Importance;
use crate::leases::Leases;
use crate::lifecycle::Lifecycle;
use crate::locks::SessionGuards;
use crate::offset_committer::{Checkpoints, CommitRules, SessionLifetime};
use crate::pool::{LimitedResource, Permit, Pool};
use crate::quotas::Quotas;
use crate::session_cache::SessionCache;
use crate::shares::{Caller, Shares};
use crate::sink::{MAX_SMALL_MEDIA, SinkDeps};
use crate::write_buffer::BufferPool;

/// The parts of an engine.
pub struct EngineParts {
    /// The ledger and the vault, with the free space on their disks.
    pub stores: CheckedStores,
    /// Tells the time of each change.
    pub clock: Arc<dyn Clock>,
    /// Fail-stop, drain, and work that outlives its request.
    pub lifecycle: Arc<Lifecycle>,
    /// The uploads that may run at a time. It also bounds the number of open files.
    pub uploads: Pool,
    /// The media that may be read at a time, to compute digests or to be copied.
    pub media_reads: Pool,
    /// The calls that may concatenate media at a time.
    pub concatenations: Pool,
    /// The calls of one caller that may concatenate media at a time.
    pub concatenation_shares: Shares<Caller>,
    /// The memory of the contexts of calls that concatenate media.
    pub metadata: Pool,
    /// The memory of media that is read as a whole.
    pub reading: Pool,
    /// The memory of write buffers.
    pub buffer_pool: BufferPool,
    /// Quotas of each principal in the stores.
    pub quotas: Quotas,
    /// Limits on copies for each caller.
    pub copies: CopyLimits,
    /// When bytes are made durable during a request.
    pub checkpoints: Checkpoints,
    /// How long sessions live.
    pub lifetime: SessionLifetime,
    /// Media of at most this many bytes is kept in the ledger. At most
    /// [`MAX_SMALL_MEDIA`].
    pub small_media: u64,
    /// Maximum time that a request waits for an older request to the same session, for memory, for a
    /// turn to read or to concatenate media, or for other requests to stop changing the resource
    /// that it changes.
    pub takeover_timeout: Duration,
}

/// Number of uploads that run at a time by default.
const UPLOADS: usize = 1024;

/// Number of media that are read at a time by default, and of concatenations.
const READS: usize = 16;

/// Bytes of memory, by default: for write buffers, for media that is read as a whole, and for
/// contexts.
const MEMORY: u64 = 64 << 20;

impl EngineParts {
    /// Returns parts over these stores, with the system's clock, without quotas, and with limits
    /// for one small server: 1,024 uploads at a time, 64 MiB of write buffers. Media of up to
    /// 64 KiB is kept in the ledger. A session expires after seven days.
    pub fn new(ledger: Arc<dyn Ledger>, vault: Arc<dyn Vault>) -> Self {
        let stores = CheckedStores::new(ledger, vault, FreeSpace::default());
        Self {
            stores,
            clock: Arc::new(SystemClock),
            lifecycle: Arc::default(),
            uploads: Pool::of_count(LimitedResource::Uploads, UPLOADS),
            media_reads: Pool::of_count(LimitedResource::MediaReads, READS),
            concatenations: Pool::of_count(LimitedResource::Concatenations, READS),
            concatenation_shares: Shares::of_count(READS / 2),
            metadata: Pool::of_bytes(LimitedResource::Metadata, MEMORY),
            reading: Pool::for_large(LimitedResource::Reading, MEMORY),
            buffer_pool: BufferPool::new(MEMORY),
            quotas: Quotas::new(Quota::default()),
            copies: CopyLimits::new(0),
            checkpoints: Checkpoints::default(),
            lifetime: SessionLifetime {
                total: Duration::from_secs(7 * 24 * 60 * 60),
                idle: None,
            },
            small_media: 64 << 10,
            takeover_timeout: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineParts")
            .field("stores", &self.stores)
            .field("uploads", &self.uploads)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// An engine for uploads with the meaning `C`.
///
/// Clones share everything.
pub struct Engine<C: Completion>(Arc<Inner<C>>);

/// The state that the clones of an engine share.
struct Inner<C: Completion> {
    parts: EngineParts,
    /// The rules for the commits of all appending requests.
    commit_rules: Arc<CommitRules>,
    completion: C,
    /// The guards of sessions.
    guards: Arc<SessionGuards>,
    /// Sessions that expect their next request soon.
    cache: SessionCache<C::Context>,
    /// The leases of running requests, if other processes can have the ledger open.
    leases: Option<Arc<Leases>>,
    /// The partial uploads that final uploads have used.
    first_uses: FirstUses,
}

impl<C: Completion> Clone for Engine<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// An engine that may have been dropped.
pub(crate) struct WeakEngine<C: Completion>(Weak<Inner<C>>);

impl<C: Completion> WeakEngine<C> {
    /// Returns the engine, unless all its clones have been dropped.
    pub(crate) fn upgrade(&self) -> Option<Engine<C>> {
        self.0.upgrade().map(Engine)
    }
}

impl<C: Completion> fmt::Debug for Engine<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl<C: Completion> Engine<C> {
    /// Returns an engine that begins no work by itself. Its owner
    ///
    /// - [starts](Lifecycle::start) the lifecycle, and measures the
    ///   [disks](crate::disks::Disks::refresh) every second: before the first measurement all space
    ///   is free;
    /// - [closes idle sessions](Self::close_idle_sessions) every second;
    /// - [finishes](Self::finish_interrupted) the sessions of [`Ledger::finishing`] after the start
    ///   and now and then, and [sweeps](windlass_store::sweep) the stores;
    /// - [shares the sessions](Self::share_sessions) with other processes all the time;
    /// - stops admitting requests when the lifecycle [has failed](Lifecycle::has_failed);
    /// - at the end [drains](Lifecycle::drain), cancels [`Lifecycle::drain_now`] and waits for
    ///   [`Lifecycle::tasks`].
    pub fn new(parts: EngineParts, completion: C) -> Self {
        let commit_rules = CommitRules {
            ledger: Arc::clone(&parts.stores.ledger),
            clock: Arc::clone(&parts.clock),
            quotas: parts.quotas.clone(),
            lifetime: parts.lifetime,
        };
        let is_shared = parts.stores.ledger.opening().is_none();
        Self(Arc::new(Inner {
            leases: is_shared.then(Arc::default),
            parts,
            commit_rules: Arc::new(commit_rules),
            completion,
            guards: Arc::default(),
            cache: SessionCache::new(),
            first_uses: FirstUses::default(),
        }))
    }

    /// Returns the parts of the engine.
    pub fn parts(&self) -> &EngineParts {
        &self.0.parts
    }

    /// Returns the meaning of the uploads.
    pub fn completion(&self) -> &C {
        &self.0.completion
    }

    pub(crate) fn first_uses(&self) -> &FirstUses {
        &self.0.first_uses
    }

    pub(crate) fn commit_rules(&self) -> &Arc<CommitRules> {
        &self.0.commit_rules
    }

    pub(crate) fn guards(&self) -> &Arc<SessionGuards> {
        &self.0.guards
    }

    pub(crate) fn downgrade(&self) -> WeakEngine<C> {
        WeakEngine(Arc::downgrade(&self.0))
    }

    pub(crate) fn leases(&self) -> Option<&Arc<Leases>> {
        self.0.leases.as_ref()
    }

    pub(crate) fn cache(&self) -> &SessionCache<C::Context> {
        &self.0.cache
    }

    /// Closes the media of sessions that have had no request for 5 s.
    pub fn close_idle_sessions(&self, now: Timestamp) {
        self.cache().forget_old(now);
    }

    /// Refuses a new upload while the server drains, or while a disk has less free space than
    /// the soft limit.
    ///
    /// # Errors
    /// [`Error::Draining`], [`Error::NoSpace`].
    pub fn admit_upload(&self) -> Result<(), Error> {
        match self.parts().stores.disks.space() {
            // Draining comes first: its reply makes the client try another server at once.
            _ if self.parts().lifecycle.is_draining() => Err(Error::Draining),
            DiskSpace::Plenty => Ok(()),
            DiskSpace::Low | DiskSpace::Full => Err(Error::NoSpace),
        }
    }

    /// Returns the length in bytes up to which media is kept in the ledger.
    pub fn small_media_limit(&self) -> usize {
        let limit = self.parts().small_media.min(MAX_SMALL_MEDIA as u64);
        usize::try_from(limit).unwrap_or(MAX_SMALL_MEDIA)
    }

    /// Returns the parts of the engine that a new sink needs.
    pub(crate) fn sink_deps(&self) -> SinkDeps {
        let parts = self.parts();
        SinkDeps {
            ledger: Arc::clone(&parts.stores.ledger),
            vault: Arc::clone(&parts.stores.vault),
            buffer_pool: parts.buffer_pool.clone(),
            small_media_limit: self.small_media_limit(),
            now: parts.clock.now(),
        }
    }

    /// Takes one of the uploads that may run at a time.
    pub(crate) fn take_upload(
        &self,
        context: &C::Context,
        importance: Importance,
    ) -> Result<Permit, Error> {
        let importance = || self.completion().importance(context, importance);
        Ok(self.parts().uploads.take_for(importance)?)
    }

    /// Returns the disk space of one upload; it has set nothing aside.
    pub(crate) fn media_space(&self, context: &C::Context) -> MediaSpace {
        self.parts().stores.media_space(context.caller())
    }

    /// Runs storage work to its end even if the caller is dropped, as
    /// [`Lifecycle::run_to_completion`].
    pub(crate) async fn run_to_completion<T: Send + 'static>(
        &self,
        work: BoxFuture<'static, Result<T, Error>>,
    ) -> Result<T, Error> {
        let work = self.completion().in_request(work);
        self.parts().lifecycle.run_to_completion(work).await
    }
}
