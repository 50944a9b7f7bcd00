//! The digests of media that is being written: CRC32C in line, MD5 and SHA-256 in the background.

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_proto::digest::{Crc32c, Crc32cHasher, Md5Sha256Hasher, Wanted};
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

/// The digests that cost too much to be computed in line.
pub(super) enum BackgroundHasher {
    /// None are wanted.
    Off,
    Idle(Box<Md5Sha256Hasher>),
    Busy(JoinHandle<Box<Md5Sha256Hasher>>),
    /// Its state is not known at the present offset. The digests are computed from the stored
    /// media at the end.
    Unknown,
}

impl BackgroundHasher {
    pub(super) fn new(wanted: Wanted) -> Self {
        if wanted == Wanted::default() {
            Self::Off
        } else {
            Self::Idle(Box::new(Md5Sha256Hasher::new(wanted)))
        }
    }

    pub(super) fn restore(wanted: Wanted, saved: &[u8]) -> Self {
        match Md5Sha256Hasher::restore(saved) {
            Ok(hasher) => Self::Idle(Box::new(hasher)),
            Err(_) if wanted == Wanted::default() => Self::Off,
            Err(_) => Self::Unknown,
        }
    }

    /// Takes the next bytes, beside whatever else goes on.
    pub(super) async fn update(&mut self, pieces: Vec<Bytes>) {
        if let Some(hasher) = self.take().await {
            *self = Self::Busy(tokio::task::spawn_blocking(move || hash(hasher, &pieces)));
        }
    }

    /// The state behind all bytes so far; empty when there is none.
    pub(super) async fn save(&mut self) -> Vec<u8> {
        let Some(hasher) = self.take().await else {
            return Vec::new();
        };
        let saved = hasher.save();
        *self = Self::Idle(hasher);
        saved
    }

    /// The hasher behind all bytes so far. Puts `Off` or `Unknown` in its place.
    pub(super) async fn take(&mut self) -> Option<Box<Md5Sha256Hasher>> {
        match std::mem::replace(self, Self::Unknown) {
            Self::Off => {
                *self = Self::Off;
                None
            }
            Self::Idle(hasher) => Some(hasher),
            Self::Busy(task) => task.await.ok(),
            Self::Unknown => None,
        }
    }

    pub(super) fn invalidate(&mut self) {
        if !matches!(self, Self::Off) {
            *self = Self::Unknown;
        }
    }
}

/// Feeds pieces to a hasher.
pub(super) fn hash(mut hasher: Box<Md5Sha256Hasher>, pieces: &[Bytes]) -> Box<Md5Sha256Hasher> {
    for piece in pieces {
        hasher.update(piece);
    }
    hasher
}
