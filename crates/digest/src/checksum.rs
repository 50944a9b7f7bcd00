//! Digests by an algorithm of the client's choice, for bytes that are read once.

use std::fmt;

use sha2::Digest as _;

use crate::Crc32cHasher;

/// An algorithm for a [`Checksum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CRC32C (Castagnoli), as four big-endian bytes.
    Crc32c,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 5] = [
        Self::Crc32c,
        Self::Md5,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
    ];

    /// Length of its digests in bytes.
    pub fn digest_len(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crc32c => "CRC32C",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
        })
    }
}

/// A digest and its algorithm.
///
/// ```
/// use windlass_digest::{Algorithm, Checksum, ChecksumHasher};
///
/// let stated = Checksum::new(Algorithm::Crc32c, vec![0xE3, 0x06, 0x92, 0x83]);
/// let mut hasher = ChecksumHasher::new([Algorithm::Crc32c]);
/// hasher.update(b"123456789");
/// assert!(hasher.finish().contains(&stated.unwrap()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    digest: Vec<u8>,
}

impl Checksum {
    /// Returns the checksum with this digest. `None` if the algorithm's digests have another length.
    pub fn new(algorithm: Algorithm, digest: Vec<u8>) -> Option<Self> {
        (digest.len() == algorithm.digest_len()).then_some(Self { algorithm, digest })
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Computes checksums by several algorithms incrementally.
#[derive(Debug, Clone)]
pub struct ChecksumHasher(Vec<Hasher>);

#[derive(Debug, Clone)]
enum Hasher {
    Crc32c(Crc32cHasher),
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    Sha512(Box<sha2::Sha512>),
}

impl ChecksumHasher {
    /// Starts without bytes. An algorithm that is named twice is computed once.
    pub fn new(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let algorithms: Vec<_> = algorithms.into_iter().collect();
        let named = Algorithm::ALL.into_iter();
        let named = named.filter(|algorithm| algorithms.contains(algorithm));
        Self(named.map(Hasher::new).collect())
    }

    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        for hasher in &mut self.0 {
            match hasher {
                Hasher::Crc32c(hasher) => hasher.update(data),
                Hasher::Md5(hasher) => hasher.update(data),
                Hasher::Sha1(hasher) => hasher.update(data),
                Hasher::Sha256(hasher) => hasher.update(data),
                Hasher::Sha512(hasher) => hasher.update(data),
            }
        }
    }

    /// Returns the checksums of all bytes.
    pub fn finish(self) -> Vec<Checksum> {
        self.0.into_iter().map(Hasher::finish).collect()
    }
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Crc32c => Self::Crc32c(Crc32cHasher::default()),
            Algorithm::Md5 => Self::Md5(md5::Md5::new()),
            Algorithm::Sha1 => Self::Sha1(sha1::Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Box::default()),
        }
    }

    fn finish(self) -> Checksum {
        let (algorithm, digest) = match self {
            Self::Crc32c(hasher) => (Algorithm::Crc32c, hasher.value().0.to_be_bytes().to_vec()),
            Self::Md5(hasher) => (Algorithm::Md5, hasher.finalize().to_vec()),
            Self::Sha1(hasher) => (Algorithm::Sha1, hasher.finalize().to_vec()),
            Self::Sha256(hasher) => (Algorithm::Sha256, hasher.finalize().to_vec()),
            Self::Sha512(hasher) => (Algorithm::Sha512, hasher.finalize().to_vec()),
        };
        Checksum { algorithm, digest }
    }
}
