//! Media that goes while it is written, as when its session dies in the middle of a request.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_server::Stores;
use windlass_store::{
    ExpectedSize, ListPosition, Listing, MediaId, MediaReader, MediaWriter, Sealed, Space,
    StoredMedia, StoredName, Vault, VaultError,
};
use windlass_testkit::media::Media;

use crate::power::{LocalStores, PoweredStores};
use crate::world::World;

#[tokio::test]
async fn session_whose_media_is_deleted_while_it_is_written_is_gone() {
    // Found at the end of the request, and in the middle of it.
    for len in [40, 3_900_000] {
        let local = LocalStores::new();
        let Stores { ledger, vault } = local.stores();
        let vault = Arc::new(LosingVault(vault));
        let stores = Stores { ledger, vault };
        let world = World::new(stores, Arc::default());
        let session = world.start(Some(len)).await.unwrap();
        let range = format!("bytes 0-{}/{len}", len - 1);
        let reply = world.put(&session, &range, Media::new(1, len)).await;
        assert_eq!(reply.status.as_u16(), 410, "{len} bytes: {reply:?}");
        assert_eq!(world.query(&session).await.status.as_u16(), 410);
    }
}

/// A vault that deletes media as soon as it is created.
struct LosingVault(Arc<dyn Vault>);

#[async_trait]
impl Vault for LosingVault {
    async fn create(
        &self,
        id: MediaId,
        expected: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        let writer = self.0.create(id, expected).await?;
        self.0.delete(&StoredName::of(id)).await?;
        Ok(writer)
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        self.0.resume(stored).await
    }

    async fn seal(&self, stored: &StoredMedia) -> Result<Sealed, VaultError> {
        self.0.seal(stored).await
    }

    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        self.0.read(media, range).await
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        self.0.delete(stored).await
    }

    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError> {
        self.0.list(from, limit).await
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        self.0.space().await
    }
}
