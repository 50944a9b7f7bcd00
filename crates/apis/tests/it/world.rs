//! A server of some APIs, and requests to it without a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use http::{Method, Request};
use serde_json::Value;
use windlass_apis::{Options, by_name, from_document};
use windlass_discovery::{Access, Api, Found, MethodTable, ResponseFields};
use windlass_server::{Clock, Principal, Registry, ServedApi, Server, Settings, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{ChangeSet, Ledger, Resource, ResourceChange, Timestamp};
use windlass_testkit::in_process;

pub(crate) use windlass_testkit::in_process::{Body, Peer, Reply};

/// Where clients believe the server to be.
pub(crate) const ORIGIN: &str = "http://apis.test";

/// A clock that advances by a second at each reading.
#[derive(Debug, Default)]
pub(crate) struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1000, Ordering::Relaxed))
    }
}

/// When a manual clock begins: 1 May 2024.
pub(crate) const START: u64 = 1_714_521_600_000;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub(crate) struct ManualClock(AtomicU64);

impl Default for ManualClock {
    fn default() -> Self {
        Self(AtomicU64::new(START))
    }
}

impl ManualClock {
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

/// A server over memory.
pub(crate) struct World<C = TickingClock> {
    pub(crate) server: Server,
    pub(crate) clock: Arc<C>,
    ledger: Arc<dyn Ledger>,
    described: Described,
}

impl World {
    /// Serves the APIs of this name that come with Windlass.
    pub(crate) fn of(name: &str) -> Self {
        Self::serving(by_name(name, &Options::default()).expect("it comes with Windlass"))
    }

    /// Serves the APIs of this name, each principal its own resources.
    pub(crate) fn owned(name: &str) -> Self {
        let apis = by_name(name, &Options::default()).expect("it comes with Windlass");
        Self::serving(with_access(apis, Access::Owner))
    }

    /// Serves the APIs of this name over these stores.
    pub(crate) fn over(name: &str, stores: Stores) -> Self {
        let apis = by_name(name, &Options::default()).expect("it comes with Windlass");
        Self::serving_over(apis, stores)
    }

    /// Serves a discovery document as it is published.
    pub(crate) fn adopting(document: &Value) -> Self {
        let api = Api::from_json(&document.to_string()).expect("tests write valid documents");
        Self::serving(vec![from_document(api, &Options::default())])
    }
}

impl World<ManualClock> {
    /// Serves the APIs of this name, with these options, at a time that tests drive.
    pub(crate) fn timed(name: &str, options: &Options) -> Self {
        Self::serving(by_name(name, options).expect("it comes with Windlass"))
    }

    /// As [`timed`](Self::timed), with all resources shared.
    pub(crate) fn shared(name: &str, options: &Options) -> Self {
        let apis = by_name(name, options).expect("it comes with Windlass");
        Self::serving(with_access(apis, Access::Shared))
    }
}

fn with_access(apis: Vec<ServedApi>, access: Access) -> Vec<ServedApi> {
    let change = |served: ServedApi| ServedApi {
        api: served.api.map_settings(|settings| settings.access = access),
        ..served
    };
    apis.into_iter().map(change).collect()
}

impl<C: Clock + Default> World<C> {
    fn serving(apis: Vec<ServedApi>) -> Self {
        let stores = Stores {
            ledger: Arc::new(MemoryLedger::new()),
            vault: Arc::new(MemoryVault::new()),
        };
        Self::serving_over(apis, stores)
    }

    fn serving_over(apis: Vec<ServedApi>, stores: Stores) -> Self {
        let mut settings = Settings::default();
        settings.unowned_principal = Some("token".to_owned());
        settings.public_url = Some(ORIGIN.to_owned());
        // Little media is enough to be in the vault.
        settings.limits.small_media = 512;
        let ledger = Arc::clone(&stores.ledger);
        let described = Described::of(&apis);
        let registry = Registry::new(apis).expect("they do not collide");
        let clock = Arc::new(C::default());
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        settings.free_space.soft = 0;
        settings.free_space.hard = 0;
        let server = Server::builder(registry, stores)
            .settings(settings)
            .clock(time)
            .build()
            .expect("its parts fit");
        let started = server.start_without_maintenance().now_or_never();
        started.expect("no disk is measured");
        Self {
            server,
            clock,
            ledger,
            described,
        }
    }

