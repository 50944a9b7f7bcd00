//! The bytes of one upload on their way to durable media, whatever request brings them.
//!
//! A [`DurableAppend`] owns the order of the steps. It collects the bytes and writes them, reserves
//! room for them in the quota and counts them against the free space, and commits written bytes
//! from time to time: sync first, then commit, then the reply. Whether there is anything to commit
//! to before the end of the request is up to its [`CommitTarget`].

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use windlass_digest::{Digests, Wanted};
use windlass_store::{ExpectedSize, ExtentChanges, StoredExtent, StoredMedia, VaultError};

use crate::disks::{CountedWrite, Leaving, MediaSpace};
use crate::engine::EngineParts;
use crate::error::Error;
use crate::media_stream::MediaStream;
use crate::offset_committer::{CheckpointClock, OffsetCommitter};
use crate::quotas::Reservation;
use crate::sink::{FlushedMedia, MediaSink, UnsyncedProgress, VaultMedia};

/// What the written bytes of an upload are committed to before they are complete.
pub(crate) trait CommitTarget: Send {
    /// Whether durable bytes are of use if the stores refuse the bytes after them.
    const KEEPS_A_PREFIX: bool;

    /// Returns how many of the bytes up to an offset the ledger does not count for the owner yet.
    /// `None` if it counts all bytes of the upload already.
    fn uncounted(&self, up_to: u64) -> Option<u64>;

