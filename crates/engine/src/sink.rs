//! The path of media bytes from a request to durable storage.
//!
//! A [`MediaSink`] collects bytes in a `WriteBuffer` and computes their checksums. A task writes
//! the bytes of one full buffer to the vault while the next ones are collected. The first write
//! creates the media in the vault. Small media stays in the buffer, and its request commits it to
//! the ledger.

use std::fmt;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_digest::{Digests, Md5Sha256Hasher, Wanted};
use windlass_store::{
    Ledger, MediaId, MediaLocation, MediaRef, MediaWriter, Progress, READ_LEN, Timestamp, Vault,
    VaultError,
};

use crate::checksums::{BackgroundHasher, RunningChecksum, hash};
use crate::error::Error;
use crate::identifiers::{new_media_id, new_small_media_id};
use crate::pool::Pool;
use crate::write_buffer::{
    BufferPool, Priority, UNPOOLED_LARGE, UNPOOLED_MAYBE_SMALL, WriteBuffer,
};

/// The parts of the server that a sink needs.
#[derive(Clone)]
pub(crate) struct SinkDeps {
    /// The store of small media.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The store of other media.
    pub(crate) vault: Arc<dyn Vault>,
    /// Memory for large writes.
    pub(crate) buffer_pool: BufferPool,
    /// Permits for files that are open for reading.
    pub(crate) media_reads: Pool,
    /// Length in bytes up to which media is kept in the ledger.
    pub(crate) small_media_limit: usize,
    /// When the sink was made.
    pub(crate) now: Timestamp,
}

impl fmt::Debug for SinkDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkDeps")
            .field("small_media_limit", &self.small_media_limit)
            .finish_non_exhaustive()
    }
}

/// Maximum length in bytes of media that may be kept in the ledger. A sink keeps small media in its
/// write buffer, which must hold it without pooled memory.
pub const MAX_SMALL_MEDIA: usize = UNPOOLED_MAYBE_SMALL;

/// Accepts the bytes of one upload's media and makes them durable.
pub(crate) struct MediaSink {
    sink_deps: SinkDeps,
    write_buffer: WriteBuffer,
    /// Offset of the first byte in the write buffer, and checksum of all bytes before it. Those are
    /// written, or a task is writing them.
    buffer_start: RunningChecksum,
    /// Offset after the last byte in the write buffer, and checksum of all accepted bytes.
    buffer_end: RunningChecksum,
    /// Whether the announced length exceeds the limit of small media.
    known_large: bool,
    /// Id of the media in the ledger if it stays small.
    small_id: MediaId,
    /// `None` before the media is created in the vault.
    vault_media: Option<VaultMedia>,
    /// The write that a task is making. There is at most one.
    running_write: Option<Box<RunningWrite>>,
    /// MD5 and SHA-256, which are slower than CRC32C.
    background_hasher: BackgroundHasher,
}

impl fmt::Debug for MediaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MediaSink")
            .field("offset", &self.buffer_end.offset)
            .finish_non_exhaustive()
    }
}

/// Media in the vault that is open for writing.
#[derive(Debug, Clone)]
pub(crate) struct VaultMedia {
    id: MediaId,
    media_writer: Arc<dyn MediaWriter>,
}

/// The bytes of one write buffer on their way to the vault.
struct RunningWrite {
    task: JoinHandle<Result<(), WriteFailed>>,
    /// Checksum at the start of the write.
    from: RunningChecksum,
    /// Checksum at its end.
    to: RunningChecksum,
    /// Whether the caller gets an [`UnsyncedProgress`] once the bytes are written.
    wants_progress: bool,
}

/// A failed write, with its bytes. If the disk was full, some of them are written, and their
/// checksum must be computed again.
struct WriteFailed {
    error: VaultError,
    slices: Vec<Bytes>,
}

/// Writes the bytes of a write buffer. Releases their memory after success; a failure returns it in
/// [`WriteFailed`].
async fn write_out(
    media_writer: &dyn MediaWriter,
    offset: u64,
    slices: Vec<Bytes>,
) -> Result<(), WriteFailed> {
    let written = media_writer.write(offset, slices.clone()).await;
    written.map_err(|error| WriteFailed { error, slices })
}

/// As [`write_out`], and syncs the media, including all earlier writes.
async fn write_out_and_sync(
    media_writer: &dyn MediaWriter,
    offset: u64,
    slices: Vec<Bytes>,
) -> Result<(), WriteFailed> {
    // One call, so that both happen in one task on a blocking thread.
    let synced = media_writer.write_and_sync(offset, slices.clone()).await;
    synced.map_err(|error| WriteFailed { error, slices })
}

