//! The digests of the media, put together from what passed and what has to be read once more.

use std::io;
use std::ops::Range;

use futures_util::TryStreamExt as _;
use windlass_proto::digest::{Crc32c, Crc32cHasher, Md5, Md5Sha256Hasher, Wanted};

use crate::checksum::RunningChecksum;
use crate::source::{Media, SourceError};

/// The CRC32C of all media; `None` when a part did not pass and cannot be read again.
pub(super) async fn crc32c(
    media: &Media,
    transferred: &RunningChecksum,
    size: u64,
) -> Result<Option<Crc32c>, SourceError> {
    let (range, digest) = transferred.covered();
    let before = match of_range(media, 0..range.start).await? {
        Some(before) => before.combine(digest, range.end - range.start),
        None => return Ok(None),
    };
    let after = of_range(media, range.end..size).await?;
    Ok(after.map(|after| before.combine(after, size - range.end.min(size))))
}

async fn of_range(media: &Media, range: Range<u64>) -> Result<Option<Crc32c>, SourceError> {
    let mut hasher = Crc32cHasher::default();
    if range.is_empty() {
        return Ok(Some(hasher.value()));
    }
    let complete = again(media, range, |bytes| hasher.update(bytes)).await?;
    Ok(complete.then(|| hasher.value()))
}

/// The MD5 of media that can be read again; of other media it is not known.
pub(super) async fn md5(media: &Media, size: u64) -> Result<Option<Md5>, SourceError> {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: false,
    });
    let complete = again(media, 0..size, |bytes| hasher.update(bytes)).await?;
    Ok(hasher.finish().0.filter(|_| complete))
}

/// Reads a range once more; `false` when it is not kept.
async fn again(
    media: &Media,
    range: Range<u64>,
    mut take: impl FnMut(&[u8]),
) -> Result<bool, SourceError> {
    if media.window().is_some() {
        return Ok(false);
    }
    let read = media.read(range).try_for_each(|bytes| {
        take(&bytes);
        std::future::ready(io::Result::Ok(()))
    });
    read.await.map_err(|error| media.cannot_read(error))?;
    Ok(true)
}
