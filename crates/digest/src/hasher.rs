//! Digests that are computed piece by piece.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use md5::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::Digest;

use crate::{Crc32c, Md5, Sha256, Wanted};

/// Computes a CRC32C incrementally.
#[derive(Debug, Clone, Copy, Default)]
pub struct Crc32cHasher(Crc32c);

impl Crc32cHasher {
    /// Continues after bytes with a known digest.
    pub fn continue_from(value: Crc32c) -> Self {
        Self(value)
    }

    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        // The library's digest holds its parameters as well, 300 bytes in all. It exists only
        // during the call, so that a hasher takes four bytes.
        let register = u64::from(!self.0.0);
        let mut digest = crc_fast::Digest::new_with_init_state(Crc32Iscsi, register);
        digest.update(data);
        let checksum = u32::try_from(digest.finalize());
        self.0 = Crc32c(checksum.expect("a CRC32C has 32 bits"));
    }

    /// Returns the digest of all bytes so far.
    pub fn value(&self) -> Crc32c {
        self.0
    }
}

/// Computes MD5 and SHA-256 incrementally, if they are wanted.
///
/// ```
/// use windlass_digest::{Md5Sha256Hasher, Wanted};
///
/// let mut hasher = Md5Sha256Hasher::new(Wanted { md5: true, sha256: false });
/// hasher.update(b"Llama");
/// let saved = hasher.save();
/// assert_eq!(Md5Sha256Hasher::restore(&saved).unwrap().finish(), hasher.finish());
/// ```
#[derive(Debug, Clone)]
pub struct Md5Sha256Hasher {
    md5: Option<md5::Md5>,
    sha256: Option<sha2::Sha256>,
}

/// A saved state that [`Md5Sha256Hasher::save`] did not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the saved state of a digest is damaged, or has another format")]
pub struct RestoreError;

// The first byte of a saved state has the version of the format in its upper half. Its lower half is
// a bit set of the states that follow.
const SAVED_MD5: u8 = 1;
const SAVED_SHA256: u8 = 2;

/// The version of the states that the crates `md-5` and `sha2` write. It has to grow when a new
/// version of one of them writes others: a replica must not continue from a state that it would
/// misread. States without a version, which earlier releases saved, have the same format.
const FORMAT: u8 = 1;

impl Md5Sha256Hasher {
    /// Starts at the first byte of the media.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            md5: wanted.md5.then(md5::Md5::new),
            sha256: wanted.sha256.then(sha2::Sha256::new),
        }
    }

    /// Returns which digests are computed.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            md5: self.md5.is_some(),
            sha256: self.sha256.is_some(),
        }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(data);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(data);
        }
    }

    /// Returns the digests of all bytes.
    pub fn finish(self) -> (Option<Md5>, Option<Sha256>) {
        let md5 = self.md5.map(|md5| Md5(md5.finalize().into()));
        let sha256 = self.sha256.map(|sha256| Sha256(sha256.finalize().into()));
        (md5, sha256)
    }

    /// Serializes the state, in about 200 bytes. They are as confidential as the media.
    pub fn save(&self) -> Vec<u8> {
        let mut saved = vec![FORMAT << 4];
        if let Some(md5) = &self.md5 {
            saved[0] |= SAVED_MD5;
            saved.extend_from_slice(&md5.serialize());
        }
        if let Some(sha256) = &self.sha256 {
            saved[0] |= SAVED_SHA256;
            saved.extend_from_slice(&sha256.serialize());
        }
        saved
    }

    /// Continues from a saved state.
    ///
    /// # Errors
    /// If the state is damaged or has another format. The digests can then only be computed from the
    /// stored media.
    pub fn restore(saved: &[u8]) -> Result<Self, RestoreError> {
        let (&first, mut states) = saved.split_first().ok_or(RestoreError)?;
        let (format, present) = (first >> 4, first & 0x0F);
        if format > FORMAT || present & !(SAVED_MD5 | SAVED_SHA256) != 0 {
            return Err(RestoreError);
        }
        let md5 = (present & SAVED_MD5 != 0)
            .then(|| take_state(&mut states))
            .transpose()?;
        let sha256 = (present & SAVED_SHA256 != 0)
            .then(|| take_state(&mut states))
            .transpose()?;
        if states.is_empty() {
            Ok(Self { md5, sha256 })
        } else {
            Err(RestoreError)
        }
    }
}

/// Reads one state from the front of `states`.
fn take_state<H: SerializableState>(states: &mut &[u8]) -> Result<H, RestoreError> {
    let len = SerializedState::<H>::default().len();
    let (state, rest) = states.split_at_checked(len).ok_or(RestoreError)?;
    *states = rest;
    let state = SerializedState::<H>::try_from(state).map_err(|_| RestoreError)?;
    H::deserialize(&state).map_err(|_| RestoreError)
}
