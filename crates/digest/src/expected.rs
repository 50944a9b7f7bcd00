//! The digests that a client states for its media.

use serde::{Deserialize, Serialize};

use crate::{Crc32c, Digests, Md5, Sha256, Wanted};

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
    /// Only digests that the server does not compute are stated.
    #[error("The {place} states none of the digests that can be checked: sha-256, md5, crc32c.")]
    Unsupported {
        /// Where they were stated.
        place: &'static str,
    },
    /// A digest of coded bytes is stated, which are decoded before they are stored.
    #[error("The {place} covers compressed bytes, which are not stored.")]
    OfCodedBytes {
        /// Where it was stated.
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
    /// Combines two sets of stated digests.
    pub fn merge(self, other: Self) -> Result<Self, ExpectedDigestsError> {
        Ok(Self {
            crc32c: agreed("CRC32C", self.crc32c, other.crc32c)?,
            md5: agreed("MD5", self.md5, other.md5)?,
            sha256: agreed("SHA-256", self.sha256, other.sha256)?,
        })
    }

    /// Whether no digest is stated.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the digests as bytes, for [`decode`](Self::decode). Without any, returns none.
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = vec![FORMAT];
        let mut add = |digest: Option<&[u8]>| {
            bytes.push(u8::from(digest.is_some()));
            bytes.extend_from_slice(digest.unwrap_or_default());
        };
        add(self
            .crc32c
            .map(|crc32c| crc32c.0.to_be_bytes())
            .as_ref()
            .map(|it| &it[..]));
        add(self.md5.as_ref().map(|md5| &md5.0[..]));
        add(self.sha256.as_ref().map(|sha256| &sha256.0[..]));
        bytes
    }

    /// Returns the digests that [`encode`](Self::encode) has returned as bytes. `None` if the bytes
    /// are of another version of the program, or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let Some((version, mut rest)) = bytes.split_first() else {
            return Some(Self::default());
        };
        let mut expected = Self::default();
        if let Stated::Digest(crc32c) = Stated::take(&mut rest)? {
            expected.crc32c = Some(Crc32c(u32::from_be_bytes(crc32c)));
        }
        if let Stated::Digest(md5) = Stated::take(&mut rest)? {
            expected.md5 = Some(Md5(md5));
        }
        if let Stated::Digest(sha256) = Stated::take(&mut rest)? {
            expected.sha256 = Some(Sha256(sha256));
        }
        (*version == FORMAT && rest.is_empty()).then_some(expected)
    }

    /// Returns the slow digests that [`check`](Self::check) needs.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            md5: self.md5.is_some(),
            sha256: self.sha256.is_some(),
        }
    }

    /// Compares the stated digests with the computed digests. A digest that was not computed is not
    /// compared, so compute the digests that are [`wanted`](Self::wanted).
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

/// Version of the bytes that [`ExpectedDigests::encode`] returns.
const FORMAT: u8 = 1;

/// One encoded digest.
enum Stated<const LEN: usize> {
    Absent,
    Digest([u8; LEN]),
}

impl<const LEN: usize> Stated<LEN> {
    /// Takes a digest from the bytes. `None` if they are damaged.
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (present, rest) = bytes.split_first()?;
        if *present == 0 {
            *bytes = rest;
            return Some(Self::Absent);
        }
        let (digest, rest) = rest.split_first_chunk()?;
        *bytes = rest;
        Some(Self::Digest(*digest))
    }
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