/// The progress after a write to the vault. It may be committed once the media is synced.
#[derive(Debug)]
pub(crate) struct UnsyncedProgress {
    progress: Progress,
    media_writer: Arc<dyn MediaWriter>,
}

impl UnsyncedProgress {
    /// Makes the written bytes durable. Returns the progress that may now be committed.
    pub(crate) async fn sync(self) -> Result<Progress, VaultError> {
        self.media_writer.sync().await?;
        Ok(self.progress)
    }
}

/// Media that is ready for a commit. It is the result of a flush, or the committed state if a
/// request discards its bytes.
#[derive(Debug, Clone)]
pub(crate) struct FlushedMedia {
    /// The progress that may be committed. The commit sets its extent.
    pub(crate) progress: Progress,
    /// The bytes of small media, which the commit must store in the ledger. `None` if the bytes are
    /// durable already.
    pub(crate) small_bytes: Option<Bytes>,
}

impl MediaSink {
    /// Creates a sink for new media. Nothing is opened before the first write.
    pub(crate) fn new(sink_deps: SinkDeps, wanted: Wanted) -> Self {
        Self {
            small_id: new_small_media_id(sink_deps.now),
            sink_deps,
            write_buffer: WriteBuffer::default(),
            buffer_start: RunningChecksum::default(),
            buffer_end: RunningChecksum::default(),
            known_large: false,
            vault_media: None,
            running_write: None,
            background_hasher: BackgroundHasher::new(wanted),
        }
    }

    /// Creates a sink that continues at the offset of `progress`. `open` is the media if it is
    /// still open from the previous request. If not, the vault reopens it: it verifies the last
    /// committed extent and cuts off the bytes after the committed offset.
    pub(crate) async fn resume(
        sink_deps: SinkDeps,
        wanted: Wanted,
        progress: &Progress,
        open: Option<VaultMedia>,
    ) -> Result<Self, Error> {
        let mut sink = Self::new(sink_deps, wanted);
        match progress.media {
            None => {}
            Some(MediaRef {
                id,
                location: MediaLocation::Ledger,
            }) => {
                let bytes = sink.sink_deps.ledger.small_media(id).await?;
                let bytes = bytes.ok_or(Error::MediaLost(id))?;
                sink.small_id = id;
                sink.push(bytes);
            }
            Some(MediaRef {
                id,
                location: MediaLocation::Vault,
            }) => {
                // Media that is still open was written by this process, so it needs no
                // verification.
                let media = match open.filter(|open| open.id == id) {
                    Some(open) => open,
                    None => sink.reopen(id, progress).await?,
                };
                sink.vault_media = Some(media);
                sink.buffer_start = RunningChecksum::at(progress.offset, progress.crc32c);
                sink.buffer_end = sink.buffer_start;
                // The row holds the state of the hashers of MD5 and SHA-256 at its offset.
                sink.background_hasher = BackgroundHasher::restore(wanted, &progress.slow_digests);
            }
        }
        Ok(sink)
    }

    async fn reopen(&self, id: MediaId, progress: &Progress) -> Result<VaultMedia, Error> {
        let vault = &self.sink_deps.vault;
        let media_writer = vault.reopen(id, progress.offset, progress.extent).await?;
        Ok(VaultMedia {
            id,
            media_writer: Arc::from(media_writer),
        })
    }

    /// Returns the media that is open in the vault, if any, so that the next request continues with
    /// it. No write may be running.
    pub(crate) fn into_vault_media(self) -> Option<VaultMedia> {
        self.vault_media
    }

    /// Tells the sink that the media will have at least `min_length` bytes; `None` if nothing is
    /// known about its length.
    pub(crate) fn announce_length(&mut self, min_length: Option<u64>) {
        let limit = self.sink_deps.small_media_limit as u64;
        self.known_large = min_length.is_some_and(|length| length > limit);
    }

