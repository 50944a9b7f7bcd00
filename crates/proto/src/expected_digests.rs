//! Reads the digests that a client states, from headers and from metadata (docs/protocol.md, 2.14).

use std::str::FromStr;

use http::HeaderMap;
use serde_json::{Map, Value};
use windlass_digest::{Crc32c, ExpectedDigests, ExpectedDigestsError, Md5, Sha256};

use crate::header::{CONTENT_MD5, X_GOOG_HASH};

#[cfg(test)]
mod tests;

/// Reads `X-Goog-Hash`, which covers the whole media in any request. Unknown digests are
/// ignored.
pub fn from_goog_hash(headers: &HeaderMap) -> Result<ExpectedDigests, ExpectedDigestsError> {
    let mut expected = ExpectedDigests::default();
    for value in headers.get_all(X_GOOG_HASH) {
        for entry in value.as_bytes().split(|byte| *byte == b',') {
            expected = expected.merge(goog_hash_entry(entry)?)?;
        }
    }
    Ok(expected)
}

/// Reads `Content-MD5`, which covers the body of its request. Use it where the body is the
/// whole media.
pub fn from_content_md5(headers: &HeaderMap) -> Result<ExpectedDigests, ExpectedDigestsError> {
    let mut expected = ExpectedDigests::default();
    for value in headers.get_all(CONTENT_MD5) {
        let text = value.to_str().unwrap_or_default().trim_ascii();
        let md5 = read(text, "MD5", "header Content-MD5", Md5::from_str)?;
        expected = expected.merge(ExpectedDigests {
            md5: Some(md5),
            ..ExpectedDigests::default()
        })?;
    }
    Ok(expected)
}

/// Reads the metadata's fields `crc32c` and `md5Hash` (base64), `md5Checksum` and
/// `sha256Checksum` (hexadecimal). Fields that are not strings are ignored.
pub fn from_metadata(
    metadata: &Map<String, Value>,
) -> Result<ExpectedDigests, ExpectedDigestsError> {
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
    let of_storage = ExpectedDigests {
        crc32c: field(metadata, "crc32c", Crc32c::from_str)?,
        md5: field(metadata, "md5Hash", Md5::from_str)?,
        sha256: None,
    };
    of_storage.merge(ExpectedDigests {
        crc32c: None,
        md5: field(metadata, "md5Checksum", Md5::from_hex)?,
        sha256: field(metadata, "sha256Checksum", Sha256::from_hex)?,
    })
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
