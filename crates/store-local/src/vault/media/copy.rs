//! Media that is made of other media. The file system copies, so that the bytes do not pass through
//! the memory of the process.
//!
//! A copy may be of many GiB. It proceeds in slices. Each slice occupies one thread and opens its
//! source again. All copies together therefore hold no more threads and open sources than their
//! pool is wide, and end soon after nobody waits for them any more.

use std::fs::File;
use std::sync::Arc;

use windlass_store::{Failpoint, MediaId, MediaWriter as _, Part, SyncTarget, VaultError};

use super::{IoMode, LocalWriter, MediaFile, Write, fault};
use crate::filesystem::{self, CopyFailed};
use crate::vault::{out_of_reach, shorter};

/// Number of bytes that one thread copies before the next one in the queue gets it.
const SLICE: u64 = 8 * 1024 * 1024;

/// A slice of a source, and where it goes.
#[derive(Debug, Clone, Copy)]
struct Slice {
    source: MediaId,
    /// Number of bytes of the source that count.
    source_length: u64,
    from: u64,
    to: u64,
    len: u64,
}

impl LocalWriter {
    /// Writes the parts one after another, and makes them durable. Calls `copied` after each step
    /// with its number of bytes.
    pub(in crate::vault) async fn fill(
        &self,
        parts: Vec<Part>,
        copied: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), VaultError> {
        let mut to = 0;
        for part in parts {
            match part {
                Part::Bytes(bytes) => {
                    let len = bytes.len() as u64;
                    self.append(to, vec![bytes]).await?;
                    copied(len);
                    to += len;
                }
                Part::Media { media, length } => {
                    self.copy(media.media, length, to, copied).await?;
                    to += length;
                }
            }
        }
        self.sync(SyncTarget::end(to)).await
    }

    /// Copies all of a source to the offset `to`.
    async fn copy(
        &self,
        source: MediaId,
        source_length: u64,
        to: u64,
        copied: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), VaultError> {
        let mut from = 0;
        loop {
            let slice = Slice {
                source,
                source_length,
                from,
                to: to + from,
                len: SLICE.min(source_length - from),
            };
            // Also an empty one, which finds out whether the source is there.
            let done = self.shared.io_pools.copy.run(self.copying(slice)).await;
            done.unwrap_or_else(fault)?;
            self.write_back(slice.len);
            copied(slice.len);
            from += slice.len;
            if from == source_length {
                return Ok(());
            }
        }
    }

    /// Returns the copy of a slice as a closure for a thread that may block.
    fn copying(&self, slice: Slice) -> impl FnOnce() -> Result<(), VaultError> + Send + 'static {
        let (id, file, fence) = (self.id, Arc::clone(&self.file), Arc::clone(&self.fence));
        let shared = Arc::clone(&self.shared);
        move || {
            let source = shared.read(slice.source, 0..slice.source_length)?.file;
            match fence.with(|| file.copy_from(&source, slice)) {
                None => Err(VaultError::superseded(id)),
                Some(Ok(())) => {
                    Failpoint::DataWritten.reach();
                    Ok(())
                }
                Some(Err(CopyFailed::Source(error))) => Err(out_of_reach(slice.source, error)),
                Some(Err(CopyFailed::SourceEnded)) => Err(shorter(slice.source)),
                Some(Err(CopyFailed::Target(error))) if filesystem::is_out_of_space(&error) => {
                    Err(VaultError::NoSpace { written: 0 })
                }
                // A fault, as after a failed write.
                Some(Err(CopyFailed::Target(error))) => Err(shared.fail(error)),
            }
        }
    }
}

impl MediaFile {
    /// Copies a slice through the page cache.
    fn copy_from(&self, source: &File, slice: Slice) -> Result<(), CopyFailed> {
        // Held during the copy: a write in parallel would change the mode of the descriptor.
        let mut write = Write::begin(self, slice.to);
        let mode = write.set_mode(IoMode::Cached);
        mode.map_err(CopyFailed::Target)?;
        filesystem::copy_range(source, slice.from, &self.file, slice.to, slice.len)
    }
}
