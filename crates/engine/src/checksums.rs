//! The digests of media that is being written: CRC32C as the bytes arrive, MD5 and SHA-256 in the
//! background.

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_digest::{Crc32c, Crc32cHasher, Md5Sha256Hasher, Wanted};

/// An offset in the media and the CRC32C of all bytes before it. Both advance as bytes are added.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunningChecksum {
    /// Offset after the last byte.
    pub offset: u64,
    hasher: Crc32cHasher,
}

impl RunningChecksum {
    /// Returns the checksum at `offset`. `crc32c` is the CRC32C of the bytes before `offset`.
    pub fn at(offset: u64, crc32c: Crc32c) -> Self {
        Self {
            offset,
            hasher: Crc32cHasher::continue_from(crc32c),
        }
    }

    /// Adds `data`, which begins at the current offset.
    pub fn advance(&mut self, data: &[u8]) {
        self.offset += data.len() as u64;
        self.hasher.update(data);
    }

    /// CRC32C of all bytes before the current offset.
    pub fn crc32c(&self) -> Crc32c {
        self.hasher.value()
    }
}

/// Computes MD5 and SHA-256 on a blocking thread, because they are too slow to be computed as the
/// bytes arrive.
pub(crate) enum BackgroundHasher {
    /// Neither digest is wanted.
    Off,
    /// The hasher after all bytes passed to [`update`](Self::update).
    Idle(Box<Md5Sha256Hasher>),
    /// A task is hashing the last bytes.
    Busy(JoinHandle<Box<Md5Sha256Hasher>>),
    /// No hasher has processed exactly the bytes of the media so far. The digests will be computed
    /// from the stored media at the end.
    Unknown,
}

impl BackgroundHasher {
    /// Starts at the first byte of the media.
    pub(crate) fn new(wanted: Wanted) -> Self {
        if wanted.is_none() {
            Self::Off
        } else {
            Self::Idle(Box::new(Md5Sha256Hasher::new(wanted)))
        }
    }

    /// Continues from a state that [`BackgroundHasher::save`] has returned; empty if none was
    /// saved.
    pub(crate) fn restore(wanted: Wanted, saved: &[u8]) -> Self {
        match Md5Sha256Hasher::restore(saved) {
            Ok(hasher) => Self::Idle(Box::new(hasher)),
            Err(_) if wanted.is_none() => Self::Off,
            // `saved` is damaged, or an earlier request did not want the digests and saved no
            // state.
            Err(_) => Self::Unknown,
        }
    }

    /// Hashes the next bytes in the background. Waits first until the bytes of the previous call
    /// are hashed.
    // The wait bounds the memory: the hasher keeps the bytes of one call at most.
    pub(crate) async fn update(&mut self, slices: Vec<Bytes>) {
        if let Some(hasher) = self.take_hasher().await {
            *self = Self::Busy(tokio::task::spawn_blocking(move || hash(hasher, &slices)));
        }
    }

    /// Returns the serialized state after all bytes passed to `update`. Empty if there is no
    /// hasher.
    pub(crate) async fn save(&mut self) -> Vec<u8> {
        let Some(hasher) = self.take_hasher().await else {
            return Vec::new();
        };
        let saved = hasher.save();
        *self = Self::Idle(hasher);
        saved
    }

    /// Waits until all bytes passed to `update` are hashed. Removes and returns the hasher, or
    /// `None` without a hasher. The state afterwards is `Off` if no digest is wanted, and `Unknown`
    /// otherwise.
    ///
    /// # Cancel safety
    /// If the future is dropped, the state is `Unknown`. The digests are then computed from the
    /// stored media, which takes longer.
    pub(crate) async fn take_hasher(&mut self) -> Option<Box<Md5Sha256Hasher>> {
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

    /// Drops the state. The caller calls this after the hasher has received bytes that do not
    /// become part of the media.
    pub(crate) fn invalidate(&mut self) {
        if !matches!(self, Self::Off) {
            *self = Self::Unknown;
        }
    }
}

/// Hashes `slices`. Blocks.
pub(crate) fn hash(mut hasher: Box<Md5Sha256Hasher>, slices: &[Bytes]) -> Box<Md5Sha256Hasher> {
    for slice in slices {
        hasher.update(slice);
    }
    hasher
}
