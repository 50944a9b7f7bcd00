//! The server: building, starting and draining it, and the state that requests share.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Request;
use hyper::body::Incoming;
use prometheus_client::registry::Registry as MetricsRegistry;
use windlass_engine::copies::CopyLimits;
use windlass_engine::disks::CheckedStores;
use windlass_engine::identifiers::{Clock, SystemClock};
use windlass_engine::lifecycle::Lifecycle;
use windlass_engine::quotas::{QuotaSource, Quotas};
use windlass_engine::{BufferPool, Engine, EngineParts, Usage};
use windlass_proto::dialect::Dialect;
use windlass_rest::handler::{SettledCollections, StoreHandles};
use windlass_rest::outbox::{Outbox, TopicCounts};
use windlass_rest::registry::Registry;
use windlass_store::{Ledger, Vault};

use crate::audit::{Audit, AuditLog};
use crate::auth::{AllowAll, Authorize};
use crate::background::{self, Background};
use crate::callers::{AddressLimits, RateLimits};
use crate::calls::Calls;
use crate::capacity::Capacity;
use crate::config::Settings;
use crate::connections::{Accept, Connections, HttpService, Listener};
use crate::context::{RequestIds, mount_path};
use crate::dialects::Dialects;
use crate::known_hosts::KnownHosts;
use crate::metrics::{ServerMetrics, Sources};
use crate::service::UploadService;
use crate::state::ServerState;

/// The stores of a server.
#[derive(Clone)]
pub struct Stores {
    /// Holds sessions, resources and small media.
    pub ledger: Arc<dyn Ledger>,
    /// Holds all other media.
    pub vault: Arc<dyn Vault>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}

/// Builds a [`Server`]; see [`Server::builder`].
#[must_use]
pub struct ServerBuilder {
    registry: Registry,
    stores: Stores,
    settings: Settings,
    clock: Arc<dyn Clock>,
    mount: String,
    authorize: Arc<dyn Authorize>,
    quota_source: Option<Arc<dyn QuotaSource>>,
    audit: Option<Arc<dyn AuditLog>>,
    dialects: Vec<Arc<dyn Dialect>>,
    metrics: ServerMetrics,
}

/// Why a [`Server`] could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The prefix of [`ServerBuilder::mounted_at`] is not a path.
    #[error("the server cannot be mounted at `{prefix}`: write a path such as /media")]
    Mount {
        /// The prefix.
        prefix: String,
    },
    /// Two dialects have the same name, or a dialect has the name of Google's.
    #[error("two dialects have the name `{name}`: sessions could not tell them apart")]
    DialectName {
        /// The name.
        name: &'static str,
    },
}

impl ServerBuilder {
    /// Sets the settings. Default: [`Settings::default`].
    pub fn settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// Changes some of the settings, and leaves all other settings as they are.
    pub fn change_settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets the clock. Default: [`SystemClock`].
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Declares that the application serves the service under this path, such as `/media`. The
    /// application removes the path before it calls the service, as `axum::Router::nest_service`
    /// does. `Location`, links and discovery documents then contain the path. Default: none.
    ///
    /// [`Settings::public_url`] takes precedence, because it is a whole URL including its path.
    pub fn mounted_at(self, prefix: impl Into<String>) -> Self {
        Self {
            mount: prefix.into(),
            ..self
        }
    }

    /// Sets who may send requests. Default: [`AllowAll`]. It is called for a batch and for each
    /// call in it.
    pub fn authorize(self, authorize: Arc<dyn Authorize>) -> Self {
        Self { authorize, ..self }
    }

    /// Sets who knows the quota of each principal. Default: the quotas of all principals are
    /// [`sessions_per_principal`](crate::config::Limits::sessions_per_principal) and
    /// [`bytes_per_principal`](crate::config::Limits::bytes_per_principal) of the settings.
    pub fn quota_source(self, source: Arc<dyn QuotaSource>) -> Self {
        Self {
            quota_source: Some(source),
            ..self
        }
    }

    /// Sets the receiver of the audit log's entries. Default: none.
    pub fn audit(self, log: Arc<dyn AuditLog>) -> Self {
        Self {
            audit: Some(log),
            ..self
        }
    }

    /// Adds a dialect. Later dialects take precedence over earlier dialects, and all of them over
    /// Google's.
    pub fn dialect(mut self, dialect: Arc<dyn Dialect>) -> Self {
        self.dialects.push(dialect);
        self
    }

