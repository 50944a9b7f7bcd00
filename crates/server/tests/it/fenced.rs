//! Two servers over the same stores: one takes a session over while the other is about to append.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join;
use tokio::sync::Notify;
use windlass_server::Stores;
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{
    ChangeSet, EndSession, Epoch, Ledger, LedgerError, MediaId, NewSession, OffsetCommit, Resource,
    Session, SessionId, Space, Timestamp, Vault as _,
};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use crate::world::{Body, Reply, World};

const MEDIA: Media = Media::new(11, 60);

/// A [`Ledger`] whose next lease, once it is taken, is reported only when a test says so.
struct SlowLeases {
    inner: Arc<MemoryLedger>,
    /// Whether it has no time to end sessions.
    is_busy: AtomicBool,
    next: Mutex<Option<Arc<Held>>>,
}

#[derive(Default)]
struct Held {
    taken: Notify,
    released: Notify,
}

#[async_trait]
impl Ledger for SlowLeases {
    async fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        let leased = self.inner.lease(id).await;
        let held = self.next.lock().expect("no test panics with it").take();
        if let Some(held) = held {
            held.taken.notify_one();
            held.released.notified().await;
        }
        leased
    }

    async fn start(&self, session: NewSession) -> Result<(), LedgerError> {
        self.inner.start(session).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.inner.session(id).await
    }

    async fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        commit: OffsetCommit,
    ) -> Result<(), LedgerError> {
        self.inner.commit_offset(id, epoch, commit).await
    }

    async fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> Result<(), LedgerError> {
        if self.is_busy.load(Ordering::Relaxed) {
            return Err(LedgerError::Busy);
        }
        self.inner.end(id, epoch, end).await
    }

    async fn apply(&self, changes: ChangeSet) -> Result<(), LedgerError> {
        self.inner.apply(changes).await
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        self.inner.resource(collection, id).await
    }

    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        self.inner.resources(collection, after, limit).await
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        self.inner.small_media(id).await
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>, LedgerError> {
        self.inner.finishing(after, limit).await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        self.inner.expire(now, limit).await
    }

    async fn garbage(
        &self,
        after: Option<MediaId>,
        limit: usize,
    ) -> Result<Vec<MediaId>, LedgerError> {
        self.inner.garbage(after, limit).await
    }

    async fn forget_garbage(&self, ids: &[MediaId]) -> Result<(), LedgerError> {
        self.inner.forget_garbage(ids).await
    }

    async fn unknown_media(&self, ids: &[MediaId]) -> Result<Vec<MediaId>, LedgerError> {
        self.inner.unknown_media(ids).await
    }

    async fn space(&self) -> Result<Space, LedgerError> {
        self.inner.space().await
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.inner.check().await
    }
}

/// Stores that several servers use.
struct Shared {
    memory: Arc<MemoryLedger>,
    ledger: Arc<SlowLeases>,
    vault: MemoryVault,
}

impl Shared {
    fn new() -> Self {
        let memory = Arc::new(MemoryLedger::new());
        let ledger = Arc::new(SlowLeases {
            inner: Arc::clone(&memory),
            is_busy: AtomicBool::new(false),
            next: Mutex::default(),
        });
        Self {
            memory,
            ledger,
            vault: MemoryVault::new(),
        }
    }

    fn over(&self, ledger: Arc<dyn Ledger>) -> World {
        let vault = Arc::new(self.vault.clone());
        World::new(Stores { ledger, vault }, Arc::default())
    }

    /// A server that remembers no session.
    fn server(&self) -> World {
        self.over(Arc::clone(&self.memory) as _)
    }

