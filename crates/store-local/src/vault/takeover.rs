//! One writer at a time.
//!
//! A write that was begun runs to its end, also when the request behind it is gone. The next writer
//! of the media must not begin before that, or the old bytes would land on top of the new ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use windlass_store::MediaId;

/// The newest gate of every media that is open for writing.
#[derive(Debug, Default)]
pub(super) struct Gates(Mutex<HashMap<MediaId, Weak<Gate>>>);

/// What a writer passes through to write.
#[derive(Debug)]
pub(super) struct Gate {
    id: MediaId,
    closed: RwLock<bool>,
    gates: Arc<Gates>,
}

impl Gates {
    /// A gate for a new writer. Blocks until no writer before it is writing; none will again.
    pub(super) fn take_over(self: &Arc<Self>, id: MediaId) -> Arc<Gate> {
        let gate = Gate {
            id,
            closed: RwLock::new(false),
            gates: Arc::clone(self),
        };
        let gate = Arc::new(gate);
        let before = self.map().insert(id, Arc::downgrade(&gate));
        if let Some(before) = before.and_then(|before| before.upgrade()) {
            *before.closed.write().expect("no write panics") = true;
        }
        gate
    }

    /// Whether a writer has the media open.
    pub(super) fn is_open(&self, id: MediaId) -> bool {
        // Counted, not upgraded: the last owner drops its gate, which takes the map's lock.
        let map = self.map();
        map.get(&id).is_some_and(|gate| gate.strong_count() > 0)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.map().len()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<MediaId, Weak<Gate>>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl Gate {
    /// Does `work` while the gate is held open; `None` when a newer writer has closed it.
    pub(super) fn pass<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let closed = self.closed.read().expect("no write panics");
        (!*closed).then(work)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut map = self.gates.map();
        if map
            .get(&self.id)
            .is_some_and(|newest| newest.strong_count() == 0)
        {
            map.remove(&self.id);
        }
    }
}