    /// Adds the metrics of the server to `registry`. Default: metrics are counted, but cannot be
    /// read.
    ///
    /// docs/metrics.md lists them. The application shows its registry as it likes; the server has
    /// no path for it. [`MetricsService`](crate::MetricsService) is one. For several servers in one
    /// registry, pass a sub-registry with a label for each:
    /// [`sub_registry_with_label`](MetricsRegistry::sub_registry_with_label).
    pub fn metrics(self, registry: &mut MetricsRegistry) -> Self {
        let metrics = ServerMetrics::default();
        metrics.register(registry);
        Self { metrics, ..self }
    }

    /// Builds the server, which refuses requests until it is started.
    ///
    /// # Errors
    /// [`BuildError`] if parts do not fit together.
    pub fn build(self) -> Result<Server, BuildError> {
        let Some(mount) = mount_path(&self.mount) else {
            return Err(BuildError::Mount { prefix: self.mount });
        };
        let settings = Arc::new(self.settings);
        let registry = Arc::new(self.registry);
        let dialects = Dialects::new(self.dialects);
        if let Some(name) = dialects.ambiguous_name() {
            return Err(BuildError::DialectName { name });
        }
        let dialects = Arc::new(dialects);
        let limits = settings.free_space.clone();
        let stores = CheckedStores::new(self.stores.ledger, self.stores.vault, limits);
        let capacity = Capacity::new(&settings.limits);
        let quotas = quotas(&settings, self.quota_source);
        let parts = engine_parts(&settings, &stores, &capacity, &self.clock, quotas);
        let lifecycle = Arc::clone(&parts.lifecycle);
        let pools = (capacity.clone(), parts.buffer_pool.clone());
        let sources = sources(pools, &stores, &lifecycle);
        let metrics = Arc::new(self.metrics.recorder(&registry, sources));
        let audit = Audit::new(self.audit, &self.clock);
        let address_limits = AddressLimits::of(&settings, &metrics.callers);
        let outbox = Arc::new(Outbox::new(registry.deliveries()));
        let calls = Calls {
            settings: Arc::clone(&settings),
            registry: Arc::clone(&registry),
            dialects: Arc::clone(&dialects),
            authorize: Arc::clone(&self.authorize),
            clock: Arc::clone(&self.clock),
            audit: audit.clone(),
            metrics: Arc::clone(&metrics),
            capacity: capacity.clone(),
            address_limits: address_limits.clone(),
            outbox: Arc::clone(&outbox),
            store_handles: store_handles(&stores, &capacity, &registry),
            keyed_mutex: Arc::default(),
        };
        let state = ServerState {
            engine: Engine::new(parts, calls),
            outbox,
            authorize: self.authorize,
            audit,
            clock: self.clock,
            request_ids: RequestIds::new(),
            rates: RateLimits::new(&settings.limits, metrics.callers.clone()),
            address_limits,
            known_hosts: KnownHosts::of(&settings, &registry),
            settings,
            mount,
            dialects,
            registry,
            stores,
            capacity,
            lifecycle,
            metrics,
        };
        Ok(Server {
            inner: Arc::new(Inner {
                background: Mutex::default(),
                state: Arc::new(state),
            }),
        })
    }
}

/// Returns the quotas, from the source if there is one.
fn quotas(settings: &Settings, source: Option<Arc<dyn QuotaSource>>) -> Quotas {
    let quotas = Quotas::new(settings.limits.quota());
    match source {
        Some(source) => quotas.with_source(source),
        None => quotas,
    }
}

/// Returns what the engine works with. Its pools are those of `capacity`.
fn engine_parts(
    settings: &Settings,
    stores: &CheckedStores,
    capacity: &Capacity,
    clock: &Arc<dyn Clock>,
    quotas: Quotas,
) -> EngineParts {
    EngineParts {
        stores: stores.clone(),
        clock: Arc::clone(clock),
        lifecycle: Arc::default(),
        uploads: capacity.uploads.clone(),
        media_reads: capacity.media_reads.clone(),
        concatenations: capacity.concatenations.clone(),
        concatenation_shares: capacity.concatenation_shares.clone(),
        metadata: capacity.metadata.clone(),
        reading: capacity.reading.clone(),
        buffer_pool: BufferPool::new(settings.limits.media_memory),
        quotas,
        checkpoints: settings.checkpoints.clone(),
        lifetime: settings.lifetime(),
        copies: CopyLimits::new(settings.limits.copies_per_hour),
        small_media: settings.limits.small_media,
        takeover_timeout: settings.limits.takeover_timeout,
    }
}

