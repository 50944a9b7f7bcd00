//! Digests of media: CRC32C, MD5 and SHA-256 (docs/protocol.md, 2.14).
//!
//! CRC32C is always computed, in line, by [`Crc32cHasher`]. MD5 and SHA-256 are slower and computed
//! only where [`Wanted`], by [`Md5Sha256Hasher`]. Its state can be saved, because a session may
//! outlive the process. [`ExpectedDigests`] are those that a client states for its media.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use http::HeaderMap;
use md5::digest::common::hazmat::{SerializableState, SerializedState};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Digest;

use crate::header::{CONTENT_MD5, X_GOOG_HASH};

#[cfg(test)]
mod tests;

/// CRC32C (Castagnoli). Its text form is base64 of the four big-endian bytes.
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
        // The digest of two pieces is the shifted digest of the first, XORed with that of the
        // second.
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

/// The digests that a client states. Digests that are `None` are not checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedDigests {
    /// CRC32C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<Crc32c>,
    /// MD5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<Md5>,
    /// SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}

/// Why the stated digests cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExpectedDigestsError {
    /// A stated digest cannot be parsed.
    #[error("The {digest} given in {place} is malformed.")]
    Malformed {
        /// Name of the digest in that place.
        digest: &'static str,
        /// Where it was stated: a header or the metadata.
        place: &'static str,
    },
    /// Two different values are stated for one digest.
    #[error("Two different values are given for the {digest} of the upload.")]
    Conflict {
        /// The digest.
        digest: &'static str,
    },
}

/// The media does not have the digest that the client states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestMismatch {
    /// The CRC32C differs.
    #[error("Provided CRC32C \"{expected}\" doesn't match calculated CRC32C \"{actual}\".")]
    Crc32c {
        /// Stated by the client.
        expected: Crc32c,
        /// Computed from the received bytes.
        actual: Crc32c,
    },
    /// The MD5 differs.
    #[error("Provided MD5 hash \"{expected}\" doesn't match calculated MD5 hash \"{actual}\".")]
    Md5 {
        /// Stated by the client.
        expected: Md5,
        /// Computed from the received bytes.
        actual: Md5,
    },
    /// The SHA-256 differs.
    #[error(
        "Provided SHA-256 hash \"{expected}\" doesn't match calculated SHA-256 hash \"{actual}\"."
    )]
    Sha256 {
        /// Stated by the client.
        expected: Sha256,
        /// Computed from the received bytes.
        actual: Sha256,
    },
}

impl ExpectedDigests {
    /// Reads `X-Goog-Hash`, which covers the whole media in any request. Unknown digests are
    /// ignored.
    pub fn from_goog_hash(headers: &HeaderMap) -> Result<Self, ExpectedDigestsError> {
        let mut expected = Self::default();
        for value in headers.get_all(X_GOOG_HASH) {
            for entry in value.as_bytes().split(|byte| *byte == b',') {
                expected = expected.merge(goog_hash_entry(entry)?)?;
            }
        }
        Ok(expected)
    }

    /// Reads `Content-MD5`, which covers the body of its request. Use it where the body is the
    /// whole media.
    pub fn from_content_md5(headers: &HeaderMap) -> Result<Self, ExpectedDigestsError> {
        let mut expected = Self::default();
        for value in headers.get_all(CONTENT_MD5) {
            let text = value.to_str().unwrap_or_default().trim_ascii();
            let md5 = read(text, "MD5", "header Content-MD5", Md5::from_str)?;
            expected = expected.merge(Self {
                md5: Some(md5),
                ..Self::default()
            })?;
        }
        Ok(expected)
    }

    /// Reads both headers of a request whose body is the media.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, ExpectedDigestsError> {
        Self::from_goog_hash(headers)?.merge(Self::from_content_md5(headers)?)
    }

    /// Reads the metadata's fields `crc32c` and `md5Hash` (base64), `md5Checksum` and
    /// `sha256Checksum` (hexadecimal). Fields that are not strings are ignored.
    pub fn from_metadata(metadata: &Map<String, Value>) -> Result<Self, ExpectedDigestsError> {
        fn field<D, E>(
            metadata: &Map<String, Value>,
            name: &'static str,
            parse: impl Fn(&str) -> Result<D, E>,
        ) -> Result<Option<D>, ExpectedDigestsError> {
            let text = metadata
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty());
            text.map(|text| read(text, name, "the metadata", parse))
                .transpose()
        }
        let of_storage = Self {
            crc32c: field(metadata, "crc32c", Crc32c::from_str)?,
            md5: field(metadata, "md5Hash", Md5::from_str)?,
            sha256: None,
        };
        of_storage.merge(Self {
            crc32c: None,
            md5: field(metadata, "md5Checksum", Md5::from_hex)?,
            sha256: field(metadata, "sha256Checksum", Sha256::from_hex)?,
        })
    }

    /// Combines two sets of stated digests.
    pub fn merge(self, other: Self) -> Result<Self, ExpectedDigestsError> {
        Ok(Self {
            crc32c: agreed("CRC32C", self.crc32c, other.crc32c)?,
            md5: agreed("MD5", self.md5, other.md5)?,
            sha256: agreed("SHA-256", self.sha256, other.sha256)?,
        })
    }

    /// Returns the slow digests that [`check`](Self::check) needs.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            md5: self.md5.is_some(),
            sha256: self.sha256.is_some(),
        }
    }

    /// Compares the stated digests with the computed ones. A digest that was not computed is not
    /// compared, so compute those that are [`wanted`](Self::wanted).
    pub fn check(&self, digests: &Digests) -> Result<(), DigestMismatch> {
        if let Some((expected, actual)) = differing(self.crc32c, Some(digests.crc32c)) {
            return Err(DigestMismatch::Crc32c { expected, actual });
        }
        if let Some((expected, actual)) = differing(self.md5, digests.md5) {
            return Err(DigestMismatch::Md5 { expected, actual });
        }
        if let Some((expected, actual)) = differing(self.sha256, digests.sha256) {
            return Err(DigestMismatch::Sha256 { expected, actual });
        }
        Ok(())
    }
}

