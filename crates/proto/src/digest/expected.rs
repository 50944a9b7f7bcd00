//! The digests that a client says its media has.

use std::str::FromStr;

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Crc32c, Digests, Md5, Sha256, Wanted};
use crate::header::{CONTENT_MD5, X_GOOG_HASH};

/// What a client says of its media. Nothing said, nothing is checked.
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

/// Why it is not known which digests the media should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExpectedDigestsError {
    /// A digest that cannot be read.
    #[error("The {digest} given in {place} is malformed.")]
    Malformed {
        /// The digest, by its name there.
        digest: &'static str,
        /// The header or the metadata.
        place: &'static str,
    },
    /// Two values for one digest.
    #[error("Two different values are given for the {digest} of the upload.")]
    Conflict {
        /// The digest.
        digest: &'static str,
    },
}

/// The media is not what the client says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestMismatch {
    /// By its CRC32C.
    #[error("Provided CRC32C \"{expected}\" doesn't match calculated CRC32C \"{actual}\".")]
    Crc32c {
        /// What the client said.
        expected: Crc32c,
        /// What arrived.
        actual: Crc32c,
    },
    /// By its MD5.
    #[error("Provided MD5 hash \"{expected}\" doesn't match calculated MD5 hash \"{actual}\".")]
    Md5 {
        /// What the client said.
        expected: Md5,
        /// What arrived.
        actual: Md5,
    },
    /// By its SHA-256.
    #[error(
        "Provided SHA-256 hash \"{expected}\" doesn't match calculated SHA-256 hash \"{actual}\"."
    )]
    Sha256 {
        /// What the client said.
        expected: Sha256,
        /// What arrived.
        actual: Sha256,
    },
}

impl ExpectedDigests {
    /// Reads `X-Goog-Hash`, which speaks of the whole media in whatever request it comes. Digests
    /// that are not known here are ignored.
    pub fn from_goog_hash(headers: &HeaderMap) -> Result<Self, ExpectedDigestsError> {
        let mut expected = Self::default();
        for value in headers.get_all(X_GOOG_HASH) {
            for entry in value.as_bytes().split(|byte| *byte == b',') {
                expected = expected.merge(goog_hash_entry(entry)?)?;
            }
        }
        Ok(expected)
    }

    /// Reads `Content-MD5`, which speaks of the body of its request: use it where that is the
    /// media.
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

    /// Reads both headers, of a request whose body is the media.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, ExpectedDigestsError> {
        Self::from_goog_hash(headers)?.merge(Self::from_content_md5(headers)?)
    }

    /// Reads the metadata's fields `crc32c` and `md5Hash` (base64), `md5Checksum` and
    /// `sha256Checksum` (hexadecimal). Fields that are not strings say nothing.
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

    /// What both say together.
    pub fn merge(self, other: Self) -> Result<Self, ExpectedDigestsError> {
        Ok(Self {
            crc32c: agreed("CRC32C", self.crc32c, other.crc32c)?,
            md5: agreed("MD5", self.md5, other.md5)?,
            sha256: agreed("SHA-256", self.sha256, other.sha256)?,
        })
    }

    /// The slow digests that are needed for the check.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            md5: self.md5.is_some(),
            sha256: self.sha256.is_some(),
        }
    }

    /// Compares with what arrived. A digest that was not computed is not compared: compute what is
    /// [`wanted`](Self::wanted).
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

/// `name=value`, of a list.
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
