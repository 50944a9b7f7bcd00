//! One writer at a time.
//!
//! A write that was begun runs to its end, also when the request behind it is gone. The next writer
//! of the media must not begin before that, or the old bytes would land on top of the new ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use windlass_store::MediaId;

/// The newest fence of every media that is open for writing.
#[derive(Debug, Default)]
pub(super) struct FenceMap(Mutex<HashMap<MediaId, Weak<WriteFence>>>);

/// What a writer passes through to write.
#[derive(Debug)]
pub(super) struct WriteFence {
    id: MediaId,
    closed: RwLock<bool>,
    fences: Arc<FenceMap>,
}

impl FenceMap {
    /// A fence for a new writer. Blocks until no writer before it is writing; none will again.
    pub(super) fn take_over(self: &Arc<Self>, id: MediaId) -> Arc<WriteFence> {
        let fence = WriteFence {
            id,
            closed: RwLock::new(false),
            fences: Arc::clone(self),
        };
        let fence = Arc::new(fence);
        let before = self.map().insert(id, Arc::downgrade(&fence));
        if let Some(before) = before.and_then(|before| before.upgrade()) {
            *before.closed.write().expect("no write panics") = true;
        }
        fence
    }

    /// Whether a writer has the media open.
    pub(super) fn is_open(&self, id: MediaId) -> bool {
        // Counted, not upgraded: the last owner drops its fence, which takes the map's lock.
        let map = self.map();
        map.get(&id).is_some_and(|fence| fence.strong_count() > 0)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.map().len()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<MediaId, Weak<WriteFence>>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl WriteFence {
    /// Does `work` under the fence; `None` when a newer writer has closed it.
    pub(super) fn pass<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let closed = self.closed.read().expect("no write panics");
        (!*closed).then(work)
    }
}

impl Drop for WriteFence {
    fn drop(&mut self) {
        let mut map = self.fences.map();
        if map
            .get(&self.id)
            .is_some_and(|newest| newest.strong_count() == 0)
        {
            map.remove(&self.id);
        }
    }
}