    /// Puts resources into the ledger, past all APIs.
    pub(crate) async fn put(&self, resources: impl IntoIterator<Item = Resource>) {
        let resources = resources.into_iter().map(ResourceChange::Insert);
        let changes = ChangeSet {
            resources: resources.collect(),
            ..ChangeSet::default()
        };
        self.ledger.apply(changes).await.expect("they are new");
    }

    /// A resource as it is in the ledger.
    pub(crate) async fn stored(&self, collection: &str, id: &str) -> Resource {
        let resource = self.ledger.resource(collection, id).await;
        let resource = resource.expect("memory can be read");
        resource.expect("it is there")
    }

    /// The resources of a collection; a thousand are many.
    pub(crate) async fn all_stored(&self, collection: &str) -> Vec<Resource> {
        let resources = self.ledger.resources(collection, None, 1000).await;
        resources.expect("memory can be read")
    }

    /// The bytes that count against the quota of a principal.
    pub(crate) async fn usage(&self, principal: &str) -> u64 {
        let usage = self.ledger.usage(principal).await;
        usage.expect("memory can be read").bytes
    }

    /// How many resources a collection has.
    pub(crate) async fn count(&self, collection: &str) -> usize {
        self.all_stored(collection).await.len()
    }
}

impl<C> Peer for World<C> {
    const ORIGIN: &str = ORIGIN;

    async fn try_exchange(&self, request: Request<Body>) -> Reply {
        let (http_method, uri) = (request.method().clone(), request.uri().clone());
        let reply = in_process::try_exchange(self.server.service(), request).await;
        let is_media = uri.query().is_some_and(|query| query.contains("alt=media"));
        if reply.status.is_success() && !is_media {
            self.described.check(&http_method, uri.path(), &reply);
        }
        reply
    }
}

/// The descriptions of a server's APIs, by which all of its replies are checked: a field that is in
/// no schema could not be selected by `fields`.
struct Described {
    apis: Vec<Api>,
    table: MethodTable,
}

impl Described {
    fn of(served: &[ServedApi]) -> Self {
        let apis: Vec<_> = served.iter().map(|served| served.api.clone()).collect();
        let table = MethodTable::new(&apis);
        Self { apis, table }
    }

    fn check(&self, http_method: &Method, path: &str, reply: &Reply) {
        let Found::Method { method, .. } = self.table.find(http_method, path) else {
            return;
        };
        let Ok(body) = serde_json::from_slice(&reply.body) else {
            return;
        };
        let is_its_api =
            |api: &&Api| (api.name(), api.version()) == (&method.api_name, &method.api_version);
        let api = self.apis.iter().find(is_its_api).expect("it has an API");
        let undescribed = undescribed(&ResponseFields::of(api, method), &body);
        assert_eq!(undescribed, None, "{} replies with it: {body}", method.id);
    }
}

/// Returns the name of a field that a value has and its schema does not have.
fn undescribed(fields: &ResponseFields<'_>, value: &Value) -> Option<String> {
    match value {
        _ if fields.is_open() => None,
        Value::Array(elements) => elements.iter().find_map(|it| undescribed(fields, it)),
        Value::Object(object) => object
            .iter()
            .find_map(|(name, value)| match fields.named(name) {
                Some(below) => undescribed(&below, value),
                None => Some(name.clone()),
            }),
        _ => None,
    }
}

/// The requests of one principal, or of nobody.
pub(crate) struct Caller<'a, C = TickingClock> {
    pub(crate) world: &'a World<C>,
    pub(crate) id: Option<&'a str>,
}

impl<C> World<C> {
    /// The requests of the principal with this id.
    pub(crate) fn by<'a>(&'a self, id: impl Into<Option<&'a str>>) -> Caller<'a, C> {
        Caller {
            world: self,
            id: id.into(),
        }
    }
}

impl<C> Peer for Caller<'_, C> {
    const ORIGIN: &'static str = ORIGIN;

    async fn try_exchange(&self, mut request: Request<Body>) -> Reply {
        if let Some(id) = self.id {
            request.extensions_mut().insert(Principal::new(id));
        }
        self.world.try_exchange(request).await
    }
}
