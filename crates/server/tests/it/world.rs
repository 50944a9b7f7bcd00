//! A server over given stores, with a clock that tests drive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use windlass_discovery::Api;
use windlass_server::config::{ChunkRule, Limits};
use windlass_server::{
    Clock, Ended, Listener, QuotaSource, Registry, ServedApi, Server, ServerBuilder, Settings,
    Stores, UploadService,
};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{Ledger, Timestamp};
use windlass_testkit::farm;
use windlass_testkit::in_process;

pub(crate) use windlass_testkit::in_process::{Body, Peer, Reply};

/// Media up to this many bytes stays in the ledger, so that tests reach the vault with little.
pub(crate) const SMALL_MEDIA: u64 = 16;

/// The life of a session.
pub(crate) const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that goes with the timers of the runtime, second by second.
    pub(crate) fn with_timers() -> Arc<Self> {
        let clock = Arc::new(Self::default());
        let ticking = Arc::clone(&clock);
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(1)).await;
                ticking.advance(Duration::from_secs(1));
            }
        });
        clock
    }

    pub(crate) fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("a short time");
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A server and its clock.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Arc<ManualClock>,
}

/// Stores for several servers, which run one after the other or at once.
pub(crate) struct SharedStores {
    pub(crate) ledger: Arc<MemoryLedger>,
    pub(crate) vault: MemoryVault,
}

impl SharedStores {
    pub(crate) fn new() -> Self {
        Self {
            ledger: Arc::new(MemoryLedger::new()),
            vault: MemoryVault::new(),
        }
    }

    /// A server of the Farm API over this ledger, which is this one or wraps it.
    pub(crate) fn over(&self, ledger: Arc<dyn Ledger>) -> World {
        let vault = Arc::new(self.vault.clone());
        World::new(Stores { ledger, vault }, Arc::default())
    }

    /// A server that has no session in its cache.
    pub(crate) fn server(&self) -> World {
        self.over(Arc::clone(&self.ledger) as _)
    }
}

/// A server that serves a socket.
pub(crate) struct Serving {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

impl Serving {
    /// Tells it to end. Returns the task that runs until it has.
    pub(crate) fn stop(self) -> JoinHandle<Ended> {
        self.stop.send(()).expect("it runs");
        self.ended
    }

    /// Ends it like a crash: nothing that it does is finished.
    pub(crate) async fn crash(self) {
        self.ended.abort();
        self.ended.await.expect_err("it ran");
    }
}

impl World {
    /// A server of the Farm API that accepts chunks of any size.
    pub(crate) fn new(stores: Stores, clock: Arc<ManualClock>) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        Self::of(ServedApi::with_default_handler(farm), stores, clock)
    }

    /// A server of this API.
    pub(crate) fn of(api: ServedApi, stores: Stores, clock: Arc<ManualClock>) -> Self {
        Self::limited(api, stores, clock, limits())
    }

    /// A server of this API with these limits.
    pub(crate) fn limited(
        api: ServedApi,
        stores: Stores,
        clock: Arc<ManualClock>,
        limits: Limits,
    ) -> Self {
        Self::set_up(api, stores, clock, |settings| settings.limits = limits)
    }

