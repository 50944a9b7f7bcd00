//! The one thread that writes, and its group commit.
//!
//! While a commit waits for the disk, changes queue up; the next transaction takes them all, and all
//! are answered after the one commit. With one change at a time every change costs a sync; with 64
//! clients a sync carries dozens. Where syncs are quick a commit waits a little for more callers
//! ([`super::group_commit`]).
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
//! cost no commit ([`super::leases`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use windlass_store::{LedgerError, Session, SessionId};

use super::change::Change;
use super::committer::Committer;
use super::group_commit::{CommitDelay, QueueSlots};
use crate::fail_stop::FailStop;

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
        let thread = Thread {
            committer,
            group_commit: CommitDelay::new(Arc::clone(&places)),
        };
        let thread = std::thread::Builder::new()
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
struct Thread {
    committer: Committer,
    group_commit: CommitDelay,
}

impl Thread {
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
