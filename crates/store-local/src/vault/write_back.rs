//! Bytes go to the disk before anybody waits for it.
//!
//! The kernel would keep what is written for many seconds, so that the sync at the end of a request
//! would have all of it before it. A sync now and then, beside the writes, leaves little to the last one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How much is written before it is sent to the disk.
const STRETCH: u64 = 2 * 1024 * 1024;

/// Tells one writer when to send what it wrote to the disk. There is at most one such sync at a time: a
/// disk that is slow gets longer stretches, not more syncs.
#[derive(Debug, Default)]
pub(super) struct WriteBack {
    waiting: AtomicU64,
    running: AtomicBool,
}

impl WriteBack {
    /// Takes note of bytes that were written. When the answer is yes, the caller syncs, and says when it
    /// has [ended](WriteBack::end).
    pub(super) fn is_due(&self, written: u64) -> bool {
        let waiting = self.waiting.fetch_add(written, Ordering::Relaxed) + written;
        let due = waiting >= STRETCH && !self.running.swap(true, Ordering::Relaxed);
        if due {
            self.waiting.store(0, Ordering::Relaxed);
        }
        due
    }

    /// All that was written is being synced in any case.
    pub(super) fn begin_anew(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.running.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_due_when_the_one_before_has_ended() {
        let write_back = WriteBack::default();
        assert!(!write_back.is_due(STRETCH - 1));
        assert!(write_back.is_due(1));
        assert!(!write_back.is_due(STRETCH), "one is under way");
        write_back.end();
        assert!(write_back.is_due(1), "what came meanwhile counts");
        write_back.end();
        assert!(!write_back.is_due(STRETCH - 1));
        write_back.begin_anew();
        assert!(!write_back.is_due(STRETCH - 1));
    }
}