    /// A server of the Farm API with sessions that expire after this time without progress.
    pub(crate) fn impatient(stores: Stores, clock: Arc<ManualClock>, idle: Duration) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        Self::set_up(
            ServedApi::with_default_handler(farm),
            stores,
            clock,
            |settings| {
                settings.session_idle = Some(idle);
            },
        )
    }

    /// A server of the Farm API that commits when a request ends, and not before.
    pub(crate) fn without_checkpoints(stores: Stores) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        Self::set_up(
            ServedApi::with_default_handler(farm),
            stores,
            Arc::default(),
            |settings| {
                settings.checkpoints.bytes = u64::MAX;
                settings.checkpoints.interval = Duration::from_secs(24 * 60 * 60);
            },
        )
    }

    /// A server of the Farm API that measures the free space of its disks.
    pub(crate) fn watching_disks(stores: Stores) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        let farm = ServedApi::with_default_handler(farm);
        Self::set_up(farm, stores, Arc::default(), |settings| {
            settings.free_space.soft = 1;
        })
    }

    /// A server of the Farm API with room for this many bytes of media on its disks, and a quota of
    /// bytes (0 for no quota).
    pub(crate) async fn with_room(stores: Stores, room: u64, quota: u64) -> Self {
        let space = stores.vault.space().await.expect("it is in memory");
        let space = space.expect("a vault in memory knows it");
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        let farm = ServedApi::with_default_handler(farm);
        let world = Self::set_up(farm, stores, Arc::default(), |settings| {
            settings.free_space.soft = space.available - room;
            settings.free_space.hard = settings.free_space.soft;
            settings.limits.bytes_per_principal = quota;
        });
        // Measures the disks.
        world.server.start().await;
        world
    }

    /// Serves a socket, with all that the server does in the background.
    pub(crate) async fn serve(&self) -> Serving {
        let (stop, stopped) = oneshot::channel::<()>();
        let sockets = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        self.server.start().await;
        let server = self.server.clone();
        let ended = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            server.run(Listener::plain(sockets), stop).await
        });
        Serving { stop, ended }
    }

    fn set_up(
        api: ServedApi,
        stores: Stores,
        clock: Arc<ManualClock>,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let registry = Registry::new([api]).expect("there is one API");
        Self::of_registry(registry, stores, clock, set)
    }

    /// A server of these APIs and deliveries.
    pub(crate) fn of_registry(
        registry: Registry,
        stores: Stores,
        clock: Arc<ManualClock>,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::of_builder(Server::builder(registry, stores), clock, set)
    }

    /// A server of this API whose quotas come from a source.
    pub(crate) fn with_quota_source(
        api: ServedApi,
        stores: Stores,
        source: Arc<dyn QuotaSource>,
    ) -> Self {
        let registry = Registry::new([api]).expect("there is one API");
        let builder = Server::builder(registry, stores).quota_source(source);
        Self::of_builder(builder, Arc::default(), |_| {})
    }

    fn of_builder(
        builder: ServerBuilder,
        clock: Arc<ManualClock>,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::default();
        settings.public_url = Some(Self::ORIGIN.to_owned());
        settings.chunks = ChunkRule::Lenient;
        settings.session_lifetime = LIFETIME;
        settings.unowned_principal = Some("token".to_owned());
        settings.limits = limits();
        settings.free_space.soft = 0;
        settings.free_space.hard = 0;
        // Little media is enough for a checkpoint.
        settings.checkpoints.bytes = 1 << 20;
        set(&mut settings);
        let ticking = Arc::clone(&clock) as Arc<dyn Clock>;
        let server = builder
            .settings(settings)
            .clock(ticking)
            .build()
            .expect("its parts fit");
        Self { server, clock }
    }

    /// The service. Tests count the calls to the stores, so nothing but requests makes some.
    pub(crate) async fn service(&self) -> UploadService {
        self.server.start_without_maintenance().await;
        self.server.service()
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Starts an upload and returns its session URI.
    pub(crate) async fn start(&self, declared: Option<u64>) -> Result<String, Reply> {
        let uri = "/upload/farm/v1/animals?uploadType=resumable";
        let length = declared
            .map(|length| length.to_string())
            .unwrap_or_default();
        let headers = [("x-upload-content-length", length.as_str())];
        let reply = self.send("POST", uri, &headers, "").await;
        match reply.status {
            StatusCode::OK => Ok(reply.location(Self::ORIGIN).to_owned()),
            _ => Err(reply),
        }
    }

    /// Sends a chunk.
    pub(crate) async fn put(
        &self,
        session: &str,
        content_range: &str,
        body: impl Into<Body>,
    ) -> Reply {
        let headers = [("content-range", content_range)];
        self.send("PUT", session, &headers, body).await
    }

    /// Queries the committed offset.
    pub(crate) async fn query(&self, session: &str) -> Reply {
        self.put(session, "bytes */*", "").await
    }

    /// The media of the resource that a final reply shows.
    pub(crate) async fn media(&self, reply: &Reply) -> Bytes {
        let media = self.download(&reply.field("id")).await;
        assert_eq!(media.status, StatusCode::OK, "{media:?}");
        media.body
    }

    /// Asks for the media of a resource.
    pub(crate) async fn download(&self, id: &str) -> Reply {
        let uri = format!("/farm/v1/animals/{id}?alt=media");
        self.get(&uri).await
    }

    /// The ids of all resources.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let uri = "/farm/v1/animals?maxResults=1000";
        let list = self.get(uri).await.json();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let ids = items.iter().filter_map(|item| item["id"].as_str());
        ids.map(str::to_owned).collect()
    }

    /// How many resources there are.
    pub(crate) async fn count(&self) -> usize {
        self.ids().await.len()
    }
}

impl Peer for World {
    const ORIGIN: &str = "http://farm.localhost";

    async fn try_exchange(&self, request: Request<Body>) -> Reply {
        in_process::try_exchange(self.service().await, request).await
    }
}

/// The default limits, except that little media is enough to be in the vault.
pub(crate) fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.small_media = SMALL_MEDIA;
    limits
}
