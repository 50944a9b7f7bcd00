//! The commits of one appending request. The commits of its checkpoints run in a separate task. The
//! request awaits the commit at its end.

use std::fmt;
use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass_store::{
    Extent, ExtentChanges, Failpoint, Lease, Ledger, LedgerError, MediaLocation, MediaRef,
    OffsetCommit, Progress, Session, SessionId, SessionState, StoredExtent, StoredMedia, Timestamp,
    change_extents,
};

use crate::checksums::RunningChecksum;
use crate::error::Error;
use crate::identifiers::Clock;
use crate::leases::HeldLease;
use crate::quotas::Quotas;
use crate::sink::{FlushedMedia, UnsyncedProgress};

/// When bytes are made durable during a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Checkpoints {
    /// After this many bytes. Default: 16 MiB.
    pub bytes: u64,
    /// After this time, if there are new bytes. Default: 1 s.
    pub interval: Duration,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
            interval: Duration::from_secs(1),
        }
    }
}

/// How long sessions live.
#[derive(Debug, Clone, Copy)]
pub struct SessionLifetime {
    /// From their start.
    pub total: Duration,
    /// Without progress. `None` sets no such limit.
    pub idle: Option<Duration>,
}

impl SessionLifetime {
    /// Returns the expiry of a session that was created at `created` and made progress at `now`.
    pub fn expiry(self, created: Timestamp, now: Timestamp) -> Timestamp {
        let end = created.saturating_add(self.total);
        match self.idle {
            Some(idle) => end.min(now.saturating_add(idle)),
            None => end,
        }
    }
}

/// What the commits of all requests have in common.
pub(crate) struct CommitRules {
    /// The ledger that holds the sessions.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Tells when a commit is made.
    pub(crate) clock: Arc<dyn Clock>,
    /// The quotas of the owners of sessions.
    pub(crate) quotas: Quotas,
    /// How far a commit postpones the expiry of its session.
    pub(crate) lifetime: SessionLifetime,
}

impl fmt::Debug for CommitRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitRules")
            .field("quotas", &self.quotas)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// When the next checkpoint of a request is due.
#[derive(Debug)]
pub(crate) struct CheckpointClock {
    checkpoints: Checkpoints,
    /// When the last checkpoint was scheduled; before the first one, when the request began.
    last: Instant,
    /// Offset of the last checkpoint that was scheduled. In a request without commits before its
    /// end: the offset at which one would have been scheduled.
    scheduled: u64,
}

impl CheckpointClock {
    /// Begins at an offset, now.
    pub(crate) fn new(checkpoints: Checkpoints, offset: u64) -> Self {
        Self {
            checkpoints,
            last: Instant::now(),
            scheduled: offset,
        }
    }

    /// Whether a checkpoint should follow the next write, which ends at `offset`. If so, records it
    /// as scheduled. With a boundary, checkpoints follow writes that end at multiples of it.
    pub(crate) fn schedule_if_due(&mut self, offset: u64, boundary: Option<NonZeroU64>) -> bool {
        let is_cheap = boundary.is_none_or(|boundary| offset % boundary == 0);
        let is_due = is_cheap
            && (offset - self.scheduled >= self.checkpoints.bytes
                || self.last.elapsed() >= self.checkpoints.interval);
        if is_due {
            self.record_scheduled(offset);
        }
        is_due
    }

    /// Records that a checkpoint of all bytes up to `offset` is scheduled.
    pub(crate) fn record_scheduled(&mut self, offset: u64) {
        self.scheduled = offset;
        self.last = Instant::now();
    }

    /// Offset of the last checkpoint that was scheduled.
    pub(crate) fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// When the next checkpoint is due if fewer than [`Checkpoints::bytes`] bytes arrive before, and
    /// the vault wants bytes to be collected for at least this long.
    pub(crate) fn next_due(&self, at_least: Duration) -> Instant {
        self.last + self.checkpoints.interval.max(at_least)
    }
}

/// Commits the offsets of one appending request. At most one commit runs at a time.
#[derive(Debug)]
pub(crate) struct OffsetCommitter {
    rules: Arc<CommitRules>,
    /// The session's row when the lease was taken, with the progress and the expiry of the last
    /// commit.
    pub(crate) session: Session,
    /// The lease under which it commits.
    pub(crate) lease: HeldLease,
    /// The committed extents of the media.
    pub(crate) extents: Vec<StoredExtent>,
    /// Changes of extents that come with the next commit.
    pub(crate) uncommitted: ExtentChanges,
    /// Total length of the media, if it is known to this request.
    total: Option<u64>,
    /// The running checkpoint.
    running: Option<JoinHandle<Result<Committed, Uncommitted>>>,
}

