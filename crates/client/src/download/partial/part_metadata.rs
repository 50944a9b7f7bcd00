//! `TARGET.part.json`, which says what media the bytes beside it are of.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::path::Path;

use http::HeaderValue;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use url::Url;
use windlass_proto::digest::{Crc32c, Md5Sha256Hasher, Sha256, Wanted};

use super::super::response::{EntityInfo, is_strong};
use super::files::open_file;

/// No note is longer.
const MAX_METADATA: u64 = 64 << 10;

/// What is known of the bytes that have come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartMetadata {
    /// Of the URL, which may be secret.
    url_sha256: Sha256,
    etag: Option<String>,
    size: Option<u64>,
    crc32c: Option<Crc32c>,
    content_type: Option<String>,
    /// The bytes that had come when this was written.
    received: Option<ReceivedPrefix>,
}

/// The first bytes of a media, and their digest, by which they are known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReceivedPrefix {
    pub(super) length: u64,
    pub(super) crc32c: Crc32c,
}

/// What is where the note should be.
#[derive(Debug)]
pub(super) enum StoredMetadata {
    Missing,
    Valid(Box<PartMetadata>),
    /// A file that no download wrote.
    Unrecognized,
    NotAFile,
}

impl PartMetadata {
    pub(super) fn new(url: Sha256, media: &EntityInfo, received: ReceivedPrefix) -> Self {
        Self {
            url_sha256: url,
            etag: media.etag.as_ref().and_then(text),
            size: media.size,
            crc32c: media.crc32c,
            content_type: media.content_type.as_ref().and_then(text),
            received: Some(received),
        }
    }

    pub(super) fn read(path: &Path) -> io::Result<StoredMetadata> {
        let file = match open_file(OpenOptions::new().read(true), path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(StoredMetadata::NotAFile),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(StoredMetadata::Missing);
            }
            Err(error) => return Err(error),
        };
        let mut json = Vec::new();
        file.take(MAX_METADATA).read_to_end(&mut json)?;
        Ok(match serde_json::from_slice(&json) {
            Ok(part_metadata) => StoredMetadata::Valid(Box::new(part_metadata)),
            // After a loss of power, a note may be there without what it says.
            Err(_) if json.is_empty() => StoredMetadata::Missing,
            Err(_) => StoredMetadata::Unrecognized,
        })
    }

    /// A note is replaced as a whole, and nobody else can read it.
    pub(super) fn write(&self, path: &Path, directory: &Path) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(directory)?;
        serde_json::to_writer(&mut file, self)?;
        file.persist(path)?;
        Ok(())
    }

    pub(super) fn is_for_url(&self, url: Sha256) -> bool {
        self.url_sha256 == url
    }

    /// The media and what had come of it, if it can be gone on with.
    pub(super) fn media(self) -> Option<(EntityInfo, ReceivedPrefix)> {
        let received = self.received?;
        let etag = HeaderValue::try_from(self.etag?).ok()?;
        let content_type = self.content_type;
        let is_strong = is_strong(&etag);
        let media = EntityInfo {
            etag: Some(etag),
            size: self.size,
            crc32c: self.crc32c,
            content_type: content_type.and_then(|text| HeaderValue::try_from(text).ok()),
        };
        is_strong.then_some((media, received))
    }
}

/// A URL, as a note names it.
pub(super) fn sha256(url: &Url) -> Sha256 {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: false,
        sha256: true,
    });
    hasher.update(url.as_str().as_bytes());
    hasher.finish().1.expect("it was wanted")
}

fn text(value: &HeaderValue) -> Option<String> {
    value.to_str().ok().map(str::to_owned)
}
