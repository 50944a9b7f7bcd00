//! The way of media bytes from a request to a durable place.
//!
//! Bytes are collected in a [`WriteBuffer`], checksummed, and written while the next ones are read. As
//! long as there are few of them they stay in memory, to be kept in the ledger; the first byte too
//! many opens a media in the vault.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_proto::digest::{Digests, Md5Sha256Hasher, Wanted};
use windlass_store::{
    Ledger, MediaId, MediaLocation, MediaRef, MediaWriter, Progress, READ_LEN, Timestamp, Vault,
    VaultError,
};

use super::write_buffer::{MODEST_BUFFER, SMALL_BUFFER, WriteBuffer};
use crate::capacity::Pool;
use crate::error::Error;
use crate::identifiers::{new_media_id, new_small_media_id};
use crate::uploads::checksums::RunningChecksum;
use crate::uploads::checksums::{BackgroundHasher, hash};
use crate::uploads::write_buffer::{BufferPool, Priority};

/// What a sink needs of the server.
#[derive(Clone)]
pub(crate) struct SinkDeps {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) buffer_pool: BufferPool,
    /// For files that are open for a look.
    pub(crate) media_reads: Pool,
    /// Media up to this length stays in the ledger.
    pub(crate) small_media: usize,
    /// When the request came.
    pub(crate) now: Timestamp,
}

/// Takes the bytes of one media.
pub(crate) struct MediaSink {
    sink_deps: SinkDeps,
    write_buffer: WriteBuffer,
    /// What is written or on its way, as of the end of the last batch.
    sent: RunningChecksum,
    /// What has been pushed, including what is still in the batch.
    taken: RunningChecksum,
    /// Whether it is known beforehand that the media is too large for the ledger.
    known_large: bool,
    /// The media's name as long as it is small.
    small_id: MediaId,
    /// `None` while the media is small.
    vault_media: Option<VaultMedia>,
    writing: Option<Box<Writing>>,
    slow: BackgroundHasher,
}

/// Media in the vault that is open for writing.
#[derive(Debug, Clone)]
pub(crate) struct VaultMedia {
    id: MediaId,
    writer: Arc<dyn MediaWriter>,
}

/// A batch on its way to the vault.
struct Writing {
    task: JoinHandle<Result<(), WriteFailed>>,
    from: RunningChecksum,
    to: RunningChecksum,
    /// Whether it is to be committed, after a sync that somebody else sees to.
    checkpoint: bool,
}

/// A batch that was not written or not synced, and its pieces: what was written of them may still count.
struct WriteFailed {
    error: VaultError,
    pieces: Vec<Bytes>,
}

/// Writes a batch, and lets go of its memory.
async fn write_out(
    writer: &dyn MediaWriter,
    offset: u64,
    pieces: Vec<Bytes>,
) -> Result<(), WriteFailed> {
    let written = writer.write(offset, pieces.clone()).await;
    written.map_err(|error| WriteFailed { error, pieces })
}

/// As [`write_out`], and syncs what was written, with all that was written before.
async fn write_out_and_sync(
    writer: &dyn MediaWriter,
    offset: u64,
    pieces: Vec<Bytes>,
) -> Result<(), WriteFailed> {
    let synced = writer.write_and_sync(offset, pieces.clone()).await;
    synced.map_err(|error| WriteFailed { error, pieces })
}

/// Bytes that can be committed as soon as they are synced.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) progress: Progress,
    writer: Arc<dyn MediaWriter>,
}

impl Checkpoint {
    /// Makes the bytes durable and returns what may be committed.
    pub(crate) async fn sync(self) -> Result<Progress, VaultError> {
        self.writer.sync().await?;
        Ok(self.progress)
    }
}

/// Everything that was taken, durable (or, small media, ready to be committed with the ledger).
#[derive(Debug, Clone)]
pub(crate) struct FlushedMedia {
    pub(crate) progress: Progress,
    pub(crate) small_media: Option<Bytes>,
}

impl MediaSink {
    /// A sink for a new media.
    pub(crate) fn new(sink_deps: SinkDeps, wanted: Wanted) -> Self {
        let start = RunningChecksum::start();
        Self {
            small_id: new_small_media_id(sink_deps.now),
            sink_deps,
            write_buffer: WriteBuffer::default(),
            sent: start.clone(),
            taken: start,
            known_large: false,
            vault_media: None,
            writing: None,
            slow: BackgroundHasher::new(wanted),
        }
    }