/// A commit that was not made, or of which that is unknown.
#[derive(Debug)]
struct Uncommitted {
    error: Error,
    /// The changes of extents that it would have made.
    extents: ExtentChanges,
}

/// The values that a commit has put into the session's row.
#[derive(Debug)]
struct Committed {
    progress: Progress,
    /// New expiry of the session, if the commit has moved it.
    expires: Option<Timestamp>,
    /// The changes of extents.
    extents: ExtentChanges,
}

impl OffsetCommitter {
    /// Begins at the committed offset of a session, whose media has these extents. `total` is the
    /// length of the media, if it is known.
    pub(crate) fn new(
        rules: &Arc<CommitRules>,
        session: Session,
        lease: HeldLease,
        extents: Vec<StoredExtent>,
        total: Option<u64>,
    ) -> Self {
        Self {
            rules: Arc::clone(rules),
            total,
            session,
            lease,
            extents,
            uncommitted: ExtentChanges::default(),
            running: None,
        }
    }

    /// Whether the session's row names media in the vault.
    pub(crate) fn has_media_in_vault(&self) -> bool {
        self.session.progress.media.is_some_and(is_in_vault)
    }

    /// Whether a checkpoint is running, or its result has not been [joined](Self::join).
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Makes a checkpoint in a task, while the request continues to read. Waits first for the
    /// running one.
    ///
    /// # Errors
    /// Those of the running one.
    ///
    /// # Cancel safety
    /// This method is cancel safe: the running checkpoint continues, and no other has begun.
    pub(crate) async fn spawn_checkpoint(
        &mut self,
        unsynced: UnsyncedProgress,
    ) -> Result<(), Error> {
        // One commit at a time: the ledger accepts a commit only if it begins at the offset that
        // the previous one has committed.
        self.join().await?;
        let (next, total) = (self.next_commit(), self.total);
        let mut extents = mem::take(&mut self.uncommitted);
        // A task, so that the sync and the commit run in parallel to the next write.
        self.running = Some(tokio::spawn(async move {
            // Media first, ledger second: the committed offset must never exceed the durable bytes.
            let (mut progress, changes) = match unsynced.sync().await {
                Ok(synced) => synced,
                Err(error) => {
                    let error = error.into();
                    return Err(Uncommitted { error, extents });
                }
            };
            extents.then(changes);
            progress.total = total;
            let committed = next.commit(NewOffset {
                progress,
                small_bytes: None,
                extents,
                state: SessionState::Active,
                releases: false,
            });
            let committed = committed.await?;
            Failpoint::CheckpointCommitted.reach();
            Ok(committed)
        }));
        Ok(())
    }

    /// Waits for the running checkpoint, if there is one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the checkpoint continues, and the next call waits for it.
    pub(crate) async fn join(&mut self) -> Result<(), Error> {
        if let Some(running) = &mut self.running {
            // The handle is borrowed while it is awaited, and cleared afterwards. If this future is
            // dropped, the next call still has the handle.
            let committed = running.await;
            self.running = None;
            // After a panic it is unknown which bytes are synced or committed. That is a storage
            // fault, which stops the server.
            let committed = committed.map_err(|panic| LedgerError::Fault(Arc::new(panic)))?;
            self.record_commit(committed)?;
        }
        Ok(())
    }

    /// Commits flushed bytes, unless they are already committed. The caller has set the total length
    /// of their progress, and no checkpoint may be running.
    ///
    /// # Errors
    /// The ledger's, such as [`LedgerError::Fenced`] under a newer lease.
    ///
    /// # Cancel safety
    /// Not cancel safe: after a dropped call the commit may be in the ledger, and `session` does not
    /// show it.
    pub(crate) async fn commit(
        &mut self,
        flushed: FlushedMedia,
        state: SessionState,
    ) -> Result<(), Error> {
        let progress = flushed.progress;
        let committed = &self.session.progress;
        // A chunk that is sent again makes no commit, so it does not postpone the session's expiry.
        // A session that becomes *finishing* is still worked on.
        let releases = state == SessionState::Active;
        let nothing_new = progress.offset == committed.offset
            && progress.total == committed.total
            && self.uncommitted.is_empty();
        if nothing_new && state == SessionState::Active {
            return Ok(());
        }
        let new = NewOffset {
            progress,
            small_bytes: flushed.small_bytes,
            extents: mem::take(&mut self.uncommitted),
            state,
            releases,
        };
        let committed = self.next_commit().commit(new).await;
        self.record_commit(committed)?;
        if releases {
            self.lease.set_released();
        }
        Failpoint::OffsetCommitted.reach();
        Ok(())
    }

