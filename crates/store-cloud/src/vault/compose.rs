//! Puts bytes together in one object.

use std::num::NonZeroU64;
use std::ops::Range;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::PutPayload;
use object_store::multipart::PartId;
use object_store::path::Path;
use windlass_store::{MediaId, VaultError};

use super::objects::{self, Objects};
use super::sources::{Source, index};

/// Number of parts that are read and written at the same time. Each is in memory as a whole.
const PARALLEL: usize = 4;

/// Maximum number of parts of an object.
const MAX_PARTS: u64 = 10_000;

/// Writes sources one after another as one object. Returns its handle. After each part `copied` is
/// called with its length.
///
/// On an error nothing has the handle. If an object has it nevertheless, the sweep deletes it.
pub(super) async fn compose(
    objects: &Objects,
    media: MediaId,
    sources: &[Source],
    part: NonZeroU64,
    copied: &(dyn Fn(u64) + Send + Sync),
) -> Result<Bytes, VaultError> {
    let handle = objects::new_handle();
    let len: u64 = sources.iter().map(Source::len).sum();
    let part = part.get().max(len.div_ceil(MAX_PARTS));
    if len <= part {
        let bytes = read(objects, sources, 0..len).await?;
        objects.put(media, &handle, bytes).await?;
        copied(len);
        return Ok(handle);
    }
    let path = objects.path(media, &handle);
    let unavailable = |error| objects::unavailable(media, error);
    let upload = objects.store.create_multipart(&path).await;
    let upload = upload.map_err(unavailable)?;
    match write_parts(objects, sources, (&path, &upload), part, copied).await {
        Ok(parts) => {
            let completed = objects.store.complete_multipart(&path, &upload, parts);
            completed.await.map_err(unavailable)?;
            Ok(handle)
        }
        Err(error) => {
            // If this fails, too, the store deletes the upload some days later.
            let _ = objects.store.abort_multipart(&path, &upload).await;
            Err(match error {
                PartError::Source(error) => error,
                PartError::Store(error) => unavailable(error),
            })
        }
    }
}

/// Why a part was not written.
enum PartError {
    Source(VaultError),
    Store(object_store::Error),
}

async fn write_parts(
    objects: &Objects,
    sources: &[Source],
    (path, upload): (&Path, &String),
    part: u64,
    copied: &(dyn Fn(u64) + Send + Sync),
) -> Result<Vec<PartId>, PartError> {
    let len: u64 = sources.iter().map(Source::len).sum();
    let parts = (0..len.div_ceil(part)).map(|n| async move {
        let range = n * part..len.min((n + 1) * part);
        let bytes = read(objects, sources, range.clone()).await;
        let bytes = bytes.map_err(PartError::Source)?;
        let written = objects.store.put_part(path, upload, index(n), bytes).await;
        let id = written.map_err(PartError::Store)?;
        copied(range.end - range.start);
        Ok(id)
    });
    stream::iter(parts).buffered(PARALLEL).try_collect().await
}

/// Reads a range of the bytes of all sources.
async fn read(
    objects: &Objects,
    sources: &[Source],
    range: Range<u64>,
) -> Result<PutPayload, VaultError> {
    let mut at = 0;
    let mut bytes = Vec::new();
    for source in sources {
        let (start, end) = (at, at + source.len());
        at = end;
        let own = range.start.max(start)..range.end.min(end);
        // An empty source must be there, too.
        if !own.is_empty() || source.len() == 0 && range.contains(&start) {
            let own = own.start - start..own.end.max(own.start) - start;
            bytes.push(source.read(objects, own).await?);
        }
    }
    Ok(bytes.into_iter().collect())
}
