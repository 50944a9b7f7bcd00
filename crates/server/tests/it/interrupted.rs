//! Appends that the server stops in the middle of their bodies: the bytes that it has read by then
//! are kept. Also uploads with a long finish, which nothing stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower_service::Service as _;
use windlass_discovery::Api;
use windlass_server::{Ended, ReplyBody, ServedApi, Stores};
use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use crate::world::{Reply, World, limits};

const MEDIA: Media = Media::new(3, 3_000_000);

/// How much comes of the body before it stands still. Less than a batch, so none of it is written
/// before it is stopped.
const READ: u64 = 100_000;

struct Standing {
    stores: Stores,
    calls: Arc<Faults>,
    world: World,
    session: String,
}

impl Standing {
    async fn new() -> Self {
        Self::of(World::without_checkpoints).await
    }

    async fn of(world: impl FnOnce(Stores) -> World) -> Self {
        let calls = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
        let ledger = Arc::new(MemoryLedger::new());
        let stores = Stores {
            ledger: Arc::new(FaultyLedger::new(ledger, Arc::clone(&calls))),
            vault: Arc::new(MemoryVault::new()),
        };
        let world = world(stores.clone());
        let session = world.start(Some(MEDIA.len())).await.expect("it begins");
        Self {
            stores,
            calls,
            world,
            session,
        }
    }

    /// Sends the whole media, of which [`READ`] bytes come and no more. Returns when the server has
    /// taken them and asks for the next ones.
    async fn append(&self) -> JoinHandle<Result<Response<ReplyBody>, Infallible>> {
        let (ask, asked) = oneshot::channel();
        let first = Frame::data(Bytes::from(MEDIA.bytes(0..READ)));
        let first = stream::once(async { Ok::<_, Infallible>(first) });
        let rest = async {
            ask.send(()).expect("the test waits");
            std::future::pending().await
        };
        let request = Request::put(&self.session)
            .header("content-range", whole_range())
            .header("content-length", MEDIA.len())
            .body(StreamBody::new(Box::pin(first.chain(stream::once(rest)))))
            .expect("it is valid");
        let mut server = self.world.service().await;
        let append = tokio::spawn(async move { server.call(request).await });
        asked.await.expect("the body is read to its pause");
        assert_eq!(
            self.calls.calls_of("commit_offset"),
            0,
            "nothing is committed"
        );
        append
    }
}

fn whole_range() -> String {
    format!("bytes 0-{}/{}", MEDIA.len() - 1, MEDIA.len())
}

#[tokio::test(start_paused = true)]
async fn bytes_read_are_committed_when_the_server_drains() {
    let standing = Standing::new().await;
    let serving = standing.world.serve().await;
    let append = standing.append().await;
    let running = serving.stop();
    // The clock of the timers advances only when all tasks are idle.
    let ended = timeout(Duration::from_secs(24 * 60 * 60), append).await;
    let reply = ended.expect("it is stopped").unwrap().unwrap();
    assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(running.await.unwrap(), Ended::Drained);

    let next = World::without_checkpoints(standing.stores);
    assert_eq!(next.query(&standing.session).await.committed(), READ);
    let range = format!("bytes {READ}-{}/{}", MEDIA.len() - 1, MEDIA.len());
    let rest = MEDIA.bytes(READ..MEDIA.len());
    let reply = next.put(&standing.session, &range, rest).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    assert!(next.media(&reply).await == MEDIA.whole(), "other media");
}

#[tokio::test(start_paused = true)]
async fn bytes_read_are_kept_when_a_newer_append_takes_over() {
    let standing = Standing::new().await;
    let older = standing.append().await;
    // The new append sends other bytes in place of the bytes that were read. They are skipped only
    // if the read bytes were kept.
    let others = Media::new(99, READ).whole();
    let again = [others, MEDIA.bytes(READ..MEDIA.len())].concat();
    let world = &standing.world;
    let reply = world.put(&standing.session, &whole_range(), again).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    assert!(world.media(&reply).await == MEDIA.whole(), "other media");
    older.abort();
}

/// The older request still reads its body at that time, and its body never ends.
#[tokio::test(start_paused = true)]
async fn superseded_append_does_not_count_against_the_limit_on_uploads() {
    let one_upload = |stores| {
        let mut limits = limits();
        limits.uploads = 1;
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        let farm = ServedApi::with_default_handler(farm);
        World::limited(farm, stores, Arc::default(), limits)
    };
    let standing = Standing::of(one_upload).await;
    let older = standing.append().await;
    let world = &standing.world;
    let reply = world.put(&standing.session, &whole_range(), MEDIA).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    older.abort();
}

#[tokio::test(start_paused = true)]
async fn bytes_read_are_kept_when_the_client_has_gone() {
    let standing = Standing::new().await;
    let append = standing.append().await;
    append.abort();
    append.await.unwrap_err();
    let rest = MEDIA.bytes(READ..MEDIA.len());
    let range = format!("bytes {READ}-{}/{}", MEDIA.len() - 1, MEDIA.len());
    let reply = standing.world.put(&standing.session, &range, rest).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    assert!(
        standing.world.media(&reply).await == MEDIA.whole(),
        "other media"
    );
}

#[tokio::test(start_paused = true)]
async fn slow_finish_keeps_its_lease_when_left_sessions_are_finished() {
    let quick = Upload::new(Trigger::Never).await;
    assert_eq!(quick.send().await.status, StatusCode::CREATED);
    let calls = quick.calls.names();
    let commit = calls.iter().position(|call| *call == "apply");
    let commit = 1 + commit.expect("the finish is committed") as u64;

    let slow = Upload::new(Trigger::Once(commit)).await;
    let (reply, serving) = tokio::join!(slow.send(), async {
        while slow.calls.calls_of("apply") == 0 {
            tokio::task::yield_now().await;
        }
        slow.world.serve().await
    });
    assert_ne!(slow.calls.calls_of("finishing"), 0, "nobody looked for it");
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    assert_eq!(slow.world.count().await, 1);
    serving.stop().await.unwrap();
}

/// An upload over a ledger with one call that takes a day.
struct Upload {
    calls: Arc<Faults>,
    world: World,
    session: String,
}

impl Upload {
    async fn new(slow: Trigger) -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        let calls = Arc::new(Faults::new(slow, InjectedFault::Slow(day)));
        let ledger = Arc::new(MemoryLedger::new());
        let stores = Stores {
            ledger: Arc::new(FaultyLedger::new(ledger, Arc::clone(&calls))),
            vault: Arc::new(MemoryVault::new()),
        };
        let world = World::without_checkpoints(stores);
        let session = world.start(Some(MEDIA.len())).await.expect("it begins");
        Self {
            calls,
            world,
            session,
        }
    }

    async fn send(&self) -> Reply {
        self.world.put(&self.session, &whole_range(), MEDIA).await
    }
}
