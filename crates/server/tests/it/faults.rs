//! Every call to the stores fails once, and for ever; nothing acknowledged is lost by it.

use std::sync::Arc;

use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, Trouble, When};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::media::Media;

use crate::world::{Body, ManualClock, World};

/// More calls than any of the runs makes.
const MANY_CALLS: u64 = 200;

/// One upload in chunks, in front of stores with trouble, then the same upload brought to its end
/// behind the trouble.
struct Run {
    ledger: Arc<MemoryLedger>,
    vault: MemoryVault,
    media: Media,
    /// The highest offset that was acknowledged.
    acknowledged: u64,
    /// A final reply that was given.
    finished: Option<bytes::Bytes>,
}

impl Run {
    fn new(len: u64) -> Self {
        Self {
            ledger: Arc::default(),
            vault: MemoryVault::new(),
            media: Media::new(len, len),
            acknowledged: 0,
            finished: None,
        }
    }

    fn world(&self, faults: &Arc<Faults>) -> World {
        let ledger = FaultyLedger::new(Arc::clone(&self.ledger) as Arc<_>, Arc::clone(faults));
        let vault = FaultyVault::new(Arc::new(self.vault.clone()), Arc::clone(faults));
        let stores = Stores {
            ledger: Arc::new(ledger),
            vault: Arc::new(vault),
        };
        World::new(stores, Arc::new(ManualClock::default()))
    }

    /// Sends chunk after chunk as long as the server takes them.
    async fn send_chunks(&mut self, world: &World, session: &str, chunk: u64) {
        let len = self.media.len();
        while self.finished.is_none() {
            let from = self.acknowledged;
            let to = (from + chunk).min(len);
            let range = format!("bytes {from}-{}/{len}", to - 1);
            let reply = world
                .put(session, &range, Body::Whole(self.media.bytes(from..to)))
                .await;
            match reply.status.as_u16() {
                308 => {
                    assert_eq!(reply.committed(), to);
                    self.acknowledged = to;
                }
                200 | 201 => self.finished = Some(reply.body),
                503 => return,
                _ => panic!("{reply:?}"),
            }
        }
    }

    /// After the power went out and came back, without trouble: what was acknowledged is there, and
    /// the upload can be brought to its end.
    async fn recover(&mut self, session: &str, chunk: u64) {
        self.ledger.crash();
        self.vault.crash();
        let world = self.world(&Arc::new(Faults::new(When::Never, Trouble::Fault)));
        let reply = world.query(session).await;
        if reply.status.as_u16() == 308 {
            assert!(
                self.finished.is_none(),
                "a finished upload is unfinished: {reply:?}"
            );
            assert!(
                reply.committed() >= self.acknowledged,
                "{reply:?} after {}",
                self.acknowledged
            );
            self.acknowledged = reply.committed();
            self.send_chunks(&world, session, chunk).await;
        } else {
            assert!(reply.status.is_success(), "{reply:?}");
            if let Some(finished) = &self.finished {
                assert_eq!(*finished, reply.body, "the final reply has changed");
            }
        }
        let reply = world.query(session).await;
        assert!(reply.status.is_success(), "{reply:?}");
        assert_eq!(world.media(&reply).await, self.media.whole());
        assert_eq!(world.count().await, 1);
    }
}

async fn run(len: u64, chunk: u64, when: When, trouble: Trouble) -> u64 {
    let mut run = Run::new(len);
    let faults = Arc::new(Faults::new(when, trouble));
    let world = run.world(&faults);
    if let Ok(session) = world.start(Some(len)).await {
        run.send_chunks(&world, &session, chunk).await;
        run.recover(&session, chunk).await;
    }
    faults.calls()
}

async fn fail_each_call(trouble: Trouble) {
    // Small media that stays in the ledger, media that moves from there to the vault, larger media.
    for (len, chunk) in [(10, 10), (12, 5), (40, 10), (3_000_000 / 4, 300_000)] {
        let calls = run(len, chunk, When::Never, trouble).await;
        assert!(calls < MANY_CALLS, "{calls} calls");
        for nth in 1..=calls {
            run(len, chunk, When::Once(nth), trouble).await;
            run(len, chunk, When::From(nth), trouble).await;
        }
    }
}

#[tokio::test]
async fn no_acknowledged_byte_is_lost_when_the_nth_call_fails() {
    fail_each_call(Trouble::Fault).await;
}

#[tokio::test]
async fn no_acknowledged_byte_is_lost_when_the_nth_call_is_done_but_seems_to_fail() {
    fail_each_call(Trouble::Lost).await;
}

#[tokio::test]
async fn no_acknowledged_byte_is_lost_when_the_nth_write_is_torn() {
    fail_each_call(Trouble::Torn).await;
}

#[tokio::test]
async fn no_acknowledged_byte_is_lost_when_the_disk_is_full() {
    fail_each_call(Trouble::NoSpace).await;
}
