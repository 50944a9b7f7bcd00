//! Sizes in bytes as people and discovery documents write them: `5GB`, `15728640`, `35 MB`.
//!
//! Units are powers of 1024 whatever their spelling, because that is how every Google client reads
//! `maxSize`: `KB` and `KiB` are the same. There are no fractions and no signs.

use std::fmt;
use std::str::FromStr;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The units with their sizes in bytes, largest first.
const UNITS: [(&str, u64); 5] = [
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("KB", 1 << 10),
    ("B", 1),
];

/// A number of bytes.
///
/// ```
/// use windlass_discovery::ByteSize;
///
/// let size: ByteSize = "5120GB".parse()?;
/// assert_eq!(size.bytes(), 5_497_558_138_880);
/// assert_eq!(size.to_string(), "5TB");
/// # Ok::<(), windlass_discovery::byte_size::ByteSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// Why a text is not a [`ByteSize`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ByteSizeError {
    /// The text does not begin with a digit.
    #[error("a size begins with a number of bytes, as in 5GB or 15728640")]
    NoNumber,
    /// The text after the number is not a unit.
    #[error("`{unit}` is not a unit of size; use B, KB, MB, GB or TB")]
    UnknownUnit {
        /// The text after the number.
        unit: String,
    },
    /// More than 2^64 - 1 bytes.
    #[error("the size is larger than 2^64 - 1 bytes")]
    TooLarge,
}

impl ByteSize {
    /// A size of this number of bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Reads digits and an optional unit in any case, with optional spaces between and around them.
impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err(ByteSizeError::NoNumber);
        }
        let scale = scale_of(unit.trim_start())?;
        // Digits only, so overflow is the one way in which parsing can fail.
        let number: u64 = number.parse().map_err(|_| ByteSizeError::TooLarge)?;
        let bytes = number.checked_mul(scale).ok_or(ByteSizeError::TooLarge)?;
        Ok(Self(bytes))
    }
}

/// Writes the largest unit that needs no fraction: `5GB`, `1000B`. It reads back as the same size.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |(_, scale): &&(&str, u64)| self.0 != 0 && self.0.is_multiple_of(*scale);
        let (unit, scale) = UNITS.iter().find(exact).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Accepts a string as [`FromStr`] does, or a plain number of bytes.
impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ByteSizeVisitor)
    }
}

struct ByteSizeVisitor;

impl Visitor<'_> for ByteSizeVisitor {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"5GB\" or a number of bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(bytes))
    }

    fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
        let negative = |_| E::invalid_value(Unexpected::Signed(bytes), &self);
        u64::try_from(bytes).map(ByteSize).map_err(negative)
    }
}

/// `GiB` is `GB`, in any case; no unit is bytes.
fn scale_of(unit: &str) -> Result<u64, ByteSizeError> {
    let name = unit.to_ascii_uppercase();
    let name = match name.strip_suffix("IB") {
        Some(prefix) if !prefix.is_empty() => format!("{prefix}B"),
        _ if name.is_empty() => "B".to_owned(),
        _ => name,
    };
    let known = UNITS.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, scale)| *scale)
        .ok_or_else(|| ByteSizeError::UnknownUnit {
            unit: unit.to_owned(),
        })
}

#[cfg(test)]
mod tests;