/// Parses one `name=value` of the list.
fn goog_hash_entry(entry: &[u8]) -> Result<ExpectedDigests, ExpectedDigestsError> {
    const PLACE: &str = "header X-Goog-Hash";
    let entry = std::str::from_utf8(entry).unwrap_or_default().trim_ascii();
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    let (name, value) = (
        name.trim_ascii_end().to_ascii_lowercase(),
        value.trim_ascii_start(),
    );
    let mut expected = ExpectedDigests::default();
    match name.as_str() {
        "crc32c" => expected.crc32c = Some(read(value, "crc32c", PLACE, Crc32c::from_str)?),
        "md5" => expected.md5 = Some(read(value, "md5", PLACE, Md5::from_str)?),
        _ => {}
    }
    Ok(expected)
}

fn read<D, E>(
    text: &str,
    digest: &'static str,
    place: &'static str,
    parse: impl Fn(&str) -> Result<D, E>,
) -> Result<D, ExpectedDigestsError> {
    parse(text).map_err(|_| ExpectedDigestsError::Malformed { digest, place })
}

fn agreed<D: PartialEq>(
    digest: &'static str,
    one: Option<D>,
    other: Option<D>,
) -> Result<Option<D>, ExpectedDigestsError> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(ExpectedDigestsError::Conflict { digest }),
        (one, other) => Ok(one.or(other)),
    }
}

fn differing<D: PartialEq>(expected: Option<D>, actual: Option<D>) -> Option<(D, D)> {
    expected
        .zip(actual)
        .filter(|(expected, actual)| expected != actual)
}

/// Computes a CRC32C incrementally.
#[derive(Debug, Clone, Copy, Default)]
pub struct Crc32cHasher(Crc32c);

impl Crc32cHasher {
    /// Continues after bytes whose digest is known.
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

/// Computes MD5 and SHA-256 incrementally, those that are wanted.
///
/// ```
/// use windlass_proto::digest::{Md5Sha256Hasher, Wanted};
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
#[error("the saved state of a digest is damaged")]
pub struct RestoreError;

/// The first byte of a saved state is a bit set of the states that follow.
const SAVED_MD5: u8 = 1;
const SAVED_SHA256: u8 = 2;

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
        let mut saved = vec![0];
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
    pub fn restore(saved: &[u8]) -> Result<Self, RestoreError> {
        let (&present, mut states) = saved.split_first().ok_or(RestoreError)?;
        if present & !(SAVED_MD5 | SAVED_SHA256) != 0 {
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

/// The Castagnoli polynomial, lowest power first: bit 31 is 1, bit 30 is x, and x^32 is implied.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomials 1 and x.
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// x^(2^k) modulo the polynomial. Lengths have 64 bits, and a byte is eight powers of x.
const POWERS: [u32; 64 + 3] = powers();

///
/// Combines the CRC32Cs of two consecutive pieces.
///
/// A CRC is the remainder of a polynomial over GF(2). Appending n bytes to a piece multiplies its
/// remainder by x^(8n). With the powers x^(2^k) in a table, this takes one multiplication for each
/// bit set in n.
fn combine(first: Crc32c, next: Crc32c, next_len: u64) -> Crc32c {
    let bits = (0..64).filter(|bit| next_len >> bit & 1 == 1);
    let shifted = bits.fold(first.0, |crc, bit| product(crc, POWERS[bit + 3]));
    Crc32c(shifted ^ next.0)
}

/// Multiplies `a` and `b` modulo the polynomial.
const fn product(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut power = ONE;
    while power != 0 {
        if a & power != 0 {
            product ^= b;
        }
        b = if b & 1 == 0 {
            b >> 1
        } else {
            b >> 1 ^ POLYNOMIAL
        };
        power >>= 1;
    }
    product
}

const fn powers() -> [u32; 64 + 3] {
    let mut powers = [X; 64 + 3];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = product(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
}
