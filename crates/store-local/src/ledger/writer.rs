//! The writer thread and its group commit.
//!
//! One thread makes all changes. While a commit waits for the disk, further calls queue up. The
//! thread works in *rounds*: each round executes the calls that are queued by then. One transaction
//! carries all changes of a round, and one sync makes them durable together.
//!
//! ```text
//! callers --(bounded queue)--> wait for siblings             if the first call is a change
//!                              leases, with their replies
//!                              one transaction, or a few     [`super::committer`]
//!                                when space is short
//!                              replies to the changes
//!                              checkpoint if it is due       mostly on a thread of its own
//! ```
//!
//! A commit writes at least a page of every table and index that it touches, and syncs once,
//! whether it carries one change or ten. Where syncs are fast, the processor is the bottleneck. Few
//! calls arrive during a short commit, so rounds are small there, and small rounds waste processor
//! time. A round that begins with a change therefore first waits a moment for *siblings*: calls
//! that other callers are about to make ([`CommitDelay`]). PostgreSQL does the same with
//! `commit_delay` and `commit_siblings`. A caller that has been alone for some rounds does not
//! wait. Nor does a round that begins with a lease, which needs no commit.

use std::sync::atomic::{self, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use windlass_store::recorder::StoreRecorder;
use windlass_store::{LedgerError, SessionId};

use super::changes::{Change, Made};
use super::committer::{Committer, LeasedSession, Outcome};
use crate::sync_health::FailStop;

/// Maximum number of queued calls. Further callers wait for a slot.
const QUEUE_LEN: usize = 4096;

/// Maximum number of calls in one round. It bounds how long the first of them waits.
const ROUND_LEN: usize = 512;

/// Maximum number of leases in one round. Each reads a row, which may be 2 MB long, before the
/// changes are made.
const ROUND_LEASES: usize = 64;

/// Longest time that a round waits for siblings.
///
/// With 32 clients on two cores, a shorter delay gave smaller rounds and a longer one left the
/// processor idle.
const COMMIT_DELAY: Duration = Duration::from_micros(500);

/// The callers' handle of the writer thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` only during the drop.
    queue: Option<mpsc::Sender<Queued>>,
    slots: Arc<QueueSlots>,
    fail_stop: FailStop,
    commits: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// A queued call.
struct Queued {
    call: Call,
    /// Dropped by [`WriterThread::execute`] before the changes are made. Afterwards each occupied
    /// slot belongs to a call that waits for the next round. [`CommitDelay::record`] counts these
    /// slots.
    _slot: QueueSlot,
}

#[expect(clippy::large_enum_variant, reason = "nearly all calls are changes")]
enum Call {
    Lease(SessionId, Reply<Option<LeasedSession>>),
    Change(Change, Reply<Made>),
}

type Reply<T> = oneshot::Sender<Result<T, LedgerError>>;

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        committer: Committer,
        fail_stop: FailStop,
        recorder: Arc<dyn StoreRecorder>,
    ) -> std::io::Result<Self> {
        // Unbounded, and bounded by the slots instead: a full bounded channel would block the
        // caller's worker thread, while a semaphore suspends its task.
        let (queue, calls) = mpsc::channel();
        let slots = Arc::new(QueueSlots::new(QUEUE_LEN, Arc::clone(&recorder)));
        let commits = committer.commits();
        // An earlier process may have left a WAL.
        recorder.wal_measured(committer.wal_len());
        let thread = WriterThread {
            committer,
            recorder,
            commit_delay: CommitDelay::new(Arc::clone(&slots)),
        };
        // Not a task of tokio: a store is opened and dropped without a runtime, too.
        let thread = thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || thread.run(&calls))?;
        Ok(Self {
            queue: Some(queue),
            slots,
            fail_stop,
            commits,
            thread: Some(thread),
        })
    }

    /// Gives out a new lease of a session: raises its epoch and returns the session with the new
    /// epoch, or `None` if there is no such session. A session that is not open is returned
    /// unchanged.
    pub(super) async fn lease(&self, id: SessionId) -> Result<Option<LeasedSession>, LedgerError> {
        self.call(|reply| Call::Lease(id, reply)).await
    }

    /// Makes a change and returns when it is durable.
    pub(super) async fn change(&self, change: Change) -> Result<Made, LedgerError> {
        self.call(|reply| Call::Change(change, reply)).await
    }

    /// Returns the number of transactions committed since the start.
    pub(super) fn commits(&self) -> u64 {
        // A statistic. Nothing is ordered by it.
        self.commits.load(Ordering::Relaxed)
    }

    /// Returns the number of queued calls.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.slots.occupied()
    }

    async fn call<T>(&self, call: impl FnOnce(Reply<T>) -> Call) -> Result<T, LedgerError> {
        // After a fault the call is not queued. The writer would return the same fault, but a
        // running commit would delay it.
        self.fail_stop
            .fail_if_tripped()
            .map_err(LedgerError::Fault)?;
        let (reply, replied) = oneshot::channel();
        let queued = Queued {
            call: call(reply),
            _slot: self.slots.acquire().await,
        };
        let queue = self.queue.as_ref().expect("it is there until the drop");
        // If the thread has panicked, either the queue refuses the call here, or the reply is
        // dropped below.
        if queue.send(queued).is_err() {
            return Err(self.record_panic());
        }
        if let Some(thread) = &self.thread {
            self.slots.wake_if_enough(thread.thread());
        }
        replied.await.unwrap_or_else(|_| Err(self.record_panic()))
    }

    /// Records that the thread has panicked, and returns the fault.
    fn record_panic(&self) -> LedgerError {
        LedgerError::Fault(self.fail_stop.trip(WriterPanicked))
    }
}

