//! The path of media bytes from a request to durable storage.
//!
//! A [`MediaSink`] collects bytes in a [`WriteBuffer`], computes their checksums, and writes one
//! batch of them while the next batch is read. Small media stays in memory and is committed to the
//! ledger. Other media is created in the vault by its first write.
//!
//! *Taken* bytes are those that the sink has accepted. *Sent* bytes are those of them that have
//! left the write buffer: they are written, or a task is writing them.

use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_proto::digest::{Digests, Md5Sha256Hasher, Wanted};
use windlass_store::{
    Ledger, MediaId, MediaLocation, MediaRef, MediaWriter, Progress, READ_LEN, Timestamp, Vault,
    VaultError,
};

use super::write_buffer::{UNPOOLED_LARGE, UNPOOLED_MAYBE_SMALL, WriteBuffer};
use crate::capacity::Pool;
use crate::error::Error;
use crate::identifiers::{new_media_id, new_small_media_id};
use crate::uploads::checksums::{BackgroundHasher, RunningChecksum, hash};
use crate::uploads::write_buffer::{BufferPool, Priority};

/// The parts of the server that a sink needs.
#[derive(Clone)]
pub(crate) struct SinkDeps {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) buffer_pool: BufferPool,
    /// Permits for files that are open for reading.
    pub(crate) media_reads: Pool,
    /// Length in bytes up to which media is kept in the ledger.
    pub(crate) small_media: usize,
    /// When the request arrived.
    pub(crate) now: Timestamp,
}

/// Takes the bytes of one upload's media and makes them durable.
pub(crate) struct MediaSink {
    sink_deps: SinkDeps,
    write_buffer: WriteBuffer,
    /// Checksum at the end of the sent bytes.
    sent: RunningChecksum,
    /// Checksum at the end of the taken bytes, which include those in the write buffer.
    taken: RunningChecksum,
    /// Whether the announced length exceeds the limit of small media.
    known_large: bool,
    /// Id of the media if it stays small.
    small_id: MediaId,
    /// `None` while the media is small.
    vault_media: Option<VaultMedia>,
    /// The running write. There is at most one.
    writing: Option<Box<Writing>>,
    /// MD5 and SHA-256, which are slower than CRC32C.
    background_hasher: BackgroundHasher,
}

/// Media in the vault that is open for writing.
#[derive(Debug, Clone)]
pub(crate) struct VaultMedia {
    id: MediaId,
    writer: Arc<dyn MediaWriter>,
}

/// A batch that is being written to the vault.
struct Writing {
    task: JoinHandle<Result<(), WriteFailed>>,
    /// Checksum at the start of the batch.
    from: RunningChecksum,
    /// Checksum at the end of the batch.
    to: RunningChecksum,
    /// Whether the caller gets a [`PendingCheckpoint`] once the batch is written.
    is_checkpoint: bool,
}

/// A failed write, with its pieces. If the disk was full, some of them are written, and their
/// checksum must be computed again.
struct WriteFailed {
    error: VaultError,
    pieces: Vec<Bytes>,
}

/// Writes a batch. Releases its memory after success; a failure returns it in [`WriteFailed`].
async fn write_out(
    writer: &dyn MediaWriter,
    offset: u64,
    pieces: Vec<Bytes>,
) -> Result<(), WriteFailed> {
    let written = writer.write(offset, pieces.clone()).await;
    written.map_err(|error| WriteFailed { error, pieces })
}

/// Writes a batch and syncs the media, including all earlier batches.
async fn write_out_and_sync(
    writer: &dyn MediaWriter,
    offset: u64,
    pieces: Vec<Bytes>,
) -> Result<(), WriteFailed> {
    // One call, so that both happen in one task on a blocking thread.
    let synced = writer.write_and_sync(offset, pieces.clone()).await;
    synced.map_err(|error| WriteFailed { error, pieces })
}

/// A checkpoint whose bytes are written, but not yet synced and committed.
#[derive(Debug)]
pub(crate) struct PendingCheckpoint {
    pub(crate) progress: Progress,
    writer: Arc<dyn MediaWriter>,
}

impl PendingCheckpoint {
    /// Makes the bytes durable and returns the progress that may then be committed.
    pub(crate) async fn sync(self) -> Result<Progress, VaultError> {
        self.writer.sync().await?;
        Ok(self.progress)
    }
}

/// The result of a flush, which covers all taken bytes.
#[derive(Debug, Clone)]
pub(crate) struct FlushedMedia {
    /// The progress that may be committed. The commit sets its extent.
    pub(crate) progress: Progress,
    /// The bytes of small media, which the commit must store in the ledger. `None` if the bytes are
    /// durable in the vault.
    pub(crate) small_media: Option<Bytes>,
}

