//! Digests of media: CRC32C, MD5 and SHA-256 (docs/protocol.md, 2.14).
//!
//! Every medium has a CRC32C, computed in line by [`Crc32cHasher`]. The slow ones are computed only
//! where [`Wanted`], by [`Md5Sha256Hasher`], whose state can be saved: a session may outlive the
//! process.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

mod combine;
mod expected;
mod hasher;
#[cfg(test)]
mod tests;

pub use expected::{DigestMismatch, ExpectedDigests, ExpectedDigestsError};
pub use hasher::{Crc32cHasher, Md5Sha256Hasher, RestoreError};

/// CRC32C (Castagnoli). Written as base64 of its four big-endian bytes.
///
/// ```
/// use windlass_proto::digest::Crc32c;
///
/// assert_eq!(Crc32c::default().to_string(), "AAAAAA==");
/// assert_eq!("AAAAAA==".parse(), Ok(Crc32c(0)));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Crc32c(pub u32);

/// MD5. Written as base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Md5(pub [u8; 16]);

/// SHA-256. Written as base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(pub [u8; 32]);

/// A text that is not the digest it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: {DIGEST_BYTES} bytes in base64 or hexadecimal digits were expected")]
pub struct InvalidDigest<const DIGEST_BYTES: usize>;

impl Crc32c {
    /// The digest of two pieces of media behind each other; `next_len` is the length of the second.
    #[must_use]
    pub fn combine(self, next: Self, next_len: u64) -> Self {
        combine::combine(self, next, next_len)
    }
}

impl Md5 {
    /// Reads hexadecimal digits of either case.
    pub fn from_hex(text: &str) -> Result<Self, InvalidDigest<16>> {
        from_hex(text).map(Self)
    }

    /// Lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        to_hex(&self.0)
    }
}

impl Sha256 {
    /// Reads hexadecimal digits of either case.
    pub fn from_hex(text: &str) -> Result<Self, InvalidDigest<32>> {
        from_hex(text).map(Self)
    }

    /// Lower-case hexadecimal digits.
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

/// Serde goes through the written form.
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

/// What is known of a medium's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Always there.
    pub crc32c: Crc32c,
    /// There where it was [`Wanted`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<Md5>,
    /// There where it was [`Wanted`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}

/// Which slow digests are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// MD5, for resources that show it and for clients that state it.
    pub md5: bool,
    /// SHA-256, likewise.
    pub sha256: bool,
}

impl Wanted {
    /// What either side wants.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            md5: self.md5 || other.md5,
            sha256: self.sha256 || other.sha256,
        }
    }
}

fn from_base64<const N: usize>(text: &str) -> Result<[u8; N], InvalidDigest<N>> {
    // Longer texts are refused before they are decoded.
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
