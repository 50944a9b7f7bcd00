//! A vault that is looked over the shoulder.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use windlass_store::{
    Extent, Listing, MediaId, MediaReader, MediaWriter, Space, Vault, VaultError,
};

/// A vault that counts, and that can lose what it is given.
pub(crate) struct WatchedVault {
    inner: Arc<dyn Vault>,
    /// Whether media is deleted as soon as it is made.
    loses: bool,
    reopened: AtomicU64,
}

impl WatchedVault {
    pub(crate) fn new(inner: Arc<dyn Vault>, loses: bool) -> Self {
        Self {
            inner,
            loses,
            reopened: AtomicU64::new(0),
        }
    }

    /// How often media was opened again for writing.
    pub(crate) fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Vault for WatchedVault {
    async fn create(&self, id: MediaId) -> Result<Box<dyn MediaWriter>, VaultError> {
        let writer = self.inner.create(id).await?;
        if self.loses {
            self.inner.delete(id).await?;
        }
        Ok(writer)
    }

    async fn reopen(
        &self,
        id: MediaId,
        committed: u64,
        verify: Option<Extent>,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        self.reopened.fetch_add(1, Ordering::Relaxed);
        self.inner.reopen(id, committed, verify).await
    }

    async fn read(
        &self,
        id: MediaId,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        self.inner.read(id, range).await
    }

    async fn delete(&self, id: MediaId) -> Result<(), VaultError> {
        self.inner.delete(id).await
    }

    async fn list(&self, after: Option<MediaId>, limit: usize) -> Result<Listing, VaultError> {
        self.inner.list(after, limit).await
    }

    async fn space(&self) -> Result<Space, VaultError> {
        self.inner.space().await
    }
}
