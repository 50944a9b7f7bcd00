//! Lists of two servers over one ledger, with different descriptions of the collection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_server::Stores;
use windlass_store::Ledger;
use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};

use super::{ALBUM, PHOTOS, made, titles, without_indexes};
use crate::world::{Peer as _, World};

/// Longer than an index stays out of the record.
const LONG: Duration = Duration::from_secs(61);

/// How long changes of a slow ledger take to begin.
const SLOW: Duration = Duration::from_secs(1);

/// Two servers. The first has the description with indexes, the second has the one without.
struct Pair {
    with: World,
    without: World,
}

impl Pair {
    fn new() -> Self {
        Self::of([false, false])
    }

    /// Servers with slow changes, or not. Others change rows between the reads of a call and its
    /// change.
    fn of(slow: [bool; 2]) -> Self {
        let one = MemoryLedger::new();
        let two = one.of_another_process();
        let vault = MemoryVault::new();
        let ledger = |memory, is_slow| -> Arc<dyn Ledger> {
            let trigger = if is_slow {
                Trigger::CallsOf("apply")
            } else {
                Trigger::Never
            };
            let faults = Arc::new(Faults::new(trigger, InjectedFault::Slow(SLOW)));
            Arc::new(FaultyLedger::new(Arc::new(memory), faults))
        };
        let server = |ledger, description: &str| {
            let vault = Arc::new(vault.clone());
            super::album_over(Stores { ledger, vault }, description)
        };
        Self {
            with: server(ledger(one, slow[0]), ALBUM),
            without: server(ledger(two, slow[1]), &without_indexes()),
        }
    }

    async fn photo(&self, server: &World, title: &str) -> String {
        // Both clocks go, so that ids are in the order of the calls.
        self.with.clock.advance(Duration::from_millis(1));
        self.without.clock.advance(Duration::from_millis(1));
        made(server, PHOTOS, &json!({"title": title, "album": "a"})).await
    }

    async fn assert_lists(&self, expected: &str) {
        for size in [1, 100] {
            for filter in ["", "album = a"] {
                let found = titles(&self.with, filter, "title", size).await;
                assert_eq!(found.join(" "), expected, "{filter} {size}");
            }
        }
    }
}

#[tokio::test]
async fn list_misses_nothing_while_two_descriptions_write() {
    for is_first in [true, false] {
        let pair = Pair::new();
        let [one, other] = if is_first {
            [&pair.with, &pair.without]
        } else {
            [&pair.without, &pair.with]
        };
        let moved = pair.photo(one, "c").await;
        pair.photo(other, "b").await;
        pair.assert_lists("b c").await;
        pair.photo(one, "d").await;
        pair.assert_lists("b c d").await;
        pair.photo(other, "e").await;
        for (server, title, expected) in [(other, "a", "a b d e"), (one, "f", "b d e f")] {
            let patched = server.json("PATCH", &moved, &json!({"title": title})).await;
            assert_eq!(patched.status, 200, "{patched:?}");
            pair.assert_lists(expected).await;
        }
        let deleted = other.send("DELETE", &moved, &[], Vec::new()).await;
        assert_eq!(deleted.status, 204, "{deleted:?}");
        pair.assert_lists("b d e").await;
        // Lists put the index back, and a write takes it out again.
        pair.with.clock.advance(LONG);
        pair.without.clock.advance(LONG);
        for _ in 0..3 {
            pair.assert_lists("b d e").await;
        }
        pair.photo(&pair.without, "a").await;
        pair.assert_lists("a b d e").await;
    }
}

/// One server changes rows after the other one has read them and before that one's change.
#[tokio::test(start_paused = true)]
async fn list_misses_nothing_that_is_written_at_the_same_time() {
    for slow in [[true, false], [false, true]] {
        for moment in 0..10 {
            let pair = Pair::of(slow);
            pair.photo(&pair.with, "a").await;
            pair.photo(&pair.without, "b").await;
            pair.with.clock.advance(LONG);
            let lists = async {
                tokio::time::sleep(SLOW).await;
                for _ in 0..6 {
                    titles(&pair.with, "", "title", 100).await;
                    tokio::time::sleep(SLOW / 4).await;
                }
            };
            let write = async {
                tokio::time::sleep(SLOW / 3 * moment).await;
                pair.photo(&pair.without, "c").await;
            };
            tokio::join!(lists, write);
            for _ in 0..3 {
                pair.assert_lists("a b c").await;
                pair.with.clock.advance(LONG);
            }
        }
    }
}

/// Both servers make the first resource of the collection at the same time.
#[tokio::test(start_paused = true)]
async fn first_resource_of_either_server_is_listed() {
    for slow in [[true, false], [false, true], [true, true]] {
        let pair = Pair::of(slow);
        tokio::join!(pair.photo(&pair.with, "a"), pair.photo(&pair.without, "b"));
        pair.assert_lists("a b").await;
        pair.with.clock.advance(LONG);
        pair.assert_lists("a b").await;
        pair.assert_lists("a b").await;
    }
}

/// It is not listed from memory.
#[tokio::test]
async fn long_list_misses_nothing_while_two_descriptions_write() {
    let pair = Pair::new();
    for number in 0..1_200 {
        pair.photo(&pair.without, &format!("{number:04}")).await;
    }
    let count = async || titles(&pair.with, "", "title", 1_000).await.len();
    assert_eq!(count().await, 1_200);
    for server in [&pair.without, &pair.with, &pair.without] {
        let before = count().await;
        pair.photo(server, "0100 new").await;
        assert_eq!(count().await, before + 1);
    }
}
