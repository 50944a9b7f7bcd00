//! The commits of a request that appends.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass_store::{
    Epoch, Failpoint, LedgerError, OffsetCommit, Progress, Session, SessionId, SessionState,
    Timestamp,
};

use super::ServerState;
use super::sink::{Checkpoint, FlushedMedia};
use crate::error::Error;

/// The commits of one request. At most one is on its way.
pub(super) struct OffsetCommitter {
    server: Arc<ServerState>,
    /// As it was leased, but for when it dies.
    pub(super) session: Session,
    committed: u64,
    /// The total in the ledger, and the one that this request adds.
    known_total: Option<u64>,
    total: Option<u64>,
    last: Instant,
    /// Up to where commits are begun.
    pub(super) scheduled: u64,
    pub(super) running: Option<JoinHandle<Result<Committed, Error>>>,
}

/// What a commit has put into the session's row.
pub(super) struct Committed {
    offset: u64,
    total: Option<u64>,
    /// When the session dies from then on, if that has moved.
    expires: Option<Timestamp>,
}

impl OffsetCommitter {
    pub(super) fn new(server: &Arc<ServerState>, session: Session, total: Option<u64>) -> Self {
        let committed = session.progress.offset;
        Self {
            server: Arc::clone(server),
            committed,
            known_total: session.progress.total,
            session,
            total,
            last: Instant::now(),
            scheduled: committed,
            running: None,
        }
    }

    /// Whether it is time to make durable what was taken up to `offset`.
    pub(super) fn due(&mut self, offset: u64) -> bool {
        let checkpoints = &self.server.settings.checkpoints;
        let due = offset - self.scheduled >= checkpoints.bytes
            || self.last.elapsed() >= checkpoints.interval;
        if due {
            self.note_checkpoint(offset);
        }
        due
    }

    /// Notes that a checkpoint of everything up to `offset` is on its way.
    pub(super) fn note_checkpoint(&mut self, offset: u64) {
        self.scheduled = offset;
        self.last = Instant::now();
    }

    /// Whether the session's row names no media: nothing was ever committed.
    pub(super) fn is_uncommitted(&self) -> bool {
        self.committed == 0
    }

    /// When the next checkpoint is due if few bytes come.
    pub(super) fn next(&self) -> Instant {
        self.last + self.server.settings.checkpoints.interval
    }

    /// Syncs and commits a checkpoint beside whatever goes on.
    pub(super) async fn spawn_commit(&mut self, checkpoint: Checkpoint) -> Result<(), Error> {
        self.join().await?;
        let (next, total) = (self.next_commit(), self.total);
        self.running = Some(tokio::spawn(async move {
            let mut progress = checkpoint.sync().await?;
            progress.total = total;
            let committed = next.make(progress, None, SessionState::Active).await?;
            Failpoint::CheckpointCommitted.reach();
            Ok(committed)
        }));
        Ok(())
    }

    /// Waits for the commit on its way. Cancel safe.
    pub(super) async fn join(&mut self) -> Result<(), Error> {
        if let Some(running) = &mut self.running {
            let committed = running.await;
            self.running = None;
            let committed = committed
                .unwrap_or_else(|panic| Err(LedgerError::Fault(Arc::new(panic)).into()))?;
            self.note(&committed);
        }
        Ok(())
    }

    /// Commits what is settled, unless there is nothing new in it.
    pub(super) async fn commit(
        &mut self,
        flushed: FlushedMedia,
        state: SessionState,
    ) -> Result<(), Error> {
        let progress = flushed.progress;
        let nothing_new = progress.offset == self.committed && progress.total == self.known_total;
        if nothing_new && state == SessionState::Active {
            return Ok(());
        }
        let small_media = flushed.small_media;
        let committed = self.next_commit().make(progress, small_media, state);
        let committed = committed.await?;
        Failpoint::OffsetCommitted.reach();
        self.note(&committed);
        Ok(())
    }

    fn next_commit(&self) -> PendingCommit {
        PendingCommit {
            server: Arc::clone(&self.server),
            id: self.session.id,
            epoch: self.session.epoch,
            created: self.session.created,
            from: self.committed,
        }
    }

    fn note(&mut self, committed: &Committed) {
        self.committed = committed.offset;
        self.known_total = committed.total;
        self.session.expires = committed.expires.unwrap_or(self.session.expires);
    }
}

/// A commit, but for what it commits.
struct PendingCommit {
    server: Arc<ServerState>,
    id: SessionId,
    epoch: Epoch,
    created: Timestamp,
    /// How much is committed before.
    from: u64,
}

impl PendingCommit {
    /// Progress moves the idle limit, where there is one.
    async fn make(
        self,
        progress: Progress,
        small_media: Option<Bytes>,
        state: SessionState,
    ) -> Result<Committed, LedgerError> {
        let server = &self.server;
        let is_idle_limited = server.settings.session_idle.is_some();
        let expires = is_idle_limited.then(|| server.expiry(self.created, server.clock.now()));
        let committed = Committed {
            offset: progress.offset,
            total: progress.total,
            expires,
        };
        let commit = OffsetCommit {
            from: self.from,
            progress,
            small_media,
            state,
            expires,
        };
        server
            .ledger
            .commit_offset(self.id, self.epoch, commit)
            .await?;
        Ok(committed)
    }
}
