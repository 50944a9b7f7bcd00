//! Bytes in the page cache go to the disk before anybody waits for it.
//!
//! The kernel would keep them for many seconds, so that the sync at the end of a request
//! would have all of it before it. A sync now and then, beside the writes, leaves little to the last one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How much is written before it is sent to the disk.
const FLUSH_BYTES: u64 = 2 * 1024 * 1024;

/// Tells one writer when to send what it wrote to the disk. There is at most one such sync at a time: a
/// disk that is slow gets longer stretches, not more syncs.
#[derive(Debug, Default)]
pub(super) struct WriteBack {
    waiting: AtomicU64,
    running: AtomicBool,
    /// Held during the sync, until what came of it is known to all.
    syncing: Mutex<()>,
}

impl WriteBack {
    /// Takes note of bytes that were written to the page cache. When the answer is yes, the caller [runs](WriteBack::run) a
    /// sync, or [puts it off](WriteBack::put_off).
    pub(super) fn is_due(&self, cached: u64) -> bool {
        let waiting = self.waiting.fetch_add(cached, Ordering::Relaxed) + cached;
        let due = waiting >= FLUSH_BYTES && !self.running.swap(true, Ordering::Relaxed);
        if due {
            self.waiting.store(0, Ordering::Relaxed);
        }
        due
    }

    /// Runs the sync that was due.
    pub(super) fn run(&self, sync: impl FnOnce()) {
        let syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        sync();
        drop(syncing);
        self.running.store(false, Ordering::Relaxed);
    }

    /// The sync that was due cannot be run now; the next write asks again.
    pub(super) fn postpone(&self) {
        self.waiting.fetch_add(FLUSH_BYTES, Ordering::Relaxed);
        self.running.store(false, Ordering::Relaxed);
    }

    /// Waits for the sync that is running. Linux tells of a failed write-back only once for each open file: a
    /// sync that succeeded beside another one means something only when that one has not failed.
    pub(super) fn wait(&self) {
        drop(self.syncing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All that was written is being synced in any case.
    pub(super) fn reset(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_due_when_the_one_before_has_ended() {
        let write_back = WriteBack::default();
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
        assert!(write_back.is_due(1));
        assert!(!write_back.is_due(FLUSH_BYTES), "one is under way");
        write_back.run(|| {});
        assert!(write_back.is_due(1), "what came meanwhile counts");
        write_back.postpone();
        assert!(write_back.is_due(1));
        write_back.run(|| {});
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
        write_back.reset();
        assert!(!write_back.is_due(FLUSH_BYTES - 1));
    }

    #[test]
    fn whoever_waits_learns_of_the_sync_that_runs() {
        let write_back = WriteBack::default();
        let failed = AtomicBool::new(false);
        let (begun, begins) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                write_back.run(|| {
                    begun.send(()).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    failed.store(true, Ordering::Relaxed);
                });
            });
            begins.recv().unwrap();
            write_back.wait();
            assert!(failed.load(Ordering::Relaxed));
        });
    }
}