/// Waits until the queue is empty and the last commit is done. Unless there was a fault, the WAL is
/// checkpointed and removed when the connection closes.
impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, its callers have received faults already.
            let _ = thread.join();
        }
    }
}

/// The writer thread has panicked.
#[derive(Debug, thiserror::Error)]
#[error("the ledger's writer thread has panicked")]
struct WriterPanicked;

/// The state of the writer thread.
struct WriterThread {
    committer: Committer,
    recorder: Arc<dyn StoreRecorder>,
    commit_delay: CommitDelay,
}

impl WriterThread {
    /// Runs until no more calls can arrive.
    fn run(mut self, calls: &mpsc::Receiver<Queued>) {
        while let Ok(first) = calls.recv() {
            // A lease costs no commit, so it gains nothing by waiting for siblings.
            if matches!(first.call, Call::Change(..)) {
                self.commit_delay.wait_for_siblings(ROUND_LEN);
            }
            let round = std::iter::once(first)
                .chain(calls.try_iter())
                .take(ROUND_LEN);
            self.execute(round);
        }
        self.committer.close();
    }

    /// Executes a round: gives out the leases and replies to each, then makes all changes together.
    fn execute(&mut self, round: impl Iterator<Item = Queued>) {
        let (mut changes, mut replies) = (Vec::new(), Vec::new());
        let mut leases = 0;
        // Each pass drops the slot of its call.
        for Queued { call, .. } in round {
            match call {
                // Before the transaction begins, so that a lease sees only committed rows. If the
                // caller's future was dropped, nobody uses the lease, which is harmless.
                Call::Lease(id, reply) => {
                    drop(reply.send(self.committer.lease(id)));
                    leases += 1;
                    if leases == ROUND_LEASES {
                        break;
                    }
                }
                Call::Change(change, reply) => {
                    changes.push(change);
                    replies.push(reply);
                }
            }
        }
        if changes.is_empty() {
            return;
        }
        self.make(&changes, replies);
        // After the replies, so that callers which have already queued their next call are counted.
        self.commit_delay.record(changes.len());
        // Also after the replies: no caller waits for a checkpoint.
        self.committer.checkpoint_if_due();
    }

    /// Makes the changes, and answers each caller with the outcome of its change.
    fn make(&mut self, changes: &[Change], replies: Vec<Reply<Made>>) {
        let begun = Instant::now();
        let outcomes = self.committer.make(changes);
        if let Ok(outcomes) = &outcomes {
            self.record(begun, outcomes);
        }
        // Sending fails if the caller's future was dropped. It can learn the outcome by a read.
        match outcomes {
            Ok(outcomes) => {
                for (outcome, reply) in outcomes.into_iter().zip(replies) {
                    drop(reply.send(outcome.map_err(LedgerError::from)));
                }
            }
            Err(cause) => {
                for reply in replies {
                    drop(reply.send(Err(LedgerError::Fault(Arc::clone(&cause)))));
                }
            }
        }
    }

