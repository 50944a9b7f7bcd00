//! Where bytes are that are to be read: in objects, or in memory.

use std::ops::Range;

use bytes::Bytes;
use windlass_store::{StoredMedia, StoredName, VaultError};

use super::objects::{Objects, damaged};

/// Where bytes are.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Object { name: StoredName, range: Range<u64> },
    Bytes(Bytes),
}

impl Source {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Object { range, .. } => range.end - range.start,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Reads a range of the source.
    pub(super) async fn read(
        &self,
        objects: &Objects,
        range: Range<u64>,
    ) -> Result<Bytes, VaultError> {
        match self {
            Self::Object { name, range: own } => {
                let range = own.start + range.start..own.start + range.end;
                objects.get(name, range).await
            }
            Self::Bytes(bytes) => Ok(bytes.slice(index(range.start)..index(range.end))),
        }
    }
}

/// Returns where the bytes `range` of media are that is not sealed, in their order.
pub(super) fn sources(stored: &StoredMedia, range: Range<u64>) -> Result<Vec<Source>, VaultError> {
    let mut at = range.start;
    let mut sources = Vec::new();
    for extent in &stored.extents {
        if extent.end() <= at || at >= range.end {
            continue;
        }
        if extent.start > at {
            return Err(damaged(stored.id, "an extent is missing"));
        }
        let end = extent.end().min(range.end);
        sources.push(Source::Object {
            name: StoredName {
                media: stored.id,
                handle: extent.name.clone(),
            },
            range: at - extent.start..end - extent.start,
        });
        at = end;
    }
    if at < range.end {
        return Err(damaged(
            stored.id,
            "it is shorter than its committed length",
        ));
    }
    Ok(sources)
}

pub(super) fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("it is in memory")
}
