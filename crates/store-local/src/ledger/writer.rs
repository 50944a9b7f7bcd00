//! The one thread that writes, and its group commit.
//!
//! While a commit waits for the disk, changes queue up; the next transaction takes them all, and all
//! are answered after the one commit. With one change at a time every change costs a sync; with 64
//! clients a sync carries dozens. Where syncs are quick a commit waits a little for more callers
//! ([`CommitDelay`]).
//!
//! ```text
//! callers --(bounded queue)--> more callers, waited for
//!                              leases, answered at once
//!                              one transaction               ([`super::committer`])
//!                              answers
//!                              checkpoint, when it is due    beside the next commits
//! ```
//!
//! Leases go first and outside of the transaction: so they see nothing that is not committed, and
//! cost no commit ([`super::changes::Leases`]).
//!
//! How long a commit waits for other callers.
//!
//! A commit writes a page or more of every table and index that it touches, and syncs once, for one
//! change as for ten. Where syncs are quick the processor is the limit, and small batches waste it: a
//! batch is what came during the last commit, which did not take long. So the writer waits for a moment,
//! until most of those are there who were waiting together before. Who is alone does not wait.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use windlass_store::{LedgerError, Session, SessionId};

use super::changes::Change;
use super::committer::Committer;
use crate::sync_health::FailStop;

/// Most calls that wait for the writer. Further ones wait for room.
const QUEUE_LEN: usize = 4096;

/// Most calls that one commit carries. It bounds how long the first of them waits.
const BATCH_LEN: usize = 512;

/// The callers' side: hands calls to the thread, and ends it when dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Queued>>,
    places: Arc<QueueSlots>,
    fail_stop: FailStop,
    commits: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// A call in the queue, with its place in it.
struct Queued {
    call: Call,
    _place: OwnedSemaphorePermit,
}

#[expect(clippy::large_enum_variant, reason = "nearly all calls are changes")]
enum Call {
    Lease(SessionId, Answer<Option<Session>>),
    Change(Change, Answer<usize>),
}

type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

impl Writer {
    /// Starts the thread.
    pub(super) fn start(committer: Committer, fail_stop: FailStop) -> std::io::Result<Self> {
        let (queue, calls) = mpsc::channel();
        let places = Arc::new(QueueSlots::new(QUEUE_LEN));
        let commits = committer.commits();
        let thread = WriterThread {
            committer,
            group_commit: CommitDelay::new(Arc::clone(&places)),
        };
        let thread = thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || thread.run(&calls))?;
        Ok(Self {
            queue: Some(queue),
            places,
            fail_stop,
            commits,
            thread: Some(thread),
        })
    }

    /// Raises a session's epoch.
    pub(super) async fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.call(|answer| Call::Lease(id, answer)).await
    }

    /// Makes a change. Resolves when it is durable.
    pub(super) async fn change(&self, change: Change) -> Result<usize, LedgerError> {
        self.call(|answer| Call::Change(change, answer)).await
    }

    /// How many transactions were committed since the start.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// How many calls wait in the queue.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.places.taken()
    }

    async fn call<T>(&self, call: impl FnOnce(Answer<T>) -> Call) -> Result<T, LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)?;
        let (answer, answered) = oneshot::channel();
        let queued = Queued {
            call: call(answer),
            _place: self.places.take().await,
        };
        let queue = self.queue.as_ref().expect("it is there until the drop");
        // Without a thread there is no answer; both errors say so.
        if queue.send(queued).is_err() {
            return Err(self.stopped());
        }
        if let Some(thread) = &self.thread {
            self.places.tell(thread.thread());
        }
        answered.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// The thread is gone: it panicked.
    fn stopped(&self) -> LedgerError {
        LedgerError::Fault(self.fail_stop.trip(WriterStopped))
    }
}

/// Waits until the queue is empty and the last commit is done. The WAL is checkpointed and removed
/// when the connection closes.
impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been answered with faults already.
            let _ = thread.join();
        }
    }
}

/// The writer's thread ended before its time.
#[derive(Debug, thiserror::Error)]
#[error("the ledger's writer has stopped")]
struct WriterStopped;

