//! The garbage list of the ledger in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use crate::records::{Garbage, GarbageId, Retention, StoredName};

/// What the vault stores and the ledger has released.
#[derive(Debug, Clone, Default)]
pub(super) struct GarbageList {
    pub(super) retention: Retention,
    /// Each entry, and the time before which it is not deleted.
    entries: BTreeMap<GarbageId, (Garbage, Duration)>,
}

impl GarbageList {
    /// Adds what was released now, unless it is on the list.
    pub(super) fn insert(&mut self, name: StoredName, now: Duration) {
        if !self.has(&name) {
            self.put(name, 0, now + self.retention.keep);
        }
    }

    /// Returns whether a name is on the list.
    pub(super) fn has(&self, name: &StoredName) -> bool {
        let [first, second] = [0, 1].map(|attempt| entry_id(name, attempt));
        self.entries.contains_key(&first) || self.entries.contains_key(&second)
    }

    /// Returns the entries after an id that are due.
    pub(super) fn due(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
        now: Duration,
    ) -> Vec<Garbage> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let listed = self.entries.range((from, Bound::Unbounded));
        let due = listed.filter(|(_, (_, not_before))| *not_before <= now);
        due.take(limit)
            .map(|(_, (entry, _))| entry.clone())
            .collect()
    }

    /// Removes an entry that the vault has deleted. If it was deleted for the first time and there
    /// is a time for the second deletion, it stays on the list until then.
    pub(super) fn deleted(&mut self, id: &GarbageId, again: Option<Duration>) {
        if let Some((entry, _)) = self.entries.remove(id)
            && entry.attempt == 0
            && let Some(not_before) = again
        {
            self.put(entry.name, 1, not_before);
        }
    }

    fn put(&mut self, name: StoredName, attempt: u8, not_before: Duration) {
        let id = entry_id(&name, attempt);
        let entry = Garbage {
            id: id.clone(),
            name,
            attempt,
        };
        self.entries.insert(id, (entry, not_before));
    }
}

fn entry_id(name: &StoredName, attempt: u8) -> GarbageId {
    let id = [&name.media.as_bytes()[..], &[attempt], &name.handle].concat();
    GarbageId::from_bytes(id.into())
}
