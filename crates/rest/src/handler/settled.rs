//! Collections with a record of indexes that need not be read at each write.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// Clients make collections, inside of resources, so the table needs a bound: 32 KiB.
/// Number of collections that are remembered.
const SLOTS: usize = 4096;

/// Collections whose record names no other indexes than the served description has, as far as this
/// process has found out. It is of use if no other process writes, and with one description, which
/// stays the same for the life of the process. Then no other index is named later.
///
/// The table has a fixed size. If two collections share a slot, the later collection is remembered.
#[derive(Clone)]
pub struct SettledCollections {
    /// The hash of a collection's name in each slot. 0 marks an empty slot.
    slots: Arc<[AtomicU64]>,
    hasher: RandomState,
    /// APIs with several descriptions, each of which may name its indexes at any time.
    ambiguous: Arc<HashSet<String>>,
}

impl fmt::Debug for SettledCollections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SettledCollections")
    }
}

impl SettledCollections {
    /// Returns an empty table, for APIs of these names.
    pub fn new<'a>(apis: impl IntoIterator<Item = &'a str>) -> Self {
        let mut seen = HashSet::new();
        let twice = apis.into_iter().filter(|name| !seen.insert(*name));
        let ambiguous = twice.map(str::to_owned).collect();
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            ambiguous: Arc::new(ambiguous),
        }
    }

    /// Whether this process serves several descriptions of the API.
    pub(crate) fn is_ambiguous(&self, api: &str) -> bool {
        self.ambiguous.contains(api)
    }

    pub(crate) fn contains(&self, collection: &str) -> bool {
        let (slot, hash) = self.slot(collection);
        // Relaxed: the hash guards no other data.
        slot.load(Ordering::Relaxed) == hash
    }

    pub(crate) fn insert(&self, collection: &str) {
        let (slot, hash) = self.slot(collection);
        slot.store(hash, Ordering::Relaxed);
    }

    fn slot(&self, collection: &str) -> (&AtomicU64, u64) {
        // Never 0, which marks an empty slot.
        let hash = self.hasher.hash_one(collection) | 1;
        // The upper bits are used, because the lowest bit is the same for all hashes.
        let index = usize::try_from(hash >> 32).unwrap_or_default() % SLOTS;
        (&self.slots[index], hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_remembered() {
        let settled = SettledCollections::new(["album", "farm", "farm"]);
        assert!(!settled.contains("album/photos"));
        settled.insert("album/photos");
        assert!(settled.contains("album/photos"));
        assert!(!settled.contains("album/comments"));
        assert!(settled.is_ambiguous("farm") && !settled.is_ambiguous("album"));
    }

    #[test]
    fn table_does_not_grow() {
        let settled = SettledCollections::new(["album"]);
        let names = || (0..3 * SLOTS).map(|number| format!("album/{number}"));
        for name in names() {
            settled.insert(&name);
        }
        let remembered = names().filter(|name| settled.contains(name));
        assert!(remembered.count() <= SLOTS);
    }
}
