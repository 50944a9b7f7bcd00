//! Two servers over one ledger that both have open, as two processes do.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, request};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower_service::Service as _;
use windlass_engine::FINISH_IDLE;
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{
    ChangeSet, LEASE_LIFETIME, Ledger, MediaRef, NEW_MEDIA_LIFETIME, Resource, ResourceChange,
    StoredName,
};
use windlass_testkit::farm::{ANIMALS, UPLOADS};
use windlass_testkit::media::Media;

use crate::world::{Peer as _, Reply, SMALL_MEDIA, Serving, World};

const MEDIA: Media = Media::new(31, 60);

/// Longer than the servers let a finish of another server alone without a word of it.
const LONG: Duration = Duration::from_secs(300);

/// Two servers, and the handles of their ledger.
struct Pair {
    first: World,
    second: World,
    ledgers: [Arc<MemoryLedger>; 2],
    _serving: [Serving; 2],
}

impl Pair {
    async fn new() -> Self {
        Self::with(|ledger| ledger).await
    }

    /// A pair whose first server has its ledger in this wrapper.
    async fn with(wrap: impl FnOnce(Arc<dyn Ledger>) -> Arc<dyn Ledger>) -> Self {
        let vault = MemoryVault::new();
        let one = Arc::new(MemoryLedger::new());
        let two = Arc::new(one.of_another_process());
        let world = |ledger| {
            let vault = Arc::new(vault.clone());
            World::new(Stores { ledger, vault }, Arc::default())
        };
        let (first, second) = (
            world(wrap(Arc::clone(&one) as _)),
            world(Arc::clone(&two) as _),
        );
        Self {
            _serving: [first.serve().await, second.serve().await],
            first,
            second,
            ledgers: [one, two],
        }
    }

    /// Starts a session that no server has in its cache: a cached lease is used without a word to
    /// the ledger.
    async fn uncached_session(&self, length: u64) -> String {
        let session = self.first.start(Some(length)).await;
        let session = session.expect("it is allowed");
        self.first.clock.advance(Duration::from_secs(10));
        // The server evicts old sessions each second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        session
    }

    /// Lets the ledger's clock go with the timers of the runtime.
    fn start_clock(&self) {
        let ledger = Arc::clone(&self.ledgers[1]);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                ledger.advance_clock(Duration::from_secs(1));
            }
        });
    }
}

/// A request whose client has sent a part of its body.
struct Halted {
    rest: oneshot::Sender<()>,
    reply: JoinHandle<Response<Bytes>>,
}

impl Halted {
    /// Sends the bytes `from..at` of the media to a server, and the others later.
    async fn at(server: &World, session: &str, from: u64, at: u64) -> Self {
        let range = format!("bytes {from}-{}/{}", MEDIA.len() - 1, MEDIA.len());
        let request = Request::put(session).header("content-range", range);
        Self::send(server, request, from, at).await
    }

    /// Sends the bytes `from..at` of the media with this head, and the others later.
    async fn send(server: &World, head: request::Builder, from: u64, at: u64) -> Self {
        let (rest, go_on) = oneshot::channel();
        let frame = |bytes| Ok::<_, Infallible>(Frame::data(Bytes::from(bytes)));
        let sent = stream::once(async move { frame(MEDIA.bytes(from..at)) });
        let later = stream::once(async move {
            go_on.await.expect("the test lets it go on");
            frame(MEDIA.bytes(at..MEDIA.len()))
        });
        let request = head
            .header("content-length", MEDIA.len() - from)
            .body(StreamBody::new(Box::pin(sent.chain(later))))
            .expect("it is valid");
        let mut service = server.service().await;
        let reply = tokio::spawn(async move {
            let reply = service.call(request).await.expect("no error is left");
            let (parts, body) = reply.into_parts();
            let body = body.collect().await.expect("it is whole");
            Response::from_parts(parts, body.to_bytes())
        });
        // The server reads what is there.
        tokio::time::sleep(Duration::from_millis(100)).await;
        Self { rest, reply }
    }

