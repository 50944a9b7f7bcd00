//! Quotas that come from an application ([`QuotaSource`]), at each place that enforces a quota.

use std::convert::Infallible;
use std::error::Error;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, Concatenation, Rejection, Uploaded};
use windlass_server::{Principal, PrincipalLimits, QuotaSource, ServedApi, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{Ledger as _, Resource, ResourceChange};
use windlass_testkit::farm;
use windlass_testkit::in_process::{self, Body, Peer, Reply};

use crate::world::World;

/// The quota of alice, in bytes. Bob has none.
const QUOTA: u64 = 300_000;

/// More than the quota.
const LONG: usize = 500_000;

const SIMPLE: &str = "/upload/farm/v1/animals?uploadType=media";

/// Limits alice, and fails if it is told to.
#[derive(Default)]
struct Plans {
    asked: AtomicU64,
    fails: AtomicBool,
}

#[async_trait]
impl QuotaSource for Plans {
    async fn limits(
        &self,
        principal: &str,
    ) -> Result<PrincipalLimits, Box<dyn Error + Send + Sync>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("the database is down").into());
        }
        let limits = PrincipalLimits::default();
        Ok(match principal {
            "alice" => limits.with_bytes(QUOTA).with_sessions(2),
            _ => limits,
        })
    }
}

/// A server whose quotas come from [`Plans`].
struct Town {
    world: World,
    ledger: Arc<MemoryLedger>,
    plans: Arc<Plans>,
}

impl Town {
    fn of(api: ServedApi) -> Self {
        let ledger = Arc::<MemoryLedger>::default();
        let stores = Stores {
            ledger: ledger.clone(),
            vault: Arc::new(MemoryVault::new()),
        };
        let plans = Arc::<Plans>::default();
        let world = World::with_quota_source(api, stores, Arc::clone(&plans) as _);
        Self {
            world,
            ledger,
            plans,
        }
    }

    fn farm() -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        Self::of(ServedApi::with_default_handler(farm))
    }

    fn archive() -> Self {
        let archive = Api::from_toml(ARCHIVE).expect("it is valid");
        Self::of(ServedApi::new(archive, Arc::new(Archive)))
    }

    fn alice(&self) -> User<'_> {
        User(self, "alice")
    }

    fn bob(&self) -> User<'_> {
        User(self, "bob")
    }

    /// Has the source fail from now on, and waits until no answer is remembered.
    fn break_source(&self) -> impl Future<Output = ()> + Send + 'static {
        let plans = Arc::clone(&self.plans);
        async move {
            plans.fails.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    }

    fn repair_source(&self) {
        self.plans.fails.store(false, Ordering::Relaxed);
    }
}

/// A principal that sends requests.
struct User<'a>(&'a Town, &'static str);

impl User<'_> {
    /// Starts an upload of a declared or an undeclared length. Returns the status, and the session
    /// URI if there is one.
    async fn start(&self, uri: &str, declared: Option<usize>) -> (StatusCode, Option<String>) {
        let length = declared.map(|length| length.to_string());
        let length = length.unwrap_or_default();
        let headers = [("x-upload-content-length", length.as_str())];
        let reply = self.send("POST", uri, &headers, "").await;
        let is_started = reply.status == StatusCode::OK;
        let session = is_started.then(|| reply.location(World::ORIGIN).to_owned());
        (reply.status, session)
    }

    async fn session(&self, declared: Option<usize>) -> String {
        let (status, session) = self.start(RESUMABLE, declared).await;
        session.unwrap_or_else(|| panic!("no session: {status}"))
    }

    async fn put(&self, session: &str, range: &str, body: impl Into<Body>) -> Reply {
        let headers = [("content-range", range)];
        self.send("PUT", session, &headers, body).await
    }

    /// Sends media of undeclared length in two pieces, and waits between them. Returns the status.
    async fn stream(
        &self,
        (method, uri): (&str, &str),
        [first, second]: [usize; 2],
        between: impl Future<Output = ()> + Send + 'static,
    ) -> StatusCode {
        let piece = |length| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![7; length])));
        let second = async move {
            between.await;
            piece(second)
        };
        let body = stream::once(async move { piece(first) }).chain(stream::once(second));
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("transfer-encoding", "chunked");
        let request = request.extension(Principal::new(self.1));
        let request = request.body(StreamBody::new(Box::pin(body)));
        let service = self.0.world.service().await;
        in_process::exchange(service, request.expect("it is valid"))
            .await
            .status
    }

    async fn committed(&self, session: &str) -> u64 {
        let reply = self.put(session, "bytes */*", "").await;
        assert_eq!(reply.status, 308, "{reply:?}");
        reply.committed()
    }

    async fn bytes(&self) -> u64 {
        self.0
            .ledger
            .usage(self.1)
            .await
            .expect("it is memory")
            .bytes
    }
}

