//! Stores that cannot be used for a moment, or whose answer is lost. The server continues, keeps the
//! durable bytes, and deletes no media that a row may name.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_testkit::farm::ANIMALS;
use windlass_testkit::media::Media;

use crate::world::{Peer as _, Reply, SMALL_MEDIA, SharedStores, World};

/// Three write buffers, with a checkpoint after the first one.
const LARGE: Media = Media::new(21, 2_200_000);

/// Media of the vault in one write.
const MEDIUM: Media = Media::new(23, 3 * SMALL_MEDIA);

const SMALL: Media = Media::new(22, SMALL_MEDIA);

/// A server over stores in memory, and the stores.
struct Struck {
    shared: SharedStores,
    world: World,
    ledger_calls: Arc<Faults>,
    vault_calls: Arc<Faults>,
}

impl Struck {
    /// A server whose ledger and vault have these faults.
    fn new(ledger: (Trigger, InjectedFault), vault: (Trigger, InjectedFault)) -> Self {
        let shared = SharedStores::new();
        let ledger_calls = Arc::new(Faults::new(ledger.0, ledger.1));
        let vault_calls = Arc::new(Faults::new(vault.0, vault.1));
        let over = Arc::clone(&shared.ledger) as _;
        let faulty_ledger = FaultyLedger::new(over, Arc::clone(&ledger_calls));
        let over = Arc::new(shared.vault.clone());
        let faulty_vault = FaultyVault::new(over, Arc::clone(&vault_calls));
        let stores = Stores {
            ledger: Arc::new(faulty_ledger),
            vault: Arc::new(faulty_vault),
        };
        Self {
            world: World::new(stores, Arc::default()),
            shared,
            ledger_calls,
            vault_calls,
        }
    }

    /// A server with a ledger that has this fault.
    fn ledger(when: Trigger, fault: InjectedFault) -> Self {
        Self::new((when, fault), CALM)
    }

    /// Starts a session, and sends all bytes of the media but the last one. Returns the URI of the
    /// session and the reply.
    async fn put_all_but_one_byte(&self, media: Media) -> (String, Reply) {
        let session = self
            .world
            .start(Some(media.len()))
            .await
            .expect("it begins");
        let last = media.len() - 2;
        let range = format!("bytes 0-{last}/{}", media.len());
        let bytes = media.bytes(0..last + 1);
        let reply = self.world.put(&session, &range, bytes).await;
        (session, reply)
    }

    fn has_failed(&self) -> bool {
        self.world.server.failed().now_or_never().is_some()
    }
}

const CALM: (Trigger, InjectedFault) = (Trigger::Never, InjectedFault::Fault);

#[tokio::test(start_paused = true)]
async fn server_is_not_ready_while_its_ledger_cannot_be_asked() {
    for (fault, reason) in [
        (
            InjectedFault::Unavailable,
            "not ready: the ledger is not available now\n",
        ),
        (
            InjectedFault::Slow(Duration::from_secs(60)),
            "not ready: the ledger does not answer\n",
        ),
    ] {
        // The first two calls are those of the first two probes.
        let struck = Struck::ledger(Trigger::Once(2), fault);
        let probe = async || struck.world.get("/readyz").await;
        assert_eq!(probe().await.status, 200);
        let unready = probe().await;
        assert_eq!(unready.status, 503, "{unready:?}");
        assert_eq!(unready.body, reason);
        assert_eq!(struck.world.get("/healthz").await.status, 200);
        assert!(!struck.has_failed());
        assert_eq!(probe().await.status, 200);
        assert_eq!(struck.ledger_calls.names(), ["check"; 3]);
    }
}

/// Sends the bytes of the media after `from` to another server, and compares the stored media.
async fn completes(struck: &Struck, session: &str, media: Media, from: u64) {
    let other = struck.shared.server();
    let range = format!("bytes {from}-{}/{}", media.len() - 1, media.len());
    let rest = media.bytes(from..media.len());
    let finished = other.put(session, &range, rest).await;
    assert_eq!(finished.status, 201, "{finished:?}");
    assert_eq!(other.media(&finished).await, media.whole());
}

