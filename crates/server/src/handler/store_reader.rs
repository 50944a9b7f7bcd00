//! What a handler may look at.

use std::sync::Arc;
use std::time::Duration;

use windlass_store::{Ledger, Media, Resource, Vault};

use super::{MediaSource, Rejection};
use crate::capacity::Pool;

/// Where a handler's looks go.
#[derive(Clone)]
pub(crate) struct StoreHandles {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) vault: Arc<dyn Vault>,
    /// For media that is read whole.
    pub(crate) reading: Pool,
    /// For files that are open for a look.
    pub(crate) media_reads: Pool,
    /// How long a look waits for either.
    pub(crate) timeout: Duration,
}

/// A look at the stores that changes nothing.
#[derive(Clone, Copy)]
pub struct StoreReader<'a>(&'a StoreHandles);

impl std::fmt::Debug for StoreReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

impl<'a> StoreReader<'a> {
    pub(crate) fn new(store_handles: &'a StoreHandles) -> Self {
        Self(store_handles)
    }

    /// One resource.
    pub async fn resource(
        &self,
        collection: &str,
        id: &str,
    ) -> Result<Option<Resource>, Rejection> {
        Ok(self.0.ledger.resource(collection, id).await?)
    }

    /// Resources of a collection in the order of their ids; see [`Ledger::resources`].
    pub async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, Rejection> {
        Ok(self.0.ledger.resources(collection, after, limit).await?)
    }

    /// The bytes of a resource's media.
    pub fn media(&self, media: &Media) -> MediaSource {
        MediaSource::new(self.0.clone(), media, None)
    }
}
