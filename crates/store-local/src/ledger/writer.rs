//! The thread that writes, and its group commit.
//!
//! While a commit waits for the disk, changes queue up; the next transaction takes them all, and all
//! are answered after the one commit. With one change at a time every change costs a sync; with 64
//! clients a sync carries dozens. Where syncs are quick a commit waits a little for company
//! ([`super::company`]).
//!
//! ```text
//! callers --(bounded queue)--> company, waited for
//!                              leases, answered at once
//!                              one transaction               ([`super::committer`])
//!                              answers
//!                              checkpoint, when it is due    beside the next commits
//! ```
//!
//! Leases go first and outside of the transaction: so they see nothing that is not committed, and
//! cost no commit ([`super::leases`]).
//!
//! A caller who has a thread to wait on, and is alone, commits there: to wake the writer's thread and to be
//! woken by it takes as long as half a sync, where syncs are quick. Who finds the connection taken, or
//! others in the queue, queues up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use windlass_store::{LedgerError, Session, SessionId};

use super::change::Change;
use super::committer::Committer;
use super::company::{Company, Places};
use crate::poison::Poison;

/// Most calls that wait for the writer. Further ones wait for room.
const QUEUE_LEN: usize = 4096;

/// Most calls that one commit carries. It bounds how long the first of them waits.
const BATCH_LEN: usize = 512;

/// The callers' side: hands calls to the thread, and ends it when dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Queued>>,
    places: Arc<Places>,
    poison: Poison,
    commits: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    /// None only in the drop.
    desk: Option<Arc<Mutex<Desk>>>,
}

/// What whoever commits has to himself.
#[derive(Debug)]
struct Desk {
    committer: Committer,
    company: Company,
}

/// A call in the queue, with its place in it if somebody waits for it.
struct Queued {
    call: Call,
    _place: Option<OwnedSemaphorePermit>,
}

enum Call {
    Lease(SessionId, Answer<Option<Session>>),
    Change(Change, Answer<usize>),
    /// What is due after a commit that was made elsewhere.
    Upkeep,
}

type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

impl Writer {
    /// Starts the thread.
    pub(super) fn start(committer: Committer, poison: Poison) -> std::io::Result<Self> {
        let (queue, calls) = mpsc::channel();
        let places = Arc::new(Places::new(QUEUE_LEN));
        let commits = committer.commits();
        let desk = Arc::new(Mutex::new(Desk {
            committer,
            company: Company::new(Arc::clone(&places)),
        }));
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn({
                let desk = Arc::clone(&desk);
                move || run(&desk, &calls)
            })?;
        Ok(Self {
            queue: Some(queue),
            places,
            poison,
            commits,
            thread: Some(thread),
            desk: Some(desk),
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

    /// As [`Writer::change`], on the calling thread, which waits for the disk; `None` when somebody else commits, or
    /// waits for it, or is likely to come along, and when there is more to be waited for than the commit.
    pub(super) fn change_now(&self, change: Change) -> Option<Result<usize, LedgerError>> {
        if self.places.taken() > 0 {
            return None;
        }
        let mut desk = match self.desk().try_lock() {
            Ok(desk) => desk,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(_)) => return Some(Err(self.stopped())),
        };
        if !desk.company.is_alone() || desk.committer.needs_upkeep() {
            return None;
        }
        let outcome = desk.commit(&[change]).pop();
        desk.company.note(1);
        let is_due = desk.committer.wants_upkeep();
        drop(desk);
        if is_due {
            // Without the thread the next call fails.
            let _ = self.queue().send(Queued {
                call: Call::Upkeep,
                _place: None,
            });
        }
        Some(outcome.expect("there is one for each change"))
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
        self.poison.check().map_err(LedgerError::Fault)?;
        let (answer, answered) = oneshot::channel();
        let queued = Queued {
            call: call(answer),
            _place: Some(self.places.take().await),
        };
        // Without a thread there is no answer; both errors say so.
        if self.queue().send(queued).is_err() {
            return Err(self.stopped());
        }
        if let Some(thread) = &self.thread {
            self.places.tell(thread.thread());
        }
        answered.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    fn queue(&self) -> &mpsc::Sender<Queued> {
        self.queue.as_ref().expect("it is there until the drop")
    }

    fn desk(&self) -> &Mutex<Desk> {
        self.desk.as_ref().expect("it is there until the drop")
    }

    /// The thread is gone, or a commit has panicked.
    fn stopped(&self) -> LedgerError {
        LedgerError::Fault(self.poison.strike(WriterStopped))
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
        let desk = self.desk.take().and_then(Arc::into_inner);
        let desk = desk.expect("only the thread had it, too");
        let desk = desk.into_inner().unwrap_or_else(|panicked| {
            self.stopped();
            panicked.into_inner()
        });
        desk.committer.close();
    }
}

/// The writer's thread ended before its time.
#[derive(Debug, thiserror::Error)]
#[error("the ledger's writer has stopped")]
struct WriterStopped;

/// What the thread does, until no more calls can come or a commit has panicked.
fn run(desk: &Mutex<Desk>, calls: &mpsc::Receiver<Queued>) {
    while let Ok(first) = calls.recv() {
        let Ok(mut desk) = desk.lock() else {
            return;
        };
        if matches!(first.call, Call::Change(..)) {
            desk.company.gather(BATCH_LEN);
        }
        let batch = std::iter::once(first)
            .chain(calls.try_iter())
            .take(BATCH_LEN);
        if desk.carry_out(batch) {
            desk.committer.upkeep();
        }
    }
}

impl Desk {
    /// Leases at once, changes in one transaction. Whether upkeep is due then.
    fn carry_out(&mut self, calls: impl Iterator<Item = Queued>) -> bool {
        let (mut changes, mut answers) = (Vec::new(), Vec::new());
        let mut is_due = false;
        for Queued { call, .. } in calls {
            match call {
                Call::Lease(id, answer) => drop(answer.send(self.committer.lease(id))),
                Call::Change(change, answer) => {
                    changes.push(change);
                    answers.push(answer);
                }
                Call::Upkeep => is_due = true,
            }
        }
        if changes.is_empty() {
            return is_due;
        }
        for (outcome, answer) in self.commit(&changes).into_iter().zip(answers) {
            // A caller that has gone away is told by the next read.
            let _ = answer.send(outcome);
        }
        // Those who have come meanwhile are counted, too.
        self.company.note(changes.len());
        true
    }

    /// Makes the changes in one transaction. What each of their callers is told.
    fn commit(&mut self, changes: &[Change]) -> Vec<Result<usize, LedgerError>> {
        match self.committer.commit(changes) {
            Ok(outcomes) => outcomes
                .into_iter()
                .map(|outcome| Ok(outcome?.len()))
                .collect(),
            Err(LedgerError::Fault(cause)) => changes
                .iter()
                .map(|_| Err(LedgerError::Fault(Arc::clone(&cause))))
                .collect(),
            Err(_) => changes.iter().map(|_| Err(LedgerError::NoSpace)).collect(),
        }
    }
}