    /// A sink that goes on where `progress` ends, with its media if that is `open` still. Else
    /// recovery happens here: what lies behind the committed offset is cut off, and the last
    /// committed stretch is checked.
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
                sink.keep(bytes);
            }
            Some(MediaRef {
                id,
                location: MediaLocation::Vault,
            }) => {
                let media = match open.filter(|open| open.id == id) {
                    Some(open) => open,
                    None => sink.reopen(id, progress).await?,
                };
                sink.vault_media = Some(media);
                sink.sent = RunningChecksum::at(progress.offset, progress.crc32c);
                sink.taken = sink.sent.clone();
                sink.slow = BackgroundHasher::restore(wanted, &progress.slow_digests);
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

    /// The media that is open in the vault, for who goes on with it.
    pub(crate) fn into_open(self) -> Option<VaultMedia> {
        self.vault_media
    }

    /// Notes how long the media will be, where that is known.
    pub(crate) fn expect(&mut self, total: Option<u64>) {
        let small = self.sink_deps.small_media as u64;
        self.known_large = total.is_some_and(|total| total > small);
    }

    /// How many bytes were taken in all: the offset behind them.
    pub(crate) fn offset(&self) -> u64 {
        self.taken.offset
    }

    /// Takes as much of `data` as fits into the batch.
    pub(crate) fn take(&mut self, data: &mut Bytes) {
        let room = self.write_buffer.room(self.unpooled(), self.sent.offset);
        let piece = data.split_to(room.min(data.len()));
        self.keep(piece);
    }

    /// How many bytes the next [`MediaSink::write`] writes.
    pub(crate) fn waiting(&self) -> usize {
        self.write_buffer.len()
    }

    /// Whether what was taken is too large for the ledger.
    pub(crate) fn is_for_vault(&self) -> bool {
        self.vault_media.is_some() || self.write_buffer.len() > self.sink_deps.small_media
    }

    /// Whether the media will be too large for the ledger, as far as is known.
    pub(crate) fn is_large(&self) -> bool {
        self.known_large || self.is_for_vault()
    }

    /// Whether there is something that will go to the vault in any case.
    pub(crate) fn can_write(&self) -> bool {
        self.waiting() > 0 && self.is_large()
    }

    /// Whether more fits before a [`MediaSink::write`]. Takes the memory that is needed for it. What is full without
    /// it is to be written at once: a thousand slow uploads must not each hold as much as they may.
    pub(crate) fn has_room(&mut self) -> bool {
        let unpooled = self.unpooled();
        if self.write_buffer.needs_pooled(unpooled) {
            let priority = match self.writing {
                None => Priority::First,
                Some(_) => Priority::Second,
            };
            if let Some(pooled) = self.sink_deps.buffer_pool.pooled(priority) {
                self.write_buffer.move_to(pooled);
            }
        }
        self.write_buffer.room(unpooled, self.sent.offset) > 0
    }

    /// Whether a [`Checkpoint`] is to be handed out as soon as it has been written.
    pub(crate) fn owes_checkpoint(&self) -> bool {
        self.writing
            .as_ref()
            .is_some_and(|writing| writing.checkpoint)
    }

    /// Starts to write what was taken, after waiting for the write before it. What has no block is also waited for: it is
    /// a piece of what the connection read, and an upload that read on meanwhile would hold that twice. With `checkpoint`,
    /// what is written now can be committed once it is there: the next call hands the
    /// [`Checkpoint`] out, unless [`MediaSink::flush_and_sync`] comes first and covers it. When nothing is left to be
    /// written, this one hands out that of the write before.
    pub(crate) async fn write(&mut self, checkpoint: bool) -> Result<Option<Checkpoint>, Error> {
        if checkpoint && self.waiting() == 0 {
            self.add_checkpoint();
        }
        let record_write = self.await_write().await?;
        if self.write_buffer.len() == 0 {
            return Ok(record_write);
        }
        let is_pooled = self.write_buffer.is_pooled();
        self.send(checkpoint).await?;
        if is_pooled {
            return Ok(record_write);
        }
        Ok(self.await_write().await?.or(record_write))
    }

    /// Lets the write on its way, after which nothing was taken, be committed.
    fn add_checkpoint(&mut self) {
        if let Some(writing) = &mut self.writing
            && !writing.checkpoint
        {
            writing.checkpoint = true;
            self.taken.begin_extent();
            self.sent.begin_extent();
        }
    }

    /// Starts to write the batch. None must be on its way.
    async fn send(&mut self, checkpoint: bool) -> Result<(), Error> {
        let media = self.vault_media().await?;
        let is_large = self.waiting() > self.unpooled();
        let (from, pieces) = self.seal().await;
        let offset = from.offset;
        let write = async move { write_out(&*media.writer, offset, pieces).await };
        self.writing = Some(Box::new(Writing {
            task: tokio::spawn(write),
            from,
            to: self.taken.clone(),
            checkpoint,
        }));
        if checkpoint {
            self.taken.begin_extent();
            self.sent.begin_extent();
        }
        if is_large {
            // The disk is to be busy before more is read: else the write might begin when the next batch is full.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The batch, which counts as sent, and where it begins.
    async fn seal(&mut self) -> (RunningChecksum, Vec<Bytes>) {
        let from = std::mem::replace(&mut self.sent, self.taken.clone());
        let pieces = self.write_buffer.seal();
        self.slow.update(pieces.clone()).await;
        (from, pieces)
    }

    /// Brings everything to its place and makes it durable. Returns what may now be committed.
    pub(crate) async fn flush_and_sync(&mut self) -> Result<FlushedMedia, Error> {
        // What an earlier checkpoint would have committed is committed by this one.
        self.await_write().await?;
        if !self.is_for_vault() {
            return Ok(self.take_small().await);
        }
        let media = self.vault_media().await?;
        if self.write_buffer.len() > 0 {
            let (from, pieces) = self.seal().await;
            let written = write_out_and_sync(&*media.writer, from.offset, pieces).await;
            self.record_write(written, from)?;
        } else {
            media.writer.sync().await?;
        }
        Ok(FlushedMedia {
            progress: self.progress(&self.taken.clone(), media.id).await,
            small_media: None,
        })
    }

    /// The digests of everything that was taken. Those that are not known are computed from the
    /// stored media.
    pub(crate) async fn digests(&mut self, wanted: Wanted) -> Result<Digests, Error> {
        let (md5, sha256) = match self.slow.take().await {
            Some(hasher) if hasher.wanted().or(wanted) == hasher.wanted() => hasher.finish(),
            _ if wanted == Wanted::default() => (None, None),
            _ => self.read_back(wanted).await?.finish(),
        };
        Ok(Digests {
            crc32c: self.taken.crc32c(),
            md5,
            sha256,
        })
    }

    /// Waits for the write on its way, whatever becomes of it: its bytes must not come after those of another writer.
    pub(crate) async fn stop_writing(&mut self) {
        if let Some(writing) = self.writing.take() {
            writing.task.await.ok();
        }
    }

    /// Forgets the media. What is in the vault is deleted.
    pub(crate) async fn discard(&mut self) {
        self.stop_writing().await;
        if let Some(media) = self.vault_media.take()
            && let Err(error) = self.sink_deps.vault.delete(media.id).await
        {
            tracing::warn!(media = %media.id, %error, "left for the sweep to delete");
        }
    }

    /// How much a batch may hold without a block.
    fn unpooled(&self) -> usize {
        if self.known_large || self.vault_media.is_some() {
            MODEST_BUFFER
        } else {
            SMALL_BUFFER
        }
    }

    fn keep(&mut self, data: Bytes) {
        self.taken.advance(&data);
        self.write_buffer.push(data);
    }

    async fn vault_media(&mut self) -> Result<VaultMedia, Error> {
        if let Some(media) = &self.vault_media {
            return Ok(media.clone());
        }
        let id = new_media_id();
        let writer = Arc::from(self.sink_deps.vault.create(id).await?);
        Ok(self.vault_media.insert(VaultMedia { id, writer }).clone())
    }

    /// Waits for the write on its way, and hands out the [`Checkpoint`] that it may have been for.
    pub(crate) async fn await_write(&mut self) -> Result<Option<Checkpoint>, Error> {
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
        if writing.checkpoint {
            return Ok(Some(self.checkpoint(&writing.to).await));
        }
        Ok(None)
    }

    /// What becomes of a batch that began at `from`.
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

    async fn checkpoint(&mut self, at: &RunningChecksum) -> Checkpoint {
        let media = self.vault_media.clone().expect("a batch was written to it");
        Checkpoint {
            progress: self.progress(at, media.id).await,
            writer: media.writer,
        }
    }

    /// After a full disk: everything behind the bytes that were written is forgotten.
    fn rewind_to(&mut self, from: RunningChecksum, pieces: &[Bytes], written: u64) {
        let mut mark = from;
        let mut left = usize::try_from(written).unwrap_or(usize::MAX);
        for piece in pieces {
            let kept = left.min(piece.len());
            mark.advance(&piece[..kept]);
            left -= kept;
        }
        drop(self.write_buffer.seal());
        self.sent = mark.clone();
        self.taken = mark;
        self.slow.invalidate();
    }

    async fn take_small(&mut self) -> FlushedMedia {
        let bytes = self.write_buffer.concat();
        self.slow.update(vec![bytes.clone()]).await;
        self.sent = self.taken.clone();
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

    async fn progress(&mut self, at: &RunningChecksum, id: MediaId) -> Progress {
        Progress {
            offset: at.offset,
            total: None,
            crc32c: at.crc32c(),
            slow_digests: self.slow.save().await,
            media: Some(MediaRef {
                id,
                location: MediaLocation::Vault,
            }),
            extent: Some(at.extent()),
        }
    }

    async fn read_back(&self, wanted: Wanted) -> Result<Box<Md5Sha256Hasher>, Error> {
        let media = self
            .vault_media
            .as_ref()
            .expect("small media is hashed in line");
        let mut hasher = Box::new(Md5Sha256Hasher::new(wanted));
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
            let task = tokio::task::spawn_blocking(move || hash(hasher, &[piece]));
            hasher = task
                .await
                .map_err(|panic| VaultError::Fault(Arc::new(panic)))?;
        }
    }
}

#[cfg(test)]
mod tests;
