//! How a store is opened.

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What an acknowledged byte survives.
    pub durability: Durability,
    /// Writes all media through the page cache. Otherwise large writes, which are synced soon, go past it;
    /// with [`Durability::Os`] none does.
    pub page_cache: bool,
    /// Opens the store on a file system that is known not to keep what it has synced, with a
    /// warning instead of an error.
    pub allow_unsafe_filesystem: bool,
}

/// What an acknowledged byte survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power cut: everything is synced before it is acknowledged. Costs a sync of the media and a
    /// shared one of the ledger for each acknowledgement.
    #[default]
    Disk,
    /// The end of the process, kill -9 included, but no power cut: nothing is ever synced. For
    /// scratch data.
    Os,
}
