//! Digests of the sent media, and their comparison with the digests in the resource.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::TryStreamExt as _;
use http::HeaderMap;
use serde_json::Value;
use windlass_digest::{Crc32c, Crc32cHasher, Md5, Md5Sha256Hasher, Wanted};
use windlass_proto::header::UPLOAD_OFFSET;

use crate::source::{Media, SourceError};

/// The CRC32C of the bytes that one call of [`Client::upload`](crate::Client::upload) or
/// [`Client::resume`](crate::Client::resume) has sent, computed while it sends them.
///
/// They are one range of the media, the *covered* range. It begins at the first byte, or, if an
/// earlier call began the upload, at the offset that was committed when this call began. If a
/// request begins beyond the end of the range, because bytes that the earlier call had sent were
/// committed meanwhile (they were on their way when this call queried the offset), the range starts
/// afresh there. The bytes before it are read again at the end.
///
/// The body of the current request has a clone, which shares the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningChecksum(Arc<Mutex<CoveredRange>>);

#[derive(Debug, Default)]
struct CoveredRange {
    range: Range<u64>,
    hasher: Crc32cHasher,
}

impl RunningChecksum {
    /// Adds bytes that begin at `offset`. Bytes that are covered already, or that lie before the
    /// covered range, are ignored: a retry sends them again.
    pub(crate) fn update(&self, offset: u64, bytes: &[u8]) {
        let mut covered = self.lock();
        if offset > covered.range.end {
            *covered = CoveredRange {
                range: offset..offset,
                hasher: Crc32cHasher::default(),
            };
        }
        let known = covered.range.end.saturating_sub(offset);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        if let Some(new) = bytes.get(known..) {
            covered.hasher.update(new);
            covered.range.end += new.len() as u64;
        }
    }

    /// Returns the covered range and its digest.
    pub(crate) fn covered(&self) -> (Range<u64>, Crc32c) {
        let covered = self.lock();
        (covered.range.clone(), covered.hasher.value())
    }

    fn lock(&self) -> MutexGuard<'_, CoveredRange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The properties of the media that a resource states. A missing or malformed field is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StatedProperties {
    pub(crate) size: Option<u64>,
    pub(crate) crc32c: Option<Crc32c>,
    pub(crate) md5: Option<Md5>,
}

impl StatedProperties {
    /// Reads `size`, `crc32c` and `md5Hash` or `md5Checksum`, in the formats of Cloud Storage,
    /// Drive and Windlass. Without a size in the resource, takes the offset that the last reply of
    /// tus or the draft states.
    pub(crate) fn of(resource: Option<&Value>, last_reply: &HeaderMap) -> Self {
        let stated = resource.map(Self::of_resource).unwrap_or_default();
        let offset = || last_reply.get(UPLOAD_OFFSET)?.to_str().ok()?.parse().ok();
        Self {
            size: stated.size.or_else(offset),
            ..stated
        }
    }

    fn of_resource(resource: &Value) -> Self {
        let text = |name: &str| resource[name].as_str();
        let size = match &resource["size"] {
            Value::String(digits) => digits.parse().ok(),
            size => size.as_u64(),
        };
        let md5 = text("md5Hash").or(text("md5Checksum"));
        Self {
            size,
            crc32c: text("crc32c").and_then(|text| text.parse().ok()),
            md5: md5.and_then(|text| text.parse().ok().or_else(|| Md5::from_hex(text).ok())),
        }
    }
}

/// The properties of the sent media that were compared with those in the resource, and are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Whether the size was compared.
    pub size: bool,
    /// Whether the CRC32C was compared.
    pub crc32c: bool,
    /// Whether the MD5 was compared.
    pub md5: bool,
}

/// The media on the server differs from the sent media.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the media on the server differs from the sent media: its {what} is {theirs} instead of {ours}"
)]
pub struct Mismatch {
    /// Name of the property: `size`, `crc32c` or `md5`.
    pub what: &'static str,
    /// Value in the resource.
    pub theirs: String,
    /// Value of the sent media.
    pub ours: String,
}