/// The thread's side.
struct WriterThread {
    committer: Committer,
    group_commit: CommitDelay,
}

impl WriterThread {
    /// Until no more calls can come.
    fn run(mut self, calls: &mpsc::Receiver<Queued>) {
        while let Ok(first) = calls.recv() {
            if matches!(first.call, Call::Change(..)) {
                self.group_commit.wait_for_siblings(BATCH_LEN);
            }
            let batch = std::iter::once(first)
                .chain(calls.try_iter())
                .take(BATCH_LEN);
            self.carry_out(batch);
        }
        self.committer.close();
    }

    /// Leases at once, changes in one transaction.
    fn carry_out(&mut self, calls: impl Iterator<Item = Queued>) {
        let (mut changes, mut answers) = (Vec::new(), Vec::new());
        for Queued { call, .. } in calls {
            match call {
                Call::Lease(id, answer) => drop(answer.send(self.committer.lease(id))),
                Call::Change(change, answer) => {
                    changes.push(change);
                    answers.push(answer);
                }
            }
        }
        if changes.is_empty() {
            return;
        }
        self.commit(&changes, answers);
        // Those who have come meanwhile are counted, too.
        self.group_commit.note(changes.len());
        self.committer.upkeep();
    }

    /// Makes the changes in one transaction, then answers them all.
    fn commit(&mut self, changes: &[Change], answers: Vec<Answer<usize>>) {
        let outcomes = self.committer.commit(changes);
        for (index, answer) in answers.into_iter().enumerate() {
            let outcome = match &outcomes {
                Ok(outcomes) => match &outcomes[index] {
                    Ok(forgotten) => Ok(forgotten.len()),
                    Err(refusal) => Err(LedgerError::from(*refusal)),
                },
                Err(LedgerError::Fault(cause)) => Err(LedgerError::Fault(Arc::clone(cause))),
                Err(_) => Err(LedgerError::NoSpace),
            };
            // A caller that has gone away is told by the next read.
            let _ = answer.send(outcome);
        }
    }
}

/// Longest time that a commit waits for other callers. On two cores, with 32 clients, less waiting gave smaller
/// batches, and more left the processor idle.
const PATIENCE: Duration = Duration::from_micros(500);

/// The queue's places: how many calls wait, and how many the writer wants to see there.
#[derive(Debug)]
struct QueueSlots {
    len: usize,
    free: Arc<Semaphore>,
    wanted: AtomicUsize,
}

impl QueueSlots {
    fn new(len: usize) -> Self {
        Self {
            len,
            free: Arc::new(Semaphore::new(len)),
            wanted: AtomicUsize::new(usize::MAX),
        }
    }

    /// A place in the queue, until it is dropped.
    async fn take(&self) -> OwnedSemaphorePermit {
        let place = Arc::clone(&self.free).acquire_owned().await;
        place.expect("the semaphore is never closed")
    }

    /// How many places are taken.
    fn taken(&self) -> usize {
        self.len - self.free.available_permits()
    }

    /// Wakes the writer if it waits for no more calls than there are; to be called when one has been
    /// put into the queue.
    fn tell(&self, writer: &thread::Thread) {
        if self.taken() >= self.wanted.load(Ordering::SeqCst) {
            writer.unpark();
        }
    }
}

/// The writer's side: waits for other callers, as long as some are to be expected.
#[derive(Debug)]
struct CommitDelay {
    places: Arc<QueueSlots>,
    /// How many callers were lately waiting at the same time.
    lately: usize,
}

impl CommitDelay {
    fn new(places: Arc<QueueSlots>) -> Self {
        Self { places, lately: 0 }
    }

    /// Waits for other callers before a commit, which carries so many calls at most.
    fn wait_for_siblings(&self, most: usize) {
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
    fn note(&mut self, carried: usize) {
        let fewer = self.lately - self.lately.div_ceil(8);
        self.lately = fewer.max(carried + self.places.taken());
    }
}

#[cfg(test)]
mod tests {
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
