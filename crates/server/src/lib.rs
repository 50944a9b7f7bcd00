//! The upload server: a service that speaks Google's media upload protocol for any API described by
//! a discovery document, over any store that keeps the contracts of `windlass_store`.
//!
//! [`Server`] is the whole of it. It is given its APIs, its store and its clock; it opens nothing
//! itself, and knows no particular API and no particular store.
//!
//! The life of a request, module by module: `service` routes it, `request_params` checks its parameters, `uploads`
//! or `resources` carries it out by asking a [`handler`], `reply` writes the answer and `error` says, in
//! one table, how each refusal looks.

use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinSet;
use windlass_store::{Ledger, Vault};

mod background;
mod body;
mod capacity;
pub mod config;
mod connections;
mod default_handler;
mod discovery_service;
mod disks;
mod download;
mod error;
pub mod handler;
mod identifiers;
mod lifecycle;
mod locks;
mod origin;
mod partial_response;
mod precondition;
mod registry;
mod reply;
mod resources;
mod service;
mod uploads;

pub use capacity::{Full, LimitedResource, MEDIA_READS, Usage};
pub use config::Settings;
pub use connections::{Accept, Listener};
pub use default_handler::{DefaultHandler, patched_fields};
pub use identifiers::{Clock, SystemClock};
pub use origin::{Host, NotAHost};
pub use origin::{LocalAddress, Scheme};
pub use registry::{Conflict, Registry, ServedApi};
pub use reply::ReplyBody;
pub use uploads::session_cache::CAPACITY as CACHED_SESSIONS;

use capacity::Capacity;
use connections::Connections;
use disks::{CheckedLedger, Disks};
use uploads::ServerState;
use uploads::session_cache::SessionCache;

/// What a server keeps its promises with.
#[derive(Clone)]
pub struct Stores {
    /// Sessions, resources, small media.
    pub ledger: Arc<dyn Ledger>,
    /// Media.
    pub vault: Arc<dyn Vault>,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}

/// A server of one or more APIs.
#[derive(Clone)]
pub struct Server {
    server: Arc<ServerState>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("settings", &self.server.settings)
            .finish_non_exhaustive()
    }
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Drained,
    /// Storage failed. The process must exit with an error and start again, so that recovery can
    /// look at what is really there.
    StorageFailed,
}

impl Server {
    /// A server that is ready to answer; see [`Server::run`].
    pub fn new(
        settings: Settings,
        registry: Registry,
        stores: Stores,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let disks = Arc::new(Disks::new(settings.free_space.clone()));
        let ledger: Arc<dyn Ledger> =
            Arc::new(CheckedLedger::new(stores.ledger, Arc::clone(&disks)));
        let capacity = Capacity::new(&settings.limits);
        let server = ServerState {
            store_handles: handler::StoreHandles {
                ledger: Arc::clone(&ledger),
                vault: Arc::clone(&stores.vault),
                reading: capacity.reading.clone(),
                media_reads: capacity.media_reads.clone(),
                timeout: capacity.timeout,
            },
            capacity,
            keyed_mutex: Arc::default(),
            buffer_pool: uploads::write_buffer::BufferPool::new(settings.limits.media_memory),
            settings,
            registry,
            ledger,
            vault: stores.vault,
            clock,
            disks,
            lifecycle: Arc::default(),
            leases: Arc::default(),
            session_cache: SessionCache::new(),
        };
        Self {
            server: Arc::new(server),
        }
    }

    /// How much clients make the server hold, and how much they may.
    pub fn usage(&self) -> Vec<Usage> {
        self.server.capacity.usage()
    }

    /// Serves the connections of `listener` until `stop` resolves or storage fails, then drains:
    /// nothing new begins, running requests come to their end or commit what is durable, all
    /// within [`config::Limits::drain`]. Then only those still hold the stores who did not come to their
    /// end by that time: without any, the stores close when the server and its clones are dropped.
    ///
    /// # Cancel safety
    /// Not to be dropped before it resolves: uploads would be cut off without a commit. Nothing
    /// acknowledged would be lost.
    pub async fn run<A: Accept>(
        &self,
        listener: Listener<A>,
        stop: impl Future<Output = ()>,
    ) -> Ended {
        let server = &self.server;
        background::check_free_space(server).await;
        let background = background::spawn(server);
        let connections = Connections::new(Arc::clone(server));
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = stop => {}
            () = server.lifecycle.failed() => {}
        }
        drop(listener);
        self.drain(connections, background).await;
        if server.lifecycle.has_failed() {
            Ended::StorageFailed
        } else {
            Ended::Drained
        }
    }

    /// For the first half of the time requests may end by themselves; then uploads are told to
    /// commit what they have. The last quarter is for what goes on without a request.
    async fn drain(&self, connections: Connections, mut background: JoinSet<()>) {
        let server = &self.server;
        server.lifecycle.drain();
        let limit = server.settings.limits.drain;
        tracing::info!(?limit, "draining");
        let drain_now = async {
            tokio::time::sleep(limit / 2).await;
            server.lifecycle.drain_now.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = connections.drain(limit / 4 * 3) => {}
            () = drain_now => {}
        }
        server.lifecycle.drain_now.cancel();
        let flushed = async {
            // First, since it may begin tasks.
            background.shutdown().await;
            server.lifecycle.tasks.close();
            server.lifecycle.tasks.wait().await;
        };
        tokio::time::timeout(limit / 4, flushed).await.ok();
    }
}

impl<B> tower_service::Service<http::Request<B>> for Server
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<ReplyBody>;
    type Error = std::convert::Infallible;
    type Future =
        futures_util::future::BoxFuture<'static, Result<http::Response<ReplyBody>, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let server = Arc::clone(&self.server);
        Box::pin(async move { Ok(service::answer(server, request).await) })
    }
}
