//! The path of media bytes from a request to durable storage.
//!
//! A [`MediaSink`] collects bytes in a `WriteBuffer` and computes their checksums. A task writes
//! the bytes of one full buffer to the vault while the next ones are collected. The first write
//! creates the media in the vault. Small media stays in the buffer, and its request commits it to
//! the ledger.

use std::fmt;
use std::mem;
use std::num::NonZeroU64;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_digest::{Digests, Md5Sha256Hasher, Wanted};
use windlass_store::{
    ExpectedSize, ExtentChanges, Ledger, MediaId, MediaLocation, MediaRef, MediaWriter, Progress,
    StoredExtent, StoredMedia, StoredName, SyncTarget, Timestamp, Vault, VaultError,
};

use crate::checksums::{BackgroundHasher, RunningChecksum, hash};
use crate::error::Error;
use crate::identifiers::{new_media_id, new_small_media_id};
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
    /// What is known of the length of the media.
    expected: ExpectedSize,
    /// Id of the media in the ledger if it stays small.
    small_id: MediaId,
    place: Place,
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

/// Where the bytes of a sink's media are.
#[derive(Debug)]
enum Place {
    /// In the write buffer. Nothing is in the vault yet.
    Buffer,
    /// In the vault, where more can be appended.
    Open(VaultMedia),
    /// In the vault, complete and committed. Nothing is appended.
    Complete(MediaId),
}

/// The bytes of one write buffer on their way to the vault.
struct RunningWrite {
    task: JoinHandle<Result<(), WriteFailed>>,
    /// Where it writes.
    media: VaultMedia,
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
    let written = media_writer.append(offset, slices.clone()).await;
    written.map_err(|error| WriteFailed { error, slices })
}

/// As [`write_out`], and syncs the media, including all earlier writes.
async fn write_out_and_sync(
    media_writer: &dyn MediaWriter,
    offset: u64,
    slices: Vec<Bytes>,
    target: SyncTarget,
) -> Result<(), WriteFailed> {
    // One call, so that both happen in one task on a blocking thread.
    let synced = media_writer
        .append_and_sync(offset, slices.clone(), target)
        .await;
    synced.map_err(|error| WriteFailed { error, slices })
}

/// The progress after a write to the vault. It may be committed once the media is synced.
#[derive(Debug)]
pub(crate) struct UnsyncedProgress {
    progress: Progress,
    media_writer: Arc<dyn MediaWriter>,
}

impl UnsyncedProgress {
    /// Makes the written bytes durable. Returns the progress that may now be committed, and the
    /// changes of extents that have to be committed with it.
    pub(crate) async fn sync(self) -> Result<(Progress, ExtentChanges), VaultError> {
        let target = SyncTarget::at(self.progress.offset);
        self.media_writer.sync(target).await?;
        Ok((self.progress, self.media_writer.take_changes()))
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

/// Deletes what no row names. If that fails, the sweep deletes it later.
pub(crate) async fn delete_unnamed(vault: &dyn Vault, name: &StoredName) {
    if let Err(error) = vault.delete(name).await {
        tracing::warn!(media = %name.media, %error, "left for the sweep to delete");
    }
}

/// Whether a sink opens media of the vault for writing.
pub(crate) enum Reopen<'a> {
    /// No: it is complete.
    Never,
    /// Unless it is open already.
    Unless(Option<VaultMedia>, &'a StoredMedia),
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
            expected: ExpectedSize::default(),
            place: Place::Buffer,
            running_write: None,
            background_hasher: BackgroundHasher::new(wanted),
        }
    }

