//! The application core: uploads from their first byte to their resource.
//!
//! `windlass_proto` parses the heads of requests, and [`crate::error`] and [`crate::reply`] write
//! HTTP replies. These modules read bodies, and choose which parts of requests and replies are
//! stored. [`start_request`] keeps the HTTP method, the query and the conditional headers of the
//! request that started an upload. [`finish`] keeps the status, the type and the body of the reply
//! that ends an upload.
//!
//! | module | duty |
//! |---|---|
//! | [`start_request`] | the request that started an upload, as stored with the session |
//! | [`single_request`] | uploads of one request: simple, multipart, and embedded in JSON |
//! | [`concat`](mod@concat) | calls with media that is concatenated from existing media |
//! | [`session`] | start, query, append, cancel |
//! | [`sessions`] | the sessions of a server: rows, guards and leases, rules, stored replies |
//! | [`append`] | the bytes of one request, from the body to a commit |
//! | [`finish`] | from complete media to a resource and a stored reply |
//! | [`session_cache`] | sessions that expect their next request soon |
//!
//! Words that these modules use:
//!
//! - A *signed link* is a URL that allows uploads or downloads of one kind without credentials
//!   ([`LinkTerms`](crate::LinkTerms)).
//! - A *request* is an HTTP request. The *start request*
//!   ([`StartRequest`](start_request::StartRequest)) is the data that the server keeps about the
//!   request that started an upload. Later requests append to the upload, unless the first request
//!   contains all of it.
//! - The *ledger* is the database of sessions, resources and small media. The *vault* stores larger
//!   media. Both are traits of `windlass_store`. *Small media* is media of at most
//!   [`Limits::small_media`](crate::config::Limits::small_media) bytes.
//! - A session's *row* is its record in the ledger. Its field `context` holds the start request, as
//!   bytes that the ledger does not read.
//! - A *lease* is the right to write to a session, which one request holds at a time. The ledger
//!   numbers the leases of a session. The number of a lease is its *epoch*. A lease ends when the
//!   next lease is taken, in this process or in another. Consecutive requests may use the same
//!   lease (`session_cache`).
//! - A *guard* ([`SessionGuard`](windlass_engine::locks::SessionGuard)) is the lock of a session within this
//!   process. A request takes the guard first and the lease second. While it holds the guard, no
//!   other request of this process can take a lease. A request that holds both is the *writer* of
//!   the session. A `MediaWriter` is not a writer in this sense: it writes the bytes of one media
//!   to the vault.
//! - The newest request that needs the lease wins. It *takes over* the session: it asks the writer
//!   to stop and waits for the guard. A query needs no lease, except in a dialect in which a query
//!   finishes an upload that is committed completely. The older request is *superseded*: it commits
//!   the bytes that it has received, except the bytes of an incomplete gzip body, and releases the
//!   guard. An older request that still waits for the guard gives up.
//! - A request is *fenced* if the ledger refuses its change of a session, because its epoch is not
//!   the newest, or because the session has ended or has another offset than the request assumes.
//!   Nothing changes then.
//! - A *checkpoint* is a sync of media and a commit of its offset while the body is still being
//!   read.
//! - An *extent* is the part of the media that one commit adds to the vault, with its checksum.
//!   When the media is reopened, the vault reads the last committed extent and verifies it.
//! - The *progress* of a session is the state that a commit writes into its row: the committed
//!   offset, the media and its last extent, the CRC32C so far, and the state of the hashers of MD5
//!   and SHA-256.
//! - To *flush* media is to write and sync all bytes that the server has received of it, at the end
//!   of a request. Small media is handed out instead, for the ledger.
//! - *Garbage* is media that the ledger has released and lists for deletion.
//! - The *sweep* is a background task that deletes expired sessions, garbage, and media in the
//!   vault that the ledger does not name, a day after its last write. Another task finishes uploads
//!   that a crash or an error left in the state *finishing*.
//! - A server *drains* when it stops. It refuses new work from then on (`is_draining`). After half
//!   of the drain time it also tells running uploads to commit their bytes and end (`drain_now`).
//! - A *dialect* is a wire form of the upload protocol, such as Google's. A session is changed only
//!   in the dialect in which it was started.
//!
//! [`windlass_engine::locks`] hands out the guards, and [`windlass_engine::lifecycle`] completes work after its client
//! has gone.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use windlass_engine::copies::CopyLimits;
use windlass_engine::disks::{CheckedStores, DiskSpace, MediaSpace};
use windlass_engine::identifiers::Clock;
use windlass_engine::lifecycle::Lifecycle;
use windlass_engine::locks::{KeyedGuard, KeyedMutex};
use windlass_engine::quotas::Quotas;
use windlass_engine::sink::{MAX_SMALL_MEDIA, MediaSink, SinkDeps};
use windlass_engine::{BufferPool, CommitRules, Error as EngineError, Importance};

