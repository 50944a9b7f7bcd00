//! Collects the commits that wait at the same time, and makes them together.
//!
//! A transaction costs the database a write to its disk, whether it commits one session or many.
//! While the committers wait for theirs, further commits queue up for the next transaction.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use windlass_store::{LedgerError, Retention};

use super::commits::{Batch, Commit};
use crate::connection::Home;
use crate::failure::Failure;
use crate::transaction::Database;

/// Number of transactions that are made at the same time.
const COMMITTERS: usize = 3;

/// Maximum number of commits in a transaction.
const MAX_BATCH: usize = 64;

/// Maximum number of commits that wait. Further callers wait for a place.
const MAX_QUEUED: usize = 1024;

/// The queue of commits.
#[derive(Debug)]
pub(super) struct Committer {
    queue: mpsc::Sender<Queued>,
    database: Arc<Database>,
}

#[derive(Debug)]
struct Queued {
    commit: Commit,
    reply: oneshot::Sender<Result<(), LedgerError>>,
}

impl Committer {
    /// Starts the committers in `tasks`.
    pub(super) fn start(
        database: &Arc<Database>,
        home: Home,
        retention: Retention,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_QUEUED);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..COMMITTERS {
            let (database, waiting) = (Arc::clone(database), Arc::clone(&waiting));
            tasks.spawn(async move {
                let mut rest = VecDeque::new();
                while collect(&waiting, &mut rest).await {
                    let batch = next_batch(&mut rest);
                    make(&database, home, retention, batch).await;
                }
            });
        }
        Self {
            queue,
            database: Arc::clone(database),
        }
    }

    /// Makes a commit with others.
    pub(super) async fn commit(&self, commit: Commit) -> Result<(), LedgerError> {
        let (reply, made) = oneshot::channel();
        self.database.recorder.call_queued();
        let queued = self.queue.send(Queued { commit, reply }).await;
        let made = match queued {
            Ok(()) => made.await.map_err(|_| Stopped),
            Err(_) => Err(Stopped),
        };
        self.database.recorder.call_dequeued();
        made.unwrap_or_else(|stopped| Err(LedgerError::Unknown(Arc::new(stopped))))
    }
}

/// The ledger was dropped while a commit waited.
#[derive(Debug, thiserror::Error)]
#[error("the ledger was closed")]
struct Stopped;

/// Takes commits from the queue, and waits if there are none. Returns whether there are any.
async fn collect(waiting: &Mutex<mpsc::Receiver<Queued>>, rest: &mut VecDeque<Queued>) -> bool {
    if rest.is_empty() {
        let mut taken = Vec::new();
        waiting.lock().await.recv_many(&mut taken, MAX_BATCH).await;
        rest.extend(taken);
    }
    !rest.is_empty()
}

/// Takes the first commit of each session.
fn next_batch(rest: &mut VecDeque<Queued>) -> Vec<Queued> {
    let mut sessions = HashSet::new();
    let (first, later): (Vec<_>, Vec<_>) = std::mem::take(rest)
        .into_iter()
        .partition(|queued| sessions.insert(queued.commit.id));
    *rest = later.into();
    first
}

/// Makes the commits of a batch. If a commit makes the whole batch fail, and nothing has changed,
/// each is made by itself.
async fn make(database: &Database, home: Home, retention: Retention, batch: Vec<Queued>) {
    let (commits, mut replies): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|queued| (queued.commit, queued.reply))
        .unzip();
    let all: Vec<_> = commits.iter().collect();
    match make_together(database, home, retention, &all).await {
        Ok(made) => answer(replies, made),
        Err(failure) if all.len() == 1 || !is_of_one(&failure) => {
            let failed = replies.len();
            answer(replies, vec![Err(failure); failed]);
        }
        Err(_) => {
            for (commit, reply) in all.iter().zip(replies.drain(..)) {
                let made = make_together(database, home, retention, &[commit]).await;
                let made = made.unwrap_or_else(|failure| vec![Err(failure)]);
                answer(vec![reply], made);
            }
        }
    }
}

async fn make_together(
    database: &Database,
    home: Home,
    retention: Retention,
    commits: &[&Commit],
) -> Result<Vec<Result<(), Failure>>, Failure> {
    let batch = Batch {
        commits,
        home,
        retention,
    };
    let made = database.try_to_make(&batch).await?;
    let made = made.into_iter().map(|made| made.map_err(Failure::from));
    Ok(made.collect())
}

/// Whether a failure of a batch may be that of one commit alone. The others are made then.
fn is_of_one(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(_) | Failure::Unavailable(_) | Failure::Unreadable | Failure::Fault(_) => {
            true
        }
        Failure::Again(_) | Failure::Unknown(_) | Failure::NoSpace => false,
    }
}

fn answer(replies: Vec<oneshot::Sender<Result<(), LedgerError>>>, made: Vec<Result<(), Failure>>) {
    for (reply, made) in replies.into_iter().zip(made) {
        // A caller that has gone does not want to know it.
        let _ = reply.send(made.map_err(LedgerError::from));
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{
        Epoch, ExtentChanges, OffsetCommit, Progress, Quota, SessionId, SessionState,
    };

    use super::*;
    use crate::rows;

    fn queued(session: u8, from: u64) -> Queued {
        let commit = OffsetCommit {
            from,
            progress: Progress::none(None),
            small_media: None,
            extents: ExtentChanges::default(),
            state: SessionState::Active,
            expires: None,
            releases: true,
        };
        Queued {
            commit: Commit {
                id: SessionId::from_bytes([session; 32]),
                lease: rows::new_lease(Epoch(0)),
                offset: commit,
                quota: Quota::default(),
            },
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn batch_has_one_commit_of_each_session_in_order() {
        let mut rest = VecDeque::from([queued(1, 0), queued(2, 0), queued(1, 10), queued(1, 20)]);
        let mut taken = Vec::new();
        while !rest.is_empty() {
            let batch = next_batch(&mut rest);
            let batch = batch
                .iter()
                .map(|it| (it.commit.id.as_bytes()[0], it.commit.offset.from));
            taken.push(batch.collect::<Vec<_>>());
        }
        assert_eq!(taken, [vec![(1, 0), (2, 0)], vec![(1, 10)], vec![(1, 20)]]);
    }
}
