//! A place in the media, with the checksums of what lies before it.

use windlass_proto::digest::{Crc32c, Crc32cHasher};
use windlass_store::Extent;

/// A place in the media with what is known of the bytes before it.
#[derive(Debug, Clone)]
pub(super) struct RunningChecksum {
    pub(super) offset: u64,
    /// Where the present extent begins, and the checksum of everything before it.
    extent_start: u64,
    before_extent: Crc32c,
    extent: Crc32cHasher,
}

impl RunningChecksum {
    pub(super) fn start() -> Self {
        Self::at(0, Crc32c::default())
    }

    pub(super) fn at(offset: u64, crc32c: Crc32c) -> Self {
        Self {
            offset,
            extent_start: offset,
            before_extent: crc32c,
            extent: Crc32cHasher::default(),
        }
    }

    pub(super) fn advance(&mut self, data: &[u8]) {
        self.offset += data.len() as u64;
        self.extent.update(data);
    }

    pub(super) fn begin_extent(&mut self) {
        *self = Self::at(self.offset, self.crc32c());
    }

    /// The checksum of everything before the mark.
    pub(super) fn crc32c(&self) -> Crc32c {
        let extent_len = self.offset - self.extent_start;
        self.before_extent.combine(self.extent.value(), extent_len)
    }

    pub(super) fn extent(&self) -> Extent {
        Extent {
            start: self.extent_start,
            crc32c: self.extent.value(),
        }
    }
}
