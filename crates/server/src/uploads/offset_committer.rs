//! The commits of one appending request: checkpoints in a background task, and the final commit,
//! which the request awaits.

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

/// Commits the offsets of one appending request. At most one commit runs at a time.
pub(super) struct OffsetCommitter {
    server: Arc<ServerState>,
    /// The session as it was leased, with the expiry of the last commit.
    pub(super) session: Session,
    /// Offset that the ledger has.
    committed: u64,
    /// Total length that the ledger has.
    committed_total: Option<u64>,
    /// Total length that this request knows.
    total: Option<u64>,
    /// When the last checkpoint was scheduled.
    last: Instant,
    /// Offset up to which checkpoints are scheduled.
    pub(super) scheduled: u64,
    /// The checkpoint that is being synced and committed.
    pub(super) running: Option<JoinHandle<Result<Committed, Error>>>,
}

/// The values that a commit has put into the session's row.
pub(super) struct Committed {
    offset: u64,
    total: Option<u64>,
    /// New expiry of the session, if the commit has moved it.
    expires: Option<Timestamp>,
}

impl OffsetCommitter {
    pub(super) fn new(server: &Arc<ServerState>, session: Session, total: Option<u64>) -> Self {
        let committed = session.progress.offset;
        Self {
            server: Arc::clone(server),
            committed,
            committed_total: session.progress.total,
            session,
            total,
            last: Instant::now(),
            scheduled: committed,
            running: None,
        }
    }

    /// Whether the next write up to `offset` should be a checkpoint. If so, schedules it.
    pub(super) fn due(&mut self, offset: u64) -> bool {
        let checkpoints = &self.server.settings.checkpoints;
        let due = offset - self.scheduled >= checkpoints.bytes
            || self.last.elapsed() >= checkpoints.interval;
        if due {
            self.note_checkpoint(offset);
        }
        due
    }

    /// Records that a checkpoint of all bytes up to `offset` is scheduled.
    pub(super) fn note_checkpoint(&mut self, offset: u64) {
        self.scheduled = offset;
        self.last = Instant::now();
    }

    /// Whether nothing was ever committed, so that the session's row names no media.
    pub(super) fn has_never_committed(&self) -> bool {
        self.committed == 0
    }

    /// When the next checkpoint is due if fewer bytes come than [`Checkpoints::bytes`].
    ///
    /// [`Checkpoints::bytes`]: crate::config::Checkpoints::bytes
    pub(super) fn next(&self) -> Instant {
        self.last + self.server.settings.checkpoints.interval
    }

    /// Syncs and commits a checkpoint while the request goes on reading, after the commit before it.
    pub(super) async fn spawn_commit(&mut self, checkpoint: Checkpoint) -> Result<(), Error> {
        // The ledger accepts a commit only if its start is the committed offset, so one at a time.
        self.join().await?;
        let (next, total) = (self.next_commit(), self.total);
        // A task, so that the sync and the commit run in parallel to the next write.
        self.running = Some(tokio::spawn(async move {
            // Media first, ledger second: the committed offset must never exceed the durable bytes.
            let mut progress = checkpoint.sync().await?;
            progress.total = total;
            let committed = next.make(progress, None, SessionState::Active).await?;
            Failpoint::CheckpointCommitted.reach();
            Ok(committed)
        }));
        Ok(())
    }

    /// Waits for the running commit, if there is one.
    ///
    /// # Cancel safety
    /// The commit goes on, and the next call waits for it.
    pub(super) async fn join(&mut self) -> Result<(), Error> {
        if let Some(running) = &mut self.running {
            // Borrowed while it is awaited and dropped afterwards: a future that is dropped here
            // leaves the task to the next call.
            let committed = running.await;
            self.running = None;
            // After a panic it is unknown what was synced or committed: a fault, which stops the
            // server.
            let committed = committed
                .unwrap_or_else(|panic| Err(LedgerError::Fault(Arc::new(panic)).into()))?;
            self.note(&committed);
        }
        Ok(())
    }

    /// Commits flushed bytes, unless the ledger knows them already.
    pub(super) async fn commit(
        &mut self,
        flushed: FlushedMedia,
        state: SessionState,
    ) -> Result<(), Error> {
        let progress = flushed.progress;
        // A chunk that was sent again costs no commit, and so keeps no session alive.
        let nothing_new =
            progress.offset == self.committed && progress.total == self.committed_total;
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
        self.committed_total = committed.total;
        self.session.expires = committed.expires.unwrap_or(self.session.expires);
    }
}

/// The parts of a commit that are known before its bytes are synced.
struct PendingCommit {
    server: Arc<ServerState>,
    id: SessionId,
    epoch: Epoch,
    created: Timestamp,
    /// Offset that is committed before.
    from: u64,
}

impl PendingCommit {
    /// Commits `progress`, and postpones the session's expiry if it has an idle limit.
    async fn make(
        self,
        progress: Progress,
        small_media: Option<Bytes>,
        state: SessionState,
    ) -> Result<Committed, LedgerError> {
        let server = &self.server;
        // Without an idle limit the expiry never moves, and is not written again. With one, it
        // counts from now: the write and the sync before this may have taken long.
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