    /// Records the metrics of a round's commit. The committer began to make its changes at `begun`.
    /// If space was short, several transactions count as one commit. If all changes were refused,
    /// there was no commit, and nothing is recorded.
    fn record(&self, begun: Instant, outcomes: &[Outcome]) {
        let made = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if made == 0 {
            return;
        }
        self.recorder.committed(begun.elapsed(), made);
        self.recorder.wal_measured(self.committer.wal_len());
    }
}

/// The slots of the queue. Their use tells how many calls are queued, and the writer is woken when
/// the number that it waits for is reached.
#[derive(Debug)]
struct QueueSlots {
    /// Number of slots, free or occupied.
    len: usize,
    /// One permit for each free slot.
    permits: Arc<Semaphore>,
    /// Number of queued calls at which a caller wakes the writer from its wait for siblings;
    /// `usize::MAX` while the writer does not wait.
    wanted: AtomicUsize,
    recorder: Arc<dyn StoreRecorder>,
}

/// An occupied slot of the queue. Dropping it frees the slot.
struct QueueSlot {
    _permit: OwnedSemaphorePermit,
    recorder: Arc<dyn StoreRecorder>,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.recorder.call_dequeued();
    }
}

impl QueueSlots {
    fn new(len: usize, recorder: Arc<dyn StoreRecorder>) -> Self {
        Self {
            recorder,
            len,
            permits: Arc::new(Semaphore::new(len)),
            wanted: AtomicUsize::new(usize::MAX),
        }
    }

    /// Waits for a free slot and occupies it.
    async fn acquire(&self) -> QueueSlot {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        self.recorder.call_queued();
        QueueSlot {
            _permit: permit.expect("the semaphore is never closed"),
            recorder: Arc::clone(&self.recorder),
        }
    }

    /// Returns the number of occupied slots, which is the number of queued calls.
    fn occupied(&self) -> usize {
        self.len - self.permits.available_permits()
    }

    /// Sets the number of queued calls that the writer waits for.
    fn set_wanted(&self, wanted: usize) {
        self.wanted.store(wanted, Ordering::Relaxed);
        // See `wake_if_enough`.
        atomic::fence(Ordering::SeqCst);
    }

    /// Wakes the writer if the number of queued calls that it waits for is reached. Called after a
    /// call has been queued.
    fn wake_if_enough(&self, writer: &thread::Thread) {
        // The caller has occupied a slot and now reads `wanted`. The writer sets `wanted` and then
        // counts the slots. With a fence between the two steps on either side, at least one side
        // sees the write of the opposite side, so no wake-up is missed.
        atomic::fence(Ordering::SeqCst);
        if self.occupied() >= self.wanted.load(Ordering::Relaxed) {
            writer.unpark();
        }
    }
}

/// The writer's wait for siblings at the beginning of a round.
#[derive(Debug)]
struct CommitDelay {
    slots: Arc<QueueSlots>,
    /// Estimate of the number of concurrent callers: the changes of a round and the calls that are
    /// queued at its end. A caller with a next call in the queue by then counts twice. The estimate
    /// rises at once and falls slowly: see [`CommitDelay::record`].
    recent_callers: usize,
}

impl CommitDelay {
    fn new(slots: Arc<QueueSlots>) -> Self {
        Self {
            slots,
            recent_callers: 0,
        }
    }

    /// Waits for siblings at the beginning of a round, which has room for `max` calls. The first
    /// call of the round still occupies its slot.
    fn wait_for_siblings(&self, max: usize) {
        self.wait_for_siblings_within(COMMIT_DELAY, max);
    }

    fn wait_for_siblings_within(&self, timeout: Duration, max: usize) {
        let wanted = self.wanted_calls(max);
        let started = Instant::now();
        // Before the slots are counted: see `wake_if_enough`.
        self.slots.set_wanted(wanted);
        // In a loop, because an `unpark` from before the wait ends the first park early.
        while self.slots.occupied() < wanted {
            let Some(rest) = timeout.checked_sub(started.elapsed()) else {
                break;
            };
            thread::park_timeout(rest);
        }
        // From here on no caller spends a system call on waking the writer, which is awake.
        self.slots.set_wanted(usize::MAX);
    }

