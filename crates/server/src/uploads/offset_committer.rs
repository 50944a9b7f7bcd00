//! The commits of one appending request. The commits of its checkpoints run in a separate task. The
//! request awaits the commit at its end.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass_store::{
    Epoch, Extent, Failpoint, LedgerError, MediaLocation, MediaRef, OffsetCommit, Progress,
    Session, SessionId, SessionState, Timestamp,
};

use super::ServerState;
use super::checksums::RunningChecksum;
use super::sink::{FlushedMedia, UnsyncedProgress};
use crate::error::Error;

/// Commits the offsets of one appending request. At most one commit runs at a time.
pub(super) struct OffsetCommitter {
    server: Arc<ServerState>,
    /// The session's row when the lease was taken, with the progress and the expiry of the last
    /// commit.
    pub(super) session: Session,
    /// Total length of the media, if it is known to this request.
    total: Option<u64>,
    /// When the last checkpoint was scheduled; before the first one, when the request began.
    last_checkpoint: Instant,
    /// Offset of the last checkpoint that was scheduled. For a gzip body, which has no checkpoints:
    /// the offset at which one would have been scheduled.
    pub(super) scheduled: u64,
    /// The running checkpoint.
    running: Option<JoinHandle<Result<Committed, Error>>>,
}

/// The values that a commit has put into the session's row.
struct Committed {
    progress: Progress,
    /// New expiry of the session, if the commit has moved it.
    expires: Option<Timestamp>,
}

impl OffsetCommitter {
    pub(super) fn new(server: &Arc<ServerState>, session: Session, total: Option<u64>) -> Self {
        Self {
            server: Arc::clone(server),
            total,
            last_checkpoint: Instant::now(),
            scheduled: session.progress.offset,
            session,
            running: None,
        }
    }

    /// Whether a checkpoint should follow the next write, which ends at `offset`. If so, records it
    /// as scheduled.
    pub(super) fn schedule_if_due(&mut self, offset: u64) -> bool {
        let checkpoints = &self.server.settings.checkpoints;
        let is_due = offset - self.scheduled >= checkpoints.bytes
            || self.last_checkpoint.elapsed() >= checkpoints.interval;
        if is_due {
            self.record_scheduled(offset);
        }
        is_due
    }

    /// Records that a checkpoint of all bytes up to `offset` is scheduled.
    pub(super) fn record_scheduled(&mut self, offset: u64) {
        self.scheduled = offset;
        self.last_checkpoint = Instant::now();
    }

    /// Whether the session's row names media in the vault.
    pub(super) fn has_media_in_vault(&self) -> bool {
        self.session.progress.media.is_some_and(is_in_vault)
    }

    /// When the next checkpoint is due if fewer than [`Checkpoints::bytes`] bytes arrive before.
    ///
    /// [`Checkpoints::bytes`]: crate::config::Checkpoints::bytes
    pub(super) fn next_due(&self) -> Instant {
        self.last_checkpoint + self.server.settings.checkpoints.interval
    }

    /// Whether a checkpoint is running, or its result has not been [joined](Self::join).
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Makes a checkpoint in a task, while the request continues to read. Waits first for the
    /// running one.
    pub(super) async fn spawn_checkpoint(
        &mut self,
        unsynced: UnsyncedProgress,
    ) -> Result<(), Error> {
        // One commit at a time: the ledger accepts a commit only if it begins at the offset that
        // the previous one has committed.
        self.join().await?;
        let (next, total) = (self.next_commit(), self.total);
        // A task, so that the sync and the commit run in parallel to the next write.
        self.running = Some(tokio::spawn(async move {
            // Media first, ledger second: the committed offset must never exceed the durable bytes.
            let mut progress = unsynced.sync().await?;
            progress.total = total;
            let committed = next.commit(progress, None, SessionState::Active).await?;
            Failpoint::CheckpointCommitted.reach();
            Ok(committed)
        }));
        Ok(())
    }

    /// Waits for the running checkpoint, if there is one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the checkpoint continues, and the next call waits for it.
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
            self.record_commit(committed);
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
        let committed = &self.session.progress;
        // A chunk that is sent again makes no commit, so it does not postpone the session's expiry.
        let nothing_new = progress.offset == committed.offset && progress.total == committed.total;
        if nothing_new && state == SessionState::Active {
            return Ok(());
        }
        let committed = self
            .next_commit()
            .commit(progress, flushed.small_bytes, state);
        let committed = committed.await?;
        Failpoint::OffsetCommitted.reach();
        self.record_commit(committed);
        Ok(())
    }

    fn next_commit(&self) -> PendingCommit {
        let committed = &self.session.progress;
        // Media that is in the ledger, or nowhere, has no bytes in the vault before this commit.
        let in_vault = if self.has_media_in_vault() {
            RunningChecksum::at(committed.offset, committed.crc32c)
        } else {
            RunningChecksum::default()
        };
        PendingCommit {
            server: Arc::clone(&self.server),
            id: self.session.id,
            epoch: self.session.epoch,
            created: self.session.created,
            from: committed.offset,
            in_vault,
        }
    }

    fn record_commit(&mut self, committed: Committed) {
        self.session.progress = committed.progress;
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
    /// Where the committed bytes in the vault end, and their checksum.
    in_vault: RunningChecksum,
}

impl PendingCommit {
    /// Commits `progress`, and postpones the session's expiry if the server has an idle limit.
    async fn commit(
        self,
        mut progress: Progress,
        small_bytes: Option<Bytes>,
        state: SessionState,
    ) -> Result<Committed, LedgerError> {
        let server = &self.server;
        // Without an idle limit the expiry never changes, so it is not written again. With one, it
        // is computed here and not earlier: the write and the sync may have taken long.
        let is_idle_limited = server.settings.session_idle.is_some();
        let expires =
            is_idle_limited.then(|| server.sessions.expiry(self.created, server.clock.now()));
        progress.extent = self.extent(&progress);
        let committed = Committed {
            progress: progress.clone(),
            expires,
        };
        let commit = OffsetCommit {
            from: self.from,
            progress,
            small_media: small_bytes,
            state,
            expires,
        };
        let quota = server.quotas.of_bytes();
        server
            .stores
            .ledger
            .commit_offset_within(self.id, self.epoch, commit, quota)
            .await?;
        Ok(committed)
    }

    /// Returns the extent of the commit: the bytes in the vault from the last successful commit up
    /// to this commit's offset. If a checkpoint in between has failed because the ledger had no
    /// space, its bytes are included.
    fn extent(&self, progress: &Progress) -> Option<Extent> {
        progress.media.filter(|media| is_in_vault(*media))?;
        let RunningChecksum { offset: start, .. } = self.in_vault;
        // A commit that ends before `start` is refused by the ledger.
        let len = progress.offset.saturating_sub(start);
        let before = self.in_vault.crc32c();
        Some(Extent {
            start,
            crc32c: progress.crc32c.without_prefix(before, len),
        })
    }
}

fn is_in_vault(media: MediaRef) -> bool {
    media.location == MediaLocation::Vault
}