    /// Offset after all accepted bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.buffer_end.offset
    }

    /// Moves as much of `data` into the write buffer as fits.
    pub(crate) fn accept(&mut self, data: &mut Bytes) {
        let room = self
            .write_buffer
            .room(self.unpooled_limit(), self.buffer_start.offset);
        let fitting = data.split_to(room.min(data.len()));
        self.push(fitting);
    }

    /// Number of bytes in the write buffer, which the next [`MediaSink::write`] writes.
    pub(crate) fn buffered_len(&self) -> usize {
        self.write_buffer.len()
    }

    /// Whether a flush would write to the vault and not hand the bytes out for the ledger: a write
    /// has created the media in the vault, or the accepted bytes exceed the limit of small media.
    /// The announced length does not matter: while few bytes of large media have arrived, a flush
    /// hands them out as well.
    pub(crate) fn is_for_vault(&self) -> bool {
        self.vault_media.is_some() || self.write_buffer.len() > self.sink_deps.small_media_limit
    }

    /// Whether the media is known to end up in the vault: by its announced length, or because a
    /// flush would write there.
    pub(crate) fn is_large(&self) -> bool {
        self.known_large || self.is_for_vault()
    }

    /// Gets pooled memory for the write buffer if it is needed and available. Returns whether more
    /// bytes fit before the next [`MediaSink::write`].
    ///
    /// If this returns false, the caller must write the buffer at once and not when the next byte
    /// arrives. Otherwise each of a thousand slow uploads could hold a full buffer.
    pub(crate) fn find_room(&mut self) -> bool {
        let unpooled = self.unpooled_limit();
        if self.write_buffer.needs_pooled_memory(unpooled) {
            let priority = match self.running_write {
                None => Priority::High,
                Some(_) => Priority::Low,
            };
            if let Some(pooled) = self.sink_deps.buffer_pool.acquire(priority) {
                self.write_buffer.move_to(pooled);
            }
        }
        self.write_buffer.room(unpooled, self.buffer_start.offset) > 0
    }

    /// Whether the running write has a progress that the caller does not have yet.
    pub(crate) fn owes_progress(&self) -> bool {
        self.running_write
            .as_ref()
            .is_some_and(|running| running.wants_progress)
    }

    /// Waits for the running write, then writes the buffer: pooled bytes in a task, others before
    /// it returns. `until_written` is dropped when the write has ended.
    ///
    /// With `wants_progress`, the progress after this write is returned
    ///
    /// * if the buffer is empty: by this call, since all accepted bytes are written already;
    /// * if its bytes are unpooled: by this call;
    /// * if they are pooled: by the next call of `write` or [`MediaSink::await_write`], since the
    ///   write goes on in its task. This call returns the progress of the write before it, if that
    ///   is still owed.
    ///
    /// A [flush](MediaSink::flush_and_sync) does not return the progress of a write separately: its
    /// own covers those bytes.
    ///
    /// # Errors
    /// The vault's, as [`MediaSink::await_write`].
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped call loses track of its write. The sink must be dropped then.
    pub(crate) async fn write(
        &mut self,
        wants_progress: bool,
        until_written: impl Send + 'static,
    ) -> Result<Option<UnsyncedProgress>, Error> {
        // One write at a time: after a failed write, no other may follow.
        let earlier = self.await_write().await?;
        if self.write_buffer.len() == 0 {
            let is_owed = wants_progress && earlier.is_none() && self.vault_media.is_some();
            return Ok(if is_owed {
                Some(self.unsynced_progress(self.buffer_end).await)
            } else {
                earlier
            });
        }
        let is_pooled = self.write_buffer.is_pooled();
        self.start_write(wants_progress, until_written).await?;
        if is_pooled {
            return Ok(earlier);
        }
        // Most unpooled bytes are slices of the connection's read buffer. An upload that reads
        // during the write would hold two such buffers, which is too much memory for a thousand
        // uploads.
        Ok(self.await_write().await?.or(earlier))
    }

    /// Starts to write the buffer. No other write may be running.
    async fn start_write(
        &mut self,
        wants_progress: bool,
        until_written: impl Send + 'static,
    ) -> Result<(), Error> {
        let media = self.vault_media().await?;
        let is_large_write = self.buffered_len() > self.unpooled_limit();
        let (from, slices) = self.drain_buffer().await;
        let offset = from.offset;
        // A task, so that the next bytes are read while these are written. The sink waits for it
        // before its next write, flush or delete. A checkpoint may sync meanwhile. If the sink is
        // dropped first, `Vault::reopen` waits for the late write, so that it cannot overwrite the
        // bytes of the next writer.
        let write = async move {
            let _until_written = until_written;
            write_out(&*media.media_writer, offset, slices).await
        };
        self.running_write = Some(Box::new(RunningWrite {
            task: tokio::spawn(write),
            from,
            to: self.buffer_end,
            wants_progress,
        }));
        if is_large_write {
            // Lets the runtime start the write task. A task whose socket always has bytes might not
            // yield until the buffer is full again, and the disk would be idle until then.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Removes the bytes from the write buffer. Returns the checksum at their start, and the bytes.
    async fn drain_buffer(&mut self) -> (RunningChecksum, Vec<Bytes>) {
        let from = std::mem::replace(&mut self.buffer_start, self.buffer_end);
        let slices = self.write_buffer.drain();
        self.background_hasher.update(slices.clone()).await;
        (from, slices)
    }

    /// Writes and syncs all accepted bytes if [`Self::is_for_vault`]. Otherwise returns them for
    /// the ledger, after which the sink accepts no bytes. In both cases returns the progress that may
    /// now be committed. Its total length is not set.
    ///
    /// # Errors
    /// The vault's. After [`VaultError::NoSpace`] or [`VaultError::Unavailable`] a second call syncs
    /// the bytes that are written.
    ///
    /// # Cancel safety
    /// Not cancel safe, as [`MediaSink::write`].
    pub(crate) async fn flush_and_sync(&mut self) -> Result<FlushedMedia, Error> {
        self.await_write().await?;
        if !self.is_for_vault() {
            return Ok(self.flush_small().await);
        }
        let media = self.vault_media().await?;
        if self.write_buffer.len() > 0 {
            let (from, slices) = self.drain_buffer().await;
            // Not in a separate task, which would delay the acknowledgement by a wake-up.
            let written = write_out_and_sync(&*media.media_writer, from.offset, slices).await;
            self.record_write(written, from)?;
        } else {
            media.media_writer.sync().await?;
        }
        Ok(FlushedMedia {
            progress: self.progress(self.buffer_end, media.id).await,
            small_bytes: None,
        })
    }

    /// Returns the digests of all accepted bytes. `flushed` is the result of their flush. If a
    /// wanted digest was not computed while the bytes arrived, it is computed from the flushed
    /// media.
    pub(crate) async fn digests(
        &mut self,
        wanted: Wanted,
        flushed: &FlushedMedia,
    ) -> Result<Digests, Error> {
        let (md5, sha256) = match self.background_hasher.take_hasher().await {
            Some(hasher) if hasher.wanted().contains(wanted) => hasher.finish(),
            _ if wanted.is_none() => (None, None),
            _ => self.hash_flushed(wanted, flushed).await?.finish(),
        };
        Ok(Digests {
            crc32c: self.buffer_end.crc32c(),
            md5,
            sha256,
        })
    }

    /// Waits for the running write and ignores its result. Afterwards this sink cannot overwrite
    /// bytes of the session's next writer.
    pub(crate) async fn stop_writing(&mut self) {
        if let Some(running) = self.running_write.take() {
            running.task.await.ok();
        }
    }

    /// Deletes the media from the vault, if it is there. The sink must not be used afterwards.
    pub(crate) async fn discard(&mut self) {
        self.stop_writing().await;
        if let Some(media) = self.vault_media.take()
            && let Err(error) = self.sink_deps.vault.delete(media.id).await
        {
            tracing::warn!(media = %media.id, %error, "left for the sweep to delete");
        }
    }

    /// Number of bytes that the write buffer may hold without pooled memory.
    fn unpooled_limit(&self) -> usize {
        if self.known_large || self.vault_media.is_some() {
            UNPOOLED_LARGE
        } else {
            UNPOOLED_MAYBE_SMALL
        }
    }

    /// Adds bytes to the write buffer. They must fit.
    fn push(&mut self, data: Bytes) {
        self.buffer_end.advance(&data);
        self.write_buffer.push(data);
    }

    /// Returns the media in the vault. Creates it if this is the first write.
    async fn vault_media(&mut self) -> Result<VaultMedia, Error> {
        if let Some(media) = &self.vault_media {
            return Ok(media.clone());
        }
        let id = new_media_id();
        let media_writer = Arc::from(self.sink_deps.vault.create(id).await?);
        let media = VaultMedia { id, media_writer };
        Ok(self.vault_media.insert(media).clone())
    }

    /// Waits for the running write. Returns the progress after it if that is wanted.
    ///
    /// # Errors
    /// The vault's. [`VaultError::NoSpace`] and [`VaultError::Unavailable`] drop all accepted bytes
    /// that are not written.
    ///
    /// # Cancel safety
    /// Not cancel safe, as [`MediaSink::write`].
    pub(crate) async fn await_write(&mut self) -> Result<Option<UnsyncedProgress>, Error> {
        let Some(running) = self.running_write.take() else {
            return Ok(None);
        };
        let panicked = |panic| {
            Err(WriteFailed {
                error: VaultError::Fault(Arc::new(panic)),
                slices: Vec::new(),
            })
        };
        let written = running.task.await.unwrap_or_else(panicked);
        self.record_write(written, running.from)?;
        if running.wants_progress {
            return Ok(Some(self.unsynced_progress(running.to).await));
        }
        Ok(None)
    }

    /// Handles the result of a write that began at `from`. If the vault had no space or was not
    /// available, drops the bytes that are not written.
    fn record_write(
        &mut self,
        written: Result<(), WriteFailed>,
        from: RunningChecksum,
    ) -> Result<(), Error> {
        written.map_err(|WriteFailed { error, slices }| {
            match error {
                VaultError::NoSpace { written } => self.drop_unwritten(from, &slices, written),
                VaultError::Unavailable { .. } => self.drop_unwritten(from, &slices, 0),
                VaultError::Missing(_) | VaultError::Damaged { .. } | VaultError::Fault(_) => {}
            }
            error.into()
        })
    }

    async fn unsynced_progress(&mut self, at: RunningChecksum) -> UnsyncedProgress {
        let media = self.vault_media.clone().expect("bytes were written to it");
        UnsyncedProgress {
            progress: self.progress(at, media.id).await,
            media_writer: media.media_writer,
        }
    }

    /// Drops all accepted bytes after the first `written` bytes of a write of `slices` that began
    /// at `from`.
    fn drop_unwritten(&mut self, from: RunningChecksum, slices: &[Bytes], written: u64) {
        // The checksum of the written part is computed again, because bytes cannot be removed from
        // a checksum.
        let mut checksum = from;
        let mut left = usize::try_from(written).unwrap_or(usize::MAX);
        for slice in slices {
            let kept = left.min(slice.len());
            checksum.advance(&slice[..kept]);
            left -= kept;
        }
        drop(self.write_buffer.drain());
        self.buffer_start = checksum;
        self.buffer_end = checksum;
        // MD5 and SHA-256 include dropped bytes, so they will be computed from the stored media.
        self.background_hasher.invalidate();
    }

    /// Removes all bytes of small media from the write buffer and returns them with their progress.
    async fn flush_small(&mut self) -> FlushedMedia {
        let bytes = self.write_buffer.drain_to_one();
        self.background_hasher.update(vec![bytes.clone()]).await;
        self.buffer_start = self.buffer_end;
        FlushedMedia {
            progress: Progress {
                offset: self.buffer_end.offset,
                total: None,
                crc32c: self.buffer_end.crc32c(),
                // Not needed: the next request gets all bytes again from the ledger.
                slow_digests: Vec::new(),
                media: Some(MediaRef {
                    id: self.small_id,
                    location: MediaLocation::Ledger,
                }),
                extent: None,
            },
            small_bytes: Some(bytes),
        }
    }

    /// Returns the progress of media in the vault. `at` is the checksum of the bytes that have left
    /// the write buffer.
    async fn progress(&mut self, at: RunningChecksum, id: MediaId) -> Progress {
        Progress {
            offset: at.offset,
            total: None,
            crc32c: at.crc32c(),
            // The state of the hashers of MD5 and SHA-256, from which the next request continues.
            slow_digests: self.background_hasher.save().await,
            media: Some(MediaRef {
                id,
                location: MediaLocation::Vault,
            }),
            extent: None,
        }
    }

    /// Computes MD5 and SHA-256 of flushed media.
    async fn hash_flushed(
        &self,
        wanted: Wanted,
        flushed: &FlushedMedia,
    ) -> Result<Box<Md5Sha256Hasher>, Error> {
        let hasher = Box::new(Md5Sha256Hasher::new(wanted));
        match (&flushed.small_bytes, &self.vault_media) {
            (Some(bytes), _) => Ok(hash(hasher, slice::from_ref(bytes))),
            (None, Some(media)) => self.hash_stored(media, hasher).await,
            // Does not happen: a flush hands out small bytes or has media in the vault.
            (None, None) => Ok(hasher),
        }
    }

    /// Reads the media back from the vault and hashes it.
    async fn hash_stored(
        &self,
        media: &VaultMedia,
        mut hasher: Box<Md5Sha256Hasher>,
    ) -> Result<Box<Md5Sha256Hasher>, Error> {
        // Without a timeout: the whole media is there, and a refusal would waste it.
        let _permit = self.sink_deps.media_reads.acquire(1).await;
        let range = 0..self.buffer_end.offset;
        let mut reader = self.sink_deps.vault.read(media.id, range).await?;
        loop {
            let bytes = reader.next(READ_LEN).await?;
            if bytes.is_empty() {
                return Ok(hasher);
            }
            // Hashing is bound by the processor and would block a worker thread of the runtime.
            let task = tokio::task::spawn_blocking(move || hash(hasher, &[bytes]));
            hasher = task
                .await
                .map_err(|panic| VaultError::Fault(Arc::new(panic)))?;
        }
    }
}

#[cfg(test)]
mod tests;