    /// Returns the number of queued calls at which the wait ends, at most `max`. The first call of
    /// the round counts.
    fn wanted_calls(&self, max: usize) -> usize {
        // Three quarters: waiting for all of them would mostly run into the timeout. With one or
        // two recent callers the result is at most one, which is the first call itself. So a caller
        // that is alone does not wait.
        max.min(self.recent_callers * 3 / 4)
    }

    /// Records that a round has made `changes`. Calls that are queued by now count as well. Some
    /// may be the next calls of the same callers, so the sum may be too high. The wait then ends
    /// with its timeout, and the next rounds correct the number.
    fn record(&mut self, changes: usize) {
        // The number rises at once, and falls by an eighth with each round. So the writer soon
        // stops waiting for callers that make no more calls.
        let decayed = self.recent_callers - self.recent_callers.div_ceil(8);
        self.recent_callers = decayed.max(changes + self.slots.occupied());
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::recorder::NoRecorder;

    use super::*;

    /// Longer than a test waits for a thread.
    const FOREVER: Duration = Duration::from_secs(3600);

    /// How long a test waits for a thread. It takes that long only when it fails.
    const TIMEOUT: Duration = Duration::from_secs(60);

    async fn with(occupied: usize, recent_callers: usize) -> (CommitDelay, Vec<QueueSlot>) {
        let slots = Arc::new(QueueSlots::new(100, Arc::new(NoRecorder)));
        let mut held = Vec::new();
        for _ in 0..occupied {
            held.push(slots.acquire().await);
        }
        let commit_delay = CommitDelay {
            slots,
            recent_callers,
        };
        (commit_delay, held)
    }

    #[tokio::test]
    async fn a_single_caller_does_not_wait() {
        for recent_callers in [0, 1, 2] {
            let (commit_delay, _held) = with(1, recent_callers).await;
            assert!(commit_delay.wanted_calls(100) <= 1, "{recent_callers}");
        }
    }

    #[tokio::test]
    async fn three_quarters_of_the_recent_callers_end_the_wait() {
        let (commit_delay, held) = with(5, 8).await;
        let slots = Arc::clone(&commit_delay.slots);
        let (sender, ended) = mpsc::channel();
        let writer = thread::spawn(move || {
            commit_delay.wait_for_siblings_within(FOREVER, 100);
            sender.send(())
        });
        let sixth = slots.acquire().await;
        slots.wake_if_enough(writer.thread());
        ended.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(slots.occupied(), 6);
        drop((held, sixth));
    }

    #[derive(Debug, Default)]
    struct Queue(AtomicUsize);

    impl StoreRecorder for Queue {
        fn call_queued(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn call_dequeued(&self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn slots_are_recorded_as_queued_calls_until_dropped() {
        let queue = Arc::new(Queue::default());
        let slots = QueueSlots::new(100, Arc::clone(&queue) as Arc<_>);
        let held = [slots.acquire().await, slots.acquire().await];
        assert_eq!(queue.0.load(Ordering::Relaxed), 2);
        drop(held);
        assert_eq!(queue.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_full_round_does_not_wait() {
        let (commit_delay, _held) = with(5, 100).await;
        assert_eq!(commit_delay.wanted_calls(5), 5);
    }

    #[tokio::test]
    async fn the_wait_for_absent_siblings_ends_with_its_timeout() {
        let (commit_delay, _held) = with(1, 100).await;
        let (timeout, started) = (Duration::from_millis(20), Instant::now());
        commit_delay.wait_for_siblings_within(timeout, 100);
        // It never ends early: the siblings stay away.
        assert!(started.elapsed() >= timeout);
        let wanted = commit_delay.slots.wanted.load(Ordering::Relaxed);
        assert_eq!(wanted, usize::MAX, "no caller wakes a writer that is awake");
    }

    #[tokio::test]
    async fn callers_that_are_gone_are_forgotten() {
        let (mut commit_delay, held) = with(20, 0).await;
        commit_delay.record(12);
        assert_eq!(commit_delay.recent_callers, 32);
        drop(held);
        for _ in 0..32 {
            commit_delay.record(1);
        }
        assert_eq!(commit_delay.recent_callers, 1);
    }
}