    async fn goes_on(self) -> Response<Bytes> {
        self.rest.send(()).expect("the server waits for it");
        self.reply.await.expect("no panic")
    }
}

async fn put_rest(server: &World, session: &str, from: u64) -> Reply {
    let range = format!("bytes {from}-{}/{}", MEDIA.len() - 1, MEDIA.len());
    let rest = MEDIA.bytes(from..MEDIA.len());
    server.put(session, &range, rest).await
}

#[tokio::test(start_paused = true)]
async fn takeover_keeps_what_has_arrived() {
    let calls = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
    let counted = Arc::clone(&calls);
    let pair = Pair::with(|ledger| Arc::new(FaultyLedger::new(ledger, counted))).await;
    let session = pair.uncached_session(MEDIA.len()).await;
    let older = Halted::at(&pair.first, &session, 0, 40).await;
    let commits = calls.calls_of("commit_offset");
    let finished = put_rest(&pair.second, &session, 0).await;
    assert_eq!(finished.status, 201, "{finished:?}");
    assert_eq!(
        calls.calls_of("commit_offset"),
        commits + 1,
        "the first has committed"
    );
    assert_eq!(pair.second.media(&finished).await, MEDIA.whole());
    let older = older.goes_on().await;
    assert_eq!(older.status(), 201, "{older:?}");
}

#[tokio::test(start_paused = true)]
async fn equal_last_chunks_give_one_resource_and_equal_replies() {
    let pair = Pair::new().await;
    let session = pair.uncached_session(MEDIA.len()).await;
    let older = Halted::at(&pair.first, &session, 0, MEDIA.len() - 1).await;
    let newer = Halted::at(&pair.second, &session, 0, MEDIA.len() - 1).await;
    let newer = tokio::spawn(newer.goes_on());
    let older = older.goes_on().await;
    let newer = newer.await.unwrap();
    assert_eq!(
        (older.status().as_u16(), newer.status().as_u16()),
        (201, 201)
    );
    assert_eq!(older.body(), newer.body());
    assert_eq!(pair.first.count().await, 1);
}

#[tokio::test(start_paused = true)]
async fn long_finish_is_not_fenced_by_a_neighbour() {
    let slow = Faults::new(Trigger::CallsOf("apply"), InjectedFault::Slow(LONG));
    let slow = Arc::new(slow);
    let pair = Pair::with(|ledger| Arc::new(FaultyLedger::new(ledger, slow))).await;
    pair.start_clock();
    let session = pair.first.start(Some(MEDIA.len())).await.unwrap();
    let left_alone = async {
        tokio::time::sleep(LONG / 2).await;
        let finishing = async |idle| {
            let listed = pair.ledgers[1].finishing(None, 10, idle).await;
            listed.unwrap().len()
        };
        assert_eq!(finishing(Duration::ZERO).await, 1);
        assert_eq!(finishing(FINISH_IDLE).await, 0, "its lease is renewed");
    };
    let (finished, ()) = tokio::join!(put_rest(&pair.first, &session, 0), left_alone);
    assert_eq!(finished.status, 201, "{finished:?}");
    assert_eq!(pair.second.count().await, 1);
}

