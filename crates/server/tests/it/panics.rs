//! Panics in the server's background tasks.

use std::sync::Arc;
use std::time::Duration;

use windlass_server::{Ended, Stores};
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};

use crate::world::World;

/// Calls of endless loops: the watch over the disks, the sweep, and the search for unfinished
/// uploads.
const ENDLESS: [&str; 5] = ["space", "expire", "garbage", "list", "finishing"];

/// By the clock of the timers, which stands still while anything is done. Longer than any pause
/// between two rounds.
const A_WHILE: Duration = Duration::from_secs(10 * 60);

fn nth_index(nth: u64) -> usize {
    usize::try_from(nth - 1).expect("there are few")
}

/// Runs a server with a panic in the nth call to its stores. Returns the calls.
async fn panicking(nth: u64) -> Arc<Faults> {
    let calls = Arc::new(Faults::new(Trigger::Once(nth), InjectedFault::Panic));
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    let stores = Stores {
        ledger: Arc::new(FaultyLedger::new(Arc::new(ledger), Arc::clone(&calls))),
        vault: Arc::new(FaultyVault::new(Arc::new(vault), Arc::clone(&calls))),
    };
    let world = World::watching_disks(stores);
    let serving = world.serve().await;
    tokio::time::sleep(A_WHILE).await;
    let before = ENDLESS.map(|name| calls.calls_of(name));
    tokio::time::sleep(A_WHILE).await;
    let names = calls.names();
    let panicked = names[nth_index(nth)];
    for (name, before) in ENDLESS.iter().zip(before) {
        let now = calls.calls_of(name);
        assert!(now > before, "no more {name} after a panic in {panicked}");
    }
    let ended = serving.stop().await.expect("no panic gets here");
    assert_eq!(ended, Ended::Drained);
    calls
}

#[tokio::test(start_paused = true)]
async fn sweep_and_disk_measurements_continue_after_a_panic() {
    // The first two are the look before the start.
    let mut panicked = Vec::new();
    for nth in 3..=10 {
        let calls = panicking(nth).await;
        panicked.push(calls.names()[nth_index(nth)]);
    }
    for name in ENDLESS {
        assert!(panicked.contains(&name), "{name} is not in {panicked:?}");
    }
}
