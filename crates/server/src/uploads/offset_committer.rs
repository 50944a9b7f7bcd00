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
use super::sink::{FlushedMedia, PendingCheckpoint};
use crate::error::Error;

/// Commits the offsets of one appending request. At most one commit runs at a time.
pub(super) struct OffsetCommitter {
    server: Arc<ServerState>,
    /// The session's row when the lease was taken, with the expiry of the last commit.
    pub(super) session: Session,
    /// Committed offset.
    committed: u64,
    /// Committed total length.
    committed_total: Option<u64>,
    /// Total length, if it is known to this request.
    total: Option<u64>,
    /// When the last checkpoint was scheduled.
    last_checkpoint: Instant,
    /// Offset of the last checkpoint that was scheduled.
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
            last_checkpoint: Instant::now(),
            scheduled: committed,
            running: None,
        }
    }

    /// Whether the next write, which ends at `offset`, should be a checkpoint. If so, records it as
    /// scheduled.
    pub(super) fn schedule_if_due(&mut self, offset: u64) -> bool {
        let checkpoints = &self.server.settings.checkpoints;
        let is_due = offset - self.scheduled >= checkpoints.bytes
            || self.last_checkpoint.elapsed() >= checkpoints.interval;
        if is_due {
            self.record_checkpoint(offset);
        }
        is_due
    }

    /// Records that a checkpoint of all bytes up to `offset` is scheduled.
    pub(super) fn record_checkpoint(&mut self, offset: u64) {
        self.scheduled = offset;
        self.last_checkpoint = Instant::now();
    }

    /// Whether no byte of the session was ever committed, so that its row names no media.
    pub(super) fn has_never_committed(&self) -> bool {
        self.committed == 0
    }

    /// When the next checkpoint is due if fewer than [`Checkpoints::bytes`] bytes arrive before.
    ///
    /// [`Checkpoints::bytes`]: crate::config::Checkpoints::bytes
    pub(super) fn next_due(&self) -> Instant {
        self.last_checkpoint + self.server.settings.checkpoints.interval
    }

    /// Syncs and commits a checkpoint while the request continues to read. Waits first for the
    /// previous commit.
    pub(super) async fn spawn_commit(
        &mut self,
        checkpoint: PendingCheckpoint,
    ) -> Result<(), Error> {
        // One commit at a time: the ledger accepts a commit only if it begins at the offset that
        // the previous one has committed.
        self.join().await?;
        let (next, total) = (self.next_commit(), self.total);
        // A task, so that the sync and the commit run in parallel to the next write.
        self.running = Some(tokio::spawn(async move {
            // Media first, ledger second: the committed offset must never exceed the durable bytes.
            let mut progress = checkpoint.sync().await?;
            progress.total = total;
            let committed = next.commit(progress, None, SessionState::Active).await?;
            Failpoint::CheckpointCommitted.reach();
            Ok(committed)
        }));
        Ok(())
    }

    /// Waits for the running commit, if there is one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the commit continues, and the next call waits for it.
    pub(super) async fn join(&mut self) -> Result<(), Error> {
        if let Some(running) = &mut self.running {
            // The handle is borrowed while it is awaited, and cleared afterwards. If this future is
            // dropped, the next call still has the handle.
            let committed = running.await;
            self.running = None;
            // After a panic it is unknown which bytes are synced or committed. That is a storage
            // fault, which stops the server.
            let committed = committed
                .unwrap_or_else(|panic| Err(LedgerError::Fault(Arc::new(panic)).into()))?;
            self.record_commit(&committed);
        }
        Ok(())
    }

    /// Commits flushed bytes, unless they are already committed.
    pub(super) async fn commit(
        &mut self,
        flushed: FlushedMedia,
        state: SessionState,
    ) -> Result<(), Error> {
        let progress = flushed.progress;
        // A chunk that is sent again makes no commit, so it does not postpone the session's expiry.
        let nothing_new =
            progress.offset == self.committed && progress.total == self.committed_total;
        if nothing_new && state == SessionState::Active {
            return Ok(());
        }
        let small_media = flushed.small_media;
        let committed = self.next_commit().commit(progress, small_media, state);
        let committed = committed.await?;
        Failpoint::OffsetCommitted.reach();
        self.record_commit(&committed);
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

    fn record_commit(&mut self, committed: &Committed) {
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
    /// Committed offset at which this commit begins.
    from: u64,
}

impl PendingCommit {
    /// Commits `progress`, and postpones the session's expiry if the server has an idle limit.
    async fn commit(
        self,
        progress: Progress,
        small_media: Option<Bytes>,
        state: SessionState,
    ) -> Result<Committed, LedgerError> {
        let server = &self.server;
        // Without an idle limit the expiry never changes, so it is not written again. With one, it
        // is computed here and not earlier: the write and the sync may have taken long.
        let is_idle_limited = server.settings.session_idle.is_some();
        let expires =
            is_idle_limited.then(|| server.sessions.expiry(self.created, server.clock.now()));
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
            .stores
            .ledger
            .commit_offset(self.id, self.epoch, commit)
            .await?;
        Ok(committed)
    }
}
