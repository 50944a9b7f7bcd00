//! How long a commit waits for other callers.
//!
//! A commit writes a page or more of every table and index that it touches, and syncs once, for one
//! change as for ten. Where syncs are quick the processor is the limit, and small batches waste it: a
//! batch is what came during the last commit, which did not take long. So the writer waits for a moment,
//! until most of those are there who were waiting together before. Who is alone does not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest time that a commit waits for other callers. On two cores, with 32 clients, less waiting gave smaller
/// batches, and more left the processor idle.
const PATIENCE: Duration = Duration::from_micros(500);

/// The queue's places: how many calls wait, and how many the writer wants to see there.
#[derive(Debug)]
pub(super) struct QueueSlots {
    len: usize,
    free: Arc<Semaphore>,
    wanted: AtomicUsize,
}

impl QueueSlots {
    pub(super) fn new(len: usize) -> Self {
        Self {
            len,
            free: Arc::new(Semaphore::new(len)),
            wanted: AtomicUsize::new(usize::MAX),
        }
    }

    /// A place in the queue, until it is dropped.
    pub(super) async fn take(&self) -> OwnedSemaphorePermit {
        let place = Arc::clone(&self.free).acquire_owned().await;
        place.expect("the semaphore is never closed")
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        self.len - self.free.available_permits()
    }

    /// Wakes the writer if it waits for no more calls than there are; to be called when one has been
    /// put into the queue.
    pub(super) fn tell(&self, writer: &Thread) {
        if self.taken() >= self.wanted.load(Ordering::SeqCst) {
            writer.unpark();
        }
    }
}

/// The writer's side: waits for other callers, as long as some are to be expected.
#[derive(Debug)]
pub(super) struct CommitDelay {
    places: Arc<QueueSlots>,
    /// How many callers were lately waiting at the same time.
    lately: usize,
}

impl CommitDelay {
    pub(super) fn new(places: Arc<QueueSlots>) -> Self {
        Self { places, lately: 0 }
    }

    /// Waits for other callers before a commit, which carries so many calls at most.
    pub(super) fn wait_for_siblings(&self, most: usize) {
        self.wait_for_siblings_within(PATIENCE, most);
    }

    fn wait_for_siblings_within(&self, patience: Duration, most: usize) {
        let enough = self.enough(most);
        let begun = Instant::now();
        self.places.wanted.store(enough, Ordering::SeqCst);
        while self.places.taken() < enough {
            let Some(rest) = patience.checked_sub(begun.elapsed()) else {
                break;
            };
            thread::park_timeout(rest);
        }
        self.places.wanted.store(usize::MAX, Ordering::SeqCst);
    }

    /// How many calls a commit waits for. It carries no more than `most`.
    fn enough(&self, most: usize) -> usize {
        most.min(self.lately * 3 / 4)
    }

    /// Notes that a commit carried so many calls. Anyone who has come meanwhile was waiting with them.
    pub(super) fn note(&mut self, carried: usize) {
        let fewer = self.lately - self.lately.div_ceil(8);
        self.lately = fewer.max(carried + self.places.taken());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Longer than a test waits for a thread.
    const FOR_EVER: Duration = Duration::from_secs(3600);

    /// How long a test waits for a thread. It takes that long only when it fails.
    const LONG: Duration = Duration::from_secs(60);

    async fn with(taken: usize, lately: usize) -> (CommitDelay, Vec<OwnedSemaphorePermit>) {
        let places = Arc::new(QueueSlots::new(100));
        let mut held = Vec::new();
        for _ in 0..taken {
            held.push(places.take().await);
        }
        (CommitDelay { places, lately }, held)
    }

    #[tokio::test]
    async fn who_is_alone_does_not_wait() {
        for lately in [0, 1, 2] {
            let (group_commit, _held) = with(1, lately).await;
            assert!(group_commit.enough(100) <= 1, "{lately}");
        }
    }

    #[tokio::test]
    async fn most_of_the_company_is_enough() {
        let (group_commit, held) = with(5, 8).await;
        let places = Arc::clone(&group_commit.places);
        let (tell, gathered) = mpsc::channel();
        let writer = thread::spawn(move || {
            group_commit.wait_for_siblings_within(FOR_EVER, 100);
            tell.send(())
        });
        let sixth = places.take().await;
        places.tell(writer.thread());
        gathered.recv_timeout(LONG).unwrap();
        assert_eq!(places.taken(), 6);
        drop((held, sixth));
    }

    #[tokio::test]
    async fn a_full_batch_does_not_wait() {
        let (group_commit, _held) = with(5, 100).await;
        assert_eq!(group_commit.enough(5), 5);
    }

    #[tokio::test]
    async fn company_that_does_not_come_is_not_waited_for() {
        let (group_commit, _held) = with(1, 100).await;
        group_commit.wait_for_siblings_within(Duration::from_millis(1), 100);
    }

    #[tokio::test]
    async fn company_that_has_gone_is_forgotten() {
        let (mut group_commit, held) = with(20, 0).await;
        group_commit.note(12);
        assert_eq!(group_commit.lately, 32);
        drop(held);
        for _ in 0..32 {
            group_commit.note(1);
        }
        assert_eq!(group_commit.lately, 1);
    }
}