    /// Creates a sink that continues at the offset of `progress`. `open` may have the media if it is
    /// still open from the previous request. If not, the vault opens it again: it verifies the last
    /// committed extent and cuts off the bytes after the committed offset.
    pub(crate) async fn resume(
        sink_deps: SinkDeps,
        wanted: Wanted,
        progress: &Progress,
        open: Reopen<'_>,
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
                sink.place = match open {
                    Reopen::Never => Place::Complete(id),
                    // Media that is still open was written by this process, so it needs no
                    // verification.
                    Reopen::Unless(Some(open), _) if open.id == id => Place::Open(open),
                    Reopen::Unless(_, stored) => Place::Open(sink.reopen(stored).await?),
                };
                sink.buffer_start = RunningChecksum::at(progress.offset, progress.crc32c);
                sink.buffer_end = sink.buffer_start;
                // The row holds the state of the hashers of MD5 and SHA-256 at its offset.
                sink.background_hasher = BackgroundHasher::restore(wanted, &progress.slow_digests);
            }
        }
        Ok(sink)
    }

    async fn reopen(&self, stored: &StoredMedia) -> Result<VaultMedia, Error> {
        let media_writer = self.sink_deps.vault.resume(stored).await?;
        Ok(VaultMedia {
            id: stored.id,
            media_writer: Arc::from(media_writer),
        })
    }

    /// Returns the media that is open in the vault, if any, so that the next request continues with
    /// it. No write may be running.
    pub(crate) fn into_vault_media(self) -> Option<VaultMedia> {
        match self.place {
            Place::Open(media) => Some(media),
            Place::Buffer | Place::Complete(_) => None,
        }
    }

    /// Tells the sink what the vault may know of the length of the media.
    pub(crate) fn expect(&mut self, expected: ExpectedSize) {
        self.expected = expected;
    }

    /// Number of bytes between two offsets at which bytes become durable cheaply.
    pub(crate) fn boundary(&self) -> Option<NonZeroU64> {
        match &self.place {
            Place::Open(media) => media.media_writer.boundary(),
            Place::Buffer | Place::Complete(_) => None,
        }
    }

    /// Returns the name of the media in the vault, if it is there.
    pub(crate) fn vault_id(&self) -> Option<MediaId> {
        match &self.place {
            Place::Buffer => None,
            Place::Open(VaultMedia { id, .. }) | Place::Complete(id) => Some(*id),
        }
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
        let fitting = data.split_to(self.room().min(data.len()));
        self.push(fitting);
    }

    /// Number of bytes that fit before the buffer must be written. A write ends at a boundary of the
    /// vault, so that the checkpoint there is cheap.
    fn room(&self) -> usize {
        let start = self.buffer_start.offset;
        let in_memory = self.write_buffer.room(self.unpooled_limit(), start);
        let Some(boundary) = self.boundary() else {
            return in_memory;
        };
        let to_boundary = boundary.get() - start % boundary;
        let to_boundary = usize::try_from(to_boundary).unwrap_or(usize::MAX);
        in_memory.min(to_boundary.saturating_sub(self.write_buffer.len()))
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
        self.vault_id().is_some() || self.write_buffer.len() > self.sink_deps.small_media_limit
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
        self.room() > 0
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
            if wants_progress
                && earlier.is_none()
                && let Place::Open(media) = &self.place
            {
                let media = media.clone();
                return Ok(Some(self.unsynced_progress(self.buffer_end, media).await));
            }
            return Ok(earlier);
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
        let media = self.open_media().await?;
        let is_large_write = self.buffered_len() > self.unpooled_limit();
        let (from, slices) = self.drain_buffer().await;
        let offset = from.offset;
        // A task, so that the next bytes are read while these are written. The sink waits for it
        // before its next write, flush or delete. A checkpoint may sync meanwhile. If the sink is
        // dropped first, `Vault::resume` keeps the late write away, so that it cannot overwrite the
        // bytes of the next writer.
        let written_to = media.clone();
        let write = async move {
            let _until_written = until_written;
            write_out(&*media.media_writer, offset, slices).await
        };
        self.running_write = Some(Box::new(RunningWrite {
            task: tokio::spawn(write),
            media: written_to,
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
        let from = mem::replace(&mut self.buffer_start, self.buffer_end);
        let slices = self.write_buffer.drain();
        self.background_hasher.update(slices.clone()).await;
        (from, slices)
    }

    /// Writes and syncs all accepted bytes if [`Self::is_for_vault`]. Otherwise returns them for
    /// the ledger, after which the sink accepts no bytes. In both cases returns the progress that may
    /// now be committed. Its total length is not set. The caller commits the
    /// [changes](Self::take_changes) of extents with it. `is_end` tells whether the media probably
    /// ends there.
    ///
    /// # Errors
    /// The vault's. After [`VaultError::NoSpace`] or [`VaultError::Unavailable`] a second call syncs
    /// the bytes that are written.
    ///
    /// # Cancel safety
    /// Not cancel safe, as [`MediaSink::write`].
    pub(crate) async fn flush_and_sync(&mut self, is_end: bool) -> Result<FlushedMedia, Error> {
        self.await_write().await?;
        if !self.is_for_vault() {
            return Ok(self.flush_small().await);
        }
        let id = match self.place {
            Place::Complete(id) => id,
            Place::Buffer | Place::Open(_) => self.sync_media(is_end).await?,
        };
        Ok(FlushedMedia {
            progress: self.progress(self.buffer_end, id).await,
            small_bytes: None,
        })
    }

    /// Returns the changes of extents since the last call. The next commit has to name them.
    pub(crate) fn take_changes(&self) -> ExtentChanges {
        match &self.place {
            Place::Open(media) => media.media_writer.take_changes(),
            Place::Buffer | Place::Complete(_) => ExtentChanges::default(),
        }
    }

    /// Writes the buffer and syncs the media.
    async fn sync_media(&mut self, is_end: bool) -> Result<MediaId, Error> {
        let media = self.open_media().await?;
        let target = SyncTarget {
            up_to: self.buffer_end.offset,
            is_end,
        };
        if self.write_buffer.len() > 0 {
            let (from, slices) = self.drain_buffer().await;
            let writer = &*media.media_writer;
            // Not in a separate task, which would delay the acknowledgement by a wake-up.
            let written = write_out_and_sync(writer, from.offset, slices, target).await;
            self.record_write(written, from)?;
        } else {
            media.media_writer.sync(target).await?;
        }
        Ok(media.id)
    }

    /// Returns the digests of all accepted bytes. `flushed` is the result of their flush. `None` if
    /// a wanted digest was not computed while the bytes arrived, and they are in the vault: it has
    /// to be computed from the sealed media then.
    pub(crate) async fn digests(
        &mut self,
        wanted: Wanted,
        flushed: &FlushedMedia,
    ) -> Option<Digests> {
        let (md5, sha256) = match self.background_hasher.take_hasher().await {
            Some(hasher) if hasher.wanted().contains(wanted) => hasher.finish(),
            _ if wanted.is_none() => (None, None),
            _ => {
                let bytes = flushed.small_bytes.as_ref()?;
                let hasher = Box::new(Md5Sha256Hasher::new(wanted));
                hash(hasher, slice::from_ref(bytes)).finish()
            }
        };
        Some(Digests {
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

    /// Waits for the running write, and opens the media again with its committed bytes alone, which
    /// cuts off the others. The sink must not be used afterwards.
    pub(crate) async fn cut_off(&mut self, committed: &StoredMedia) {
        self.stop_writing().await;
        if let Place::Open(media) = mem::replace(&mut self.place, Place::Buffer) {
            drop(media);
            if let Err(error) = self.sink_deps.vault.resume(committed).await {
                tracing::debug!(%error, "bytes behind the committed ones stay for now");
            }
        }
    }

    /// Deletes the media from the vault, if it is there, with these extents. The sink must not be
    /// used afterwards.
    pub(crate) async fn discard(&mut self, extents: Vec<StoredExtent>) {
        self.stop_writing().await;
        let Place::Open(media) = mem::replace(&mut self.place, Place::Buffer) else {
            return;
        };
        let mut stored = StoredMedia::new(media.id, self.buffer_end.offset);
        stored.extents = extents;
        for name in stored.names() {
            delete_unnamed(&*self.sink_deps.vault, &name).await;
        }
    }

    /// Number of bytes that the write buffer may hold without pooled memory.
    fn unpooled_limit(&self) -> usize {
        if self.known_large || self.vault_id().is_some() {
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
    ///
    /// # Panics
    /// If the media is complete, which is a bug: nothing is written then.
    async fn open_media(&mut self) -> Result<VaultMedia, Error> {
        match &self.place {
            Place::Open(media) => return Ok(media.clone()),
            Place::Buffer => {}
            Place::Complete(id) => panic!("media {id} is complete"),
        }
        let id = new_media_id();
        let created = self.sink_deps.vault.create(id, self.expected).await?;
        let media_writer = Arc::from(created);
        let media = VaultMedia { id, media_writer };
        self.place = Place::Open(media.clone());
        Ok(media)
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
            let RunningWrite { to, media, .. } = *running;
            return Ok(Some(self.unsynced_progress(to, media).await));
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

    async fn unsynced_progress(
        &mut self,
        at: RunningChecksum,
        media: VaultMedia,
    ) -> UnsyncedProgress {
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
                expected_digests: Vec::new(),
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
            expected_digests: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
