//! Digests that a client states for its media.

use std::str::FromStr;

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Crc32c, Digests, Md5, Sha256, Wanted};
use crate::header::{CONTENT_MD5, X_GOOG_HASH};

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
