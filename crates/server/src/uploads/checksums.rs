//! The digests of media that is being written: CRC32C as the bytes arrive, MD5 and SHA-256 in the
//! background.

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_proto::digest::{Crc32c, Crc32cHasher, Md5Sha256Hasher, Wanted};
use windlass_store::Extent;

/// The CRC32C of all bytes of the media before an offset, which moves on as bytes are added.
#[derive(Debug, Clone)]
pub(super) struct RunningChecksum {
    pub(super) offset: u64,
    /// Offset at which the current extent begins: the end of the last batch that was a checkpoint,
    /// or the offset at which the upload was resumed. When the media is reopened, the vault reads
    /// the last committed extent and verifies it.
    extent_start: u64,
    /// Checksum of all bytes before the extent.
    before_extent: Crc32c,
    extent: Crc32cHasher,
}

impl RunningChecksum {
    /// Returns the checksum at the start of new media.
    pub(super) fn start() -> Self {
        Self::at(0, Crc32c::default())
    }

    /// Returns the checksum at `offset`, where an extent begins. `crc32c` is that of the bytes
    /// before.
    pub(super) fn at(offset: u64, crc32c: Crc32c) -> Self {
        Self {
            offset,
            extent_start: offset,
            before_extent: crc32c,
            extent: Crc32cHasher::default(),
        }
    }

    /// Adds `data`, which begins at the current offset.
    pub(super) fn advance(&mut self, data: &[u8]) {
        self.offset += data.len() as u64;
        self.extent.update(data);
    }

    /// Begins a new extent at the current offset.
    pub(super) fn begin_extent(&mut self) {
        *self = Self::at(self.offset, self.crc32c());
    }

    /// CRC32C of all bytes before the current offset.
    pub(super) fn crc32c(&self) -> Crc32c {
        // CRCs of two parts combine, so each byte is hashed once for both checksums.
        let extent_len = self.offset - self.extent_start;
        self.before_extent.combine(self.extent.value(), extent_len)
    }

    /// The current extent, which is verified when the media is reopened.
    pub(super) fn extent(&self) -> Extent {
        Extent {
            start: self.extent_start,
            crc32c: self.extent.value(),
        }
    }
}

/// Computes MD5 and SHA-256 on a blocking thread, because they are too slow to be computed as the
/// bytes arrive.
pub(super) enum BackgroundHasher {
    /// Neither digest is wanted.
    Off,
    /// The state after all bytes so far.
    Idle(Box<Md5Sha256Hasher>),
    /// The task that hashes the last bytes.
    Busy(JoinHandle<Box<Md5Sha256Hasher>>),
    /// The state at the current offset is unknown. The digests are computed from the stored media
    /// at the end.
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
            // `saved` is damaged, or an earlier request did not want the digests and saved no
            // state.
            Err(_) => Self::Unknown,
        }
    }

    /// Hashes the next bytes in the background, after the bytes before them.
    pub(super) async fn update(&mut self, pieces: Vec<Bytes>) {
        // Waits until the previous batch is hashed, so that the hasher keeps at most one batch of
        // an upload in memory.
        if let Some(hasher) = self.take().await {
            *self = Self::Busy(tokio::task::spawn_blocking(move || hash(hasher, &pieces)));
        }
    }

    /// Returns the serialized state after all bytes so far; empty if there is none.
    pub(super) async fn save(&mut self) -> Vec<u8> {
        let Some(hasher) = self.take().await else {
            return Vec::new();
        };
        let saved = hasher.save();
        *self = Self::Idle(hasher);
        saved
    }

    /// Waits until all bytes so far are hashed, and takes the hasher out. `None` if there is none.
    /// Leaves `Off` if no digest is wanted, and `Unknown` otherwise.
    ///
    /// # Cancel safety
    /// If the future is dropped, the state is `Unknown`. The digests are then computed from the
    /// stored media, which takes longer.
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

    /// Drops the state, because it includes bytes that are not part of the media.
    pub(super) fn invalidate(&mut self) {
        if !matches!(self, Self::Off) {
            *self = Self::Unknown;
        }
    }
}

/// Hashes `pieces`. Blocks.
pub(super) fn hash(mut hasher: Box<Md5Sha256Hasher>, pieces: &[Bytes]) -> Box<Md5Sha256Hasher> {
    for piece in pieces {
        hasher.update(piece);
    }
    hasher
}