/// Returns the stores as handlers see them.
fn store_handles(stores: &CheckedStores, capacity: &Capacity, registry: &Registry) -> StoreHandles {
    StoreHandles {
        ledger: Arc::clone(&stores.ledger),
        vault: Arc::clone(&stores.vault),
        reading: capacity.reading.clone(),
        media_reads: capacity.media_reads.clone(),
        settled: SettledCollections::new(registry.served().map(|it| it.api.name())),
        pattern_checks: capacity.pattern_checks.clone(),
        timeout: capacity.timeout,
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("registry", &self.registry)
            .field("settings", &self.settings)
            .field("mount", &self.mount)
            .finish_non_exhaustive()
    }
}

/// A server of one or more APIs. Clones share their state.
///
/// Its life has these steps: [built](ServerBuilder::build), [started](Server::start),
/// [drained](Server::drain). [`Server::run`] starts the server, serves a listener, and drains the
/// server.
///
/// The stores close when the last clone is dropped and no request is running. Services and
/// connections do not keep them open.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    /// Declared before the state: the background tasks end before the stores close.
    background: Mutex<Background>,
    state: Arc<ServerState>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("settings", &self.inner.state.settings)
            .finish_non_exhaustive()
    }
}

/// Why [`Server::run`] has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// `stop` resolved, and the server has drained.
    Drained,
    /// Storage failed. The process must exit with an error and start again, so that recovery reads
    /// the state of the disk.
    StorageFailed,
}

/// Storage has failed, so the server acknowledges nothing any more. The process must exit with an
/// error and start again, so that recovery reads the state of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("storage failed; start the process again so that it recovers")]
pub struct StorageFailed;

impl Server {
    /// Returns a builder of a server of these APIs over these stores.
    pub fn builder(registry: Registry, stores: Stores) -> ServerBuilder {
        ServerBuilder {
            registry,
            stores,
            settings: Settings::default(),
            clock: Arc::new(SystemClock),
            mount: String::new(),
            authorize: Arc::new(AllowAll),
            quota_source: None,
            audit: None,
            dialects: Vec::new(),
            metrics: ServerMetrics::default(),
        }
    }

    /// Admits requests, and begins to maintain the stores: deletes expired sessions and
    /// unreferenced media, finishes uploads that a crash has interrupted, watches the free space of
    /// the disks, and delivers the events of the outbox.
    ///
    /// A second call does nothing. A call after [`Server::drain`] does nothing either.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server can be started again.
    pub async fn start(&self) {
        self.start_without_maintenance().await;
        let state = &self.inner.state;
        // Under the lock, because a drain takes the tasks after it has set the phase.
        let mut background = self.background();
        if !state.lifecycle.is_draining() {
            background.start_maintenance(state);
        }
    }

    /// Admits requests like [`Server::start`], and leaves the maintenance of the stores to another
    /// process that has them open.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    ///
    /// # Cancel safety
    /// The same as for [`Server::start`].
    pub async fn start_without_maintenance(&self) {
        let state = &self.inner.state;
        // Measured before the first request. Until then the free space counts as unlimited.
        background::check_free_space(state).await;
        let mut background = self.background();
        if state.lifecycle.start() {
            background.start(state);
        }
    }

    /// Returns the service that answers requests. It answers 503 until [`Server::start`], and after
    /// the last clone of the server is dropped.
    ///
    /// Layers of `tower` may wrap it. It reads these extensions of a request, if they are present:
    /// [`Principal`](crate::Principal), [`RequestId`](crate::RequestId),
    /// [`PeerAddress`](crate::PeerAddress), [`LocalAddress`](crate::LocalAddress) and
    /// [`ClientCertificate`](crate::ClientCertificate).
    pub fn service(&self) -> UploadService {
        UploadService::new(&self.inner.state)
    }

