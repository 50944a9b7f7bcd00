//! Bytes of the last commit change in the vault: the next server that opens the media refuses to
//! continue.

use std::sync::Arc;

use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_store::{StoredMedia, Vault as _};
use windlass_testkit::media::Media;

use crate::world::{Body, SMALL_MEDIA, SharedStores, World};

/// The first write buffer and a half of the next, then the rest.
const FIRST: u64 = 3 << 19;
const MEDIA: Media = Media::new(7, FIRST + 1000);

impl SharedStores {
    /// Changes one of the `committed` bytes of the only media.
    async fn change_byte(&self, at: u64, committed: u64) {
        let listing = self.vault.list(None, 2).await.expect("it is in memory");
        let [only] = &listing.stored[..] else {
            panic!("one media is in the vault: {listing:?}");
        };
        let stored = StoredMedia::new(only.name.media, committed);
        let writer = self.vault.resume(&stored).await;
        let other = !MEDIA.bytes(at..at + 1)[0];
        let writer = writer.expect("it is there");
        let written = writer.append(at, vec![vec![other].into()]).await;
        written.expect("it is in memory");
    }
}

async fn put(world: &World, session: &str, from: u64, to: u64) -> u16 {
    let range = format!("bytes {from}-{}/{}", to - 1, MEDIA.len());
    let body = Body::Whole(MEDIA.bytes(from..to));
    world.put(session, &range, body).await.status.as_u16()
}

#[tokio::test]
async fn changed_bytes_of_a_checkpoint_that_the_last_commit_replaced_are_found() {
    for at in [0, 5000, FIRST - 1] {
        let shared = SharedStores::new();
        let first = shared.server();
        let session = first.start(Some(MEDIA.len())).await.expect("it begins");
        // The full first buffer is due for a checkpoint. The body ends while it is being written,
        // so one commit covers both buffers.
        assert_eq!(put(&first, &session, 0, FIRST).await, 308);
        shared.change_byte(at, FIRST).await;
        let next = shared.server();
        assert_eq!(put(&next, &session, FIRST, MEDIA.len()).await, 410, "{at}");
    }
}

#[tokio::test]
async fn changed_bytes_that_have_moved_from_the_ledger_to_the_vault_are_found() {
    let shared = SharedStores::new();
    let first = shared.server();
    let session = first.start(Some(MEDIA.len())).await.expect("it begins");
    assert_eq!(put(&first, &session, 0, SMALL_MEDIA).await, 308);
    assert_eq!(put(&first, &session, SMALL_MEDIA, 1000).await, 308);
    shared.change_byte(3, 1000).await;
    let next = shared.server();
    assert_eq!(put(&next, &session, 1000, MEDIA.len()).await, 410);
}

/// All bytes are committed, and the resource is still to be made.
#[tokio::test]
async fn finishing_upload_whose_bytes_have_changed_is_gone() {
    for is_changed in [false, true] {
        let shared = SharedStores::new();
        let refused = Faults::new(Trigger::CallsOf("apply"), InjectedFault::Unavailable);
        let ledger = FaultyLedger::new(Arc::clone(&shared.ledger) as _, Arc::new(refused));
        let first = shared.over(Arc::new(ledger));
        let session = first.start(Some(MEDIA.len())).await.expect("it begins");
        assert_eq!(put(&first, &session, 0, MEDIA.len()).await, 503);
        drop(first);
        if is_changed {
            shared.change_byte(MEDIA.len() - 1, MEDIA.len()).await;
        }
        let second = shared.server();
        let expected = if is_changed { 410 } else { 201 };
        for _ in 0..2 {
            let status = second.query(&session).await.status;
            assert_eq!(status.as_u16(), expected);
        }
    }
}
