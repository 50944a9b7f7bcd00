//! Media that goes while it is written, as when its session dies in the middle of a request.

use std::sync::Arc;

use windlass_server::Stores;
use windlass_testkit::media::Media;

use crate::power::{LocalStores, PoweredStores};
use crate::vaults::WatchedVault;
use crate::world::{Body, World};

#[tokio::test]
async fn a_session_whose_media_goes_while_it_is_written_is_gone() {
    // Found at the end of the request, and in the middle of it.
    for len in [40, 3_900_000] {
        let local = LocalStores::new();
        let Stores { ledger, vault } = local.stores();
        let vault = Arc::new(WatchedVault::new(vault, true));
        let stores = Stores { ledger, vault };
        let world = World::new(stores, Arc::default());
        let session = world.start(Some(len)).await.unwrap();
        let range = format!("bytes 0-{}/{len}", len - 1);
        let body = Body::Whole(Media::new(1, len).whole());
        let reply = world.put(&session, &range, body).await;
        assert_eq!(reply.status.as_u16(), 410, "{len} bytes: {reply:?}");
        assert_eq!(world.query(&session).await.status.as_u16(), 410);
    }
}
