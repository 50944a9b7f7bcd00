//! Digests of media: CRC32C, MD5 and SHA-256 (docs/protocol.md, 2.14).
//!
//! CRC32C is always computed, in line, by [`Crc32cHasher`]. MD5 and SHA-256 are slower and computed
//! only where [`Wanted`], by [`Md5Sha256Hasher`]. The state of that hasher can be saved, because a
//! session may outlive the process. [`ExpectedDigests`] are the digests that a client states for
//! its media. A [`Checksum`] covers the body of one request, by an algorithm that its client chooses.
//!
//! No function waits, allocates more than its result, or reads anything but its arguments.

mod checksum;
mod combine;
mod expected;
mod hasher;

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use combine::combine;

pub use checksum::{Algorithm, Checksum, ChecksumHasher};
pub use expected::{DigestMismatch, ExpectedDigests, ExpectedDigestsError};
pub use hasher::{Crc32cHasher, Md5Sha256Hasher, RestoreError};

#[cfg(test)]
mod tests;

/// CRC32C (Castagnoli). Its text form is base64 of the four big-endian bytes.
///
/// ```
/// use windlass_digest::Crc32c;
///
/// assert_eq!(Crc32c::default().to_string(), "AAAAAA==");
/// assert_eq!("AAAAAA==".parse(), Ok(Crc32c(0)));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Crc32c(pub u32);

/// MD5. Its text form is base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Md5(pub [u8; 16]);

/// SHA-256. Its text form is base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(pub [u8; 32]);

/// A text that cannot be parsed as the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: {DIGEST_BYTES} bytes in base64 or hexadecimal digits were expected")]
pub struct InvalidDigest<const DIGEST_BYTES: usize>;

impl Crc32c {
    /// Returns the digest of two consecutive pieces of media. `next_len` is the length of the
    /// second in bytes.
    #[must_use]
    pub fn combine(self, next: Self, next_len: u64) -> Self {
        combine(self, next, next_len)
    }

    /// Returns the digest of the last `rest_len` bytes of media that has this digest. `prefix` is
    /// the digest of the bytes before them.
    #[must_use]
    pub fn without_prefix(self, prefix: Self, rest_len: u64) -> Self {
        // The digest of two pieces is the shifted digest of the first piece, XORed with the second
        // piece's digest.
        let shifted = combine(prefix, Self::default(), rest_len);
        Self(self.0 ^ shifted.0)
    }
}

impl Md5 {
    /// Parses hexadecimal digits of either case.
    pub fn from_hex(text: &str) -> Result<Self, InvalidDigest<16>> {
        from_hex(text).map(Self)
    }

    /// Formats the digest as lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        to_hex(&self.0)
    }
}

impl Sha256 {
    /// Parses hexadecimal digits of either case.
    pub fn from_hex(text: &str) -> Result<Self, InvalidDigest<32>> {
        from_hex(text).map(Self)
    }

    /// Formats the digest as lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        to_hex(&self.0)
    }
}

impl fmt::Display for Crc32c {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0.to_be_bytes()))
    }
}

impl fmt::Display for Md5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl FromStr for Crc32c {
    type Err = InvalidDigest<4>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        from_base64(text).map(|bytes| Self(u32::from_be_bytes(bytes)))
    }
}

impl FromStr for Md5 {
    type Err = InvalidDigest<16>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        from_base64(text).map(Self)
    }
}

impl FromStr for Sha256 {
    type Err = InvalidDigest<32>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        from_base64(text).map(Self)
    }
}

/// Serde uses the text form.
macro_rules! string_conversions {
    ($($digest:ident),*) => {$(
        impl From<$digest> for String {
            fn from(digest: $digest) -> Self {
                digest.to_string()
            }
        }

        impl TryFrom<String> for $digest {
            type Error = <$digest as FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    )*};
}

string_conversions!(Crc32c, Md5, Sha256);

/// The digests of some media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Always computed.
    pub crc32c: Crc32c,
    /// Computed where it was [`Wanted`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<Md5>,
    /// Computed where it was [`Wanted`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}

impl Digests {
    /// Returns all digests of media that is in memory.
    pub fn of(media: &[u8]) -> Self {
        let mut crc32c = Crc32cHasher::default();
        crc32c.update(media);
        let mut others = Md5Sha256Hasher::new(Wanted {
            md5: true,
            sha256: true,
        });
        others.update(media);
        let (md5, sha256) = others.finish();
        Self {
            crc32c: crc32c.value(),
            md5,
            sha256,
        }
    }
}

/// Selects the slow digests to compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// MD5, for resources that show it and for clients that state it.
    pub md5: bool,
    /// SHA-256, likewise.
    pub sha256: bool,
}

impl Wanted {
    /// Whether no digest is selected.
    #[must_use]
    pub fn is_none(self) -> bool {
        !self.md5 && !self.sha256
    }

    /// Returns the digests that either selection has.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            md5: self.md5 || other.md5,
            sha256: self.sha256 || other.sha256,
        }
    }

    /// Whether all digests that `other` selects are selected here.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.union(other) == self
    }
}

fn from_base64<const N: usize>(text: &str) -> Result<[u8; N], InvalidDigest<N>> {
    // A longer text is refused without decoding it.
    let fits = text.len() == N.div_ceil(3) * 4;
    let bytes = if fits {
        STANDARD.decode(text).ok()
    } else {
        None
    };
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(InvalidDigest)
}

fn from_hex<const N: usize>(text: &str) -> Result<[u8; N], InvalidDigest<N>> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return Err(InvalidDigest);
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let value = |digit: u8| {
            char::from(digit)
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
        };
        let (high, low) = value(digits[0])
            .zip(value(digits[1]))
            .ok_or(InvalidDigest)?;
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
