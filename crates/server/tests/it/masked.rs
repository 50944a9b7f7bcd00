//! Requests with two failures: one error must not hide a storage fault.

use std::sync::Arc;

use futures_util::FutureExt as _;
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::media::Media;

use crate::world::{SMALL_MEDIA, World};

/// Three write buffers. The checkpoint that follows the first buffer is still running when the last
/// buffer is flushed.
const LARGE: Media = Media::new(21, 2_200_000);

const SMALL: Media = Media::new(22, SMALL_MEDIA);

fn has_failed(world: &World) -> bool {
    world.server.failed().now_or_never().is_some()
}

#[tokio::test]
async fn fault_of_a_flush_stops_the_server_also_if_the_checkpoint_has_failed() {
    for checkpoint in [InjectedFault::NoSpace, InjectedFault::Unavailable] {
        // The media is created, and two full buffers are written. The next write is the flush.
        let vault_calls = Arc::new(Faults::new(Trigger::Once(4), InjectedFault::Fault));
        let vault = FaultyVault::new(Arc::new(MemoryVault::new()), Arc::clone(&vault_calls));
        let commits = Arc::new(Faults::new(Trigger::CallsOf("commit_offset"), checkpoint));
        let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&commits));
        let world = World::new(
            Stores {
                ledger: Arc::new(ledger),
                vault: Arc::new(vault),
            },
            Arc::default(),
        );
        let session = world.start(Some(LARGE.len())).await.expect("it begins");
        let range = format!("bytes 0-{}/{}", LARGE.len() - 1, LARGE.len());
        let reply = world.put(&session, &range, LARGE).await;
        assert_eq!(reply.status, 503, "{reply:?}");
        assert_eq!(vault_calls.names()[3], "append");
        assert_eq!(vault_calls.calls_of("sync"), 1, "that of the checkpoint");
        assert_eq!(commits.calls_of("commit_offset"), 1);
        assert!(has_failed(&world), "after {checkpoint:?}");
    }
}

#[tokio::test]
async fn nothing_is_committed_after_a_finish_of_small_media_with_an_unknown_outcome() {
    for fault in [
        InjectedFault::Fault,
        InjectedFault::LateFault,
        InjectedFault::Lost,
    ] {
        let calls = Arc::new(Faults::new(Trigger::CallsOf("apply"), fault));
        let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&calls));
        let world = World::new(
            Stores {
                ledger: Arc::new(ledger),
                vault: Arc::new(MemoryVault::new()),
            },
            Arc::default(),
        );
        let session = world.start(Some(SMALL.len())).await.expect("it begins");
        let range = format!("bytes 0-{}/{}", SMALL.len() - 1, SMALL.len());
        let reply = world.put(&session, &range, SMALL).await;
        assert_eq!(reply.status, 503, "{reply:?}");
        assert_eq!(calls.calls_of("apply"), 1);
        assert_eq!(calls.calls_of("commit_offset"), 0, "after {fault:?}");
        let is_fault = fault != InjectedFault::Lost;
        assert_eq!(has_failed(&world), is_fault, "after {fault:?}");
    }
}