#[tokio::test(start_paused = true)]
async fn finish_of_a_server_that_has_died_is_completed_by_another() {
    let hung = Faults::new(Trigger::CallsOf("apply"), InjectedFault::Slow(100 * LONG));
    let hung = Arc::new(hung);
    let mut pair = Pair::with(|ledger| Arc::new(FaultyLedger::new(ledger, hung))).await;
    pair.start_clock();
    let session = pair.first.start(Some(MEDIA.len())).await.unwrap();
    let older = Halted::at(&pair.first, &session, 0, 1).await;
    older.rest.send(()).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(pair.second.count().await, 0);
    // Its lease is not renewed any more.
    older.reply.abort();
    let dead = std::mem::replace(&mut pair.ledgers[0], Arc::new(MemoryLedger::new()));
    dead.end_process();
    tokio::time::sleep(LONG).await;
    assert_eq!(pair.second.count().await, 1);
    assert_eq!(pair.second.query(&session).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn writer_that_was_stopped_longer_than_its_deadline_commits_nothing() {
    let pair = Pair::new().await;
    let session = pair.second.start(Some(MEDIA.len())).await.unwrap();
    let older = Halted::at(&pair.first, &session, 0, 40).await;
    // The checkpoint of the pause.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(pair.second.query(&session).await.committed(), 40);
    pair.ledgers[1].advance_clock(LEASE_LIFETIME);
    let late = older.goes_on().await;
    assert_eq!(late.status(), 503, "{late:?}");
    assert_eq!(pair.second.query(&session).await.committed(), 40);
    let finished = put_rest(&pair.second, &session, 40).await;
    assert_eq!(finished.status, 201, "{finished:?}");
    assert_eq!(pair.second.media(&finished).await, MEDIA.whole());
}

#[tokio::test(start_paused = true)]
async fn upload_of_one_request_that_took_too_long_makes_no_resource() {
    let pair = Pair::new().await;
    let simple = Request::post(format!("{UPLOADS}?uploadType=media"));
    let older = Halted::send(&pair.first, simple, 0, 40).await;
    pair.ledgers[1].advance_clock(NEW_MEDIA_LIFETIME + Duration::from_secs(1));
    let late = older.goes_on().await;
    assert_eq!(late.status(), 503, "{late:?}");
    assert_eq!(pair.second.count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn request_that_changes_nothing_leaves_its_session() {
    let pair = Pair::new().await;
    let session = pair.uncached_session(MEDIA.len()).await;
    let range = format!("bytes 0-39/{}", MEDIA.len());
    for committed in [40, 40] {
        let chunk = MEDIA.bytes(0..40);
        let reply = pair.first.put(&session, &range, chunk).await;
        assert_eq!(reply.committed(), committed);
    }
    let before = Instant::now();
    let finished = put_rest(&pair.second, &session, 40).await;
    assert_eq!(finished.status, 201, "{finished:?}");
    assert!(before.elapsed() < Duration::from_secs(1), "nobody is asked");
}

#[tokio::test(start_paused = true)]
async fn finish_that_has_failed_is_completed_by_another_server() {
    let refused = Faults::new(Trigger::CallsOf("apply"), InjectedFault::Unavailable);
    let refused = Arc::new(refused);
    let pair = Pair::with(|ledger| Arc::new(FaultyLedger::new(ledger, refused))).await;
    let session = pair.first.start(Some(MEDIA.len())).await.unwrap();
    let failed = put_rest(&pair.first, &session, 0).await;
    assert_eq!(failed.status, 503, "{failed:?}");
    let before = Instant::now();
    let finished = put_rest(&pair.second, &session, MEDIA.len()).await;
    assert_eq!(finished.status, 201, "{finished:?}");
    assert!(before.elapsed() < Duration::from_secs(1), "nobody is asked");
}

/// A session with small media is not in the state *finishing* while its media is finished.
#[tokio::test(start_paused = true)]
async fn long_finish_of_small_media_is_waited_for() {
    const SHORT: Duration = Duration::from_secs(5);
    let slow = Faults::new(Trigger::CallsOf("apply"), InjectedFault::Slow(SHORT));
    let slow = Arc::new(slow);
    let pair = Pair::with(|ledger| Arc::new(FaultyLedger::new(ledger, slow))).await;
    pair.start_clock();
    let small = Media::new(32, SMALL_MEDIA);
    let session = pair.uncached_session(small.len()).await;
    let put = async |server: &World| server.put(&session, "bytes 0-15/16", small.whole()).await;
    let before = Instant::now();
    let (older, newer) = tokio::join!(put(&pair.first), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let newer = put(&pair.second).await;
        assert!(before.elapsed() >= SHORT, "it was not taken over");
        newer
    });
    assert_eq!((older.status.as_u16(), newer.status.as_u16()), (201, 201));
    assert_eq!(older.body, newer.body);
    assert_eq!(pair.second.count().await, 1);
}

/// Two resources of a served API have one media, as copies do. The last of two deletions releases
/// it, in any order and at the same time.
#[tokio::test(start_paused = true)]
async fn two_last_references_release_the_media() {
    for small in [false, true] {
        let pair = Pair::new().await;
        let (first, second) = (&pair.first, &pair.second);
        let media = Media::new(33, if small { SMALL_MEDIA } else { MEDIA.len() });
        let mut both = Vec::new();
        for name in ["one", "other"] {
            let made = first.simple(ANIMALS, "image/png", &media.whole()).await;
            assert_eq!(made.status, 200, "{name}: {made:?}");
            both.push(made.field("id"));
        }
        let ledger = &*pair.ledgers[0];
        let at = share_media(ledger, &both).await;
        let is_released = async || {
            let listed = ledger.garbage(None, 10).await.unwrap();
            let is_garbage = listed.iter().any(|entry| entry.name.media == at.id);
            let name = StoredName::of(at.id);
            is_garbage || !ledger.unknown_names(&[name]).await.unwrap().is_empty()
        };
        assert!(!is_released().await);
        let delete = async |server: &World, id: &String| {
            let deleted = server.call("DELETE", &format!("{ANIMALS}/{id}")).await;
            assert_eq!(deleted.status, 204, "{deleted:?}");
        };
        tokio::join!(delete(first, &both[0]), delete(second, &both[1]));
        assert!(is_released().await);
        if small {
            assert_eq!(ledger.small_media(at.id).await.unwrap(), None);
        }
        // The garbage of one server is deleted by either.
        tokio::time::sleep(LONG).await;
        assert_eq!(ledger.garbage(None, 10).await.unwrap(), []);
    }
}

/// Makes the second resource a copy of the first: it has the same media.
async fn share_media(ledger: &MemoryLedger, ids: &[String]) -> MediaRef {
    const COLLECTION: &str = "farm/farm/v1/animals";
    let mut rows = Vec::new();
    for id in ids {
        let row = ledger.resource(COLLECTION, id).await;
        rows.push(row.expect("the ledger is well").expect("it was made"));
    }
    let copy = Resource {
        media: rows[0].media.clone(),
        version: rows[1].version + 1,
        ..rows[1].clone()
    };
    let changes = ChangeSet {
        resources: vec![ResourceChange::Replace {
            resource: copy,
            expected: rows[1].version,
        }],
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.expect("nobody else does");
    rows[0].media.as_ref().expect("it was uploaded").at
}

/// One server lists the vault, and another one goes on with it when that server has ended.
#[tokio::test(start_paused = true)]
async fn one_server_at_a_time_lists_the_vault_and_recovers_sessions() {
    let vault = MemoryVault::new();
    let one = Arc::new(MemoryLedger::new());
    let two = Arc::new(one.of_another_process());
    let calls = [(); 2].map(|()| Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault)));
    let world = |ledger: &Arc<MemoryLedger>, calls: &Arc<Faults>| {
        let vault = FaultyVault::new(Arc::new(vault.clone()), Arc::clone(calls));
        let ledger = FaultyLedger::new(Arc::clone(ledger) as _, Arc::clone(calls));
        let (ledger, vault) = (Arc::new(ledger) as _, Arc::new(vault) as _);
        World::new(Stores { ledger, vault }, Arc::default())
    };
    let (first, second) = (world(&one, &calls[0]), world(&two, &calls[1]));
    let _serving = [first.serve().await, second.serve().await];
    tokio::time::sleep(LONG).await;
    let done = || {
        let done = |calls: &Arc<Faults>| [calls.calls_of("list"), calls.calls_of("finishing")];
        [done(&calls[0]), done(&calls[1])]
    };
    let [[lists, recoveries], by_second] = done();
    assert!(lists >= 4 && recoveries >= 9, "{lists} {recoveries}");
    assert_eq!(by_second, [0, 0]);
    assert!(calls[1].calls_of("expire") >= 4, "all sweep the ledger");
    one.end_process();
    tokio::time::sleep(LONG).await;
    let [by_first, [lists, recoveries]] = done();
    assert!(lists >= 4 && recoveries >= 9, "{lists} {recoveries}");
    assert!(by_first[0] <= 7, "it has ended: {by_first:?}");
}
