//! The upload server: a service that speaks Google's media upload protocol for any API described by
//! a discovery document, over any store that keeps the contracts of `windlass_store`.
//!
//! [`Server`] is the whole of it. It is given its APIs, its store and its clock; it opens nothing
//! itself, and knows no particular API and no particular store.
//!
//! The life of a request, room by room: `service` routes it, `arguments` checks its parameters, `uploads`
//! or `resources` carries it out by asking a [`kind`], `reply` writes the answer and `error` says, in
//! one table, how each refusal looks.

use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_store::{Ledger, Vault};

mod arguments;
mod background;
mod body;
mod byte_range;
mod capacity;
mod clock;
pub mod config;
mod connections;
mod discovery_service;
mod disks;
mod download;
mod error;
mod generic;
mod host;
mod identifiers;
pub mod kind;
mod listener;
mod origin;
mod partial_response;
mod precondition;
mod registry;
mod reply;
mod resources;
mod service;
mod turns;
mod uploads;
mod vitals;

pub use capacity::{Full, Held, LOOKS, Usage};
pub use clock::{Clock, SystemClock};
pub use config::Settings;
pub use generic::{GenericKind, patched_fields};
pub use host::{Host, NotAHost};
pub use listener::{Accept, Listener};
pub use origin::{LocalAddress, Scheme};
pub use registry::{Conflict, Registry, ServedApi};
pub use reply::ReplyBody;
pub use uploads::warm::LEN as WARM_SESSIONS;

use capacity::Capacity;
use connections::Connections;
use disks::{CheckedLedger, Disks};
use uploads::House;
use uploads::warm::WarmSessions;

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
    house: Arc<House>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("settings", &self.house.settings)
            .finish_non_exhaustive()
    }
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Drained,
    /// Storage failed. The process must exit with an error and start anew, so that recovery can
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
        let house = House {
            shelf: kind::Shelf {
                ledger: Arc::clone(&ledger),
                vault: Arc::clone(&stores.vault),
                reading: capacity.reading.clone(),
                looks: capacity.looks.clone(),
                patience: capacity.patience,
            },
            capacity,
            turns: Arc::default(),
            budget: uploads::budget::MemoryBudget::new(settings.limits.media_memory),
            settings,
            registry,
            ledger,
            vault: stores.vault,
            clock,
            vitals: vitals::Vitals::default(),
            disks,
            leases: Arc::default(),
            warm: WarmSessions::new(),
            tasks: TaskTracker::new(),
            garbage: tokio::sync::Notify::new(),
            cut: CancellationToken::new(),
        };
        Self {
            house: Arc::new(house),
        }
    }

    /// How much clients make the server hold, and how much they may.
    pub fn usage(&self) -> Vec<Usage> {
        self.house.capacity.usage()
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
        let house = &self.house;
        background::look_at_the_disks(house).await;
        let background = background::spawn(house);
        let connections = Connections::new(Arc::clone(house));
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = stop => {}
            () = house.vitals.failed() => {}
        }
        drop(listener);
        self.drain(connections, background).await;
        if house.vitals.has_failed() {
            Ended::StorageFailed
        } else {
            Ended::Drained
        }
    }

    /// For the first half of the time requests may end by themselves; then uploads are told to
    /// commit what they have. The last quarter is for what goes on without a request.
    async fn drain(&self, connections: Connections, mut background: JoinSet<()>) {
        let house = &self.house;
        house.vitals.drain();
        let limit = house.settings.limits.drain;
        tracing::info!(?limit, "draining");
        let cut = async {
            tokio::time::sleep(limit / 2).await;
            house.cut.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = connections.drain(limit / 4 * 3) => {}
            () = cut => {}
        }
        house.cut.cancel();
        let settled = async {
            // First, since it may begin tasks.
            background.shutdown().await;
            house.tasks.close();
            house.tasks.wait().await;
        };
        tokio::time::timeout(limit / 4, settled).await.ok();
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
        let house = Arc::clone(&self.house);
        Box::pin(async move { Ok(service::answer(house, request).await) })
    }
}