    /// Resolves at the first storage fault. From then on the service answers 503.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn failed(&self) -> StorageFailed {
        self.inner.state.lifecycle.failed().await;
        StorageFailed
    }

    /// Returns the counts of each topic that this server delivers.
    pub fn outbox(&self) -> Vec<TopicCounts> {
        self.inner.state.outbox.counts()
    }

    /// Returns how much of each limited resource is in use.
    pub fn usage(&self) -> Vec<Usage> {
        let state = &self.inner.state;
        usage(&state.capacity, &state.engine.parts().buffer_pool)
    }

    /// Drains the server: it refuses new uploads, lets running requests end or commit their durable
    /// bytes, and ends the background tasks. Before [`Server::start`] there is nothing to drain.
    /// Afterwards calls without media are still answered. Takes at most
    /// [`config::Limits::drain`](crate::config::Limits::drain).
    ///
    /// An application with its own listener calls this after it stops accepting connections and
    /// before it waits for the end of its requests. Otherwise uploads would continue for as long as
    /// their clients send.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server stays drained in part: it refuses new uploads. A second
    /// call continues the drain.
    pub async fn drain(&self) {
        let lifecycle = &self.inner.state.lifecycle;
        self.drain_while(lifecycle.wait_for_requests()).await;
    }

    /// Starts the server unless it is started, and serves the connections of `listener` until
    /// `stop` resolves or storage fails. Then drains the server: no new requests are accepted, and
    /// running requests finish or commit their durable bytes within
    /// [`config::Limits::drain`](crate::config::Limits::drain).
    ///
    /// Requests that exceed this time keep the stores open. Otherwise the stores close when the
    /// last clone of the server is dropped.
    ///
    /// # Cancel safety
    /// Not cancel safe: if the future is dropped, uploads end without a commit. No acknowledged
    /// byte is lost.
    pub async fn run<A: Accept>(
        &self,
        listener: Listener<A>,
        stop: impl Future<Output = ()>,
    ) -> Ended {
        self.run_with(self.service(), listener, stop).await
    }

    /// Like [`Server::run`], with a service of the caller: usually [`Server::service`] inside
    /// layers.
    ///
    /// # Cancel safety
    /// The same as for [`Server::run`].
    pub async fn run_with<S, A>(
        &self,
        service: S,
        listener: Listener<A>,
        stop: impl Future<Output = ()>,
    ) -> Ended
    where
        S: HttpService<Request<Incoming>>,
        A: Accept,
    {
        let state = &self.inner.state;
        if !state.lifecycle.is_started() {
            self.start().await;
        }
        let limits = state.settings.limits.clone();
        let connections = Connections::new(
            service,
            state.capacity.connections.clone(),
            state.address_limits.clone(),
            limits,
            state.metrics.callers.clone(),
        );
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = stop => {}
            () = state.lifecycle.failed() => {}
        }
        // New connections are refused from here on, not queued.
        drop(listener);
        self.drain_while(connections.drain()).await;
        if state.lifecycle.has_failed() {
            Ended::StorageFailed
        } else {
            Ended::Drained
        }
    }

    /// Drains within [`config::Limits::drain`](crate::config::Limits::drain). `running` resolves
    /// when no request is running any more.
    ///
    /// In the first half of the time requests may end by themselves. Then uploads have to commit
    /// the bytes that they have received. The last quarter is for work that has lost its request.
    async fn drain_while(&self, running: impl Future<Output = ()>) {
        let state = &self.inner.state;
        state.lifecycle.drain();
        let limit = state.settings.limits.drain;
        tracing::info!(?limit, "draining");
        let drain_now = async {
            tokio::time::sleep(limit / 2).await;
            state.lifecycle.drain_now.cancel();
            tokio::time::sleep(limit / 4).await;
        };
        tokio::select! {
            () = running => {}
            () = drain_now => {}
        }
        // Cancelled also if all requests have ended early, for the sake of work without a request.
        state.lifecycle.drain_now.cancel();
        let background = std::mem::take(&mut *self.background());
        let finished = async {
            // First, because background tasks may begin tracked tasks.
            background.shutdown().await;
            state.lifecycle.tasks.close();
            state.lifecycle.tasks.wait().await;
        };
        tokio::time::timeout(limit / 4, finished).await.ok();
    }

    fn background(&self) -> MutexGuard<'_, Background> {
        let background = self.inner.background.lock();
        background.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the values that the metrics read at each scrape.
fn sources(
    (capacity, buffer_pool): (Capacity, BufferPool),
    stores: &CheckedStores,
    lifecycle: &Arc<Lifecycle>,
) -> Sources {
    Sources {
        usage: Box::new(move || usage(&capacity, &buffer_pool)),
        disks: Arc::clone(&stores.disks),
        lifecycle: Arc::clone(lifecycle),
    }
}

/// How much of each limited resource is in use.
fn usage(capacity: &Capacity, buffer_pool: &BufferPool) -> Vec<Usage> {
    let mut usage = capacity.usage();
    usage.push(buffer_pool.usage());
    usage
}