use crate::audit::{self, Audit};
use crate::auth::Authorize;
use crate::callers::{AddressLimits, RateLimits, caller};
use crate::capacity::Capacity;
use crate::config::Settings;
use crate::context::{Principal, RequestIds};
use crate::dialects::Dialects;
use crate::error::Error;
use crate::handler::{ApiHandler, Call, ReplyMemoryPermit, StoreHandles};
use crate::known_hosts::KnownHosts;
use crate::metrics::Recorder;
use crate::namespace::{Namespace, separate_owner};
use crate::outbox::Outbox;
use crate::registry::{Registry, ServedApi};

use sessions::Sessions;

pub(crate) mod append;
pub(crate) mod concat;
pub(crate) mod finish;
pub(crate) mod session;
pub(crate) mod session_cache;
pub(crate) mod sessions;
pub(crate) mod single_request;
pub(crate) mod start_request;

/// The state that all requests of a server share.
///
/// The functions that carry out requests are in the modules of [`crate::uploads`].
pub(crate) struct ServerState {
    pub(crate) settings: Arc<Settings>,
    /// Path prefix under which an application mounts the server; empty if it is not mounted.
    pub(crate) mount: String,
    /// The hosts that requests may name.
    pub(crate) known_hosts: KnownHosts,
    pub(crate) authorize: Arc<dyn Authorize>,
    pub(crate) audit: Audit,
    pub(crate) dialects: Arc<Dialects>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) request_ids: RequestIds,
    /// Limits on the resources that clients can make the server hold.
    pub(crate) capacity: Capacity,
    /// Limits on the connections of each address.
    pub(crate) address_limits: AddressLimits,
    pub(crate) rates: RateLimits,
    /// Quotas of each principal in the stores.
    pub(crate) quotas: Quotas,
    /// Limits on copies for each caller.
    pub(crate) copies: CopyLimits,
    /// Fail-stop, drain, and work that outlives its request.
    pub(crate) lifecycle: Arc<Lifecycle>,
    /// Counts the server's work.
    pub(crate) metrics: Arc<Recorder>,

    /// The ledger and the vault, with the free space on their disks.
    pub(crate) stores: CheckedStores,

    // The APIs.
    pub(crate) registry: Arc<Registry>,
    /// The topics of the events that handlers commit for later delivery.
    pub(crate) outbox: Outbox,
    /// The stores as handlers see them.
    pub(crate) store_handles: StoreHandles,
    /// Serialises calls of one [lock key](ApiHandler::lock_key).
    pub(crate) keyed_mutex: Arc<KeyedMutex>,

    // The uploads.
    pub(crate) sessions: Sessions,
    pub(crate) buffer_pool: BufferPool,
    /// What the commits of all appending requests have in common.
    pub(crate) commit_rules: Arc<CommitRules>,
}

impl ServerState {
    /// Returns the importance of a request of this client.
    pub(crate) fn importance_to(
        &self,
        client: Option<IpAddr>,
        importance: Importance,
    ) -> Importance {
        if self.address_limits.is_modest(client) {
            Importance::Modest
        } else {
            importance
        }
    }

    /// Refuses a new upload while the server drains, or while a disk has less free space than
    /// the soft limit.
    pub(crate) fn admit_upload(&self) -> Result<(), Error> {
        match self.stores.disks.space() {
            // Draining comes first: its reply makes the client try another server at once.
            _ if self.lifecycle.is_draining() => Err(EngineError::Draining.into()),
            DiskSpace::Plenty => Ok(()),
            DiskSpace::Low | DiskSpace::Full => Err(EngineError::NoSpace.into()),
        }
    }

