//! The digest fields of HTTP that are about the whole media: `Repr-Digest` and `Want-Repr-Digest`
//! ([RFC 9530](https://www.rfc-editor.org/rfc/rfc9530); docs/protocol.md, 2.14).
//!
//! The fields are dictionaries of structured fields
//! ([RFC 9651](https://www.rfc-editor.org/rfc/rfc9651)), with the algorithms as keys. Here these are
//! `sha-256`, `md5` and `crc32c`, the digests that the server computes of media.

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Dictionary, ListEntry, Parser};
use windlass_digest::{Crc32c, Digests, ExpectedDigests, ExpectedDigestsError, Md5, Sha256};

use crate::command::ContentCoding;
use crate::header::{REPR_DIGEST, WANT_REPR_DIGEST};

#[cfg(test)]
mod tests;

const SHA_256: &str = "sha-256";
const MD5: &str = "md5";
const CRC32C: &str = "crc32c";

/// Reads `Repr-Digest`, which covers the whole media in any request. `coding` is the coding of the
/// body.
///
/// # Errors
/// If the field is malformed, covers coded bytes, or states digests of which the server computes
/// none. A field that states a digest that the server computes may state others, which are ignored.
pub fn from_repr_digest(
    headers: &HeaderMap,
    coding: ContentCoding,
) -> Result<ExpectedDigests, ExpectedDigestsError> {
    let place = "header Repr-Digest";
    let mut expected = ExpectedDigests::default();
    let Some(field) = dictionary(headers, &REPR_DIGEST) else {
        return Ok(expected);
    };
    if coding != ContentCoding::Identity {
        return Err(ExpectedDigestsError::OfCodedBytes { place });
    }
    let malformed = |digest| ExpectedDigestsError::Malformed { digest, place };
    let field = field.map_err(|_| malformed("dictionary"))?;
    for (algorithm, entry) in &field {
        match algorithm.as_str() {
            SHA_256 => expected.sha256 = Some(Sha256(bytes(entry).ok_or(malformed(SHA_256))?)),
            MD5 => expected.md5 = Some(Md5(bytes(entry).ok_or(malformed(MD5))?)),
            CRC32C => {
                let crc32c = bytes(entry).ok_or(malformed(CRC32C))?;
                expected.crc32c = Some(Crc32c(u32::from_be_bytes(crc32c)));
            }
            _ => {}
        }
    }
    if expected.is_empty() && !field.is_empty() {
        return Err(ExpectedDigestsError::Unsupported { place });
    }
    Ok(expected)
}

/// Returns the bytes of a member; `None` if it is no byte sequence of this length.
fn bytes<const LEN: usize>(entry: &ListEntry) -> Option<[u8; LEN]> {
    let ListEntry::Item(item) = entry else {
        return None;
    };
    item.bare_item.as_byte_sequence()?.try_into().ok()
}

/// Returns the algorithms in a field, each with its digest, which is `None` if it is no byte sequence.
/// `None` if the field is no dictionary.
pub(crate) fn members(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    let field = dictionary(headers, name)?.ok()?;
    let members = field.into_iter().map(|(algorithm, entry)| {
        let digest = match entry {
            ListEntry::Item(item) => item.bare_item.as_byte_sequence().map(<[u8]>::to_vec),
            ListEntry::InnerList(_) => None,
        };
        (algorithm.to_string(), digest)
    });
    Some(members.collect())
}

/// Returns a field as a dictionary; `None` without the field. Several lines are one field.
fn dictionary(headers: &HeaderMap, name: &HeaderName) -> Option<Result<Dictionary, sfv::Error>> {
    let lines: Vec<_> = headers
        .get_all(name)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if lines.is_empty() {
        return None;
    }
    Some(Parser::new(&lines.join(&b", "[..])).parse())
}

/// The digests that a client would like to get, as `Want-Repr-Digest` states them.
///
/// ```
/// use http::HeaderMap;
/// use windlass_digest::Digests;
/// use windlass_proto::digest_fields::DigestPreference;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("want-repr-digest", "sha-512=9, crc32c=3, md5=1".parse()?);
/// let preference = DigestPreference::from_headers(&headers);
/// let field = preference.repr_digest(&Digests::of(b"123456789"));
/// assert_eq!(field.expect("CRC32C is known"), "crc32c=:4waSgw==:");
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DigestPreference {
    // Weights from 0 to 10. The client does not accept a digest with the weight 0.
    sha256: u8,
    md5: u8,
    crc32c: u8,
}

impl DigestPreference {
    /// Reads the field. A malformed field and unknown algorithms are ignored, because a preference
    /// binds nobody.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let field = dictionary(headers, &WANT_REPR_DIGEST).and_then(Result::ok);
        let field = field.unwrap_or_default();
        let weight = |algorithm| field.get(algorithm).and_then(weight).unwrap_or(0);
        Self {
            sha256: weight(SHA_256),
            md5: weight(MD5),
            crc32c: weight(CRC32C),
        }
    }

    /// Returns the value of `Repr-Digest` for media with these digests: the known digest that the
    /// client prefers, the strongest of several. `None` if it accepts none of them.
    pub fn repr_digest(self, digests: &Digests) -> Option<HeaderValue> {
        let sha256 = digests.sha256.map(|it| (SHA_256, it.to_string()));
        let md5 = digests.md5.map(|it| (MD5, it.to_string()));
        let crc32c = Some((CRC32C, digests.crc32c.to_string()));
        let known = [
            (self.crc32c, crc32c),
            (self.md5, md5),
            (self.sha256, sha256),
        ];
        // Of equal weights the last one is taken.
        let (_, preferred) = known
            .into_iter()
            .filter(|(weight, digest)| *weight > 0 && digest.is_some())
            .max_by_key(|(weight, _)| *weight)?;
        let (algorithm, digest) = preferred?;
        HeaderValue::try_from(format!("{algorithm}=:{digest}:")).ok()
    }
}

/// Returns the weight of a member; `None` if it is no integer from 0 to 10.
fn weight(entry: &ListEntry) -> Option<u8> {
    let ListEntry::Item(item) = entry else {
        return None;
    };
    let BareItem::Integer(weight) = item.bare_item else {
        return None;
    };
    u8::try_from(i64::from(weight)).ok().filter(|it| *it <= 10)
}
