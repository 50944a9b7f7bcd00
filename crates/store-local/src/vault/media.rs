//! Open media: the writing and the reading end.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use windlass_store::{Cause, Failpoint, MediaId, MediaReader, MediaWriter, VaultError};

use super::direct::MediaFile;
use super::io_pools::BlockingPool;
use super::write_back::WriteBack;
use super::write_fence::WriteFence;
use super::{Shared, shorter, unreadable};
use crate::{Durability, filesystem};

/// The writing end.
#[derive(Debug)]
pub(super) struct LocalWriter {
    id: MediaId,
    file: Arc<MediaFile>,
    fence: Arc<WriteFence>,
    shared: Arc<Shared>,
    write_back: Arc<WriteBack>,
}

impl LocalWriter {
    pub(super) fn new(
        id: MediaId,
        file: File,
        fence: Arc<WriteFence>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            id,
            file: Arc::new(MediaFile::new(file, shared.writes)),
            fence,
            shared,
            write_back: Arc::default(),
        }
    }

    /// The write, for a thread that may block. Tells how much of it is in the page cache.
    fn writing(
        &self,
        offset: u64,
        data: Vec<Bytes>,
    ) -> impl FnOnce() -> Result<u64, VaultError> + Send + 'static {
        let (id, file, fence) = (self.id, Arc::clone(&self.file), Arc::clone(&self.fence));
        let shared = Arc::clone(&self.shared);
        move || match fence.pass(|| file.write_all_at(&data, offset)) {
            None => Err(VaultError::superseded(id)),
            Some(Ok(cached)) => {
                Failpoint::DataWritten.reach();
                Ok(cached)
            }
            Some(Err(stopped)) if filesystem::is_out_of_space(&stopped.error) => {
                Err(VaultError::NoSpace {
                    written: stopped.written,
                })
            }
            // What the disk did to the bytes before, nobody knows.
            Some(Err(stopped)) => Err(shared.fail(stopped.error)),
        }
    }

    /// The sync, for a thread that may block.
    fn syncing(&self) -> impl FnOnce() -> Result<(), VaultError> + Send + 'static {
        let (id, file) = (self.id, Arc::clone(&self.file));
        let (shared, write_back) = (Arc::clone(&self.shared), Arc::clone(&self.write_back));
        move || {
            write_back.reset();
            shared.sync_data(id, file.as_file(), &write_back)
        }
    }

    /// Sends what the page cache has to the disk when there is enough of it. A sync that fails is the end of all
    /// syncs, so anyone who wants to acknowledge these bytes will learn of it.
    fn write_back(&self, cached: u64) {
        if self.shared.durability == Durability::Os || !self.write_back.is_due(cached) {
            return;
        }
        let (file, shared) = (Arc::clone(&self.file), Arc::clone(&self.shared));
        let write_back = Arc::clone(&self.write_back);
        let begun = self.shared.io_pools.write_back.begin(move || {
            write_back.run(move || {
                shared
                    .durably(|| filesystem::sync_data(file.as_file()))
                    .ok();
            });
        });
        if !begun {
            self.write_back.postpone();
        }
    }
}

#[async_trait]
impl MediaWriter for LocalWriter {
    async fn write(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let io_pools = &self.shared.io_pools;
        let lane = if self.file.goes_direct(&data, offset) {
            &io_pools.direct
        } else {
            &io_pools.write
        };
        let written = lane.run(self.writing(offset, data)).await;
        let cached = written.unwrap_or_else(fault)?;
        self.write_back(cached);
        Ok(())
    }

    async fn sync(&self) -> Result<(), VaultError> {
        let synced = self.shared.io_pools.sync.run(self.syncing()).await;
        synced.unwrap_or_else(fault)
    }

    /// Both in one stay on a thread.
    async fn write_and_sync(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let (write, sync) = (self.writing(offset, data), self.syncing());
        let work = || write().and_then(|_| sync());
        let synced = self.shared.io_pools.sync.run(work).await;
        synced.unwrap_or_else(fault)
    }
}

fn fault<T>(cause: Cause) -> Result<T, VaultError> {
    Err(VaultError::Fault(cause))
}

/// The reading end. It keeps its descriptor, so it outlives the media's name.
#[derive(Debug)]
pub(super) struct LocalReader {
    pub(super) id: MediaId,
    pub(super) file: Arc<File>,
    pub(super) rest: Range<u64>,
    pub(super) lane: BlockingPool,
}

#[async_trait]
impl MediaReader for LocalReader {
    async fn next(&mut self, most: usize) -> Result<Bytes, VaultError> {
        let (file, offset) = (Arc::clone(&self.file), self.rest.start);
        let len = self.rest.end.saturating_sub(offset).min(most as u64);
        if len == 0 {
            return Ok(Bytes::new());
        }
        let len = usize::try_from(len).expect("it is at most `most`");
        let work = move || filesystem::read_at(&file, offset, len);
        let read = self
            .lane
            .run(work)
            .await
            .map_err(|cause| unreadable(self.id, cause))?;
        let read = read.map_err(|error| unreadable(self.id, Arc::new(error)))?;
        if read.len() < len {
            return Err(shorter(self.id));
        }
        self.rest.start += read.len() as u64;
        Ok(read.into())
    }
}
