//! How many streams are read in large pieces at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// After this long without a read a place is free for others: connections that are only kept open keep nobody from
/// large reads for long. A stream that is not read because the disk is behind keeps its place, if the disk is no
/// slower than that.
const KEPT: Duration = Duration::from_secs(10);

/// Places for streams that are read in large pieces.
#[derive(Debug, Clone)]
pub(super) struct LargeReads(Arc<Places>);

#[derive(Debug)]
struct Places {
    /// When each was used last, in milliseconds on [`Places::now`]'s clock; zero if it is free.
    used: Box<[AtomicU64]>,
    begun: Instant,
}

/// What one stream has of [`LargeReads`]. Its place is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    places: Arc<Places>,
    /// The index of a place, and when this stream used it last. It belongs to somebody else if that has changed.
    place: Option<(usize, u64)>,
}

impl LargeReads {
    /// Places for so many streams.
    pub(super) fn new(streams: usize) -> Self {
        Self(Arc::new(Places {
            used: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            begun: Instant::now(),
        }))
    }

    /// A pass for one stream, that has no place yet.
    pub(super) fn pass(&self) -> Pass {
        Pass {
            places: Arc::clone(&self.0),
            place: None,
        }
    }
}

impl Pass {
    /// Whether the stream may do a large read now, for which it needs a place: the one that it had, or another that
    /// nobody has used of late.
    pub(super) fn admits(&mut self) -> bool {
        let now = self.places.now();
        let kept = self.place.take().filter(|had| self.places.take(*had, now));
        let index = kept.map(|(index, _)| index);
        let index = index.or_else(|| self.places.take_free(now));
        self.place = index.map(|index| (index, now));
        self.place.is_some()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.places.take(place, 0);
        }
    }
}

impl Places {
    /// Milliseconds, more than a place is kept for from the beginning.
    fn now(&self) -> u64 {
        let elapsed = KEPT + self.begun.elapsed();
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes the place with this index, if it was used last at this time. Notes when it is used now.
    fn take(&self, (index, used): (usize, u64), now: u64) -> bool {
        let taken = self.used[index].compare_exchange(used, now, Relaxed, Relaxed);
        taken.is_ok()
    }

    /// Takes a place that nobody has used of late.
    fn take_free(&self, now: u64) -> Option<usize> {
        let kept = u64::try_from(KEPT.as_millis()).expect("it is short");
        let used = self.used.iter().map(|used| used.load(Relaxed));
        used.enumerate()
            .filter(|(_, used)| used + kept <= now)
            .find(|place| self.take(*place, now))
            .map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use tokio::runtime::Handle;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_so_many_have_a_place_until_one_is_dropped() {
        let large_reads = LargeReads::new(2);
        let (mut one, mut two, mut three) =
            (large_reads.pass(), large_reads.pass(), large_reads.pass());
        for _ in 0..3 {
            assert!(one.admits() && two.admits() && !three.admits());
        }
        drop(two);
        assert!(three.admits() && one.admits());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_not_used_his_place_for_long_loses_it_to_others_only() {
        let large_reads = LargeReads::new(1);
        let (mut idle, mut busy) = (large_reads.pass(), large_reads.pass());
        assert!(idle.admits());
        tokio::time::advance(KEPT * 2).await;
        assert!(idle.admits(), "nobody else wanted it");
        tokio::time::advance(KEPT / 2).await;
        assert!(!busy.admits());
        tokio::time::advance(KEPT / 2).await;
        assert!(busy.admits());
        assert!(!idle.admits());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_lost_his_place_gives_back_nothing() {
        let large_reads = LargeReads::new(1);
        let (mut idle, mut busy) = (large_reads.pass(), large_reads.pass());
        assert!(idle.admits());
        tokio::time::advance(KEPT).await;
        assert!(busy.admits());
        drop(idle);
        assert!(!large_reads.pass().admits());
    }

    #[tokio::test(start_paused = true)]
    async fn who_uses_his_place_keeps_it() {
        let large_reads = LargeReads::new(1);
        let (mut busy, mut other) = (large_reads.pass(), large_reads.pass());
        for _ in 0..10 {
            assert!(busy.admits());
            tokio::time::advance(KEPT / 2).await;
            assert!(!other.admits());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn threads_do_not_share_a_place() {
        let (runtime, ready) = (Handle::current(), Barrier::new(4));
        for _ in 0..300 {
            let large_reads = LargeReads::new(2);
            let admitted = || {
                let _paused = runtime.enter();
                let mut pass = large_reads.pass();
                ready.wait();
                let admitted = pass.admits();
                // All of them hold what they have.
                ready.wait();
                admitted
            };
            let count = thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(admitted)).collect();
                let admitted = threads.into_iter().map(|thread| thread.join().unwrap());
                admitted.filter(|admitted| *admitted).count()
            });
            assert_eq!(count, 2);
        }
    }
}
