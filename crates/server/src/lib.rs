//! An upload server: it speaks Google's media upload protocol for any API that a discovery document
//! describes, over any store that keeps the contracts of [`windlass_store`].
//!
//! A [`Server`] is given its APIs, its stores and its clock. Here it serves one API over stores in
//! memory, on a free port, until `stop` resolves:
//!
//! ```
//! use std::sync::Arc;
//!
//! use tokio::net::TcpListener;
//! use windlass_discovery::Api;
//! use windlass_server::{Ended, Listener, Registry, ServedApi, Server, Settings, Stores, SystemClock};
//! use windlass_store::memory::{MemoryLedger, MemoryVault};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let farm = Api::from_toml(r#"
//!     name = "farm"
//!     version = "v1"
//!
//!     [collections.animals]
//!     schema = { name = "string" }
//!
//!     [collections.animals.media]
//!     accept = ["image/*"]
//!     max_size = "4MB"
//! "#)?;
//! let registry = Registry::new([ServedApi::with_default_handler(farm)])?;
//! let stores = Stores {
//!     ledger: Arc::new(MemoryLedger::new()),
//!     vault: Arc::new(MemoryVault::new()),
//! };
//! let server = Server::new(Settings::default(), registry, stores, Arc::new(SystemClock));
//!
//! let sockets = TcpListener::bind("127.0.0.1:0").await?;
//! println!("http://{}/upload/farm/v1/animals", sockets.local_addr()?);
//! let stop = async { /* for example, wait for a signal */ };
//! let ended = server.run(Listener::plain(sockets), stop).await;
//! assert_eq!(ended, Ended::Drained);
//! # Ok(())
//! # }
//! ```
//!
//! A server is also a [`tower_service::Service`] for requests that come from elsewhere.
//!
//! # What the crate does
//!
//! - It routes requests by the description of an API, and checks their parameters and metadata.
//! - It carries out simple, multipart and resumable uploads, downloads, and calls without media.
//! - It asks an [`ApiHandler`](handler::ApiHandler) what a call changes. The [`DefaultHandler`] works
//!   for any description.
//! - It bounds the memory, the files and the time that clients can take; see [`config`].
//! - It drains when it stops, and stops when storage fails.
//!
//! # What is absent
//!
//! The crate opens no store, file or socket, reads no configuration, authenticates nobody, and knows
//! no particular API and no particular store. The command `windlass` puts these together.

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

/// The stores of a server.
#[derive(Clone)]
pub struct Stores {
    /// Holds sessions, resources and small media.
    pub ledger: Arc<dyn Ledger>,
    /// Holds all other media.
    pub vault: Arc<dyn Vault>,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}

/// A server of one or more APIs. Clones share their state.
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

/// Why [`Server::run`] has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// `stop` resolved, and the server has drained.
    Drained,
    /// Storage failed. The process must exit with an error and start again, so that recovery finds out
    /// what is on the disk.
    StorageFailed,
}

impl Server {
    /// Creates a server that is ready to answer requests; see [`Server::run`].
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

    /// Returns how much of each limited resource is in use.
    pub fn usage(&self) -> Vec<Usage> {
        self.server.capacity.usage()
    }

    /// Serves the connections of `listener` until `stop` resolves or storage fails, then drains: no new
    /// requests are accepted, and running ones finish or commit what is durable within
    /// [`config::Limits::drain`].
    ///
    /// Requests that exceed this time keep the stores open. Otherwise the stores close when the last
    /// clone of the server is dropped.
    ///
    /// # Cancel safety
    /// Not cancel safe: if the future is dropped, uploads end without a commit. No acknowledged byte
    /// is lost.
    pub async fn run<A: Accept>(
        &self,
        listener: Listener<A>,
        stop: impl Future<Output = ()>,
    ) -> Ended {
        let server = &self.server;
        // Before the first request: until it is measured, the free space counts as unlimited.
        background::check_free_space(server).await;
        let background = background::spawn(server);
        let connections = Connections::new(Arc::clone(server));
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = stop => {}
            () = server.lifecycle.failed() => {}
        }
        // New connections are refused from here on, not queued.
        drop(listener);
        self.drain(connections, background).await;
        if server.lifecycle.has_failed() {
            Ended::StorageFailed
        } else {
            Ended::Drained
        }
    }

    /// Drains within [`config::Limits::drain`].
    ///
    /// In the first half of the time requests may end by themselves. Then uploads are told to commit
    /// what they have. The last quarter is for work that has lost its request.
    async fn drain(&self, connections: Connections, mut background: JoinSet<()>) {
        let server = &self.server;
        server.lifecycle.drain();
        let limit = server.settings.limits.drain;
        tracing::info!(?limit, "draining");
        let drain_now = async {
            tokio::time::sleep(limit / 2).await;
            server.lifecycle.drain_now.cancel();
            // The connections decide when the drain is over.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = connections.drain(limit / 4 * 3) => {}
            () = drain_now => {}
        }
        // Also when all connections ended early: work without a request is told as well.
        server.lifecycle.drain_now.cancel();
        let finished = async {
            // First, since background tasks may begin tracked ones.
            background.shutdown().await;
            server.lifecycle.tasks.close();
            server.lifecycle.tasks.wait().await;
        };
        tokio::time::timeout(limit / 4, finished).await.ok();
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