    /// Returns the length in bytes up to which media is kept in the ledger.
    pub(crate) fn small_media_limit(&self) -> usize {
        let limit = self.settings.limits.small_media.min(MAX_SMALL_MEDIA as u64);
        usize::try_from(limit).unwrap_or(MAX_SMALL_MEDIA)
    }

    /// Returns the parts of the server that a new sink needs.
    pub(crate) fn sink_deps(&self) -> SinkDeps {
        SinkDeps {
            ledger: Arc::clone(&self.stores.ledger),
            vault: Arc::clone(&self.stores.vault),
            buffer_pool: self.buffer_pool.clone(),
            media_reads: self.capacity.media_reads.clone(),
            small_media_limit: self.small_media_limit(),
            now: self.clock.now(),
        }
    }

    /// Returns a permit for the memory of one reply to this client. It counts no bytes yet.
    pub(crate) fn reply_memory(
        &self,
        principal: Option<&Principal>,
        client: Option<IpAddr>,
    ) -> ReplyMemoryPermit {
        let importance = || self.importance_to(client, Importance::Query);
        ReplyMemoryPermit::new(&self.capacity, caller(principal, client), importance)
    }

    /// Returns the owner to whose resources a call of the API is limited, and the namespace of the
    /// call. The owner is `None` if the call sees all resources. If the handler limits its calls
    /// itself, they are in the root namespace.
    pub(crate) fn ownership<'a>(
        &self,
        served_api: &ServedApi,
        principal: Option<&'a Principal>,
    ) -> (Option<&'a Principal>, Namespace) {
        let access = served_api.api.settings().access;
        let owner = separate_owner(access, &self.settings, principal);
        let in_namespace = owner.filter(|_| !served_api.handler.separates_owners());
        (owner, Namespace::of(in_namespace.map(Principal::id)))
    }

    /// Waits for the lock of the call's [lock key](ApiHandler::lock_key); `None` if the handler
    /// names no key.
    ///
    /// # Errors
    /// [`Error::Crowded`] after
    /// [`Limits::takeover_timeout`](crate::config::Limits::takeover_timeout).
    pub(crate) async fn lock_for(
        &self,
        handler: &dyn ApiHandler,
        call: &Call<'_>,
    ) -> Result<Option<KeyedGuard>, Error> {
        self.lock(handler.lock_key(call), call).await
    }

    /// As [`ServerState::lock_for`], with a key that the handler has given for the call.
    pub(crate) async fn lock(
        &self,
        key: Option<String>,
        call: &Call<'_>,
    ) -> Result<Option<KeyedGuard>, Error> {
        let Some(key) = key else {
            return Ok(None);
        };
        // This lock is unrelated to takeovers of sessions. Only the limit on the wait is the same.
        let timeout = self.settings.limits.takeover_timeout;
        let key = call.lookup.namespace().qualified(&key).into_owned();
        let guard = self.keyed_mutex.take(key, timeout).await;
        Ok(Some(guard.map_err(|_| Error::Crowded)?))
    }
}

/// Runs storage work to its end even if the caller is dropped, as
/// [`Lifecycle::run_to_completion`]. The current request stays the origin of the work in the audit
/// log.
async fn run_to_completion<T: Send + 'static>(
    lifecycle: &Arc<Lifecycle>,
    work: BoxFuture<'static, Result<T, Error>>,
) -> Result<T, Error> {
    lifecycle
        .run_to_completion(audit::in_current_request(work))
        .await
}

/// Subtracts the bytes in the sink's write buffer from the estimate of the free space. Must be
/// called before a flush, which writes them.
fn count_last_write(space: &MediaSpace, sink: &MediaSink) {
    // Unlike `MediaSpace::admit_write`, this never refuses the write. The bytes have been received,
    // and they fit into one write buffer. Small media is not counted here, because the ledger
    // counts it when it stores it.
    if sink.is_for_vault() {
        space.count_write(sink.buffered_len() as u64);
    }
}