    /// Lets another server append to the session, and does `meanwhile` when it has the lease. Returns
    /// its reply.
    async fn overtaken(
        &self,
        session: &str,
        from: u64,
        meanwhile: impl Future<Output = ()>,
    ) -> Reply {
        let slow = self.over(Arc::clone(&self.ledger) as _);
        let held = Arc::new(Held::default());
        *self.ledger.next.lock().expect("no test panics with it") = Some(Arc::clone(&held));
        let meanwhile = async {
            held.taken.notified().await;
            meanwhile.await;
            held.released.notify_one();
        };
        let (reply, ()) = join(put(&slow, session, from, MEDIA.len()), meanwhile).await;
        reply
    }
}

async fn put(world: &World, session: &str, from: u64, to: u64) -> Reply {
    let range = format!("bytes {from}-{}/{}", to - 1, MEDIA.len());
    let body = Body::Whole(MEDIA.bytes(from..to));
    world.put(session, &range, body).await
}

#[tokio::test]
async fn append_whose_small_media_a_newer_lease_has_moved_is_answered_503() {
    let shared = Shared::new();
    let first = shared.server();
    let session = first.start(Some(MEDIA.len())).await.unwrap();
    assert_eq!(put(&first, &session, 0, 10).await.status, 308);
    let newer = shared.server();
    let moved = async {
        assert_eq!(put(&newer, &session, 10, 40).await.status, 308);
    };
    let reply = shared.overtaken(&session, 10, moved).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.headers.contains_key("retry-after"), "{reply:?}");

    let query = shared.server().query(&session).await;
    assert_eq!(query.status, 308, "{query:?}");
    assert_eq!(query.headers["range"], "bytes=0-39");
    let finished = put(&newer, &session, 40, MEDIA.len()).await;
    assert_eq!(finished.status, 201, "{finished:?}");
    assert_eq!(newer.media(&finished).await, MEDIA.whole());
}

#[tokio::test]
async fn append_whose_session_a_newer_lease_has_finished_is_answered_503() {
    let shared = Shared::new();
    let first = shared.server();
    let session = first.start(Some(MEDIA.len())).await.unwrap();
    assert_eq!(put(&first, &session, 0, 40).await.status, 308);
    let newer = shared.server();
    let finished = async {
        let reply = put(&newer, &session, 40, MEDIA.len()).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let animal = farm::animal(&reply.field("id"));
        let deleted = newer
            .send("DELETE", &animal, &[], Body::Whole(Vec::new()))
            .await;
        assert_eq!(deleted.status, 204, "{deleted:?}");
        // As the sweep does.
        for media in shared.memory.garbage(None, 10).await.unwrap() {
            shared.vault.delete(media).await.unwrap();
        }
    };
    let reply = shared.overtaken(&session, 40, finished).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(shared.server().query(&session).await.status, 201);
}

#[tokio::test]
async fn append_whose_bytes_are_lost_under_the_newest_lease_is_answered_410() {
    let shared = Shared::new();
    let first = shared.server();
    let session = first.start(Some(MEDIA.len())).await.unwrap();
    assert_eq!(put(&first, &session, 0, 40).await.status, 308);
    let lost = async {
        let listed = shared.vault.list(None, 10).await.unwrap();
        for media in listed.media {
            shared.vault.delete(media.id).await.unwrap();
        }
    };
    let reply = shared.overtaken(&session, 40, lost).await;
    assert_eq!(reply.status, 410, "{reply:?}");
    assert_eq!(shared.server().query(&session).await.status, 410);
}

#[tokio::test]
async fn append_whose_media_has_moved_is_not_answered_410_by_a_busy_ledger() {
    let shared = Shared::new();
    shared.ledger.is_busy.store(true, Ordering::Relaxed);
    let first = shared.server();
    let session = first.start(Some(MEDIA.len())).await.unwrap();
    assert_eq!(put(&first, &session, 0, 10).await.status, 308);
    let newer = shared.server();
    let moved = async {
        assert_eq!(put(&newer, &session, 10, 40).await.status, 308);
    };
    let reply = shared.overtaken(&session, 10, moved).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(shared.server().query(&session).await.committed(), 40);
}
