//! The digests that are computed on demand, beside the writing and never in line with it.

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_proto::digest::{Md5Sha256Hasher, Wanted};

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