const RESUMABLE: &str = "/upload/farm/v1/animals?uploadType=resumable";

impl Peer for User<'_> {
    const ORIGIN: &'static str = World::ORIGIN;

    async fn try_exchange(&self, mut request: Request<Body>) -> Reply {
        request.extensions_mut().insert(Principal::new(self.1));
        self.0.world.try_exchange(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn start_beyond_the_quota_of_the_source_is_refused() {
    let town = Town::farm();
    let (alice, bob) = (town.alice(), town.bob());
    assert_eq!(alice.start(RESUMABLE, Some(LONG)).await.0, 429);
    assert_eq!(bob.start(RESUMABLE, Some(LONG)).await.0, 200);
    for status in [200, 200, 429] {
        assert_eq!(alice.start(RESUMABLE, Some(10)).await.0, status);
        assert_eq!(bob.start(RESUMABLE, Some(10)).await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn append_of_undeclared_length_ends_at_the_quota_of_the_source() {
    let town = Town::farm();
    for (user, status) in [(town.alice(), 429), (town.bob(), 308)] {
        let session = user.session(None).await;
        let range = format!("bytes 0-{}/*", LONG - 1);
        let reply = user.put(&session, &range, vec![7; LONG]).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
    let [of_alice, of_bob] = [town.alice().bytes().await, town.bob().bytes().await];
    assert!(of_alice <= QUOTA && of_bob > QUOTA, "{of_alice}, {of_bob}");
}

#[tokio::test(start_paused = true)]
async fn upload_in_one_request_beyond_the_quota_of_the_source_is_refused() {
    let town = Town::farm();
    for (user, status) in [(town.alice(), 429), (town.bob(), 200)] {
        let reply = user.send("POST", SIMPLE, &[], vec![7; LONG]).await;
        assert_eq!(reply.status, status, "{reply:?}");
        let streamed = user
            .stream(("POST", SIMPLE), [LONG / 2; 2], ready(()))
            .await;
        assert_eq!(streamed, status);
    }
    assert_eq!(town.alice().bytes().await, 0);
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_call_beyond_the_quota_of_the_source_are_refused() {
    let town = Town::farm();
    for (user, status) in [(town.alice(), 429), (town.bob(), 200)] {
        let animal = json!({"description": "a".repeat(LONG)});
        let reply = user.json("POST", farm::ANIMALS, &animal).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
    assert_eq!(town.alice().bytes().await, 0);
}

#[tokio::test(start_paused = true)]
async fn changed_limit_of_the_source_applies_after_ten_seconds() {
    let town = Town::farm();
    let alice = town.alice();
    assert_eq!(alice.send("POST", SIMPLE, &[], "a").await.status, 200);
    town.plans.fails.store(true, Ordering::Relaxed);
    let reply = alice.send("POST", SIMPLE, &[], "a").await;
    assert_eq!(reply.status, 200, "the answer is remembered");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(alice.send("POST", SIMPLE, &[], "a").await.status, 503);
}

#[track_caller]
fn assert_unknown(reply: &Reply) {
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(reply.header("retry-after"), "5", "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn failing_source_refuses_with_a_time_to_retry() {
    let town = Town::farm();
    let alice = town.alice();
    let animal = alice.send("POST", SIMPLE, &[], "a").await.field("id");
    let before = alice.bytes().await;
    town.break_source().await;
    let start = alice.send("POST", RESUMABLE, &[], "").await;
    assert_unknown(&start);
    assert_unknown(&alice.send("POST", SIMPLE, &[], "abc").await);
    let call = json!({"description": "a"});
    assert_unknown(&alice.json("POST", farm::ANIMALS, &call).await);
    assert_eq!(alice.bytes().await, before);
    // Neither reads nor deletions need a quota, and nor do requests of nobody.
    let uri = format!("{}/{animal}", farm::ANIMALS);
    assert_eq!(alice.get(&uri).await.status, 200);
    assert_eq!(alice.send("DELETE", &uri, &[], "").await.status, 204);
    assert_eq!(
        town.world.send("POST", SIMPLE, &[], "abc").await.status,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn failing_source_acknowledges_nothing_of_an_append() {
    let town = Town::farm();
    let alice = town.alice();
    let session = alice.session(None).await;
    let first = alice.put(&session, "bytes 0-99/*", vec![7; 100]).await;
    assert_eq!(first.status, 308);
    town.break_source().await;
    let second = alice.put(&session, "bytes 100-199/*", vec![7; 100]).await;
    assert_unknown(&second);
    assert_eq!(alice.committed(&session).await, 100);
    town.repair_source();
    let second = alice.put(&session, "bytes 100-199/200", vec![7; 100]).await;
    assert_eq!(second.status, 201, "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn source_that_fails_during_an_append_leaves_the_last_commit() {
    let town = Town::farm();
    let bob = town.bob();
    let session = bob.session(None).await;
    // A checkpoint commits the first piece in the meantime.
    let status = bob
        .stream(("PUT", &session), [1_000_000; 2], town.break_source())
        .await;
    assert_eq!(status, 503);
    assert_eq!(bob.committed(&session).await, 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn chunks_of_a_declared_length_need_no_source_and_the_finish_waits_for_it() {
    let town = Town::farm();
    let alice = town.alice();
    let session = alice.session(Some(200)).await;
    town.break_source().await;
    let first = alice.put(&session, "bytes 0-99/200", vec![7; 100]).await;
    assert_eq!(first.status, 308, "{first:?}");
    let last = alice.put(&session, "bytes 100-199/200", vec![7; 100]).await;
    assert_unknown(&last);
    assert_eq!(town.world.count().await, 0);
    town.repair_source();
    let finished = alice.put(&session, "bytes */200", "").await;
    assert_eq!(finished.status, 201, "{finished:?}");
    assert_eq!(town.world.media(&finished).await.len(), 200);
}

/// An attempt to finish an upload reads its media.
#[tokio::test(start_paused = true)]
async fn unfinished_upload_is_tried_less_often_while_the_source_fails() {
    let town = Town::farm();
    let alice = town.alice();
    let session = alice.session(Some(3)).await;
    town.break_source().await;
    assert_unknown(&alice.put(&session, "bytes 0-2/3", "abc").await);
    let asked = || town.plans.asked.load(Ordering::Relaxed);
    let before = asked();
    town.world.server.start().await;
    tokio::time::sleep(Duration::from_secs(10 * 60)).await;
    let attempts = asked() - before;
    assert!((2..=5).contains(&attempts), "{attempts}");
    town.repair_source();
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(town.world.count().await, 1);
}

const ARCHIVE: &str = r#"
name = "archive"
version = "v1"
methods."files.insert" = { http = "POST", path = "files/{id}", request = "File", response = "File", media = {} }
methods."files.double" = { http = "POST", path = "files/{id}/double", response = "File" }
schemas.File = { id = "string", notice = "integer" }
"#;

/// Files. An upload also leaves a notice of `notice` bytes to alice.
struct Archive;

#[async_trait]
impl ApiHandler for Archive {
    async fn admit(&self, _: &Call<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let id = call.path.value("id").unwrap_or_default();
        let row = |collection: &str, id: &str, length: u64| Resource {
            collection: collection.to_owned(),
            id: id.to_owned(),
            version: 1,
            body: vec![b' '; usize::try_from(length).expect("it is short")].into(),
            media: None,
            created: call.now,
            updated: call.now,
            due: None,
            claimed_by: None,
            owner: None,
        };
        let Some(Uploaded { media, .. }) = media else {
            let file = call.lookup.resource("files", id).await?.expect("it exists");
            let sources = file.media.iter().chain(&file.media).cloned().collect();
            return Ok(Answer {
                concatenation: Some(Concatenation {
                    sources,
                    expect: Vec::new(),
                }),
                ..Answer::default()
            });
        };
        let is_double = &*call.method.id == "archive.files.double";
        let id = if is_double { call.fresh_id } else { id };
        let file = Resource {
            media: Some(media),
            ..row("files", id, 2)
        };
        let notice = call.metadata.get("notice").and_then(Value::as_u64);
        let notice = notice.map(|length| Resource {
            owner: Some("alice".to_owned()),
            ..row("notices", id, length)
        });
        let rows = [file].into_iter().chain(notice);
        Ok(Answer {
            changes: rows.map(ResourceChange::Insert).collect(),
            ..Answer::of(serde_json::Map::new())
        })
    }

    async fn find(&self, _: &Call<'_>) -> Result<Resource, Rejection> {
        unreachable!("no test reads")
    }
}

#[tokio::test(start_paused = true)]
async fn concatenation_beyond_the_quota_of_the_source_is_refused() {
    let town = Town::archive();
    for (user, status) in [(town.alice(), 429), (town.bob(), 200)] {
        let id = user.1;
        let uri = format!("/upload/archive/v1/files/{id}?uploadType=media");
        let reply = user.send("POST", &uri, &[], vec![7; 200_000]).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let uri = format!("/archive/v1/files/{id}/double");
        let reply = user.call("POST", &uri).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
}

/// Bob's upload finishes only if alice has room for the notice.
#[tokio::test(start_paused = true)]
async fn finish_beyond_the_quota_of_another_owner_waits_for_room() {
    let town = Town::archive();
    let bob = town.bob();
    let tolerated = 512 * 1024;
    for (id, notice, status) in [
        ("short", 400_000, 201),
        ("long", QUOTA + tolerated + 100_000, 429),
    ] {
        let path = format!("/archive/v1/files/{id}");
        let metadata = json!({"notice": notice});
        let reply = bob.resumable(&path, &metadata, "text/plain", b"abc").await;
        assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    }
}