/// Compares one property. Returns `false` if the server does not state it.
pub(crate) fn compare<T: PartialEq + ToString>(
    what: &'static str,
    theirs: Option<T>,
    ours: &T,
) -> Result<bool, Mismatch> {
    match theirs {
        None => Ok(false),
        Some(theirs) if theirs == *ours => Ok(true),
        Some(theirs) => Err(Mismatch {
            what,
            theirs: theirs.to_string(),
            ours: ours.to_string(),
        }),
    }
}

/// Computes the CRC32C of the whole media. Returns `None` if a part of it was not sent by this
/// call and cannot be read again.
pub(crate) async fn media_crc32c(
    media: &Media,
    sent: &RunningChecksum,
    size: u64,
) -> Result<Option<Crc32c>, SourceError> {
    let (covered, digest) = sent.covered();
    let Some(before_covered) = of_range(media, 0..covered.start).await? else {
        return Ok(None);
    };
    let to_covered_end = before_covered.combine(digest, covered.end - covered.start);
    let Some(after_covered) = of_range(media, covered.end..size).await? else {
        return Ok(None);
    };
    let after_len = size.saturating_sub(covered.end);
    Ok(Some(to_covered_end.combine(after_covered, after_len)))
}

/// Computes the CRC32C of a range. Returns `None` if the range cannot be read again.
async fn of_range(media: &Media, range: Range<u64>) -> Result<Option<Crc32c>, SourceError> {
    let mut hasher = Crc32cHasher::default();
    if range.is_empty() {
        return Ok(Some(hasher.value()));
    }
    let complete = read_again(media, range, |bytes| hasher.update(bytes)).await?;
    Ok(complete.then(|| hasher.value()))
}

/// Computes the MD5 of the media. Returns `None` if the media cannot be read again.
pub(crate) async fn media_md5(media: &Media, size: u64) -> Result<Option<Md5>, SourceError> {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: false,
    });
    let complete = read_again(media, 0..size, |bytes| hasher.update(bytes)).await?;
    Ok(hasher.finish().0.filter(|_| complete))
}

/// Reads a range again and calls `take` with its bytes. Returns `false` for a stream with a window,
/// which may have dropped them.
async fn read_again(
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crc32c(bytes: &[u8]) -> Crc32c {
        let mut hasher = Crc32cHasher::default();
        hasher.update(bytes);
        hasher.value()
    }

    #[test]
    fn repeated_bytes_are_hashed_once() {
        let checksum = RunningChecksum::default();
        checksum.update(0, b"Lla");
        checksum.update(1, b"la");
        checksum.update(1, b"lama");
        assert_eq!(checksum.covered(), (0..5, crc32c(b"Llama")));
    }

    #[test]
    fn resumed_upload_has_the_checksum_of_the_sent_range() {
        let checksum = RunningChecksum::default();
        checksum.update(3, b"ma");
        assert_eq!(checksum.covered(), (3..5, crc32c(b"ma")));
    }

    #[test]
    fn sizes_and_digests_are_read_in_all_server_formats() {
        let stated = StatedProperties::of_resource(
            &json!({"size": "5", "crc32c": "xkjlSw==", "md5Hash": "XUFAKrxLKna5cZ2REBfFkg=="}),
        );
        assert_eq!(stated.size, Some(5));
        assert!(stated.crc32c.is_some() && stated.md5.is_some());
        let from_drive = StatedProperties::of_resource(
            &json!({"size": 5, "md5Checksum": "5d41402abc4b2a76b9719d911017c592"}),
        );
        assert_eq!(from_drive.md5, stated.md5);
        assert_eq!(
            StatedProperties::of_resource(&json!({"size": "many", "crc32c": 7})),
            StatedProperties::default()
        );
        assert_eq!(
            StatedProperties::of_resource(&Value::Null),
            StatedProperties::default()
        );
    }
}
