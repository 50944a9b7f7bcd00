//! What a kind may look at.

use std::sync::Arc;
use std::time::Duration;

use windlass_store::{Ledger, Media, Resource, Vault};

use super::{MediaSource, Rejection};
use crate::capacity::Pool;

/// Where a kind's looks go.
#[derive(Clone)]
pub(crate) struct Shelf {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) vault: Arc<dyn Vault>,
    /// For media that is read whole.
    pub(crate) reading: Pool,
    /// For files that are open for a look.
    pub(crate) looks: Pool,
    /// How long a look waits for either.
    pub(crate) patience: Duration,
}

/// A look at the stores that changes nothing.
#[derive(Clone, Copy)]
pub struct Lookup<'a>(&'a Shelf);

impl std::fmt::Debug for Lookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(shelf: &'a Shelf) -> Self {
        Self(shelf)
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
