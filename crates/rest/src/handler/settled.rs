//! Collections with index records that need not be read at each write.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// Clients make collections, inside of resources, so the table needs a bound: 32 KiB.
/// Number of collections that are remembered.
const SLOTS: usize = 4096;

/// Collections without index records other than the records of the served description, as far as
/// this process has found out. The description stays the same for the life of the process, so no
/// other record is added later.
///
/// The table has a fixed size. If two collections share a slot, the later collection is remembered.
#[derive(Clone)]
pub struct SettledCollections {
    /// The hash of a collection's name in each slot. 0 marks an empty slot.
    slots: Arc<[AtomicU64]>,
    hasher: RandomState,
    /// APIs with several descriptions, each of which may make records at any time.
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

    pub(crate) fn contains(&self, api: &str, collection: &str) -> bool {
        let (slot, hash) = self.slot(collection);
        // Relaxed: the hash guards no other data.
        !self.ambiguous.contains(api) && slot.load(Ordering::Relaxed) == hash
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
    fn collections_of_the_only_description_are_remembered() {
        let settled = SettledCollections::new(["album", "farm", "farm"]);
        assert!(!settled.contains("album", "album/photos"));
        settled.insert("album/photos");
        assert!(settled.contains("album", "album/photos"));
        assert!(!settled.contains("album", "album/comments"));
        settled.insert("farm/animals");
        assert!(!settled.contains("farm", "farm/animals"));
    }

    #[test]
    fn table_does_not_grow() {
        let settled = SettledCollections::new(["album"]);
        let names = || (0..3 * SLOTS).map(|number| format!("album/{number}"));
        for name in names() {
            settled.insert(&name);
        }
        let remembered = names().filter(|name| settled.contains("album", name));
        assert!(remembered.count() <= SLOTS);
    }
}