#[tokio::test]
async fn durable_bytes_are_committed_after_a_store_was_unavailable() {
    let once = |nth| (Trigger::Once(nth), InjectedFault::Unavailable);
    let cases = [
        // The calls of the ledger are: start, commit of the checkpoint.
        (once(2), CALM, "commit_offset"),
        // The calls of the vault are: create, write of the first buffer, and then writes of the
        // further buffers and the sync of the checkpoint in any order.
        (CALM, once(2), "append"),
        (CALM, once(4), ""),
        (CALM, once(5), ""),
    ];
    for (ledger, vault, call) in cases {
        let struck = Struck::new(ledger, vault);
        let (session, reply) = struck.put_all_but_one_byte(LARGE).await;
        let (of_ledger, of_vault) = (struck.ledger_calls.names(), struck.vault_calls.names());
        let case = format!("{ledger:?} {vault:?} {of_ledger:?} {of_vault:?}");
        assert_eq!(reply.status, 503, "{case} {reply:?}");
        assert!(
            reply.headers.contains_key("retry-after"),
            "{case} {reply:?}"
        );
        assert!(!struck.has_failed(), "{case}");
        if !call.is_empty() {
            assert!(
                of_ledger.get(1) == Some(&call) || of_vault[1] == call,
                "{case}"
            );
        }
        let committed = struck.world.query(&session).await.committed();
        // Without the failed write there is nothing, or the first buffer.
        let expected_something = call != "append";
        assert_eq!(committed > 0, expected_something, "{case}");
        completes(&struck, &session, LARGE, committed).await;
    }
}

#[tokio::test]
async fn after_an_unknown_commit_nothing_is_acknowledged_and_nothing_deleted() {
    // The commit at the end of the request, and the commit of a checkpoint.
    for media in [MEDIUM, LARGE] {
        let commits = Trigger::CallsOf("commit_offset");
        let struck = Struck::ledger(commits, InjectedFault::Lost);
        let (session, reply) = struck.put_all_but_one_byte(media).await;
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(!struck.has_failed());
        assert_eq!(struck.ledger_calls.calls_of("commit_offset"), 1);
        assert_eq!(struck.vault_calls.calls_of("delete"), 0);
        // The commit has happened. The client learns the offset by a query, and continues there.
        let committed = struck.shared.server().query(&session).await.committed();
        assert!(committed > 0);
        completes(&struck, &session, media, committed).await;
    }
}

#[tokio::test]
async fn reply_of_an_upload_whose_finish_was_unknown_is_found_by_a_query() {
    for media in [SMALL, MEDIUM] {
        let struck = Struck::ledger(Trigger::CallsOf("apply"), InjectedFault::Lost);
        let session = struck.world.start(Some(media.len())).await.unwrap();
        let range = format!("bytes 0-{}/{}", media.len() - 1, media.len());
        let reply = struck.world.put(&session, &range, media).await;
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(!struck.has_failed());
        assert_eq!(
            struck.ledger_calls.calls_of("apply"),
            1,
            "nothing is tried again"
        );
        let query = struck.world.query(&session).await;
        assert_eq!(query.status, 201, "{query:?}");
        assert_eq!(struck.world.media(&query).await, media.whole());
    }
}

#[tokio::test]
async fn media_of_a_call_with_an_unknown_outcome_is_kept() {
    for fault in [InjectedFault::Lost, InjectedFault::Unavailable] {
        let struck = Struck::ledger(Trigger::CallsOf("apply"), fault);
        let whole = MEDIUM.whole();
        let reply = struck.world.simple(ANIMALS, "image/png", &whole).await;
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(!struck.has_failed());
        let deleted = struck.vault_calls.calls_of("delete");
        assert_eq!(deleted, usize::from(fault == InjectedFault::Unavailable));
    }
}