impl MediaSink {
    /// Creates a sink for new media. Nothing is opened before the first write.
    pub(crate) fn new(sink_deps: SinkDeps, wanted: Wanted) -> Self {
        let start = RunningChecksum::default();
        Self {
            small_id: new_small_media_id(sink_deps.now),
            sink_deps,
            write_buffer: WriteBuffer::default(),
            sent: start,
            taken: start,
            known_large: false,
            vault_media: None,
            writing: None,
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
                sink.buffer(bytes);
            }
            Some(MediaRef {
                id,
                location: MediaLocation::Vault,
            }) => {
                // The cached writer itself has written these bytes, so they need no verification.
                let media = match open.filter(|open| open.id == id) {
                    Some(open) => open,
                    None => sink.reopen(id, progress).await?,
                };
                sink.vault_media = Some(media);
                sink.sent = RunningChecksum::at(progress.offset, progress.crc32c);
                sink.taken = sink.sent;
                sink.background_hasher = BackgroundHasher::restore(wanted, &progress.slow_digests);
            }
        }
        Ok(sink)
    }

    async fn reopen(&self, id: MediaId, progress: &Progress) -> Result<VaultMedia, Error> {
        let vault = &self.sink_deps.vault;
        let writer = vault.reopen(id, progress.offset, progress.extent).await?;
        Ok(VaultMedia {
            id,
            writer: Arc::from(writer),
        })
    }

    /// Returns the media that is open in the vault, if any, for the session cache.
    pub(crate) fn into_vault_media(self) -> Option<VaultMedia> {
        self.vault_media
    }

    /// Tells the sink the length of the media in bytes, or a lower bound of it, if known.
    pub(crate) fn announce_length(&mut self, total: Option<u64>) {
        let small = self.sink_deps.small_media as u64;
        self.known_large = total.is_some_and(|total| total > small);
    }

    /// Offset after all taken bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.taken.offset
    }

    /// Takes as much of `data` as fits into the write buffer.
    pub(crate) fn take(&mut self, data: &mut Bytes) {
        let room = self
            .write_buffer
            .room(self.unpooled_limit(), self.sent.offset);
        let piece = data.split_to(room.min(data.len()));
        self.buffer(piece);
    }

    /// Number of bytes in the write buffer, which the next [`MediaSink::write`] writes.
    pub(crate) fn buffered_len(&self) -> usize {
        self.write_buffer.len()
    }

    /// Whether the next write goes to the vault: the media is already there, or the taken bytes
    /// exceed the limit of small media.
    pub(crate) fn is_for_vault(&self) -> bool {
        self.vault_media.is_some() || self.write_buffer.len() > self.sink_deps.small_media
    }

    /// Whether the media is known to exceed the limit of small media, by its announced length or by
    /// the taken bytes.
    pub(crate) fn is_large(&self) -> bool {
        self.known_large || self.is_for_vault()
    }

    /// Whether the buffer has bytes that may be written to the vault before the media is complete.
    pub(crate) fn can_write(&self) -> bool {
        self.buffered_len() > 0 && self.is_large()
    }

    /// Takes a pooled buffer if one is needed and available. Returns whether more bytes fit before
    /// the next [`MediaSink::write`].
    ///
    /// If this returns false, the caller must write the buffer at once and not when the next byte
    /// arrives. Otherwise each of a thousand slow uploads could hold a full buffer.
    pub(crate) fn find_room(&mut self) -> bool {
        let unpooled = self.unpooled_limit();
        if self.write_buffer.needs_pooled(unpooled) {
            let priority = match self.writing {
                None => Priority::First,
                Some(_) => Priority::Second,
            };
            if let Some(pooled) = self.sink_deps.buffer_pool.acquire(priority) {
                self.write_buffer.move_to(pooled);
            }
        }
        self.write_buffer.room(unpooled, self.sent.offset) > 0
    }

    /// Whether the running write will return a [`PendingCheckpoint`] that the caller does not have
    /// yet.
    pub(crate) fn owes_checkpoint(&self) -> bool {
        self.writing
            .as_ref()
            .is_some_and(|writing| writing.is_checkpoint)
    }

    /// Waits for the running write, then starts to write the buffer. Returns the latest
    /// [`PendingCheckpoint`] of the writes that ended during the call, if any.
    ///
    /// If `is_checkpoint` is set:
    ///
    /// - The new write is a checkpoint. If the buffer is empty, the running write becomes one.
    /// - The new write may still be running when this returns. The next call of this method or of
    ///   [`MediaSink::await_write`] then returns its checkpoint.
    /// - [`MediaSink::flush_and_sync`] drops the checkpoint instead, because the flush covers its
    ///   bytes.
    pub(crate) async fn write(
        &mut self,
        is_checkpoint: bool,
    ) -> Result<Option<PendingCheckpoint>, Error> {
        if is_checkpoint && self.buffered_len() == 0 {
            self.add_checkpoint();
        }
        // One write at a time: after a failed write, no other may follow.
        let earlier = self.await_write().await?;
        if self.write_buffer.len() == 0 {
            return Ok(earlier);
        }
        let is_pooled = self.write_buffer.is_pooled();
        self.send(is_checkpoint).await?;
        if is_pooled {
            return Ok(earlier);
        }
        // Unpooled bytes are slices of the connection's read buffer. An upload that reads during
        // the write would hold two such buffers, which is too much memory for a thousand uploads.
        Ok(self.await_write().await?.or(earlier))
    }

    /// Makes the running write a checkpoint, if there is one.
    fn add_checkpoint(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.is_checkpoint = true;
        }
    }

    /// Starts to write the buffer. No other write may be running.
    async fn send(&mut self, is_checkpoint: bool) -> Result<(), Error> {
        let media = self.vault_media().await?;
        let is_large_batch = self.buffered_len() > self.unpooled_limit();
        let (from, pieces) = self.take_batch().await;
        let offset = from.offset;
        // A task, so that the next bytes are read while these are written. `stop_writing` or
        // `await_write` waits for the task before any other operation on the media.
        let write = async move { write_out(&*media.writer, offset, pieces).await };
        self.writing = Some(Box::new(Writing {
            task: tokio::spawn(write),
            from,
            to: self.taken,
            is_checkpoint,
        }));
        if is_large_batch {
            // Lets the runtime start the write task. A task whose socket always has bytes might not
            // yield until the next batch is full, and the disk would be idle until then.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Takes the batch out of the buffer. Returns the checksum at its start, and its pieces.
    async fn take_batch(&mut self) -> (RunningChecksum, Vec<Bytes>) {
        let from = std::mem::replace(&mut self.sent, self.taken);
        let pieces = self.write_buffer.take_all();
        self.background_hasher.update(pieces.clone()).await;
        (from, pieces)
    }

    /// Writes and syncs all taken bytes. Returns the progress that may now be committed.
    pub(crate) async fn flush_and_sync(&mut self) -> Result<FlushedMedia, Error> {
        // The checkpoint of that write is dropped: the commit after this flush covers its bytes.
        self.await_write().await?;
        if !self.is_for_vault() {
            return Ok(self.take_small().await);
        }
        let media = self.vault_media().await?;
        if self.write_buffer.len() > 0 {
            let (from, pieces) = self.take_batch().await;
            // Not in a task of its own, which would delay the acknowledgement by a wake-up.
            let written = write_out_and_sync(&*media.writer, from.offset, pieces).await;
            self.record_write(written, from)?;
        } else {
            media.writer.sync().await?;
        }
        Ok(FlushedMedia {
            progress: self.progress(self.taken, media.id).await,
            small_media: None,
        })
    }

    /// Returns the digests of all taken bytes. `flushed` is the result of their flush. If a wanted
    /// digest was not computed while the bytes arrived, it is computed from the flushed media.
    pub(crate) async fn digests(
        &mut self,
        wanted: Wanted,
        flushed: &FlushedMedia,
    ) -> Result<Digests, Error> {
        let (md5, sha256) = match self.background_hasher.take().await {
            Some(hasher) if hasher.wanted().contains(wanted) => hasher.finish(),
            _ if wanted == Wanted::default() => (None, None),
            _ => self.hash_flushed(wanted, flushed).await?.finish(),
        };
        Ok(Digests {
            crc32c: self.taken.crc32c(),
            md5,
            sha256,
        })
    }

    /// Waits for the running write and ignores its result. Afterwards this sink cannot overwrite
    /// bytes of the session's next writer.
    pub(crate) async fn stop_writing(&mut self) {
        if let Some(writing) = self.writing.take() {
            writing.task.await.ok();
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

    /// Number of bytes that the buffer may hold without memory from the pool.
    fn unpooled_limit(&self) -> usize {
        if self.known_large || self.vault_media.is_some() {
            UNPOOLED_LARGE
        } else {
            UNPOOLED_MAYBE_SMALL
        }
    }

    /// Adds bytes to the buffer.
    fn buffer(&mut self, data: Bytes) {
        self.taken.advance(&data);
        self.write_buffer.push(data);
    }

    /// Returns the media in the vault. Creates it if this is the first write.
    async fn vault_media(&mut self) -> Result<VaultMedia, Error> {
        if let Some(media) = &self.vault_media {
            return Ok(media.clone());
        }
        let id = new_media_id();
        let writer = Arc::from(self.sink_deps.vault.create(id).await?);
        Ok(self.vault_media.insert(VaultMedia { id, writer }).clone())
    }

    /// Waits for the running write and returns its [`PendingCheckpoint`], if it was one.
    ///
    /// # Errors
    /// The vault's. [`VaultError::NoSpace`] rewinds the sink to the end of the written bytes.
    pub(crate) async fn await_write(&mut self) -> Result<Option<PendingCheckpoint>, Error> {
        let Some(writing) = self.writing.take() else {
            return Ok(None);
        };
        let panicked = |panic| {
            Err(WriteFailed {
                error: VaultError::Fault(Arc::new(panic)),
                pieces: Vec::new(),
            })
        };
        let written = writing.task.await.unwrap_or_else(panicked);
        self.record_write(written, writing.from)?;
        if writing.is_checkpoint {
            return Ok(Some(self.pending_checkpoint(writing.to).await));
        }
        Ok(None)
    }

    /// Handles the result of the write of a batch that began at `from`: a full disk rewinds the
    /// sink.
    fn record_write(
        &mut self,
        written: Result<(), WriteFailed>,
        from: RunningChecksum,
    ) -> Result<(), Error> {
        written.map_err(|WriteFailed { error, pieces }| {
            if let VaultError::NoSpace { written } = error {
                self.rewind_to(from, &pieces, written);
            }
            error.into()
        })
    }

    async fn pending_checkpoint(&mut self, at: RunningChecksum) -> PendingCheckpoint {
        let media = self.vault_media.clone().expect("a batch was written to it");
        PendingCheckpoint {
            progress: self.progress(at, media.id).await,
            writer: media.writer,
        }
    }

    /// Drops all taken bytes after the first `written` bytes of a batch that began at `from`.
    fn rewind_to(&mut self, from: RunningChecksum, pieces: &[Bytes], written: u64) {
        // The checksum of the written part is computed again, because bytes cannot be removed from
        // a checksum.
        let mut checksum = from;
        let mut left = usize::try_from(written).unwrap_or(usize::MAX);
        for piece in pieces {
            let kept = left.min(piece.len());
            checksum.advance(&piece[..kept]);
            left -= kept;
        }
        drop(self.write_buffer.take_all());
        self.sent = checksum;
        self.taken = checksum;
        // MD5 and SHA-256 include dropped bytes, so they will be computed from the stored media.
        self.background_hasher.invalidate();
    }

    /// Returns all bytes of small media.
    async fn take_small(&mut self) -> FlushedMedia {
        let bytes = self.write_buffer.concat();
        self.background_hasher.update(vec![bytes.clone()]).await;
        self.sent = self.taken;
        FlushedMedia {
            progress: Progress {
                offset: self.taken.offset,
                total: None,
                crc32c: self.taken.crc32c(),
                slow_digests: Vec::new(),
                media: Some(MediaRef {
                    id: self.small_id,
                    location: MediaLocation::Ledger,
                }),
                extent: None,
            },
            small_media: Some(bytes),
        }
    }

    /// Returns the progress at the offset of a checksum of media in the vault.
    async fn progress(&mut self, at: RunningChecksum, id: MediaId) -> Progress {
        Progress {
            offset: at.offset,
            total: None,
            crc32c: at.crc32c(),
            slow_digests: self.background_hasher.save().await,
            media: Some(MediaRef {
                id,
                location: MediaLocation::Vault,
            }),
            extent: None,
        }
    }

    async fn hash_flushed(
        &self,
        wanted: Wanted,
        flushed: &FlushedMedia,
    ) -> Result<Box<Md5Sha256Hasher>, Error> {
        let hasher = Box::new(Md5Sha256Hasher::new(wanted));
        match (&flushed.small_media, &self.vault_media) {
            (Some(bytes), _) => Ok(hash(hasher, slice::from_ref(bytes))),
            (None, Some(media)) => self.read_back(media, hasher).await,
            // Nothing was taken.
            (None, None) => Ok(hasher),
        }
    }

    async fn read_back(
        &self,
        media: &VaultMedia,
        mut hasher: Box<Md5Sha256Hasher>,
    ) -> Result<Box<Md5Sha256Hasher>, Error> {
        // Without a timeout: the whole media is there, and a refusal would waste it.
        let _open = self.sink_deps.media_reads.acquire(1).await;
        let mut reader = self
            .sink_deps
            .vault
            .read(media.id, 0..self.taken.offset)
            .await?;
        loop {
            let piece = reader.next(READ_LEN).await?;
            if piece.is_empty() {
                return Ok(hasher);
            }
            // Hashing is bound by the processor and would block a worker thread of the runtime.
            let task = tokio::task::spawn_blocking(move || hash(hasher, &[piece]));
            hasher = task
                .await
                .map_err(|panic| VaultError::Fault(Arc::new(panic)))?;
        }
    }
}

#[cfg(test)]
mod tests;
