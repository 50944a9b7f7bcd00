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