    /// Returns the committed media in the vault.
    ///
    /// # Panics
    /// If the session has no media.
    pub(crate) fn stored_media(&self, verify: Option<Extent>) -> StoredMedia {
        let progress = &self.session.progress;
        let media = progress.media.expect("its media is committed");
        StoredMedia {
            id: media.id,
            length: progress.offset,
            extents: self.extents.clone(),
            verify,
        }
    }

    /// Commits changes of the extents of complete media. The session has this state.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn commit_extents(
        &mut self,
        changes: ExtentChanges,
        state: SessionState,
    ) -> Result<(), Error> {
        self.uncommitted.then(changes);
        let unchanged = FlushedMedia {
            progress: self.session.progress.clone(),
            small_bytes: None,
        };
        self.commit(unchanged, state).await
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
            rules: Arc::clone(&self.rules),
            id: self.session.id,
            lease: self.lease.lease(),
            created: self.session.created,
            limited_owner: limited_owner(&self.session).map(str::to_owned),
            from: committed.offset,
            in_vault,
        }
    }

    fn record_commit(&mut self, committed: Result<Committed, Uncommitted>) -> Result<(), Error> {
        match committed {
            Ok(committed) => {
                self.session.progress = committed.progress;
                self.session.expires = committed.expires.unwrap_or(self.session.expires);
                change_extents(&mut self.extents, &committed.extents);
                Ok(())
            }
            Err(Uncommitted { error, extents }) => {
                self.uncommitted = extents;
                Err(error)
            }
        }
    }
}

/// What a commit writes.
struct NewOffset {
    progress: Progress,
    small_bytes: Option<Bytes>,
    extents: ExtentChanges,
    state: SessionState,
    releases: bool,
}

/// The parts of a commit that are known before its bytes are synced.
struct PendingCommit {
    rules: Arc<CommitRules>,
    id: SessionId,
    lease: Lease,
    created: Timestamp,
    /// The owner whose usage may grow by the commit.
    limited_owner: Option<String>,
    /// Committed offset at which this commit begins.
    from: u64,
    /// Where the committed bytes in the vault end, and their checksum.
    in_vault: RunningChecksum,
}

impl PendingCommit {
    /// Commits an offset, and postpones the session's expiry if the server has an idle limit.
    async fn commit(self, new: NewOffset) -> Result<Committed, Uncommitted> {
        let extents = new.extents.clone();
        match self.try_commit(new).await {
            Ok((progress, expires)) => Ok(Committed {
                progress,
                expires,
                extents,
            }),
            Err(error) => Err(Uncommitted { error, extents }),
        }
    }

    async fn try_commit(self, new: NewOffset) -> Result<(Progress, Option<Timestamp>), Error> {
        let rules = &self.rules;
        let mut progress = new.progress;
        // Without an idle limit the expiry never changes, so it is not written again. With one, it
        // is computed here and not earlier: the write and the sync may have taken long.
        let is_idle_limited = rules.lifetime.idle.is_some();
        let expires =
            is_idle_limited.then(|| rules.lifetime.expiry(self.created, rules.clock.now()));
        progress.extent = self.extent(&progress);
        let commit = OffsetCommit {
            from: self.from,
            progress: progress.clone(),
            small_media: new.small_bytes,
            extents: new.extents,
            state: new.state,
            expires,
            releases: new.releases,
        };
        let quota = rules.quotas.of_bytes(self.limited_owner.as_deref()).await?;
        rules
            .ledger
            .commit_offset_within(self.id, self.lease, commit, quota)
            .await?;
        Ok((progress, expires))
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

/// Returns the session's owner if a commit may increase the owner's usage. An open session with a
/// declared length already counts with that length.
fn limited_owner(session: &Session) -> Option<&str> {
    let is_undeclared = session.progress.total.is_none();
    session.owner.as_deref().filter(|_| is_undeclared)
}

fn is_in_vault(media: MediaRef) -> bool {
    media.location == MediaLocation::Vault
}
