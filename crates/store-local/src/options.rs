//! How a store is opened.

use windlass_store::metrics::StoreMetrics;

/// Options of [`LocalStore::open`](crate::LocalStore::open).
///
/// ```
/// use windlass_store_local::{Durability, Options};
///
/// let scratch = Options::default().durability(Durability::Os);
/// assert!(!scratch.page_cache);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// What an acknowledged byte survives. The default is [`Durability::Disk`].
    pub durability: Durability,
    /// Whether all media is written through the page cache. The default is `false`: large writes
    /// bypass it where the file system supports that. With [`Durability::Os`] none does.
    pub page_cache: bool,
    /// Whether to open a store on a file system that is known to lose synced bytes, with a warning
    /// instead of an error. The default is `false`.
    pub allow_unsafe_filesystem: bool,
    /// The handles that the store records its metrics into. The default is registered nowhere.
    pub metrics: StoreMetrics,
}

impl Options {
    /// Sets [`Options::durability`].
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets [`Options::page_cache`].
    #[must_use]
    pub const fn page_cache(mut self, page_cache: bool) -> Self {
        self.page_cache = page_cache;
        self
    }

    /// Sets [`Options::allow_unsafe_filesystem`].
    #[must_use]
    pub const fn allow_unsafe_filesystem(mut self, allow: bool) -> Self {
        self.allow_unsafe_filesystem = allow;
        self
    }

    /// Sets [`Options::metrics`].
    #[must_use]
    pub fn metrics(self, metrics: StoreMetrics) -> Self {
        Self { metrics, ..self }
    }
}

/// What an acknowledged byte survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power cut. Everything is synced before it is acknowledged, which costs a sync of the media
    /// and a shared one of the ledger for each acknowledgement.
    #[default]
    Disk,
    /// The end of the process, including `kill -9`, but not a power cut. Nothing is ever synced.
    /// For scratch data.
    Os,
}