    /// Commits written bytes in a task, once they are synced. Waits first for the commit before.
    ///
    /// # Errors
    /// Those of the commit before.
    fn spawn_checkpoint(
        &mut self,
        unsynced: UnsyncedProgress,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The changes of extents that are not committed.
    fn uncommitted(&mut self) -> &mut ExtentChanges;

    /// Whether a checkpoint is running, or its result has not been joined.
    fn is_running(&self) -> bool;

    /// Waits for the running checkpoint, if there is one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the checkpoint continues, and the next call waits for it.
    fn join(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The target of an upload in one request: nothing is committed before the media is complete.
#[derive(Debug, Default)]
pub(crate) struct NoSession {
    uncommitted: ExtentChanges,
}

impl CommitTarget for NoSession {
    const KEEPS_A_PREFIX: bool = false;

    fn uncounted(&self, up_to: u64) -> Option<u64> {
        Some(up_to)
    }

    async fn spawn_checkpoint(&mut self, _: UnsyncedProgress) -> Result<(), Error> {
        Ok(())
    }

    fn uncommitted(&mut self) -> &mut ExtentChanges {
        &mut self.uncommitted
    }

    fn is_running(&self) -> bool {
        false
    }

    async fn join(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl CommitTarget for OffsetCommitter {
    const KEEPS_A_PREFIX: bool = true;

    /// The ledger counts the declared length of a session, and committed bytes.
    fn uncounted(&self, up_to: u64) -> Option<u64> {
        let progress = &self.session.progress;
        let is_undeclared = progress.total.is_none();
        is_undeclared.then(|| up_to.saturating_sub(progress.offset))
    }

    async fn spawn_checkpoint(&mut self, unsynced: UnsyncedProgress) -> Result<(), Error> {
        OffsetCommitter::spawn_checkpoint(self, unsynced).await
    }

    fn uncommitted(&mut self) -> &mut ExtentChanges {
        &mut self.uncommitted
    }

    fn is_running(&self) -> bool {
        OffsetCommitter::is_running(self)
    }

    async fn join(&mut self) -> Result<(), Error> {
        OffsetCommitter::join(self).await
    }
}

/// The bytes of one upload during a request.
#[derive(Debug)]
pub(crate) struct DurableAppend<T> {
    sink: MediaSink,
    /// What written bytes are committed to.
    pub(crate) target: T,
    /// When the next checkpoint is due.
    clock: CheckpointClock,
    /// How long the bytes of a slow client are collected at least.
    commit_interval: Duration,
    /// Whether written bytes are committed before the end of the request.
    commits_early: bool,
    /// The reserved bytes in the quota of the owner. The ledger does not count them yet.
    reservation: Reservation,
    /// The offset up to which the client has declared bytes. 0 if the client has declared none.
    declared_end: u64,
    /// The reserved bytes on the disk.
    pub(crate) space: MediaSpace,
}

/// What happens next in an upload.
pub(crate) enum Step {
    /// The stream has brought bytes, or has ended, or has broken.
    Stream(Result<Option<Bytes>, Error>),
    /// The client pauses. Its bytes must not stay in memory until it continues: the caller calls
    /// [`DurableAppend::write_now`].
    Pause,
    /// A checkpoint has ended.
    Checkpoint(Result<(), Error>),
}

impl<T: CommitTarget> DurableAppend<T> {
    /// Begins with the bytes that the sink has. Nothing is reserved, and nothing is committed before
    /// the end ([`DurableAppend::commit_early`]).
    pub(crate) fn new(
        parts: &EngineParts,
        sink: MediaSink,
        target: T,
        owner: Option<&str>,
        space: MediaSpace,
    ) -> Self {
        Self {
            clock: CheckpointClock::new(parts.checkpoints.clone(), sink.offset()),
            commit_interval: parts.stores.vault.hints().commit_interval,
            sink,
            target,
            commits_early: false,
            reservation: parts.quotas.reservation(owner),
            declared_end: 0,
            space,
        }
    }

    /// Lets written bytes be committed before the end of the request.
    pub(crate) fn commit_early(&mut self) {
        self.commits_early = true;
    }

    /// Offset after all accepted bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.sink.offset()
    }

    /// Tells the sink that the media will have at least this many bytes; `None` if nothing is known
    /// about its length. It then knows earlier that the media is large. Bytes of large media can be
    /// committed when the client pauses.
    pub(crate) fn announce_length(&mut self, min_length: Option<u64>) {
        self.sink.announce_length(min_length);
    }

    /// Tells the sink what the vault may know of the length of the media.
    pub(crate) fn expect(&mut self, expected: ExpectedSize) {
        self.sink.expect(expected);
    }

    /// Takes room on the disk for this many bytes that are yet to come.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn set_aside(&self, bytes: u64, leaving: Leaving) -> Result<(), Error> {
        self.space.set_aside(bytes, leaving)
    }

    /// Records the offset up to which the client has declared bytes, and reserves room for them in
    /// the quota of the owner.
    ///
    /// # Errors
    /// Those of [`Reservation::cover`].
    pub(crate) async fn declare(&mut self, parts: &EngineParts, end: u64) -> Result<(), Error> {
        self.declared_end = end;
        self.reserve(parts, end).await
    }

    /// Waits until the stream has something, or something else has to be done.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost: the next call returns it.
    pub(crate) async fn next_step(&mut self, stream: &mut impl MediaStream) -> Step {
        let due = self.clock.next_due(self.commit_interval);
        let needs_checkpoint = self.needs_checkpoint();
        tokio::select! {
            // Checkpoints come after the body: while bytes are always ready, `store` starts the
            // checkpoints.
            biased;
            next = stream.next() => Step::Stream(next),
            () = tokio::time::sleep_until(due), if needs_checkpoint => Step::Pause,
            // Joined when the commit has ended and the body has no bytes ready: an error reaches a
            // client that pauses, and the task is freed. A client that sends on gets the error at
            // the next checkpoint.
            joined = self.target.join(), if self.target.is_running() => Step::Checkpoint(joined),
        }
    }

    /// Gives bytes to the sink, and lets it write its buffer whenever it is full. The last bytes of
    /// a request stay in the buffer: the flush writes and syncs in one call.
    ///
    /// # Errors
    /// If there is no room, or an error of the stores.
    pub(crate) async fn store(
        &mut self,
        parts: &EngineParts,
        mut data: Bytes,
        is_last: bool,
    ) -> Result<(), Error> {
        let received = self.sink.offset() + data.len() as u64;
        self.reserve(parts, received).await?;
        while !data.is_empty() {
            self.sink.accept(&mut data);
            let is_done = is_last && data.is_empty();
            if !is_done && !self.sink.find_room() {
                Box::pin(self.make_room()).await?;
            }
        }
        Ok(())
    }

    /// Writes and commits the bytes that a slow client has sent so far. Bytes that are not committed
    /// early are only written, so that they do not stay in memory.
    ///
    /// # Errors
    /// If the disk is full, or an error of the stores.
    pub(crate) async fn write_now(&mut self) -> Result<(), Error> {
        let counted = self.space.admit_write(self.sink.buffered_len())?;
        self.clock.record_scheduled(self.sink.offset());
        // `write` may return only the progress of the previous write. This write is awaited as
        // well, because no further bytes may come for a long time: its memory is free then, and its
        // checkpoint begins.
        let earlier = self.sink.write(self.commits_early, counted).await?;
        let latest = self.sink.await_write().await?;
        self.spawn_checkpoints(earlier, latest).await
    }

    /// Makes the accepted bytes durable. An error beside the media is the reason why the stores have
    /// refused a write, or the running checkpoint. Bytes that were not written are then dropped. A
    /// target without a use for a prefix gets the error alone. `is_end` tells whether the media
    /// probably ends there.
    ///
    /// # Errors
    /// Those of the stores. A fault of the vault stops the server, also if the returned error is the
    /// running checkpoint's.
    pub(crate) async fn flush(
        &mut self,
        parts: &EngineParts,
        is_end: bool,
    ) -> Result<(FlushedMedia, Option<Error>), Error> {
        let _counted = self.count_last_write();
        let (flushed, refused) = match self.sink.flush_and_sync(is_end).await {
            // If a write was refused, the sink has dropped the bytes that were not written, and the
            // second flush only syncs. If the media could not be created, the second flush tries
            // everything again.
            Err(Error::Vault(VaultError::NoSpace { .. })) if T::KEEPS_A_PREFIX => {
                (self.sink.flush_and_sync(false).await, Some(Error::NoSpace))
            }
            Err(error) if T::KEEPS_A_PREFIX && error.is_passing() => {
                (self.sink.flush_and_sync(false).await, Some(error))
            }
            flushed => (flushed, None),
        };
        // The last checkpoint is awaited after the flush, so that both run in parallel. It must end
        // before the final commit, which begins at its offset, and before an error of the flush is
        // returned, so that no task is left behind.
        let running = self.target.join().await;
        // The caller's task examines only the returned error.
        if let Err(error) = &flushed {
            parts.lifecycle.examine(error);
        }
        let refused = match running {
            // The final commit includes the bytes of the checkpoint.
            Err(error) if error.keeps_what_is_durable() => refused.or(Some(error)),
            running => {
                running?;
                refused
            }
        };
        let flushed = flushed?;
        let changes = self.sink.take_changes();
        self.target.uncommitted().then(changes);
        Ok((flushed, refused))
    }

    /// Returns the digests of all accepted bytes, as [`MediaSink::digests`].
    pub(crate) async fn digests(
        &mut self,
        wanted: Wanted,
        flushed: &FlushedMedia,
    ) -> Option<Digests> {
        self.sink.digests(wanted, flushed).await
    }

    /// Waits for the running write, so that nothing of this upload can overwrite bytes of its session's
    /// next writer. Cuts off the bytes of the open media behind those that are committed, so that they
    /// take no space; if the vault cannot do that now, it does when the media is opened again. Nothing
    /// may be stored afterwards.
    pub(crate) async fn cut_off(&mut self, committed: &StoredMedia) {
        self.sink.cut_off(committed).await;
    }

    /// Deletes the media from the vault, if it is there. No row may name it. Nothing may be stored
    /// afterwards.
    pub(crate) async fn discard(&mut self) {
        let mut extents = mem::take(self.target.uncommitted());
        extents.then(self.sink.take_changes());
        self.sink.discard(extents.added).await;
    }

    /// Replaces the uncommitted extents, which [`discard`](Self::discard) deletes.
    pub(crate) fn set_uncommitted(&mut self, extents: Vec<StoredExtent>) {
        *self.target.uncommitted() = ExtentChanges {
            added: extents,
            dropped: Vec::new(),
        };
    }

    /// Returns the media in the vault, none of whose extents is committed. `None` if the media is
    /// not in the vault.
    pub(crate) fn uncommitted_media(&mut self) -> Option<StoredMedia> {
        let mut media = StoredMedia::new(self.sink.vault_id()?, self.sink.offset());
        media.change(self.target.uncommitted());
        Some(media)
    }

    /// Returns what the next request continues with: the target, the media that is open in the
    /// vault, and the space that is set aside.
    pub(crate) fn into_parts(self) -> (T, Option<VaultMedia>, MediaSpace) {
        (self.target, self.sink.into_vault_media(), self.space)
    }

    /// Reserves room in the quota of the owner for the bytes up to an offset. The declared bytes
    /// stay reserved until they have arrived.
    async fn reserve(&mut self, parts: &EngineParts, up_to: u64) -> Result<(), Error> {
        match self.target.uncounted(up_to.max(self.declared_end)) {
            Some(bytes) => self.reservation.cover(&*parts.stores.ledger, bytes).await,
            None => Ok(()),
        }
    }

    /// Makes room in the sink's full write buffer. Waits for the running write. If the buffer has
    /// no pooled memory, tries again to get it: without a running write the upload has the higher
    /// priority in the pool. If the buffer is still full, writes it.
    async fn make_room(&mut self) -> Result<(), Error> {
        let earlier = self.sink.await_write().await?;
        let mut latest = None;
        if !self.sink.find_room() {
            let counted = self.space.admit_write(self.sink.buffered_len())?;
            let boundary = self.sink.boundary();
            let due = self.clock.schedule_if_due(self.sink.offset(), boundary);
            let due = due && self.commits_early;
            latest = self.sink.write(due, counted).await?;
        }
        self.spawn_checkpoints(earlier, latest).await
    }

    /// Commits in the order of the offsets: each commit begins where the previous one ended.
    async fn spawn_checkpoints(
        &mut self,
        earlier: Option<UnsyncedProgress>,
        latest: Option<UnsyncedProgress>,
    ) -> Result<(), Error> {
        for unsynced in earlier.into_iter().chain(latest) {
            self.target.spawn_checkpoint(unsynced).await?;
        }
        Ok(())
    }

    /// Whether a checkpoint would have bytes to write or commit: bytes that were accepted since the
    /// last checkpoint was scheduled, or bytes of a running write without a begun checkpoint. The
    /// checkpoint of a write begins when that write is awaited. While the client pauses, only
    /// [`write_now`](Self::write_now) awaits a write.
    fn needs_checkpoint(&self) -> bool {
        let is_new = self.sink.offset() > self.clock.scheduled() || self.sink.owes_progress();
        // Media that may still be small is stored in the ledger at the end of its request.
        is_new && self.sink.is_large()
    }

    /// Counts the bytes in the write buffer, which a flush writes. The result is dropped after the
    /// flush.
    fn count_last_write(&self) -> CountedWrite {
        // Unlike `MediaSpace::admit_write`, this never refuses the write. The bytes have been
        // received, and they fit into one write buffer. Small media is not counted here, because
        // the ledger counts it when it stores it.
        let is_counted = self.sink.is_for_vault();
        self.space.count_write(if is_counted {
            self.sink.buffered_len() as u64
        } else {
            0
        })
    }
}
