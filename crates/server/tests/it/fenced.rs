//! Two servers over the same stores: one server takes a session over while the other is about to
//! append.

use std::sync::Arc;

use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, PacedLedger, Trigger};
use windlass_store::{Ledger, Vault as _};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use crate::world::{Peer as _, Reply, SharedStores, World};

const MEDIA: Media = Media::new(11, 60);

impl SharedStores {
    /// Starts a session, and appends the first bytes of its media to it.
    async fn started(&self, len: u64) -> String {
        let first = self.server();
        let session = first.start(Some(MEDIA.len())).await.expect("it begins");
        assert_eq!(put(&first, &session, 0, len).await.status, 308);
        session
    }

    /// Lets another server append to the session, and does `meanwhile` when it has the lease.
    /// Returns its reply.
    async fn overtaken(
        &self,
        session: &str,
        from: u64,
        meanwhile: impl Future<Output = ()>,
    ) -> Reply {
        let ledger = Arc::clone(&self.ledger) as _;
        self.overtaken_over(ledger, session, from, meanwhile).await
    }

    /// Like [`SharedStores::overtaken`], by a server that has this ledger.
    async fn overtaken_over(
        &self,
        ledger: Arc<dyn Ledger>,
        session: &str,
        from: u64,
        meanwhile: impl Future<Output = ()>,
    ) -> Reply {
        let ledger = Arc::new(PacedLedger::new(ledger));
        let slow = self.over(Arc::clone(&ledger) as _);
        let stopped = ledger.stop_at_lease();
        let append = put(&slow, session, from, MEDIA.len());
        stopped.during(append, meanwhile).await.0
    }
}

async fn put(world: &World, session: &str, from: u64, to: u64) -> Reply {
    let range = format!("bytes {from}-{}/{}", to - 1, MEDIA.len());
    world.put(session, &range, MEDIA.bytes(from..to)).await
}

#[tokio::test]
async fn append_whose_small_media_a_newer_lease_has_moved_is_answered_503() {
    let shared = SharedStores::new();
    let session = shared.started(10).await;
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
    let shared = SharedStores::new();
    let session = shared.started(40).await;
    let newer = shared.server();
    let finished = async {
        let reply = put(&newer, &session, 40, MEDIA.len()).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let animal = farm::animal(&reply.field("id"));
        let deleted = newer.call("DELETE", &animal).await;
        assert_eq!(deleted.status, 204, "{deleted:?}");
        // Deletes garbage like the sweep.
        for entry in shared.ledger.garbage(None, 10).await.unwrap() {
            shared.vault.delete(&entry.name).await.unwrap();
        }
    };
    let reply = shared.overtaken(&session, 40, finished).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(shared.server().query(&session).await.status, 201);
}

#[tokio::test]
async fn append_whose_bytes_are_lost_under_the_newest_lease_is_answered_410() {
    let shared = SharedStores::new();
    let session = shared.started(40).await;
    let lost = async {
        let listed = shared.vault.list(None, 10).await.unwrap();
        for stored in listed.stored {
            shared.vault.delete(&stored.name).await.unwrap();
        }
    };
    let reply = shared.overtaken(&session, 40, lost).await;
    assert_eq!(reply.status, 410, "{reply:?}");
    assert_eq!(shared.server().query(&session).await.status, 410);
}

#[tokio::test]
async fn append_whose_media_has_moved_is_not_answered_410_by_a_busy_ledger() {
    let shared = SharedStores::new();
    let session = shared.started(10).await;
    let newer = shared.server();
    let moved = async {
        assert_eq!(put(&newer, &session, 10, 40).await.status, 308);
    };
    let busy = Arc::new(Faults::new(
        Trigger::CallsOf("end"),
        InjectedFault::Unavailable,
    ));
    let ledger = FaultyLedger::new(Arc::clone(&shared.ledger) as _, busy);
    let reply = shared
        .overtaken_over(Arc::new(ledger), &session, 10, moved)
        .await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(shared.server().query(&session).await.committed(), 40);
}
